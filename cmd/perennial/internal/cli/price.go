package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/jobs"
	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/queue/publish"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// PricedCommand is the --dry-run output for one command.
type PricedCommand struct {
	ID    string     `json:"id"`
	Kind  string     `json:"kind"`
	Days  int64      `json:"duration_days"`
	Count int64      `json:"proxies"`
	Cents fact.Cents `json:"estimate_cents"`
	// ListPriceCents is the part of the cost that is estimated at list price. It covers the
	// proxies for which no renewal was paid before.
	ListPriceCents int64 `json:"list_price_cents,omitempty"`
	// Warning describes what would be refused now. It is "" if nothing would be refused.
	Warning string `json:"warning,omitempty"`

	// Skipped counts the proxies that due_before excludes. They are not in Count.
	Skipped int64 `json:"skipped,omitempty"`

	sum     fact.Sum // includes list prices
	unknown []string // proxies that the provider's account does not have
}

func (p PricedCommand) estimate(currency string) string {
	return p.sum.ListedText(p.ListPriceCents, currency)
}

// pricing prices commands. ledger is nil if it cannot be read.
type pricing struct {
	ledger   *ledger.Ledger
	client   *upstream.Client
	currency string
	quotes   map[string]quote                          // prices of offers, once asked for
	offers   map[upstream.OfferFilter][]upstream.Offer // the provider's lists, once asked for
}

// quote is the provider's price for an item of an order. found is false if no offer matches.
type quote struct {
	cents fact.Cents
	found bool
}

// price prints what n commands would cost now, and publishes nothing. An order costs the
// provider's quote. A renewal costs the last price paid or, if there is none, the list price. If
// the account lacks proxies of a renewal, price returns an error with an exit code.
func (a *app) price(ctx context.Context, n int, each func(yield func([]publish.Outgoing) error) error) error {
	l, _, err := a.openLedger(ctx)
	if err != nil {
		l = nil // without a ledger, no prices paid are known
	} else {
		defer func() { _ = l.Close() }()
	}
	client, err := a.provider()
	if err != nil {
		return err
	}
	defer client.Close()
	currency := a.currencyOf(ctx, client)
	x := pricing{l, client, currency, map[string]quote{}, map[upstream.OfferFilter][]upstream.Offer{}}
	list := a.listing("no commands", "COMMAND", "KIND", "DAYS", "PROXIES", "ESTIMATE", "")
	var total PricedCommand
	err = each(func(out []publish.Outgoing) error {
		for _, o := range out {
			p, err := x.priceOne(ctx, o)
			if err != nil {
				return err
			}
			total.sum, total.ListPriceCents = total.sum.Join(p.sum), total.ListPriceCents+p.ListPriceCents
			total.Count, total.unknown = total.Count+p.Count, append(total.unknown, p.unknown...)
			list.add("", p, p.ID, p.Kind, strconv.FormatInt(p.Days, 10), strconv.FormatInt(p.Count, 10), p.estimate(currency), p.Warning)
		}
		return list.err
	})
	if err != nil {
		return err
	}
	a.warnOfWallet(ctx, client, total.sum.Cents)
	if err := list.end(nil); err != nil {
		return err
	}
	if a.output != "json" {
		_, err = fmt.Fprintf(a.stdout, "\n%s, %s; nothing was published\n", english.Plural(n, "command", ""), total.estimate(currency))
	}
	return errors.Join(err, total.exit())
}

// exit returns a dry run's exit code as an error. The account may lack proxies, which would not
// be renewed. The code is ExitFailed if the account lacks all proxies, and ExitPartly if it
// lacks some. If it lacks none, exit returns nil.
func (p PricedCommand) exit() error {
	switch int64(len(p.unknown)) {
	case 0:
		return nil
	case p.Count:
		return &exitError{code: ExitFailed}
	}
	return &exitError{code: ExitPartly}
}

func (a *app) warnOfWallet(ctx context.Context, client *upstream.Client, total int64) {
	w, err := client.Wallet(ctx)
	if err == nil && w.BalanceCents < total {
		fmt.Fprintf(a.stderr, "warning: the wallet holds %s, and %s is missing\n", money(w.BalanceCents, w.Currency), money(total-w.BalanceCents, w.Currency))
	}
}

func (x pricing) priceOne(ctx context.Context, o publish.Outgoing) (PricedCommand, error) {
	c, err := command.Parse(jobs.KindOf(o.Kind), o.Data, command.Rules{Environment: upstream.Sandbox, CIDRField: "-"})
	if err != nil {
		return PricedCommand{}, err
	}
	p := PricedCommand{ID: c.ID, Kind: string(c.Kind), Days: c.DurationDays}
	sum := &p.sum
	for _, item := range c.Items {
		p.Count += item.Quantity
		q, err := x.quoteOf(ctx, item, c.DurationDays)
		if err != nil {
			return p, err
		}
		if !q.found && p.Warning == "" {
			p.Warning = fmt.Sprintf("no offer %s of %d for %d days", item.OfferCode, item.Quantity, c.DurationDays)
		}
		*sum = sum.Add(q.cents)
	}
	for _, id := range c.ProxyIDs {
		late, err := x.expiresAfter(ctx, id, c.DueBefore)
		if err != nil {
			return p, err
		}
		if late {
			p.Skipped++
			continue
		}
		p.Count++
		cents, err := x.paidFor(ctx, id, c.DurationDays)
		if err == nil && !cents.Known() {
			cents, err = x.listPriceOf(ctx, id, c.DurationDays)
			p.ListPriceCents += cents.Or(0)
		}
		if errors.Is(err, upstream.CodeProxyNotFound) {
			p.unknown, err = append(p.unknown, id), nil
		}
		if err != nil {
			return p, err
		}
		*sum = sum.Add(cents)
	}
	if sum.Lacks == 0 && p.ListPriceCents == 0 {
		p.Cents = fact.Known(sum.Cents)
	}
	p.Warning = p.warning(c.MaxTotalCents, x.currency)
	return p, nil
}

// warning describes what the runner or the provider would refuse. It returns "" if they would
// refuse nothing. maxTotalCents is the command's limit.
func (p PricedCommand) warning(maxTotalCents int64, currency string) string {
	switch {
	case p.Warning != "":
		return p.Warning
	case p.Skipped > 0:
		return english.Plural(int(p.Skipped), "proxy expires", "proxies expire") + " later than due_before, and would be skipped"
	case len(p.unknown) == 1:
		return "the account does not know " + p.unknown[0]
	case len(p.unknown) > 1:
		return fmt.Sprintf("the account does not know %d of its proxies, %s first", len(p.unknown), p.unknown[0])
	case maxTotalCents > 0 && p.sum.Cents-p.ListPriceCents > maxTotalCents:
		return fmt.Sprintf("over its max_total_cents (%s)", money(maxTotalCents, currency))
	}
	return ""
}

// expiresAfter reports whether the ledger has a proxy with a later expiry than due.
func (x pricing) expiresAfter(ctx context.Context, id string, due *time.Time) (bool, error) {
	if due == nil || x.ledger == nil {
		return false, nil
	}
	p, err := x.ledger.Fleet.Proxy(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return false, nil
	}
	until := p.LastsUntil()
	return err == nil && until != nil && until.After(*due), err
}

func (x pricing) quoteOf(ctx context.Context, item command.Item, days int64) (quote, error) {
	key := fmt.Sprintf("%s %d %d", item.OfferCode, item.Quantity, days)
	if q, known := x.quotes[key]; known {
		return q, nil
	}
	var q quote
	for o, err := range x.client.Offers(ctx, upstream.OfferFilter{Quantity: item.Quantity, DurationDays: days}, 0) {
		if err != nil {
			return q, err
		}
		if o.OfferCode != item.OfferCode {
			continue
		}
		if q.found = true; o.UnitPriceCents != nil {
			unit := *o.UnitPriceCents
			q.cents = fact.Known(item.Quantity * max(unit, fact.ScalePrice(unit, o.BaseDurationDays, days)))
		}
		break
	}
	x.quotes[key] = q
	return q, nil
}

// listPriceOf returns the list price of proxies of id's kind. The error is
// upstream.CodeProxyNotFound if the account does not have the proxy.
func (x pricing) listPriceOf(ctx context.Context, id string, days int64) (fact.Cents, error) {
	like, err := tables.Proxy{}, ledger.ErrNotFound
	if x.ledger != nil {
		like, err = x.ledger.Fleet.Proxy(ctx, id)
	}
	if errors.Is(err, ledger.ErrNotFound) {
		var p upstream.Proxy
		p, err = x.client.Proxy(ctx, id)
		like = tables.Proxy{CountryCode: p.CountryCode, Region: p.Region, LineName: p.LineName, IPType: p.IPType, Protocol: p.Protocol}
	}
	if err != nil {
		return fact.Cents{}, err
	}
	filter := plans.ListFilter(like, days)
	if _, asked := x.offers[filter]; !asked {
		x.offers[filter] = []upstream.Offer{}
		for o, err := range x.client.Offers(ctx, filter, 0) {
			if err != nil {
				return fact.Cents{}, err
			}
			x.offers[filter] = append(x.offers[filter], o)
		}
	}
	return plans.ListPrice(x.offers[filter], like, days), nil
}

// paidFor returns the price of renewing a proxy for this many days. This is the newer of two
// prices: the last price paid for the proxy, and the last price paid for its kind. Without
// either, the price is unknown.
func (x pricing) paidFor(ctx context.Context, id string, days int64) (fact.Cents, error) {
	if x.ledger == nil {
		return fact.Cents{}, nil
	}
	paid, err := x.ledger.Fleet.LastPrice(ctx, id)
	return paid.For(days), err
}
