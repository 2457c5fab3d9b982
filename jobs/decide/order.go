package decide

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// decideOrder decides on the details of an order. The API does not list the terminal states
// (customer-api.md, Order status). The decision therefore depends on the delivery, the refund and
// poll_after_seconds.
func decideOrder(op Operation, h OrderRead) Decision {
	o := h.Order
	if o.OrderNo != "" && o.OrderNo != op.OrderNo {
		return orderReview(op, o, fmt.Sprintf("order %s was asked for and %s was answered", op.OrderNo, fact.Bounded(o.OrderNo)))
	}
	state := fact.OrderState{
		Ref: op.Ref(o.TraceID), OrderNo: op.OrderNo, Status: fact.Bounded(o.Status),
		ExpectedCount: o.Delivery.ExpectedCount, DeliveredCount: o.Delivery.DeliveredCount, ReadAt: &h.Now,
	}
	doubts := Money(op, o, &state)
	delivered := o.Delivery.Present && o.Delivery.Complete && o.Delivery.Available
	charged, refunded := op.ChargedCents+state.ChargedCents, op.RefundedCents+state.RefundedCents
	pending := pends(o, state, refunded)
	var d Decision
	switch {
	case delivered && charged > 0 && (!pending || !mayCome(op, o, state.ReadAt)):
		f := deliveredFact(op, o, state, charged)
		d, doubts = Decision{Facts: []fact.Fact{f}}, append(doubts, doubtsOf(op, o, f, charged, refunded, pending)...)
	case o.InProgress() && !unchangedFor(op, o, stalled):
		d = progressed(state, h.Now.Add(max(seconds(*o.PollAfterSeconds), h.PollFloor)), "")
	case pending, refunded > 0 && o.Refund != nil && o.Refund.RefundedAt != nil:
		d = decideRefund(op, h, state, pending)
	default:
		d = reviewWithMoney(op, o, state, whyStuck(op, o, charged == 0))
	}
	d = withDoubts(op, d, doubts)
	if state.ChargedCents > 0 {
		d.Facts = append(overran(op, charged, o.TraceID), d.Facts...)
	}
	return d
}

// withDoubts adds findings to a decision. While the order is polled, it does not add the
// same findings again.
func withDoubts(op Operation, d Decision, doubts []fact.LedgerDiscrepancy) Decision {
	if len(doubts) == 0 {
		return d
	}
	if f, ok := d.Facts[0].(fact.OrderProgressed); ok {
		f.Reason = strings.TrimPrefix(f.Reason+"; "+doubts[0].Explanation, "; ")
		d.Facts[0] = f
		if op.Reason == f.Reason {
			return d
		}
	}
	for _, f := range doubts {
		d.Facts = append(d.Facts, f)
	}
	return d
}

// unchangedFor reports whether the reads have shown no progress for at least long. Periods
// without successful reads do not count.
func unchangedFor(op Operation, o upstream.Order, long time.Duration) bool {
	if op.ReadAt == nil || op.ProgressAt == nil || o.Delivery.DeliveredCount != op.DeliveredCount {
		return false
	}
	return op.ReadAt.Sub(*op.ProgressAt) >= long
}

// Money adds to state the amounts that a read of the order shows. It books the total once, and
// refunds only as the refund object states them. It returns contradictions with the books as
// findings.
func Money(op Operation, o upstream.Order, state *fact.OrderState) []fact.LedgerDiscrepancy {
	var doubts []fact.LedgerDiscrepancy
	doubt := func(kind string, cents int64, text string) {
		doubts = append(doubts, fact.LedgerDiscrepancy{
			Ref: op.Ref(o.TraceID), Finding: kind, AmountCents: cents, OrderNo: op.OrderNo, Explanation: text,
		})
	}
	if o.TotalCents != nil && *o.TotalCents > 0 && *o.TotalCents <= MaxLineCents {
		switch {
		case o.Currency != op.Binding.Currency:
			doubt(FindingOrderCurrency, 0, fmt.Sprintf("the order costs %s in %q and the account is in %q: nothing was booked", fact.Decimal(*o.TotalCents), fact.Bounded(o.Currency), op.Binding.Currency))
		case op.ChargedCents == 0:
			state.ChargedCents = *o.TotalCents
		case op.ChargedCents != *o.TotalCents:
			doubt(FindingTotal, *o.TotalCents-op.ChargedCents, "the order's total is not what it was when it was booked")
		}
	}
	if !totalAgrees(o) {
		doubt(FindingDecimal, 0, fmt.Sprintf("the order's total is %q and its total_cents %d: total_cents is booked", fact.Bounded(o.Total), *o.TotalCents))
	}
	refunds(op, o, state, doubt)
	return doubts
}

// totalAgrees reports whether the total as text equals the total in cents. It returns true
// if either is missing.
func totalAgrees(o upstream.Order) bool {
	return o.TotalCents == nil || upstream.AmountAgrees(o.Total, *o.TotalCents)
}

func progressed(state fact.OrderState, next time.Time, reason string) Decision {
	return Decision{Facts: []fact.Fact{fact.OrderProgressed{OrderState: state, NextAt: next.UTC(), Reason: reason}}}
}

func deliveredFact(op Operation, o upstream.Order, state fact.OrderState, charged int64) fact.OrderDelivered {
	ids, proxies := Delivered(op.OfferCode, o, charged)
	f := fact.OrderDelivered{OrderState: state, ProxyIDs: ids, Proxies: proxies}
	counted := f
	counted.Short = &fact.Shortfall{Ordered: op.Ordered, Listed: int64(len(o.Proxies) + len(o.Unusable))}
	if expected, delivered := counted.Counts(); delivered < expected {
		return counted
	}
	return f
}

// doubtsOf returns the findings for an order that settles as delivered: an announced refund
// that did not come (pending), missing proxies, proxies that were not ordered, or proxies that
// cannot be named. Money has found a refund in another currency.
func doubtsOf(op Operation, o upstream.Order, f fact.OrderDelivered, charged, refunded int64, pending bool) (doubts []fact.LedgerDiscrepancy) {
	if pending && !foreignRefund(op, o, f.ReadAt) {
		doubts = append(doubts, withoutRefund(op, o))
	}
	if f.Short != nil && !refundsRest(f, charged, refunded) {
		doubts = append(doubts, short(op, f, charged, refunded))
	}
	if listed := int64(len(o.Proxies) + len(o.Unusable)); op.Ordered > 0 && max(f.ExpectedCount, listed) > op.Ordered {
		doubts = append(doubts, fact.LedgerDiscrepancy{Ref: op.Ref(f.TraceID), Finding: FindingMore, OrderNo: op.OrderNo, Explanation: fmt.Sprintf(
			"the order has more proxies than were ordered: ordered %d, expected %d, delivered %d, listed %d; charged %s, refunded %s",
			op.Ordered, f.ExpectedCount, f.DeliveredCount, listed, op.Binding.Amount(charged), op.Binding.Amount(refunded))})
	}
	left := 0 // an entry without a readable id is reported by the listing
	for _, p := range o.Proxies {
		if len(p.ProxyID) > command.MaxIDBytes {
			left++
		}
	}
	if left > 0 {
		doubts = append(doubts, fact.LedgerDiscrepancy{Ref: op.Ref(f.TraceID), Finding: FindingShort, OrderNo: op.OrderNo, Explanation: fmt.Sprintf(
			"%d of the order's proxies are in no event and no line, because their ids have more than %d bytes: `perennial orders get` shows them, and no command can renew them", left, command.MaxIDBytes)})
	}
	return doubts
}

func short(op Operation, f fact.OrderDelivered, charged, refunded int64) fact.LedgerDiscrepancy {
	return fact.LedgerDiscrepancy{Ref: op.Ref(f.TraceID), Finding: FindingShort, OrderNo: op.OrderNo, Explanation: fmt.Sprintf(
		"the order is complete and short: ordered %d, expected %d, delivered %d, listed %d; charged %s, refunded %s",
		op.Ordered, f.ExpectedCount, f.DeliveredCount, f.Short.Listed, op.Binding.Amount(charged), op.Binding.Amount(refunded))}
}

// Delivered returns the ids of an order's proxies, and the proxies as the provider showed them.
// If the order has a single offer, each proxy gets its share of the charge. A proxy that cannot
// be read has only its id (trap 65). Ids that are not usable in commands are left out.
func Delivered(offer string, o upstream.Order, charged int64) (ids []string, proxies []fact.DeliveredProxy) {
	share := func(at int) *int64 {
		if offer == "" || charged == 0 { // several offers, or the price is unknown
			return nil
		}
		return new(fact.Share(charged, at, len(o.Proxies)+len(o.Unusable)))
	}
	ids = make([]string, 0, len(o.Proxies)+len(o.Unusable))
	proxies = make([]fact.DeliveredProxy, 0, cap(ids))
	for i, p := range o.Proxies {
		if !nameable(p.ProxyID) {
			continue
		}
		ids = append(ids, p.ProxyID)
		proxies = append(proxies, fact.DeliveredProxy{
			ProxyID: p.ProxyID, OfferCode: offer, CountryCode: p.CountryCode, Region: p.Region, LineName: p.LineName,
			IPType: p.IPType, Protocol: p.Protocol, ExpiresAt: fact.Expiry(p.ExpiresAt), ChargedCents: share(i),
		})
	}
	for i, u := range o.Unusable {
		if nameable(u.ID) {
			ids = append(ids, u.ID)
			proxies = append(proxies, fact.DeliveredProxy{ProxyID: u.ID, OfferCode: offer, ChargedCents: share(len(o.Proxies) + i)})
		}
	}
	return ids, fitting(proxies)
}

func nameable(id string) bool { return id != "" && len(id) <= command.MaxIDBytes }

// deliveredMost limits the size of a delivery's proxies and ids, in bytes of JSON. The provider
// controls the length of these texts, and the event must fit in one NATS message.
const deliveredMost = 850 << 10

// fitting returns nil if the texts of the proxies are too long. The fact has only the ids in that
// case.
func fitting(proxies []fact.DeliveredProxy) []fact.DeliveredProxy {
	size := 0
	for _, p := range proxies {
		text, err := command.PlainJSON(p)
		if size += len(text) + len(p.ProxyID) + len(`,"",`); err != nil || size > deliveredMost {
			return nil
		}
	}
	return proxies
}

func whyStuck(op Operation, o upstream.Order, unbooked bool) string {
	switch {
	case op.RefundedCents > 0:
		return fmt.Sprintf("a refund of %s is booked, and the order does not show it any more", op.Binding.Amount(op.RefundedCents))
	case o.InProgress():
		return "the order made no progress in 24 hours of reading it"
	case unbooked:
		return fmt.Sprintf("the order (status %q) %s", fact.Bounded(o.Status), whyUnbooked(op, o))
	case !o.Delivery.Present:
		return fmt.Sprintf("the order (status %q) does not say what is delivered", fact.Bounded(o.Status))
	case o.PollAfterSeconds != nil:
		return fmt.Sprintf("the order is not delivered and not refunded, and the API document does not name its status, %q", fact.Bounded(o.Status))
	default:
		return fmt.Sprintf("the order (status %q) is not delivered, not refunded, and is not to be polled any more", fact.Bounded(o.Status))
	}
}

func whyUnbooked(op Operation, o upstream.Order) string {
	switch {
	case o.TotalCents == nil:
		return "gives no total to book"
	case *o.TotalCents == 0:
		return "gives a total of " + op.Binding.Amount(0) + ": it may have been free, or its total may not be known yet"
	case *o.TotalCents < 0 || *o.TotalCents > MaxLineCents:
		return fmt.Sprintf("gives a total of %d hundredths, which is no amount that can be booked", *o.TotalCents)
	case o.Currency == "":
		return "gives no currency, so its total is not booked"
	default:
		return fmt.Sprintf("is in %q and the account in %q, so its total is not booked", fact.Bounded(o.Currency), op.Binding.Currency)
	}
}

// reviewWithMoney books the money that the read showed, and puts the order in review. The
// fact has the proxies from the read, because they belong to the order whatever the
// operator answers.
func reviewWithMoney(op Operation, o upstream.Order, state fact.OrderState, reason string) Decision {
	d := orderReview(op, o, reason)
	f, _ := d.Facts[0].(fact.OperationReview)
	f.ProxyIDs, f.Proxies = Delivered(op.OfferCode, o, op.ChargedCents+state.ChargedCents-op.RefundedCents-state.RefundedCents)
	d.Facts[0] = f
	if state.ChargedCents > 0 || state.RefundedCents > 0 {
		booked := progressed(state, op.UpdatedAt, reason)
		d.Facts = append(booked.Facts, d.Facts...)
	}
	return d
}

func orderReview(op Operation, o upstream.Order, reason string) Decision {
	return review(op, notExecuted, Verdict{TraceID: o.TraceID, Reason: reason})
}

// decideReadFailed schedules another read of the order. An accepted order that the provider
// still does not show after ShownWithin needs review. So does an order that has been
// unreadable for too long.
func decideReadFailed(op Operation, h OrderReadFailed) Decision {
	v := Verdict{code: h.Code, TraceID: h.TraceID, Reason: fact.Bounded(h.Reason)}
	if h.Unaskable {
		v.Reason = fmt.Sprintf("the order was accepted as %q, which no request can ask for", fact.Bounded(op.OrderNo))
		return review(op, notExecuted, v)
	}
	if h.Code == upstream.CodeOrderNotFound {
		v.Reason = "the provider does not show an order that it accepted"
		if !young(op, h.Now) {
			return review(op, notExecuted, v)
		}
	}
	unread := h.Now
	if op.UnreadSince != nil && h.Now.Sub(op.UpdatedAt) < readsPause { // a pause in which nothing was read does not count
		unread = *op.UnreadSince
	}
	switch since := h.Now.Sub(unread); {
	case (OfOneOrder(h.Code) || h.Garbled) && since >= stalled:
		v.Reason = "the order could not be read for 24 hours: " + v.Reason
		return review(op, notExecuted, v)
	case since >= unreadLongest:
		v.Reason = "the order could not be read for 7 days: " + v.Reason
		return review(op, notExecuted, v)
	}
	wait := previousWait(op) + time.Duration(h.Jitter*float64(BackoffFirst)) // does not include a Retry-After, because the account pauses for that time
	state := fact.OrderState{
		Ref: op.Ref(h.TraceID), OrderNo: op.OrderNo, Status: "", ExpectedCount: op.ExpectedCount, DeliveredCount: op.DeliveredCount,
		ReadAt: op.ReadAt, UnreadSince: &unread,
	}
	d := progressed(state, h.Now.Add(wait), "the order could not be read: "+v.Reason)
	d.Pause = ReadPause(h, v)
	return d
}

// Two failed reads of an order count as consecutive if the second one follows within readsPause.
const readsPause = 12 * time.Hour

// ShownWithin is how long the provider's reads may omit an order that it accepted
// (docs/decisions/0012).
const ShownWithin = 10 * time.Minute

// young reports whether the order was accepted, or last progressed, less than ShownWithin ago.
// The provider's reads may not show such an order yet.
func young(op Operation, now time.Time) bool {
	return op.ProgressAt != nil && now.Sub(*op.ProgressAt) < ShownWithin
}

// OfOneOrder reports whether the code of a failed read concerns this order alone, rather
// than the account or a temporary failure. For "" (no envelope) it returns false, because an
// outage ends on its own.
func OfOneOrder(c upstream.Code) bool {
	switch c {
	case "", upstream.CodeRateLimited, upstream.CodeInvalidSignature, upstream.CodeStaleTimestamp, upstream.CodeReplayedNonce,
		upstream.CodeAPIKeyRevoked, upstream.CodeInsufficientScope:
		return false
	}
	return true
}

// previousWait returns the wait before the next attempt: twice the last wait, between one second
// and five minutes.
func previousWait(op Operation) time.Duration {
	if op.NextAt == nil || op.Reason == "" {
		return BackoffFirst
	}
	return min(backoffMost, max(BackoffFirst, 2*op.NextAt.Sub(op.UpdatedAt)))
}

// stalled is how long an order may make no progress, or remain unreadable, before it needs
// review.
const stalled = 24 * time.Hour

// unreadLongest is how long an operation may wait for an outage to end while its order or
// proxies cannot be read.
const unreadLongest = 7 * 24 * time.Hour

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
	case foreignRefund(op, o, state.ReadAt):
		return reviewWithMoney(op, o, state, "a refund came whose currency is not the account's; "+rest)
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

// Reports whether the refund object has an amount and a time that has passed. The time is
// compared with the provider's clock or with the time of the read, whichever is later.
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

// RefundOf returns the amount of the order's refund object in cents. It returns 0 if nothing was
// refunded.
func RefundOf(o upstream.Order) int64 {
	if !returned(o, nil) {
		return 0
	}
	return *o.Refund.AmountCents
}

func refunds(op Operation, o upstream.Order, state *fact.OrderState, doubt func(kind string, cents int64, text string)) {
	if !returned(o, state.ReadAt) {
		return
	}
	r := o.Refund
	delta, room := *r.AmountCents-op.RefundedCents, op.ChargedCents+state.ChargedCents-op.RefundedCents
	switch {
	case foreignRefund(op, o, state.ReadAt):
		doubt(FindingRefundCurrency, 0, fmt.Sprintf("the refund is %s in %q and the account is in %q: nothing was booked", fact.Decimal(*r.AmountCents), fact.Bounded(r.Currency), op.Binding.Currency))
	case delta < 0 || delta > room:
		doubt(FindingRefundAmount, *r.AmountCents, "the refund is less than what was booked before, or more than the charge")
	default:
		state.RefundedCents = delta
	}
}

// foreignRefund reports whether a refund came that is not in the account's currency, or gives no
// currency. It is not booked, and waiting does not change that.
func foreignRefund(op Operation, o upstream.Order, read *time.Time) bool {
	return returned(o, read) && o.Refund.Currency != op.Binding.Currency
}

// mayCome reports whether it is worth waiting for a pending refund.
func mayCome(op Operation, o upstream.Order, read *time.Time) bool {
	return !unchangedFor(op, o, settlingMost) && !foreignRefund(op, o, read)
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

// Reports whether the refund object is empty or has the amount 0.
func none(r *upstream.Refund) bool {
	if r.AmountCents != nil {
		return *r.AmountCents == 0
	}
	return r.Status == "" && r.Destination == "" && r.RefundedAt == nil
}

// Reports whether the refund covers the proxies that were not delivered. After the refund, at
// most the delivered share of the charge may be left, rounded up. The API gives no prices per
// item, so each proxy counts equally.
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

func refundsRest(f fact.OrderDelivered, charged, refunded int64) bool {
	expected, delivered := f.Counts()
	return refunded > 0 && covers(upstream.Delivery{ExpectedCount: expected, DeliveredCount: delivered}, charged, refunded)
}

func owed(op Operation, d upstream.Delivery, charged, refunded int64) string {
	return fmt.Sprintf("the order has ended: %s was charged, %s came back, %d of %d were delivered, and what became of the rest is not said",
		op.Binding.Amount(charged), op.Binding.Amount(refunded), d.DeliveredCount, d.ExpectedCount)
}

func withoutRefund(op Operation, o upstream.Order) fact.LedgerDiscrepancy {
	f := fact.LedgerDiscrepancy{Ref: op.Ref(o.TraceID), Finding: FindingRefund, OrderNo: op.OrderNo, Explanation: fmt.Sprintf(
		"the order shows a refund (status %q) that did not come in the 7 days since it last moved on: the order is settled without it", fact.Bounded(o.Refund.Status))}
	if o.Refund.AmountCents != nil {
		f.AmountCents = *o.Refund.AmountCents
	}
	return f
}
