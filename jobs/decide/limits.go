package decide

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// Priced has the prices of an attempt and the totals that count against its limits.
type Priced struct {
	Moment
	LeftOut []fact.Fact // facts about proxies that the precheck left out
	Prices  []Price     // one per item of an order or per proxy
	// Fallback is the price of a proxy without a known price.
	Fallback fact.Cents

	CeilingCents int64 // the command's limit; 0 for none
	CommandCents int64 // cost of the command so far

	LimitCents int64     // the account's daily limit; 0 for none
	SpentCents int64     // amount that counts against the daily limit today, without this operation
	Tomorrow   time.Time // start of the next day
	// Released says that an operator released the operation just now. ReleasedBefore says that an
	// operator has released it at any time. A failed precheck or request does not put a released
	// operation on hold again.
	Released, ReleasedBefore bool
	// UnpricedUnderWay and UnpricedOpen count the account's other operations of unknown price.
	// UnpricedUnderWay counts operations that are being sent. UnpricedOpen counts today's
	// operations with an unknown outcome. UnpricedSiblings counts operations of unknown price
	// that belong to the same command.
	UnpricedUnderWay, UnpricedOpen, UnpricedSiblings int64
	// NotFound has the proxies that a read has just not found. NotFoundBefore says that the provider
	// has refused another operation of the command as proxy_not_found since this one was accepted.
	NotFound       []string
	NotFoundBefore bool
}

// unpricedMost limits, per day and per command, the operations whose price and outcome are both
// unknown. At the limit, no further operation of unknown price is sent. The limit bounds the
// total cost, but one open review does not stop the other operations.
const unpricedMost = 3

// Price is the expected cost of one item or proxy.
type Price struct {
	Of         string // offer code or proxy id
	Cents      fact.Cents
	NotOffered bool   // no page of offers contains the offer
	Unreadable string // why the offer's price cannot be read; "" if it can
}

// Estimate returns the expected cost of the operation, and the first item or proxy without
// a price ("" if all have one).
func (h Priced) Estimate() (sum fact.Sum, unpriced string) {
	for _, p := range h.Prices {
		price := h.price(p)
		if sum = sum.Add(price); !price.Known() {
			unpriced = cmp.Or(unpriced, p.Of)
		}
	}
	return sum, unpriced
}

func (h Priced) price(p Price) fact.Cents {
	if p.Cents.Known() {
		return p.Cents
	}
	return h.Fallback
}

// decidePriced enforces the command's limit and the daily limit with the expected prices.
// The provider may still charge a different price.
func decidePriced(op Operation, h Priced) Decision {
	for _, p := range h.Prices {
		if p.NotOffered {
			return refusedBefore(op, h.LeftOut, "offer_not_found", "offer "+p.Of+" is not among the offers for this quantity and duration: nothing was sent")
		}
		if p.Unreadable != "" {
			return decideUnreadable(op, h, p)
		}
	}
	sum, unpriced := h.Estimate()
	if unpriced != "" && (h.CeilingCents > 0 || len(h.Prices) > 1) {
		if d, stop := withoutPrice(op, h, unpriced); stop {
			return d
		}
	}
	if total := sum.Cents + h.CommandCents; h.CeilingCents > 0 && total > h.CeilingCents {
		return refusedBefore(op, h.LeftOut, fact.CodeCeiling, fmt.Sprintf(
			"it would bring the command to %s, over its max_total_cents of %s: nothing was sent", op.Binding.Amount(total), op.Binding.Amount(h.CeilingCents)))
	}
	if d, stop := overDailyLimit(op, h, sum); stop {
		return d
	}
	d := Decision{Facts: h.LeftOut, Send: true}
	if sum.Lacks == 0 {
		d.Estimate = fact.Known(sum.Cents)
	}
	return d
}

// The result is nil unless the charge exceeded the estimate.
func overran(op Operation, charged int64, trace string) []fact.Fact {
	if op.EstimateCents == 0 || charged <= op.EstimateCents {
		return nil
	}
	return []fact.Fact{fact.OperationOverran{Ref: op.Ref(trace), EstimateCents: op.EstimateCents, ChargedCents: charged}}
}

// decideUnreadable refuses an order if its offer has been unreadable for some minutes.
// Without a price, no limit can be enforced (trap 65).
func decideUnreadable(op Operation, h Priced, p Price) Decision {
	reason := "offer " + p.Of + " cannot be read at the provider (" + p.Unreadable + ")"
	if previousWait(op) < unreadMost {
		return decidePrecheckFailed(op, PrecheckFailed{Moment: h.Moment, Reason: reason})
	}
	return refusedBefore(op, h.LeftOut, "offer_unreadable", reason+": nothing was sent")
}

// withoutPrice decides on an operation if a limit applies and the price of proxy id is
// unknown. It renews that proxy alone first, because the charge shows what the operation's
// other proxies without a price will cost. If several were sent together, they could exceed
// the limit. stop is false if the operation may be sent.
func withoutPrice(op Operation, h Priced, id string) (d Decision, stop bool) {
	known := "the price of proxy " + id + " is not known, so "
	unknown := h.unknown()
	switch {
	case op.Ambiguous == 0 && h.NotFoundBefore && len(unknown) == len(h.Prices):
		return refusedBefore(op, h.LeftOut, upstream.CodeProxyNotFound, "the provider shows none of its proxies, and has refused others of the command as unknown: nothing was sent"), true
	case op.Ambiguous == 0 && h.NotFoundBefore && len(unknown) > 0:
		return divided(op, h, unknown, "the provider does not show some of its proxies, and has refused others of the command as unknown"), true
	case h.CeilingCents > 0 && h.UnpricedSiblings >= unpricedMost:
		return refusedBefore(op, h.LeftOut, fact.CodeCeiling, fmt.Sprintf(
			"%smax_total_cents cannot be kept, and what %d others of the command cost is not known either: nothing was sent", known, h.UnpricedSiblings)), true
	case len(h.Prices) == 1, h.CeilingCents == 0 && (h.Released || h.ReleasedBefore):
		return Decision{}, false
	case op.Ambiguous > 0 && h.CeilingCents > 0:
		return changedSince(op), true
	case op.Ambiguous > 0:
		return holdBack(op, h.LeftOut, fact.CommandHeld{
			Code: fact.HeldUnknownPrice, Until: &h.Tomorrow, Reason: known + "daily_limit_cents cannot be kept",
		}), true
	}
	return divided(op, h, map[string]bool{id: true}, known+"it is renewed first and tells the price of the others"), true
}

// unknown returns the proxies without a price that a read has just not found.
func (h Priced) unknown() map[string]bool {
	all := map[string]bool{}
	for _, p := range h.Prices {
		if slices.Contains(h.NotFound, p.Of) && !h.price(p).Known() {
			all[p.Of] = true
		}
	}
	return all
}

// An unsent operation is replaced with two: one for the proxies in first, one for the rest.
func divided(op Operation, h Priced, first map[string]bool, reason string) Decision {
	var ahead, rest []string
	for _, p := range h.Prices {
		if first[p.Of] {
			ahead = append(ahead, p.Of)
		} else {
			rest = append(rest, p.Of)
		}
	}
	return Decision{Facts: append(h.LeftOut, fact.CommandRejected{
		Ref: op.Ref(""), Code: fact.CodeDivided, Reason: reason, Attempt: op.Attempts, SplitInto: parts(op, ahead, rest), DurationDays: op.DurationDays,
	})}
}

// overDailyLimit enforces the account's daily limit. The proxies that fit are sent; the
// others wait for the next day or for a release. A proxy that costs more than a whole day's
// limit is refused. An operation of unknown price waits while others of unknown price are in
// progress, because together they could exceed any limit. stop is false if the operation may
// be sent.
func overDailyLimit(op Operation, h Priced, sum fact.Sum) (d Decision, stop bool) {
	over := h.SpentCents+sum.Cents > h.LimitCents
	switch {
	case h.LimitCents == 0, h.Released, over && h.ReleasedBefore:
		return Decision{}, false
	case over:
		return overLimit(op, h, sum), true
	case sum.Lacks == 0 || h.UnpricedUnderWay == 0 && h.UnpricedOpen < unpricedMost:
		return Decision{}, false
	}
	d = waiting(op, notExecuted, h.Now.Add(previousWait(op)), Verdict{
		Reason: "its price is not known, and so is that of other operations in progress or in review: daily_limit_cents waits for what they cost, or for the next day",
	})
	d.Facts = append(h.LeftOut, d.Facts...)
	return d, true
}

func overLimit(op Operation, h Priced, sum fact.Sum) Decision {
	if op.Kind == fact.KindRenewal && op.Ambiguous == 0 {
		if d, ok := fitToday(op, h); ok {
			return d
		}
	}
	limit := op.Binding.Amount(h.LimitCents)
	reason := fmt.Sprintf("%s is spent, in progress or in review today, this would add %s, and daily_limit_cents is %s",
		op.Binding.Amount(h.SpentCents), sum.Text(op.Binding.Currency), limit)
	if sum.Cents > h.LimitCents {
		reason += ", less than this alone: it stays on hold, from day to day, until the limit is raised; release it, or cancel it"
	}
	return holdBack(op, h.LeftOut, fact.CommandHeld{Code: fact.HeldDailyLimit, EstimateCents: sum.Cents, Until: &h.Tomorrow, Reason: reason})
}

// fitToday splits a renewal into the proxies that fit today and the others, and refuses
// proxies that cost more than a whole day's limit. ok is false if all proxies must wait for
// the next day.
func fitToday(op Operation, h Priced) (d Decision, ok bool) {
	fits, later, room := map[string]bool{}, map[string]bool{}, h.LimitCents-h.SpentCents
	for _, p := range h.Prices {
		price := h.price(p).Or(0)
		later[p.Of] = price <= h.LimitCents
		if fits[p.Of] = price <= room; fits[p.Of] {
			room -= price
		}
	}
	n, limit := len(h.Prices), op.Binding.Amount(h.LimitCents)
	switch today, anyDay := trues(fits), trues(later); {
	case today > 0:
		return divided(op, h, fits, fmt.Sprintf("%s is spent, in progress or in review today, and daily_limit_cents is %s: %d of its %d proxies fit, the others wait",
			op.Binding.Amount(h.SpentCents), limit, today, n)), true
	case anyDay == 0:
		return refusedBefore(op, h.LeftOut, fact.CodeDailyLimit, fmt.Sprintf(
			"at %s a proxy of it costs more than daily_limit_cents allows in a whole day (%s): nothing was sent; raise the limit, then retry it", op.Binding.Amount(h.price(h.Prices[0]).Or(0)), limit)), true
	case anyDay < n:
		return divided(op, h, later, fmt.Sprintf("%d of its %d proxies cost more than daily_limit_cents allows in a whole day (%s)", n-anyDay, n, limit)), true
	}
	return Decision{}, false
}

func trues(set map[string]bool) (n int) {
	for _, x := range set {
		if x {
			n++
		}
	}
	return n
}

// QuotedCents returns the price of an offer for a quantity and a duration, in cents. The API
// document does not say whether a quote's unit price covers the base duration or the
// requested one. QuotedCents calculates both and returns the higher price.
func QuotedCents(o upstream.Offer, quantity, days int64) (int64, error) {
	if o.UnitPriceCents == nil || *o.UnitPriceCents < 0 || *o.UnitPriceCents > MaxLineCents/upstream.MaxQuantity/upstream.MaxRenewDays {
		return 0, errors.New("unit_price_cents gives no usable price")
	}
	if !upstream.AmountAgrees(o.UnitPrice, *o.UnitPriceCents) {
		return 0, fmt.Errorf("unit_price is %q and unit_price_cents %d", fact.Bounded(o.UnitPrice), *o.UnitPriceCents)
	}
	unit := *o.UnitPriceCents
	return quantity * max(unit, fact.ScalePrice(unit, o.BaseDurationDays, days)), nil
}
