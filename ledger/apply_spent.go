// What was spent, by the quarter of an hour, and what is under way: the limit of a
// day is decided with it.

package ledger

import (
	"context"
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

// Committed is what was charged since an instant, less refunds, and what the
// operations under way are expected to cost; except is left out of it. Whole
// quarters of an hour are summed from spent; of the one that the instant is in,
// where it does not begin with it, the rows themselves are.
func (l *Ledger) Committed(ctx context.Context, since time.Time, except string) (cents int64, err error) {
	at := micros(since)
	edge, whole := quarterOf(at), quarterOf(at)+1
	if edge*quarterMicros == at {
		edge, whole = edge-1, edge
	}
	err = l.read.QueryRowContext(ctx, `SELECT
		coalesce((SELECT sum(cents) FROM spent WHERE quarter >= ?1), 0)
		+ coalesce((SELECT sum(CASE t.kind WHEN 'refund' THEN -t.cents ELSE t.cents END)
			FROM spent s CROSS JOIN transfers t ON t.seq BETWEEN s.first_seq AND s.last_seq
			LEFT JOIN journal j ON j.seq = t.seq LEFT JOIN archived a ON a.seq = t.seq
			WHERE s.quarter = ?2 AND coalesce(j.time, a.time) >= ?3 AND coalesce(j.time, a.time) < ?1 * ?4
			AND (t.kind = 'charge' OR t.kind = 'suspense' OR t.kind = 'refund')), 0)
		+ coalesce((SELECT sum(estimate_cents - charged_cents) FROM operations
			WHERE live = 1 AND state IN ('sending', 'waiting', 'open', 'review') AND charged_cents < estimate_cents AND id <> ?5), 0)`,
		whole, edge, at, quarterMicros, except).Scan(&cents)
	return cents, err
}

// Unpriced reports whether an operation may be charging an unknown amount: it is being
// sent or may have executed, and it has no estimate.
func (l *Ledger) Unpriced(ctx context.Context, except string) (found bool, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM operations
		WHERE live = 1 AND estimate_cents = 0 AND charged_cents = 0 AND id <> ?
		AND (state = 'sending' OR state = 'open' OR state = 'review' OR (state = 'waiting' AND ambiguous > 0)))`, except).Scan(&found)
	return found, err
}
