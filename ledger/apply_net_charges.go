// What was charged in each quarter of an hour, less what came back of it: the limit of
// a day is decided with it.

package ledger

import (
	"cmp"
	"time"
)

// quarterMicros is how long a row of net_charges is: every midnight of the present
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

// countNet counts a transfer that is booked at an instant: a charge in the quarter of it, a
// refund in the quarter of its charge. Counted when it is booked, a refund of yesterday's
// charge would make room under today's limit.
func (w *writer) countNet(at int64, m transfer) {
	switch m.kind {
	case "charge", "suspense":
		w.netCharges[quarterOf(at)] += m.cents
	case "refund":
		w.netCharges[quarterOf(cmp.Or(m.chargedAt, at))] -= m.cents
	}
}

// flushNetCharges writes what a transaction charged and took back, before it is committed.
func (w *writer) flushNetCharges() error {
	for quarter, cents := range w.netCharges {
		err := w.exec(`INSERT INTO net_charges (quarter, cents) VALUES (?, ?)
			ON CONFLICT (quarter) DO UPDATE SET cents = cents + excluded.cents`, quarter, cents)
		if err != nil {
			return err
		}
	}
	clear(w.netCharges)
	return nil
}
