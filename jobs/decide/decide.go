package decide

import (
	"fmt"
	"strings"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// Window is how long an operation that may have executed is retried under its key. The
// provider keeps completed keys for 24 hours (customer-api.md, Idempotency record). It does
// not say from which instant, so Window is shorter.
const Window = 20 * time.Hour

// Operation is the input of a decision: the ledger's record of an operation, and the parts
// of its command that never change.
type Operation struct {
	fact.Operation
	Labels       map[string]string
	ProxyIDs     []string // in the order of the request body; renewals only
	DurationDays int64
	Binding      fact.Binding // the account's binding
	OfferCode    string       // the order's only offer; "" if it has several
	Ordered      int64        // number of proxies ordered
	Trace        fact.Trace   // trace of the command's message

	// OnlyPresumed says that the operation has only one attempt that may have executed, and that
	// this attempt is presumed after a restore. The stored body belongs to a request that did not
	// execute.
	OnlyPresumed bool
}

// Ref returns the reference to the operation for its facts.
func (o Operation) Ref(traceID string) fact.Ref {
	return fact.Ref{CommandID: o.CommandID, OperationID: o.ID, Labels: o.Labels, TraceID: traceID, Trace: o.Trace}
}

// Moment is the time of a decision, and a random number in [0, 1) that spreads retries.
type Moment struct {
	Now    time.Time
	Jitter float64
}

// Happened is an event that Decide decides on.
type Happened interface{ moment() Moment }

func (m Moment) moment() Moment { return m }

// Replied is the result of a POST attempt.
type Replied struct {
	Moment
	Reply upstream.Reply
	// Elapsed is the time since the first attempt that may have executed. If the clocks differ,
	// it is the longest of their measurements.
	Elapsed time.Duration
	// Throttled counts the preceding consecutive rate-limit replies. Firewalls counts the
	// preceding consecutive 401/403 replies without an envelope.
	Throttled, Firewalls int
	// ReadsWork says that a signed GET succeeded after the reply had refused the POST's
	// signature (invalid_signature).
	ReadsWork bool
	// Unknown lists the proxies for which a read just before the POST returned proxy_not_found.
	Unknown []string
	// Owner is another operation that already has the order number of the reply. It is "" if there is
	// none.
	Owner string
	// Observed maps proxies to the expiry that the attempt extends, if known.
	Observed map[string]time.Time
}

// CrashedMidSend says that the process ended after operation.sending and before a reply was
// recorded.
type CrashedMidSend struct {
	Moment
	Elapsed time.Duration
}

// Due says that the operation is due to be sent. Its fields determine whether the operation is
// sent now.
type Due struct {
	Moment
	Elapsed time.Duration
	// AppID is the App ID that the next attempt would use.
	AppID string
	// NotAfter is the command's deadline for its first send.
	NotAfter *time.Time
	// Conflicted is an operation of the same command that needs review with CodeDivided, or because
	// the provider knows its key with another body. It is "" if there is none. Renewed has the
	// operation's proxies that were renewed in the time that a restored ledger has lost. Both count
	// for operations that are presumed sent.
	Conflicted string
	Renewed    []string
	// ReviewLost says that what may have been paid in that time needs review. Renewed then also has
	// the proxies that may have been renewed.
	ReviewLost bool
	// WrongClock says why the machine's clock cannot be trusted. It is "" if the clock can be
	// trusted.
	WrongClock string
}

// OrderRead says that the order's details were read.
type OrderRead struct {
	Moment
	Order     upstream.Order
	PollFloor time.Duration
}

// OrderReadFailed says why a read of the order's details failed.
type OrderReadFailed struct {
	Moment
	Code    upstream.Code // "" if the reply had no envelope
	TraceID string
	Reason  string
	// RetryAfter is the wait that the provider asked for in a rate-limited reply.
	RetryAfter upstream.RetryAfter
	// Unaskable says that no request can contain the order number, so a retry of the read
	// would fail too.
	Unaskable bool
	// Garbled says that an HTTP 2xx reply had no envelope.
	Garbled bool
}

// TooLate says that an operator or another runner settled the operation before this
// decision was recorded.
type TooLate struct {
	Moment
	Decision Decision
}

// Unrecordable says that the ledger can never store the facts of a decision on the
// operation (trap 72).
type Unrecordable struct {
	Moment
	Decision Decision
	Why      string
}

// HoldEnded says that the operation's hold has expired.
type HoldEnded struct{ Moment }

// Presumed reports whether the operation is only presumed to have been sent, because the
// ledger was restored. No body of a request that may have executed is stored for it.
func (o Operation) Presumed() bool { return o.Ambiguous > 0 && o.BodySeq == 0 || o.OnlyPresumed }

// Decision is the result of Decide: the facts to append, and the next action.
type Decision struct {
	Facts []fact.Fact
	// Send says that the operation may be sent. The decision's facts are appended in the same
	// transaction as the intent.
	Send bool
	// ProxyIDs lists the proxies that are still to be renewed.
	ProxyIDs []string
	// Estimate is the expected cost of the attempt, if all prices are known.
	Estimate fact.Cents
	// Postponed says that the attempt waits because a required read failed. If the account is
	// paused, no fact is recorded and the operation waits for the pause to end.
	Postponed bool
	// Throttled says that the reply was a rate limit.
	Throttled bool
	// Pause, if not nil, is a pause to start.
	Pause *Pause
	// Firewall says that the reply is a 401 or 403 without an envelope.
	Firewall bool
}

// Inconclusive returns why the attempt had no definite outcome. It returns "" unless the
// operation is retried.
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

// Decide decides what an event means for an operation. No other code makes this decision. Events
// are replies, reads, prices, limits, and the ends of waits. Decide reads no clock and does no
// I/O. The reply table of docs/state-machine.md is its specification.
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

// decideDue decides whether an operation is sent now. An operation that may have executed
// is retried only with a trusted clock, within Window, and under the App ID of its earlier
// attempts.
func decideDue(op Operation, h Due) Decision {
	if op.Ambiguous == 0 {
		if h.NotAfter != nil && h.Now.After(*h.NotAfter) {
			return rejected(op, Verdict{code: "not_after", Reason: "not_after has passed and no attempt was executed: nothing was charged"})
		}
		return Decision{Send: true}
	}
	if h.WrongClock != "" {
		return Decision{Pause: &Pause{Scope: ScopeAccount, Cause: CauseClock, Detail: h.WrongClock}}
	}
	if op.Presumed() {
		if why := whyLost(op, h); why.Reason != "" {
			return review(op, notExecuted, why)
		}
	}
	if h.Elapsed >= Window {
		return review(op, notExecuted, Verdict{Reason: "no conclusive reply in 20 hours: the provider may have forgotten the key, so it is not sent again"})
	}
	if op.AppID != h.AppID {
		return review(op, notExecuted, Verdict{Reason: "an attempt under App ID " + op.AppID + " may have executed, and whether another key shares its idempotency keys is not given"})
	}
	return Decision{Send: true}
}

// whyLost says why an operation that is only presumed to have been sent is not sent again. It
// returns the zero value if it may be sent.
func whyLost(op Operation, h Due) Verdict {
	n := len(h.Renewed)
	switch {
	case h.NotAfter != nil && h.Now.After(*h.NotAfter):
		return Verdict{Reason: "not_after has passed, and it may have been sent before the ledger was restored"}
	case h.ReviewLost && (op.Kind.MakesOrder() || n > 0):
		return Verdict{Reason: "the restored ledger has lost time in which it may have been paid, perhaps under another key, and the account was resumed with --review-lost"}
	case h.Conflicted != "" || n > 0 && n < len(op.ProxyIDs):
		return Verdict{code: CodeDivided, Reason: whyDivided(op, h)}
	}
	return Verdict{}
}

// whyDivided says why the operation does not repeat one request of the time that a restored ledger
// has lost: its command was divided in another way then, and parts may have been paid under other keys.
func whyDivided(op Operation, h Due) string {
	if h.Conflicted != "" {
		return "its command was divided in another way before the ledger was restored, as " + h.Conflicted + " shows, so this part may have been paid under another key"
	}
	named := strings.Join(h.Renewed[:min(len(h.Renewed), 3)], ", ")
	return fact.Bounded(fmt.Sprintf("%d of its %d proxies were renewed in the time that the restored ledger has lost, perhaps by this command under another key: %s", len(h.Renewed), len(op.ProxyIDs), named))
}

// CodeDivided is the code of a review of an operation that does not repeat one request of the time
// that a restored ledger has lost.
const CodeDivided = "divided"

func decideTooLate(op Operation, h TooLate) Decision {
	last := h.Decision.Facts[len(h.Decision.Facts)-1]
	return Decision{Facts: []fact.Fact{fact.LedgerDiscrepancy{
		Ref: op.Ref(""), Finding: FindingLate, OrderNo: op.OrderNo,
		Explanation: "a reply came after the operation was settled by a person or another runner: it would have been " + last.FactType(),
	}}}
}

// decideUnrecordable puts the operation in review, and books the money that a read of its
// order showed.
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

// An attempt whose reply was not recorded is retried under the same key, because the request may
// have executed or may still arrive.
func crashed(op Operation, h CrashedMidSend) Decision {
	return again(op, h.Moment, h.Elapsed, Verdict{Reason: "the runner stopped before a reply was recorded"})
}

// An operation that may have executed is retried under the same key. After Window it needs
// review.
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

// Bounds of the backoff between attempts, with full jitter.
const (
	BackoffFirst = time.Second
	backoffMost  = 5 * time.Minute
)

// backoff returns a random delay. The upper bound of the delay doubles with each attempt, up to
// backoffMost.
func backoff(attempts int64, jitter float64) time.Duration {
	bound := backoffMost
	if attempts < 9 {
		bound = min(backoffMost, BackoffFirst<<attempts)
	}
	return time.Duration(jitter * float64(bound))
}

type executed bool

const (
	maybeExecuted executed = true  // counts as an ambiguous attempt
	notExecuted   executed = false // only earlier attempts may have executed
)

func waiting(op Operation, e executed, next time.Time, v Verdict) Decision {
	return Decision{Facts: []fact.Fact{fact.OperationWaiting{
		Ref: op.Ref(v.TraceID), Attempt: op.Attempts, Code: string(v.code), HTTPStatus: v.status, Reason: v.Reason,
		Ambiguous: bool(e), NextAt: next.UTC(),
	}}}
}

func review(op Operation, e executed, v Verdict) Decision {
	return Decision{Facts: []fact.Fact{fact.OperationReview{
		Ref: op.Ref(v.TraceID), Attempt: op.Attempts, Code: string(v.code), HTTPStatus: v.status, Reason: v.Reason, Ambiguous: bool(e),
	}}}
}

func rejected(op Operation, v Verdict) Decision {
	return Decision{Facts: []fact.Fact{fact.CommandRejected{
		Ref: op.Ref(v.TraceID), Code: string(v.code), Reason: v.Reason, Attempt: op.Attempts,
		ShortOfMoney: v.code == upstream.CodeInsufficientWallet,
	}}}
}

// refusedBefore rejects an operation that was never sent. An operation that may have been
// sent before a restore needs review instead.
func refusedBefore(op Operation, leftOut []fact.Fact, code upstream.Code, reason string) Decision {
	if op.Ambiguous > 0 {
		return changedSince(op)
	}
	return Decision{Facts: append(leftOut, rejected(op, Verdict{code: code, Reason: reason}).Facts...)}
}

// changedSince puts an operation in review if it may have been sent before a restore but would
// not be sent now. A read made now does not justify a refusal or a skipped proxy: the operation's
// own lost attempt may have caused the change.
func changedSince(op Operation) Decision {
	return review(op, notExecuted, Verdict{Reason: "the ledger was restored and it may have been sent before; it would not be sent as things stand now"})
}

func holdBack(op Operation, leftOut []fact.Fact, f fact.CommandHeld) Decision {
	f.Ref = op.Ref("")
	return Decision{Facts: append(leftOut, f)}
}

// Pause is a pause that a decision starts.
type Pause struct {
	Scope, Cause, Detail, TraceID string
	Until                         *time.Time // nil: until a probe succeeds
	User                          string     // NATS user who requested the pause; see fact.UserOf
}

// Scopes of a pause.
const (
	ScopeAccount = "account"
	// A kind of operation is also a scope: "order", "renewal".
)

// Causes of a pause that are not the provider's codes.
const (
	CausePerson    = "person"
	CauseClock     = "clock"
	CauseThrottled = "rate_limited"
	CauseFirewall  = "not_the_api"
)

// PauseCauses lists the causes of a pause, including the reply codes that start a pause. It
// does not include ledger.CauseRestored.
func PauseCauses() []string {
	return []string{
		CausePerson, CauseClock, CauseThrottled, CauseFirewall, string(upstream.CodeInvalidSignature), string(upstream.CodeStaleTimestamp),
		string(upstream.CodeAPIKeyRevoked), string(upstream.CodeInsufficientScope), string(upstream.CodeIdempotencyKeyRequired),
	}
}

// OfThisMachine reports whether the cause of a pause may be local to this machine. Local causes
// are this machine's API key, its clock, and its network path to the provider.
func OfThisMachine(cause string) bool {
	switch cause {
	case string(upstream.CodeInvalidSignature), string(upstream.CodeStaleTimestamp), string(upstream.CodeAPIKeyRevoked), CauseClock, CauseFirewall:
		return true
	}
	return false
}

// ReadPause returns the pause that a failed read starts. It returns nil if the failure starts no
// pause.
func ReadPause(h OrderReadFailed, v Verdict) *Pause {
	switch h.Code {
	case upstream.CodeRateLimited:
		until := h.Now.Add(ThrottleDelay(h.RetryAfter, 0)).UTC()
		return &Pause{Scope: ScopeAccount, Cause: CauseThrottled, Detail: v.Reason, TraceID: v.TraceID, Until: &until}
	case upstream.CodeInvalidSignature, upstream.CodeStaleTimestamp, upstream.CodeAPIKeyRevoked:
		return &Pause{Scope: ScopeAccount, Cause: string(h.Code), Detail: v.Reason, TraceID: v.TraceID}
	default:
		return nil
	}
}

// TurnCame says that the intent of an attempt is on disk and its request is about to be
// sent.
type TurnCame struct {
	Moment
	SignedAt time.Time // X-API-Timestamp
	Paused   bool      // the operation's lane is paused
	Stopping bool      // the runner is stopping
}

// intentAge is the maximum age of an intent when its request is sent. X-API-Timestamp is the
// time of the intent, and the provider accepts five minutes of skew.
const intentAge = time.Minute

// decideTurn sends the request, or records that it was never sent. A request that was not sent
// because of a pause is due again immediately, so only the pause delays it.
func decideTurn(op Operation, h TurnCame) Decision {
	switch waited := h.Now.Sub(h.SignedAt); {
	case h.Stopping:
		return unsentBecause(op, h.Now, "the runner stopped before the request left")
	case h.Paused:
		return unsentBecause(op, h.Now, "the account was paused before the request left")
	case waited > intentAge:
		return unsentBecause(op, h.Now, "its turn came too late for the time it would be signed with")
	}
	return Decision{Send: true}
}

func unsentBecause(op Operation, next time.Time, reason string) Decision {
	return Decision{Facts: []fact.Fact{fact.OperationUnsent{
		Ref: op.Ref(""), Attempt: op.Attempts, Reason: reason, NextAt: next.UTC(),
	}}}
}

// Kinds of finding; docs/operations.md explains each.
const (
	FindingWallet   = "wallet"
	FindingOutside  = "outside_order"
	FindingTotal    = "order_total"
	FindingCharge   = "order_charge"
	FindingRefund   = "order_refund"
	FindingMissing  = "order_missing"
	FindingSums     = "renewal_sum"
	FindingNotMoved = "expiry_not_moved"
	FindingRenewed  = "outside_renewal"
	FindingDecimal  = "decimal_string"
	FindingLate     = "late_reply" // published when a reply comes too late, not by a reconciliation

	// Findings from a read of an order.
	FindingOrderCurrency  = "order_currency"
	FindingRefundCurrency = "refund_currency"
	FindingRefundAmount   = "refund_amount"
	FindingShort          = "order_short" // published once, when the order settles
	FindingMore           = "order_more"  // published once, when the order settles
)

// FindingKinds lists all kinds of finding.
func FindingKinds() []string {
	return []string{
		FindingWallet, FindingOutside, FindingTotal, FindingCharge, FindingRefund, FindingMissing, FindingSums, FindingNotMoved, FindingRenewed,
		FindingDecimal, FindingLate, FindingOrderCurrency, FindingRefundCurrency, FindingRefundAmount, FindingShort,
	}
}
