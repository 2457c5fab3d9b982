// The amounts in a fact: what it books, and the totals of its operation.

package ledger

import (
	"database/sql"
	"errors"

	"perennial/ledger/fact"
)

// withMoney adds fact.Money to a fact that books something. It runs before the fact is
// applied.
func (t *Tx) withMoney(f fact.Fact) (fact.Fact, error) {
	booked, operation, books, err := t.bookedBy(f)
	if err != nil || !books {
		return f, err
	}
	if booked.Currency, err = t.currency(f); err != nil {
		return nil, err
	}
	m := fact.Money{Booked: &booked}
	if operation != "" {
		totals, err := t.totalsOf(operation)
		if err != nil {
			return nil, err
		}
		totals = booked.Plus(totals)
		m.Totals = &totals
	}
	return fact.WithMoney(f, m), nil
}

// bookedBy returns what a fact books, and for which operation. books is false for facts that
// book nothing, such as a read of an order without new amounts.
func (t *Tx) bookedBy(f fact.Fact) (b fact.Booked, operation string, books bool, err error) {
	switch f := f.(type) {
	case fact.LedgerOpened:
		return b, "", true, nil
	case fact.LedgerRecorded:
		switch f.Movement {
		case fact.MovementCharge:
			b.ChargedCents = f.AmountCents
		case fact.MovementRefund:
			b.RefundedCents = f.AmountCents
		}
		return b, f.OperationID, true, nil
	case fact.OrderProgressed:
		b = f.Books()
		return b, f.OperationID, b != fact.Booked{}, nil
	case fact.OrderDelivered:
		return f.Books(), f.OperationID, true, nil
	case fact.OrderRefunded:
		return f.Books(), f.OperationID, true, nil
	case fact.RenewalSettled:
		return f.Books(), f.OperationID, true, nil
	case fact.OperationReview:
		if f.Settlement != nil {
			b = f.Settlement.Books()
		}
		return b, f.OperationID, f.Settlement != nil, nil
	case fact.OperationResolved:
		_, b.ChargedCents, b.RefundedCents, err = resolution(t.queryRow, f)
		return b, f.OperationID, true, err
	}
	return b, "", false, nil
}

// totalsOf returns what an operation has booked so far.
func (t *Tx) totalsOf(operation string) (fact.Booked, error) {
	o, err := t.Operation(operation)
	return fact.Booked{ChargedCents: o.ChargedCents, RefundedCents: o.RefundedCents}, err
}

// currency returns the account's currency. The ledger.opened fact sets it, and it never
// changes.
func (t *Tx) currency(f fact.Fact) (string, error) {
	if opened, ok := f.(fact.LedgerOpened); ok && opened.Restored == nil {
		return opened.Currency, nil
	}
	if t.w.currency == "" {
		err := t.queryRow(`SELECT currency FROM binding`).Scan(&t.w.currency)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return "", err
		}
	}
	return t.w.currency, nil
}
