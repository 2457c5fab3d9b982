package jobs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/ledger/report"
)

// movableRig returns a rig whose clocks all advance with later.
func movableRig(t *testing.T) *rig {
	t.Helper()
	h := idleRig(t)
	h.oneClock()
	h.bind()
	h.start()
	return h
}

// hangs makes an order that needs review although the provider has accepted it.
func (h *rig) hangs(id string) fact.Operation {
	h.t.Helper()
	h.control("/faults", map[string]any{"method": "GET", "path": "/api/v1/orders/*", "fault": "code", "code": "order_not_found", "http_status": 404, "times": 2})
	h.order(`{"id":"` + id + `","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}]}`)
	h.until("the first read of "+id, func() bool {
		status, err := inspect.Status(h.t.Context(), h.ledger, id)
		return err == nil && len(status.Operations) == 1 && status.Operations[0].Reason != ""
	})
	h.later(decide.ShownWithin) // by then every read should show it
	o, err := h.ledger.Operations.Operation(h.t.Context(), h.await(id, fact.StateReview).Operations[0].OperationID)
	check(h.t, err)
	return o
}

func TestTrap49AnOrderThatHasANumberIsNotSentAgain(t *testing.T) {
	t.Parallel()
	h := movableRig(t)
	o := h.hangs("buy")
	if o.OrderNo == "" {
		t.Fatalf("%+v", o)
	}
	answer := desk.Resolution{ID: o.ID, Charged: new(false), SendAgain: true, AgainstEvidence: true, By: "ada", Reason: "it hangs"}
	var refused *command.RefusedError
	if err := h.runner.Resolve(t.Context(), answer); !errors.As(err, &refused) || !strings.Contains(refused.Reason, o.OrderNo) || !strings.Contains(refused.Reason, "refund") {
		t.Errorf("%v", err)
	}
	e, err := inspect.CollectEvidence(t.Context(), h.ledger, nil, o.ID)
	check(t, err)
	for _, a := range e.Answers {
		if strings.Contains(a.Say, "--send-again") {
			t.Errorf("the evidence offers %s", a.Say)
		}
	}
	if all, _ := h.server.Charges(); len(all) != 1 {
		t.Errorf("%d charges", len(all))
	}
}

func TestTrap49AnOrderWhoseRefundIsBookedMayGoAgain(t *testing.T) {
	o := fact.Operation{OrderNo: "ord_1"}
	for _, test := range []struct {
		charged, refunded int64
		want              bool
	}{{0, 0, false}, {600, 0, false}, {600, 300, false}, {600, 600, true}} {
		o.ChargedCents, o.RefundedCents = test.charged, test.refunded
		if inspect.MayGoAgain(o) != test.want {
			t.Errorf("%d charged and %d refunded: %t", test.charged, test.refunded, !test.want)
		}
	}
}

func TestAnAnswerNamesTheOrderItFound(t *testing.T) {
	t.Parallel()
	h := movableRig(t)
	h.fault(orders, "code", map[string]any{"code": "idempotency_unresolved", "http_status": 409, "executed": true})
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}]}`)
	id := h.await("buy", fact.StateReview).Operations[0].OperationID
	e, err := h.runner.Evidence(t.Context(), id)
	check(t, err)
	if len(e.Orders) != 1 || !strings.Contains(e.Answers[0].Say, "--order "+e.Orders[0].OrderNo) {
		t.Fatalf("orders %+v, answers %+v", e.Orders, e.Answers)
	}
	found := e.Orders[0].OrderNo
	answer := desk.Resolution{ID: id, Charged: new(true), ChargedCents: 600, OrderNo: found, By: "ada", Reason: "it is this one"}
	for name, spoil := range map[string]func(*desk.Resolution){
		"not charged":  func(x *desk.Resolution) { x.Charged, x.ChargedCents = new(false), 0 },
		"unprintable":  func(x *desk.Resolution) { x.OrderNo = "ord\x00" },
		"without name": func(x *desk.Resolution) { x.By = "" },
	} {
		bad := answer
		spoil(&bad)
		var refused *command.RefusedError
		if err := h.runner.Resolve(t.Context(), bad); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	check(t, h.runner.Resolve(t.Context(), answer))
	if owner, err := h.ledger.Operations.OrderOwner(t.Context(), found, ""); err != nil || owner == "" {
		t.Errorf("the ledger does not know %s: %v", found, err)
	}
	entries := h.facts("operation.resolved")
	if f, _ := entries[0].(fact.OperationResolved); f.OrderNo != found {
		t.Errorf("%+v", f)
	}
	h.settled(600, 0)
	o := h.hangs("other")
	var refused *command.RefusedError
	if err := h.runner.Resolve(t.Context(), desk.Resolution{ID: o.ID, Charged: new(true), ChargedCents: 600, OrderNo: found, By: "ada", Reason: "x"}); !errors.As(err, &refused) {
		t.Errorf("an order that another operation made was taken: %v", err)
	}
}

// Neither the evidence nor the status shows a corrected answer as final.
func TestACorrectedAnswerIsShownAsCorrected(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	o := h.hangs("other")
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: o.ID, Charged: new(true), ChargedCents: 600, ConfirmCents: new(int64(600)), By: "ada", Reason: "seen"}))
	rows, err := h.ledger.RowsOf(t.Context(), o.ID)
	check(t, err)
	h.recorded(desk.Recording{CorrectsSeq: rows[len(rows)-1].Seq})
	e, err := h.runner.Evidence(t.Context(), o.ID)
	check(t, err)
	s, err := inspect.Status(t.Context(), h.ledger, o.ID)
	check(t, err)
	listed, err := inspect.List(t.Context(), h.ledger, inspect.ListQuery{Limit: 1})
	check(t, err)
	for what, shown := range map[string]inspect.OperationStatus{"evidence": e.OperationStatus, "status": s.Operations[0], "list": listed[0]} {
		if shown.StateText() != "resolved, corrected" || shown.NetText() != "0.00 USD" || len(shown.Corrected) != 1 || !strings.HasPrefix(shown.Corrected[0], "refund 6.00 USD, by ") {
			t.Errorf("%s: %s, net %s, corrected %q", what, shown.StateText(), shown.NetText(), shown.Corrected)
		}
	}
	now := time.Now()
	month, err := h.ledger.Report().Statement(t.Context(), "main", report.Period{From: now.Add(-fact.Day), To: now.Add(fact.Day)})
	check(t, err)
	if month.Corrections == nil || *month.Corrections != (report.Corrections{Count: 1, RefundedCents: 600}) {
		t.Errorf("the statement has the corrections %+v", month.Corrections)
	}
	var csv strings.Builder
	if err := month.WriteCSV(&csv); err != nil || !strings.Contains(csv.String(), `"Corrections in these sums","operations",1,0,600,-600,`) {
		t.Errorf("the CSV does not name them: %v\n%s", err, csv.String())
	}
}

// The evidence shows the current wallet, although the books cannot agree with it during the
// review.
func TestEvidenceHasTheWalletAsItIsNow(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(orders, "code", map[string]any{"code": "idempotency_unresolved", "http_status": 409, "executed": true})
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}]}`)
	id := h.await("buy", fact.StateReview).Operations[0].OperationID
	before, err := h.client.Wallet(t.Context())
	check(t, err)
	h.wallet(500)
	e, err := h.runner.Evidence(t.Context(), id)
	check(t, err)
	if e.WalletAfter != nil || e.WalletNow == nil || e.WalletNow.ProviderCents != before.BalanceCents+500 || e.WalletNow.At.IsZero() {
		t.Errorf("after %+v, now %+v, want %d", e.WalletAfter, e.WalletNow, before.BalanceCents+500)
	}
	if e.WalletGap != nil { // it was sent a moment ago, and the books were never compared
		t.Errorf("the verdict states a gap of %d: %s", *e.WalletGap, e.Verdict.Text)
	}
}

// A restored account stays paused because of one order. It continues automatically after an
// operator answers to which operation the order belongs.
func TestTrap13AnAnswerNamingTheOrderEndsARestoresPause(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(orders, "code", map[string]any{"code": "idempotency_unresolved", "http_status": 409, "executed": true})
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}]}`)
	id := h.await("buy", fact.StateReview).Operations[0].OperationID
	h.restore(h.backup())
	h.awaitStrange("order ")
	e, err := inspect.CollectEvidence(t.Context(), h.ledger, h.runner.newReconciler(), id)
	check(t, err)
	if len(e.Orders) != 1 {
		t.Fatalf("%+v", e.Orders)
	}
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 600, OrderNo: e.Orders[0].OrderNo, By: "ada", Reason: "it is this one"}))
	h.awaitResumed()
	h.settled(600, 0)
}

// An answered line and its operation are known; a proxy that the operation never had is not.
func TestAnUnknownLineIsNotFound(t *testing.T) {
	t.Parallel()
	h := movableRig(t)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	o := h.await("keep", fact.StateCompleted).Operations[0]
	for line, unknown := range map[string]bool{"px_1": false, "px_2": true, "": false} {
		err := h.runner.Resolve(t.Context(), desk.Resolution{ID: o.OperationID, ProxyID: line, Charged: new(false), By: "ada", Reason: "x"})
		var refused *command.RefusedError
		if !errors.As(err, &refused) || refused.Unknown != unknown {
			t.Errorf("line %q: %v", line, err)
		}
	}
}

// The order may exist, and a new key would pay for another one.
func TestNothingIsSentAgainOnEvidenceThatCouldNotBeRead(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(orders, "unresolved_record", map[string]any{"times": 2})
	h.order(`{"id":"lost","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.await("lost", fact.StateReview)
	h.control("/faults", map[string]any{"method": "GET", "path": orders, "fault": "error_before", "times": -1})
	x := desk.Resolution{ID: "lost/1", Charged: new(false), SendAgain: true, By: "ada", Reason: "it never came"}
	err := h.runner.Resolve(t.Context(), x)
	refused, ok := errors.AsType[*command.RefusedError](err)
	if !ok || !refused.Unconfirmed || !strings.Contains(err.Error(), "--against-evidence") {
		t.Errorf("%v", err)
	}
	h.ask("DELETE", "/faults", nil)
	if err := h.runner.Resolve(t.Context(), x); err == nil || !strings.Contains(err.Error(), "was charged") {
		t.Errorf("when the orders can be read: %v", err)
	}
}

// TestAnAnswerOfUnknownPriceIsExpectedByTheLastPrices resolves a lost renewal of two proxies
// with different prices. The answer is expected at the prices last paid, and is divided by them.
func TestAnAnswerOfUnknownPriceIsExpectedByTheLastPrices(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.order(`{"id":"german","duration_days":30,"items":[{"offer_code":"off_de_frankfurt","quantity":1}]}`)
	german := h.await("german", fact.StateDelivered).Operations[0].ProxyIDs[0]
	h.renew(`{"id":"first","duration_days":30,"proxy_ids":["px_1","` + german + `"]}`)
	h.await("first", fact.StateCompleted)
	h.fault(renew, "code", map[string]any{"code": "proxy_endpoint_unavailable", "http_status": 503, "executed": true})
	h.renew(`{"id":"lost","duration_days":60,"proxy_ids":["px_1","` + german + `"]}`)
	o := h.await("lost", fact.StateReview).Operations[0]
	e, err := h.runner.Evidence(t.Context(), o.OperationID)
	check(t, err)
	if e.Verdict.ExpectedCents != fact.Known(1300) || !strings.Contains(e.Verdict.Text, "expected 13.00 USD") {
		t.Errorf("%+v", e.Verdict)
	}
	reviews, err := inspect.Reviews(t.Context(), h.ledger, -1)
	if check(t, err); len(reviews) != 1 || reviews[0].AtStakeCents != e.Verdict.ExpectedCents {
		t.Errorf("the list says %+v", reviews)
	}
	answer := desk.Resolution{ID: o.OperationID, Charged: new(true), ChargedCents: 13, By: "ada", Reason: "the wallet shows it"}
	if err := h.runner.Resolve(t.Context(), answer); err == nil {
		t.Error("13 cents are booked for 13 dollars")
	}
	answer.ChargedCents = 1300
	check(t, h.runner.Resolve(t.Context(), answer))
	lines, err := h.ledger.Operations.Lines(t.Context(), o.OperationID)
	check(t, err)
	for _, l := range lines {
		if want := map[string]int64{"px_1": 600, german: 700}[l.ProxyID]; l.ChargedCents != want {
			t.Errorf("%s is booked at %d, and cost %d", l.ProxyID, l.ChargedCents, want)
		}
		p, err := h.ledger.Fleet.Proxy(t.Context(), l.ProxyID)
		check(t, err)
		if !p.Unread() {
			t.Errorf("%s counts as read, although its expiry moved since: %+v", l.ProxyID, p)
		}
	}
	h.settled(350+650+1300, 0)
}

// A charge that was denied by mistake is expected at the price last paid.
func TestACorrectedDenialIsExpectedByTheLastPrice(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.renew(`{"id":"first","duration_days":30,"proxy_ids":["px_2"]}`)
	h.await("first", fact.StateCompleted)
	h.fault(renew, "code", map[string]any{"code": "proxy_endpoint_unavailable", "http_status": 503, "executed": true})
	h.renew(`{"id":"lost","duration_days":30,"proxy_ids":["px_1"]}`)
	o := h.await("lost", fact.StateReview).Operations[0]
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: o.OperationID, Charged: new(false), AgainstEvidence: true, By: "ada", Reason: "a mistake"}))
	row := h.answeredRow()
	if _, err := h.record(desk.Recording{CorrectsSeq: row, Kind: fact.MovementCharge, Cents: 3}); err == nil {
		t.Error("3 cents are booked for 3 dollars")
	}
	_, err := h.record(desk.Recording{CorrectsSeq: row, Kind: fact.MovementCharge, Cents: 300})
	check(t, err)
	h.settled(600, 0)
}

// A review that was answered as not charged is retried like a refusal, unless the provider shows a
// charge by now.
func TestWhatWasAnsweredAsNotChargedIsRetried(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	deny := func(id string) {
		check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(false), By: "ada", Reason: "the provider says so"}))
	}
	lost := map[string]any{"code": "idempotency_unresolved", "http_status": 409}
	h.fault(renew, "code", lost)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	h.await("keep", fact.StateReview)
	deny("keep/0001")
	h.await("keep", fact.StateResolved)
	if n, err := h.runner.Retry(t.Context(), "keep", "ada", "again"); err != nil || n != 1 {
		t.Fatalf("%d %v", n, err)
	}
	s := h.await("keep", fact.StateCompleted)
	if o := s.Operations[len(s.Operations)-1]; o.ChargedCents != 600 || o.IdempotencyKey == s.Operations[0].IdempotencyKey {
		t.Errorf("%+v", s.Operations)
	}
	h.fault(orders, "code", lost)
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.await("buy", fact.StateReview)
	deny("buy/1")
	if n, err := h.runner.Retry(t.Context(), "buy/1", "ada", "again"); err != nil || n != 1 {
		t.Fatalf("%d %v", n, err)
	}
	h.await("buy", fact.StateDelivered)
	h.settled(900, 0)

	h.fault(renew, "code", lost)
	h.renew(`{"id":"paid","duration_days":30,"proxy_ids":["px_3"]}`)
	h.await("paid", fact.StateReview)
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: "paid/0001", Charged: new(true), ChargedCents: 300, By: "ada", Reason: "shown"}))
	if n, err := h.runner.Retry(t.Context(), "paid", "ada", "again"); err == nil || n != 0 {
		t.Errorf("what was charged is sent again: %d %v", n, err)
	}
	h.fault(renew, "code", map[string]any{"code": "proxy_endpoint_unavailable", "http_status": 503, "executed": true})
	h.renew(`{"id":"late","duration_days":30,"proxy_ids":["px_4"]}`)
	h.await("late", fact.StateReview)
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: "late/0001", Charged: new(false), AgainstEvidence: true, By: "ada", Reason: "a mistake"}))
	if n, err := h.runner.Retry(t.Context(), "late", "ada", "again"); err == nil || n != 0 || !strings.Contains(err.Error(), "against its answer: px_4 expires") {
		t.Errorf("what the evidence shows as charged is sent again: %d %v", n, err)
	}
}
