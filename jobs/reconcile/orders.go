// The comparison of booked orders with fresh reads of their details.

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// changedLimit is how many settled operations are read at once, and changedMost
// how many one pass takes up; the rest is taken up by the next.
const (
	changedLimit = 2000
	changedMost  = 50_000
)

// changed takes up what was settled since the last pass: orders to be compared
// at once, renewals whose expiries are to be seen.
func (p *Pass) changed(ctx context.Context) error {
	for taken := 0; taken < changedMost; taken += changedLimit {
		facts, err := p.Ledger.ChangedSince(ctx, p.ChangedSeq, changedLimit)
		if err == nil {
			err = p.take(ctx, facts)
		}
		if err != nil || len(facts) < changedLimit {
			return err
		}
	}
	return nil
}

func (p *Pass) take(ctx context.Context, facts []ledger.Changed) error {
	for _, f := range facts {
		o, err := p.Ledger.Operation(ctx, f.Operation)
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

// someOrders compares the orders that changed, differed or are in review, and
// then as many older ones as the pass has requests left, in turn.
func (p *Pass) someOrders(ctx context.Context) error {
	reviews, err := p.Ledger.OperationsIn(ctx, fact.StateReview, changedLimit)
	if err != nil {
		return err
	}
	for _, o := range reviews {
		if o.OrderNo != "" {
			p.Sticky[o.OrderNo] = true
		}
	}
	p.grant()
	seen, reserved := map[string]bool{}, p.Left/2 // for the turn through all
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
	turn, err := p.Ledger.OrdersAfter(ctx, p.orderCursor, limit)
	if err != nil {
		return err
	}
	for _, o := range turn {
		if p.Left <= 0 {
			return nil // the turn goes on with the next pass
		}
		if !seen[o.OrderNo] {
			if err := p.order(ctx, o); err != nil {
				return p.orderError(err)
			}
		}
		p.orderCursor = o.OrderNo
	}
	if len(turn) < limit {
		p.orderCursor = "" // from the beginning
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
	o, err := p.Ledger.OrderOperation(ctx, orderNo)
	if errors.Is(err, ledger.ErrNotFound) {
		delete(p.Sticky, orderNo)
		return nil
	}
	if err != nil {
		return err
	}
	return p.order(ctx, o)
}

// order compares one order's money with a fresh read of its detail. An order
// that is still polled is left to its polls, which compare in the same way: it
// must not be read earlier than the provider said (customer-api.md, Order
// status, rule 1).
func (p *Pass) order(ctx context.Context, o fact.Operation) error {
	if o.State == fact.StateOpen {
		return nil
	}
	if !p.May() {
		p.still(o.OrderNo, "order "+o.OrderNo)
		return nil
	}
	detail, err := Fetch(ctx, p.Reconciler, func(ctx context.Context) (upstream.Order, error) { return p.Statements.Order(ctx, o.OrderNo) })
	var found []Finding
	switch {
	case errors.Is(err, upstream.CodeOrderNotFound):
		found = []Finding{{Kind: decide.FindingMissing, AmountCents: o.RefundedCents - o.ChargedCents,
			Explanation: "the provider does not know the order; booked for it: " + p.Binding.Amount(o.ChargedCents-o.RefundedCents)}}
	case aboutOne(err):
		p.notef("order %s could not be read: %v", o.OrderNo, err)
		p.still(o.OrderNo, "order "+o.OrderNo)
		return nil
	case err != nil:
		return fmt.Errorf("read order %s: %w", o.OrderNo, err)
	default:
		found = p.compare(o, detail)
	}
	if found, err = p.unexplained(ctx, o.OrderNo, found); err != nil {
		return err
	}
	now, err := p.Ledger.Operation(ctx, o.ID)
	if err != nil || now.Version != o.Version {
		return err // it changed meanwhile: the next pass compares it
	}
	p.Orders++
	delete(p.Sticky, o.OrderNo)
	delete(p.Known, o.OrderNo)
	for _, f := range found {
		f.OrderNo, f.OperationID = o.OrderNo, o.ID
		p.Sticky[o.OrderNo], p.Known[o.OrderNo] = true, append(p.Known[o.OrderNo], f)
		p.find(f)
	}
	return nil
}

// unexplained leaves out what a person has recorded for the order to the cent:
// a refund that came after it was settled, or another cost.
func (p *Pass) unexplained(ctx context.Context, orderNo string, found []Finding) ([]Finding, error) {
	if len(found) == 0 {
		return nil, nil
	}
	recorded, err := p.Ledger.RecordedFor(ctx)
	return slices.DeleteFunc(found, func(f Finding) bool {
		spent := f.AmountCents
		if f.Kind == decide.FindingRefund {
			spent = -spent
		}
		return spent == recorded[orderNo] && (f.Kind == decide.FindingRefund || f.Kind == decide.FindingCharge || f.Kind == decide.FindingTotal || f.Kind == decide.FindingMissing)
	}), err
}

// compare says where an order's detail and its booked money differ. What the
// detail would book, were it read by a poll, is what the books do not have.
func (p *Pass) compare(o fact.Operation, detail upstream.Order) []Finding {
	var unbooked fact.OrderState
	var found []Finding
	for _, f := range decide.Money(decide.Operation{Operation: o, Binding: p.Binding}, detail, &unbooked) {
		found = append(found, Finding{Kind: f.Finding, AmountCents: f.AmountCents, Explanation: f.Explanation})
	}
	if unbooked.ChargedCents > 0 {
		found = append(found, Finding{Kind: decide.FindingCharge, AmountCents: unbooked.ChargedCents,
			Explanation: fmt.Sprintf("the order cost %s and nothing is booked: the operation is %s", p.Binding.Amount(unbooked.ChargedCents), o.State)})
	}
	if detail.TotalCents != nil && *detail.TotalCents == 0 && o.ChargedCents > 0 {
		found = append(found, Finding{Kind: decide.FindingTotal, AmountCents: -o.ChargedCents,
			Explanation: "the order's total is 0, booked for it: " + p.Binding.Amount(o.ChargedCents)})
	}
	if unbooked.RefundedCents > 0 {
		found = append(found, Finding{Kind: decide.FindingRefund, AmountCents: unbooked.RefundedCents,
			Explanation: fmt.Sprintf("the provider refunded %s more than is booked", p.Binding.Amount(unbooked.RefundedCents))})
	}
	if refunded := decide.RefundOf(detail); refunded == 0 && o.RefundedCents > 0 {
		found = append(found, Finding{Kind: decide.FindingRefund, AmountCents: -o.RefundedCents,
			Explanation: p.Binding.Amount(o.RefundedCents) + " is booked as refunded and the order shows no refund"})
	}
	return found
}
