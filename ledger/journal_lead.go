// Leading: who may append to a journal that is a stream elsewhere. Rows of a leader are
// on the stream before they are committed here, so that this file is never ahead of it.

package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Publish puts rows, in order, after the row before them on the stream that is the
// journal. nil says that all of them are there for good. After an error it is not known
// whether they are, or will be.
type Publish func(ctx context.Context, rows []Row) error

// ErrNotLeading is what Append returns on a ledger that follows a stream and does not
// lead it: another runner may write it. Nothing was written.
var ErrNotLeading = errors.New("the ledger follows the events stream, which another runner may write")

// ErrLeads is what Fold returns while the ledger leads, and Lead on one that leads
// already.
var ErrLeads = errors.New("the ledger leads: it appends to the events stream itself")

// UnpublishedError says that rows were not committed because they are not known to be
// on the stream. They may be, or may arrive there later: who leads next folds them.
type UnpublishedError struct {
	First, Last int64 // of the rows
	Err         error // of Publish
}

func (e *UnpublishedError) Error() string {
	return fmt.Sprintf("rows %d to %d are not known to be on the events stream, and nothing of them was committed: %v", e.First, e.Last, e.Err)
}

func (e *UnpublishedError) Unwrap() error { return e.Err }

// Ended reports whether an error of Write says that this ledger takes nothing more until
// it is opened again, or leads again: trying again is of no use.
func Ended(err error) bool {
	_, unpublished := errors.AsType[*UnpublishedError](err)
	return unpublished || errors.Is(err, ErrNotLeading) || errors.Is(err, ErrClosed)
}

// PublishMost is how many rows are published at once at most: what JetStream takes as
// one atomic batch.
const PublishMost = 1000

// errSplit says that a group has more rows than are published at once.
var errSplit = errors.New("the group has more rows than are published at once")

// Leadership is the right to append to a ledger that follows a stream. It ends with
// End, and by itself with the first rows that could not be published, or that were
// published and could not be committed: what is on the stream has to be folded before
// anything else is appended.
type Leadership struct {
	l       *Ledger
	publish Publish
	ctx     context.Context
	cancel  context.CancelFunc
	once    sync.Once
	over    chan struct{}
	why     error        // set before over is closed
	waiting atomic.Int64 // since when a publication is in progress, in microseconds; 0: none is
}

// Lead lets Write append. The caller has folded all that the stream holds, and owns the
// account's lease.
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

// Over is closed when the leadership has ended; Err then says why.
func (x *Leadership) Over() <-chan struct{} { return x.over }

// Err is why the leadership ended automatically, nil while it has not.
func (x *Leadership) Err() error {
	select {
	case <-x.over:
		return x.why
	default:
		return nil
	}
}

// Waiting is since when rows have waited for their acknowledgement, by the ledger's
// clock; zero when none do.
func (x *Leadership) Waiting() time.Time {
	if at := x.waiting.Load(); at > 0 {
		return fromMicros(at)
	}
	return time.Time{}
}

// End gives the right back and returns when the writer has left the group that it was
// in. A publication without an answer is given up.
func (x *Leadership) End() {
	x.lose(nil)
	// The writer runs one group at a time: after this one, no earlier one is in progress.
	_ = x.l.Write(context.Background(), func(*Tx) error { return nil })
}

// lose ends the leadership; the first reason counts.
func (x *Leadership) lose(why error) {
	x.once.Do(func() {
		x.why = why
		x.cancel()
		x.l.leader.CompareAndSwap(x, nil)
		close(x.over)
	})
}

// put publishes the rows of a group. More than are published at once are one caller's:
// they go in several parts, of which a crash leaves the beginning.
func (x *Leadership) put(rows []Row) error {
	x.waiting.Store(micros(x.l.clock()))
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

// settle commits the group's transaction: where the journal is a stream, after the
// publication of its rows.
func (w *writer) settle(group []*request, rows []Row) error {
	leader := w.leading
	if leader == nil || len(rows) == 0 {
		return w.exec(`COMMIT`)
	}
	if len(rows) > PublishMost && len(group) > 1 {
		return errSplit
	}
	w.l.reached("ledger.publishing")
	w.l.working.Store(0) // NATS is waited for
	err := leader.put(rows)
	w.l.working.Store(micros(time.Now())) //nolint:forbidigo // a duration, which is in no fact
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

// mayAppend refuses an own fact where the stream is another's to write.
func (w *writer) mayAppend() error {
	if w.l != nil && w.l.follows && w.leading == nil {
		return ErrNotLeading
	}
	return nil
}
