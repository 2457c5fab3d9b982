// What was spent, by the quarter of an hour, and what is under way: the limit of a
// day is decided with it.

package ledger

import (
	"time"
)

// quarterMicros is how long a row of spent is: every midnight of the present
// time zones begins one.
const quarterMicros = int64(15 * time.Minute / time.Microsecond)

// quarterOf is the quarter of an hour that an instant is in, since 1970 UTC.
func quarterOf(at int64) int64 {
	q := at / quarterMicros
	if at%quarterMicros < 0 {
		q-- // before 1970
	}
	return q
}

// spending is what one quarter of an hour adds to spent, and from which rows.
type spending struct{ first, last, cents int64 }

// spend counts a transfer, before it is written, in the quarter of its row.
func (w *writer) spend(r Row, m transfer) {
	cents := m.cents
	switch m.kind {
	case "charge", "suspense":
	case "refund":
		cents = -cents
	default:
		return
	}
	x, ok := w.spent[quarterOf(r.Time)]
	if !ok {
		x.first = r.Seq
	}
	w.spent[quarterOf(r.Time)] = spending{first: min(x.first, r.Seq), last: max(x.last, r.Seq), cents: x.cents + cents}
}

// flushSpent writes what a transaction spent, before it is committed.
func (w *writer) flushSpent() error {
	for quarter, x := range w.spent {
		err := w.exec(`INSERT INTO spent (quarter, first_seq, last_seq, cents) VALUES (?, ?, ?, ?)
			ON CONFLICT (quarter) DO UPDATE SET first_seq = min(first_seq, excluded.first_seq), last_seq = max(last_seq, excluded.last_seq),
			cents = cents + excluded.cents`, quarter, x.first, x.last, x.cents)
		if err != nil {
			return err
		}
	}
	clear(w.spent)
	return nil
}
