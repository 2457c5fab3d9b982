package desk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/bits"
	"slices"
	"strings"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/jobs/inspect"
	"perennial/jobs/reconcile"
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
	if err := d.answer(ctx, o, x); err != nil {
		if now, failed := d.c.Ledger.Operations.Operation(ctx, o.ID); failed == nil && now.Version != o.Version {
			return d.overtaken(ctx, x) // err may be a consequence of the other change
		}
		return err
	}
	d.c.Answered()
	d.c.Start(ctx, o.CommandID)
	return nil
}

func (d *Desk) answer(ctx context.Context, o fact.Operation, x Resolution) error {
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
	return d.book(ctx, o, x, f)
}

// book records an answer. The expiries of its proxies may have moved since they were read, so
// they are read again before the proxies are paid for.
func (d *Desk) book(ctx context.Context, o fact.Operation, x Resolution, f fact.OperationResolved) error {
	lines, err := d.c.Ledger.Operations.Lines(ctx, o.ID)
	if err != nil {
		return err
	}
	return d.c.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		_, err := tx.AppendTo(o.ID, o.Version, f)
		for _, l := range lines {
			if err == nil && (x.ProxyID == "" || l.ProxyID == x.ProxyID) {
				err = tx.Stale(l.ProxyID)
			}
		}
		return err
	})
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

// answerTo returns the fact of an answer. order has the details of the order that belongs to the
// answer, if they were read.
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
	}
	if f.Lines, err = d.shares(ctx, o, x); err != nil {
		return f, err
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
		f.SendAgain, f.Presumed = []fact.Planned{next.Planned}, d.c.Presumed(d.c.Now())
	}
	return f, nil
}

// Divides one amount for a whole renewal among its open lines, in proportion to the lines'
// amounts in suspense. If one of these amounts is unknown, it divides in proportion to the prices
// last paid. If a price is unknown too, it divides equally. Each line also gets its part of an amount
// of 0 if amounts are in suspense, because each line's suspense is booked back.
func (d *Desk) shares(ctx context.Context, o fact.Operation, x Resolution) (shares []fact.AnsweredLine, err error) {
	if !o.Kind.OfProxies() || x.ProxyID != "" {
		return nil, nil
	}
	lines, err := d.c.Ledger.Operations.Lines(ctx, o.ID)
	if err != nil {
		return nil, err
	}
	suspended := slices.ContainsFunc(lines, func(l tables.RenewalLine) bool {
		return l.State == fact.LineUnresolved && l.ChargedCents > l.RefundedCents
	})
	if x.ChargedCents == 0 && !suspended {
		return nil, nil
	}
	lines = slices.DeleteFunc(lines, func(l tables.RenewalLine) bool { return l.State != fact.LinePending && l.State != fact.LineUnresolved })
	whole, known := inSuspense(lines, "")
	weight := func(l tables.RenewalLine) int64 { return l.ChargedCents - l.RefundedCents }
	if !known {
		costs, err := inspect.LastPrices(ctx, d.c.Ledger, lines)
		if err != nil {
			return nil, err
		}
		whole, known = costs.Sum(), len(costs) == len(lines)
		weight = func(l tables.RenewalLine) int64 { return costs[l.ProxyID] }
	}
	var sum, given int64
	for i, l := range lines {
		share := fact.Share(x.ChargedCents, i, len(lines))
		if known && whole > 0 {
			sum += weight(l)
			hi, lo := bits.Mul64(uint64(x.ChargedCents), uint64(sum))
			upTo, _ := bits.Div64(hi, lo, uint64(whole)) // no overflow, because sum is at most whole
			share = int64(upTo) - given
		}
		given += share
		shares = append(shares, fact.AnsweredLine{ProxyID: l.ProxyID, ChargedCents: share})
	}
	return shares, nil
}

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

// inSuspense returns the net amount charged for one unresolved line. If proxyID is "", it returns
// the sum over all unresolved lines. known is false if an amount is missing or no line is
// unresolved.
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

// answerSweeps retires the proxies, or returns them to their schedules if x.SendAgain is set. The
// answer has no amount, because all renewals of these proxies have ended and are booked.
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
		why = "the ledger does not know what it cost"
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

// takeOrder sets the order number of an answer that has none. The evidence must show a single
// possible order, and that order must have cost the same amount. If its cost differs, or not all
// orders were read, the answer must be confirmed.
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

// Returns the expected cost of an operation or, if the answer names a proxy, of that proxy. The
// cost is 0 if it is unknown. least is the expected cost of the lines without a result. booked is
// the amount that the ledger has already booked to suspense.
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
	if expected == 0 {
		costs, err := inspect.LastPrices(ctx, d.c.Ledger, lines)
		if expected = costs.Sum(); x.ProxyID != "" {
			expected = costs[x.ProxyID]
		}
		return expected, expected, booked, err
	}
	return expected, cmp.Or(booked, least), booked, nil
}

// The order number in an answer must fit the operation. A renewal has no order, and an operation
// that has an order cannot get another one. An order is refused if it is booked elsewhere or
// cannot be the operation's. The result is the order, if it was read.
func (d *Desk) named(ctx context.Context, o fact.Operation, x Resolution) (read upstream.Order, err error) {
	switch {
	case x.OrderNo == "" || o.OrderNo == x.OrderNo:
		return d.readOwn(ctx, o, x)
	case !o.Kind.MakesOrder():
		return read, command.Refuse("%s is a renewal and has no order", o.ID)
	case o.OrderNo != "":
		return read, command.Refuse("%s has order %s already", o.ID, o.OrderNo)
	}
	other, err := d.c.Ledger.Money.OrderOperation(ctx, x.OrderNo)
	if err == nil {
		return read, command.Refuse("order %s belongs to %s, and not to %s: see `perennial status %s`", x.OrderNo, other.ID, o.ID, other.CommandID)
	}
	if !errors.Is(err, ledger.ErrNotFound) {
		return read, err
	}
	recorded, err := d.c.Ledger.Money.RecordedFor(ctx)
	if err != nil {
		return read, err
	}
	if cents := recorded[x.OrderNo]; cents != 0 {
		return read, command.Refuse("%s is recorded on order %s as spent elsewhere, and %s would book it again: take that back first with `perennial ledger record --kind top-up --cents %d --order %s`",
			d.c.Binding().Amount(cents), x.OrderNo, o.ID, cents, x.OrderNo)
	}
	return d.shownAs(ctx, o, x.OrderNo)
}

// readOwn reads the operation's order if no fact has the order's proxies yet, so that the
// answer can record them. A failed read does not block the answer.
func (d *Desk) readOwn(ctx context.Context, o fact.Operation, x Resolution) (read upstream.Order, err error) {
	if o.OrderNo == "" || !*x.Charged || d.c.Readable() != nil {
		return read, nil
	}
	if ids, err := inspect.Delivered(ctx, d.c.Ledger, o.ID); err != nil || len(ids) > 0 {
		return read, err
	}
	reading, cancel := context.WithTimeout(ctx, orderReadTimeout)
	defer cancel()
	at := d.c.Now()
	read, err = d.c.Order(reading, o.OrderNo)
	if err != nil || read.OrderNo != "" && read.OrderNo != o.OrderNo {
		return upstream.Order{}, ctx.Err()
	}
	d.c.Delivered(ctx, o.ID, at, read)
	return read, nil
}

// orderReadTimeout limits the time to read the order in an answer, because an operator waits
// for the result.
const orderReadTimeout = 20 * time.Second

// The order that an answer names is read. An order that cannot be read, or that cannot be the
// operation's, is refused.
func (d *Desk) shownAs(ctx context.Context, o fact.Operation, no string) (read upstream.Order, err error) {
	const without = "or answer without --order: an order of the same cost is then taken for it"
	m, err := reconcile.MakerOf(ctx, d.c.Ledger, o)
	if err != nil {
		return read, err
	}
	if err := d.c.Readable(); err != nil {
		return read, command.Refuse("order %s was not compared with what %s asked for: %v. Answer again when the account is resumed, %s", no, o.ID, err, without)
	}
	ctx, cancel := context.WithTimeout(ctx, orderReadTimeout)
	defer cancel()
	at := d.c.Now()
	read, err = d.c.Order(ctx, no)
	switch {
	case errors.Is(err, upstream.CodeOrderNotFound):
		return read, command.Refuse("the provider does not show order %s to this account, so %s cannot be said to have made it: see `perennial reviews show %s`", no, o.ID, o.ID)
	case err != nil:
		return read, command.Refuse("order %s could not be compared with what %s asked for: %v. Answer again when the provider shows it, %s", no, o.ID, err, without)
	}
	if why := m.CannotHaveMade(reconcile.ForeignOf(read)); why != "" {
		return read, command.Refuse("order %s is not of %s: %s. `perennial reviews show %s` names the orders that may be", no, o.ID, why, o.ID)
	}
	d.c.Delivered(ctx, o.ID, at, read)
	return read, nil
}

// sweepReviews returns the proxies that schedules have given up and that the answer x is about.
// If x names a proxy, only that proxy is returned. Otherwise all of them are returned, unless the
// operation needs another review.
func sweepReviews(ctx context.Context, l *ledger.Ledger, o fact.Operation, x Resolution) ([]string, error) {
	ids, err := l.Operations.SweepReviews(ctx, o.ID)
	switch {
	case err != nil || len(ids) == 0:
		return nil, err
	case x.ProxyID != "":
		return slices.DeleteFunc(ids, func(id string) bool { return id != x.ProxyID }), nil
	case !o.State.Ended():
		return nil, nil // the operation's own review is answered first
	}
	lines, err := l.Operations.Lines(ctx, o.ID)
	if err != nil || slices.ContainsFunc(lines, func(x tables.RenewalLine) bool { return x.State == fact.LineUnresolved }) {
		return nil, err
	}
	return ids, nil
}
