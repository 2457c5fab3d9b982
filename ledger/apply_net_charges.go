// Net charges per quarter of an hour, which decide the daily limit.

package ledger

import (
	"cmp"
	"time"
)

// quarterMicros is the span of one row of net_charges. In every present time zone midnight
// starts a new quarter.
const quarterMicros = int64(15 * time.Minute / time.Microsecond)

// quarterOf returns the quarter of an hour that holds an instant, counted since 1970 UTC.
func quarterOf(at int64) int64 {
	q := at / quarterMicros
	if at%quarterMicros < 0 {
		q-- // before 1970
	}
	return q
}

// countNet counts a transfer booked at an instant: a charge in its own quarter, a refund in
// the quarter of its charge. Otherwise a refund of yesterday's charge would make room under
// today's limit.
func (w *writer) countNet(at int64, m transfer) {
	switch m.kind {
	case "charge", "suspense":
		w.netCharges[quarterOf(at)] += m.cents
	case "refund":
		w.netCharges[quarterOf(cmp.Or(m.chargedAt, at))] -= m.cents
	}
}

// flushNetCharges writes the net charges of a transaction, before the commit.
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
