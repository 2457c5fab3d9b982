package plans

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// Sources of a price.
const (
	PriceOwn     = "its own last renewal"
	PriceAverage = "average of the proxies in one command"
	PriceKind    = "the last renewal of its country, region, line, type and protocol"
	PriceList    = "list price, no renewal paid yet"
	PriceNone    = "unknown"
)

// Kind has the fields that determine a proxy's price.
type Kind struct{ country, region, line, ipType, protocol string }

// KindOf returns the kind of a proxy.
func KindOf(p tables.Proxy) Kind {
	return Kind{country: p.CountryCode, region: p.Region, line: p.LineName, ipType: p.IPType, protocol: p.Protocol}
}

// Price is the expected cost of a renewal for the schedule's duration.
type Price struct {
	Cents fact.Cents
	From  string     // PriceOwn, PriceKind, PriceList or PriceNone; "" if no schedule covers the proxy
	list  fact.Cents // the list price, if Cents is unknown and money is limited
}

// Returns the amount that counts against limits. It is the expected cost or, if that cost is
// unknown, the list price.
func (c Price) counts() fact.Cents {
	if c.Cents.Known() {
		return c.Cents
	}
	return c.list
}

// PriceOf returns the expected cost for a number of days. It uses the newer of two prices:
// the last price of the proxy itself, and the last price of its kind.
func PriceOf(own, kind tables.Paid, days int64) Price {
	switch newest := own.Newest(kind); {
	case newest.Days == 0:
		return Price{From: PriceNone}
	case newest == own:
		return Price{Cents: newest.For(days), From: PriceOwn}
	default:
		return Price{Cents: newest.For(days), From: PriceKind}
	}
}

// Prices computes expected costs for a number of days, and caches the prices of kinds.
type Prices struct {
	known History
	days  int64
	kinds map[Kind]tables.Paid
}

// NewPrices returns Prices for a number of days.
func NewPrices(known History, days int64) *Prices {
	return &Prices{known: known, days: days, kinds: map[Kind]tables.Paid{}}
}

// By returns the expected cost of a proxy's renewal. own is the last price paid for the
// proxy itself.
func (p *Prices) By(ctx context.Context, proxy tables.Proxy, own tables.Paid) (Price, error) {
	k := KindOf(proxy)
	kind, known := p.kinds[k]
	if !known {
		var err error
		if kind, err = p.known.LastPaid(ctx, proxy); err != nil {
			return Price{}, err
		}
		p.kinds[k] = kind
	}
	return PriceOf(own, kind, p.days), nil
}

// OfKind returns the expected cost of a proxy's renewal from the last price of its kind.
func (p *Prices) OfKind(ctx context.Context, proxy tables.Proxy) (Price, error) {
	return p.By(ctx, proxy, tables.Paid{})
}

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

// SumListed returns the sum and the number of the list prices.
func SumListed(all []Included) (cents int64, n int) {
	for _, one := range all {
		if one.PriceFrom == PriceList {
			cents += one.ListPriceCents
			n++
		}
	}
	return cents, n
}

// Replace says whether and how a proxy that the provider refuses to renew is replaced. It is
// off by default, because it buys proxies.
type Replace struct {
	Enabled  bool  `yaml:"enabled" doc:"order a replacement for a proxy that cannot be renewed" json:"enabled,omitempty"`
	MaxCents int64 `yaml:"max_cents" doc:"the most that one replacement may cost (max_total_cents of its order); required if enabled" json:"max_cents,omitempty"`
	PerDay   int   `yaml:"per_day" absent:"10" doc:"the most replacements in a day of timezone" json:"per_day,omitempty"`
	// A proxy that the provider does not know is replaced without waiting for failed renewals.
	After int `yaml:"after" absent:"3" doc:"how many renewals must fail before a proxy is replaced" json:"after,omitempty"`
}

const (
	DefaultReplacePerDay = 10
	DefaultReplaceAfter  = 3
)

func (p Replace) check() error {
	if p.Enabled && p.MaxCents <= 0 {
		return errors.New("replace.max_cents is missing: say what one replacement may cost at most")
	}
	if p.MaxCents < 0 || p.PerDay < 0 || p.After < 0 || p.After > MaxEndings {
		return fmt.Errorf("replace: max_cents and per_day cannot be negative, and after is 1 to %d", MaxEndings)
	}
	return nil
}

// BestOffer returns the cheapest offer of the same country, line, type and protocol that costs at
// most ceiling cents. It prefers offers of the same region, even if those are not the cheapest.
func BestOffer(offers []upstream.Offer, p tables.Proxy, days, ceiling int64) (upstream.Offer, bool) {
	cost := func(o upstream.Offer) int64 { return offerCost(o, days) }
	fitting := slices.DeleteFunc(slices.Clone(offers), func(o upstream.Offer) bool {
		return !command.ValidID(o.OfferCode) || !offersLike(o, p, days) || cost(o) > ceiling
	})
	if len(fitting) == 0 {
		return upstream.Offer{}, false
	}
	elsewhere := func(o upstream.Offer) int {
		if o.Region == p.Region {
			return 0
		}
		return 1
	}
	return slices.MinFunc(fitting, func(a, b upstream.Offer) int {
		return cmp.Or(elsewhere(a)-elsewhere(b), cmp.Compare(cost(a), cost(b)), strings.Compare(a.OfferCode, b.OfferCode))
	}), true
}

// ReplacementID returns the id of the order that replaces a proxy. It is a hash of the
// schedule, the proxy and its expiry, so that a schedule replaces a proxy only once per
// expiry.
func ReplacementID(s Schedule, p tables.Proxy) string {
	h := fact.AppendField(newHash(s.Name), p.ProxyID)
	h = binary.BigEndian.AppendUint64(h, uint64(p.ExpiresAt.UnixMicro()))
	return hashedID("replace-"+s.Name+"-", h)
}
