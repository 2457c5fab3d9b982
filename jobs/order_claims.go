// Checks of the order number that a person's answer to a review names.

package jobs

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

// named refuses an order number that an answer must not carry: of a renewal, of
// an operation that has another one, of an order that is booked otherwise, or that
// the provider shows to be another.
func (r *Runner) named(ctx context.Context, o fact.Operation, x Resolution) (read upstream.Order, err error) {
	switch {
	case x.OrderNo == "" || o.OrderNo == x.OrderNo:
		return r.readOwn(ctx, o, x)
	case !o.Kind.MakesOrder():
		return read, command.Refuse("%s is a renewal and has no order", o.ID)
	case o.OrderNo != "":
		return read, command.Refuse("%s has order %s already", o.ID, o.OrderNo)
	}
	other, err := r.Ledger.OrderOperation(ctx, x.OrderNo)
	if err == nil {
		return read, command.Refuse("order %s belongs to %s, and not to %s: see `perennial status %s`", x.OrderNo, other.ID, o.ID, other.CommandID)
	}
	if !errors.Is(err, ledger.ErrNotFound) {
		return read, err
	}
	recorded, err := r.Ledger.RecordedFor(ctx)
	if err != nil {
		return read, err
	}
	if cents := recorded[x.OrderNo]; cents != 0 {
		return read, command.Refuse("%s is recorded on order %s as spent elsewhere, and %s would book it again: take that back first with `perennial ledger record --kind top-up --cents %d --order %s`",
			r.binding.Amount(cents), x.OrderNo, o.ID, cents, x.OrderNo)
	}
	return r.shownAs(ctx, o, x.OrderNo)
}

// readOwn reads an order whose proxies no fact names yet, so that the answer can: they carry
// its labels. An answer does not depend on it.
func (r *Runner) readOwn(ctx context.Context, o fact.Operation, x Resolution) (read upstream.Order, err error) {
	if o.OrderNo == "" || !*x.Charged || r.readable() != nil {
		return read, nil
	}
	if ids, err := inspect.Delivered(ctx, r.Ledger, o.ID); err != nil || len(ids) > 0 {
		return read, err
	}
	reading, cancel := context.WithTimeout(ctx, claimPatience)
	defer cancel()
	at := r.clock.Now()
	if err = r.passNow(reading, priorityPoll); err == nil {
		read, err = r.Provider.Order(reading, o.OrderNo)
		r.Read(ctx, read.ServerTime, err)
	}
	if err != nil || read.OrderNo != "" && read.OrderNo != o.OrderNo {
		return upstream.Order{}, ctx.Err()
	}
	r.noteDelivered(ctx, o.ID, at, read)
	return read, nil
}

// claimPatience bounds the reading of an order that an answer names: a person waits.
const claimPatience = 20 * time.Second

// ReadOrder reads an order in its turn among the account's requests, for a person.
func (r *Runner) ReadOrder(ctx context.Context, no string) (read upstream.Order, err error) {
	if err := r.readable(); err != nil {
		return read, err
	}
	if err = r.passNow(ctx, priorityPoll); err == nil {
		read, err = r.Provider.Order(ctx, no)
		r.Read(ctx, read.ServerTime, err)
	}
	return read, err
}

// shownAs reads an order that an answer names, and refuses one that the operation
// cannot have made, or that cannot be read.
func (r *Runner) shownAs(ctx context.Context, o fact.Operation, no string) (read upstream.Order, err error) {
	const without = "or answer without --order: an order of the same cost is then taken for it"
	m, err := reconcile.MakerOf(ctx, r.Ledger, o)
	if err != nil {
		return read, err
	}
	if err := r.readable(); err != nil {
		return read, command.Refuse("order %s was not compared with what %s asked for: %v. Answer again when the account is resumed, %s", no, o.ID, err, without)
	}
	ctx, cancel := context.WithTimeout(ctx, claimPatience)
	defer cancel()
	at := r.clock.Now()
	read, err = r.ReadOrder(ctx, no)
	switch {
	case errors.Is(err, upstream.CodeOrderNotFound):
		return read, command.Refuse("the provider does not show order %s to this account, so %s cannot be said to have made it: see `perennial reviews show %s`", no, o.ID, o.ID)
	case err != nil:
		return read, command.Refuse("order %s could not be compared with what %s asked for: %v. Answer again when the provider shows it, %s", no, o.ID, err, without)
	}
	if why := m.CannotHaveMade(reconcile.ForeignOf(read)); why != "" {
		return read, command.Refuse("order %s is not of %s: %s. `perennial reviews show %s` names the orders that may be", no, o.ID, why, o.ID)
	}
	r.noteDelivered(ctx, o.ID, at, read)
	return read, nil
}
