// This file decides on an order's refund object (customer-api.md, Order). The API does not
// list the values of its status and destination, so no decision uses them.

package decide

import (
	"fmt"
	"math/bits"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// settling is the poll interval of an ended order whose refund is pending or partial.
// settlingMost limits how long such an order is polled without progress.
const (
	settling     = 24 * time.Hour
	settlingMost = 7 * 24 * time.Hour
)

// decideRefund decides on an order that has ended with a refund. pending means that the
// refund is announced but not fully booked.
func decideRefund(op Operation, h OrderRead, state fact.OrderState, pending bool) Decision {
	o, next, long := h.Order, h.Now.Add(settling), unchangedFor(op, h.Order, settlingMost)
	charged, refunded := op.ChargedCents+state.ChargedCents, op.RefundedCents+state.RefundedCents
	rest := owed(op, o.Delivery, charged, refunded)
	switch {
	case pending && !long:
		return progressed(state, next, "the refund is pending")
	case pending:
		return reviewWithMoney(op, o, state, "a refund is announced and did not come in 7 days; "+rest)
	case covers(o.Delivery, charged, refunded):
		ids, proxies := Delivered(op.OfferCode, o, charged-refunded)
		return Decision{Facts: []fact.Fact{fact.OrderRefunded{
			OrderState: state, RefundStatus: fact.Bounded(o.Refund.Status), Destination: fact.Bounded(o.Refund.Destination), RefundedAt: o.Refund.RefundedAt.UTC(),
			ProxyIDs: ids, Proxies: proxies,
		}}}
	case !long:
		return progressed(state, next, rest)
	default:
		return reviewWithMoney(op, o, state, rest)
	}
}

// returned reports whether the refund object has an amount and a time that has passed. It
// compares with the later of the provider's clock and the time of the read.
func returned(o upstream.Order, read *time.Time) bool {
	r := o.Refund
	if r == nil || r.AmountCents == nil || *r.AmountCents <= 0 || r.RefundedAt == nil {
		return false
	}
	now := o.ServerTime
	if read != nil && read.After(now) {
		now = *read
	}
	return now.IsZero() || !r.RefundedAt.After(now.Add(upstream.MaxSkew))
}

// RefundOf returns the amount of the order's refund object in cents, or 0 if nothing was
// refunded.
func RefundOf(o upstream.Order) int64 {
	if !returned(o, nil) {
		return 0
	}
	return *o.Refund.AmountCents
}

// refunds books the amount that was refunded since the last read into state.
func refunds(op Operation, o upstream.Order, state *fact.OrderState, doubt func(kind string, cents int64, text string)) {
	if !returned(o, state.ReadAt) {
		return
	}
	r := o.Refund
	delta, room := *r.AmountCents-op.RefundedCents, op.ChargedCents+state.ChargedCents-op.RefundedCents
	switch {
	case r.Currency != op.Binding.Currency:
		doubt(FindingRefundCurrency, 0, fmt.Sprintf("the refund is %s in %q and the account is in %q: nothing was booked", fact.Decimal(*r.AmountCents), fact.Bounded(r.Currency), op.Binding.Currency))
	case delta < 0 || delta > room:
		doubt(FindingRefundAmount, *r.AmountCents, "the refund is less than what was booked before, or more than the charge")
	default:
		state.RefundedCents = delta
	}
}

// pends reports whether the refund object announces more than is booked.
func pends(o upstream.Order, state fact.OrderState, refunded int64) bool {
	r, d := o.Refund, o.Delivery
	switch {
	case r == nil, none(r) && d.Complete && d.Available && d.DeliveredCount >= d.ExpectedCount:
		return false
	case refunded == 0:
		return true
	}
	return !returned(o, state.ReadAt) && r.AmountCents != nil && *r.AmountCents > refunded
}

// none reports whether the refund object is empty or has the amount 0.
func none(r *upstream.Refund) bool {
	if r.AmountCents != nil {
		return *r.AmountCents == 0
	}
	return r.Status == "" && r.Destination == "" && r.RefundedAt == nil
}

// covers reports whether the charge less the refund is at most the delivered share of the
// charge, rounded up. The API gives no prices per item, so each proxy counts equally.
func covers(d upstream.Delivery, charged, refunded int64) bool {
	rest := charged - refunded
	switch {
	case rest <= 0, d.DeliveredCount > 0 && d.DeliveredCount >= d.ExpectedCount:
		return true
	case d.DeliveredCount <= 0:
		return false
	}
	// Checks rest <= ceil(charged * delivered / expected), in 128 bits.
	hi, lo := bits.Mul64(uint64(charged), uint64(d.DeliveredCount))
	restHi, restLo := bits.Mul64(uint64(rest-1), uint64(d.ExpectedCount))
	return hi > restHi || hi == restHi && lo > restLo
}

// refundsRest reports whether the refund covers the missing proxies of an order.
func refundsRest(f fact.OrderDelivered, charged, refunded int64) bool {
	expected, delivered := f.Counts()
	return refunded > 0 && covers(upstream.Delivery{ExpectedCount: expected, DeliveredCount: delivered}, charged, refunded)
}

// owed describes the part of a charge that is neither delivered nor refunded.
func owed(op Operation, d upstream.Delivery, charged, refunded int64) string {
	return fmt.Sprintf("the order has ended: %s was charged, %s came back, %d of %d were delivered, and what became of the rest is not said",
		op.Binding.Amount(charged), op.Binding.Amount(refunded), d.DeliveredCount, d.ExpectedCount)
}

// withoutRefund returns the finding for a delivered order that settled without its
// announced refund.
func withoutRefund(op Operation, o upstream.Order) fact.LedgerDiscrepancy {
	f := fact.LedgerDiscrepancy{Ref: op.Ref(o.TraceID), Finding: FindingRefund, OrderNo: op.OrderNo, Explanation: fmt.Sprintf(
		"the order shows a refund (status %q) that did not come in the 7 days since it last moved on: the order is settled without it", fact.Bounded(o.Refund.Status))}
	if o.Refund.AmountCents != nil {
		f.AmountCents = *o.Refund.AmountCents
	}
	return f
}
