// This file computes list prices from offers.

package plans

import (
	"slices"
	"strings"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// ListPrice returns the highest price that offers of the proxy's kind have for a number of
// days. The price is unknown if no offer matches.
func ListPrice(offers []upstream.Offer, p tables.Proxy, days int64) (cents fact.Cents) {
	for _, o := range offers {
		if o.Region == p.Region && offersLike(o, p, days) {
			cents = cents.Most(fact.Known(offerCost(o, days)))
		}
	}
	return cents
}

// ListFilter returns the filter for the offers of a proxy's kind.
func ListFilter(p tables.Proxy, days int64) upstream.OfferFilter {
	return upstream.OfferFilter{CountryCode: p.CountryCode, Region: p.Region, Line: p.LineName, IPType: p.IPType, Quantity: 1, DurationDays: days}
}

// offersLike reports whether an offer sells proxies of the same country, line, type and
// protocol for this many days, and has a price.
func offersLike(o upstream.Offer, p tables.Proxy, days int64) bool {
	return strings.EqualFold(o.CountryCode, p.CountryCode) && o.LineName == p.LineName && o.IPType == p.IPType && o.Protocol == p.Protocol &&
		slices.Contains(o.DurationDays, days) && o.UnitPriceCents != nil && *o.UnitPriceCents >= 0
}

// offerCost returns the cost of one proxy of an offer, in cents. The API does not say
// whether a unit price covers the base duration or the requested duration, so offerCost
// assumes the more expensive case.
func offerCost(o upstream.Offer, days int64) int64 {
	return max(*o.UnitPriceCents, fact.ScalePrice(*o.UnitPriceCents, o.BaseDurationDays, days))
}

// SetList sets the list price if it is known.
func (x *Included) SetList(price fact.Cents) {
	if price.Known() {
		x.ListPriceCents, x.PriceFrom = price.Or(0), PriceList
	}
}

// SumListed returns the sum of the list prices, and their number.
func SumListed(all []Included) (cents int64, n int) {
	for _, one := range all {
		if one.PriceFrom == PriceList {
			cents += one.ListPriceCents
			n++
		}
	}
	return cents, n
}
