// What a renewal is expected to cost, by what was last paid.

package plans

import (
	"context"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// Where a price comes from.
const (
	PriceOwn  = "its own last renewal"
	PriceKind = "the last renewal of its country, region, line, type and protocol"
	PriceList = "list price, not yet paid once"
	PriceNone = "unknown"
)

// Kind is what proxies of one price have in common.
type Kind struct{ country, region, line, ipType, protocol string }

// KindOf is the kind of a proxy.
func KindOf(p ledger.Proxy) Kind {
	return Kind{country: p.CountryCode, region: p.Region, line: p.LineName, ipType: p.IPType, protocol: p.Protocol}
}

// Price is what a renewal for the schedule's duration is expected to cost.
type Price struct {
	Cents fact.Cents
	From  string     // PriceOwn, PriceKind, PriceList or PriceNone; "" where no schedule renews the proxy
	list  fact.Cents // what an offer asks, where Cents is not known and a plan has to stay below a limit
}

// counts is what the price takes from limits of the schedule and the account: the list price
// where nothing was paid yet.
func (c Price) counts() fact.Cents {
	if c.Cents.Known() {
		return c.Cents
	}
	return c.list
}

// PriceOf is what so many days are expected to cost by the newest of what was paid for a
// proxy itself and for its kind.
func PriceOf(own, kind ledger.Paid, days int64) Price {
	switch newest := own.Newest(kind); {
	case newest.Days == 0:
		return Price{From: PriceNone}
	case newest == own:
		return Price{Cents: newest.For(days), From: PriceOwn}
	default:
		return Price{Cents: newest.For(days), From: PriceKind}
	}
}

// Prices are what renewals for so many days are expected to cost. It remembers what kinds cost.
type Prices struct {
	known History
	days  int64
	kinds map[Kind]ledger.Paid
}

// NewPrices are the prices of renewals for so many days.
func NewPrices(known History, days int64) *Prices {
	return &Prices{known: known, days: days, kinds: map[Kind]ledger.Paid{}}
}

// Of is what a proxy's renewal is expected to cost.
func (p *Prices) Of(ctx context.Context, proxy ledger.Proxy) (Price, error) {
	own, err := p.known.PaidPerDay(ctx, proxy.ProxyID)
	if err != nil {
		return Price{}, err
	}
	return p.By(ctx, proxy, own)
}

// By is Of where what was last paid for the proxy itself is at hand.
func (p *Prices) By(ctx context.Context, proxy ledger.Proxy, own ledger.Paid) (Price, error) {
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

// OfKind is what a proxy's renewal is expected to cost by its kind alone.
func (p *Prices) OfKind(ctx context.Context, proxy ledger.Proxy) (Price, error) {
	return p.By(ctx, proxy, ledger.Paid{})
}
