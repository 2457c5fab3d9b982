// This file makes the final decision before a request is sent.

package decide

import (
	"time"

	"perennial/ledger/fact"
)

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

// decideTurn sends the request, or records that it was never sent. During a pause the
// operation gets no wait of its own: it waits for the end of the pause.
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
