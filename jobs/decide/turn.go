// The moment at which a request is to leave: whether it still may.

package decide

import (
	"time"

	"perennial/ledger/fact"
)

// TurnCame says that the intent of an attempt is on the disk and its request is next.
type TurnCame struct {
	Moment
	SignedAt time.Time // X-API-Timestamp
	Paused   bool      // the operation's lane is
	Stopping bool      // the runner is
}

// intentAge is how long an intent may wait for its turn: X-API-Timestamp is the
// moment of the intent, and the provider takes five minutes of deviation.
const intentAge = time.Minute

// decideTurn has the request sent, or records that it never was. Under a pause the
// operation waits without a time of its own.
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
