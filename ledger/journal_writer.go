// The one writer: it gathers what callers write, and commits a group of them at
// once.

package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/mattn/go-sqlite3"

	"perennial/ledger/fact"
)

// request is one caller's write, waiting for its group to be committed.
type request struct {
	fn   func(*Tx) error
	err  error
	done chan struct{}
}

// writer owns the only connection that writes.
type writer struct {
	*conn
	l    *Ledger
	head head
	buf  []byte       // of the row being hashed
	text bytes.Buffer // of the fact being encoded

	leading *Leadership // under which the group runs, nil where there is none

	currency string // of the account, "" while it was not read

	totals     map[total]int64 // of the transaction, not yet written
	netCharges map[int64]int64 // likewise, by quarter of an hour
	booked     int64           // when something was booked last, 0 while it was not read
	held       heldBack        // likewise
	rowArgs    []any           // of the rows being written
	known      known

	pauseAt int64            // how long the log has to be for the readers to pause
	paused  chan []*sql.Conn // gives the connections of readers that pause, nil while none was asked

	turn     bool          // this writer has one of its process's turns
	shared   int           // how many shared the last group
	took     time.Duration // what a group takes to be committed, of late
	rows     int           // how many rows the last group wrote
	doubtful bool          // the disk failed: recover before the next commit
}

// head is the last row of the journal.
type head struct {
	seq  int64
	hash string
}

func newWriter(c *conn, l *Ledger) (*writer, error) {
	w := emptyWriter(c)
	w.l = l
	if err := w.tune(); err != nil {
		return nil, err
	}
	err := w.queryRow(`SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1`).Scan(&w.head.seq, &w.head.hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read the head of %s: %w", l.path, err)
	}
	l.tail = newTail(w.head.seq, w.head.hash)
	return w, nil
}

// emptyWriter is a writer whose next row is the first of a journal.
func emptyWriter(c *conn) *writer {
	w := &writer{conn: c, head: head{hash: genesis}, totals: map[total]int64{}, netCharges: map[int64]int64{}, known: newKnown()}
	c.before = w.before
	return w
}

// encode is a fact's JSON as the journal holds it.
func (w *writer) encode(f fact.Fact) (string, error) {
	w.text.Reset()
	if err := fact.Encode(&w.text, f); err != nil {
		return "", fmt.Errorf("encode %s: %w", f.FactType(), err)
	}
	data := w.text.Bytes()
	if len(data) > MaxFactBytes {
		return "", fmt.Errorf("%s %s has %d bytes of at most %d: %w", f.FactType(), f.Subject(), len(data), MaxFactBytes, ErrTooLarge)
	}
	return string(data), nil
}

// tune keeps the copies of pages that savepoints need out of temporary files,
// and lets the WAL grow to 64 MiB before it is copied back. When it begins again,
// what it had more is cut off.
func (w *writer) tune() error {
	return errors.Join(w.exec(`PRAGMA temp_store = MEMORY`), w.exec(`PRAGMA wal_autocheckpoint = `+itoa(logPages)),
		w.limitLog(w.l.logBound/2))
}

// limitLog sets how long the log's file may be when it is restarted.
func (w *writer) limitLog(bytes int64) error {
	var limit int64
	return w.queryRow(`PRAGMA journal_size_limit = ` + itoa(bytes)).Scan(&limit)
}

// Write runs fn in the writer's transaction and returns when what it appended is
// on the disk, or with the error that undid it. fn sees every fact before it
// and must touch nothing but the Tx; it may be run a second time, when another
// of its group failed. A failing fn is undone alone; a failing commit fails
// every fn of its group. A cancelled ctx stops the waiting only
// while the write has not been taken up.
func (l *Ledger) Write(ctx context.Context, fn func(*Tx) error) error {
	if l.write == nil {
		return ErrReadOnly
	}
	r := &request{fn: fn, done: make(chan struct{})}
	select {
	case l.requests <- r:
	case <-l.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-r.done:
		return r.err
	case <-l.done: // the writer may have ended between the two selects
		select {
		case <-r.done:
			return r.err
		default:
			return ErrClosed
		}
	}
}

func (w *writer) run() {
	defer close(w.l.done)
	group := make([]*request, 0, w.l.maxGroup)
	for {
		select {
		case r := <-w.l.requests:
			group = w.gather(append(group[:0], r))
			w.timed(w.takeTurn(group))
		case taken := <-w.paused:
			w.emptyLog(taken)
		case <-w.l.closing:
			if w.paused != nil {
				release(<-w.paused)
			}
			return
		}
	}
}

// lingerMost bounds how long a busy writer waits for a group to grow. A commit costs a
// sync of the disk and every page it touched, however few facts it holds; but a
// wait that is longer than the commit itself delays the callers and saves nothing.
const lingerMost = 4 * time.Millisecond

// gather takes what is waiting. After a group that others shared it waits for as many
// again, no longer than a commit takes; a writer with a single caller never waits.
func (w *writer) gather(group []*request) []*request {
	var late <-chan time.Time
	if w.shared > 1 {
		timer := time.NewTimer(min(w.took, lingerMost))
		defer timer.Stop()
		late = timer.C
	}
	for len(group) < cap(group) {
		select {
		case r := <-w.l.requests:
			group = append(group, r)
			continue
		default:
		}
		if late == nil || len(group) >= w.shared {
			break
		}
		select {
		case r := <-w.l.requests:
			group = append(group, r)
		case <-late:
			late = nil
		}
	}
	return group
}

// takeTurn waits for the writer's turn, and adds to the group what came meanwhile.
func (w *writer) takeTurn(group []*request) []*request {
	w.turn = w.l.turns.take()
	for len(group) < cap(group) {
		select {
		case r := <-w.l.requests:
			group = append(group, r)
		default:
			w.shared = len(group)
			return group
		}
	}
	w.shared = len(group)
	return group
}

// giveTurn lets the next writer work.
func (w *writer) giveTurn() {
	if w.turn {
		w.turn = false
		w.l.turns.give()
	}
}

// timed commits a group, and remembers how long that takes.
func (w *writer) timed(group []*request) {
	defer w.giveTurn()
	began := time.Now() //nolint:forbidigo // a duration, which is in no fact
	w.l.working.Store(micros(began))
	defer w.l.working.Store(0)
	w.commit(group)
	took := time.Since(began) //nolint:forbidigo // likewise
	w.took = (3*w.took + took) / 4
	w.l.committed(len(group), took)
}

// errRefused says that a request of a group failed, and not the transaction.
var errRefused = errors.New("a write of the group was refused")

// commit runs the group in one transaction. A savepoint for each request would
// cost a copy of every page that it touches, so the group first runs without;
// only when one of them fails is it undone and run again, each in its own.
func (w *writer) commit(group []*request) {
	rows, err := w.transact(group, w.together)
	if errors.Is(err, errRefused) {
		rows, err = w.transact(group, w.savepoint)
	}
	if errors.Is(err, errSplit) {
		half := len(group) / 2
		w.commit(group[:half])
		w.commit(group[half:])
		return
	}
	if err != nil {
		err = fmt.Errorf("commit to %s: %w", w.l.path, err)
		w.noteFailure(err)
		for _, r := range group {
			r.err = errors.Join(err, r.err)
		}
	} else {
		why := firstFileError(group)
		if why != nil {
			_ = w.l.guard.notice(*why)
		}
		w.l.failing.Store(why)
		w.l.tail.add(rows, w.head)
	}
	for _, r := range group {
		close(r.done)
	}
	w.boundLog()
}

// noteFailure remembers why a commit failed. What could not be published is no fault of
// the file.
func (w *writer) noteFailure(err error) {
	if _, unpublished := errors.AsType[*UnpublishedError](err); unpublished {
		return
	}
	w.l.failing.Store(&err)
	_ = w.l.guard.notice(err)
}

// firstFileError is the first error of a group that is the file's or the disk's, and
// not of what was asked.
func firstFileError(group []*request) *error {
	for _, r := range group {
		failure, _ := errors.AsType[sqlite3.Error](r.err)
		switch failure.Code {
		case sqlite3.ErrFull, sqlite3.ErrIoErr, sqlite3.ErrBusy, sqlite3.ErrReadonly, sqlite3.ErrCantOpen, sqlite3.ErrCorrupt, sqlite3.ErrNotADB:
			return &r.err
		}
	}
	return nil
}

// transact runs every request by one of the two ways and commits. After an
// error nothing of it has happened.
func (w *writer) transact(group []*request, one func(*Tx, *request) error) (rows []Row, err error) {
	before := w.head
	defer func() {
		if err != nil {
			w.forgetHeld()
			_ = w.exec(`ROLLBACK`)
			w.head = before
			clear(w.totals)
			clear(w.netCharges)
			w.doubtful = w.doubtful || isIOError(err)
		}
	}()
	if _, err := w.l.guard.check(); err != nil {
		return nil, err
	}
	if w.doubtful {
		if err := w.recover(); err != nil {
			return nil, err
		}
	}
	if err := w.exec(`BEGIN IMMEDIATE`); err != nil {
		return nil, err
	}
	w.leading = w.l.leader.Load()
	tx := &Tx{w: w, now: micros(w.l.clock()), rows: make([]Row, 0, w.rows)}
	for _, r := range group {
		if err := one(tx, r); err != nil {
			return nil, err
		}
	}
	if err := w.writeHeld(); err != nil {
		return nil, errors.Join(errRefused, err) // whose it is shows when each is run in its own savepoint
	}
	if err := w.flushTotals(); err != nil {
		return nil, err
	}
	w.rows = len(tx.rows)
	w.giveTurn()
	return tx.rows, w.settle(group, tx.rows)
}

// together runs a request as a part of the whole.
func (w *writer) together(tx *Tx, r *request) error {
	if r.err = tx.run(r.fn); r.err != nil {
		return errRefused
	}
	return nil
}

// savepoint runs a request on its own. The head advances only when it is
// released; the error returned is one that SQLite answered by undoing the
// whole transaction.
func (w *writer) savepoint(tx *Tx, r *request) error {
	before, rows, totals, net := w.head, len(tx.rows), maps.Clone(w.totals), maps.Clone(w.netCharges)
	if err := w.exec(`SAVEPOINT one`); err != nil {
		return err
	}
	if r.err = tx.run(r.fn); r.err == nil {
		r.err = w.writeHeld()
	}
	if r.err == nil {
		return w.exec(`RELEASE one`)
	}
	w.forgetHeld()
	w.head, tx.rows, w.totals, w.netCharges = before, tx.rows[:rows], totals, net
	if err := w.exec(`ROLLBACK TO one`); err != nil {
		return errors.Join(r.err, err)
	}
	return w.exec(`RELEASE one`)
}
