// This file defines pauses of the account or of one kind of operation, and their causes.

package decide

import (
	"time"

	"perennial/upstream"
)

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

// OfThisMachine reports whether the cause of a pause may be local to this machine: its
// key, its clock, or its network path to the provider.
func OfThisMachine(cause string) bool {
	switch cause {
	case string(upstream.CodeInvalidSignature), string(upstream.CodeStaleTimestamp), string(upstream.CodeAPIKeyRevoked), CauseClock, CauseFirewall:
		return true
	}
	return false
}

// ReadPause returns the pause for a failed read, or nil if the failure pauses nothing.
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
