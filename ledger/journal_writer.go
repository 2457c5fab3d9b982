package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/mattn/go-sqlite3"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

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
	singly     bool            // store each row with its own statement, when its fact is applied
	storing    bool            // held-back rows are being written
	row        []any           // arguments of the operation being written
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

// Keeps the page copies of savepoints out of temporary files, and allows the WAL to grow to 64
// MiB before it is copied back. A larger WAL is truncated when it restarts.
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

// Write runs fn in the writer's transaction. It returns when the facts that fn appended are on
// disk, or with an error if they were undone. fn sees all earlier facts and must only use the Tx.
// fn may run several times: another request of its group may fail, or the group may have to be
// split. If fn fails, only its own facts are undone; if the commit fails, the whole group fails.
// Cancelling ctx has no effect after the writer has taken the request.
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

// gather collects the waiting requests. If the last group had several requests, gather waits
// for as many, but no longer than a commit takes. A writer with a single caller never waits.
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

func (w *writer) takeTurn(group []*request) []*request {
	w.turn = w.l.turns.take()
	group = w.arrived(group)
	w.shared = len(group)
	return group
}

func (w *writer) giveTurn() {
	if w.turn {
		w.turn = false
		w.l.turns.give()
	}
}

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

// Runs the group in one transaction, at first without savepoints. A savepoint per request would
// cost a copy of every page that the request changes. If a request fails, the group is undone and
// runs again with savepoints.
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

// firstFileError returns the group's first error that concerns the file or the disk. It returns
// nil if there is none.
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

// The argument one is called for every request. After that, transact commits. If it returns an
// error, everything was undone.
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

// Turns limits how many writers of one process work at once. The writes of a group share the cost
// of a commit. Writers that compete for CPU cores commit small groups; writers that take turns
// commit large ones. A writer that waits for the disk or for a publication gives up its turn.
// Turns is safe for concurrent use. A nil *Turns sets no limit.
type Turns struct {
	taken chan struct{}
	most  time.Duration // maximum wait for a turn
}

// NewTurns returns Turns that let n writers work at once. If n is below 1, one writer may work.
func NewTurns(n int) *Turns { return &Turns{taken: make(chan struct{}, max(n, 1)), most: turnMost} }

// Waits for a turn. It returns false if no turn came in time; the caller must then not call give.
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

// heldBack has rows of the transaction that are not written yet. Collecting them allows one
// statement to write many rows. They are written before any statement that could miss them, and
// before the transaction ends. An operation that is created and settled in one transaction is
// written once.
type heldBack struct {
	size int // facts, lines and transfers since the last write

	journal batch

	commands, labels, operations, lines, transfers, finished batch // in the order in which they are written

	born      []*operation          // new operations
	byID      map[string]*operation // the operations of born by ID
	claims    map[string]bool       // proxies in lines of born; true while reserved
	accepted  map[string]bool       // IDs of commands
	revisions map[string]int64      // of finished, by command
}

// heldMost limits how many facts, lines and transfers are held back, about 20 MB. With a
// quarter of this limit a verification needs 5 % more CPU time; doubling it brings nothing.
const heldMost = 1 << 14

func newHeld() heldBack {
	return heldBack{
		journal:    newBatch(`journal`, chain.Columns, ``),
		commands:   newBatch(`commands`, `id, kind, content_hash, accepted_seq, accepted_at, reply_to`, ``),
		labels:     newBatch(`command_labels`, `name, value, accepted_at, command_id`, ``),
		operations: newBatch(`operations`, `id, command_id, kind, chunk, generation, idempotency_key, accepted_at, `+changing, ``),
		lines:      newBatch(`lines`, `operation, proxy_id, duration_days, state, claim, observed_expires_at, charged_cents, refunded_cents, settled_at`, ``),
		transfers:  newBatch(`transfers`, `seq, n, kind, debit, credit, cents, operation, order_no, proxy_id, booked_at`, ``),
		finished:   newBatch(`finished`, `command_id, revision, seq`, ` ON CONFLICT (command_id) DO UPDATE SET revision = excluded.revision, seq = excluded.seq`),
		byID:       map[string]*operation{}, claims: map[string]bool{}, accepted: map[string]bool{}, revisions: map[string]int64{},
	}
}

func (h *heldBack) tables() [6]*batch {
	return [...]*batch{&h.commands, &h.labels, &h.operations, &h.lines, &h.transfers, &h.finished}
}

// empty reports whether no projection has rows held back. It ignores the journal.
func (h *heldBack) empty() bool {
	for _, b := range h.tables() {
		if len(b.args) > 0 {
			return false
		}
	}
	return len(h.born) == 0
}

type batch struct {
	inserts map[int]string // by number of rows
	width   int            // columns per row
	args    []any
}

// Sizes of inserts. Rows that are inserted together cost half as much as single rows.
const (
	insertMost = 64
	insertSome = 8
)

func newBatch(table, columns, conflict string) batch {
	width := strings.Count(columns, `,`) + 1
	row := `(?` + strings.Repeat(`, ?`, width-1) + `)`
	b := batch{inserts: map[int]string{}, width: width}
	for _, n := range []int{1, insertSome, insertMost} {
		b.inserts[n] = `INSERT INTO ` + table + ` (` + columns + `) VALUES ` + row + strings.Repeat(`, `+row, n-1) + conflict
	}
	return b
}

func (b *batch) add(values ...any) { b.args = append(b.args, values...) }

func (b *batch) rows() int { return len(b.args) / b.width }

func (b *batch) forget() {
	clear(b.args)
	b.args = b.args[:0]
}

func (w *writer) store(b *batch, most int) error {
	w.storing = true
	defer func() { w.storing = false }()
	for left := b.args; len(left) > 0; {
		n := 1
		switch rows := min(len(left)/b.width, most); {
		case rows >= insertMost:
			n = insertMost
		case rows >= insertSome:
			n = insertSome
		}
		if err := w.exec(b.inserts[n], left[:n*b.width]...); err != nil {
			b.args = left // the refused row is among the first
			return err
		}
		left = left[n*b.width:]
	}
	b.forget()
	return nil
}

// errTogether reports that a statement with several rows was refused. Storing the rows singly
// (writer.singly) shows which row is at fault.
var errTogether = errors.New("a row of several was refused")

func (w *writer) writeHeld() error {
	if err := w.writeProjected(); err != nil {
		return err
	}
	return w.writeRows()
}

func (w *writer) writeProjected() error {
	if w.held.empty() {
		return nil
	}
	for _, o := range w.held.born {
		w.held.operations.add(o.ID, o.CommandID, string(o.Kind), o.Chunk, o.Generation, o.Key, sqlite.Micros(o.AcceptedAt))
		w.held.operations.args = o.appendChanging(w.held.operations.args)
		for _, l := range o.lines {
			w.held.lines.add(o.ID, l.proxyID, o.days, string(l.state), l.claim, l.observed, l.charged, l.refunded, l.settled)
		}
		o.lines = nil
	}
	most := insertMost
	if w.singly {
		most = 1
	}
	for _, b := range w.held.tables() {
		err := w.store(b, most)
		failure, _ := errors.AsType[sqlite3.Error](err)
		switch {
		case err == nil:
		case !w.singly:
			return fmt.Errorf("%w: %w", errTogether, err)
		case b == &w.held.lines && failure.ExtendedCode == sqlite3.ErrConstraintUnique:
			return fmt.Errorf("proxy %s: %w", b.args[1], ErrClaimed)
		default:
			return err
		}
	}
	w.held.forgetProjected()
	return nil
}

// If the held-back rows contain a line of the proxy, they are written.
func (w *writer) writeLinesOf(proxyID string) error {
	if _, held := w.held.claims[proxyID]; !held {
		return nil
	}
	return w.writeProjected()
}

func (h *heldBack) forgetProjected() {
	for _, b := range h.tables() {
		b.forget()
	}
	clear(h.born)
	h.size, h.born = 0, h.born[:0]
	clear(h.byID)
	clear(h.claims)
	clear(h.accepted)
	clear(h.revisions)
}

// forgetHeld drops what is held back, the cached operations and the time of the last
// booking, because a rollback may undo them.
func (w *writer) forgetHeld() {
	w.booked = 0
	w.held.journal.forget()
	w.held.forgetProjected()
	w.known.clear()
}

// Applies a fact. It writes the held-back rows if there are many of them, or if every row is
// stored singly.
func (t projector) project(r chain.Row, f fact.Fact) error {
	if err := t.apply(r, f); err != nil {
		return err
	}
	if t.w.held.size++; t.w.held.size < heldMost && !t.w.singly {
		return nil
	}
	return t.w.writeProjected()
}

// Before each statement of the writer, the held-back rows that the statement could miss are
// written.
func (w *writer) before(s *prepared) error {
	if w.storing {
		return nil
	}
	if s.readsHeld {
		if err := w.writeProjected(); err != nil {
			return err
		}
	}
	if s.readsJournal {
		return w.writeRows()
	}
	return nil
}

// readsJournal reports whether a statement may read the journal. Of the triggers, only the
// journal's own read it.
func readsJournal(query string) bool {
	return strings.Contains(query, "journal") || strings.Contains(query, " v_")
}

// byKey lists statements that access one row by its key. Their callers check first whether
// that row is held back.
var byKey = map[string]bool{
	changeOperation: true, changeAmounts: true, operationByID: true, settleLine: true, endLines: true, skipLine: true, observeLine: true,
	tables.LinesByOperation: true, revisionOf: true, tables.KnownCommand: true, tables.ClaimantQuery: true, tables.SeenExpiry: true, stale: true,
}

// readsHeld reports whether a statement may access a projection whose rows are held back.
func readsHeld(query string) bool {
	if byKey[query] {
		return false
	}
	for _, name := range []string{"commands", "labels", "operations", "lines", "transfers", "finished", "state_counts", " v_", "explained_moves"} {
		if strings.Contains(query, name) {
			return true
		}
	}
	return false
}

func (t *Tx) insert(r chain.Row) error {
	t.w.held.journal.add(r.Seq, r.Type, r.Time, r.Operation, r.Data, r.PrevHash, r.Hash)
	if t.w.held.journal.rows() < insertMost {
		return nil
	}
	return t.w.writeRows()
}

func (w *writer) writeRows() error {
	if w.held.journal.rows() == 0 {
		return nil
	}
	first := w.held.journal.args[0]
	if err := w.store(&w.held.journal, insertMost); err != nil {
		return fmt.Errorf("journal rows from %d: %w", first, err)
	}
	return nil
}

type heldLine struct {
	proxyID           string
	state             fact.LineState
	claim             bool
	observed, settled any // microseconds, or nil
	charged, refunded int64
}
