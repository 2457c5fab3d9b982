package jobs

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

type pricing struct {
	*Config
	clock *clock
	link  *link

	mu    sync.Mutex
	found map[string]upstream.OfferFilter // by offer code: the filter whose listing contains the offer
}

func (q *pricing) price(ctx context.Context, j *job, p *checked) (decide.Decision, error) {
	h := decide.Priced{LeftOut: p.leftOut, CeilingCents: j.cmd.MaxTotalCents, LimitCents: q.DailyLimitCents, Released: j.released, NotFound: p.unknown}
	siblings, err := q.Ledger.Operations.OperationsOf(ctx, j.op.CommandID)
	if err != nil {
		return decide.Decision{}, err
	}
	latest := fact.LatestOf(siblings)
	for _, o := range siblings {
		cents := o.ChargedCents
		if !o.State.Ended() && o.ID != j.op.ID { // may have executed, so count at least its estimate
			if cents = max(cents, o.EstimateCents); cents == 0 && o.Attempts > 0 {
				h.UnpricedSiblings++
			}
		}
		h.CommandCents += cents - o.RefundedCents
		refused := o.State == fact.StateRejected && o.Code == string(upstream.CodeProxyNotFound) && !latest.Superseded(o)
		h.NotFoundBefore = h.NotFoundBefore || refused && !o.UpdatedAt.Before(j.op.AcceptedAt)
	}
	if err := q.readPrices(ctx, j, p.ids, &h); err != nil {
		return decide.Decision{}, err
	}
	return q.decidePrice(ctx, j, p, h)
}

// The price decision is made again just before the intent. Since the first decision, other
// spending may have changed, and another operation may have shown or changed a price.
func (q *pricing) again(ctx context.Context, j *job, p *checked) (decide.Decision, error) {
	h := p.priced
	if !p.estimate.Known() || j.op.Kind.OfProxies() {
		if err := q.readPrices(ctx, j, p.ids, &h); err != nil {
			return decide.Decision{}, err
		}
	}
	d, err := q.decidePrice(ctx, j, p, h)
	if err != nil || !d.Send || d.Estimate.Known() {
		return d, err
	}
	// Another operation may have settled after readPrices and shown the price. A second read
	// finds that price.
	if err := q.readPrices(ctx, j, p.ids, &h); err != nil {
		return decide.Decision{}, err
	}
	return q.decidePrice(ctx, j, p, h)
}

func (q *pricing) decidePrice(ctx context.Context, j *job, p *checked, h decide.Priced) (decide.Decision, error) {
	if err := q.spending(ctx, j.op.ID, &h); err != nil {
		return decide.Decision{}, err
	}
	h.Moment = q.link.moment()
	d := decide.Decide(j.op, h)
	p.priced, p.estimate = h, d.Estimate
	return d, nil
}

func (q *pricing) spending(ctx context.Context, operation string, h *decide.Priced) (err error) {
	if h.LimitCents == 0 || h.Released {
		return nil
	}
	now := q.clock.Now()
	today := fact.StartOfDay(now, q.DailyLimitLocation)
	h.Tomorrow = fact.NextDay(now, q.DailyLimitLocation)
	if h.SpentCents, err = q.Ledger.Money.Committed(ctx, today, operation); err != nil {
		return err
	}
	exposed, err := q.Ledger.Money.Exposed(ctx, today, operation)
	if err != nil {
		return err
	}
	h.SpentCents += exposed
	if h.ReleasedBefore, err = q.Ledger.Operations.ReleasedByHand(ctx, operation); err != nil {
		return err
	}
	if _, unpriced := h.Estimate(); unpriced != "" {
		h.UnpricedUnderWay, h.UnpricedOpen, err = q.Ledger.Money.Unpriced(ctx, operation, today)
	}
	return err
}

func (q *pricing) readPrices(ctx context.Context, j *job, ids []string, h *decide.Priced) error {
	h.Prices, h.Fallback = nil, fact.Cents{}
	switch j.op.Kind {
	case fact.KindOrder:
		return q.quotes(ctx, j, h)
	case fact.KindRenewal:
		return q.renewalPrices(ctx, j, ids, h)
	}
	panic("jobs: kind " + string(j.op.Kind) + " has no price")
}

// Reads the price of each item of an order. It stops after the first item without a price.
func (q *pricing) quotes(ctx context.Context, j *job, h *decide.Priced) error {
	for _, item := range j.cmd.Items {
		cents, err := q.quote(ctx, j.turn(), item, j.cmd.DurationDays)
		missing := errors.Is(err, errNotOffered)
		unreadable, _ := errors.AsType[*unreadableOfferError](err)
		if err != nil && !missing && unreadable == nil {
			return err
		}
		price := decide.Price{Of: item.OfferCode, Cents: cents, NotOffered: missing}
		if unreadable != nil {
			price.Unreadable = unreadable.why
		}
		h.Prices = append(h.Prices, price)
		if !price.Cents.Known() {
			break
		}
	}
	return nil
}

// renewalPrices reads the last price of each proxy or of its kind. If the command's own
// lines of that kind cost more, it uses their highest price. A proxy without a known price
// falls back to the command's most expensive line. If the command has no such line and a
// daily limit applies, the proxy falls back to the most expensive recent line.
func (q *pricing) renewalPrices(ctx context.Context, j *job, ids []string, h *decide.Priced) error {
	most, err := q.Ledger.Fleet.DearestLine(ctx, j.op.CommandID, nil)
	charged := most > 0
	if err == nil && most == 0 && h.LimitCents > 0 {
		most, err = q.Ledger.Money.Dearest(ctx, j.cmd.DurationDays)
	}
	if err != nil {
		return err
	}
	h.Fallback = fact.Estimated(most)
	for _, id := range ids {
		paid, err := q.Ledger.Fleet.LastPrice(ctx, id)
		if err != nil {
			return err
		}
		price := decide.Price{Of: id, Cents: fact.Estimated(paid.For(j.cmd.DurationDays).Or(0))}
		if charged && price.Cents.Known() {
			most, err := q.dearestOfKind(ctx, j.op.CommandID, id)
			if err != nil {
				return err
			}
			price.Cents = price.Cents.Most(fact.Known(most))
		}
		h.Prices = append(h.Prices, price)
	}
	return nil
}

// dearestOfKind returns the highest price among the command's lines whose proxies are of the
// same kind as the given proxy. If its kind is unknown, all lines count.
func (q *pricing) dearestOfKind(ctx context.Context, commandID, proxyID string) (int64, error) {
	like, err := q.Ledger.Fleet.Proxy(ctx, proxyID)
	if errors.Is(err, ledger.ErrNotFound) {
		return q.Ledger.Fleet.DearestLine(ctx, commandID, nil)
	}
	if err != nil {
		return 0, err
	}
	return q.Ledger.Fleet.DearestLine(ctx, commandID, &like)
}

var errNotOffered = errors.New("not offered")

type unreadableOfferError struct{ why string }

func (e *unreadableOfferError) Error() string { return "the offer cannot be read: " + e.why }

// unreadableOffer returns an error if the offer is listed but cannot be read. An unreadable
// entry without a code may be this offer, so it counts too.
func unreadableOffer(unusable []upstream.Unusable, code string) error {
	for _, u := range unusable {
		if u.ID == code || u.ID == "" {
			return &unreadableOfferError{fact.Bounded(u.Why)}
		}
	}
	return nil
}

func (q *pricing) quote(ctx context.Context, priority gatePriority, item command.Item, days int64) (fact.Cents, error) {
	q.mu.Lock()
	filter, remembered := q.found[item.OfferCode]
	q.mu.Unlock()
	cents, err := q.quoteBy(ctx, priority, filter, item, days)
	if remembered && (errors.Is(err, errNotOffered) || errors.Is(err, upstream.CodeValidationError)) { // the provider may have renamed the offer's region or line, or may not know this filter
		return q.quoteBy(ctx, priority, upstream.OfferFilter{}, item, days)
	}
	return cents, err
}

func (q *pricing) quoteBy(ctx context.Context, priority gatePriority, filter upstream.OfferFilter, item command.Item, days int64) (fact.Cents, error) {
	filter.Quantity, filter.DurationDays = item.Quantity, days
	pages := upstream.Pages[upstream.Offer]{PageRequest: upstream.PageRequest{Size: 200}}
	var unreadable error
	for more := true; more; {
		if err := q.link.passNow(ctx, priority); err != nil {
			return fact.Cents{}, err
		}
		page, err := q.Provider.OffersPage(ctx, filter, pages.PageRequest)
		q.link.Read(ctx, page.ServerTime, err)
		if pages.Restarts(err) {
			continue
		}
		var dearest fact.Cents // of an offer that the page lists twice
		for _, o := range page.Items {
			if o.OfferCode != item.OfferCode {
				continue
			}
			cents, err := q.quoted(o, item.Quantity, days)
			if err != nil {
				return fact.Cents{}, err
			}
			dearest = dearest.Most(cents)
		}
		if dearest.Known() {
			return dearest, nil
		}
		unreadable = cmp.Or(unreadable, unreadableOffer(page.Unusable, item.OfferCode))
		if err == nil {
			more, err = pages.Follow(page)
		}
		if err != nil {
			return fact.Cents{}, &unreadError{what: "the price of offer " + item.OfferCode, err: err}
		}
	}
	return fact.Cents{}, cmp.Or(unreadable, errNotOffered)
}

func (q *pricing) quoted(o upstream.Offer, quantity, days int64) (fact.Cents, error) {
	q.mu.Lock()
	q.found[o.OfferCode] = upstream.OfferFilter{CountryCode: o.CountryCode, Region: o.Region, Line: o.LineName, IPType: o.IPType}
	q.mu.Unlock()
	cents, err := decide.QuotedCents(o, quantity, days)
	if err != nil {
		return fact.Cents{}, &unreadableOfferError{fact.Bounded(err.Error())}
	}
	return fact.Known(cents), nil
}
