package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"perennial/jobs/decide"
	"perennial/jobs/desk"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// handmade makes orders at the provider, outside Perennial.
func (h *rig) handmade(n int) (numbers []string) {
	h.t.Helper()
	for i := range n {
		made, err := h.client.CreateOrder(h.t.Context(), fmt.Sprintf("hand-%d", i), upstream.OrderRequest{DurationDays: 30, Items: []upstream.OrderItem{{OfferCode: "off_us_dallas", Quantity: 1}}})
		check(h.t, err)
		numbers = append(numbers, made.OrderNo)
	}
	return numbers
}

// More orders were made elsewhere, and recorded, than one pass may read. The ledger's own
// orders are still read in turn.
func TestOrdersMadeElsewhereDoNotKeepOursFromBeingRead(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.buys(1)
	const reads, passes = 20, 6
	for _, no := range h.handmade(25) {
		h.recorded(desk.Recording{Kind: "external", Cents: 300, OrderNo: no})
	}
	o, err := h.ledger.Operations.Operation(t.Context(), "buy-0/1")
	check(t, err)
	p := &retold{Client: h.client}
	c := h.reconciler(p, reads)
	ours := 0
	for range passes {
		p.read = nil
		x := h.pass(c)
		for _, no := range p.read {
			if no == o.OrderNo {
				ours++
			}
		}
		if !x.Agrees() || len(p.read) > reads || x.Compared.Outside > reads/2 {
			t.Errorf("%d details read: %+v", len(p.read), x)
		}
	}
	if ours < passes-2 {
		t.Errorf("in %d passes our order was read %d times", passes, ours)
	}
}

func TestEveryOrderMadeElsewhereIsNamedInTheEnd(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	numbers := h.handmade(40)
	c := h.reconciler(h.client, 20)
	named := map[string]bool{}
	for range 20 {
		x := h.pass(c)
		for _, f := range x.Findings {
			if f.Kind == decide.FindingOutside {
				named[f.OrderNo] = true
			}
		}
	}
	if len(named) != len(numbers) {
		t.Errorf("of %d orders %d were named", len(numbers), len(named))
	}
}

func TestAPassSaysWhatItCompared(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.buys(8)
	x := h.pass(h.reconciler(h.client, 4))
	if !x.Agrees() || x.Compared.Left == 0 || x.Compared.Orders == 0 || x.Compared.Orders >= 8 || !x.Compared.Wallet {
		t.Errorf("%+v", x)
	}
	c := h.reconciler(h.client, 0)
	if x := h.pass(c); x.Compared != (reconcile.Compared{Orders: 8, Wallet: true}) {
		t.Errorf("%+v", x)
	}
}

// moves makes the provider show px_1 with its expiry before the renewal plus a duration.
func (h *rig) moves(by time.Duration) *retold {
	h.t.Helper()
	before, err := h.client.Proxy(h.t.Context(), "px_1")
	check(h.t, err)
	return &retold{Client: h.client, proxy: func(p *upstream.Proxy) error {
		if p.ProxyID == "px_1" {
			at := before.ExpiresAt.Add(by)
			p.ExpiresAt = &at
		}
		return nil
	}}
}

func TestAnExpiryThatMovedByLessThanPaidIsReported(t *testing.T) {
	t.Parallel()
	// The proxy had a day left. The API does not say when the paid days begin.
	for days, found := range map[int]bool{0: true, 30: true, 87: true, 89: false, 90: false, 120: false} {
		t.Run(fmt.Sprint(days), func(t *testing.T) {
			h := idleRig(t)
			h.oneClock()
			h.bind(func(c *Config) { c.Provider = h.client })
			h.start()
			p := h.moves(time.Duration(days)*24*time.Hour + time.Minute)
			h.renew(`{"id":"one","duration_days":90,"proxy_ids":["px_1"]}`)
			h.await("one", fact.StateCompleted)
			h.later(20 * time.Minute)
			x := h.pass(h.reconciler(p, 0))
			if got := len(x.Findings) == 1 && x.Findings[0].Kind == decide.FindingNotMoved; got != found || x.Agrees() == found {
				t.Errorf("%+v", x)
			}
		})
	}
}

func TestALineThatAPersonResolvedIsSeenToMove(t *testing.T) {
	t.Parallel()
	h, id := unresolved(t, false)
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 300, ConfirmCents: new(int64(300)), By: "ada", Reason: "the invoice says so"}))
	h.later(20 * time.Minute)
	x := h.pass(h.reconciler(h.client, 0))
	for _, f := range x.Findings {
		if f.Kind == decide.FindingNotMoved && f.ProxyID == "px_1" {
			return
		}
	}
	t.Errorf("%+v", x.Findings)
}

// A renewal at the provider's own site and a top-up of the same amount leave the wallet
// unchanged.
func TestTrap24ARenewalAndATopUpDoNotCancelOut(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.listed()
	h.agrees()
	_, err := h.client.Renew(t.Context(), "by-hand", upstream.RenewRequest{ProxyIDs: []string{"px_2"}, DurationDays: 30})
	check(t, err)
	h.wallet(300)
	h.listed()
	if f := h.finds(decide.FindingRenewed, 0); f.ProxyID != "px_2" || f.Amount("USD") != "unknown" || !strings.Contains(f.Explanation, "30 days") {
		t.Errorf("%+v", f)
	}
	h.recorded(desk.Recording{Kind: "external", Cents: 300})
	h.recorded(desk.Recording{Kind: "top-up", Cents: 300})
	h.agrees()
	h.renew(`{"id":"ours","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("ours", fact.StateCompleted)
	h.listed()
	h.agrees()
}

// The provider renewed and charged, and an operator answered that it had not.
func TestTrap24AWrongAnswerThatNothingWasChargedIsNamed(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.listed()
	h.fault(renew, "unresolved_record", map[string]any{"executed": true})
	h.renew(`{"id":"one","duration_days":30,"proxy_ids":["px_1"]}`)
	id := h.await("one", fact.StateReview).Operations[0].OperationID
	h.listed()
	for _, f := range h.reconcile().Findings {
		if f.Kind == decide.FindingRenewed {
			t.Errorf("the review may explain it: %+v", f)
		}
	}
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(false), AgainstEvidence: true, By: "ada", Reason: "a mistake"}))
	h.wallet(300) // so that the wallet does not show it
	if f := h.finds(decide.FindingRenewed, 0); f.ProxyID != "px_1" || !strings.Contains(f.Explanation, "by 30 days") {
		t.Errorf("%+v", f)
	}
}

// The runner was stopped for days. Earlier settlements are still checked afterwards.
func TestSettlementsOlderThanADayAreCheckedAfterARestart(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.oneClock()
	h.bind(func(c *Config) { c.Provider = h.client })
	h.start()
	h.agrees()
	p := h.moves(time.Minute)
	h.renew(`{"id":"one","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("one", fact.StateCompleted)
	h.halt()
	filler := make([]fact.Fact, 600) // a time is looked up by every 256th row
	for i := range filler {
		filler[i] = fact.RunnerStarted{Version: "test", Holder: "test"}
	}
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Append(filler...) }))
	h.later(60 * time.Hour)
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Append(filler...) }))
	x := h.pass(h.reconciler(p, 0))
	if len(x.Findings) != 1 || x.Findings[0].Kind != decide.FindingNotMoved {
		t.Errorf("%+v", x)
	}
}
