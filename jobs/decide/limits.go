// What an operation may cost: its command's ceiling (max_total_cents) and the account's
// limit of the day (daily_limit_cents), which counts what was charged today, less what came
// back of these charges, and what is under way at its estimate.

package decide

import (
	"errors"
	"fmt"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// Priced says that the prices of an attempt were read, and what they count against.
type Priced struct {
	Moment
	LeftOut []fact.Fact // by the precheck
	Prices  []Price     // one for each line of an order, or for each proxy
	// Fallback is the price of a proxy whose own is not known, 0 for none.
	Fallback int64

	CeilingCents int64 // of the command; 0: none
	CommandCents int64 // what the command has cost so far

	LimitCents int64     // of the account's day; 0: none
	SpentCents int64     // of it, without this operation
	Tomorrow   time.Time // when the next day begins
	// Released: a person released it just now. ReleasedBefore: a person released it at
	// any time, so that it is not held again after a failed precheck or request.
	Released, ReleasedBefore bool
	// AnotherUnpriced says that the price of another operation under way is not known.
	AnotherUnpriced bool
}

// Price is what one line or proxy is expected to cost.
type Price struct {
	Of         string // the offer, or the proxy
	Cents      int64
	Known      bool
	NotOffered bool   // no page of offers holds it
	Unreadable string // why the offer has no price that can be read; "" when it has one
}

// Estimate is the most that the operation is expected to cost. What has no price
// counts as nothing, and unpriced is the first such proxy.
func (h Priced) Estimate() (cents int64, unpriced string) {
	for _, p := range h.Prices {
		switch {
		case p.Known:
			cents += p.Cents
		case h.Fallback > 0:
			cents += h.Fallback
		case unpriced == "":
			unpriced = p.Of
		}
	}
	return cents, unpriced
}

// decidePriced keeps the ceiling and the limit, as far as the quoted prices hold: the
// provider may still charge another price.
func decidePriced(op Operation, h Priced) Decision {
	for _, p := range h.Prices {
		if p.NotOffered {
			return refusedBefore(op, h.LeftOut, "offer_not_found", "offer "+p.Of+" is not among the offers for this quantity and duration: nothing was sent")
		}
		if p.Unreadable != "" {
			return decideUnreadable(op, h, p)
		}
	}
	cents, unpriced := h.Estimate()
	if unpriced != "" && len(h.Prices) > 1 {
		if d, stop := withoutPrice(op, h, unpriced); stop {
			return d
		}
	}
	if total := cents + h.CommandCents; h.CeilingCents > 0 && total > h.CeilingCents {
		return refusedBefore(op, h.LeftOut, "max_total_cents", fmt.Sprintf(
			"it would bring the command to %s, over its max_total_cents of %s: nothing was sent", op.Binding.Amount(total), op.Binding.Amount(h.CeilingCents)))
	}
	if d, stop := overDailyLimit(op, h, cents, unpriced != ""); stop {
		return d
	}
	return Decision{Facts: h.LeftOut, Send: true, EstimateCents: cents, Unpriced: unpriced != ""}
}

// decideUnreadable refuses an order for an offer that stays unreadable for some minutes:
// neither a ceiling nor a limit can be kept (trap 65).
func decideUnreadable(op Operation, h Priced, p Price) Decision {
	reason := "offer " + p.Of + " cannot be read at the provider (" + p.Unreadable + ")"
	if previousWait(op) < unreadMost {
		return decidePrecheckFailed(op, PrecheckFailed{Moment: h.Moment, Reason: reason})
	}
	return refusedBefore(op, h.LeftOut, "offer_unreadable", reason+": nothing was sent")
}

// withoutPrice stops an operation of several proxies of which one has no price: no
// ceiling and no limit could be kept.
func withoutPrice(op Operation, h Priced, id string) (d Decision, stop bool) {
	switch {
	case h.CeilingCents > 0:
		return refusedBefore(op, h.LeftOut, "max_total_cents", "the price of proxy "+id+" is not known, so max_total_cents cannot be kept: nothing was sent"), true
	case h.Released, h.ReleasedBefore:
		return Decision{}, false
	}
	return holdBack(op, h.LeftOut, fact.CommandHeld{
		Code: fact.HeldUnknownPrice, Until: &h.Tomorrow,
		Reason: "the price of proxy " + id + " is not known, so daily_limit_cents cannot be kept: see the command's first operation",
	}), true
}

// overDailyLimit holds an operation that would take the account over its limit of
// the day, until the day is over or a person releases it. One whose price is not
// known waits while another such one is under way: together they could go over any
// limit.
func overDailyLimit(op Operation, h Priced, cents int64, unpriced bool) (d Decision, stop bool) {
	over := h.SpentCents+cents > h.LimitCents
	switch {
	case h.LimitCents == 0, h.Released, over && h.ReleasedBefore:
		return Decision{}, false
	case over:
		return holdBack(op, h.LeftOut, fact.CommandHeld{Code: fact.HeldDailyLimit, EstimateCents: cents, Until: &h.Tomorrow, Reason: fmt.Sprintf(
			"%s is spent or under way today, this would add %s, and daily_limit_cents is %s",
			op.Binding.Amount(h.SpentCents), estimateText(op.Binding, cents, unpriced), op.Binding.Amount(h.LimitCents))}), true
	case !unpriced || !h.AnotherUnpriced:
		return Decision{}, false
	}
	d = waiting(op, notExecuted, h.Now.Add(previousWait(op)), Verdict{
		Reason: "its price is not known, and so is that of another operation under way: daily_limit_cents waits for what that costs",
	})
	d.Facts = append(h.LeftOut, d.Facts...)
	return d, true
}

// estimateText is an estimate as text. An unknown price is never shown as 0.
func estimateText(b fact.Binding, cents int64, unpriced bool) string {
	if cents == 0 && unpriced {
		return "an unknown price"
	}
	return b.Amount(cents)
}

// QuotedCents is what an offer costs for a quantity and a duration. The document does
// not say whether a quote's unit price covers the base duration or the one asked
// for, so the dearer reading counts against a ceiling.
func QuotedCents(o upstream.Offer, quantity, days int64) (int64, error) {
	if o.UnitPriceCents == nil || *o.UnitPriceCents < 0 || *o.UnitPriceCents > MaxLineCents/upstream.MaxQuantity/upstream.MaxRenewDays {
		return 0, errors.New("unit_price_cents gives no usable price")
	}
	if !upstream.AmountAgrees(o.UnitPrice, *o.UnitPriceCents) {
		return 0, fmt.Errorf("unit_price is %q and unit_price_cents %d", Bounded(o.UnitPrice), *o.UnitPriceCents)
	}
	unit := *o.UnitPriceCents
	return quantity * max(unit, fact.ScalePrice(unit, o.BaseDurationDays, days)), nil
}
