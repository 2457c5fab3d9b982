// The single writer, which gathers callers' writes and commits them in groups.

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

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// request is one caller's write, waiting for its group's commit.
type request struct {
	fn   func(*Tx) error
	err  error
	done chan struct{}
}

// writer owns the only connection that writes.
type writer struct {
	*conn
	l    *Ledger
	head chain.Head   // the last row of the journal
	buf  []byte       // of the row being hashed
	text bytes.Buffer // of the fact being encoded

	leading *Leadership // under which the group runs; nil for none

	currency string // of the account; "" until read

	totals     map[total]int64 // of the transaction, not yet written
	netCharges map[int64]int64 // likewise, by quarter of an hour
	booked     int64           // time of the last booking; 0 until read
	held       heldBack        // of the transaction, not yet written
	singly     bool            // write every row by itself, at its fact
	storing    bool            // held-back rows are being written
	row        []any           // the operation being written
	arrows     map[[2]fact.State]bool
	fleet      bool // a proxy was changed since the last commit: see Ledger.Revision
	known      known

	pauseAt int64            // log size in bytes at which readers pause
	paused  chan []*sql.Conn // delivers the connections of paused readers; nil if no pause was asked for

	turn     bool          // the writer has one of its process's turns
	shared   int           // number of writes in the last group
	took     time.Duration // recent average duration of a commit
	rows     int           // rows written by the last group
	doubtful bool          // the disk failed: recover before the next commit
}

func newWriter(c *conn, l *Ledger) (*writer, error) {
	w := emptyWriter(c)
	w.l = l
	if err := w.tune(); err != nil {
		return nil, err
	}
	err := w.QueryRow(`SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1`).Scan(&w.head.Seq, &w.head.Hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read the head of %s: %w", l.path, err)
	}
	l.tail = newTail(w.head.Seq, w.head.Hash)
	return w, nil
}

// emptyWriter returns a writer whose next row is a journal's first.
func emptyWriter(c *conn) *writer {
	w := &writer{conn: c, head: chain.Head{Hash: chain.Genesis}, totals: map[total]int64{}, netCharges: map[int64]int64{}, held: newHeld(), known: newKnown()}
	c.before = w.before
	return w
}

// encode returns a fact's JSON as the journal holds it.
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

// tune keeps savepoints' copies of pages out of temporary files, and lets the WAL grow to
// 64 MiB before it is copied back. When the WAL restarts, its excess is cut off.
func (w *writer) tune() error {
	return errors.Join(w.exec(`PRAGMA temp_store = MEMORY`), w.exec(`PRAGMA wal_autocheckpoint = `+itoa(logPages)),
		w.limitLog(w.l.logBound/2))
}

// limitLog sets how large the log's file may be when it restarts.
func (w *writer) limitLog(bytes int64) error {
	var limit int64
	return w.QueryRow(`PRAGMA journal_size_limit = ` + itoa(bytes)).Scan(&limit)
}

// Write runs fn in the writer's transaction. It returns once what fn appended is on the
// disk, or with the error that undid it. fn sees all earlier facts and must touch only the
// Tx. It may run a second time when another fn of its group failed. A failing fn is undone
// alone; a failing commit fails every fn of its group. A cancelled ctx stops the wait only
// until the writer has taken the request.
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

// lingerMost bounds how long a busy writer waits for its group to grow. A commit costs a
// sync and every page it touched, however few facts it holds. A wait longer than the commit
// itself delays the callers and saves nothing.
const lingerMost = 4 * time.Millisecond

// gather collects the waiting requests. After a shared group it waits for as many again, no
// longer than a commit takes. A writer with a single caller never waits.
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

// takeTurn waits for the writer's turn, and adds the requests that arrived meanwhile.
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

// timed commits a group, and records how long it takes.
func (w *writer) timed(group []*request) {
	defer w.giveTurn()
	began := time.Now() //nolint:forbidigo // a duration, which is in no fact
	w.l.working.Store(sqlite.Micros(began))
	defer w.l.working.Store(0)
	w.commit(group)
	took := time.Since(began) //nolint:forbidigo // likewise
	w.took = (3*w.took + took) / 4
	w.l.committed(len(group), took)
}

// errRefused reports that a request of the group failed, not the transaction.
var errRefused = errors.New("a write of the group was refused")

// commit runs the group in one transaction. A savepoint per request would cost a copy of
// every page it touches, so the group first runs without. If a request fails, the group is
// undone and runs again with savepoints.
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
		if w.fleet || len(rows) > 0 {
			w.fleet = false
			w.l.revision.Add(1)
		}
		w.l.tail.add(rows, w.head)
	}
	for _, r := range group {
		close(r.done)
	}
	w.boundLog()
}

// noteFailure records why a commit failed. A failed publication is not the file's fault.
func (w *writer) noteFailure(err error) {
	if _, unpublished := errors.AsType[*UnpublishedError](err); unpublished {
		return
	}
	w.l.failing.Store(&err)
	_ = w.l.guard.notice(err)
}

// firstFileError returns a group's first error of the file or disk, as opposed to one of a
// request.
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

// transact runs every request through one, and commits. After an error nothing of it has
// happened.
func (w *writer) transact(group []*request, one func(*Tx, *request) error) (rows []chain.Row, err error) {
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
	tx := newTx(w, sqlite.Micros(w.l.clock()))
	tx.rows = make([]chain.Row, 0, w.rows)
	for _, r := range group {
		if err := one(tx, r); err != nil {
			return nil, err
		}
	}
	if err := w.writeHeld(); err != nil {
		return nil, errors.Join(errRefused, err) // running each in its own savepoint shows which request failed
	}
	if err := w.flushTotals(); err != nil {
		return nil, err
	}
	w.rows = len(tx.rows)
	w.giveTurn()
	return tx.rows, w.settle(group, tx.rows)
}

// together runs a request as part of the group.
func (w *writer) together(tx *Tx, r *request) error {
	if r.err = tx.run(r.fn); r.err != nil {
		return errRefused
	}
	return nil
}

// savepoint runs a request in its own savepoint. The head advances only when the savepoint
// is released. It returns an error only if SQLite has undone the whole transaction.
func (w *writer) savepoint(tx *Tx, r *request) error {
	before, rows, totals, net := w.head, len(tx.rows), maps.Clone(w.totals), maps.Clone(w.netCharges)
	if err := w.exec(`SAVEPOINT one`); err != nil {
		return err
	}
	w.singly = true
	if r.err = tx.run(r.fn); r.err == nil {
		r.err = w.writeHeld()
	}
	w.singly = false
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
