package desk

import (
	"context"
	"time"

	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// Config configures a Desk. All fields are required.
type Config struct {
	Ledger   *ledger.Ledger
	Binding  func() fact.Binding
	Now      func() time.Time // the machine's clock, which the provider's time is compared with
	Readable func() error     // returns why the provider must not be read now, or nil
	Evidence func(ctx context.Context, operationID string) (inspect.Evidence, error)
	Order    OrderReader
	// Delivered is called with an order that was read. from is the time of the request.
	Delivered func(ctx context.Context, operationID string, from time.Time, order upstream.Order)
	// MaySendAgain returns an error while the operation's last request may still arrive,
	// because a new key could then pay twice.
	MaySendAgain func(context.Context, fact.Operation) error
	// Start queues the accepted operations of a command that have not started.
	Start func(ctx context.Context, commandID string)
	// Answered is called after each answer to a review.
	Answered func()
}

// Desk changes commands and operations for operators.
type Desk struct{ c Config }

// New returns a Desk.
func New(c Config) *Desk { return &Desk{c} }
