package fact

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// State is an operation's state. See docs/state-machine.md.
type State string

// The states of an operation.
const (
	StateAccepted  State = "accepted"
	StateHeld      State = "held"
	StateSending   State = "sending"
	StateWaiting   State = "waiting"
	StateOpen      State = "open"
	StateReview    State = "review"
	StateRejected  State = "rejected"
	StateDelivered State = "delivered"
	StateRefunded  State = "refunded"
	StateCompleted State = "completed"
	StatePartial   State = "partial"
	StateFailed    State = "failed"
	StateResolved  State = "resolved"
)

// States lists all states of an operation.
var States = []State{
	StateAccepted, StateHeld, StateSending, StateWaiting, StateOpen, StateReview,
	StateRejected, StateDelivered, StateRefunded, StateCompleted, StatePartial, StateFailed, StateResolved,
}

// Ended reports whether the state is final: nothing more happens automatically, and no
// review is open.
func (s State) Ended() bool {
	switch s {
	case StateRejected, StateDelivered, StateRefunded, StateCompleted, StatePartial, StateFailed, StateResolved:
		return true
	case StateAccepted, StateHeld, StateSending, StateWaiting, StateOpen, StateReview:
	}
	return false
}

// Operation is the execution of one command, or of one chunk of a command. It has one idempotency
// key and one stored body. ChargedCents is before refunds.
type Operation struct {
	ID               string
	CommandID        string
	Kind             Kind
	Chunk            string
	Generation       int64
	Key              string
	State            State
	Version          int64
	Reason           string
	Code             string
	TraceID          string
	AppID            string
	Attempts         int64
	Ambiguous        int64 // attempts that may have been executed
	BodySeq          int64 // journal row with the stored body; 0 before there is one
	FirstSentAt      *time.Time
	FirstAmbiguousAt *time.Time
	NextAt           *time.Time
	ProgressAt       *time.Time
	ReadAt           *time.Time // last read of its order
	UnreadSince      *time.Time // since when reads of its order have failed; nil if the last read succeeded
	OrderNo          string
	ExpectedCount    int64
	DeliveredCount   int64
	EstimateCents    int64
	ChargedCents     int64
	RefundedCents    int64
	AcceptedAt       time.Time
	UpdatedAt        time.Time
}

// MaybeSentAt returns the earliest time at which the operation may have been sent. It returns nil
// if the operation cannot have been sent. After a restore, an operation may be presumed sent. For
// such an operation, MaybeSentAt returns the start of the lost time, even if the ledger knows of
// a later request.
func (o Operation) MaybeSentAt() *time.Time {
	if o.FirstSentAt == nil || o.FirstAmbiguousAt != nil && o.FirstAmbiguousAt.Before(*o.FirstSentAt) {
		return o.FirstAmbiguousAt
	}
	return o.FirstSentAt
}

// Kind says what an operation does at the provider. Every switch over kinds is exhaustive, so
// that the linter finds the places that a new kind must extend.
type Kind string

// The kinds of operation (customer-api.md, Endpoints: POST orders, POST proxies/renew).
const (
	KindOrder   Kind = "order"
	KindRenewal Kind = "renewal"
)

// OfProxies reports whether operations of the kind act on existing proxies. Such operations have
// a line for each proxy.
func (k Kind) OfProxies() bool {
	switch k {
	case KindRenewal:
		return true
	case KindOrder:
	}
	return false
}

// MakesOrder reports whether operations of the kind make an order at the provider. Such
// operations have an order number.
func (k Kind) MakesOrder() bool {
	switch k {
	case KindOrder:
		return true
	case KindRenewal:
	}
	return false
}

// Renewal is a successful renewal of one proxy.
type Renewal struct {
	// ObservedExpiresAt is the expiry that the renewal paid for. It is nil if that expiry is
	// unknown.
	ObservedExpiresAt *time.Time
	DurationDays      int64
	SettledAt         time.Time
}

// unended has the states of an unfinished command, in order of precedence.
var unended = []State{StateReview, StateHeld, StateSending, StateWaiting, StateOpen, StateAccepted}

// CommandState returns the state of a command with these operations. A command has ended when all
// its operations have ended; if they ended differently, it is "partial". For an unfinished
// command, the operations are searched for each state in unended, and the first state found is
// returned. An ended operation does not count if other operations replaced it, after a split or
// because it was sent again. An operation whose lines were all renewed in the end counts as
// completed. lines returns the states of an operation's lines by proxy.
func CommandState(operations []Operation, lines func(operationID string) (map[string]LineState, error)) (string, error) {
	counts, latest := make(map[State]int), LatestOf(operations)
	for _, o := range operations {
		if o.State.Ended() && latest.Superseded(o) {
			continue
		}
		state := o.State
		if state == StatePartial || state == StateResolved && len(operations) > 1 {
			of, err := lines(o.ID)
			if err != nil {
				return "", err
			}
			state, err = latest.byLines(o, of, func(proxy string) (bool, error) { return sentAgain(operations, o, proxy, lines) })
			if err != nil {
				return "", err
			}
			if state == "" {
				continue
			}
		}
		counts[state]++
	}
	for _, s := range unended {
		if counts[s] > 0 {
			return string(s), nil
		}
	}
	if len(counts) == 1 {
		return string(slices.Collect(maps.Keys(counts))[0]), nil
	}
	return string(StatePartial), nil
}

// Generations has the latest generation of each chunk of a command.
type Generations map[string]int64

// LatestOf returns the latest generation of each chunk. An operation with an earlier
// generation was sent again under a later key.
func LatestOf(operations []Operation) Generations {
	latest := make(Generations, len(operations))
	for _, o := range operations {
		latest[o.Chunk] = max(latest[o.Chunk], o.Generation)
	}
	return latest
}

// Superseded reports whether other operations took over this operation's work.
func (g Generations) Superseded(o Operation) bool {
	return !ofLine(o.Chunk) && g[o.Chunk+"a"] > 0 || g[o.Chunk] > o.Generation
}

// ofLine reports whether a chunk is a single line that was sent again: CHUNK/PROXY. Such a
// chunk is never split, so an "a" at its end is part of a proxy's id.
func ofLine(chunk string) bool { return strings.Contains(chunk, "/") }

// LineChunk returns the chunk name under which one line of a chunk is sent again. If the chunk
// already is a single line, it returns the chunk itself, because CHUNK/PROXY/PROXY could also be
// another proxy's line.
func LineChunk(chunk, proxyID string) string {
	if ofLine(chunk) {
		return chunk
	}
	return chunk + "/" + proxyID
}

// byLines returns the state of an operation whose lines may have been sent again. It is completed
// if each line was renewed, skipped or sent again. It is "" if all lines were sent again, because
// only the later operations count in that case.
func (g Generations) byLines(o Operation, lines map[string]LineState, sentAgain func(proxy string) (bool, error)) (State, error) {
	again := 0
	for proxy, state := range lines {
		if g[o.Chunk+"/"+proxy] > o.Generation {
			sent, err := sentAgain(proxy)
			if err != nil {
				return "", err
			}
			if sent {
				again++
				continue
			}
		}
		if state != LineSucceeded && state != LineCharged && state != LineSkipped {
			return o.State, nil
		}
	}
	switch len(lines) {
	case 0:
		return o.State, nil
	case again:
		return "", nil
	}
	return StateCompleted, nil
}

// sentAgain reports whether a later operation contains this line. The name of the chunk is enough
// to decide, unless o is a single line or the proxy's id has a slash. Versions without LineChunk
// sent line x of CHUNK/x again as CHUNK/x/x. Line x/x of CHUNK has the same name.
func sentAgain(operations []Operation, o Operation, proxy string, lines func(string) (map[string]LineState, error)) (bool, error) {
	for _, x := range operations {
		if x.Chunk != o.Chunk+"/"+proxy || x.Generation <= o.Generation {
			continue
		}
		if !ofLine(o.Chunk) && !strings.Contains(proxy, "/") {
			return true, nil
		}
		of, err := lines(x.ID)
		if err != nil {
			return false, err
		}
		if _, ok := of[proxy]; ok {
			return true, nil
		}
	}
	return false, nil
}

// SkipCode says why a proxy was left out of a renewal.
type SkipCode string

// Reasons for skipping a proxy.
const (
	SkipClaimed    SkipCode = "claimed"       // another operation has reserved it
	SkipNotFound   SkipCode = "not_found"     // the provider does not know it
	SkipNoExpiry   SkipCode = "no_expiry"     // it never expires
	SkipMoved      SkipCode = "expiry_moved"  // its expiry differs from the expected expiry in the command
	SkipNotDue     SkipCode = "not_due"       // it expires after due_before of the command
	SkipRenewed    SkipCode = "renewed"       // a renewal for this expiry has succeeded
	SkipNotShown   SkipCode = "maybe_renewed" // a renewal has succeeded that the provider may not show yet
	SkipRetired    SkipCode = "retired"
	SkipUnreadable SkipCode = "unreadable" // it cannot be read at the provider
	SkipOther      SkipCode = "other"      // for the remaining proxies if there are too many different reasons
)

// SkipCodes lists all skip codes.
var SkipCodes = []SkipCode{
	SkipClaimed, SkipNotFound, SkipNoExpiry, SkipMoved, SkipNotDue, SkipRenewed, SkipNotShown, SkipRetired, SkipUnreadable, SkipOther,
}

// HeldCode says why an operation is on hold.
type HeldCode string

// Reasons for putting an operation on hold.
const (
	HeldDailyLimit   HeldCode = "daily_limit"   // its cost would exceed daily_limit_cents
	HeldUnknownPrice HeldCode = "unknown_price" // its price is unknown, so no limit can be enforced
	HeldNoCIDRField  HeldCode = "no_cidr_field" // the configuration has no API field for its CIDRs
)

// HeldCodes lists all held codes.
var HeldCodes = []HeldCode{HeldDailyLimit, HeldUnknownPrice, HeldNoCIDRField}

// SweepHeldCode says why a plan, or a part of it, is held.
type SweepHeldCode string

// Reasons for holding a plan.
const (
	SweepHeldApproval    SweepHeldCode = "approval"
	SweepHeldEarlierPlan SweepHeldCode = "earlier_plan" // the plan of an earlier scheduled time needs approval first
	SweepHeldBudget      SweepHeldCode = "budget"
	SweepHeldDay         SweepHeldCode = "daily_budget"
	SweepHeldMonth       SweepHeldCode = "monthly_budget"
	SweepHeldDailyLimit  SweepHeldCode = "daily_limit" // the account's daily limit
	SweepHeldWallet      SweepHeldCode = "wallet"
)

// SweepHeldCodes lists all codes of held plans.
var SweepHeldCodes = []SweepHeldCode{SweepHeldApproval, SweepHeldEarlierPlan, SweepHeldBudget, SweepHeldDay, SweepHeldMonth, SweepHeldDailyLimit, SweepHeldWallet}
