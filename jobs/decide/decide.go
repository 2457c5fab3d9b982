// Decide, with what goes in (Operation, Happened) and what comes out (Decision), and the
// decisions that are of no single kind.

package decide

import (
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// Window is how long an operation that may have executed is sent again under
// its key. The provider keeps completed keys 24 hours (customer-api.md,
// Idempotency record), counted from an instant that it does not give.
const Window = 20 * time.Hour

// Operation is what is decided on: the ledger's record and what its command
// froze.
type Operation struct {
	fact.Operation
	Labels       map[string]string
	ProxyIDs     []string // of a renewal, in the order of the body
	DurationDays int64
	Binding      fact.Binding // of the account
	OfferCode    string       // of an order that names one offer only
	Ordered      int64        // proxies, of an order
	Trace        fact.Trace   // of the command's message
}

// Ref is what each fact of the operation carries.
func (o Operation) Ref(traceID string) fact.Ref {
	return fact.Ref{CommandID: o.CommandID, OperationID: o.ID, Labels: o.Labels, TraceID: traceID, Trace: o.Trace}
}

// Moment is what a decision takes from its caller: the time, and a random number in
// [0, 1) to spread retries.
type Moment struct {
	Now    time.Time
	Jitter float64
}

// Happened is one thing that happened to an operation.
type Happened interface{ moment() Moment }

func (m Moment) moment() Moment { return m }

// Replied is a POST that was tried, with all that is known of it.
type Replied struct {
	Moment
	Reply upstream.Reply
	// Elapsed is the time since the first ambiguous attempt, by the clock that says longest.
	Elapsed time.Duration
	// Throttled counts the replies in a row before this one that asked the account to
	// wait, Firewalls those in 401/403 that were no envelope.
	Throttled, Firewalls int
	// ReadsWork says that a signed GET succeeded after this reply's invalid_signature.
	ReadsWork bool
	// Unknown are proxies of the operation of which a read just before said
	// proxy_not_found.
	Unknown []string
	// Observed are the expiries that the attempt was to pay for, where they are known.
	Observed map[string]time.Time
}

// CrashedMidSend says that the process died between operation.sending and the record
// of a reply.
type CrashedMidSend struct {
	Moment
	Elapsed time.Duration
}

// Due says that the time of a waiting operation has come, with what a send depends on.
type Due struct {
	Moment
	Elapsed time.Duration
	// AppID is the key that would be used now.
	AppID string
	// NotAfter is the command's own deadline for its first send.
	NotAfter *time.Time
	// WrongClock is why the machine's clock cannot be trusted, "" when it can.
	WrongClock string
}

// OrderRead says that the order's detail was read.
type OrderRead struct {
	Moment
	Order     upstream.Order
	PollFloor time.Duration
}

// OrderReadFailed says that the order's detail could not be read.
type OrderReadFailed struct {
	Moment
	Code    upstream.Code // "" when no envelope came
	TraceID string
	Reason  string
	// RetryAfter is what the provider asked for, of a read that it refused for that.
	RetryAfter upstream.RetryAfter
	// Unaskable says that no request can name the order, so that no later one will.
	Unaskable bool
	// Garbled says that HTTP 2xx came with a body that is no envelope.
	Garbled bool
}

// TooLate says that a decision on the operation came after a person or another runner
// had settled it.
type TooLate struct {
	Moment
	Decision Decision
}

// Unrecordable says that the ledger can never hold a decision on the operation (trap 72).
type Unrecordable struct {
	Moment
	Decision Decision
	Why      string
}

// HoldEnded says that the time that the operation was held for has passed.
type HoldEnded struct{ Moment }

// Presumed reports whether an attempt may have executed of which a restored ledger
// holds nothing: no bytes are frozen.
func (o Operation) Presumed() bool { return o.Ambiguous > 0 && o.BodySeq == 0 }

// Decision is the facts to append, then what to do.
type Decision struct {
	Facts []fact.Fact
	// Send says that the operation may be sent. Facts are appended with the intent.
	Send bool
	// ProxyIDs are what is still to be renewed.
	ProxyIDs []string
	// Estimate is what the attempt is expected to cost, where all of it is known.
	Estimate fact.Cents
	// Postponed: what must be read first could not be. Under a pause the operation
	// waits with the others, and nothing is recorded.
	Postponed bool
	// Throttled says that the reply asked the account to wait.
	Throttled bool
	// Pause the account, or a kind of operation, too.
	Pause *Pause
	// Firewall says that the reply is a 401 or 403 that is no envelope.
	Firewall bool
}

// Inconclusive is why the attempt told nothing of what became of it, so that it is made
// again; "" where it did.
func (d Decision) Inconclusive() string {
	for _, f := range d.Facts {
		switch f := f.(type) {
		case fact.OperationWaiting:
			return f.Reason
		case fact.OperationUnsent:
			return f.Reason
		}
	}
	return ""
}

// Decide is the only place that decides what a reply or a read of the provider, a
// price, a limit or a passed time means for an operation. It reads no clock and
// does no I/O. The reply table of docs/state-machine.md is its specification.
func Decide(op Operation, h Happened) Decision {
	switch h := h.(type) {
	case Replied:
		return decideReply(op, h)
	case CrashedMidSend:
		return crashed(op, h)
	case Due:
		return decideDue(op, h)
	case OrderRead:
		return decideOrder(op, h)
	case OrderReadFailed:
		return decideReadFailed(op, h)
	case PrecheckFailed:
		return decidePrecheckFailed(op, h)
	case Prechecked:
		return decidePrechecked(op, h)
	case Priced:
		return decidePriced(op, h)
	case TurnCame:
		return decideTurn(op, h)
	case TooLate:
		return decideTooLate(op, h)
	case Unrecordable:
		return decideUnrecordable(op, h)
	case HoldEnded:
		return Decision{Facts: []fact.Fact{fact.CommandReleased{
			Ref: op.Ref(""), By: "perennial", Reason: "the time it was held for has passed", Automatic: true,
		}}}
	}
	panic("decide: Decide was given something that does not happen")
}

// decideDue decides whether an operation is sent now. One that may have executed goes
// again only while the clock can be trusted, inside the window, and under the App ID of
// its earlier attempts.
func decideDue(op Operation, h Due) Decision {
	if op.Ambiguous == 0 {
		if h.NotAfter != nil && h.Now.After(*h.NotAfter) {
			return rejected(op, Verdict{code: "not_after", Reason: "not_after has passed and nothing was sent: nothing was charged"})
		}
		return Decision{Send: true}
	}
	if h.WrongClock != "" {
		return Decision{Pause: &Pause{Scope: ScopeAccount, Cause: CauseClock, Detail: h.WrongClock}}
	}
	if op.Presumed() && h.NotAfter != nil && h.Now.After(*h.NotAfter) {
		return review(op, notExecuted, Verdict{Reason: "not_after has passed, and it may have been sent before the ledger was restored"})
	}
	if h.Elapsed >= Window {
		return review(op, notExecuted, Verdict{Reason: "no conclusive reply in 20 hours: the provider may have forgotten the key, so it is not sent again"})
	}
	if op.AppID != h.AppID {
		return review(op, notExecuted, Verdict{Reason: "an attempt under App ID " + op.AppID + " may have executed, and whether another key shares its idempotency keys is not given"})
	}
	return Decision{Send: true}
}

// decideTooLate keeps what would have been decided as a discrepancy.
func decideTooLate(op Operation, h TooLate) Decision {
	last := h.Decision.Facts[len(h.Decision.Facts)-1]
	return Decision{Facts: []fact.Fact{fact.LedgerDiscrepancy{
		Ref: op.Ref(""), Finding: FindingLate, OrderNo: op.OrderNo,
		Explanation: "a reply came after the operation was settled by a person or another runner: it would have been " + last.FactType(),
	}}}
}

// decideUnrecordable hands the operation to a person, with the money that a read of its
// order books. What was sent may have executed.
func decideUnrecordable(op Operation, h Unrecordable) Decision {
	v := Verdict{Reason: fact.Bounded("what the provider answered cannot be recorded: " + h.Why)}
	d := review(op, executed(op.State == fact.StateSending), v)
	for _, f := range h.Decision.Facts {
		switch f := f.(type) {
		case fact.OrderDelivered:
			d.Facts = append(progressed(f.OrderState, op.UpdatedAt, v.Reason).Facts, d.Facts...)
		case fact.OrderRefunded:
			d.Facts = append(progressed(f.OrderState, op.UpdatedAt, v.Reason).Facts, d.Facts...)
		}
	}
	return d
}

// crashed keeps an operation whose attempt has no recorded reply. Its request, also that
// of another runner, may still arrive: it goes again under the same key.
func crashed(op Operation, h CrashedMidSend) Decision {
	return again(op, h.Moment, h.Elapsed, Verdict{Reason: "the runner stopped before a reply was recorded"})
}

// again keeps an operation that may have executed under its key, until the
// window ends.
func again(op Operation, m Moment, elapsed time.Duration, v Verdict) Decision {
	return againAt(op, elapsed, m.Now.Add(backoff(op.Ambiguous, m.Jitter)), v)
}

func againAt(op Operation, elapsed time.Duration, next time.Time, v Verdict) Decision {
	if elapsed >= Window {
		v.Reason += "; 20 hours have passed since the first attempt that may have executed"
		return review(op, maybeExecuted, v)
	}
	return waiting(op, maybeExecuted, next, v)
}

// Backoff of attempts, full jitter.
const (
	BackoffFirst = time.Second
	backoffMost  = 5 * time.Minute
)

// backoff is a random part of a bound that doubles with every attempt.
func backoff(attempts int64, jitter float64) time.Duration {
	bound := backoffMost
	if attempts < 9 {
		bound = min(backoffMost, BackoffFirst<<attempts)
	}
	return time.Duration(jitter * float64(bound))
}

// executed says whether the present attempt may have executed.
type executed bool

const (
	maybeExecuted executed = true  // it counts as an ambiguous attempt
	notExecuted   executed = false // only earlier attempts may have
)

// waiting sends the operation again at next, under the same key.
func waiting(op Operation, e executed, next time.Time, v Verdict) Decision {
	return Decision{Facts: []fact.Fact{fact.OperationWaiting{
		Ref: op.Ref(v.TraceID), Attempt: op.Attempts, Code: string(v.code), HTTPStatus: v.status, Reason: v.Reason,
		Ambiguous: bool(e), NextAt: next.UTC(),
	}}}
}

// review hands the operation to a person.
func review(op Operation, e executed, v Verdict) Decision {
	return Decision{Facts: []fact.Fact{fact.OperationReview{
		Ref: op.Ref(v.TraceID), Attempt: op.Attempts, Code: string(v.code), HTTPStatus: v.status, Reason: v.Reason, Ambiguous: bool(e),
	}}}
}

// rejected ends the operation with nothing charged.
func rejected(op Operation, v Verdict) Decision {
	return Decision{Facts: []fact.Fact{fact.CommandRejected{
		Ref: op.Ref(v.TraceID), Code: string(v.code), Reason: v.Reason, Attempt: op.Attempts,
		ShortOfMoney: v.code == upstream.CodeInsufficientWallet,
	}}}
}

// refusedBefore refuses an operation of which nothing was sent.
func refusedBefore(op Operation, leftOut []fact.Fact, code upstream.Code, reason string) Decision {
	if op.Ambiguous > 0 {
		return changedSince(op)
	}
	return Decision{Facts: append(leftOut, rejected(op, Verdict{code: code, Reason: reason}).Facts...)}
}

// changedSince decides on an operation that may have been sent before a restore. What is
// read now does not refuse or shorten it: its own forgotten attempt may have made the
// change.
func changedSince(op Operation) Decision {
	return review(op, notExecuted, Verdict{Reason: "the ledger was restored and it may have been sent before; it would not be sent as things stand now"})
}

// holdBack keeps an operation from being sent, until a time or until a person releases it.
func holdBack(op Operation, leftOut []fact.Fact, f fact.CommandHeld) Decision {
	f.Ref = op.Ref("")
	return Decision{Facts: append(leftOut, f)}
}
