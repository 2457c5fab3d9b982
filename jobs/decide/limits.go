// Limits on what an operation may cost: the command's ceiling (max_total_cents) and the
// account's daily limit (daily_limit_cents). The daily limit counts today's charges,
// less their refunds, plus the estimates of operations in progress.

package decide

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// Priced holds the prices of an attempt and the totals that they count against.
type Priced struct {
	Moment
	LeftOut []fact.Fact // left out by the precheck
	Prices  []Price     // one per order line or per proxy
	// Fallback is the price of a proxy without a known price.
	Fallback fact.Cents

	CeilingCents int64 // the command's ceiling; 0 means none
	CommandCents int64 // cost of the command so far

	LimitCents int64     // the account's daily limit; 0 means none
	SpentCents int64     // spent of the daily limit, without this operation
	Tomorrow   time.Time // start of the next day
	// Released says that an operator released it just now. ReleasedBefore says that an
	// operator ever released it; a failed precheck or request does not put it on hold
	// again.
	Released, ReleasedBefore bool
	// UnpricedUnderWay and UnpricedOpen count the account's other operations of unknown
	// price: those being sent, and today's with an unknown outcome. UnpricedSiblings
	// counts such operations of the command.
	UnpricedUnderWay, UnpricedOpen, UnpricedSiblings int64
}

// unpricedMost bounds the operations of unknown price and unknown outcome that a day or
// a command may have; beyond it no other is sent. This bounds their cost, and one review
// does not stop the others.
const unpricedMost = 3

// Price is the expected cost of one line or proxy.
type Price struct {
	Of         string // offer or proxy
	Cents      fact.Cents
	NotOffered bool   // on no page of offers
	Unreadable string // why the offer's price cannot be read; "" if it can
}

// Estimate returns the most that the operation is expected to cost, and the first proxy
// without a price.
func (h Priced) Estimate() (sum fact.Sum, unpriced string) {
	for _, p := range h.Prices {
		price := h.price(p)
		if sum = sum.Add(price); !price.Known() {
			unpriced = cmp.Or(unpriced, p.Of)
		}
	}
	return sum, unpriced
}

// price returns the known price, else the fallback.
func (h Priced) price(p Price) fact.Cents {
	if p.Cents.Known() {
		return p.Cents
	}
	return h.Fallback
}

// decidePriced enforces the ceiling and the daily limit by the quoted prices. The
// provider may still charge a different price.
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

// overran returns the fact that the charge exceeded the estimate, or nil.
func overran(op Operation, charged int64, trace string) []fact.Fact {
	if op.EstimateCents == 0 || charged <= op.EstimateCents {
		return nil
	}
	return []fact.Fact{fact.OperationOverran{Ref: op.Ref(trace), EstimateCents: op.EstimateCents, ChargedCents: charged}}
}

// decideUnreadable refuses an order whose offer stays unreadable for some minutes:
// neither a ceiling nor a limit could be enforced (trap 65).
func decideUnreadable(op Operation, h Priced, p Price) Decision {
	reason := "offer " + p.Of + " cannot be read at the provider (" + p.Unreadable + ")"
	if previousWait(op) < unreadMost {
		return decidePrecheckFailed(op, PrecheckFailed{Moment: h.Moment, Reason: reason})
	}
	return refusedBefore(op, h.LeftOut, "offer_unreadable", reason+": nothing was sent")
}

// withoutPrice renews one proxy of unknown price alone; its charge prices the others.
// With several such proxies no ceiling or limit could be enforced.
func withoutPrice(op Operation, h Priced, id string) (d Decision, stop bool) {
	known := "the price of proxy " + id + " is not known, so "
	switch {
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

// divided replaces an unsent operation with two: the proxies that go first, and the
// rest.
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

// overDailyLimit keeps the account within its daily limit. The part that fits is sent;
// the rest waits for the next day or for a release. A proxy that costs more than a whole
// day's limit is refused. A proxy of unknown price waits while another one is in
// progress: together they could exceed any limit.
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

// overLimit decides on an operation that exceeds the rest of the day's limit.
func overLimit(op Operation, h Priced, sum fact.Sum) Decision {
	if op.Kind == fact.KindRenewal && op.Ambiguous == 0 {
		if d, ok := fitToday(op, h); ok {
			return d
		}
	}
	limit := op.Binding.Amount(h.LimitCents)
	reason := fmt.Sprintf("%s is spent or in progress today, this would add %s, and daily_limit_cents is %s",
		op.Binding.Amount(h.SpentCents), sum.Text(op.Binding.Currency), limit)
	if sum.Cents > h.LimitCents {
		reason += ", less than this alone: it stays on hold, from day to day, until the limit is raised; release it, or cancel it"
	}
	return holdBack(op, h.LeftOut, fact.CommandHeld{Code: fact.HeldDailyLimit, EstimateCents: sum.Cents, Until: &h.Tomorrow, Reason: reason})
}

// fitToday splits a renewal into the part that fits today and the rest, and refuses what
// fits into no day. ok is false when all of it must wait for the next day.
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
		return divided(op, h, fits, fmt.Sprintf("%s is spent or in progress today, and daily_limit_cents is %s: %d of its %d proxies fit, the others wait",
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

// QuotedCents returns the price of an offer for a quantity and a duration. The document
// does not say whether a quote's unit price covers the base duration or the requested
// one. The higher of the two counts against a ceiling.
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
