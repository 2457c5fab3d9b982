package jobs

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/report"
	"perennial/ledger/tables"
	"perennial/upstream"
)

func (h *rig) evidence(id string) inspect.Evidence {
	h.t.Helper()
	e, err := h.runner.Evidence(h.t.Context(), id)
	check(h.t, err)
	return e
}

// booksAs resolves a review as an answer in the evidence proposes, and compares the bookings
// with those that the answer announced.
func (h *rig) booksAs(x desk.Resolution, a inspect.Answer) {
	h.t.Helper()
	seq, _, err := h.ledger.Head(h.t.Context())
	check(h.t, err)
	x.By, x.Reason = "ada", "the provider's support said so"
	check(h.t, h.runner.Resolve(h.t.Context(), x))
	var got []ledger.Booking
	check(h.t, h.ledger.Report().Transfers(h.t.Context(), report.Period{}, func(m report.Transfer) error {
		if m.Seq > seq && m.Fact == "operation.resolved" {
			got = append(got, ledger.Booking{Kind: m.Kind, Debit: m.Debit, Credit: m.Credit, AmountCents: m.Cents})
		}
		return nil
	}))
	if len(got) != len(a.Bookings) {
		h.t.Fatalf("%s was to book %+v and booked %+v", a.Say, a.Bookings, got)
	}
	for i := range got {
		if got[i] != a.Bookings[i] {
			h.t.Errorf("%s was to book %+v and booked %+v", a.Say, a.Bookings, got)
		}
	}
	if err := h.runner.Resolve(h.t.Context(), x); err == nil {
		h.t.Errorf("%s %s was resolved twice", x.ID, x.ProxyID)
	}
}

func (h *rig) answer(e inspect.Evidence, say, proxyID string) inspect.Answer {
	h.t.Helper()
	for _, a := range e.Answers {
		if strings.HasPrefix(a.Say+" ", say+" ") && a.ProxyID == proxyID {
			return a
		}
	}
	h.t.Fatalf("no answer %q for %q in %+v", say, proxyID, e.Answers)
	return inspect.Answer{}
}

// judged compares the verdict, except for text that changes between runs.
func (h *rig) judged(e inspect.Evidence, outcome, text string) {
	h.t.Helper()
	if e.Verdict == nil || e.Verdict.Outcome != outcome || !strings.Contains(e.Verdict.Text, text) {
		h.t.Errorf("the verdict is %+v, want %s, %s", e.Verdict, outcome, text)
	}
}

func TestEvidenceOfAnOrderFindsItAtTheProvider(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.agrees()
	h.fault(orders, "unresolved_record", map[string]any{"executed": true})
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}]}`)
	id := h.await("buy", fact.StateReview).Operations[0].OperationID
	e := h.evidence(id)
	if len(e.Orders) != 1 || e.Orders[0].NetCents != fact.Known(600) || e.WalletBefore == nil || e.WalletAfter != nil {
		t.Errorf("%+v", e)
	}
	h.judged(e, inspect.VerdictCharged, "Likely charged: order "+e.Orders[0].OrderNo+" was made at ")
	h.judged(e, inspect.VerdictCharged, "; expected 6.00 USD.")
	last := e.History[len(e.History)-1]
	if len(e.History) < 2 || e.History[0].Type != "operation.sending" || e.History[0].Attempt != 1 || last.Type != "operation.review" || last.Code != "idempotency_unresolved" || last.TraceID == "" {
		t.Errorf("%+v", e.History)
	}
	if a := h.answer(e, "--not-charged", ""); len(a.Bookings) != 0 {
		t.Errorf("%+v", a)
	}
	h.booksAs(desk.Resolution{ID: id, Charged: new(true), ChargedCents: 600}, h.answer(e, "--charged 6.00", ""))
	h.settled(600, 0)
}

func TestEvidenceOfALineSaysWhatEachAnswerBooks(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "renewal", map[string]any{"unresolved": []string{"px_1", "px_2", "px_3"}})
	due := time.Now().Add(240 * time.Hour).UTC().Format(time.RFC3339)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2","px_3","px_4"],"due_before":"` + due + `"}`)
	const id = "keep/0001"
	h.until("three lines wait", func() bool { all, _ := h.ledger.Operations.Reviews(t.Context()); return len(all) == 3 })
	e := h.evidence(id)
	if len(e.Expiries) != 4 || e.Expiries[0].Before == nil || e.Expiries[0].Now == nil || e.Expiries[0].Moved == nil || e.Expiries[3].Moved == nil || !*e.Expiries[3].Moved {
		t.Errorf("%+v", e.Expiries)
	}
	h.judged(e, inspect.VerdictUnknown, "Undecided: the provider said that it charged 9.00 USD, but no expiry has moved. It may still renew, or refund: ask it before you answer.")
	reviews, err := h.ledger.Operations.Reviews(t.Context())
	check(t, err)
	if reviews[0].AtStakeCents != fact.Known(300) {
		t.Errorf("%+v", reviews[0])
	}
	h.booksAs(desk.Resolution{ID: id, ProxyID: "px_1", Charged: new(true), ChargedCents: 300}, h.answer(e, "--charged 3.00", "px_1"))
	h.booksAs(desk.Resolution{ID: id, ProxyID: "px_2", Charged: new(false)}, h.answer(e, "--not-charged", "px_2"))
	again := h.answer(e, "--not-charged --send-again", "px_3")
	h.booksAs(desk.Resolution{ID: id, ProxyID: "px_3", Charged: new(false), SendAgain: true}, again)
	h.until("the line was sent again", func() bool { return len(h.facts("operation.sending")) == 2 })
	sent, _ := h.facts("operation.sending")[1].(fact.OperationSending)
	if sent.OperationID != again.NewOperation || sent.Key != again.NewKey {
		t.Errorf("%+v was sent as %s under %s", again, sent.OperationID, sent.Key)
	}
	b, err := h.ledger.Money.Balance(t.Context(), "main")
	check(t, err)
	if b.SuspenseCents != 0 {
		t.Errorf("in suspense: %d", b.SuspenseCents)
	}
	claimed, err := h.ledger.Operations.Claimed(t.Context())
	check(t, err)
	if claimed["px_1"] || claimed["px_2"] {
		t.Errorf("still claimed: %v", claimed)
	}
	_, err = h.ledger.Verify(t.Context())
	check(t, err)
}

func TestEvidenceOfAWholeRenewal(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "unresolved_record", map[string]any{"executed": false})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	id := h.await("keep", fact.StateReview).Operations[0].OperationID
	e := h.evidence(id)
	h.judged(e, inspect.VerdictNone, "No sign of a charge: no expiry has moved. That does not prove")
	again := h.answer(e, "--not-charged --send-again", "")
	if len(again.Bookings) != 0 || again.NewKey == "" || again.NewKey == e.IdempotencyKey {
		t.Errorf("%+v", again)
	}
	h.booksAs(desk.Resolution{ID: id, Charged: new(false), SendAgain: true}, again)
	h.until("it was renewed", func() bool { return len(h.facts("renewal.completed")) == 1 })
	sends := h.facts("operation.sending")
	if sent, _ := sends[len(sends)-1].(fact.OperationSending); sent.Key != again.NewKey {
		t.Errorf("sent under %s and announced %s", sent.Key, again.NewKey)
	}
	h.settled(600, 0)
}

// The amount of an answer for a whole renewal is divided among its lines. Their prices are
// then known, and each line's cost can be compared.
func TestAnAnswerForARenewalIsSharedAmongItsLines(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "unresolved_record", map[string]any{"executed": true})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	id := h.await("keep", fact.StateReview).Operations[0].OperationID
	h.judged(h.evidence(id), inspect.VerdictCharged, "Likely charged: both expiries moved by 30 days; what it cost is not known.")
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 601, ConfirmCents: new(int64(601)), By: "ada", Reason: "the invoice"}))
	for proxy, want := range map[string]int64{"px_1": 301, "px_2": 300} {
		if paid, err := h.ledger.Fleet.PaidPerDay(t.Context(), proxy); err != nil || paid.Cents != want || paid.Days != 30 {
			t.Errorf("%s: paid %+v, %v", proxy, paid, err)
		}
	}
	sums, err := h.ledger.Money.RenewalSums(t.Context(), id)
	check(t, err)
	if !sums.ByLine || sums.Differ() != 0 || sums.LineChargedCents != 601 {
		t.Errorf("%+v", sums)
	}
	end, ok := h.awaitFact("command.finished").(fact.CommandFinished)
	if !ok || *end.Lines[0].ChargedCents != 301 || *end.Lines[1].ChargedCents != 300 {
		t.Errorf("%+v", end.Lines)
	}
	_, err = h.ledger.Verify(t.Context())
	check(t, err)
}

// Exports trace each amount to its proxy.
func TestAnAnswerOfNoChargeReturnsTheSuspenseOfEachProxy(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "renewal", map[string]any{"unresolved": []string{"px_1", "px_2"}})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	id := h.await("keep", fact.StateReview).Operations[0].OperationID
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(false), AgainstEvidence: true, By: "ada", Reason: "the support says so"}))
	left := map[string]int64{}
	check(t, h.ledger.Report().Transfers(t.Context(), report.Period{}, func(m report.Transfer) error {
		switch "suspense" {
		case m.Debit:
			left[m.ProxyID] += m.Cents
		case m.Credit:
			left[m.ProxyID] -= m.Cents
		}
		return nil
	}))
	if len(left) != 2 || left["px_1"] != 0 || left["px_2"] != 0 {
		t.Errorf("in suspense by proxy: %v", left)
	}
	if _, err := h.record(desk.Recording{CorrectsSeq: h.answeredRow()}); err == nil || !strings.Contains(err.Error(), "booked no charge, so there is nothing to take back") {
		t.Errorf("%v", err)
	}
	_, err := h.ledger.Verify(t.Context())
	check(t, err)
}

// An answer below the amount in suspense is divided in proportion to the lines' suspense.
func TestAnAnswerBelowSuspenseIsSharedByIt(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "renewal", map[string]any{"unresolved": []string{"px_1", "px_2"}})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	id := h.await("keep", fact.StateReview).Operations[0].OperationID
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 301, By: "ada", Reason: "the invoice"}))
	b, err := h.ledger.Money.Balance(t.Context(), "main")
	check(t, err)
	lines, err := h.ledger.Operations.Lines(t.Context(), id)
	check(t, err)
	if b.SuspenseCents != 0 || b.ChargedCents != 600 || b.RefundedCents != 299 || lines[0].ChargedCents != 300 ||
		lines[0].RefundedCents+lines[1].RefundedCents != 299 || lines[0].RefundedCents < 149 || lines[1].RefundedCents < 149 {
		t.Errorf("%+v %+v", b, lines)
	}
	_, err = h.ledger.Verify(t.Context())
	check(t, err)
}

func TestEvidenceWithoutARunnerIsTheLedgersAlone(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "unresolved_record", map[string]any{"executed": true})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	id := h.await("keep", fact.StateReview).Operations[0].OperationID
	e, err := inspect.CollectEvidence(t.Context(), h.ledger, nil, id)
	check(t, err)
	h.judged(e, inspect.VerdictUnknown, "Undecided: no runner answers")
	if len(e.Notes) != 1 || !strings.Contains(e.Notes[0], "ledger alone") || len(e.History) == 0 || len(e.Answers) != 3 || e.Expiries[0].Now != nil {
		t.Errorf("%+v", e)
	}
}

// Without a limit no price was read, so a cost of 0 must not be proposed.
func TestEvidenceProposesNoAmountThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault("/api/v1/proxies/renew", "unresolved_record", map[string]any{"executed": true})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	e := h.evidence(h.await("keep", fact.StateReview).Operations[0].OperationID)
	if a := h.answer(e, "--charged AMOUNT", ""); len(a.Bookings) != 0 {
		t.Errorf("%+v", a)
	}
}

// The answers for the only proxy equal those for the whole renewal, so they are not listed
// again.
func TestARenewalOfOneProxyIsAnsweredAsAWhole(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "renewal", map[string]any{"unresolved": []string{"px_1"}})
	h.renew(`{"id":"one","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("one", fact.StateReview)
	e := h.evidence("one/0001")
	for _, a := range e.Answers {
		if a.ProxyID != "" {
			t.Errorf("%+v", a)
		}
	}
	if len(e.Answers) != 3 || e.Suspense() != 300 || e.ChargedCents != 300 {
		t.Errorf("%d in suspense, %d answers: %+v", e.Suspense(), len(e.Answers), e.Answers)
	}
}

// The charge of the operation itself is not another's.
func TestTheEvidenceTellsWhatOthersBooked(t *testing.T) {
	t.Parallel()
	own := inspect.Evidence{WalletBefore: &tables.Reconciled{}, WalletNow: &inspect.WalletRead{LedgerCents: 9_000}}
	own.WalletBefore.ProviderCents = 10_000
	if got := own.OthersSince(); got != 1000 {
		t.Errorf("%d while nothing of it is booked", got)
	}
	if own.ChargedCents = 700; own.OthersSince() != 300 {
		t.Errorf("%d when 700 of it are booked", own.OthersSince())
	}
	if own.WalletNow = nil; own.OthersSince() != 0 {
		t.Errorf("%d without a wallet", own.OthersSince())
	}
}

// unfinished is a provider that shows orders in a status that the API document does not name.
type unfinished struct {
	*upstream.Client

	held atomic.Bool
}

func (p *unfinished) Order(ctx context.Context, no string) (upstream.Order, error) {
	o, err := p.Client.Order(ctx, no)
	if p.held.Load() {
		o.Status, o.PollAfterSeconds, o.Proxies = "on_hold", new(int64(1)), nil
		o.Delivery.Complete, o.Delivery.Available, o.Delivery.DeliveredCount = false, false, 0
	}
	return o, err
}

// An order that needed review may be delivered before a person looks.
func TestEvidenceShowsWhatBecameOfTheOrder(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	provider := &unfinished{Client: h.client}
	provider.held.Store(true)
	h.bind(func(c *Config) { c.Provider = provider })
	h.start()
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}],"sandbox_scenario":"success"}`)
	o := h.await("buy", fact.StateReview).Operations[0]
	if want := `the order is not delivered and not refunded, and the API document does not name its status, "on_hold"`; o.Reason != want {
		t.Errorf("%q, want %q", o.Reason, want)
	}
	h.judged(h.evidence(o.OperationID), inspect.VerdictUnknown, `(status "on_hold" now): total 6.00 USD, refund none, 0 of 2 delivered`)
	provider.held.Store(false)
	h.until("the order is delivered", func() bool {
		order, err := provider.Order(t.Context(), o.OrderNo)
		return err == nil && order.Delivery.Complete
	})
	h.judged(h.evidence(o.OperationID), inspect.VerdictCharged, "Likely charged: order "+o.OrderNo)
	not := desk.Resolution{ID: o.OperationID, Charged: new(false), By: "ada", Reason: "it was on hold"}
	if err := h.runner.Resolve(t.Context(), not); err == nil || !strings.Contains(err.Error(), "order "+o.OrderNo+" is delivered") {
		t.Errorf("answered against the evidence: %v", err)
	}
	provider.held.Store(true)
	check(t, h.runner.Resolve(t.Context(), not))
	provider.held.Store(false)
	if n, err := h.runner.Retry(t.Context(), "buy", "ada", "once more"); err == nil || n != 0 {
		t.Errorf("the delivered order is bought again: %d, %v", n, err)
	}
}
