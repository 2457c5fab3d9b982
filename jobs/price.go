package jobs

import (
	"context"
	"errors"
	"fmt"

	"perennial/ledger"
	"perennial/upstream"
)

// What an operation is expected to cost, and whether its command's ceiling allows
// it. The day's limit is in limits.go.

// estimate is the most that the operation is expected to cost: a fresh quote
// for an order, what was last paid per day for a renewal, 0 when unknown.
func (r *Runner) estimate(ctx context.Context, j *job, p *presend) error {
	if j.op.Kind == ledger.KindRenewal {
		return r.estimateRenewal(ctx, j, p)
	}
	for _, item := range j.cmd.Items {
		cents, err := r.quote(ctx, j.turn(), item, j.cmd.DurationDays)
		if errors.Is(err, errNotOffered) {
			p.stop = rejectedFact(j.op, "offer_not_found", "offer "+item.OfferCode+" is not among the offers for this quantity and duration: nothing was sent")
			return nil
		}
		if err != nil {
			return err
		}
		p.estimateCents += cents
	}
	return nil
}

// estimateRenewal sums what the proxies are expected to cost. A price that
// has not been paid yet is taken from the command's own first proxy; a chunk of
// several whose price even that did not tell is not sent under a ceiling.
func (r *Runner) estimateRenewal(ctx context.Context, j *job, p *presend) error {
	canary, err := r.canaryPrice(ctx, j)
	if err == nil && canary == 0 && r.DailyLimitCents > 0 {
		canary, err = r.Ledger.Dearest(ctx, j.cmd.DurationDays)
	}
	if err != nil {
		return err
	}
	for _, id := range p.ids {
		cents, err := r.renewalPrice(ctx, id, j.cmd.DurationDays)
		if err != nil {
			return err
		}
		if cents == 0 {
			cents = canary
		}
		if cents == 0 && len(p.ids) > 1 {
			if p.stop, err = r.withoutPrice(ctx, j, id); p.stop != nil || err != nil {
				return err
			}
		}
		p.estimateCents += cents
		p.unpriced = p.unpriced || cents == 0
	}
	return nil
}

// withoutPrice stops an operation of several proxies of which one has no price: no
// ceiling and no limit could be kept. Nil for one that a person released.
func (r *Runner) withoutPrice(ctx context.Context, j *job, id string) (ledger.Fact, error) {
	if j.cmd.MaxTotalCents > 0 {
		return rejectedFact(j.op, "max_total_cents", "the price of proxy "+id+" is not known, so max_total_cents cannot be kept: nothing was sent"), nil
	}
	if released, err := r.letGo(ctx, j); released || err != nil {
		return nil, err
	}
	tomorrow := r.tomorrow()
	return ledger.CommandHeld{
		Ref: j.op.ref(""), Until: &tomorrow,
		Reason: "the price of proxy " + id + " is not known, so daily_limit_cents cannot be kept: look at the command's first operation",
	}, nil
}

// canaryPrice is the most that one proxy of the same command was charged for
// its renewal, 0 when none was yet.
func (r *Runner) canaryPrice(ctx context.Context, j *job) (most int64, err error) {
	siblings, err := r.Ledger.OperationsOf(ctx, j.op.CommandID)
	if err != nil {
		return 0, err
	}
	for _, o := range siblings {
		if o.ChargedCents == 0 {
			continue
		}
		lines, err := r.Ledger.Lines(ctx, o.ID)
		if err != nil {
			return 0, err
		}
		for _, l := range lines {
			most = max(most, l.ChargedCents)
		}
	}
	return most, nil
}

func (r *Runner) renewalPrice(ctx context.Context, id string, days int64) (int64, error) {
	cents, paidDays, err := r.lastPaid(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return 0, nil
	}
	return ledger.ScalePrice(cents, paidDays, days), err
}

// lastPaid is what was last paid for this proxy, else for one like it;
// ledger.ErrNotFound when neither was ever paid for.
func (r *Runner) lastPaid(ctx context.Context, id string) (cents, days int64, err error) {
	cents, days, err = r.Ledger.PaidPerDay(ctx, id)
	if !errors.Is(err, ledger.ErrNotFound) {
		return cents, days, err
	}
	like, err := r.Ledger.Proxy(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	return r.Ledger.LastPaid(ctx, like)
}

// quoteRestarts bounds how often a quote begins again at the first page.
const quoteRestarts = 3

// errNotOffered: no page of offers holds the code.
var errNotOffered = errors.New("not offered")

// quote reads the offer's price for exactly this quantity and duration. The
// document does not say whether a quote's unit price covers the base duration
// or the one asked for, so the dearer reading counts against a ceiling.
func (r *Runner) quote(ctx context.Context, priority Priority, item Item, days int64) (int64, error) {
	r.mu.Lock()
	filter, remembered := r.prices[item.OfferCode]
	r.mu.Unlock()
	cents, err := r.quoteBy(ctx, priority, filter, item, days)
	if remembered && errors.Is(err, errNotOffered) { // the provider may call its region or line otherwise by now
		return r.quoteBy(ctx, priority, upstream.OfferFilter{}, item, days)
	}
	return cents, err
}

// quoteBy looks for the offer among those that a filter finds.
func (r *Runner) quoteBy(ctx context.Context, priority Priority, filter upstream.OfferFilter, item Item, days int64) (int64, error) {
	filter.Quantity, filter.DurationDays = item.Quantity, days
	var token string
	for restarts := 0; ; {
		if err := r.passNow(ctx, priority); err != nil {
			return 0, err
		}
		page, err := r.Provider.OffersPage(ctx, filter, upstream.PageRequest{Size: 200, Token: token})
		r.Read(ctx, page.ServerTime, err)
		if upstream.RestartsList(err) && token != "" && restarts < quoteRestarts {
			token, restarts = "", restarts+1
			continue
		}
		if err != nil {
			return 0, &unreadError{"the price of offer " + item.OfferCode, err}
		}
		for _, o := range page.Items {
			if o.OfferCode == item.OfferCode {
				return r.quoted(o, item.Quantity, days)
			}
		}
		if !page.HasMore || page.NextPageToken == "" || page.NextPageToken == token {
			return 0, errNotOffered
		}
		token = page.NextPageToken
	}
}

func (r *Runner) quoted(o upstream.Offer, quantity, days int64) (int64, error) {
	r.mu.Lock()
	r.prices[o.OfferCode] = upstream.OfferFilter{CountryCode: o.CountryCode, Region: o.Region, Line: o.LineName, IPType: o.IPType}
	r.mu.Unlock()
	if o.UnitPriceCents == nil || *o.UnitPriceCents < 0 || *o.UnitPriceCents > maxLineCents/maxQuantity/maxRenewDays {
		return 0, &unreadError{"the price of offer " + o.OfferCode, errors.New("unit_price_cents gives no usable price")}
	}
	if !upstream.AmountAgrees(o.UnitPrice, *o.UnitPriceCents) {
		return 0, &unreadError{"the price of offer " + o.OfferCode, fmt.Errorf("unit_price is %q and unit_price_cents %d", bounded(o.UnitPrice), *o.UnitPriceCents)}
	}
	unit := *o.UnitPriceCents
	return quantity * max(unit, ledger.ScalePrice(unit, o.BaseDurationDays, days)), nil
}

// underCeiling stops an operation that would take its command over
// max_total_cents. The provider offers no such guarantee, and neither do we:
// what was quoted may still change.
func (r *Runner) underCeiling(ctx context.Context, j *job, p *presend) error {
	if j.cmd.MaxTotalCents == 0 {
		return nil
	}
	siblings, err := r.Ledger.OperationsOf(ctx, j.op.CommandID)
	if err != nil {
		return err
	}
	total := p.estimateCents
	for _, o := range siblings {
		total += o.ChargedCents - o.RefundedCents
	}
	if total > j.cmd.MaxTotalCents {
		p.stop = rejectedFact(j.op, "max_total_cents", fmt.Sprintf(
			"it would bring the command to %s, over its max_total_cents of %s: nothing was sent", r.binding.Amount(total), r.binding.Amount(j.cmd.MaxTotalCents)))
	}
	return nil
}
