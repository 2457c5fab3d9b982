// The steps of `ledger archive` that store a snapshot of the ledger and remove archived events
// from the stream.

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/journal"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/objects"
	"perennial/queue/outbox"
	"perennial/queue/positions"
)

// bounding removes the events of archived rows from an account's stream. First it stores a
// snapshot of the rows' effect next to the stream and reads the snapshot back. Then it
// appends and publishes a fact about the removal, and removes the events. After a crash,
// another run completes the remaining steps. A crash may leave the stream closed. The next
// start of `run` opens the stream again.
type bounding struct {
	history  *history
	account  string
	replicas int
	webhooks []config.Webhook // webhooks of the account
	mayLose  []string
	log      *logrus.Logger
}

// boundedEvents is the result of removing events from the events stream.
type boundedEvents struct {
	FirstSeq    uint64 `json:"first_seq"`
	WasFirstSeq uint64 `json:"was_first_seq"`
	LastSeq     uint64 `json:"last_seq"`
	// HeldBy is the durable consumer or webhook that has read the fewest events, or "" if all
	// events could be removed. Its unread events cannot be removed.
	HeldBy      string   `json:"held_by,omitempty"`
	Lost        []string `json:"lost,omitempty"` // the consumers that had not read all removed events
	Bucket      string   `json:"bucket,omitempty"`
	Object      string   `json:"object,omitempty"`
	BytesBefore uint64   `json:"bytes_before"`
	BytesAfter  uint64   `json:"bytes_after"`

	stream string
	head   chain.Head
}

// run removes from the stream the events that precede the journal's first row. No other
// process may have the ledger open.
func (b bounding) run(ctx context.Context, path string) (out *boundedEvents, err error) {
	if err := events.Of(b.history.queue.JetStream(), b.account).Open(ctx); err != nil { // the stream may still be closed, because an earlier archive was killed
		return nil, err
	}
	alone := b.history.writes(path)
	l, err := alone.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, alone.Close()) }()
	before, err := events.Of(b.history.queue.JetStream(), b.account).State(ctx)
	if err != nil {
		return nil, err
	}
	out = &boundedEvents{FirstSeq: before.First, WasFirstSeq: before.First, LastSeq: before.Last, BytesBefore: before.Bytes, stream: queue.EventsStream(b.account)}
	// A restored ledger may begin with an earlier row than the stream. A restore from such a
	// stream needs a different snapshot, so the stream stays unchanged.
	if snapshot := l.Snapshot(); snapshot != nil && uint64(snapshot.Seq)+1 >= before.First {
		var first uint64
		if first, err = b.first(ctx, uint64(snapshot.Seq)+1, out); err == nil && max(first, before.First) > 1 {
			err = b.bound(ctx, l, *snapshot, first, out)
		}
	}
	if err != nil {
		return nil, err
	}
	after, err := events.Of(b.history.queue.JetStream(), b.account).State(ctx)
	if err != nil {
		return nil, err
	}
	out.FirstSeq, out.LastSeq, out.BytesAfter = after.First, after.Last, after.Bytes
	out.head.Seq, out.head.Hash, err = l.Head(ctx)
	return out, err
}

// first returns the number of the first event to keep. The result is at most first. Events
// are kept if a durable consumer has not acknowledged them or a webhook has not delivered
// them, unless mayLose contains that consumer or webhook.
func (b bounding) first(ctx context.Context, first uint64, out *boundedEvents) (uint64, error) {
	unread, err := events.Of(b.history.queue.JetStream(), b.account).Unread(ctx)
	if err != nil {
		return 0, err
	}
	begun, err := positions.Of(b.history.queue.JetStream(), b.account).All(ctx)
	if err != nil {
		return 0, err
	}
	for _, w := range b.webhooks {
		if _, has := begun[w.Name]; !has && w.From == webhook.FromStart {
			unread = append(unread, events.UnreadWebhook(w.Name))
		}
	}
	may := func(u events.Unread) bool { return slices.Contains(b.mayLose, u.Consumer) }
	for _, u := range unread {
		if u.First < first && !may(u) {
			first, out.HeldBy = u.First, u.Consumer
		}
	}
	for _, u := range unread {
		if u.First < first && may(u) {
			out.Lost = append(out.Lost, u.Consumer)
		}
	}
	slices.Sort(out.Lost)
	return first, nil
}

// bound stores everything that replaces the events before first, then removes these events.
// If the events are already removed, it completes the remaining steps.
func (b bounding) bound(ctx context.Context, l *ledger.Ledger, s ledger.Snapshot, first uint64, out *boundedEvents) error {
	object := objects.Snapshot{Seq: uint64(s.Seq), Hash: s.Hash, SnapshotHash: s.SnapshotHash}
	out.Bucket, out.Object = queue.SnapshotsBucket(b.account), object.Name()
	if err := b.store(ctx, l, s, object); err != nil {
		return err
	}
	failpoint.Reached(ctx, "archive.snapshot_stored")
	if err := b.appendFact(ctx, l, s, first, out); err != nil {
		return err
	}
	failpoint.Reached(ctx, "archive.bounded_noted")
	if err := b.publish(ctx, l); err != nil {
		return err
	}
	failpoint.Reached(ctx, "archive.bounded_published")
	if first > out.WasFirstSeq {
		err := events.Of(b.history.queue.JetStream(), b.account).Bound(ctx, events.Bounding{First: first, Alone: b.history.confirm})
		if err != nil {
			return err
		}
	}
	failpoint.Reached(ctx, "archive.events_opened")
	return objects.SnapshotsOf(b.history.queue.JetStream(), b.account).RemoveBut(ctx, object)
}

// store stores the snapshot next to the stream, unless an intact copy is already there. It
// then reads the snapshot back.
func (b bounding) store(ctx context.Context, l *ledger.Ledger, s ledger.Snapshot, object objects.Snapshot) error {
	q := b.history.queue
	stored, err := objects.SnapshotsOf(q.JetStream(), b.account).List(ctx)
	if err != nil {
		return err
	}
	there := slices.ContainsFunc(stored, func(o objects.Snapshot) bool { return o.Name() == object.Name() })
	if !there || b.check(ctx, s, object) != nil {
		from, to := io.Pipe()
		written := make(chan struct{})
		go func() { defer close(written); to.CloseWithError(l.WriteSnapshot(ctx, to)) }()
		err = objects.SnapshotsOf(q.JetStream(), b.account).Store(ctx, b.replicas, object, from)
		_ = from.Close()
		<-written // WriteSnapshot must end before the ledger is closed
		if err != nil {
			return err
		}
	}
	return b.check(ctx, s, object)
}

// check reads a stored snapshot completely and compares it with its hash.
func (b bounding) check(ctx context.Context, s ledger.Snapshot, object objects.Snapshot) (err error) {
	content, err := objects.SnapshotsOf(b.history.queue.JetStream(), b.account).Read(ctx, object)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return ledger.CheckSnapshot(content, s)
}

// appendFact appends the fact about the removal, unless an earlier run has appended it.
func (b bounding) appendFact(ctx context.Context, l *ledger.Ledger, s ledger.Snapshot, first uint64, out *boundedEvents) error {
	said, err := l.EventsBegin(ctx)
	if err != nil || said >= int64(first) || first <= out.WasFirstSeq {
		return err
	}
	return l.Write(ctx, func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerBounded{
			FirstSeq: int64(first), LastSeq: s.Seq, LastHash: s.Hash, SnapshotHash: s.SnapshotHash,
			Bucket: out.Bucket, Object: out.Object, HeldBy: out.HeldBy, Lost: out.Lost,
		})
	})
}

// publish publishes all rows of the ledger. The facts about the archive must be on the stream
// before any event is removed.
func (b bounding) publish(ctx context.Context, l *ledger.Ledger) error {
	noted, err := l.Published(ctx)
	if err != nil {
		return err
	}
	head, _, err := l.Head(ctx)
	if err != nil {
		return err
	}
	outbox := outbox.New(b.history.queue.JetStream(), b.account, &journal.Source{Ledger: l, Account: b.account})
	outbox.Held, outbox.RefillAdvice, outbox.Begins = journal.HeldFromNote(noted), journal.RefillAdvice, journal.EventsBegin(l)
	parent := ctx
	ctx, stop := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() { defer close(done); stop(outbox.Run(ctx)) }()
	err = outbox.Wait(ctx, uint64(head))
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	stop(nil)
	<-done
	if err == nil {
		err = b.history.flush(b.log)
	}
	if err != nil {
		return fmt.Errorf("publish what was archived: %w", err)
	}
	const stopped = true // the server has been flushed, so a crash does not lose these events
	return l.NotePublished(parent, head, stopped)
}
