// This file decides which operation of this ledger may have made an order at the provider.

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// Maker is an order operation of this ledger without an order number, with the items of its
// command.
type Maker struct {
	fact.Operation

	Items []command.Item // nil if they are no longer known
}

// MakerOf returns an operation with its command's items. If the acceptance is archived or
// missing, Items is nil.
func MakerOf(ctx context.Context, l *ledger.Ledger, o fact.Operation) (Maker, error) {
	accepted, err := l.Operations.Acceptance(ctx, o.CommandID)
	if _, archived := errors.AsType[*ledger.ArchivedError](err); archived || errors.Is(err, ledger.ErrNotFound) {
		return Maker{Operation: o}, nil
	}
	if err != nil {
		return Maker{Operation: o}, err
	}
	c, err := command.ReadContent(accepted.Content)
	return Maker{o, c.Items}, err
}

// CannotHaveMade returns why the operation cannot have made an order, or "" if it may have.
// `reviews show`, the answers to reviews, and the search for orders made elsewhere all use
// this rule.
func (m Maker) CannotHaveMade(x ForeignOrder) string {
	switch sent := m.MaybeSentAt(); {
	case sent != nil && !x.CreatedAt.IsZero() && x.CreatedAt.Before(sent.Add(-upstream.MaxSkew)):
		return fmt.Sprintf("it was created %s, and %s was first sent %s", Stamp(x.CreatedAt), m.ID, Stamp(*sent))
	case m.Items == nil:
		return ""
	}
	asked, proxies := map[string]int64{}, int64(0)
	for _, i := range m.Items {
		asked[i.OfferCode] += i.Quantity
		proxies += i.Quantity
	}
	shown := map[string]int64{}
	for _, i := range x.Items {
		shown[i.OfferCode] += i.Quantity
	}
	switch {
	case len(shown) > 0 && !maps.Equal(asked, shown):
		return fmt.Sprintf("it is of %s, and %s asked for %s", quantities(shown), m.ID, quantities(asked))
	case x.Expected > 0 && x.Expected != proxies:
		return fmt.Sprintf("it is of %d proxies, and %s asked for %d", x.Expected, m.ID, proxies)
	}
	return ""
}

// explains reports whether an operator's answer for the operation can be about this order.
// The order must have cost the amount in the answer, and must be older than the answer.
func (m Maker) explains(x ForeignOrder) bool {
	return fact.Known(m.ChargedCents-m.RefundedCents) == x.NetCents && x.CreatedAt.Before(m.UpdatedAt.Add(upstream.MaxSkew))
}

func quantities(of map[string]int64) string {
	all := make([]string, 0, len(of))
	for _, offer := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%d × %s", of[offer], fact.Bounded(offer)))
	}
	return strings.Join(FirstFew(all), ", ")
}

// ForeignOf returns the data of an order's details that CannotHaveMade and the findings
// use.
func ForeignOf(o upstream.Order) ForeignOrder {
	x := ForeignOrder{CreatedAt: o.CreatedAt, Read: true, Items: o.Items}
	if o.TotalCents != nil {
		x.NetCents = fact.Known(*o.TotalCents - decide.RefundOf(o))
	}
	if o.Delivery.Present && o.Refund == nil { // a refunded proxy may no longer be counted as expected
		x.Expected = o.Delivery.ExpectedCount
	}
	return x
}

// ForeignOrder is an order in the provider's list that the ledger does not have.
type ForeignOrder struct {
	CreatedAt time.Time
	NetCents  fact.Cents // total less refund; unknown while the provider shows no total
	Items     []upstream.OrderItem
	Expected  int64 // number of proxies; 0 if unknown
	Before    bool  // older than the ledger, so its cost is in the opening balance
	Read      bool
}

// Stamp formats an instant for an explanation.
func Stamp(at time.Time) string {
	if at.IsZero() {
		return "at a time that is not given"
	}
	return at.UTC().Format(time.RFC3339)
}

// few is how many ids an explanation lists.
const few = 8

// FirstFew shortens a list of ids for an explanation.
func FirstFew(ids []string) []string {
	if len(ids) <= few {
		return ids
	}
	return append(slices.Clone(ids[:few]), fmt.Sprintf("and %d more", len(ids)-few))
}
