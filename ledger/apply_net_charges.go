// Net charges per quarter of an hour, on which the daily limit is based.

package ledger

import (
	"cmp"

	"perennial/ledger/tables"
)

// countNet counts a transfer booked at an instant: a charge in its own quarter of an hour, a
// refund in the quarter of its charge. If a refund counted in its own quarter, a refund of
// yesterday's charge would raise today's limit.
func (w *writer) countNet(at int64, m transfer) {
	switch m.kind {
	case "charge", "suspense":
		w.netCharges[tables.QuarterOf(at)] += m.cents
	case "refund":
		w.netCharges[tables.QuarterOf(cmp.Or(m.chargedAt, at))] -= m.cents
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
