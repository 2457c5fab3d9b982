package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/objects"
	"perennial/queue/outbox"
)

// Journal is an account's events stream and the ledger that follows it.
type Journal struct {
	Account string
	Queue   *queue.Queue
	Ledger  *ledger.Ledger
}

// ErrLedgerBefore means that the stream no longer has the rows that follow the ledger's last
// row.
var ErrLedgerBefore = errors.New("the ledger ends before the events stream begins")

// Missing returns the ledger's last row. missing is true if the stream no longer has the next
// row, because the stream begins later. missing is false if the stream does not exist.
func (j Journal) Missing(ctx context.Context) (head int64, missing bool, err error) {
	if head, _, err = j.Ledger.Head(ctx); err != nil {
		return head, false, err
	}
	state, err := events.Of(j.Queue.JetStream(), j.Account).State(ctx)
	if errors.Is(err, queue.ErrNoAccount) {
		return head, false, nil
	}
	return head, err == nil && state.First > uint64(head)+1, err
}

// checkComplete returns ErrLedgerBefore if the stream lacks rows that the ledger needs.
func (j Journal) checkComplete(ctx context.Context) error {
	head, missing, err := j.Missing(ctx)
	if missing {
		err = fmt.Errorf("%w: it ends with row %d, and what is between was archived; the ledger has to be made again from the snapshot beside the stream", ErrLedgerBefore, head)
	}
	return err
}

// Follow applies the stream's rows to the ledger as they arrive. It returns an error when
// ctx ends, the stream cannot be read or a row cannot be applied. After every commit, it
// calls folded unless folded is nil.
func (j Journal) Follow(ctx context.Context, folded func()) error {
	if err := j.checkComplete(ctx); err != nil {
		return err
	}
	head, _, err := j.Ledger.Head(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	rows, read := make(chan chain.Row, ledger.PublishMost), make(chan error, 1)
	// Do not wait for the goroutine that reads. After a lost connection the NATS library may be
	// slow to return, and a caller that has the account's lease must not lose it meanwhile.
	go func() {
		defer close(rows)
		read <- j.read(ctx, uint64(head)+1, rows)
	}()
	if err := j.fold(ctx, rows, folded); err != nil {
		return err
	}
	return <-read
}

// read sends the stream's rows to a channel, starting with row from, until ctx ends.
func (j Journal) read(ctx context.Context, from uint64, rows chan<- chain.Row) error {
	for e, err := range events.Of(j.Queue.JetStream(), j.Account).Follow(ctx, events.From{Seq: from}) {
		row, err := j.row(e, err)
		if err != nil {
			return err
		}
		select {
		case rows <- row:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// fold commits arriving rows in groups, until rows is closed or ctx ends.
func (j Journal) fold(ctx context.Context, rows <-chan chain.Row, folded func()) error {
	for {
		var group []chain.Row
		select {
		case first, open := <-rows:
			if !open {
				return nil
			}
			group = append(make([]chain.Row, 0, 1+len(rows)), first)
		case <-ctx.Done():
			return ctx.Err()
		}
		for len(rows) > 0 {
			group = append(group, <-rows)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := j.FoldRows(ctx, group); err != nil {
			return err
		}
		if folded != nil {
			folded()
		}
	}
}

// forkAdvice says what to do if another runner has continued the history from an earlier row.
const forkAdvice = "another runner went on from a shorter ledger when the stream had lost rows. Nothing is sent from this one\n" +
	"stop this runner, move its ledger file away and keep it, and start it again: it makes another one from the events (docs/operations.md, \"All NATS servers lost their power\")"

// restoredAdvice is the advice for a ledger that was restored from a backup while the stream
// was not available.
const restoredAdvice = "the ledger was restored from a backup at %s while the events stream could not be reached, and the stream holds more. Nothing is sent from it\n" +
	"stop this runner and run `perennial backup restore --from-events --replace`; the ledger that was there before is beside it, as *.replaced-*"

// FoldRows commits rows to the ledger. If the rows do not follow the ledger's last row, it
// returns a DivergedError. If the stream no longer has the rows in between, it returns
// ErrLedgerBefore instead. If this version does not know a row, it commits the rows before that
// row and returns a LaterError.
func (j Journal) FoldRows(ctx context.Context, rows []chain.Row) error {
	err := j.Ledger.Fold(ctx, rows)
	broken, ok := errors.AsType[*chain.BrokenError](err)
	switch unknown, later := errors.AsType[*fact.UnknownError](err); {
	case later && ok:
		return j.foldKnown(ctx, rows, broken.Seq, unknown)
	case !ok || broken.Check != "chain":
		return err
	}
	if missing := j.checkComplete(ctx); missing != nil { // the rows were removed during the read
		return missing
	}
	advice := forkAdvice
	if at, err := j.Ledger.Operations.RestoredAlone(ctx); err == nil && at != nil {
		advice = fmt.Sprintf(restoredAdvice, at.UTC().Format(time.RFC3339))
	}
	head, hash, headErr := j.Ledger.Head(ctx)
	return errors.Join(&outbox.DivergedError{
		Account: j.Account, StreamSeq: uint64(broken.Seq), LedgerSeq: uint64(head), LedgerHash: hash,
		Reason: "what the events stream holds does not follow the ledger: " + broken.Detail + "\n" + advice,
	}, headErr)
}

// row returns the journal row in a message of the stream. For a message that no runner
// published, it returns a DivergedError, which stops the account.
func (j Journal) row(e events.Event, err error) (chain.Row, error) {
	if err != nil {
		return chain.Row{}, err
	}
	if e.Hash == "" || e.Seq != e.StreamSeq {
		return chain.Row{}, ForeignEvent(j.Account, e)
	}
	return ledger.ReadEvent(e.Data)
}

// ForeignEvent returns the error for a message that is not a row of the journal.
func ForeignEvent(account string, e events.Event) error {
	return &outbox.DivergedError{Account: account, StreamSeq: e.StreamSeq, LedgerSeq: e.Seq, Reason: "message " + strconv.FormatUint(e.StreamSeq, 10) +
		" of the events stream was not published by this program\ntake the permission for perennial.events.> from every other user, then publish all again with `perennial run --refill-events`"}
}

// FoldToEnd applies the stream's rows up to the row that is last at the time of the call. The
// leader of the stream's servers reports that row, so no acknowledged row is missed.
func (j Journal) FoldToEnd(ctx context.Context) error {
	last, found, err := events.Of(j.Queue.JetStream(), j.Account).LastRow(ctx)
	if err != nil || !found {
		return err
	}
	if last.Hash == "" || last.Seq != last.StreamSeq {
		return ForeignEvent(j.Account, last)
	}
	head, _, err := j.Ledger.Head(ctx)
	if err != nil || uint64(head) >= last.Seq {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	reached := false
	err = j.Follow(ctx, func() {
		if head, _, err := j.Ledger.Head(ctx); err == nil && uint64(head) >= last.Seq {
			reached = true
			stop()
		}
	})
	if reached {
		return nil
	}
	return err
}

// Compare compares the stream's last row with the ledger's row of the same number. If they
// differ, it returns a *outbox.DivergedError. The error's LedgerHash is "" if the ledger lacks
// the row. The rows of such a ledger must not be published.
func (j Journal) Compare(ctx context.Context, last events.Event) error {
	hash, known, err := (&Source{Ledger: j.Ledger, Account: j.Account}).HashAt(ctx, last.Seq)
	if err != nil || known && hash == last.Hash {
		return err
	}
	head, _, err := j.Ledger.Head(ctx)
	if err != nil {
		return err
	}
	return &outbox.DivergedError{Account: j.Account, StreamSeq: last.Seq, LedgerSeq: uint64(head), StreamHash: last.Hash, LedgerHash: hash,
		Reason: HistoryReason(hash, head, last.Seq)}
}

// Outbox returns the publisher of the ledger's rows. If the stream is the journal, the publisher
// sends rows before their commit. Otherwise it sends them after their commit.
func (j Journal) Outbox() *outbox.Outbox {
	x := outbox.New(j.Queue.JetStream(), j.Account, &Source{Ledger: j.Ledger, Account: j.Account})
	x.Before = j.Ledger.Follows()
	return x
}

// Lead first publishes rows that the ledger has and the stream lacks, such as rows from
// before the account moved to an external NATS. It then grants the ledger the right to
// append. From then on, the outbox publishes each group of rows before the ledger commits
// it.
func (j Journal) Lead(ctx context.Context, outbox *outbox.Outbox) (*ledger.Leadership, error) {
	last, _, err := events.Of(j.Queue.JetStream(), j.Account).LastRow(ctx)
	if err != nil {
		return nil, err
	}
	source := &Source{Ledger: j.Ledger, Account: j.Account}
	for after := last.StreamSeq; ; {
		events, err := source.Events(ctx, after, ledger.PublishMost)
		if err != nil {
			return nil, err
		}
		if len(events) == 0 {
			break
		}
		if err := outbox.Publish(ctx, events); err != nil {
			return nil, fmt.Errorf("publish what the ledger holds after row %d: %w", after, err)
		}
		after = events[len(events)-1].Seq
	}
	return j.Ledger.Lead(func(ctx context.Context, rows []chain.Row) error {
		events, err := source.Render(rows)
		if err != nil {
			return err
		}
		return outbox.Publish(ctx, events)
	})
}

// Alone is a ledger that a CLI command writes while no runner leads the account. The caller must
// have the lock of the data directory. On an external NATS, it must also have the lease of the
// account.
type Alone struct {
	Path, Account string
	Queue         *queue.Queue // nil if the ledger's file is the journal

	ledger     *ledger.Ledger
	leadership *ledger.Leadership
}

// Open opens the ledger for writing. On an external NATS, it first applies the whole events
// stream. It then publishes the rows that only the ledger has.
func (x *Alone) Open(ctx context.Context) (_ *ledger.Ledger, err error) {
	x.ledger, err = ledger.Open(ctx, ledger.Config{Path: x.Path, Clock: time.Now, Follows: x.Queue != nil})
	if err != nil || x.Queue == nil {
		return x.ledger, err
	}
	j := Journal{x.Account, x.Queue, x.ledger}
	if err = j.FoldToEnd(ctx); err == nil {
		last, found, lastErr := events.Of(x.Queue.JetStream(), x.Account).LastRow(ctx)
		if err = lastErr; found && err == nil {
			err = j.Compare(ctx, last)
		}
	}
	if err == nil {
		x.leadership, err = j.Lead(ctx, j.Outbox())
	}
	if err != nil {
		return nil, errors.Join(err, x.ledger.Close())
	}
	return x.ledger, nil
}

// Close ends the right to append and closes the ledger.
func (x *Alone) Close() error {
	if x.leadership != nil {
		x.leadership.End()
	}
	return x.ledger.Close()
}

// LaterError means that a later version of the program wrote a row that this version cannot
// apply.
type LaterError struct {
	seq     int64
	unknown *fact.UnknownError
	version string // version of the runner that started last; "" if unknown or equal to this version
}

func (e *LaterError) Error() string {
	by, install := "", "the version that wrote it, or a later one: `perennial runners` shows which versions run"
	if e.version != "" {
		by, install = fmt.Sprintf(" (the runner that began last is %s)", e.version), e.version+" or a later version"
	}
	return fmt.Sprintf("a newer version of the program wrote row %d of the account's events%s: %s is not known to this one, %s. "+
		"So this runner stays a standby: it folds nothing from there on, and sends nothing. Install %s", e.seq, by, e.unknown.What(), config.Version, install)
}

func (e *LaterError) Unwrap() error { return e.unknown }

// foldKnown applies the rows before row seq. It returns the LaterError for row seq, which
// has a type or a field that this version does not know.
func (j Journal) foldKnown(ctx context.Context, rows []chain.Row, seq int64, unknown *fact.UnknownError) error {
	if n := seq - rows[0].Seq; n > 0 {
		if err := j.Ledger.Fold(ctx, rows[:n]); err != nil {
			return err
		}
	}
	version, err := j.Ledger.Sweeps.LastVersion(ctx)
	if err != nil || version == config.Version {
		version = ""
	}
	return &LaterError{seq: seq, unknown: unknown, version: version}
}

// IsLater reports whether err is a [LaterError].
func IsLater(err error) bool {
	_, ok := errors.AsType[*LaterError](err)
	return ok
}

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

// Source reads the ledger's journal for the outbox. It is not safe for concurrent use.
type Source struct {
	Ledger  *ledger.Ledger
	Account string

	text []byte // the events of the last call
}

// Events implements outbox.Source.
func (s *Source) Events(ctx context.Context, after uint64, limit int) ([]outbox.Event, error) {
	rows, err := s.Ledger.Rows(ctx, int64(after), limit)
	if err != nil {
		return nil, err
	}
	return s.Render(rows)
}

// Render returns rows as events. The payloads share one buffer, which the next call reuses.
// Under load, a buffer for each event would be the largest share of all allocations.
func (s *Source) Render(rows []chain.Row) (_ []outbox.Event, err error) {
	events := make([]outbox.Event, 0, len(rows))
	if s.text = s.text[:0]; cap(s.text) > 4<<20 {
		s.text = nil // release a buffer that became large
	}
	for _, r := range rows {
		begin := len(s.text)
		if s.text, err = r.AppendEvent(s.text, s.Account); err != nil {
			return nil, err
		}
		event := outbox.Event{Seq: uint64(r.Seq), Hash: r.Hash, Type: r.Type, Payload: s.text[begin:len(s.text):len(s.text)]}
		trace, err := r.Trace()
		if err != nil {
			return nil, err
		}
		event.Traceparent, event.Tracestate = trace.Traceparent, trace.Tracestate
		if event.ReplyTo, err = replyTo(r); event.ReplyTo != "" {
			event.Reply = []byte(r.Data)
		}
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	return events, nil
}

// replyTo returns the inbox that receives the result of a command. It returns "" if the row is
// not a command.finished or has no inbox.
func replyTo(r chain.Row) (string, error) {
	if r.Type != "command.finished" || !strings.Contains(r.Data, `"reply_to":`) {
		return "", nil
	}
	var f fact.CommandFinished
	err := json.Unmarshal([]byte(r.Data), &f)
	return f.ReplyTo, err
}

// Changed implements outbox.Source.
func (s *Source) Changed(after uint64) <-chan struct{} { return s.Ledger.Changed(int64(after)) }

// HashAt returns the hash of the row at a sequence. It implements outbox.Source.
func (s *Source) HashAt(ctx context.Context, seq uint64) (string, bool, error) {
	row, err := s.Ledger.Row(ctx, int64(seq))
	if errors.Is(err, ledger.ErrNotFound) {
		return "", false, nil
	}
	return row.Hash, err == nil, err
}

// HistoryReason describes how the ledger's file and the stream differ, and gives advice. ownHash
// is the hash of the ledger's row with the number of the stream's last row. It is "" if the
// ledger ends earlier.
func HistoryReason(ownHash string, head int64, published uint64) string {
	if ownHash == "" {
		return fmt.Sprintf("the ledger file is older than what was published (it ends at %d, the stream at %d): it has forgotten what was sent\n"+
			"put the rest back with `perennial backup restore --from THE-LEDGER-FILE --replace`, or all of it with `--from-events --replace`", head, published)
	}
	return "the events stream holds another history than the ledger file\n" +
		"use the ledger that wrote it, or check with `perennial ledger verify --against-events` and bring the published one back with `perennial backup restore --from-events --replace`"
}

// RefillAdvice is the advice for an events stream that lost its events.
const RefillAdvice = "prove the ledger first, with a head that was kept elsewhere (`perennial ledger verify --expect SEQ:HASH`): nothing on the stream can tell any more whether it was rewritten\n" +
	"then publish everything again from it with `perennial run --refill-events`"

// HeldFromNote converts the ledger's note of its published rows for the outbox.
func HeldFromNote(noted ledger.Published) outbox.Held {
	return outbox.Held{Last: uint64(noted.Seq), Firm: uint64(noted.FirmSeq)}
}

// EventsBegin returns a function that reads from the ledger where the events stream may begin.
// The function returns the latest row that may be the stream's first row.
func EventsBegin(l *ledger.Ledger) func(context.Context) (uint64, error) {
	return func(ctx context.Context) (uint64, error) {
		seq, err := l.EventsBegin(ctx)
		return uint64(seq), err
	}
}
