package jobs

import (
	"time"

	"perennial/upstream"
)

// What stops the account, or one kind of operation, and for what cause.

// Pause is what a decision asks of the whole account.
type Pause struct {
	Scope, Cause, Detail, TraceID string
	Until                         *time.Time // nil: until a probe succeeds
	User                          string     // of NATS, that asked for it; see ledger.UserOf
}

// Scopes of a pause.
const (
	scopeAccount = "account"
	// A kind of operation is a scope too: "order", "renewal".
)

// Causes of a pause that are not a code of the provider's.
const (
	causePerson    = "person"
	causeClock     = "clock"
	causeThrottled = "rate_limited"
	causeFirewall  = "not_the_api"
)

// readPause is what a failed read asks of the account.
func readPause(h OrderReadFailed, v verdict) *Pause {
	switch h.Code {
	case upstream.CodeRateLimited:
		until := h.Now.Add(throttleDelay(h.RetryAfter, 0)).UTC()
		return &Pause{Scope: scopeAccount, Cause: causeThrottled, Detail: v.reason, TraceID: v.traceID, Until: &until}
	case upstream.CodeInvalidSignature, upstream.CodeStaleTimestamp, upstream.CodeAPIKeyRevoked:
		return &Pause{Scope: scopeAccount, Cause: string(h.Code), Detail: v.reason, TraceID: v.traceID}
	default:
		return nil
	}
}
