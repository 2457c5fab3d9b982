package jobs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"perennial/jobs/decide"
	"perennial/jobs/desk"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// wallet spends (negative) or adds cents at the provider, outside Perennial.
func (h *rig) wallet(cents int64) {
	h.t.Helper()
	h.control("/wallet", map[string]any{"account_id": sandbox.DemoAccountID, "environment": "sandbox", "add_cents": cents})
}

func (h *rig) reconcile() reconcile.Reconciliation {
	h.t.Helper()
	x, err := h.runner.Reconcile(h.t.Context())
	check(h.t, err)
	return x
}

// agrees reconciles and fails the test if anything differs.
func (h *rig) agrees() reconcile.Reconciliation {
	h.t.Helper()
	x := h.reconcile()
	if !x.Agrees() || len(x.Findings) > 0 {
		h.t.Fatalf("books and provider should agree: %+v", x)
	}
	return x
}

// finds reconciles and fails the test unless there is exactly one finding, of this kind and
// amount.
func (h *rig) finds(kind string, cents int64) reconcile.Finding {
	h.t.Helper()
	x := h.reconcile()
	var of []reconcile.Finding
	for _, f := range x.Findings {
		if f.Kind == kind {
			of = append(of, f)
		}
	}
	if x.Agrees() || len(of) != 1 || of[0].AmountCents != cents || of[0].Explanation == "" {
		h.t.Fatalf("there should be one %s of %d cents: %+v", kind, cents, x)
	}
	return of[0]
}

func (h *rig) record(x desk.Recording) (ledger.Record, error) {
	h.t.Helper()
	x.By, x.Reason = "ada", "seen at the provider's site"
	r, _, err := desk.Record(h.t.Context(), h.ledger, x, h.client.Order)
	return r, err
}

func (h *rig) recorded(x desk.Recording) {
	h.t.Helper()
	_, err := h.record(x)
	check(h.t, err)
}

func TestTrap24SpendingElsewhereIsFoundAndNotCorrected(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("keep", fact.StateCompleted)
	if x := h.agrees(); !x.Quiet || x.Wallet.ProviderCents != x.Wallet.BookCents || x.Renewals != 1 {
		t.Errorf("%+v", x)
	}
	before, err := h.ledger.Money.Balance(t.Context(), "main")
	check(t, err)
	h.wallet(-700)
	if f := h.finds("wallet", -700); !strings.Contains(f.Explanation, "record --kind external") {
		t.Errorf("%+v", f)
	}
	if after, err := h.ledger.Money.Balance(t.Context(), "main"); err != nil || after.WalletCents != before.WalletCents || after.ExternalCents != 0 {
		t.Errorf("the books were changed from %+v to %+v: %v", before, after, err)
	}
	h.recorded(desk.Recording{Kind: "external", Cents: 700})
	h.agrees()
	h.settled(300, 0)
}

func TestTrap24ATopUpIsFoundAndNotCorrected(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.wallet(2500)
	f := h.finds("wallet", 2500)
	h.finds("wallet", 2500)
	told, _ := h.awaitFact("ledger.discrepancy").(fact.LedgerDiscrepancy)
	if n := len(h.facts("ledger.discrepancy")); n != 1 || told.AmountCents != 2500 || told.Finding != "wallet" || told.Explanation != f.Explanation {
		t.Errorf("told %d times: %+v", n, told)
	}
	h.restart()
	h.finds("wallet", 2500)
	if n := len(h.facts("ledger.discrepancy")); n != 1 {
		t.Errorf("after a restart the same finding was published again: %d", n)
	}
	if n := len(h.facts("ledger.reconciled")); n != 0 {
		t.Errorf("%d agreements with a difference", n)
	}
	h.recorded(desk.Recording{Kind: "top-up", Cents: 2500})
	h.agrees()
	h.wallet(2500) // as much again is another finding
	h.finds("wallet", 2500)
	if told, agreed := len(h.facts("ledger.discrepancy")), len(h.facts("ledger.reconciled")); told != 2 || agreed != 1 {
		t.Errorf("%d differences and %d agreements were told", told, agreed)
	}
}

// A read may predate the last bookings. A balance that the books did not have at any recent
// time is a finding immediately, and so is a difference that persists.
func TestAWalletThatIsShownLateIsNoFinding(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	for _, id := range []string{"a", "b"} {
		h.order(`{"id":"` + id + `","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
		h.await(id, fact.StateDelivered)
	}
	before, said := int64(500_000), int64(0)
	c := h.reconciler(&retold{Client: h.client, wallet: func(w *upstream.Wallet) { w.BalanceCents, w.Balance = said, "" }}, 0)
	for _, cents := range []int64{before, before - 300} {
		said = cents
		if x := h.pass(c); x.OK != nil || len(x.Findings) > 0 || !x.Wallet.Late || x.Compared.Wallet {
			t.Errorf("%d: %+v", cents, x)
		}
	}
	h.recorded(desk.Recording{Kind: "charge", OperationID: "a/1", Cents: 20})
	said = before
	if x := h.pass(c); x.OK == nil || *x.OK || len(x.Findings) != 1 || x.Findings[0].Kind != decide.FindingTotal {
		t.Errorf("a finding of something else was lost: %+v", x)
	}
	h.recorded(desk.Recording{Kind: "refund", OperationID: "a/1", Cents: 20})
	said = before - 299
	if x := h.pass(c); len(x.Findings) != 1 || x.Findings[0].AmountCents != 301 {
		t.Errorf("%+v", x)
	}
	h.ahead.Store(int64(11 * time.Minute))
	said = before
	if x := h.pass(c); len(x.Findings) != 1 || x.Findings[0].AmountCents != 600 {
		t.Errorf("after ten minutes: %+v", x)
	}
}

// The provider's wallet never follows an operator's correction of the books, so the difference
// is a finding immediately.
func TestAWrongCorrectionIsNoWalletThatIsShownLate(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.order(`{"id":"a","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.await("a", fact.StateDelivered)
	top, err := h.record(desk.Recording{Kind: "top-up", Cents: 2500})
	check(t, err)
	h.ahead.Store(int64(11 * time.Minute))
	h.recorded(desk.Recording{CorrectsSeq: top.Seq})
	said := int64(500_000 - 300 + 2500)
	c := h.reconciler(&retold{Client: h.client, wallet: func(w *upstream.Wallet) { w.BalanceCents, w.Balance = said, "" }}, 0)
	if x := h.pass(c); x.Wallet.Late || len(x.Findings) != 1 || x.Findings[0].AmountCents != 2500 {
		t.Errorf("%+v", x)
	}
}

// Published findings are not published again afterwards, and missing money is still missing.
func TestAWalletThatIsShownLateEndsNoFinding(t *testing.T) {
	t.Parallel()
	for _, off := range []int64{7, -7} {
		h := idleRig(t)
		said := int64(500_000)
		h.bind(func(c *Config) {
			c.Provider = &retold{Client: h.client, wallet: func(w *upstream.Wallet) { w.BalanceCents, w.Balance = said, "" }}
		})
		h.start()
		h.order(`{"id":"a","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
		h.await("a", fact.StateDelivered)
		for _, cents := range []int64{499_700 + off, 500_000, 499_700 + off} {
			said = cents
			if x := h.reconcile(); x.Agrees() || off < 0 && len(x.Findings) != 1 {
				t.Errorf("off by %d, said %d: %+v", off, cents, x)
			}
		}
		if told := h.facts("ledger.discrepancy"); len(told) != 1 {
			t.Errorf("off by %d: told %d times", off, len(told))
		}
	}
}

func TestTrap24FrozenCentsAreNotInterpreted(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.bind(func(c *Config) {
		c.Provider = impostor{h.client, nil, func(w *upstream.Wallet) { w.FrozenCents = 4000 }}
	})
	h.start()
	h.agrees()
}

func TestTrap24AnOutsideOrderIsReportedUntilRecorded(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.await("buy", fact.StateDelivered)
	h.agrees()
	made, err := h.client.CreateOrder(t.Context(), "by-hand", upstream.OrderRequest{DurationDays: 30, Items: []upstream.OrderItem{{OfferCode: "off_us_dallas", Quantity: 2}}})
	check(t, err)
	f := h.finds("outside_order", 600)
	if f.OrderNo != made.OrderNo || f.OperationID != "" || !strings.Contains(f.Explanation, "--order "+made.OrderNo) {
		t.Errorf("%+v", f)
	}
	if w := h.finds("wallet", -600); !strings.Contains(w.Explanation, made.OrderNo) {
		t.Errorf("the wallet's finding does not name the order that explains it: %+v", w)
	}
	h.recorded(desk.Recording{Kind: "external", Cents: 500, OrderNo: made.OrderNo})
	h.finds("outside_order", 100)
	h.recorded(desk.Recording{Kind: "external", Cents: 150, OrderNo: made.OrderNo})
	if f := h.finds("outside_order", -50); !strings.Contains(f.Explanation, "--kind top-up --cents 50") {
		t.Errorf("too much was recorded, and the advice is %q", f.Explanation)
	}
	h.recorded(desk.Recording{Kind: "top-up", Cents: 50, OrderNo: made.OrderNo})
	h.agrees()
}

// The order is reported while its cost is unknown, and no advice includes an amount.
func TestAnOrderWithoutATotalIsNotFree(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	p := &altered{h.client, func(o *upstream.Order) { o.TotalCents = nil }}
	h.bind(func(c *Config) { c.Provider = p })
	h.start()
	no := h.bought("by-hand", "off_us_dallas", 2)
	if f := h.finds("outside_order", 0); f.OrderNo != no || strings.Contains(f.Explanation, "0.00") || strings.Contains(f.Explanation, "record") || !strings.Contains(f.Explanation, "no total") {
		t.Errorf("%+v", f)
	}
	p.to = nil
	h.finds("outside_order", 600)
}

func TestOrdersOlderThanTheLedgerAreInItsOpeningBalance(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	check(t, h.ledger.Close())
	h.control("/clock", map[string]any{"offset_seconds": -120})
	_, err := h.client.CreateOrder(t.Context(), "before", upstream.OrderRequest{DurationDays: 30, Items: []upstream.OrderItem{{OfferCode: "off_us_dallas", Quantity: 2}}})
	check(t, err)
	h.control("/clock", map[string]any{"offset_seconds": 0})
	h.path += ".new"
	h.openLedger()
	h.bind()
	h.start()
	h.agrees()
}

// An operation of unknown outcome and price may have cost any amount, but cannot have returned
// money.
func TestAnIntervalHoldsWhatIsUnderWayAndNothingElse(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "unresolved_record", map[string]any{"executed": true})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	id := h.await("keep", fact.StateReview).Operations[0].OperationID
	x := h.agrees()
	if x.Quiet || x.Wallet.LowCents == nil || x.Wallet.HighCents == nil || len(x.Wallet.UnderWay) != 1 || x.Wallet.UnderWay[0] != id || len(x.Wallet.Unknown) > 0 || *x.Wallet.LowCents > 500_000-300 {
		t.Errorf("%+v", x)
	}
	h.wallet(500) // 300 were charged, so the wallet is 200 over what can be
	if f := h.finds("wallet", 200); !strings.Contains(f.Explanation, id) {
		t.Errorf("%+v", f)
	}
	h.wallet(-500)
	h.agrees()
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 300, ConfirmCents: new(int64(300)), By: "ada", Reason: "the provider's support said so"}))
	if x := h.agrees(); !x.Quiet {
		t.Errorf("nothing is in progress any more: %+v", x)
	}
	h.settled(300, 0)
}

// Missing money is found while operations of unknown price are open, because their prices have
// a bound. Without a bound nothing agrees and nothing is explained.
func TestAWalletThatCannotBeComparedDoesNotAgree(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	var hidden atomic.Bool // the offers
	provider := func(c *Config) { c.Provider = &withoutOffers{h.client, &hidden} }
	h.bind(provider)
	h.start()
	h.fault(renew, "unresolved_record", map[string]any{"executed": true})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	id := h.await("keep", fact.StateReview).Operations[0].OperationID
	h.wallet(-40_000)
	x := h.reconcile()
	if x.OK == nil || *x.OK || len(x.Findings) != 1 || x.Findings[0].Kind != decide.FindingWallet || x.Findings[0].AmountCents > -39_000 {
		t.Fatalf("%+v", x)
	}
	found := x.Findings[0].AmountCents
	hidden.Store(true)
	h.restart(provider)
	x = h.reconcile() // what was published stays
	if x.OK == nil || *x.OK || len(x.Findings) != 1 || x.Findings[0].AmountCents != found || x.Wallet.LowCents != nil || !slices.Equal(x.Wallet.Unknown, []string{id}) {
		t.Errorf("%+v", x)
	}
	h.reconcile()
	if n, m := len(h.facts("ledger.discrepancy")), len(h.facts("ledger.reconciled")); n != 1 || m != 0 {
		t.Errorf("%d findings and %d agreements were published", n, m)
	}
	f, ok := h.awaitFact("ledger.uncompared").(fact.LedgerUncompared)
	if n := len(h.facts("ledger.uncompared")); !ok || n != 1 || !slices.Equal(f.OperationIDs, []string{id}) || f.OperationsTotal != 1 {
		t.Errorf("%d facts: %+v", n, f)
	}
	hidden.Store(false)
	h.wallet(40_000)
	h.restart(provider)
	h.agrees()
	hidden.Store(true)
	h.restart(provider)
	if x := h.reconcile(); x.OK != nil || len(x.Findings) > 0 || h.runner.LastReconciliation().OK != nil {
		t.Errorf("%+v", x)
	}
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 300, ConfirmCents: new(int64(300)), By: "ada", Reason: "the invoice"}))
	h.agrees()
}

// withoutOffers is a provider that cannot list its offers while they are hidden.
type withoutOffers struct {
	*upstream.Client
	hidden *atomic.Bool
}

func (p *withoutOffers) OffersPage(ctx context.Context, f upstream.OfferFilter, r upstream.PageRequest) (upstream.Page[upstream.Offer], error) {
	if p.hidden.Load() {
		return upstream.Page[upstream.Offer]{}, &upstream.Error{Code: upstream.CodeInsufficientScope}
	}
	return p.Client.OffersPage(ctx, f, r)
}

func TestAnUnresolvedLineWidensTheIntervalByItsPossibleRefund(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "renewal", map[string]any{"unresolved": []string{"px_2"}})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	h.until("the renewal is settled", func() bool { return len(h.facts("renewal.partial"))+len(h.facts("operation.review")) > 0 })
	h.wallet(300)
	if x := h.agrees(); x.Quiet || *x.Wallet.HighCents != *x.Wallet.LowCents+300 {
		t.Errorf("%+v", x)
	}
	h.wallet(1)
	h.finds("wallet", 1)
	h.wallet(-302)
	h.finds("wallet", -1)
}

// held is a provider whose next replies wait until they are released.
type held struct {
	*upstream.Client
	wallet, post atomic.Pointer[hold]
}

type hold struct{ reached, release chan struct{} }

func newHold() *hold { return &hold{make(chan struct{}), make(chan struct{})} }

func (x *hold) pass() {
	if x != nil {
		close(x.reached)
		<-x.release
	}
}

func (p *held) Wallet(ctx context.Context) (upstream.Wallet, error) {
	p.wallet.Swap(nil).pass()
	return p.Client.Wallet(ctx)
}

func (p *held) Post(ctx context.Context, w upstream.Write) upstream.Reply {
	reply := p.Client.Post(ctx, w)
	p.post.Swap(nil).pass()
	return reply
}

// The wallet is compared to the cent although commands keep arriving.
func TestOnDemandNothingIsSentWhileTheWalletIsRead(t *testing.T) {
	t.Parallel()
	var p held
	h := idleRig(t)
	p.Client = h.client
	h.bind(func(c *Config) { c.Provider = &p })
	h.start()
	wallet := newHold()
	p.wallet.Store(wallet)
	done := make(chan reconcile.Reconciliation, 1)
	go func() {
		x, err := h.runner.Reconcile(context.Background())
		if err != nil {
			t.Error(err)
		}
		done <- x
	}()
	<-wallet.reached
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.until("both are accepted", func() bool { return len(h.facts("command.accepted")) == 2 })
	if n := len(h.facts("operation.sending")); n > 0 {
		t.Errorf("%d requests were begun while the wallet was read", n)
	}
	close(wallet.release)
	if x := <-done; !x.Agrees() || !x.Quiet {
		t.Errorf("%+v", x)
	}
	h.await("keep", fact.StateCompleted)
	h.await("buy", fact.StateDelivered)
	h.settled(600, 0)
}

func TestOnDemandTheWalletIsReadAfterRequestsFinish(t *testing.T) {
	t.Parallel()
	var p held
	h := idleRig(t)
	p.Client = h.client
	h.bind(func(c *Config) { c.Provider, c.SettleTimeout = &p, patience })
	closed := make(chan struct{})
	changed, once := h.runner.pauses.changed, sync.OnceFunc(func() { close(closed) })
	h.runner.pauses.changed = func() {
		changed()
		if h.runner.pauses.isClosed() {
			once()
		}
	}
	h.start()
	post := newHold()
	p.post.Store(post)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	<-post.reached
	wallet := newHold()
	p.wallet.Store(wallet)
	done := make(chan reconcile.Reconciliation, 1)
	go func() {
		x, err := h.runner.Reconcile(context.Background())
		if err != nil {
			t.Error(err)
		}
		done <- x
	}()
	<-closed
	close(post.release)
	<-wallet.reached
	if n := len(h.facts("renewal.completed")); n != 1 {
		t.Error("the wallet was read while a renewal was in progress")
	}
	close(wallet.release)
	if x := <-done; !x.Agrees() || !x.Quiet || x.Wallet.BookCents != x.Wallet.ProviderCents {
		t.Errorf("%+v", x)
	}
}

func TestItReconcilesOnItsSchedule(t *testing.T) {
	t.Parallel()
	h := newRig(t, func(c *Config) { c.ReconcileEvery = 20 * time.Millisecond })
	h.until("it has reconciled twice", func() bool { return len(h.facts("ledger.reconciled")) >= 2 })
	h.wallet(-40)
	told, _ := h.awaitFact("ledger.discrepancy").(fact.LedgerDiscrepancy)
	if told.AmountCents != -40 {
		t.Errorf("%+v", told)
	}
	h.recorded(desk.Recording{Kind: "external", Cents: 40})
	agreed := len(h.facts("ledger.reconciled"))
	h.until("it agrees again", func() bool { return len(h.facts("ledger.reconciled")) > agreed })
	if last := h.runner.LastReconciliation(); last.At.IsZero() || last.Failed != "" {
		t.Errorf("%+v", last)
	}
}

// The provider may show an old balance, so one pass proves nothing and two do.
func TestAWalletIsReadTwiceBeforeItsDifferenceIsTold(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	pass := func(facts int, suspect bool) {
		t.Helper()
		_, err := h.runner.reconcile(t.Context(), h.runner.scheduledReading, afterTwoPasses)
		check(t, err)
		if n := len(h.facts("ledger.discrepancy")); n != facts || h.runner.suspect != "" != suspect {
			t.Errorf("%d facts, suspected %q", n, h.runner.suspect)
		}
	}
	pass(0, false)
	h.wallet(40)
	pass(0, true)
	h.wallet(-40) // what was shown late is shown now
	pass(0, false)
	h.wallet(-40)
	pass(0, true)
	h.wallet(-1) // more is missing by now
	pass(1, false)
	pass(1, false)
}

func TestAPausedAccountIsNotReadFor(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	check(t, h.runner.PauseByHand(t.Context(), "ada", "maintenance"))
	if _, err := h.runner.Reconcile(t.Context()); err == nil || !strings.Contains(err.Error(), "paused") {
		t.Errorf("%v", err)
	}
	if last := h.runner.LastReconciliation(); last.Failed == "" || !last.At.IsZero() {
		t.Errorf("%+v", last)
	}
	h.resumes("ada", "done")
	h.agrees()
}

func TestARecordNeedsAnAmountANameAndAReason(t *testing.T) {
	h := idleRig(t)
	for name, x := range map[string]desk.Recording{
		"kind": {Kind: "gift", Cents: 1, By: "a", Reason: "b"}, "nothing": {Kind: "top-up", By: "a", Reason: "b"},
		"negative": {Kind: "top-up", Cents: -1, By: "a", Reason: "b"}, "too much": {Kind: "top-up", Cents: decide.MaxLineCents + 1, By: "a", Reason: "b"},
		"no name": {Kind: "top-up", Cents: 1, Reason: "b"}, "no reason": {Kind: "external", Cents: 1, By: "a"},
		"long": {Kind: "external", Cents: 1, By: "a", Reason: strings.Repeat("x", 501)},
	} {
		if _, booked, err := desk.Record(t.Context(), h.ledger, x, h.client.Order); booked || err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if n := len(h.facts("ledger.recorded")); n > 0 {
		t.Errorf("%d facts", n)
	}
}

// A wrong answer is more likely than a movement that no record explains.
func TestADifferenceOfTheWalletNamesTheAnswersBeforeIt(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "renewal", map[string]any{"unresolved": []string{"px_1"}})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("keep", fact.StatePartial, fact.StateReview)
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: "keep/0001", ProxyID: "px_1", Charged: new(true), ChargedCents: 300, By: "ada", Reason: "a guess"}))
	h.wallet(-50)
	if f := h.finds("wallet", -50); !strings.Contains(f.Explanation, "`perennial reviews correct ID` corrects a wrong answer: keep/0001 px_1 (charged 3.00 USD, by ada); the wallet holds") {
		t.Errorf("%+v", f)
	}
}

// Only scheduled passes are limited to the share of reads.
func TestAPersonsReconciliationIsNotHeldToTheShareOfReads(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.runner.share = rate.NewLimiter(0, 0) // nothing of it is left
	h.start()
	h.order(`{"id":"a","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.await("a", fact.StateDelivered)
	if _, err := h.runner.Reconcile(t.Context()); err != nil {
		t.Errorf("a person waits for the share: %v", err)
	}
	if _, err := h.runner.reconcile(t.Context(), h.runner.scheduledReading, afterTwoPasses); err == nil {
		t.Error("a pass of the schedule used more than its share")
	}
}

// An hour later, a proxy that was paid for but not renewed may have expired.
func TestAnAnswerIsComparedWhenTheProviderMustShowIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, answered := time.Now(), make(chan struct{}, 1)
		var at []time.Duration
		time.AfterFunc(55*time.Minute, func() { answered <- struct{}{} })
		time.AfterFunc(3*time.Hour, cancel)
		err := passes(ctx, time.Now, time.Minute, answered, func() time.Duration {
			at = append(at, time.Since(began))
			return time.Hour
		})
		want := []time.Duration{time.Minute, 61 * time.Minute, 55*time.Minute + reconcileAnswer, 55*time.Minute + reconcileAnswer + time.Hour, 55*time.Minute + reconcileAnswer + 2*time.Hour}
		if !errors.Is(err, context.Canceled) || !slices.Equal(at, want[:len(at)]) || len(at) < 4 {
			t.Errorf("passes at %v, want %v (%v)", at, want, err)
		}
	})
}
