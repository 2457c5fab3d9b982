// What a renewal is expected to cost, by what was last paid.

package schedules

import (
	"context"
	"errors"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// Where a price comes from.
const (
	PriceOwn  = "its own last renewal"
	PriceKind = "the last renewal of its country, region, line, type and protocol"
	PriceNone = "not known"
)

// kind is what proxies of one price have in common.
type kind struct{ country, region, line, ipType, protocol string }

func kindOf(p ledger.Proxy) kind {
	return kind{country: p.CountryCode, region: p.Region, line: p.LineName, ipType: p.IPType, protocol: p.Protocol}
}

// Price is what a renewal for the schedule's duration is expected to cost.
type Price struct {
	Cents fact.Cents
	From  string // PriceOwn, PriceKind or PriceNone; "" where no schedule renews the proxy
}

// price is what was last paid per day for this proxy, or for one of its kind.
func (p *planner) price(ctx context.Context, proxy ledger.Proxy) (Price, error) {
	cents, days, err := p.known.PaidPerDay(ctx, proxy.ProxyID)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return Price{}, err
	}
	return p.priceOf(ctx, proxy, cents, days)
}

// priceOf is price where what was last paid for this proxy is at hand: cents for so many
// days, 0 and 0 where nothing ever was.
func (p *planner) priceOf(ctx context.Context, proxy ledger.Proxy, cents, days int64) (Price, error) {
	if days > 0 {
		return Price{fact.Known(fact.ScalePrice(cents, days, p.in.Schedule.DurationDays)), PriceOwn}, nil
	}
	return p.kindPrice(ctx, proxy)
}

// kindPrice is what was last paid for a proxy of the kind.
func (p *planner) kindPrice(ctx context.Context, proxy ledger.Proxy) (Price, error) {
	k := kindOf(proxy)
	if known, ok := p.prices[k]; ok {
		return known, nil
	}
	cents, days, err := p.known.LastPaid(ctx, proxy)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		p.prices[k] = Price{From: PriceNone}
	case err != nil:
		return Price{}, err
	default:
		p.prices[k] = Price{fact.Known(fact.ScalePrice(cents, days, p.in.Schedule.DurationDays)), PriceKind}
	}
	return p.prices[k], nil
}
