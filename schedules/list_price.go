// What offers ask for proxies of a kind whose renewal was never paid: an estimate for
// people, and an upper bound for limits of money until a price was paid.

package schedules

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

const (
	// listPriceFresh is how old the offers may be that list prices are taken from.
	listPriceFresh = 10 * time.Minute
	// listPriceTimeout bounds the reading of one kind's offers.
	listPriceTimeout = 5 * time.Second
	// maxListedKinds bounds what is remembered.
	maxListedKinds = 1000
)

// ListPrice is what an offer of the proxy's kind asks for so many days, the dearest of
// several; not known where none does.
func ListPrice(offers []upstream.Offer, p ledger.Proxy, days int64) (cents fact.Cents) {
	for _, o := range offers {
		if o.Region == p.Region && offersLike(o, p, days) {
			cents = cents.Most(fact.Known(offerCost(o, days)))
		}
	}
	return cents
}

// ListFilter finds the offers of a proxy's kind.
func ListFilter(p ledger.Proxy, days int64) upstream.OfferFilter {
	return upstream.OfferFilter{CountryCode: p.CountryCode, Region: p.Region, Line: p.LineName, IPType: p.IPType, Quantity: 1, DurationDays: days}
}

// offersLike reports whether an offer sells proxies of the same country, line, type and
// protocol for so many days, and names a price.
func offersLike(o upstream.Offer, p ledger.Proxy, days int64) bool {
	return strings.EqualFold(o.CountryCode, p.CountryCode) && o.LineName == p.LineName && o.IPType == p.IPType && o.Protocol == p.Protocol &&
		slices.Contains(o.DurationDays, days) && o.UnitPriceCents != nil && *o.UnitPriceCents >= 0
}

// offerCost is what one proxy of an offer costs. Whether a unit price is for the base
// duration is not given: the dearer counts.
func offerCost(o upstream.Offer, days int64) int64 {
	return max(*o.UnitPriceCents, fact.ScalePrice(*o.UnitPriceCents, o.BaseDurationDays, days))
}

// listPrices remembers offers.
type listPrices struct {
	mu sync.Mutex
	of map[upstream.OfferFilter]listedOffers
}

type listedOffers struct {
	offers []upstream.Offer
	at     time.Time
}

// listPrice is ListPrice of the provider's offers; not known where they cannot be read.
func (s *Sweeper) listPrice(ctx context.Context, p ledger.Proxy, days int64) fact.Cents {
	if s.Offers == nil {
		return fact.Cents{}
	}
	s.listed.mu.Lock()
	defer s.listed.mu.Unlock()
	filter := ListFilter(p, days)
	known, asked := s.listed.of[filter]
	if !asked || s.Clock().Sub(known.at) >= listPriceFresh {
		ctx, cancel := context.WithTimeout(ctx, listPriceTimeout)
		defer cancel()
		offers, err := s.Offers(ctx, filter)
		if err != nil && ctx.Err() != nil {
			return fact.Cents{}
		}
		if s.listed.of == nil || len(s.listed.of) >= maxListedKinds {
			s.listed.of = map[upstream.OfferFilter]listedOffers{}
		}
		known = listedOffers{offers, s.Clock()} // none where they could not be read
		s.listed.of[filter] = known
	}
	return ListPrice(known.offers, p, days)
}

// priceOrList is what a proxy's renewal is expected to cost by what was paid, or else by the
// offers.
func (s *Sweeper) priceOrList(ctx context.Context, p *planner, proxy ledger.PricedProxy) (Price, error) {
	cost, err := p.priceBy(ctx, proxy.Proxy, proxy.Paid)
	if err != nil || cost.Cents.Known() {
		return cost, err
	}
	if price := s.listPrice(ctx, proxy.Proxy, p.in.Schedule.DurationDays); price.Known() {
		return Price{Cents: price, From: PriceList}, nil
	}
	return cost, nil
}

// addListPrices adds them to a plan that is shown.
func (s *Sweeper) addListPrices(ctx context.Context, r *scheduleRunner, plan *Plan) error {
	for i := range plan.Included {
		one := &plan.Included[i]
		if one.EstimateCents.Known() || one.PriceFrom == PriceList {
			continue
		}
		p, err := s.Ledger.Proxy(ctx, one.ProxyID)
		if err != nil {
			return err
		}
		one.setList(s.listPrice(ctx, p, r.DurationDays))
	}
	plan.ListPriceCents, plan.Listed = sumListed(plan.Included)
	return nil
}

// setList notes a list price, where one is known.
func (x *Included) setList(price fact.Cents) {
	if price.Known() {
		x.ListPriceCents, x.PriceFrom = price.Or(0), PriceList
	}
}

// sumListed adds up the list prices, and counts them.
func sumListed(all []Included) (cents int64, n int) {
	for _, one := range all {
		if one.PriceFrom == PriceList {
			cents += one.ListPriceCents
			n++
		}
	}
	return cents, n
}
