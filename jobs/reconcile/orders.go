package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// changedLimit is the number of settled operations in one read. changedMost limits the settled
// operations in one pass. The next pass continues with the rest.
const (
	changedLimit = 2000
	changedMost  = 50_000
)

// Processes the operations that settled since the last pass. It marks their orders for
// comparison, checks the sums of renewals, and marks their expiries for a later check.
func (p *Pass) changed(ctx context.Context) error {
	for taken := 0; taken < changedMost; taken += changedLimit {
		facts, err := p.Ledger.Money.ChangedSince(ctx, p.ChangedSeq, changedLimit)
		if err == nil {
			err = p.take(ctx, facts)
		}
		if err != nil || len(facts) < changedLimit {
			return err
		}
	}
	return nil
}

func (p *Pass) take(ctx context.Context, facts []tables.Changed) error {
	for _, f := range facts {
		o, err := p.Ledger.Operations.Operation(ctx, f.Operation)
		if err != nil {
			return fmt.Errorf("operation %s: %w", f.Operation, err)
		}
		if o.OrderNo != "" {
			p.Sticky[o.OrderNo] = true
		}
		if o.Kind.OfProxies() {
			p.settledAt[o.ID] = f.At
			if err := p.renewal(ctx, o.ID); err != nil {
				return err
			}
		}
		p.ChangedSeq = f.Seq
	}
	return nil
}

// someOrders compares the orders that changed, differed or need review. With the pass's remaining
// requests, it compares older orders, one after the other.
func (p *Pass) someOrders(ctx context.Context) error {
	reviews, err := p.Ledger.Operations.OperationsIn(ctx, fact.StateReview, changedLimit)
	if err != nil {
		return err
	}
	for _, o := range reviews {
		if o.OrderNo != "" {
			p.Sticky[o.OrderNo] = true
		}
	}
	p.grant()
	seen, reserved := map[string]bool{}, p.Left/2 // reserves requests for the turn through all orders
	for _, no := range inTurn(p.Sticky, p.stickyTurn) {
		seen[no] = true
		if p.Left <= reserved {
			p.still(no, "order "+no)
			continue
		}
		if err := p.orderNamed(ctx, no); err != nil {
			return p.orderError(err)
		}
		p.stickyTurn = no
	}
	limit := p.Left/2 + 1
	turn, err := p.Ledger.Money.OrdersAfter(ctx, p.orderCursor, limit)
	if err != nil {
		return err
	}
	for _, o := range turn {
		if p.Left <= 0 {
			return nil // the next pass continues the turn
		}
		if !seen[o.OrderNo] {
			if err := p.order(ctx, o); err != nil {
				return p.orderError(err)
			}
		}
		p.orderCursor = o.OrderNo
	}
	if len(turn) < limit {
		p.orderCursor = "" // the next pass starts from the beginning
	}
	return nil
}

func (p *Pass) orderError(err error) error {
	if p.unreadable(err, "orders") {
		return nil
	}
	return err
}

func (p *Pass) orderNamed(ctx context.Context, orderNo string) error {
	o, err := p.Ledger.Money.OrderOperation(ctx, orderNo)
	if errors.Is(err, ledger.ErrNotFound) {
		delete(p.Sticky, orderNo)
		return nil
	}
	if err != nil {
		return err
	}
	return p.order(ctx, o)
}

// Compares the money booked for an order with a fresh read of its details. It skips an open
// order: its polls make the same comparison, and it must not be read earlier than the provider
// allows (customer-api.md, Order status, rule 1).
func (p *Pass) order(ctx context.Context, o fact.Operation) error {
	if o.State == fact.StateOpen {
		return nil
	}
	if !p.May() {
		p.still(o.OrderNo, "order "+o.OrderNo)
		return nil
	}
	detail, err := Fetch(ctx, p.Reconciler, func(ctx context.Context) (upstream.Order, error) { return p.Statements.Order(ctx, o.OrderNo) })
	missing := errors.Is(err, upstream.CodeOrderNotFound)
	switch {
	case missing && p.Clock().Sub(o.UpdatedAt) < MovesWithin:
		p.still(o.OrderNo, "order "+o.OrderNo+", which settled a moment ago and is not shown,")
		return nil
	case missing:
	case aboutOne(err):
		p.notef("order %s could not be read: %v", o.OrderNo, err)
		p.still(o.OrderNo, "order "+o.OrderNo)
		return nil
	case err != nil:
		return fmt.Errorf("read order %s: %w", o.OrderNo, err)
	}
	recorded, err := p.Ledger.Money.RecordedFor(ctx)
	if err != nil {
		return err
	}
	var found []Finding
	if missing {
		found = p.missing(o, recorded[o.OrderNo])
	} else {
		found = p.compare(o, detail, recorded[o.OrderNo])
	}
	now, err := p.Ledger.Operations.Operation(ctx, o.ID)
	if err != nil || now.Version != o.Version {
		return err // the operation changed during the read, so the next pass compares it
	}
	p.Orders++
	delete(p.Sticky, o.OrderNo)
	delete(p.Known, o.OrderNo)
	if err := p.nameProxies(ctx, o, detail); err != nil {
		return err
	}
	for _, f := range found {
		f.OrderNo, f.OperationID = o.OrderNo, o.ID
		p.Sticky[o.OrderNo], p.Known[o.OrderNo] = true, append(p.Known[o.OrderNo], f)
		p.find(f)
	}
	return nil
}

// nameProxies adds a fact to Listed if the order's details show proxies that no fact has
// yet. The order is read again in the next pass, in case this pass fails before the fact is
// written.
func (p *Pass) nameProxies(ctx context.Context, o fact.Operation, detail upstream.Order) error {
	if detail.OrderNo != o.OrderNo { // the details are of another order, so its proxies are not used
		return nil
	}
	ids, _ := decide.Delivered("", detail, 0)
	by, err := p.Ledger.Operations.Deliverers(ctx, ids)
	if err != nil || !slices.ContainsFunc(ids, func(id string) bool { return by[id] == "" }) {
		return err
	}
	others := func(id string) bool { return by[id] != "" && by[id] != o.ID }
	accepted, err := p.Ledger.Operations.Acceptance(ctx, o.CommandID)
	if _, archived := errors.AsType[*ledger.ArchivedError](err); archived || errors.Is(err, ledger.ErrNotFound) {
		return nil // the labels are no longer known
	}
	if err != nil {
		return err
	}
	c, err := command.ReadContent(accepted.Content)
	if err != nil {
		return err
	}
	f := fact.OrderListed{Ref: fact.Ref{CommandID: o.CommandID, OperationID: o.ID, Labels: accepted.Labels, TraceID: detail.TraceID, Trace: accepted.Trace}, OrderNo: o.OrderNo}
	f.ProxyIDs, f.Proxies = decide.Delivered(c.OnlyOffer(), detail, o.ChargedCents-o.RefundedCents)
	f.ProxyIDs = slices.DeleteFunc(f.ProxyIDs, others)
	f.Proxies = slices.DeleteFunc(f.Proxies, func(x fact.DeliveredProxy) bool { return others(x.ProxyID) })
	p.Listed = append(p.Listed, f)
	p.Sticky[o.OrderNo] = true
	return nil
}

// Returns the finding that the provider does not have the order. It returns nil if the net amount
// that is booked and recorded for the order is 0.
func (p *Pass) missing(o fact.Operation, recorded int64) []Finding {
	net := o.ChargedCents - o.RefundedCents + recorded
	if net == 0 {
		return nil
	}
	return []Finding{{Kind: decide.FindingMissing, AmountCents: -net, Explanation: "the provider does not know the order; booked for it: " + p.Binding.Amount(net)}}
}

// Returns the differences between an order's details and the books. At most one finding is about
// money. Its amount is the provider's net charge minus the booked and recorded amounts. The sign
// is reversed if the finding is about a refund.
func (p *Pass) compare(o fact.Operation, detail upstream.Order, recorded int64) []Finding {
	money, others, foreign := p.doubts(o, detail, recorded)
	total, refunded := o.ChargedCents, decide.RefundOf(detail)
	if detail.TotalCents != nil {
		total = *detail.TotalCents
	}
	if total == 0 && o.ChargedCents > 0 {
		money = append(money, Finding{Kind: decide.FindingTotal, Explanation: "the order's total is 0, booked for it: " + p.Binding.Amount(o.ChargedCents)})
	}
	if refunded == 0 && o.RefundedCents > 0 {
		money = append(money, Finding{Kind: decide.FindingRefund, Explanation: p.Binding.Amount(o.RefundedCents) + " is booked as refunded and the order shows no refund"})
	}
	booked := o.ChargedCents - o.RefundedCents + recorded
	rest := total - refunded - booked
	if foreign || rest == 0 {
		return others
	}
	f := Finding{Kind: decide.FindingTotal, Explanation: fmt.Sprintf("the order cost %s net, and %s is booked and recorded for it", p.Binding.Amount(total-refunded), p.Binding.Amount(booked))}
	if len(money) > 0 {
		f = money[0]
	}
	if f.AmountCents = rest; f.Kind == decide.FindingRefund || f.Kind == decide.FindingRefundAmount {
		f.AmountCents = -rest
	}
	if f.Kind == decide.FindingRefund && f.AmountCents > 0 {
		f.Explanation += fmt.Sprintf("; `perennial ledger record --kind refund --order %s --cents %d --reason TEXT` books it", fact.Bounded(o.OrderNo), f.AmountCents)
	}
	if recorded != 0 {
		f.Explanation += fmt.Sprintf("; %s is recorded for it", p.Binding.Amount(recorded))
	}
	if o.State == fact.StateResolved {
		f.Explanation += fmt.Sprintf("; an operator answered for it: `perennial reviews correct %s` corrects a wrong answer, or a wrong correction", o.ID)
	}
	return []Finding{f}
}

// Returns what a poll would book or report if it read these details. money has the findings about
// money, without amounts; others has the other findings. foreign says that an amount is in
// another currency, so that amounts cannot be compared.
func (p *Pass) doubts(o fact.Operation, detail upstream.Order, recorded int64) (money, others []Finding, foreign bool) {
	var unbooked fact.OrderState
	for _, f := range decide.Money(decide.Operation{Operation: o, Binding: p.Binding}, detail, &unbooked) {
		switch f.Finding {
		case decide.FindingDecimal:
			p.notef("order %s: %s", o.OrderNo, f.Explanation) // the poll that booked it has published the finding
		case decide.FindingOrderCurrency, decide.FindingRefundCurrency:
			foreign = true
			if recorded == 0 && o.State != fact.StateResolved { // otherwise an operator stated the cost
				others = append(others, Finding{Kind: f.Finding, AmountCents: f.AmountCents, Explanation: f.Explanation})
			}
		default:
			money = append(money, Finding{Kind: f.Finding, Explanation: f.Explanation})
		}
	}
	if unbooked.ChargedCents > 0 {
		money = append(money, Finding{Kind: decide.FindingCharge, Explanation: fmt.Sprintf("the order cost %s and nothing is booked: the operation is %s", p.Binding.Amount(unbooked.ChargedCents), o.State)})
	}
	if unbooked.RefundedCents > 0 {
		money = append(money, Finding{Kind: decide.FindingRefund, Explanation: fmt.Sprintf("the provider refunded %s more than is booked", p.Binding.Amount(unbooked.RefundedCents))})
	}
	return money, others, foreign
}
