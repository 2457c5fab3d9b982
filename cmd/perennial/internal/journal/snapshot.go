// The snapshot from which a ledger is rebuilt if its first events are no longer on the stream.

package journal

import (
	"context"
	"io"
	"iter"
	"slices"

	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/objects"
)

// Bodies returns the bodies of the received events, up to the first error.
func Bodies(received iter.Seq2[events.Event, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for e, err := range received {
			if !yield(e.Data, err) || err != nil {
				return
			}
		}
	}
}

// VouchedSnapshot returns the newest snapshot whose hash is in a ledger.archived event of
// the stream, and a function that opens the snapshot. It returns nil if no stored snapshot
// matches, or if the stream still has event 1, because a ledger then needs no snapshot.
func VouchedSnapshot(ctx context.Context, q *queue.Queue, account string) (*ledger.Snapshot, func() (io.ReadCloser, error), error) {
	state, err := events.Of(q.JetStream(), account).State(ctx)
	if err != nil || state.First <= 1 {
		return nil, nil, err
	}
	stored, err := objects.SnapshotsOf(q.JetStream(), account).List(ctx)
	if err != nil {
		return nil, nil, err
	}
	vouched, err := ledger.VouchedSnapshots(Bodies(events.Of(q.JetStream(), account).HistoryOf(ctx, fact.LedgerArchived{}.FactType())))
	if err != nil {
		return nil, nil, err
	}
	for _, o := range stored {
		s := ledger.Snapshot{Head: chain.Head{Seq: int64(o.Seq), Hash: o.Hash}, SnapshotHash: o.SnapshotHash}
		if slices.Contains(vouched, s) {
			return &s, func() (io.ReadCloser, error) { return objects.SnapshotsOf(q.JetStream(), account).Read(ctx, o) }, nil
		}
	}
	return nil, nil, nil
}
