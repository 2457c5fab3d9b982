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

// Which operation of ours may have made an order that the provider shows.

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

// foreignOrder is an order of the provider's list that the ledger does not know.
type foreignOrder struct {
	createdAt time.Time
	netCents  int64 // its total less its refund
	items     []upstream.OrderItem
	expected  int64 // proxies; 0: not known
	before    bool  // older than the ledger: its money is in the opening balance
	read      bool
}

// stamp is an instant for an explanation.
func stamp(at time.Time) string {
	if at.IsZero() {
		return "at a time that is not given"
	}
	return at.UTC().Format(time.RFC3339)
}

// few is how many ids an explanation names.
const few = 8

// firstFew bounds a list of ids for an explanation.
func firstFew(ids []string) []string {
	if len(ids) <= few {
		return ids
	}
	return append(slices.Clone(ids[:few]), fmt.Sprintf("and %d more", len(ids)-few))
}
