// This file finds list prices of kinds that were never renewed. They are shown as estimates
// and counted against limits.

package schedules

import (
	"context"
	"sync"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
	"perennial/upstream"
)

const (
	// listPriceFresh is the maximum age of offers that are used for list prices.
	listPriceFresh = 10 * time.Minute
	// listPriceTimeout limits the read of one kind's offers.
	listPriceTimeout = 5 * time.Second
	// maxListedKinds limits how many filters are cached.
	maxListedKinds = 1000
)

// listPrices caches offers by filter.
type listPrices struct {
	*Config

	mu sync.Mutex
	of map[upstream.OfferFilter]listedOffers
}

type listedOffers struct {
	offers []upstream.Offer
	at     time.Time
}

// listPrice returns the list price of a proxy's renewal from the provider's offers. The
// price is unknown if the offers cannot be read.
func (s *listPrices) listPrice(ctx context.Context, p tables.Proxy, days int64) fact.Cents {
	if s.Offers == nil {
		return fact.Cents{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	filter := plans.ListFilter(p, days)
	known, asked := s.of[filter]
	if !asked || s.Clock().Sub(known.at) >= listPriceFresh {
		limited, cancel := context.WithTimeout(ctx, listPriceTimeout)
		defer cancel()
		offers, err := s.Offers(limited, filter)
		if err != nil && ctx.Err() != nil {
			return fact.Cents{}
		}
		if s.of == nil || len(s.of) >= maxListedKinds {
			s.of = map[upstream.OfferFilter]listedOffers{}
		}
		known = listedOffers{offers, s.Clock()} // no offers if they could not be read
		s.of[filter] = known
	}
	return plans.ListPrice(known.offers, p, days)
}

// orList returns cost if it is known. Otherwise it returns the list price, or cost if no
// offer has a list price.
func (s *listPrices) orList(ctx context.Context, cost plans.Price, days int64, p tables.Proxy) plans.Price {
	if cost.Cents.Known() {
		return cost
	}
	if price := s.listPrice(ctx, p, days); price.Known() {
		return plans.Price{Cents: price, From: plans.PriceList}
	}
	return cost
}

// addListPrices adds list prices to a plan that is shown to an operator.
func (s *listPrices) addListPrices(ctx context.Context, r *scheduleRunner, plan *plans.Plan) error {
	for i := range plan.Included {
		one := &plan.Included[i]
		if one.EstimateCents.Known() || one.PriceFrom == plans.PriceList {
			continue
		}
		p, err := s.Ledger.Fleet.Proxy(ctx, one.ProxyID)
		if err != nil {
			return err
		}
		one.SetList(s.listPrice(ctx, p, r.DurationDays))
	}
	before := plan.ListPriceCents
	plan.ListPriceCents, plan.Listed = plans.SumListed(plan.Included)
	if plan.WalletAfterCents != nil {
		*plan.WalletAfterCents -= plan.ListPriceCents - before
	}
	return nil
}
