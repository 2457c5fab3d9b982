// Package life decides what a runner does next with one of its accounts.
//
// An account is always in one [Phase]. A phase ends with an [Outcome]. [After] returns the
// phase that follows and whether the runner waits first. The package is pure: it does no I/O
// and reads no clock. docs/state-machine.md prints [Arrows].
package life

import "slices"

// Phase is what a runner currently does with an account.
type Phase string

// The phases, in the order in which a runner without faults enters them.
const (
	Closed     Phase = "closed"      // the runner makes NATS, the streams and the ledger ready
	Following  Phase = "following"   // the runner applies the leader's events and asks for the lease
	TakingOver Phase = "taking over" // the runner has the lease and reads the events to their end
	Leading    Phase = "leading"     // the runner takes commands and sends requests
	Stopped    Phase = "stopped"     // the runner does nothing until the program is restarted
)

// Phases lists all phases.
var Phases = []Phase{Closed, Following, TakingOver, Leading, Stopped}

// Outcome is how a phase ended.
type Outcome string

// The outcomes of a phase.
const (
	Done       Outcome = "done"        // the phase did its work
	Stop       Outcome = "stop"        // the program stops
	Refused    Outcome = "refused"     // the ledger does not belong to the stream's history or the provider's account, or two accounts use one provider's account
	HandedOver Outcome = "handed over" // another runner should lead
	Outdated   Outcome = "outdated"    // a later version of the program wrote an event that this version cannot apply
	LeaseLost  Outcome = "lease lost"  // another runner may already lead
	Unusable   Outcome = "unusable"    // the ledger's file is lost or damaged, or the ledger ends before the stream begins
	Failed     Outcome = "failed"      // any other failure
)

// Outcomes lists all outcomes.
var Outcomes = []Outcome{Done, Stop, Refused, HandedOver, Outdated, LeaseLost, Unusable, Failed}

// Arrow is one transition. If a phase in From ends with Outcome, the phase To follows.
type Arrow struct {
	From    []Phase
	Outcome Outcome
	To      Phase
	Waits   bool   // the runner waits before the transition, longer after each failure
	Why     string // text for operators, printed in docs/state-machine.md
}

var (
	serving = []Phase{TakingOver, Leading}
	started = []Phase{Closed, Following, TakingOver, Leading}
)

// Arrows lists all transitions. Each pair of phase and outcome has at most one.
var Arrows = []Arrow{
	{[]Phase{Closed}, Done, Following, false, "NATS is connected, the streams have the required settings, and the ledger is open"},
	{[]Phase{Following}, Done, TakingOver, false, "this runner holds the lease; with the embedded server there is no lease to wait for"},
	{[]Phase{TakingOver}, Done, Leading, false, "the ledger has every event of the stream"},
	{serving, HandedOver, Following, false, "work in progress is finished, and the lease is returned"},
	{serving, Outdated, Following, false, "the lease is returned, and not requested again before the program is upgraded"},
	{serving, LeaseLost, Closed, true, "nothing more is sent or written"},
	{started, Unusable, Closed, true, "with an external NATS the ledger is rebuilt from the events"},
	{started, Failed, Closed, true, "NATS, the streams, the disk or the provider failed, or another runner has a longer ledger"},
	{started, Refused, Stopped, false, "an operator must act; nothing is sent from the wrong ledger"},
	{started, Stop, Stopped, false, "work in progress is finished, and the last events are published"},
}

// After returns the transition from phase p after outcome o. If Arrows has no such pair, the
// outcome counts as a failure.
func After(p Phase, o Outcome) Arrow {
	for _, a := range Arrows {
		if a.Outcome == o && slices.Contains(a.From, p) {
			return a
		}
	}
	return Arrow{From: []Phase{p}, Outcome: o, To: Closed, Waits: true}
}
