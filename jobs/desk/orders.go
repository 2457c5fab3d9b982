// This file checks the order number in an answer to a review.

package desk

import (
	"context"
	"errors"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/inspect"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// named checks the order number in an answer, and returns the order if it was read. It
// refuses a number for a renewal, and for an operation with another order number. It
// refuses an order that is booked elsewhere or cannot be the operation's.
func (d *Desk) named(ctx context.Context, o fact.Operation, x Resolution) (read upstream.Order, err error) {
	switch {
	case x.OrderNo == "" || o.OrderNo == x.OrderNo:
		return d.readOwn(ctx, o, x)
	case !o.Kind.MakesOrder():
		return read, command.Refuse("%s is a renewal and has no order", o.ID)
	case o.OrderNo != "":
		return read, command.Refuse("%s has order %s already", o.ID, o.OrderNo)
	}
	other, err := d.c.Ledger.Money.OrderOperation(ctx, x.OrderNo)
	if err == nil {
		return read, command.Refuse("order %s belongs to %s, and not to %s: see `perennial status %s`", x.OrderNo, other.ID, o.ID, other.CommandID)
	}
	if !errors.Is(err, ledger.ErrNotFound) {
		return read, err
	}
	recorded, err := d.c.Ledger.Money.RecordedFor(ctx)
	if err != nil {
		return read, err
	}
	if cents := recorded[x.OrderNo]; cents != 0 {
		return read, command.Refuse("%s is recorded on order %s as spent elsewhere, and %s would book it again: take that back first with `perennial ledger record --kind top-up --cents %d --order %s`",
			d.c.Binding().Amount(cents), x.OrderNo, o.ID, cents, x.OrderNo)
	}
	return d.shownAs(ctx, o, x.OrderNo)
}

// readOwn reads the operation's order if no fact has the order's proxies yet, so that the
// answer can record them. A failed read does not block the answer.
func (d *Desk) readOwn(ctx context.Context, o fact.Operation, x Resolution) (read upstream.Order, err error) {
	if o.OrderNo == "" || !*x.Charged || d.c.Readable() != nil {
		return read, nil
	}
	if ids, err := inspect.Delivered(ctx, d.c.Ledger, o.ID); err != nil || len(ids) > 0 {
		return read, err
	}
	reading, cancel := context.WithTimeout(ctx, orderReadTimeout)
	defer cancel()
	at := d.c.Now()
	read, err = d.c.Order(reading, o.OrderNo)
	if err != nil || read.OrderNo != "" && read.OrderNo != o.OrderNo {
		return upstream.Order{}, ctx.Err()
	}
	d.c.Delivered(ctx, o.ID, at, read)
	return read, nil
}

// orderReadTimeout limits the time to read the order in an answer, because an operator waits
// for the result.
const orderReadTimeout = 20 * time.Second

// shownAs reads the order in an answer. It refuses an order that cannot be read or cannot
// be the operation's.
func (d *Desk) shownAs(ctx context.Context, o fact.Operation, no string) (read upstream.Order, err error) {
	const without = "or answer without --order: an order of the same cost is then taken for it"
	m, err := reconcile.MakerOf(ctx, d.c.Ledger, o)
	if err != nil {
		return read, err
	}
	if err := d.c.Readable(); err != nil {
		return read, command.Refuse("order %s was not compared with what %s asked for: %v. Answer again when the account is resumed, %s", no, o.ID, err, without)
	}
	ctx, cancel := context.WithTimeout(ctx, orderReadTimeout)
	defer cancel()
	at := d.c.Now()
	read, err = d.c.Order(ctx, no)
	switch {
	case errors.Is(err, upstream.CodeOrderNotFound):
		return read, command.Refuse("the provider does not show order %s to this account, so %s cannot be said to have made it: see `perennial reviews show %s`", no, o.ID, o.ID)
	case err != nil:
		return read, command.Refuse("order %s could not be compared with what %s asked for: %v. Answer again when the provider shows it, %s", no, o.ID, err, without)
	}
	if why := m.CannotHaveMade(reconcile.ForeignOf(read)); why != "" {
		return read, command.Refuse("order %s is not of %s: %s. `perennial reviews show %s` names the orders that may be", no, o.ID, why, o.ID)
	}
	d.c.Delivered(ctx, o.ID, at, read)
	return read, nil
}
