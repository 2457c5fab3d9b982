package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"perennial/ledger"
	"perennial/upstream"
)

// maker is an order operation of ours without a number, and what it asked for.
type maker struct {
	ledger.Operation

	items []Item // nil: not known any more
}

func makerOf(ctx context.Context, l *ledger.Ledger, o ledger.Operation) (maker, error) {
	accepted, err := l.Acceptance(ctx, o.CommandID)
	if errors.Is(err, ledger.ErrNotFound) {
		return maker{Operation: o}, nil
	}
	if err != nil {
		return maker{Operation: o}, err
	}
	c, err := ReadContent(accepted.Content)
	return maker{o, c.Items}, err
}

// cannotHaveMade says why the operation cannot have made an order that the
// provider shows; "" when nothing that is shown speaks against it. It is the one
// rule for what `review show` offers, for what a person's answer may name, and for
// whether an order is taken for one made elsewhere.
func (m maker) cannotHaveMade(x foreignOrder) string {
	switch {
	case m.FirstSentAt != nil && !x.createdAt.IsZero() && x.createdAt.Before(m.FirstSentAt.Add(-upstream.MaxSkew)):
		return fmt.Sprintf("it was created %s, and %s was first sent %s", stamp(x.createdAt), m.ID, stamp(*m.FirstSentAt))
	case m.items == nil:
		return ""
	}
	asked, proxies := map[string]int64{}, int64(0)
	for _, i := range m.items {
		asked[i.OfferCode] += i.Quantity
		proxies += i.Quantity
	}
	shown := map[string]int64{}
	for _, i := range x.items {
		shown[i.OfferCode] += i.Quantity
	}
	switch {
	case len(shown) > 0 && !maps.Equal(asked, shown):
		return fmt.Sprintf("it is of %s, and %s asked for %s", quantities(shown), m.ID, quantities(asked))
	case x.expected > 0 && x.expected != proxies:
		return fmt.Sprintf("it is of %d proxies, and %s asked for %d", x.expected, m.ID, proxies)
	}
	return ""
}

func quantities(of map[string]int64) string {
	all := make([]string, 0, len(of))
	for _, offer := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%d × %s", of[offer], bounded(offer)))
	}
	return strings.Join(firstFew(all), ", ")
}

// foreignOf is what counts of an order's detail.
func foreignOf(o upstream.Order) foreignOrder {
	x := foreignOrder{createdAt: o.CreatedAt, read: true, items: o.Items}
	if o.TotalCents != nil {
		x.netCents = *o.TotalCents - refundOf(o)
	}
	if o.Delivery.Present && o.Refund == nil { // what is refunded may not be expected any more
		x.expected = o.Delivery.ExpectedCount
	}
	return x
}

// named refuses an order number that an answer must not carry: of a renewal, of
// an operation that has another one, of an order that is booked otherwise, or that
// the provider shows to be another.
func (r *Runner) named(ctx context.Context, o ledger.Operation, x Resolution) error {
	switch {
	case x.OrderNo == "" || o.OrderNo == x.OrderNo:
		return nil
	case !o.Kind.MakesOrder():
		return refuse("%s is a renewal and has no order", o.ID)
	case o.OrderNo != "":
		return refuse("%s has order %s already", o.ID, o.OrderNo)
	}
	other, err := r.Ledger.OrderOperation(ctx, x.OrderNo)
	if err == nil {
		return refuse("order %s belongs to %s, and not to %s: look with `perennial status %s`", x.OrderNo, other.ID, o.ID, other.CommandID)
	}
	if !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	recorded, err := r.Ledger.RecordedFor(ctx)
	if err != nil {
		return err
	}
	if cents := recorded[x.OrderNo]; cents != 0 {
		return refuse("%s is recorded on order %s as spent elsewhere, and %s would book it again: take that back first with `perennial ledger record --kind top-up --cents %d --order %s`",
			r.binding.Amount(cents), x.OrderNo, o.ID, cents, x.OrderNo)
	}
	return r.shownAs(ctx, o, x.OrderNo)
}

// claimPatience bounds the reading of an order that an answer names: a person waits.
const claimPatience = 20 * time.Second

// shownAs reads an order that an answer names, and refuses one that the operation
// cannot have made, or that cannot be read.
func (r *Runner) shownAs(ctx context.Context, o ledger.Operation, no string) error {
	const without = "or answer without --order: an order of the same cost is then taken for it"
	m, err := makerOf(ctx, r.Ledger, o)
	if err != nil {
		return err
	}
	if err := r.readable(); err != nil {
		return refuse("order %s was not compared with what %s asked for: %v. Answer again when the account is resumed, %s", no, o.ID, err, without)
	}
	ctx, cancel := context.WithTimeout(ctx, claimPatience)
	defer cancel()
	var read upstream.Order
	if err = r.passNow(ctx, PriorityPoll); err == nil {
		read, err = r.Provider.Order(ctx, no)
		r.Read(ctx, read.ServerTime, err)
	}
	switch {
	case errors.Is(err, upstream.CodeOrderNotFound):
		return refuse("the provider does not show order %s to this account, so %s cannot be said to have made it: look with `perennial review show %s`", no, o.ID, o.ID)
	case err != nil:
		return refuse("order %s could not be compared with what %s asked for: %v. Answer again when the provider shows it, %s", no, o.ID, err, without)
	}
	if why := m.cannotHaveMade(foreignOf(read)); why != "" {
		return refuse("order %s is not of %s: %s. `perennial review show %s` names the orders that may be", no, o.ID, why, o.ID)
	}
	return nil
}
