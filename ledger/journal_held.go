// Holding back writes of a transaction, so that one statement does the work of several:
// journal rows, and an operation whose intent follows its acceptance.

package ledger

import (
	"fmt"
	"strings"
)

// heldBack holds what the transaction has appended but not written. It is written before
// any statement that could miss it, and before the transaction ends.
type heldBack struct {
	rows []Row
	born *birth
}

// writeHeld writes everything that is held back.
func (w *writer) writeHeld() error {
	if err := w.writeBirth(); err != nil {
		return err
	}
	return w.writeRows()
}

// forgetHeld drops what is held back, and the cached operations and last booking: a
// rollback may undo them.
func (w *writer) forgetHeld() {
	w.booked = 0
	w.held.rows, w.held.born = w.held.rows[:0], nil
	w.known.clear()
}

// before runs before each statement of the writer's connection. Held-back rows matter to
// statements that name the journal or a view. A held-back operation may matter to any
// statement.
func (w *writer) before(s *prepared) error {
	if err := w.writeBirth(); err != nil || !s.readsJournal {
		return err
	}
	return w.writeRows()
}

// readsJournal reports whether a statement may read the journal. Triggers do not read it,
// except for the journal's own.
func readsJournal(query string) bool {
	return strings.Contains(query, "journal") || strings.Contains(query, " v_")
}

// insert puts a row after the last one.
func (t *Tx) insert(r Row) error {
	if t.w.held.rows = append(t.w.held.rows, r); len(t.w.held.rows) < insertMost {
		return nil
	}
	return t.w.writeRows()
}

// One statement stores as many rows as possible. Together rows cost half as much as one by
// one.
const (
	insertMost = 64
	insertSome = 8
)

const (
	insertRow = `INSERT INTO journal (` + rowColumns + `) VALUES ` + rowValues
	rowValues = `(?, ?, ?, ?, ?, ?, ?)`
)

var inserts = map[int]string{
	insertMost: insertRow + strings.Repeat(`, `+rowValues, insertMost-1),
	insertSome: insertRow + strings.Repeat(`, `+rowValues, insertSome-1),
	1:          insertRow,
}

// writeRows stores the held-back rows.
func (w *writer) writeRows() error {
	rows, born := w.held.rows, w.held.born
	w.held = heldBack{} // keeps these statements from calling writeRows again
	defer func() { w.held = heldBack{rows: rows[:0], born: born} }()
	for left := rows; len(left) > 0; {
		n := 1
		switch {
		case len(left) >= insertMost:
			n = insertMost
		case len(left) >= insertSome:
			n = insertSome
		}
		w.rowArgs = w.rowArgs[:0]
		for _, r := range left[:n] {
			w.rowArgs = append(w.rowArgs, r.Seq, r.Type, r.Time, r.Operation, r.Data, r.PrevHash, r.Hash)
		}
		if err := w.exec(inserts[n], w.rowArgs...); err != nil {
			return fmt.Errorf("journal rows %d to %d: %w", left[0].Seq, left[n-1].Seq, err)
		}
		left = left[n:]
	}
	return nil
}
