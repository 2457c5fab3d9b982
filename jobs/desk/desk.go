package desk

import (
	"context"
	"time"

	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// Config is what a Desk acts with. Everything is required.
type Config struct {
	Ledger   *ledger.Ledger
	Binding  func() fact.Binding
	Now      func() time.Time // by the clock that is compared with the provider's
	Readable func() error     // why the provider is not read; nil: it may be
	Evidence func(ctx context.Context, operationID string) (inspect.Evidence, error)
	Order    OrderReader
	// Delivered hears of an order that was read from an instant on.
	Delivered func(ctx context.Context, operationID string, from time.Time, order upstream.Order)
	// MaySendAgain refuses a new key while the last request may still arrive.
	MaySendAgain func(context.Context, fact.Operation) error
	// Start queues what a command has accepted and not started.
	Start func(ctx context.Context, commandID string) error
	// Answered hears of each answer to a review.
	Answered func()
}

// Desk changes commands and operations as people ask for it.
type Desk struct{ c Config }

// New makes a desk.
func New(c Config) *Desk { return &Desk{c} }
