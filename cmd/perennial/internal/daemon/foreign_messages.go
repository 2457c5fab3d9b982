// `run --refill-events`: the repair of an events stream that has foreign messages or lost
// its first events.

package daemon

import (
	"context"
	"errors"
	"fmt"

	"perennial/cmd/perennial/internal/journal"
	"perennial/queue/outbox"
	"perennial/queue/streams"
)

// removeForeign recreates the events stream if it has foreign messages or lost its first
// events. First it checks that all other messages on the stream are rows of this ledger. The
// outbox then publishes all rows again. If the stream has a row that this ledger lacks, the
// ledger may be outdated: removeForeign changes nothing and returns an error. It does nothing
// without `run --refill-events`.
func (a *lifecycle) removeForeign(ctx context.Context) error {
	if !a.refills() {
		return nil
	}
	foreign, err := a.foreignMessages(ctx)
	if err != nil {
		return err
	}
	lost := a.checkBegin(ctx)
	if _, diverged := errors.AsType[*outbox.DivergedError](lost); lost != nil && !diverged {
		return lost
	}
	if foreign == 0 && lost == nil {
		return nil
	}
	if _, err := a.Ledger().Verify(ctx); err != nil {
		return fmt.Errorf("the events stream is not filled from a ledger that cannot be proved: %w", err)
	}
	if lost != nil {
		a.log.WithError(lost).Warn("the first events are gone from the stream; it is removed and made again, and everything is published again from the ledger. Durable consumers begin again")
	} else {
		a.log.WithField("messages", foreign).Warn("other clients have published on the events stream; it is removed and made again, and everything is published again from the ledger. Durable consumers begin again")
	}
	if err := streams.RemoveEvents(ctx, a.js(), a.Name); err != nil {
		return err
	}
	return a.ensureStreams(ctx)
}

// foreignMessages counts the messages on the events stream that are not rows at their own
// sequence. It returns an error for a row that this ledger lacks.
func (a *lifecycle) foreignMessages(ctx context.Context) (n int, err error) {
	own := &journal.Source{Ledger: a.Ledger()}
	for e, err := range a.events().History(ctx, 1) {
		if err != nil {
			return n, fmt.Errorf("look for messages of others among the events: %w", err)
		}
		if e.Seq == 0 || e.Hash == "" {
			n++
			continue
		}
		hash, known, err := own.HashAt(ctx, e.Seq)
		if err != nil {
			return n, fmt.Errorf("row %d, which is on the events stream: %w", e.Seq, err)
		}
		if !known || hash != e.Hash {
			return n, &outbox.DivergedError{
				Account: a.Name, StreamSeq: e.StreamSeq, LedgerSeq: e.Seq, StreamHash: e.Hash, LedgerHash: hash,
				Reason: "the stream holds a row that this ledger does not have: nothing was removed from it",
			}
		}
		if e.Seq != e.StreamSeq { // a copy of a row at a wrong sequence; the outbox publishes each row at its own sequence
			n++
		}
	}
	return n, nil
}
