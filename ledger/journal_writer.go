// The writer, which gathers the writes of all callers and commits them in groups. The
// writers of several ledgers in one process take turns, so that each commits large groups.

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

// request is one caller's write, waiting for the commit of its group.
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
	buf  []byte       // buffer for hashing a row
	text bytes.Buffer // buffer for encoding a fact

	leading *Leadership // leadership under which the group runs, or nil

	currency string // the account's currency; "" until it is read

	totals     map[total]int64 // changes of totals in the transaction that are not written yet
	netCharges map[int64]int64 // changes of net charges that are not written yet, by quarter of an hour
	booked     int64           // time of the last booking; 0 until it is read
	held       heldBack        // rows of the transaction that are not written yet
	singly     bool            // store every row singly, at its fact
	storing    bool            // held-back rows are being written
	row        []any           // the operation being written
	arrows     map[[2]fact.State]bool
	fleet      bool // a proxy has changed since the last commit: see Ledger.Revision
	known      known

	pauseAt int64            // size of the log, in bytes, at which readers pause
	paused  chan []*sql.Conn // delivers the connections of paused readers; nil if no pause was requested

	turn     bool          // the writer has one of the process's turns
	shared   int           // number of writes in the last group
	took     time.Duration // average duration of recent commits
	rows     int           // rows of the last group
	doubtful bool          // the disk failed: recover before the next commit
}

func newWriter(c *conn, l *Ledger) (*writer, error) {
	w := emptyWriter(c)
	w.l = l
	if err := w.tune(); err != nil {
		return nil, err
	}
	if err := w.readHead(); err != nil {
		return nil, fmt.Errorf("read the head of %s: %w", l.path, err)
	}
	l.tail = newTail(w.head)
	return w, nil
}

func emptyWriter(c *conn) *writer {
	w := &writer{conn: c, head: chain.Head{Hash: chain.Genesis}, totals: map[total]int64{}, netCharges: map[int64]int64{}, held: newHeld(), known: newKnown()}
	c.before = w.before
	return w
}

func (w *writer) readHead() (err error) {
	w.head, err = chain.LastRow(w.QueryRow(chain.LastRowQuery))
	return err
}

// inTransaction commits what do writes. If do fails, it undoes it.
func (w *writer) inTransaction(do func() error) error {
	if err := w.exec(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	if err := do(); err != nil {
		return errors.Join(err, w.exec(`ROLLBACK`))
	}
	return w.exec(`COMMIT`)
}

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

// tune keeps the page copies of savepoints out of temporary files, and allows the WAL to
// grow to 64 MiB before it is copied back. A larger WAL is truncated when it restarts.
func (w *writer) tune() error {
	return errors.Join(w.exec(`PRAGMA temp_store = MEMORY`), w.exec(`PRAGMA wal_autocheckpoint = `+itoa(logPages)),
		w.limitLog(w.l.logBound/2))
}

// limitLog sets the size, in bytes, to which a larger log file is truncated when it
// restarts.
func (w *writer) limitLog(bytes int64) error {
	var limit int64
	return w.QueryRow(`PRAGMA journal_size_limit = ` + itoa(bytes)).Scan(&limit)
}

// Write runs fn in the writer's transaction. It returns when the facts that fn appended are
// on disk, or with an error if they were undone. fn sees all earlier facts and must only use
// the Tx. fn may run several times, if another fn of its group failed or the group had to be
// split. If fn fails, only its own facts are undone; if the commit fails, the whole group
// fails. Cancelling ctx only has an effect until the writer has taken the request.
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
	case <-l.done: // the writer may have stopped between the two selects
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

// lingerMost limits how long a busy writer waits for its group to grow. A commit costs a
// sync and writes every changed page, however few facts it contains. Waiting longer than
// the commit itself takes would delay the callers without saving anything.
const lingerMost = 4 * time.Millisecond

// gather collects the waiting requests. If the last group was shared, it waits for as many
// requests as that group had, but no longer than a commit takes. A writer with a single
// caller never waits.
func (w *writer) gather(group []*request) []*request {
	var late <-chan time.Time
	if w.shared > 1 {
		timer := time.NewTimer(min(w.took, lingerMost))
		defer timer.Stop()
		late = timer.C
	}
	for {
		group = w.arrived(group)
		if late == nil || len(group) >= w.shared {
			return group
		}
		select {
		case r := <-w.l.requests:
			group = append(group, r)
		case <-late:
			late = nil
		}
	}
}

// arrived adds the waiting requests to the group, up to its capacity.
func (w *writer) arrived(group []*request) []*request {
	for len(group) < cap(group) {
		select {
		case r := <-w.l.requests:
			group = append(group, r)
		default:
			return group
		}
	}
	return group
}

// takeTurn waits for the writer's turn and adds the requests that arrived meanwhile.
func (w *writer) takeTurn(group []*request) []*request {
	w.turn = w.l.turns.take()
	group = w.arrived(group)
	w.shared = len(group)
	return group
}

// giveTurn ends the writer's turn, if it has one.
func (w *writer) giveTurn() {
	if w.turn {
		w.turn = false
		w.l.turns.give()
	}
}

// timed commits a group and records the duration.
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

// errRefused reports that a request of the group failed, rather than the whole transaction.
var errRefused = errors.New("a write of the group was refused")

// commit runs the group in one transaction, at first without savepoints. A savepoint per
// request would cost a copy of every page that the request changes. If a request fails, the
// group is undone and runs again with savepoints.
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

// noteFailure records why a commit failed. A failed publication is not recorded, because
// the file is not at fault.
func (w *writer) noteFailure(err error) {
	if _, unpublished := errors.AsType[*UnpublishedError](err); unpublished {
		return
	}
	w.l.failing.Store(&err)
	_ = w.l.guard.notice(err)
}

// firstFileError returns the group's first error that concerns the file or the disk, or
// nil.
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

// transact calls the function one for every request, then commits. If it returns an error,
// everything was undone.
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
		return nil, errors.Join(errRefused, err) // a run with savepoints will show which request failed
	}
	if err := w.flushTotals(); err != nil {
		return nil, err
	}
	w.rows = len(tx.rows)
	w.giveTurn()
	return tx.rows, w.settle(group, tx.rows)
}

func (w *writer) together(tx *Tx, r *request) error {
	if r.err = tx.run(r.fn); r.err != nil {
		return errRefused
	}
	return nil
}

// savepoint runs a request in a savepoint of its own. The head advances only when the
// savepoint is released. It returns an error only if the whole transaction must be undone.
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

// turnMost limits how long a writer waits for its turn, so that a stuck ledger file does
// not block the others.
const turnMost = 250 * time.Millisecond

// Turns limits how many writers of one process work at once. The writes of a group share
// the cost of a commit. Writers that compete for CPU cores commit small groups; writers
// that take turns commit large ones. A writer that waits for the disk or for a publication
// gives up its turn. Turns is safe for concurrent use; nil sets no limit.
type Turns struct {
	taken chan struct{}
	most  time.Duration // maximum wait for a turn
}

// NewTurns returns Turns for n writers at once, at least 1.
func NewTurns(n int) *Turns { return &Turns{taken: make(chan struct{}, max(n, 1)), most: turnMost} }

// take waits for a turn. It returns false if no turn came in time; the caller must then not
// call give.
func (t *Turns) take() bool {
	if t == nil {
		return false
	}
	select {
	case t.taken <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(t.most)
	defer timer.Stop()
	select {
	case t.taken <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

func (t *Turns) give() { <-t.taken }
