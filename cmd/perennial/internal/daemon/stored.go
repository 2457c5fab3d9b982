// Waiting until what the ledgers hold is on the events streams.

package daemon

import (
	"context"
	"time"

	"perennial/ledger/sleep"
	"perennial/queue/outbox"
)

// AwaitStored returns when every account works and its events stream has acknowledged the
// rows that its ledger has at that moment, or with ctx's error. Where NATS is another
// server, rows are on the stream before they are in the ledger, and it returns at once.
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

// awaitOutbox waits until the account publishes what its ledger holds.
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
