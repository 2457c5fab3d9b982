package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// Publish appends rows to the stream, in order, after the stream's last row. A nil error means
// that the stream has stored all of them. After an error it is unknown whether the stream has
// stored the rows or will store them later.
type Publish func(ctx context.Context, rows []chain.Row) error

// ErrNotLeading is returned by Append on a ledger that follows a stream and does not lead it.
// Another runner may be writing to the stream. Nothing was written.
var ErrNotLeading = errors.New("the ledger follows the events stream, which another runner may write")

// ErrLeads is returned by Fold while the ledger leads, and by Lead if it leads already.
var ErrLeads = errors.New("the ledger leads: it appends to the events stream itself")

// UnpublishedError reports rows that were not committed because it is unknown whether the stream
// has them. If the stream stores the rows after all, the next leader folds them.
type UnpublishedError struct {
	First, Last int64 // sequences of the rows
	Err         error // from Publish
}

func (e *UnpublishedError) Error() string {
	return fmt.Sprintf("rows %d to %d are not known to be on the events stream, and nothing of them was committed: %v", e.First, e.Last, e.Err)
}

func (e *UnpublishedError) Unwrap() error { return e.Err }

// Ended reports whether an error of Write is final: this ledger accepts no writes until it
// is reopened or leads again. Retrying is useless.
func Ended(err error) bool {
	_, unpublished := errors.AsType[*UnpublishedError](err)
	return unpublished || errors.Is(err, ErrNotLeading) || errors.Is(err, ErrClosed)
}

// PublishMost is the maximum number of rows per publication: the limit of JetStream's
// atomic batches.
const PublishMost = 1000

var errSplit = errors.New("the group has more rows than are published at once")

// Leadership is the right to append to a ledger that follows a stream. A leader's rows are on
// the stream before they are committed here. Leadership ends with End, and also if rows could
// not be published, or were published and could not be committed. After such a failure, the
// stream must be folded before anything else is appended.
type Leadership struct {
	l       *Ledger
	publish Publish
	ctx     context.Context
	cancel  context.CancelFunc
	once    sync.Once
	over    chan struct{}
	why     error        // set before over is closed
	waiting atomic.Int64 // when the present publication started, in microseconds; 0: none
}

// Lead allows Write to append. The caller must have folded everything on the stream and
// must own the account's lease.
func (l *Ledger) Lead(publish Publish) (*Leadership, error) {
	if !l.follows {
		return nil, errors.New("the ledger's own file is its journal: it does not lead a stream")
	}
	ctx, cancel := context.WithCancel(context.Background())
	x := &Leadership{l: l, publish: publish, ctx: ctx, cancel: cancel, over: make(chan struct{})}
	if !l.leader.CompareAndSwap(nil, x) {
		cancel()
		return nil, ErrLeads
	}
	return x, nil
}

// Over returns a channel that is closed when the leadership has ended. After that, Err says why.
func (x *Leadership) Over() <-chan struct{} { return x.over }

// Err returns why the leadership ended without a call of End. It returns nil while the
// leadership lasts, and after End.
func (x *Leadership) Err() error {
	select {
	case <-x.over:
		return x.why
	default:
		return nil
	}
}

// Waiting returns the time since which rows have been waiting for their acknowledgement, by
// the ledger's clock. It is zero if no rows wait.
func (x *Leadership) Waiting() time.Time {
	if at := x.waiting.Load(); at > 0 {
		return sqlite.FromMicros(at)
	}
	return time.Time{}
}

// End gives up the leadership. It abandons a publication that is not acknowledged yet, and
// returns when the writer has finished its present group.
func (x *Leadership) End() {
	x.lose(nil)
	// The writer runs one group at a time: when this write returns, no earlier group is in
	// progress.
	_ = x.l.Write(context.Background(), func(*Tx) error { return nil })
}

// Ends the leadership. Only the first reason is kept.
func (x *Leadership) lose(why error) {
	x.once.Do(func() {
		x.why = why
		x.cancel()
		x.l.leader.CompareAndSwap(x, nil)
		close(x.over)
	})
}

// Publishes the rows of a group. If there are more than PublishMost, they belong to one caller
// and are published in several parts. A crash may leave only the first parts on the stream.
func (x *Leadership) put(rows []chain.Row) error {
	x.waiting.Store(sqlite.Micros(x.l.clock()))
	defer x.waiting.Store(0)
	for len(rows) > 0 {
		part := rows[:min(len(rows), PublishMost)]
		if err := x.publish(x.ctx, part); err != nil {
			err = &UnpublishedError{First: part[0].Seq, Last: part[len(part)-1].Seq, Err: err}
			x.lose(err)
			return err
		}
		rows = rows[len(part):]
	}
	return nil
}

// Commits the group's transaction. If the journal is a stream, it publishes the rows first.
func (w *writer) settle(group []*request, rows []chain.Row) error {
	leader := w.leading
	if leader == nil || len(rows) == 0 {
		return w.exec(`COMMIT`)
	}
	if len(rows) > PublishMost && len(group) > 1 {
		return errSplit
	}
	w.l.reached("ledger.publishing")
	w.l.working.Store(0) // waiting for NATS now
	err := leader.put(rows)
	w.l.working.Store(sqlite.Micros(time.Now())) //nolint:forbidigo // a duration, which is in no fact
	if err != nil {
		return err
	}
	w.l.reached("ledger.published")
	err = w.exec(`COMMIT`)
	if err != nil {
		leader.lose(fmt.Errorf("rows %d to %d are on the events stream and could not be committed: %w", rows[0].Seq, rows[len(rows)-1].Seq, err))
	}
	return err
}

func (w *writer) mayAppend() error {
	if w.l != nil && w.l.follows && w.leading == nil {
		return ErrNotLeading
	}
	return nil
}

// Fold checks the stream's rows after the ledger's last row against the hash chain and
// commits them. If a row is missing or has a wrong hash, it returns a *chain.BrokenError and
// commits none of the rows. It does the same for a fact that this version does not know (a
// *fact.UnknownError). A ledger that leads returns ErrLeads.
func (l *Ledger) Fold(ctx context.Context, rows []chain.Row) error {
	if !l.follows {
		return fmt.Errorf("fold into %s: its own file is its journal", l.path)
	}
	return l.WhileFollowing(ctx, func(tx *Tx) error {
		tx.finishing = false // the rows include command.finished
		for _, r := range rows {
			if err := tx.fold(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// WhileFollowing is Write for a ledger that does not lead. A ledger that leads returns
// ErrLeads.
func (l *Ledger) WhileFollowing(ctx context.Context, do func(*Tx) error) error {
	return l.Write(ctx, func(tx *Tx) error {
		if tx.w.leading != nil {
			return ErrLeads
		}
		return do(tx)
	})
}

func (t *Tx) fold(r chain.Row) (err error) {
	if t.w.buf, err = t.w.head.FollowedBy(r, t.w.buf); err != nil {
		return err
	}
	f, err := factOf(r)
	if err != nil {
		return err
	}
	if err := t.insert(r); err != nil {
		return err
	}
	if err := t.applyAt(r, f); err != nil {
		return err
	}
	t.rows = append(t.rows, r)
	return nil
}

// factOf decodes the fact of a row. If that fails, it returns a *chain.BrokenError.
func factOf(r chain.Row) (fact.Fact, error) {
	f, err := fact.Decode(r.Type, []byte(r.Data))
	if err == nil {
		return f, nil
	}
	broken := &chain.BrokenError{Check: "fold", Seq: r.Seq, Detail: err.Error()}
	if unknown, ok := errors.AsType[*fact.UnknownError](err); ok {
		broken.Err = unknown
	}
	return nil, broken
}

func (t *Tx) applyAt(r chain.Row, f fact.Fact) error {
	defer t.setNow(t.now)
	t.setNow(r.Time)
	if err := t.w.readBooked(); err != nil {
		return err
	}
	if err := (projector{t}).project(r, f); err != nil {
		return fmt.Errorf("fold row %d (%s): %w", r.Seq, r.Type, err)
	}
	t.w.head = r.Head()
	return nil
}

// Follows reports whether the ledger follows a stream.
func (l *Ledger) Follows() bool { return l.follows }
