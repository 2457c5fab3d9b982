// This file books an operator's answer to a review.

package desk

import (
	"context"
	"encoding/json"
	"errors"
	"math/bits"
	"slices"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// Resolution is an operator's answer to a review.
type Resolution struct {
	ID              string `json:"id,omitempty" doc:"The id of the operation, or of a command with one operation in review."`
	OperationID     string `json:"operation_id,omitempty" doc:"'operation_id' and 'command_id' may be used instead of 'id', to say which kind of id it is."`
	CommandID       string `json:"command_id,omitempty" doc:"The id of the command, chosen by its producer."`
	ProxyID         string `json:"line,omitempty" doc:"The proxy that the answer is for; if omitted, the whole operation."`
	Charged         *bool  `json:"charged" doc:"Whether the provider charged; required."`
	ChargedCents    int64  `json:"charged_cents" doc:"The amount charged, before refunds."`
	OrderNo         string `json:"order_no,omitempty" doc:"'order_no' is the order that the operation made, as the person found."`
	SendAgain       bool   `json:"send_again,omitempty" doc:"Send the request again under a new key, if nothing was charged."`
	ConfirmCents    *int64 `json:"confirm_cents,omitempty" doc:"'confirm_cents' repeats 'charged_cents' if the amount is unexpected."`
	AgainstEvidence bool   `json:"against_evidence,omitempty" doc:"'against_evidence' confirms that nothing was charged, although the provider shows otherwise."`
	By              string `json:"by" doc:"The name of the person, as given in the request."`
	Reason          string `json:"reason" doc:"The reason, for people; the text may change."`
}

func (x Resolution) check() error {
	if err := (signature{x.By, x.Reason}).check(); err != nil {
		return err
	}
	switch {
	case x.Charged == nil:
		return command.Refuse("a resolution says whether it was charged")
	case x.ChargedCents < 0 || x.ChargedCents > decide.MaxLineCents:
		return command.Refuse("charged_cents %d is not an amount that can be charged", x.ChargedCents)
	case !*x.Charged && x.ChargedCents != 0, *x.Charged && x.SendAgain:
		return command.Refuse("charged and not charged exclude each other, and only what was not charged is sent again")
	case x.OrderNo != "" && !*x.Charged:
		return command.Refuse("an order that has a number was charged: use --charged with --order")
	case len(x.OrderNo) > command.MaxIDBytes || fact.Unprintable(x.OrderNo) != "":
		return command.Refuse("the order number %.40q is too long or cannot be printed", x.OrderNo)
	}
	return nil
}

// Resolve books an operator's answer: charged with an amount, not charged, or not charged
// and sent again under a new generation of the key.
func (d *Desk) Resolve(ctx context.Context, x Resolution) error {
	if err := x.check(); err != nil {
		return err
	}
	o, err := d.c.Ledger.Operations.Operation(ctx, x.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		return command.RefuseUnknown("%s is not an operation: see `perennial reviews list`", x.ID)
	}
	if err != nil {
		return err
	}
	if ids, err := sweepReviews(ctx, d.c.Ledger, o, x); err != nil || len(ids) > 0 {
		if err == nil {
			err = d.answerSweeps(ctx, x, ids)
		}
		return err
	}
	if err := d.checkNeedsReview(ctx, o, x); err != nil {
		return err
	}
	if err := d.takeOrder(ctx, o, &x); err != nil {
		return err
	}
	order, err := d.named(ctx, o, x)
	if err != nil {
		return err
	}
	if err := d.confirmed(ctx, o, x, order); err != nil {
		return err
	}
	f, err := d.answerTo(ctx, o, x, order)
	if err != nil {
		return err
	}
	err = d.c.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		_, err := tx.AppendTo(o.ID, o.Version, f)
		return err
	})
	if errors.Is(err, ledger.ErrStale) {
		return d.overtaken(ctx, x)
	}
	if err != nil {
		return err
	}
	d.c.Answered()
	d.c.Start(ctx, o.CommandID)
	return nil
}

// overtaken returns a RefusedError for an answer to an operation that changed while the
// answer was checked.
func (d *Desk) overtaken(ctx context.Context, x Resolution) error {
	o, err := d.c.Ledger.Operations.Operation(ctx, x.ID)
	if err == nil {
		err = d.checkNeedsReview(ctx, o, x)
	}
	if err == nil {
		err = command.Refuse("%s has changed meanwhile, and nothing was booked: read it again with `perennial reviews show %s`", o.ID, o.ID)
	}
	return err
}

// answerTo returns the fact of an answer. order is the order in the answer, if it was read.
func (d *Desk) answerTo(ctx context.Context, o fact.Operation, x Resolution, order upstream.Order) (f fact.OperationResolved, err error) {
	accepted, err := d.c.Ledger.Operations.Acceptance(ctx, o.CommandID)
	if err != nil {
		return f, err
	}
	f = fact.OperationResolved{
		Ref: fact.Ref{CommandID: o.CommandID, OperationID: o.ID, Labels: accepted.Labels, TraceID: o.TraceID, Trace: accepted.Trace},
		By:  x.By, Reason: x.Reason, User: fact.UserOf(ctx), Outcome: "not_charged", ProxyID: x.ProxyID, ChargedCents: x.ChargedCents, DurationDays: accepted.DurationDays,
		OrderNo: x.OrderNo,
	}
	if *x.Charged {
		f.Outcome = "charged"
		if f.Lines, err = d.shares(ctx, o, x); err != nil {
			return f, err
		}
	}
	if f.ProxyIDs, f.Proxies, err = found(accepted.Content, order, x.ChargedCents); err != nil {
		return f, err
	}
	if x.SendAgain && !inspect.MayGoAgain(o) {
		return f, command.Refuse("%s has order %s, so it was charged, and no refund of all of it is booked: sent again it would be paid for twice. Read the order with `perennial orders get %s`; a refund is booked when the order shows it", o.ID, o.OrderNo, o.OrderNo)
	}
	if x.SendAgain {
		if err := d.c.MaySendAgain(ctx, o); err != nil {
			return f, err
		}
		next, err := inspect.NextGeneration(ctx, d.c.Ledger, d.c.Binding(), o, fact.LinePending, fact.LineUnresolved)
		if err != nil {
			return f, err
		}
		if x.ProxyID != "" { // the line gets its own operation, independent of the others
			next.Planned = inspect.PlanLine(d.c.Binding(), o, x.ProxyID)
		}
		f.SendAgain = []fact.Planned{next.Planned}
	}
	return f, nil
}

// shares divides the amount of an answer for a whole renewal among its open lines: in
// proportion to the amounts in suspense if all are known, and equally otherwise.
func (d *Desk) shares(ctx context.Context, o fact.Operation, x Resolution) (shares []fact.AnsweredLine, err error) {
	if !o.Kind.OfProxies() || x.ProxyID != "" || x.ChargedCents == 0 {
		return nil, nil
	}
	lines, err := d.c.Ledger.Operations.Lines(ctx, o.ID)
	if err != nil {
		return nil, err
	}
	lines = slices.DeleteFunc(lines, func(l tables.RenewalLine) bool { return l.State != fact.LinePending && l.State != fact.LineUnresolved })
	whole, known := inSuspense(lines, "")
	var sum, given int64
	for i, l := range lines {
		share := fact.Share(x.ChargedCents, i, len(lines))
		if known && whole > 0 {
			sum += l.ChargedCents - l.RefundedCents
			hi, lo := bits.Mul64(uint64(x.ChargedCents), uint64(sum))
			upTo, _ := bits.Div64(hi, lo, uint64(whole)) // no overflow, because sum is at most whole
			share = int64(upTo) - given
		}
		given += share
		shares = append(shares, fact.AnsweredLine{ProxyID: l.ProxyID, ChargedCents: share})
	}
	return shares, nil
}

// found returns the proxies of an order that an operator found, each with its share of the
// cost.
func found(content json.RawMessage, order upstream.Order, cents int64) (ids []string, proxies []fact.DeliveredProxy, err error) {
	if len(order.Proxies)+len(order.Unusable) == 0 {
		return nil, nil, nil
	}
	c, err := command.ReadContent(content)
	if err != nil {
		return nil, nil, err
	}
	ids, proxies = decide.Delivered(c.OnlyOffer(), order, cents)
	return ids, proxies, nil
}

// checkNeedsReview returns a RefusedError if the operation or line needs no review, or if
// the amount exceeds the suspense or is ambiguous.
func (d *Desk) checkNeedsReview(ctx context.Context, o fact.Operation, x Resolution) error {
	lines, err := d.c.Ledger.Operations.Lines(ctx, o.ID)
	if err != nil {
		return err
	}
	if err := d.overSuspense(o, lines, x); err != nil {
		return err
	}
	if o.State == fact.StateReview && x.ProxyID == "" {
		return unambiguous(o, lines, x)
	}
	if x.ProxyID != "" && !slices.ContainsFunc(lines, func(l tables.RenewalLine) bool { return l.ProxyID == x.ProxyID }) {
		return command.RefuseUnknown("line %.80q of %s needs no review: there is none, see `perennial status %s`", x.ProxyID, o.ID, o.ID)
	}
	for _, l := range lines {
		if l.ProxyID == x.ProxyID && (l.State == fact.LineUnresolved || (l.State == fact.LinePending && o.State == fact.StateReview)) {
			return nil
		}
	}
	if x.ProxyID != "" {
		return command.Refuse("line %s of %s needs no review", x.ProxyID, o.ID)
	}
	if o.State == fact.StateResolved {
		return command.Refuse("%s was answered (%.200s): `perennial reviews correct %s` corrects what was booked", o.ID, o.Reason, o.ID)
	}
	return command.Refuse("%s is %s and needs no review", o.ID, o.State)
}

// overSuspense returns a RefusedError if the amount exceeds the amount in suspense. For a
// single line, the operator may confirm a larger amount.
func (d *Desk) overSuspense(o fact.Operation, lines []tables.RenewalLine, x Resolution) error {
	most, known := inSuspense(lines, x.ProxyID)
	switch {
	case !known || x.ChargedCents <= most, x.ProxyID != "" && x.ConfirmCents != nil:
		return nil
	case x.ProxyID == "":
		return command.Refuse("%s is more than the %s in suspense: what its other lines cost is booked already, so answer for what waits, best line by line", d.c.Binding().Amount(x.ChargedCents), d.c.Binding().Amount(most))
	}
	return command.RefuseUnconfirmed("%s is more than the %s in suspense for line %s of %s. If it is right, add --confirm-amount %s",
		d.c.Binding().Amount(x.ChargedCents), d.c.Binding().Amount(most), x.ProxyID, o.ID, fact.Decimal(x.ChargedCents))
}

// unambiguous refuses an amount for a whole renewal if some lines are already answered,
// because the amount may or may not include them.
func unambiguous(o fact.Operation, lines []tables.RenewalLine, x Resolution) error {
	if _, known := inSuspense(lines, ""); known || x.ChargedCents == 0 {
		return nil
	}
	for _, l := range lines {
		if l.State != fact.LinePending && l.State != fact.LineUnresolved && l.ChargedCents > 0 {
			return command.Refuse("line %s of %s is answered and booked already, so an amount for all of it would be booked on top: answer for the others line by line", l.ProxyID, o.ID)
		}
	}
	return nil
}

// inSuspense returns the net amount charged for one unresolved line, or for all if proxyID
// is "". known is false if an amount is missing or no line is unresolved.
func inSuspense(lines []tables.RenewalLine, proxyID string) (cents int64, known bool) {
	for _, l := range lines {
		if l.State != fact.LineUnresolved || (proxyID != "" && l.ProxyID != proxyID) {
			continue
		}
		if l.ChargedCents == 0 {
			return 0, false
		}
		cents, known = cents+l.ChargedCents-l.RefundedCents, true
	}
	return cents, known
}

// answerSweeps retires the proxies, or returns them to their schedules if x.SendAgain is
// set. All their renewals have ended and are booked, so the answer has no amount.
func (d *Desk) answerSweeps(ctx context.Context, x Resolution, ids []string) error {
	if *x.Charged {
		return command.Refuse("every renewal of %s has ended and is booked: use --not-charged to let it expire, or --not-charged --send-again to let the next run try again", ids[0])
	}
	return d.c.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		waiting, err := tx.SweepReviews(x.ID)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !slices.Contains(waiting, id) {
				return command.Refuse("line %s of %s needs no review", id, x.ID)
			}
			var f fact.Fact = fact.ProxyRetired{ProxyID: id, By: x.By, Reason: x.Reason, User: fact.UserOf(ctx)}
			if x.SendAgain {
				f = fact.ProxyReinstated{ProxyID: id, By: x.By, Reason: x.Reason, User: fact.UserOf(ctx)}
			}
			if err := tx.Append(f); err != nil {
				return err
			}
		}
		return nil
	})
}
