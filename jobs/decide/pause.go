// What stops the account, or one kind of operation, and for what cause.

package decide

import (
	"time"

	"perennial/upstream"
)

// Pause is what a decision asks of the whole account.
type Pause struct {
	Scope, Cause, Detail, TraceID string
	Until                         *time.Time // nil: until a probe succeeds
	User                          string     // of NATS, that asked for it; see fact.UserOf
}

// Scopes of a pause.
const (
	ScopeAccount = "account"
	// A kind of operation is a scope too: "order", "renewal".
)

// Causes of a pause that are not a code of the provider's.
const (
	CausePerson    = "person"
	CauseClock     = "clock"
	CauseThrottled = "rate_limited"
	CauseFirewall  = "not_the_api"
)

// PauseCauses are all causes of a pause but ledger.CauseRestored: these, and the codes of
// replies that pause.
func PauseCauses() []string {
	return []string{
		CausePerson, CauseClock, CauseThrottled, CauseFirewall, string(upstream.CodeInvalidSignature), string(upstream.CodeStaleTimestamp),
		string(upstream.CodeAPIKeyRevoked), string(upstream.CodeInsufficientScope), string(upstream.CodeIdempotencyKeyRequired),
	}
}

// OfThisMachine reports whether a pause of the account may be for a cause that another
// machine does not have: its key, its clock, or what stands between it and the provider.
func OfThisMachine(cause string) bool {
	switch cause {
	case string(upstream.CodeInvalidSignature), string(upstream.CodeStaleTimestamp), string(upstream.CodeAPIKeyRevoked), CauseClock, CauseFirewall:
		return true
	}
	return false
}

// ReadPause is what a failed read asks of the account.
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
