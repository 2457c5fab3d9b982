package decide

import (
	"fmt"
	"net/http"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

type meaning int

const (
	settled     meaning = iota // well-formed success
	refused                    // not charged by this attempt; an earlier attempt may have executed
	unknown                    // may have executed: retry under the same key
	needsReview                // may have executed: review, never under a new key
	throttled                  // the attempt changed nothing; every sender waits
	outOfScope                 // the attempt changed nothing; this kind of operation pauses
	authRefused                // the attempt changed nothing; the account pauses
	unsent                     // no byte was sent
	failedLines                // the 422 where every line failed
)

// Verdict is a classified reply: its meaning, and the reason as text.
type Verdict struct {
	meaning meaning
	code    upstream.Code
	status  int
	TraceID string
	Reason  string
	// doubtful says that the request may have executed: the HTTP status allows it, although the
	// code says that it did not execute.
	doubtful bool
}

// classify returns the meaning of a reply. It reads the envelope first and never decides by
// HTTP status alone.
func classify(r upstream.Reply) Verdict {
	v := Verdict{code: r.Code, status: r.HTTPStatus, TraceID: r.TraceID, Reason: r.Message}
	switch {
	case !r.Sent:
		return v.as(unsent, "no byte of the request was sent: "+r.Failure)
	case !r.Envelope && r.HTTPStatus == http.StatusTooManyRequests:
		return v.as(throttled, "the provider asks to slow down (HTTP 429)")
	case !r.Envelope:
		return v.as(unknown, "no usable reply: "+r.Failure)
	case r.Success != (r.Code == upstream.CodeOK), r.Success && r.HTTPStatus/100 != 2:
		return v.as(needsReview, fmt.Sprintf("the reply contradicts itself: success %t, code %q, HTTP %d", r.Success, r.Code, r.HTTPStatus))
	case r.Success:
		return v.as(settled, "")
	}
	v = classifyCode(v, r)
	if contradicts(v.meaning, r.HTTPStatus) {
		return v.contradicted()
	}
	return v
}

// Reports whether the code says that nothing executed, or that every line failed, while the HTTP
// status says success or server error. customer-api.md, Errors, lists no such pair.
func contradicts(m meaning, status int) bool {
	switch m {
	case refused, failedLines, throttled, outOfScope, authRefused:
		return status/100 == 2 || status/100 == 5
	case settled, unknown, needsReview, unsent:
	}
	return false
}

// contradicted returns the verdict for a reply whose code and HTTP status contradict each other.
// The request may have executed. The code's effect on the account still applies.
func (v Verdict) contradicted() Verdict {
	reason := fmt.Sprintf("the reply contradicts itself: code %q under HTTP %d, so it may have executed", v.code, v.status)
	switch v.meaning {
	case throttled, outOfScope, authRefused:
		v.doubtful, v.Reason = true, fact.Bounded(reason)
		return v
	case settled, refused, unknown, needsReview, unsent, failedLines:
	}
	return v.as(needsReview, reason)
}

func classifyCode(v Verdict, r upstream.Reply) Verdict {
	switch r.Code {
	case upstream.CodeValidationError, upstream.CodeOfferNotFound, upstream.CodeProxyNotFound, upstream.CodeUnsupportedOperation,
		upstream.CodeInsufficientWallet, upstream.CodeIdempotencyKeyRequired:
		return v.as(refused, refusal(r))
	case upstream.CodeOperationFailed:
		if r.Renewal != nil && r.Renewal.Status == "failed" {
			return v.as(failedLines, "")
		}
		return v.as(needsReview, "the provider says operation_failed without line items: the cause is not guessed")
	case upstream.CodeProxyEndpointUnavailable, upstream.CodeIdempotencyUnresolved, upstream.CodeIdempotencyKeyConflict:
		return v.as(needsReview, fmt.Sprintf("the provider answers %s: it may have charged", r.Code))
	case upstream.CodeIdempotencyProcessing, upstream.CodeIdempotencyReplayFailed, upstream.CodeReplayedNonce:
		return v.as(unknown, fmt.Sprintf("the provider answers %s", r.Code))
	case upstream.CodeRateLimited:
		return v.as(throttled, "the provider asks to slow down (rate_limited)")
	case upstream.CodeInsufficientScope:
		return v.as(outOfScope, "the key may not do this (insufficient_scope)")
	case upstream.CodeInvalidSignature, upstream.CodeStaleTimestamp, upstream.CodeAPIKeyRevoked:
		return v.as(authRefused, fmt.Sprintf("the provider does not accept this key's requests (%s)", r.Code))
	default:
		if r.HTTPStatus == http.StatusTooManyRequests {
			return v.as(throttled, "the provider asks to slow down (HTTP 429)")
		}
		return v.as(needsReview, fmt.Sprintf("the provider answers %q, which means nothing here", r.Code))
	}
}

func refusal(r upstream.Reply) string {
	text := fmt.Sprintf("the provider refused it (%s): %s", r.Code, r.Message)
	if r.Fields != "" {
		text += " [" + r.Fields + "]"
	}
	return text
}

func (v Verdict) as(m meaning, reason string) Verdict {
	v.meaning, v.Reason = m, fact.Bounded(reason)
	return v
}

func decideReply(op Operation, h Replied) Decision {
	v := classify(h.Reply)
	switch v.meaning {
	case settled, failedLines:
		return decideSuccess(op, h, v)
	case refused:
		return decideRefusal(op, h, v)
	case unknown:
		return decideUnknown(op, h, v)
	case needsReview:
		return review(op, maybeExecuted, v)
	case throttled:
		return decideThrottle(op, h, v)
	case outOfScope:
		return decideScope(op, h, v)
	case authRefused:
		return decideAuthRefused(op, h, v)
	case unsent:
		return decideUnsent(op, h, v)
	}
	panic("decide: a reply without a row in the table")
}

// firewallLimit is how many consecutive 401/403 replies without an envelope pause the
// account.
const firewallLimit = 3

func decideUnknown(op Operation, h Replied, v Verdict) Decision {
	d := again(op, h.Moment, h.Elapsed, v)
	d.Firewall = !h.Reply.Envelope && (v.status == http.StatusUnauthorized || v.status == http.StatusForbidden)
	if d.Firewall && h.Firewalls+1 >= firewallLimit {
		d.Pause = &Pause{
			Scope: ScopeAccount, Cause: CauseFirewall,
			Detail: "three answers in a row were HTTP 401 or 403 and not the API's: a firewall may be in the way",
		}
	}
	return d
}

func decideSuccess(op Operation, h Replied, v Verdict) Decision {
	switch op.Kind {
	case fact.KindOrder:
		return decideCreated(op, h, v)
	case fact.KindRenewal:
		return decideRenewal(op, h, v)
	}
	panic("decide: kind " + string(op.Kind) + " has no decision on a success")
}

func decideCreated(op Operation, h Replied, v Verdict) Decision {
	if h.Reply.Order == nil {
		v.Reason = "the order was accepted, but its number could not be read: " + fact.Bounded(h.Reply.Malformed)
		return again(op, h.Moment, h.Elapsed, v)
	}
	if h.Owner != "" { // a cache or gateway may have mixed the replies up; the provider repeats the right one
		v.Reason = fmt.Sprintf("the reply names order %s, which operation %s made: it may belong to another request", fact.Bounded(h.Reply.Order.OrderNo), h.Owner)
		if op.Reason == v.Reason {
			return review(op, maybeExecuted, v)
		}
		return again(op, h.Moment, h.Elapsed, v)
	}
	next := h.Now
	if poll := h.Reply.Order.PollAfterSeconds; poll != nil {
		next = next.Add(seconds(*poll))
	}
	return Decision{Facts: []fact.Fact{fact.OrderAccepted{
		Ref: op.Ref(v.TraceID), Attempt: op.Attempts, OrderNo: h.Reply.Order.OrderNo, NextAt: next.UTC(),
	}}}
}

// decideRefusal rejects an operation that the provider refused, or splits it. If an earlier
// attempt may have executed, the operation needs review: the API document does not say that
// the provider looks up the key before it checks balances, offers or limits.
func decideRefusal(op Operation, h Replied, v Verdict) Decision {
	var d Decision
	switch {
	case op.Ambiguous > 0:
		v.Reason += "; an earlier attempt may have executed, so this refusal proves nothing"
		d = review(op, notExecuted, v)
	case v.code == upstream.CodeInsufficientWallet && len(op.ProxyIDs) > 1:
		d = cutToWallet(op, h.Observed, v)
	case splittable(op, v):
		unknown := h.Unknown
		if v.code != upstream.CodeProxyNotFound {
			unknown = nil
		}
		if len(unknown) == len(op.ProxyIDs) {
			v.Reason += "; none of its proxies was there when each was read"
		}
		d = rejected(op, v)
		f, _ := d.Facts[0].(fact.CommandRejected)
		if f.SplitInto = split(op, unknown); f.SplitInto != nil {
			f.DurationDays = op.DurationDays
		}
		d.Facts[0] = f
	default:
		d = rejected(op, v)
	}
	if v.code == upstream.CodeIdempotencyKeyRequired {
		d.Pause = &Pause{
			Scope: ScopeAccount, Cause: string(v.code), TraceID: v.TraceID,
			Detail: "something between here and the provider removes Perennial's headers: check proxies and gateways",
		}
	}
	return d
}

// splittable reports whether a refused chunk is split. One bad id makes the provider refuse
// the whole chunk, and splitting isolates that id.
func splittable(op Operation, v Verdict) bool {
	if len(op.ProxyIDs) < 2 {
		return false
	}
	return v.code == upstream.CodeProxyNotFound || v.code == upstream.CodeValidationError ||
		v.code == upstream.CodeOfferNotFound || v.code == upstream.CodeUnsupportedOperation
}

// Waits after rate-limit replies without a usable Retry-After.
const (
	ThrottleFirst = 5 * time.Second
	throttleMost  = time.Hour
)

// decideThrottle pauses the account for the time that the provider asks for. The operation itself
// is due again immediately, because an operator or a successful read may end the pause early.
func decideThrottle(op Operation, h Replied, v Verdict) Decision {
	until := h.Now.Add(ThrottleDelay(h.Reply.RetryAfter, h.Throttled)).UTC()
	d := waiting(op, executed(v.doubtful), h.Now, v)
	d.Throttled = true
	d.Pause = &Pause{Scope: ScopeAccount, Cause: CauseThrottled, Detail: v.Reason, TraceID: v.TraceID, Until: &until}
	return d
}

// ThrottleDelay returns how long every sender of the account waits. throttled is the number
// of preceding consecutive rate-limit replies.
func ThrottleDelay(r upstream.RetryAfter, throttled int) time.Duration {
	if r.Present && r.Valid {
		// Each further Retry-After that is "0" or a past date makes the wait longer.
		floor := min(time.Minute, ThrottleFirst/5<<min(throttled, 6))
		return min(max(r.Delay, floor), 366*24*time.Hour)
	}
	if throttled > 9 {
		return throttleMost
	}
	return min(throttleMost, ThrottleFirst<<throttled)
}

// The operation waits, and a pause with the given scope starts. A successful probe ends the
// pause.
func parked(op Operation, h Replied, v Verdict, scope string) Decision {
	d := waiting(op, executed(v.doubtful), h.Now, v)
	d.Pause = &Pause{Scope: scope, Cause: string(v.code), Detail: v.Reason, TraceID: v.TraceID}
	return d
}

func decideScope(op Operation, h Replied, v Verdict) Decision {
	return parked(op, h, v, string(op.Kind))
}

// decideAuthRefused pauses the account. If a signed GET succeeds, it pauses only this kind
// of operation.
func decideAuthRefused(op Operation, h Replied, v Verdict) Decision {
	if v.code == upstream.CodeInvalidSignature && h.ReadsWork {
		return parked(op, h, v, string(op.Kind))
	}
	return parked(op, h, v, ScopeAccount)
}

func decideUnsent(op Operation, h Replied, v Verdict) Decision {
	next := h.Now.Add(backoff(min(op.Attempts, 6), h.Jitter)).UTC()
	return Decision{Facts: []fact.Fact{fact.OperationUnsent{
		Ref: op.Ref(""), Attempt: op.Attempts, Reason: v.Reason, NextAt: next,
	}}}
}

// seconds converts a number of seconds from the provider to a duration of 0 to 30 days.
func seconds(n int64) time.Duration {
	const day = 24 * 60 * 60
	return time.Duration(min(max(n, 0), 30*day)) * time.Second
}
