// Holding back the rows of a transaction, so that one statement stores many rows. An
// operation that is created and settled meanwhile is stored once, in its last state.

package ledger

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mattn/go-sqlite3"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// heldBack has rows that the transaction has appended and not written yet. They are written
// before any statement that could miss them, and before the transaction ends.
type heldBack struct {
	size int // facts, lines and transfers since the last write

	journal batch

	commands, labels, operations, lines, transfers, finished batch // in the order in which they are written

	born      []*operation          // new operations
	byID      map[string]*operation // the operations of born by ID
	claims    map[string]bool       // proxies of born; true while their line has them reserved
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

// empty reports whether no row of a projection is held back.
func (h *heldBack) empty() bool {
	for _, b := range h.tables() {
		if len(b.args) > 0 {
			return false
		}
	}
	return len(h.born) == 0
}

// batch has rows of one table that are inserted together.
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

// forget drops the rows and clears the memory that the batch keeps.
func (b *batch) forget() {
	clear(b.args)
	b.args = b.args[:0]
}

// store inserts the rows of a batch, up to most per statement.
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

// errTogether reports that one of several rows was refused. Storing the rows singly
// (writer.singly) shows which.
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

// writeLinesOf writes what is held back if it contains a line of the proxy.
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

// project applies a fact. It writes what is held back if that has become large, or if every
// row is stored singly.
func (t projector) project(r chain.Row, f fact.Fact) error {
	if err := t.apply(r, f); err != nil {
		return err
	}
	if t.w.held.size++; t.w.held.size < heldMost && !t.w.singly {
		return nil
	}
	return t.w.writeProjected()
}

// before runs before each statement of the writer and writes the held-back rows that the
// statement could miss.
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

// heldLine is one line of a held-back operation.
type heldLine struct {
	proxyID           string
	state             fact.LineState
	claim             bool
	observed, settled any // microseconds, or nil
	charged, refunded int64
}
