package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/desk"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/report"
	"perennial/upstream"
)

func TestARecordThatIsRepeatedUnderItsIDBooksOnce(t *testing.T) {
	h := idleRig(t)
	x := desk.Recording{Kind: "top-up", Cents: 500, ID: "wire-7", By: "ada", Reason: "wire transfer"}
	for n := range 3 {
		_, booked, err := desk.Record(t.Context(), h.ledger, x, h.client.Order)
		if check(t, err); booked != (n == 0) {
			t.Errorf("call %d booked: %t", n, booked)
		}
	}
	x.Cents = 600
	var refused *command.RefusedError
	if _, booked, err := desk.Record(t.Context(), h.ledger, x, h.client.Order); booked || !errors.As(err, &refused) {
		t.Errorf("another amount under the same id: %v", err)
	}
	x.ID = "wire-8"
	_, _, err := desk.Record(t.Context(), h.ledger, x, h.client.Order)
	check(t, err)
	if n := len(h.facts("ledger.recorded")); n != 2 {
		t.Errorf("%d records are booked", n)
	}
	if _, err := h.ledger.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// With last month's clock, a record would be dated before earlier bookings and before the
// ledger was opened.
func TestARecordOfAClockThatIsBehindIsRefused(t *testing.T) {
	h := idleRig(t)
	check(t, h.ledger.Close())
	for _, test := range []struct {
		behind  time.Duration
		refused bool
	}{{30 * 24 * time.Hour, true}, {time.Hour, true}, {4 * time.Minute, false}} {
		l, err := ledger.Open(t.Context(), ledger.Config{Path: h.path, Clock: func() time.Time { return h.now().Add(-test.behind) }})
		check(t, err)
		_, booked, err := desk.Record(t.Context(), l, desk.Recording{Kind: "top-up", Cents: 500, By: "ada", Reason: "wire transfer"}, h.client.Order)
		var refused *command.RefusedError
		if booked == test.refused || errors.As(err, &refused) != test.refused || test.refused && !strings.Contains(err.Error(), "set the clock") {
			t.Errorf("%s behind: %t %v", test.behind, booked, err)
		}
		check(t, l.Close())
	}
}

func TestARecordThatTakesTheWalletBelowZeroSaysSo(t *testing.T) {
	h := idleRig(t)
	b, err := h.ledger.Money.Balance(t.Context(), "main")
	check(t, err)
	for i, test := range []struct {
		kind  string
		cents int64
		warns bool
	}{{"external", b.WalletCents, false}, {"external", 1, true}, {"external", 5, true}, {"top-up", 1, false}, {"top-up", 5, false}, {"external", 1, true}} {
		x := desk.Recording{Kind: test.kind, Cents: test.cents, ID: fmt.Sprint("x", i), By: "ada", Reason: "x"}
		_, _, err := desk.Record(t.Context(), h.ledger, x, h.client.Order)
		check(t, err)
		if warning, err := desk.Overdrawn(t.Context(), h.ledger, x.Kind); err != nil || (warning != "") != test.warns {
			t.Errorf("%+v: %q %v", test, warning, err)
		}
	}
}

func TestTheSameRecordTwiceInADayIsAskedAbout(t *testing.T) {
	h := idleRig(t)
	h.oneClock()
	h.bind()
	x := desk.Recording{Kind: "top-up", Cents: 500, ID: "made-1", IDMade: true}
	h.recorded(x)
	h.recorded(x) // a repeat
	x.ID = "made-2"
	var refused *command.RefusedError
	if _, err := h.record(x); !errors.As(err, &refused) || !refused.Unconfirmed || !strings.Contains(refused.Reason, "--id") {
		t.Errorf("%v", err)
	}
	if _, err := h.record(desk.Recording{Kind: "top-up", Cents: 500}); !errors.As(err, &refused) {
		t.Errorf("without an id: %v", err)
	}
	h.recorded(desk.Recording{Kind: "top-up", Cents: 501})
	h.recorded(desk.Recording{Kind: "top-up", Cents: 500, ID: "another"})
	h.later(25 * time.Hour)
	h.recorded(x)
	if n := len(h.facts("ledger.recorded")); n != 4 {
		t.Errorf("%d records", n)
	}
}

// A charge or refund that no reply showed is booked on its operation and line, with the
// command's labels.
func TestAChargeAndARefundAreRecordedOnTheirOperation(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}],"labels":{"team":"red"}}`)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	no := h.await("buy", fact.StateDelivered).Operations[0].OrderNo
	h.await("keep", fact.StateCompleted)
	for name, x := range map[string]desk.Recording{
		"more than was charged":   {Kind: "refund", Cents: 601, OrderNo: no},
		"no line":                 {Kind: "refund", Cents: 1, OperationID: "keep/0001"},
		"another line":            {Kind: "refund", Cents: 1, OperationID: "keep/0001", ProxyID: "px_3"},
		"a line of an order":      {Kind: "refund", Cents: 1, OperationID: "buy/1", ProxyID: "px_1"},
		"an unknown operation":    {Kind: "charge", Cents: 1, OperationID: "nothing/1"},
		"an unknown order":        {Kind: "charge", Cents: 1, OrderNo: "ord_nothing"},
		"an unknown order, spent": {Kind: "external", Cents: 1, OrderNo: "ord_nothing"},
		"of nothing":              {Kind: "refund", Cents: 1},
		"a top-up of an order":    {Kind: "top-up", Cents: 1, OperationID: "buy/1"},
	} {
		var refused *command.RefusedError
		if _, err := h.record(x); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.recorded(desk.Recording{Kind: "refund", Cents: 200, OrderNo: no})
	h.recorded(desk.Recording{Kind: "charge", Cents: 50, OperationID: "buy/1"})
	h.recorded(desk.Recording{Kind: "refund", Cents: 300, OperationID: "keep/0001", ProxyID: "px_2"})
	o, err := h.ledger.Operations.Operation(t.Context(), "buy/1")
	check(t, err)
	lines, err := h.ledger.Operations.Lines(t.Context(), "keep/0001")
	check(t, err)
	b, err := h.ledger.Money.Balance(t.Context(), "main")
	check(t, err)
	if o.ChargedCents != 650 || o.RefundedCents != 200 || lines[1].RefundedCents != 300 || b.ChargedCents != 1250 || b.RefundedCents != 500 || b.FundingCents != 500_000 || b.ExternalCents != 0 {
		t.Errorf("%+v %+v %+v", o, lines, b)
	}
	facts := h.facts("ledger.recorded")
	f, _ := facts[0].(fact.LedgerRecorded)
	if f.OperationID != "buy/1" || f.CommandID != "buy" || f.OrderNo != no || f.Labels["team"] != "red" || f.Booked.RefundedCents != 200 || f.Totals.ChargedCents != 600 || f.Totals.RefundedCents != 200 {
		t.Errorf("%+v", f)
	}
	sums, err := h.ledger.Money.RenewalSums(t.Context(), "keep/0001")
	check(t, err)
	if sums.Differ() != 0 {
		t.Errorf("%+v", sums)
	}
	_, err = h.ledger.Verify(t.Context())
	check(t, err)
}

// A linked opposite entry takes back a record, or a wrong answer to a review.
func TestARecordAndAnAnswerAreTakenBackOnce(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "unresolved_record", map[string]any{"executed": true})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	id := h.await("keep", fact.StateReview).Operations[0].OperationID
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 30000, ConfirmCents: new(int64(30000)), By: "ada", Reason: "a slip"}))
	rows := h.rows()
	answer := rows[slices.IndexFunc(rows, func(r chain.Row) bool { return r.Type == "operation.resolved" })].Seq
	r, err := h.record(desk.Recording{CorrectsSeq: answer, Cents: 29700})
	check(t, err)
	if r.Movement != "refund" || r.OperationID != id || r.ProxyID != "px_1" || r.Corrects != answer {
		t.Errorf("%+v", r)
	}
	var refused *command.RefusedError
	if _, err := h.record(desk.Recording{CorrectsSeq: answer, Cents: 301}); !errors.As(err, &refused) {
		t.Errorf("more than is left was taken back: %v", err)
	}
	h.agrees()
	raised, err := h.record(desk.Recording{CorrectsSeq: answer, Kind: "charge", Cents: 50})
	check(t, err)
	if _, err := h.record(desk.Recording{CorrectsSeq: answer, Cents: 351}); !errors.As(err, &refused) {
		t.Errorf("more than is booked was taken back: %v", err)
	}
	h.recorded(desk.Recording{CorrectsSeq: raised.Seq})
	h.agrees()
	top, err := h.record(desk.Recording{Kind: "top-up", Cents: 700})
	check(t, err)
	back, err := h.record(desk.Recording{CorrectsSeq: top.Seq, ID: "back"})
	check(t, err)
	again, err := h.record(desk.Recording{CorrectsSeq: top.Seq, ID: "back"})
	check(t, err)
	if back.Movement != "external" || back.AmountCents != 700 || again.Seq != back.Seq {
		t.Errorf("%+v %+v", back, again)
	}
	for name, x := range map[string]desk.Recording{"twice": {CorrectsSeq: top.Seq}, "no such row": {CorrectsSeq: 9999}, "no record": {CorrectsSeq: 1}, "not opposite": {CorrectsSeq: top.Seq, Kind: "charge", Cents: 1}} {
		if _, err := h.record(x); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.agrees()
	_, err = h.ledger.Verify(t.Context())
	check(t, err)
	postings, err := h.ledger.Money.Postings(t.Context(), back.Seq, 1)
	check(t, err)
	var csv, beans strings.Builder
	check(t, h.ledger.Report().ExportCSV(t.Context(), &csv, report.Period{}))
	check(t, h.ledger.Report().ExportBeancount(t.Context(), &beans, "main", report.Period{}, false))
	row := strconv.FormatInt(top.Seq, 10)
	if postings[0].CorrectsSeq != top.Seq || !strings.Contains(csv.String(), `,"`+row+`",""`+"\n") || !strings.Contains(beans.String(), `corrects: "`+row+`"`) {
		t.Errorf("the books do not name row %s: %+v\n%s\n%s", row, postings, csv.String(), beans.String())
	}
}

// An order has one finding, for the remaining difference after what was booked and recorded.
func TestAFindingFallsByWhatWasRecordedForIt(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.buys(1)
	var total, refund int64 = 300, 0
	p := &retold{Client: h.client, order: func(o *upstream.Order) error {
		o.TotalCents, o.Total = &total, fact.Decimal(total)
		if refund > 0 {
			o.Refund = &upstream.Refund{Status: "done", AmountCents: &refund, Currency: "USD", RefundedAt: new(time.Now())}
		}
		return nil
	}}
	o, err := h.ledger.Operations.Operation(t.Context(), "buy-0/1")
	check(t, err)
	differs := func(what, kind string, cents int64) {
		t.Helper()
		x := h.pass(h.reconciler(p, 0))
		x.Findings = slices.DeleteFunc(x.Findings, func(f reconcile.Finding) bool { return f.Kind == "wallet" }) // not retold
		if (kind == "") != (len(x.Findings) == 0) || kind != "" && (len(x.Findings) != 1 || x.Findings[0].Kind != kind || x.Findings[0].AmountCents != cents) {
			t.Errorf("%s: %+v", what, x.Findings)
		}
	}
	total = 350
	differs("a price change", "order_total", 50)
	h.recorded(desk.Recording{Kind: "charge", Cents: 20, OrderNo: o.OrderNo})
	differs("a part of it recorded", "order_total", 30)
	h.recorded(desk.Recording{Kind: "charge", Cents: 30, OrderNo: o.OrderNo})
	differs("all of it recorded", "", 0)
	refund = 100
	differs("a refund", "order_refund", 100)
	h.recorded(desk.Recording{Kind: "refund", Cents: 100, OrderNo: o.OrderNo})
	differs("the refund recorded", "", 0)
	refund = 150
	differs("the refund has grown", "order_refund", 50)
	h.recorded(desk.Recording{Kind: "top-up", Cents: 50, OrderNo: o.OrderNo})
	differs("the rest recorded as before", "", 0)
	h.recorded(desk.Recording{Kind: "top-up", Cents: 5, OrderNo: o.OrderNo})
	differs("too much recorded", "order_refund", -5)
}

// The balance shows charges that are not booked yet as an estimate.
func TestTrap58WhatIsNotBookedYetShowsInTheBalance(t *testing.T) {
	t.Parallel()
	h := movableRig(t)
	h.hangs("buy")
	p, err := h.ledger.Money.Position(t.Context(), "main")
	check(t, err)
	if u := p.WithUnbooked().Unbooked; u == nil || u.Operations != 1 || u.Unknown != 1 {
		t.Errorf("%+v", u)
	}
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("keep", fact.StateCompleted)
	p, err = h.ledger.Money.Position(t.Context(), "main")
	check(t, err)
	if u := p.WithUnbooked().Unbooked; u.Operations != 1 {
		t.Errorf("what is booked counts again: %+v", u)
	}
}

// A correcting charge that looks like a mistake must be confirmed, whatever entries were
// reversed before.
func TestACorrectionThatLooksLikeASlipIsAskedBack(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.renew(`{"id":"before","duration_days":30,"proxy_ids":["px_1"]}`) // a price is known from here on
	h.await("before", fact.StateCompleted)
	h.fault(renew, "unresolved_record", map[string]any{"executed": true})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"],"max_total_cents":400}`)
	id := h.await("keep", fact.StateReview).Operations[0].OperationID
	o, err := h.ledger.Operations.Operation(t.Context(), id)
	check(t, err)
	if o.EstimateCents != 300 {
		t.Fatalf("the renewal is expected to cost %d", o.EstimateCents)
	}
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 300, By: "ada", Reason: "seen"}))
	rows := h.rows()
	answer := rows[slices.IndexFunc(rows, func(r chain.Row) bool { return r.Type == "operation.resolved" })].Seq
	asked := func(cents int64, why string) {
		t.Helper()
		var refused *command.RefusedError
		_, err := h.record(desk.Recording{CorrectsSeq: answer, Kind: "charge", Cents: cents})
		if !errors.As(err, &refused) || !refused.Unconfirmed || !strings.Contains(refused.Reason, why) {
			t.Errorf("%d: %v", cents, err)
		}
	}
	asked(301, "3.01 USD would be booked as charged for px_1, 6.01 USD in all, and 3.00 USD was answered")
	asked(300, "6.00 USD in all, and 3.00 USD was answered")
	back, err := h.record(desk.Recording{CorrectsSeq: answer, Cents: 300}) // taken back
	check(t, err)
	h.recorded(desk.Recording{CorrectsSeq: back.Seq}) // and put back by the record's row
	asked(300, "6.00 USD in all, and 3.00 USD was answered")
	h.recorded(desk.Recording{CorrectsSeq: answer, Cents: 200})
	asked(201, "3.01 USD in all, and 3.00 USD was answered")
	var refused *command.RefusedError
	if _, err := h.record(desk.Recording{CorrectsSeq: answer, Kind: "charge", Cents: 500, ConfirmCents: new(int64(50))}); !errors.As(err, &refused) || refused.Unconfirmed {
		t.Errorf("another amount confirms: %v", err)
	}
	if n := len(h.facts("ledger.recorded")); n != 3 {
		t.Errorf("%d records are booked", n)
	}
	h.recorded(desk.Recording{CorrectsSeq: answer, Kind: "charge", Cents: 200})
	h.recorded(desk.Recording{CorrectsSeq: answer, Kind: "charge", Cents: 900, ConfirmCents: new(int64(900))})
	h.recorded(desk.Recording{CorrectsSeq: answer, Kind: "refund", Cents: 100})
}

// An answer without an order number has already booked an order. Recording an order of the
// same price as spent elsewhere must be confirmed.
func TestAnOrderThatAnAnswerMayHaveBookedIsNotRecordedAgain(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	id := h.unsure("lost")
	other := h.bought("elsewhere", "off_us_dallas", 2) // of the same price, so that the answer names none
	err := h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 600, ConfirmCents: new(int64(600)), By: "ada", Reason: "the invoice"})
	check(t, err)
	o, err := h.ledger.Operations.Operation(t.Context(), id)
	check(t, err)
	if o.OrderNo != "" {
		t.Fatalf("the answer took order %s", o.OrderNo)
	}
	var refused *command.RefusedError
	x := desk.Recording{Kind: "external", Cents: 600, OrderNo: other, ID: "cli-made", IDMade: true}
	if _, err := h.record(x); !errors.As(err, &refused) || !refused.Unconfirmed || !strings.Contains(refused.Reason, "the answer for lost/1 booked 6.00 USD for an order without a number") {
		t.Errorf("%v", err)
	}
	x.Cents = 300
	h.recorded(x) // of another price
	x.Cents, x.ID, x.IDMade = 600, "it-is-another", false
	h.recorded(x)
}
