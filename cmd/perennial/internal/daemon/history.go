// A ledger made from its account's events stream, where that begins behind a snapshot.

package daemon

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue"
)

// Bodies are the events themselves, as they were published.
func Bodies(received iter.Seq2[queue.ReceivedEvent, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for e, err := range received {
			if !yield(e.Data, err) || err != nil {
				return
			}
		}
	}
}

// VouchedSnapshot is what a ledger begins with where the account's stream does not begin
// with event 1: the newest snapshot beside it that one of its events vouches for, with
// what opens it. It is nil where the stream begins with event 1, or has none.
func VouchedSnapshot(ctx context.Context, q *queue.Queue, account string) (*ledger.Snapshot, func() (io.ReadCloser, error), error) {
	state, err := q.EventsState(ctx, account)
	if err != nil || state.First <= 1 {
		return nil, nil, err
	}
	stored, err := q.Snapshots(ctx, account)
	if err != nil {
		return nil, nil, err
	}
	vouched, err := ledger.VouchedSnapshots(Bodies(q.HistoryOf(ctx, account, fact.LedgerArchived{}.FactType())))
	if err != nil {
		return nil, nil, err
	}
	for _, o := range stored {
		s := ledger.Snapshot{Head: ledger.Head{Seq: int64(o.Seq), Hash: o.Hash}, SnapshotHash: o.SnapshotHash}
		if slices.Contains(vouched, s) {
			return &s, func() (io.ReadCloser, error) { return q.ReadSnapshot(ctx, account, o) }, nil
		}
	}
	return nil, nil, nil
}

// openLedger opens the account's ledger. On an external NATS one that ends before the
// events stream begins is made from the snapshot beside it; any other is folded.
func (a *account) openLedger(ctx context.Context) (*ledger.Ledger, error) {
	c := ledger.Config{Path: a.host.Config.LedgerPath(a.Name), Clock: time.Now, Reached: a.host.reached, Follows: a.host.Config.NATS.External()}
	l, err := ledger.Open(ctx, c)
	if err != nil || !c.Follows || a.host.Queue.Down() != "" {
		return l, err
	}
	made, err := a.makeLedger(ctx, l, c)
	if err != nil {
		a.log.WithError(err).Warn("the ledger ends before the events stream begins, and could not be made from the snapshot beside the stream: start the runner again, or make it with `perennial ledger restore --from-events --replace`")
	}
	if made {
		return ledger.Open(ctx, c)
	}
	return l, nil
}

// makeLedger makes a ledger that ends before the events stream begins, as an empty one
// does, from a snapshot and the events behind it; the old file is moved aside. made says
// that it has closed l for that, also where it then failed.
func (a *account) makeLedger(ctx context.Context, l *ledger.Ledger, c ledger.Config) (made bool, err error) {
	head, missing, err := a.journalOf(l).missing(ctx)
	if err != nil || !missing {
		return false, err
	}
	snapshot, content, err := VouchedSnapshot(ctx, a.host.Queue, a.Name)
	if err != nil || snapshot == nil {
		return false, err
	}
	if err := l.Close(); err != nil {
		return true, err
	}
	out, err := ledger.Restore{
		Path: c.Path, Clock: c.Clock, Replace: true, Follows: true, Snapshot: snapshot, Content: content,
		Events: func(first int64) iter.Seq2[[]byte, error] {
			return Bodies(a.host.Queue.History(ctx, a.Name, uint64(max(first, 1))))
		},
	}.Run(ctx)
	if err != nil {
		return true, fmt.Errorf("make the ledger: %w", err)
	}
	a.log.WithFields(logrus.Fields{"was_seq": head, "snapshot_seq": snapshot.Seq, "events": out.Events, "replaced": out.Replaced}).
		Info("the ledger ended before the events stream begins: it is made again from the snapshot beside the stream and the events behind it")
	return true, nil
}
