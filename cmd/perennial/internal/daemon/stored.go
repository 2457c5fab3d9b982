// The wait until the events streams have all rows of the ledgers.

package daemon

import (
	"context"
	"time"

	"perennial/ledger/sleep"
	"perennial/queue/outbox"
)

// AwaitStored waits until every account works and its events stream has acknowledged the
// ledger's current rows. If ctx ends first, it returns ctx's error. On an external NATS it
// returns immediately, because a row is on the stream before it is in the ledger.
func (h *Host) AwaitStored(ctx context.Context) error {
	if h.Embedded == nil {
		return nil
	}
	for _, a := range h.Accounts {
		outbox, err := probes{a}.awaitOutbox(ctx)
		if err != nil {
			return err
		}
		seq, _, err := a.Ledger().Head(ctx)
		if err != nil {
			return err
		}
		if err := outbox.Wait(ctx, uint64(seq)); err != nil {
			return err
		}
	}
	return nil
}

// awaitOutbox waits until the account has an outbox, and returns it.
func (a probes) awaitOutbox(ctx context.Context) (*outbox.Outbox, error) {
	for {
		outbox := a.snapshot().outbox
		if outbox != nil {
			return outbox, nil
		}
		if err := sleep.For(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
}
