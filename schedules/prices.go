// What a renewal is expected to cost, by what was last paid.

package schedules

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

// kind is what proxies of one price have in common.
type kind struct{ country, region, line, ipType, protocol string }

func kindOf(p ledger.Proxy) kind {
	return kind{country: p.CountryCode, region: p.Region, line: p.LineName, ipType: p.IPType, protocol: p.Protocol}
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

// price is what a proxy's renewal is expected to cost.
func (p *planner) price(ctx context.Context, proxy ledger.Proxy) (Price, error) {
	own, err := p.known.PaidPerDay(ctx, proxy.ProxyID)
	if err != nil {
		return Price{}, err
	}
	return p.priceBy(ctx, proxy, own)
}

// priceBy is price where what was last paid for the proxy itself is at hand.
func (p *planner) priceBy(ctx context.Context, proxy ledger.Proxy, own ledger.Paid) (Price, error) {
	k := kindOf(proxy)
	kind, known := p.kinds[k]
	if !known {
		var err error
		if kind, err = p.known.LastPaid(ctx, proxy); err != nil {
			return Price{}, err
		}
		p.kinds[k] = kind
	}
	return PriceOf(own, kind, p.in.Schedule.DurationDays), nil
}

// kindPrice is what a proxy's renewal is expected to cost by its kind alone.
func (p *planner) kindPrice(ctx context.Context, proxy ledger.Proxy) (Price, error) {
	return p.priceBy(ctx, proxy, ledger.Paid{})
}
