// Booking money: transfers, totals, and the lines and orders that they belong to.

package ledger

import (
	"cmp"
	"fmt"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// transfer moves cents from the credited ledger account to the debited one.
type transfer struct {
	kind, debit, credit string
	cents               int64
	operation           string
	orderNo, proxyID    string
	chargedAt           int64 // for a refund: when the charge was booked; 0 if in the same row
}

// book writes the transfers of one fact. It skips zero amounts and refuses negative ones.
func (t projector) book(r chain.Row, transfers ...transfer) error {
	n, at := 0, t.bookedAt(r)
	for _, m := range transfers {
		if m.cents == 0 {
			continue
		}
		if m.cents < 0 {
			return fmt.Errorf("a transfer of %d cents from %s to %s: amounts are positive", m.cents, m.credit, m.debit)
		}
		n++
		t.w.held.transfers.add(r.Seq, n, m.kind, m.debit, m.credit, m.cents, m.operation, m.orderNo, m.proxyID, at)
		t.w.held.size++
		t.w.totals[total{m.debit, m.credit, m.kind}] += m.cents
		t.w.countNet(at, m)
		t.w.booked = at
	}
	return nil
}

// bookedAt returns the booking time of a row: the row's time, or the time of the latest
// earlier booking if that is later. A clock that was set back, or another runner's slow
// clock, therefore never books into an earlier day or month. Rows that book nothing do not
// count, because their clock may be wrong. The clock of a row that books a charge can be
// trusted: the provider refuses requests whose time is off.
func (t projector) bookedAt(r chain.Row) int64 { return max(t.w.booked, r.Time) }

// readBooked reads the time of the last booking if it is not known yet. The opening balance
// counts as a booking, even if it is zero.
func (w *writer) readBooked() error {
	if w.booked != 0 {
		return nil
	}
	return w.QueryRow(`SELECT max(coalesce((SELECT booked_at FROM transfers WHERE seq = (SELECT max(seq) FROM transfers) LIMIT 1), 0),
		coalesce((SELECT opened_at FROM binding), 0))`).Scan(&w.booked)
}

// total is the key of the table totals: the two ledger accounts and the kind of entry.
type total struct{ debit, credit, kind string }

// flushTotals writes the sums of a transaction once, before the commit.
func (w *writer) flushTotals() error {
	for k, cents := range w.totals {
		err := w.exec(`INSERT INTO totals (debit, credit, kind, cents) VALUES (?, ?, ?, ?)
			ON CONFLICT (debit, credit, kind) DO UPDATE SET cents = cents + excluded.cents`, k.debit, k.credit, k.kind, cents)
		if err != nil {
			return err
		}
	}
	clear(w.totals)
	return w.flushNetCharges()
}

func (t projector) applyOrder(r chain.Row, f fact.Fact) error {
	switch f := f.(type) {
	case fact.OrderAccepted:
		return t.change(r, f.OperationID, func(o *operation) {
			o.State, o.OrderNo, o.TraceID, o.NextAt = fact.StateOpen, f.OrderNo, f.TraceID, new(sqlite.FromMicros(sqlite.Micros(f.NextAt)))
			o.ProgressAt, o.Reason, o.Code = new(sqlite.FromMicros(r.Time)), "", ""
		})
	case fact.OrderProgressed:
		return t.orderState(r, f.OrderState, fact.StateOpen, f.Reason, new(sqlite.FromMicros(sqlite.Micros(f.NextAt))))
	case fact.OrderDelivered:
		if err := t.applyBought(f.Ref, f.ProxyIDs, f.Proxies); err != nil {
			return err
		}
		state, reason := f.OrderState, ""
		state.ExpectedCount, state.DeliveredCount = f.Counts()
		if f.Short != nil {
			reason = fmt.Sprintf("%d of %d proxies were delivered", state.DeliveredCount, state.ExpectedCount)
		}
		return t.orderState(r, state, fact.StateDelivered, reason, nil)
	case fact.OrderRefunded:
		if err := t.applyBought(f.Ref, f.ProxyIDs, f.Proxies); err != nil {
			return err
		}
		return t.orderState(r, f.OrderState, fact.StateRefunded, "", nil)
	case fact.OrderListed:
		return t.applyBought(f.Ref, f.ProxyIDs, f.Proxies)
	}
	return fmt.Errorf("no fold for %T", f)
}

func (t projector) orderState(r chain.Row, f fact.OrderState, state fact.State, reason string, nextAt *time.Time) error {
	var chargedAt int64
	err := t.change(r, f.OperationID, func(o *operation) {
		if o.DeliveredCount != f.DeliveredCount || o.ProgressAt == nil || sqlite.Micros(*o.ProgressAt) == 0 {
			o.ProgressAt = new(sqlite.FromMicros(r.Time))
		}
		o.State, o.live, o.Reason, o.TraceID, o.NextAt = state, state == fact.StateOpen, reason, cmp.Or(f.TraceID, o.TraceID), nextAt
		o.ExpectedCount, o.DeliveredCount = f.ExpectedCount, f.DeliveredCount
		o.ReadAt, o.UnreadSince = inMicros(f.ReadAt), inMicros(f.UnreadSince)
		o.add(f.ChargedCents, f.RefundedCents, t.bookedAt(r))
		chargedAt = o.firstCharge()
	})
	if err != nil {
		return err
	}
	return t.book(r,
		transfer{kind: "charge", debit: "orders", credit: "wallet", cents: f.ChargedCents, operation: f.OperationID, orderNo: f.OrderNo},
		transfer{kind: "refund", debit: "wallet", credit: "orders", cents: f.RefundedCents, operation: f.OperationID, orderNo: f.OrderNo, chargedAt: chargedAt})
}

// settle books the lines of a renewal and returns their sums. Succeeded and failed lines
// are final. An unresolved line is booked to suspense, and its proxy stays reserved.
func (t projector) settle(r chain.Row, operation string, lines []fact.Line) (charged, refunded int64, err error) {
	transfers := make([]transfer, 0, 2*len(lines))
	for _, l := range lines {
		claim := l.State == fact.LineUnresolved
		held, err := t.changeHeld(operation, l.ProxyID, func(x *heldLine) {
			x.state, x.claim, x.charged, x.refunded, x.settled = l.State, claim, l.ChargedCents, l.RefundedCents, r.Time
		})
		if err == nil && !held {
			err = t.exec(settleLine, string(l.State), claim, l.ChargedCents, l.RefundedCents, r.Time, operation, l.ProxyID)
		}
		if err != nil {
			return 0, 0, err
		}
		charged, refunded = charged+l.ChargedCents, refunded+l.RefundedCents
		at, kind := "renewals", "charge"
		if l.State == fact.LineUnresolved {
			at, kind = "suspense", "suspense"
		}
		transfers = append(transfers,
			transfer{kind: kind, debit: at, credit: "wallet", cents: l.ChargedCents, operation: operation, proxyID: l.ProxyID},
			transfer{kind: "refund", debit: "wallet", credit: at, cents: l.RefundedCents, operation: operation, proxyID: l.ProxyID})
	}
	return charged, refunded, t.book(r, transfers...)
}

// bookRecorded books a charge or refund that an operator recorded, on the operation and on
// the line named in the record. A charge for a line that was not charged, and a correction
// that takes a line's charge back, also change the line's state.
func (t projector) bookRecorded(r chain.Row, f fact.LedgerRecorded) error {
	charged, refunded := f.AmountCents, int64(0)
	if f.Movement == fact.MovementRefund {
		charged, refunded = 0, f.AmountCents
	}
	if f.ProxyID != "" {
		err := t.w.execOne(recordOnLine, charged, refunded, f.Corrects > 0, f.OperationID, f.ProxyID)
		if err != nil {
			return err
		}
	}
	m, at := transfer{operation: f.OperationID, orderNo: f.OrderNo, proxyID: f.ProxyID}, "renewals"
	err := t.changeAs(f.OperationID, changeAmounts, func(o *operation) {
		o.add(charged, refunded, t.bookedAt(r))
		if m.chargedAt = o.firstCharge(); o.Kind.MakesOrder() {
			at = "orders"
		}
	})
	if err != nil {
		return err
	}
	return t.book(r, m.as("charge", at, "wallet", charged), m.as("refund", "wallet", at, refunded))
}

const recordOnLine = `UPDATE lines SET charged_cents = charged_cents + ?1, refunded_cents = refunded_cents + ?2,
	state = CASE WHEN state = 'not_charged' AND charged_cents + ?1 > refunded_cents THEN 'charged'
		WHEN state = 'charged' AND ?3 AND charged_cents <= refunded_cents + ?2 THEN 'not_charged' ELSE state END
	WHERE operation = ?4 AND proxy_id = ?5`

// bookResolution books an operator's answer and returns the cents added to the operation's
// charges and refunds. Money in suspense moves to renewals if it was charged, and back to
// the wallet if not. An amount that was never booked is booked now.
func (t projector) bookResolution(r chain.Row, f fact.OperationResolved) (added, returned int64, err error) {
	transfers, added, returned, err := resolution(t.queryRow, f)
	if err != nil {
		return 0, 0, err
	}
	return added, returned, t.book(r, transfers...)
}

// resolution computes what an operator's answer books, given the operation's present state.
// It returns the transfers and the cents added to the operation's charges and refunds.
func resolution(queryRow func(string, ...any) sqlite.Scanner, f fact.OperationResolved) (transfers []transfer, added, returned int64, err error) {
	if len(f.Lines) == 0 {
		return resolutionOf(queryRow, f)
	}
	for _, l := range f.Lines {
		line := f
		line.ProxyID, line.ChargedCents = l.ProxyID, l.ChargedCents
		more, a, r, err := resolutionOf(queryRow, line)
		if err != nil {
			return nil, 0, 0, err
		}
		transfers, added, returned = append(transfers, more...), added+a, returned+r
	}
	return transfers, added, returned, nil
}

// resolutionOf computes the resolution of one line, or of all lines together.
func resolutionOf(queryRow func(string, ...any) sqlite.Scanner, f fact.OperationResolved) (transfers []transfer, added, returned int64, err error) {
	var kind fact.Kind
	var orderNo string
	var booked, suspense, chargedAt int64
	err = queryRow(`SELECT kind, order_no, charged_cents - refunded_cents, coalesce(charged_at, 0) FROM operations WHERE id = ?`, f.OperationID).
		Scan(&kind, &orderNo, &booked, &chargedAt)
	if err != nil {
		return nil, 0, 0, sqlite.NotFound(err)
	}
	err = queryRow(`SELECT coalesce(sum(charged_cents - refunded_cents), 0) FROM lines
		WHERE operation = ? AND state = 'unresolved' AND (? = '' OR proxy_id = ?)`, f.OperationID, f.ProxyID, f.ProxyID).Scan(&suspense)
	if err != nil {
		return nil, 0, 0, err
	}
	m := transfer{operation: f.OperationID, orderNo: cmp.Or(f.OrderNo, orderNo), proxyID: f.ProxyID, chargedAt: chargedAt}
	at, back := "renewals", "suspense"
	fromSuspense := min(suspense, f.ChargedCents)
	returned, added = suspense-fromSuspense, f.ChargedCents-fromSuspense
	if kind.MakesOrder() {
		at, back, fromSuspense = "orders", "orders", 0
		added, returned = max(f.ChargedCents-booked, 0), max(booked-f.ChargedCents, 0)
	}
	return []transfer{
		m.as("resolution", at, "suspense", fromSuspense),
		m.as("refund", "wallet", back, returned),
		m.as("charge", at, "wallet", added),
	}, added, returned, nil
}

// as returns a copy of the transfer with a kind, two ledger accounts and an amount.
func (m transfer) as(kind, debit, credit string, cents int64) transfer {
	m.kind, m.debit, m.credit, m.cents = kind, debit, credit, cents
	return m
}
