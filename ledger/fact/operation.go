// This file has Operation, which is derived from facts, and its states.

package fact

import (
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

// Operation is the execution of one command, or of one chunk of it, under one idempotency
// key and with one stored body. ChargedCents is before refunds.
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

// MaybeSentAt returns the earliest time at which the operation may have been sent, or nil if
// it cannot have been. After a restore, this is the start of the lost time for an operation
// that is presumed sent, even if the ledger knows of a later request.
func (o Operation) MaybeSentAt() *time.Time {
	if o.FirstSentAt == nil || o.FirstAmbiguousAt != nil && o.FirstAmbiguousAt.Before(*o.FirstSentAt) {
		return o.FirstAmbiguousAt
	}
	return o.FirstSentAt
}
