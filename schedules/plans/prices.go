// This file computes the expected cost of a renewal from the last price paid.

package plans

import (
	"context"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// Sources of a price.
const (
	PriceOwn  = "its own last renewal"
	PriceKind = "the last renewal of its country, region, line, type and protocol"
	PriceList = "list price, no renewal paid yet"
	PriceNone = "unknown"
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

// counts returns the amount that counts against limits: the expected cost if it is known,
// otherwise the list price.
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
