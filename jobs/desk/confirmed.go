// This file requires confirmation of answers about money. An amount that looks like a
// mistake, or an answer that contradicts the provider, must be confirmed in the request.

package desk

import (
	"cmp"
	"context"
	"strings"

	"perennial/jobs/command"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// confirmed returns a RefusedError if the answer looks like a mistake and is not confirmed.
func (d *Desk) confirmed(ctx context.Context, o fact.Operation, x Resolution, order upstream.Order) error {
	if *x.Charged {
		return d.amountConfirmed(ctx, o, x, order)
	}
	if x.AgainstEvidence {
		return nil
	}
	e, err := d.c.Evidence(ctx, o.ID)
	if err != nil {
		return err
	}
	if shown := e.Charged(x.ProxyID); len(shown) > 0 {
		return command.RefuseUnconfirmed("the evidence says that %s was charged: %s. If the provider says that it was not, add --against-evidence", o.ID, strings.Join(shown, "; "))
	}
	if unread := e.Unread(x.ProxyID); x.SendAgain && unread != "" {
		return command.RefuseUnconfirmed("%s, so %s may have been charged, and sending it again could pay twice. Try again later. If the provider says that it was not charged, add --against-evidence", unread, o.ID)
	}
	return nil
}

// amountConfirmed returns a RefusedError if the amount looks like a mistake and the request
// does not repeat it. An amount looks like a mistake if it is more than twice or less than
// half the expected cost, if the expected cost is unknown, or if it exceeds the wallet.
func (d *Desk) amountConfirmed(ctx context.Context, o fact.Operation, x Resolution, order upstream.Order) error {
	amount := d.c.Binding().Amount(x.ChargedCents)
	switch {
	case x.ConfirmCents != nil && *x.ConfirmCents != x.ChargedCents:
		return command.Refuse("--confirm-amount is %s and --charged %s: repeat the amount", d.c.Binding().Amount(*x.ConfirmCents), amount)
	case x.ConfirmCents != nil:
		return nil
	}
	expected, least, booked, err := d.expected(ctx, o, x, order)
	if err != nil {
		return err
	}
	balance, err := d.c.Ledger.Money.Balance(ctx, "")
	if err != nil {
		return err
	}
	var why string
	switch {
	case x.ChargedCents == 0 && least == 0:
		return nil
	case expected == 0:
		why = "nothing is known of what it cost"
	case x.ChargedCents > 2*expected:
		why = d.c.Binding().Amount(expected) + " is expected"
	case 2*x.ChargedCents < least:
		why = d.c.Binding().Amount(least) + " is expected"
	case x.ChargedCents-booked > balance.WalletCents:
		why = "the wallet has " + d.c.Binding().Amount(balance.WalletCents)
	default:
		return nil
	}
	return command.RefuseUnconfirmed("%s would be booked as charged for %s, and %s. An amount without a point is in cents. If it is right, add --confirm-amount %s", amount, o.ID, why, fact.Decimal(x.ChargedCents))
}

// takeOrder sets the order number of an answer that has none, if the evidence shows a single
// possible order and that order cost the same amount. If the single order's cost differs, or
// not all orders were read, the answer must be confirmed.
func (d *Desk) takeOrder(ctx context.Context, o fact.Operation, x *Resolution) error {
	if !*x.Charged || x.OrderNo != "" || o.OrderNo != "" || !o.Kind.MakesOrder() || d.c.Readable() != nil {
		return nil //nolint:nilerr // a paused account has no evidence from the provider, and the answer is accepted without it
	}
	e, err := d.c.Evidence(ctx, o.ID)
	if err != nil {
		return err
	}
	x.OrderNo = onlyOrder(e, x.ChargedCents)
	if !e.OrdersRead && x.ConfirmCents == nil {
		return command.RefuseUnconfirmed("the provider's orders could not all be read, so the order of %s is not known. Try again later, name it with --order, or add --confirm-amount %s", o.ID, fact.Decimal(x.ChargedCents))
	}
	if x.OrderNo == "" && len(e.Orders) == 1 && x.ConfirmCents == nil {
		one := e.Orders[0]
		return command.RefuseUnconfirmed("the evidence names order %s, which cost %s, and %s would be booked as charged for %s without an order. If it is that order, add --order %s and its amount; if not, add --confirm-amount %s",
			one.OrderNo, fact.Sum{}.Add(one.NetCents).Text(d.c.Binding().Currency), d.c.Binding().Amount(x.ChargedCents), o.ID, one.OrderNo, fact.Decimal(x.ChargedCents))
	}
	return nil
}

// onlyOrder returns the number of the only order in the evidence if its net cost is cents.
// It returns "" otherwise, or if not all orders were read.
func onlyOrder(e inspect.Evidence, cents int64) string {
	if !e.OrdersRead || len(e.Orders) != 1 || e.Orders[0].NetCents != fact.Known(cents) {
		return ""
	}
	return e.Orders[0].OrderNo
}

// expected returns the expected cost of an operation, or of the proxy in the answer, or 0
// if it is unknown. least is the expected cost of the lines without a result. booked is the
// amount that the ledger has already booked to suspense.
func (d *Desk) expected(ctx context.Context, o fact.Operation, x Resolution, order upstream.Order) (expected, least, booked int64, err error) {
	if x.OrderNo != "" && order.TotalCents != nil {
		return *order.TotalCents, *order.TotalCents, 0, nil
	}
	lines, err := d.c.Ledger.Operations.Lines(ctx, o.ID)
	if err != nil {
		return 0, 0, 0, err
	}
	var open int64
	for _, l := range lines {
		if x.ProxyID != "" && l.ProxyID != x.ProxyID {
			continue
		}
		if l.State == fact.LineUnresolved {
			booked += l.ChargedCents - l.RefundedCents
		}
		if l.State == fact.LineUnresolved || l.State == fact.LinePending {
			open++
		}
	}
	expected = max(booked, o.EstimateCents, o.ChargedCents-o.RefundedCents)
	if x.ProxyID != "" && len(lines) > 0 {
		expected = max(booked, o.EstimateCents/int64(len(lines)))
	}
	if least = o.EstimateCents; len(lines) > 0 {
		least = o.EstimateCents * open / int64(len(lines))
	}
	return expected, cmp.Or(booked, least), booked, nil
}
