package jobs

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/jobs/desk"
	"perennial/jobs/reconcile"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/report"
)

// unresolved returns a rig whose clocks can be moved, and its renewal of px_1 in review.
func unresolved(t *testing.T, executed bool) (h *rig, id string) {
	t.Helper()
	h = idleRig(t)
	h.oneClock()
	h.bind(func(c *Config) { c.Provider = h.client })
	h.fault(renew, "unresolved_record", map[string]any{"executed": executed})
	h.start()
	h.renew(`{"id":"one","duration_days":30,"proxy_ids":["px_1"]}`)
	return h, h.await("one", fact.StateReview).Operations[0].OperationID
}

func (h *rig) answeredRow() int64 {
	h.t.Helper()
	rows := h.rows()
	return rows[slices.IndexFunc(rows, func(r chain.Row) bool { return r.Type == "operation.resolved" })].Seq
}

// A correction that reverses an answer gives the line the state of the right answer: a
// schedule renews no proxy that was paid for, and every proxy that was not.
func TestACorrectionThatTurnsAnAnswerAroundChangesTheLine(t *testing.T) {
	t.Parallel()
	h, id := unresolved(t, false)
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(false), By: "ada", Reason: "a slip"}))
	answer := h.answeredRow()
	is := func(want fact.LineState, net int64) {
		t.Helper()
		lines, err := h.ledger.Operations.Lines(t.Context(), id)
		check(t, err)
		if l := lines[0]; l.State != want || l.ChargedCents-l.RefundedCents != net {
			t.Errorf("%s %d-%d, want %s %d", l.State, l.ChargedCents, l.RefundedCents, want, net)
		}
	}
	is(fact.LineNotCharged, 0)
	h.recorded(desk.Recording{CorrectsSeq: answer, Kind: fact.MovementCharge, Cents: 300, ConfirmCents: new(int64(300))})
	is(fact.LineCharged, 300)
	h.later(20 * time.Minute)
	x := h.pass(h.reconciler(h.client, 0))
	if !slices.ContainsFunc(x.Findings, func(f reconcile.Finding) bool { return f.Kind == decide.FindingNotMoved && f.ProxyID == "px_1" }) {
		t.Errorf("paid for and not moved, and no finding: %+v", x.Findings)
	}
	// The answer booked nothing. The charge of its correction is taken back through the
	// answer's row.
	r, err := h.record(desk.Recording{CorrectsSeq: answer, Kind: fact.MovementRefund, Cents: 100})
	check(t, err)
	is(fact.LineCharged, 200)
	h.recorded(desk.Recording{CorrectsSeq: answer})
	is(fact.LineNotCharged, 0)
	h.recorded(desk.Recording{CorrectsSeq: r.Seq})
	is(fact.LineCharged, 100)
	_, err = h.ledger.Verify(t.Context())
	check(t, err)
}

// A correction explains the expiry that its renewal moved.
func TestACorrectedAnswerExplainsTheExpiryThatMoved(t *testing.T) {
	t.Parallel()
	h, id := unresolved(t, true)
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(false), AgainstEvidence: true, By: "ada", Reason: "a slip"}))
	h.recorded(desk.Recording{CorrectsSeq: h.answeredRow(), Kind: fact.MovementCharge, Cents: 300, ConfirmCents: new(int64(300))})
	h.later(20 * time.Minute)
	h.listed()
	h.agrees()
}

// A plan leaves out a proxy whose expected expiry is later than the due date.
func TestACorrectedAnswerExpectsNoNewExpiry(t *testing.T) {
	t.Parallel()
	h, id := unresolved(t, false)
	expected := func() *time.Time {
		t.Helper()
		p, err := h.ledger.Fleet.Proxy(t.Context(), "px_1")
		check(t, err)
		if !p.Unread() {
			t.Errorf("%+v does not have to be read", p)
		}
		return p.ExpectedExpiresAt
	}
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 300, ConfirmCents: new(int64(300)), AgainstEvidence: true, By: "ada", Reason: "a slip"}))
	if expected() == nil {
		t.Fatal("the answer expects no new expiry")
	}
	taken, err := h.record(desk.Recording{CorrectsSeq: h.answeredRow()})
	check(t, err)
	if at := expected(); at != nil {
		t.Errorf("expected until %s although nothing was charged", at)
	}
	h.recorded(desk.Recording{CorrectsSeq: taken.Seq})
	if expected() == nil {
		t.Error("charged after all, and no new expiry is expected")
	}
}

// Within ten minutes, the difference may be a charge that the provider shows late.
func TestADifferenceNamesTheAnswersThatMayBeWrong(t *testing.T) {
	t.Parallel()
	h, id := unresolved(t, false)
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 300, ConfirmCents: new(int64(300)), AgainstEvidence: true, By: "ada", Reason: "a slip"}))
	x := h.reconcile()
	if x.OK != nil || !x.Wallet.Late || len(x.Wallet.Answers) != 1 || !strings.HasPrefix(reconcile.AnswersText(x.Wallet.Answers), id+" (charged 3.00 USD, by ada") {
		t.Errorf("%v %+v", x.OK, x.Wallet)
	}
}

// To send a refused command again is no answer to a review, and cannot be corrected.
func TestADifferenceBlamesNoCommandThatWasSentAgain(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "code", map[string]any{"code": "validation_error", "http_status": 422})
	h.renew(`{"id":"one","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("one", fact.StateRejected)
	if n, err := h.runner.Retry(t.Context(), "one", "ada", "the provider has mended it"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	h.await("one", fact.StateCompleted)
	h.wallet(-700)
	if x := h.reconcile(); len(x.Findings) == 0 || len(x.Wallet.Answers) != 0 {
		t.Errorf("%+v", x.Wallet)
	}
}

// The API lists no statuses of a refund, so the provider may show one that never reached the wallet.
func TestADifferenceNamesTheRefundsThatMayNotHaveCome(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.agrees()
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}],"sandbox_scenario":"rejected"}`)
	o := h.await("buy", fact.StateRefunded).Operations[0]
	h.wallet(-300)
	x := h.reconcile()
	for _, f := range x.Findings {
		if f.Kind == decide.FindingWallet && strings.Contains(f.Explanation, "3.00 USD of order "+o.OrderNo) {
			return
		}
	}
	t.Errorf("%+v %+v", x.Findings, x.Wallet)
}

// After the reversal of a wrong top-up and of wrong spending, every sum is as before.
func TestAReversalReturnsToItsAccount(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	for _, kind := range []string{fact.MovementTopUp, fact.MovementExternal} {
		wrong, err := h.record(desk.Recording{Kind: kind, Cents: 700, ID: "wrong-" + kind})
		check(t, err)
		back, err := h.record(desk.Recording{CorrectsSeq: wrong.Seq})
		check(t, err)
		again, err := h.record(desk.Recording{CorrectsSeq: back.Seq, Cents: 300})
		check(t, err)
		if back.Movement != wrong.Opposite() || again.Movement != wrong.Movement {
			t.Errorf("%+v %+v %+v", wrong, back, again)
		}
		h.recorded(desk.Recording{CorrectsSeq: again.Seq})
	}
	b, err := h.ledger.Money.Balance(t.Context(), "")
	check(t, err)
	if b.FundingCents != 500_000 || b.ExternalCents != 0 || b.WalletCents != 500_000 {
		t.Errorf("%+v", b)
	}
	for _, by := range []string{"day", "order", "label", "ip", "renewal"} {
		all, err := h.ledger.Money.TotalsBy(t.Context(), by, 10)
		check(t, err)
		for _, x := range all {
			if x.NetCents != 0 || x.RecordedCents != 0 {
				t.Errorf("by %s: %+v", by, x)
			}
		}
	}
	now := time.Now()
	s, err := h.ledger.Report().Statement(t.Context(), "main", report.Period{From: now.Add(-fact.Day), To: now.Add(fact.Day)})
	check(t, err)
	if s.FundingCents != 500_000 || s.OutsideCents != 0 || s.Corrections.FundingCents != -700 || s.Corrections.OutsideCents != -700 {
		t.Errorf("%+v %+v", s, s.Corrections)
	}
	_, err = h.ledger.Verify(t.Context())
	check(t, err)
}

// A refund that was recorded and reversed changes no price, and does not make an old renewal
// newer.
func TestARefundTakenBackLeavesThePrice(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.renew(`{"id":"one","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("one", fact.StateCompleted)
	before, err := h.ledger.Fleet.LastPrice(t.Context(), "px_1")
	check(t, err)
	wrong, err := h.record(desk.Recording{Kind: fact.MovementRefund, OperationID: "one/0001", Cents: 300})
	check(t, err)
	h.recorded(desk.Recording{CorrectsSeq: wrong.Seq})
	after, err := h.ledger.Fleet.LastPrice(t.Context(), "px_1")
	check(t, err)
	if dearest, err := h.ledger.Money.Dearest(t.Context(), 30); err != nil || after != before || dearest != 300 {
		t.Errorf("%+v, then %+v; dearest %d: %v", before, after, dearest, err)
	}
}

// Two operators answer a review at the same time. The second answer is refused with the name
// of the first operator.
func TestTheSecondAnswerOfTwoIsToldOfTheFirst(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(orders, "code", map[string]any{"code": "idempotency_unresolved", "http_status": 409, "executed": true})
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}]}`)
	id := h.await("buy", fact.StateReview).Operations[0].OperationID
	people := []string{"ada", "bob"}
	errs := make([]error, len(people))
	var both sync.WaitGroup
	for i, by := range people {
		both.Go(func() {
			errs[i] = h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 600, ConfirmCents: new(int64(600)), By: by, Reason: "seen"})
		})
	}
	both.Wait()
	first := slices.Index(errs, nil)
	if first < 0 {
		t.Fatal(errs)
	}
	var refused *command.RefusedError
	if other := errs[1-first]; !errors.As(other, &refused) || !strings.Contains(refused.Reason, "was answered (charged by "+people[first]) {
		t.Error(other)
	}
}

// The provider's reply gave the amount, so a correction books it again without confirmation.
// The renewal's reason is then the correction's.
func TestAnAmountThatWasChargedAndReturnedIsExpected(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "renewal", map[string]any{"unresolved": []string{"px_1"}})
	h.renew(`{"id":"one","duration_days":30,"proxy_ids":["px_1"]}`)
	h.until("the line needs review", func() bool { all, _ := h.ledger.Operations.Reviews(t.Context()); return len(all) == 1 })
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: "one/0001", ProxyID: "px_1", Charged: new(false), By: "ada", Reason: "a slip"}))
	row := h.answeredRow()
	if _, err := h.record(desk.Recording{CorrectsSeq: row, Kind: fact.MovementCharge, Cents: 301}); err == nil {
		t.Error("more than was charged needs no confirmation")
	}
	r, err := h.record(desk.Recording{CorrectsSeq: row, Kind: fact.MovementCharge, Cents: 300})
	check(t, err)
	all, err := h.ledger.Fleet.RenewalsOf(t.Context(), "px_1", 1)
	check(t, err)
	if want := "its answer was corrected by " + r.By + ": " + r.Reason; all[0].Reason != want {
		t.Errorf("the reason is %q, want %q", all[0].Reason, want)
	}
}

// An answer for a whole renewal booked each proxy by itself, so each is corrected by itself, or all
// of them at once.
func TestAnAnswerForSeveralProxiesIsCorrected(t *testing.T) {
	t.Parallel()
	answered := func() (*rig, int64) {
		h := newRig(t)
		h.fault(renew, "code", map[string]any{"code": "proxy_endpoint_unavailable", "http_status": 503})
		h.renew(`{"id":"lost","duration_days":30,"proxy_ids":["px_1","px_2","px_3"]}`)
		o := h.await("lost", fact.StateReview).Operations[0]
		check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: o.OperationID, Charged: new(true), ChargedCents: 900, ConfirmCents: new(int64(900)), By: "ada", Reason: "a slip"}))
		row := h.answeredRow()
		return h, row
	}
	net := func(h *rig) (all []int64) {
		lines, err := h.ledger.Operations.Lines(t.Context(), "lost/0001")
		check(t, err)
		for _, l := range lines {
			all = append(all, l.ChargedCents-l.RefundedCents)
		}
		return all
	}
	whole := desk.Recording{ID: "slip"}
	h, row := answered()
	h.recorded(desk.Recording{CorrectsSeq: row, ProxyID: "px_2"})
	h.recorded(desk.Recording{CorrectsSeq: row, ProxyID: "px_3", Kind: fact.MovementRefund, Cents: 100})
	if got := net(h); !slices.Equal(got, []int64{300, 0, 200}) {
		t.Errorf("line by line: %v", got)
	}
	if _, err := h.record(desk.Recording{CorrectsSeq: row, ProxyID: "px_2"}); err == nil {
		t.Error("a line is taken back twice")
	}
	whole.CorrectsSeq = row
	for range 2 { // the second has the same id
		r, err := h.record(whole)
		if check(t, err); r.AmountCents != 500 || r.Movement != fact.MovementRefund {
			t.Errorf("the rest: %+v", r)
		}
	}
	if got := net(h); !slices.Equal(got, []int64{0, 0, 0}) {
		t.Errorf("all: %v", got)
	}
	if _, err := h.record(desk.Recording{CorrectsSeq: row}); err == nil || !strings.Contains(err.Error(), "0.00 USD") {
		t.Errorf("nothing is left: %v", err)
	}
	h, whole.CorrectsSeq = answered()
	h.recorded(whole)
	if got := net(h); !slices.Equal(got, []int64{0, 0, 0}) {
		t.Errorf("at once: %v", got)
	}
}
