// Package life decides what a runner does next with one of its accounts.
//
// An account is always in one [Phase]. A phase ends with an [Outcome], and [After] says
// which phase follows and whether the runner waits before it. The package is pure: it knows
// no account, no clock and no NATS. docs/state-machine.md prints [Arrows].
package life

import "slices"

// Phase is what a runner does with an account.
type Phase string

// The phases, in the order of a life without faults.
const (
	Closed     Phase = "closed"      // NATS, the streams and the ledger are made ready
	Following  Phase = "following"   // the events are folded, and the lease is asked for
	TakingOver Phase = "taking over" // with the lease: the events are read to their end
	Leading    Phase = "leading"     // commands are taken and requests are sent
	Stopped    Phase = "stopped"     // until the program is started again
)

// Phases lists all phases.
var Phases = []Phase{Closed, Following, TakingOver, Leading, Stopped}

// Outcome is how a phase ended.
type Outcome string

// The outcomes.
const (
	Done       Outcome = "done"        // the phase has done its work
	Stop       Outcome = "stop"        // the program stops
	Refused    Outcome = "refused"     // the ledger belongs to another history or provider account
	HandedOver Outcome = "handed over" // another runner should lead
	Outdated   Outcome = "outdated"    // a later version wrote an event that this one cannot fold
	LeaseLost  Outcome = "lease lost"  // another runner may lead already
	Unusable   Outcome = "unusable"    // the ledger's file is lost, damaged, or ends before the stream begins
	Failed     Outcome = "failed"      // anything else
)

// Outcomes lists all outcomes.
var Outcomes = []Outcome{Done, Stop, Refused, HandedOver, Outdated, LeaseLost, Unusable, Failed}

// Arrow says which phase follows From after an outcome.
type Arrow struct {
	From    []Phase
	Outcome Outcome
	To      Phase
	Waits   bool   // the runner waits before, longer after each failure
	Why     string // for people
}

var (
	serving = []Phase{TakingOver, Leading}
	started = []Phase{Closed, Following, TakingOver, Leading}
)

// Arrows are all arrows. A pair of phase and outcome has one at most.
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

// After returns the arrow that a phase's outcome takes. An outcome that the phase does not
// have counts as a failure.
func After(p Phase, o Outcome) Arrow {
	for _, a := range Arrows {
		if a.Outcome == o && slices.Contains(a.From, p) {
			return a
		}
	}
	return Arrow{From: []Phase{p}, Outcome: o, To: Closed, Waits: true}
}
