// This file finds upper bounds on the cost of operations of unknown price. Without a bound,
// missing money would not be noticed while such an operation is open.

package reconcile

import (
	"context"
	"errors"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

const (
	// boundMargin is the bound as a percentage of the expected cost. It exceeds 100, because
	// prices rise and the known price may be old.
	boundMargin = 150
	// offerPages limits the pages of offers that are read for a list price. pricesKept is
	// how long list prices are cached.
	offerPages = 5
	pricesKept = time.Hour
)

// listPrices maps offers to the price of one proxy for a given number of days.
type listPrices struct {
	at      time.Time
	of      map[string]int64
	dearest int64
}

// bound replaces each unknown charge in w with an upper bound, if one can be found. The
// bound is derived from the highest recent price, the list price or the command's limit.
func (p *Pass) bound(ctx context.Context, w *WalletReading) error {
	most := map[string]fact.Cents{}
	for _, open := range [][]tables.Exposure{w.Before.Open, w.After.Open} {
		for i := range open {
			e := &open[i]
			if e.Charge.Known() {
				continue
			}
			if _, asked := most[e.OperationID]; !asked {
				cents, err := p.mostOf(ctx, *e)
				if err != nil {
					return err
				}
				most[e.OperationID] = fact.Estimated(cents)
			}
			e.Charge = most[e.OperationID]
		}
	}
	return nil
}

// mostOf returns an upper bound on the cost of an operation in cents, or 0 if none can be
// found.
func (p *Pass) mostOf(ctx context.Context, e tables.Exposure) (int64, error) {
	accepted, err := p.Ledger.Operations.Acceptance(ctx, e.CommandID)
	if errors.Is(err, ledger.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	c, err := command.ReadContent(accepted.Content)
	if err != nil {
		return 0, err
	}
	cents, err := p.expected(ctx, e, c)
	if err != nil {
		return 0, err
	}
	if cents == 0 {
		cents = c.MaxTotalCents
	}
	return min(cents, decide.MaxLineCents) * boundMargin / 100, nil
}

// expected returns the cost of an operation at the highest known price of what it buys, or
// 0 if no price is known.
func (p *Pass) expected(ctx context.Context, e tables.Exposure, c command.Command) (cents int64, err error) {
	if e.Kind.OfProxies() {
		paid, err := p.Ledger.Money.Dearest(ctx, c.DurationDays)
		if err == nil && paid == 0 {
			paid = p.offered(ctx, c.DurationDays).dearest
		}
		return paid * e.Unpriced, err
	}
	list := p.offered(ctx, c.DurationDays)
	for _, item := range c.Items {
		unit, known := list.of[item.OfferCode]
		if !known {
			unit = list.dearest
		}
		cents += unit * item.Quantity
	}
	return cents, nil
}

// offered returns the list prices for a number of days. If a read fails, it adds a note and
// returns the prices read so far.
func (p *Pass) offered(ctx context.Context, days int64) listPrices {
	if kept, ok := p.prices[days]; ok && p.Clock().Sub(kept.at) < pricesKept {
		return kept
	}
	list := listPrices{at: p.Clock(), of: map[string]int64{}}
	pages := upstream.Pages[upstream.Offer]{PageRequest: upstream.PageRequest{Size: ListingPage}}
	for range offerPages {
		got, err := Fetch(ctx, p.Reconciler, func(ctx context.Context) (upstream.Page[upstream.Offer], error) {
			return p.Statements.OffersPage(ctx, upstream.OfferFilter{DurationDays: days}, pages.PageRequest)
		})
		if err != nil {
			p.notef("the list prices could not be read: %v", err)
			return list
		}
		for _, o := range got.Items {
			if cents, err := decide.QuotedCents(o, 1, days); err == nil {
				list.of[o.OfferCode], list.dearest = cents, max(list.dearest, cents)
			}
		}
		if more, _ := pages.Follow(got); !more {
			break
		}
	}
	p.prices[days] = list
	return list
}
