package desk

import (
	"context"
	"time"

	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// Config configures a Desk. Everything is required.
type Config struct {
	Ledger   *ledger.Ledger
	Binding  func() fact.Binding
	Now      func() time.Time // the clock that is compared with the provider's
	Readable func() error     // why the provider must not be read; nil: it may be
	Evidence func(ctx context.Context, operationID string) (inspect.Evidence, error)
	Order    OrderReader
	// Delivered is called with an order that was read, and the time of its request.
	Delivered func(ctx context.Context, operationID string, from time.Time, order upstream.Order)
	// MaySendAgain refuses a new key while the last request may still arrive.
	MaySendAgain func(context.Context, fact.Operation) error
	// Start queues the accepted operations of a command that have not started.
	Start func(ctx context.Context, commandID string) error
	// Answered is called for each answer to a review.
	Answered func()
}

// Desk changes commands and operations at operators' requests.
type Desk struct{ c Config }

// New makes a desk.
func New(c Config) *Desk { return &Desk{c} }
