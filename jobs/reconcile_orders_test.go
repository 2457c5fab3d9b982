package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/jobs/decide"
	"perennial/jobs/desk"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// retold is a provider whose orders and proxies a test changes.
type retold struct {
	*upstream.Client
	order  func(*upstream.Order) error
	proxy  func(*upstream.Proxy) error
	wallet func(*upstream.Wallet)
	read   []string // order numbers, as they were asked for
}

func (p *retold) Order(ctx context.Context, no string) (upstream.Order, error) {
	p.read = append(p.read, no)
	o, err := p.Client.Order(ctx, no)
	if err == nil && p.order != nil {
		err = p.order(&o)
	}
	return o, err
}

func (p *retold) Wallet(ctx context.Context) (upstream.Wallet, error) {
	w, err := p.Client.Wallet(ctx)
	if p.wallet != nil {
		p.wallet(&w)
	}
	return w, err
}

func (p *retold) Proxy(ctx context.Context, id string) (upstream.Proxy, error) {
	x, err := p.Client.Proxy(ctx, id)
	if err == nil && p.proxy != nil {
		err = p.proxy(&x)
	}
	return x, err
}

// reconciler returns a Reconciler that reads through p, with this many requests per pass.
func (h *rig) reconciler(p reconcile.Statements, reads int) *reconcile.Reconciler {
	return reconcile.NewReconciler(reconcile.ReconcilerConfig{
		Account: "main", Ledger: h.ledger, Statements: p, Binding: h.runner.Binding(), Clock: h.now, Reads: reads,
	})
}

func (h *rig) pass(c *reconcile.Reconciler) reconcile.Reconciliation {
	h.t.Helper()
	x, err := c.Reconcile(h.t.Context(), nil)
	check(h.t, err)
	return x
}

func (h *rig) buys(n int) {
	h.t.Helper()
	for i := range n {
		h.order(fmt.Sprintf(`{"id":"buy-%d","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`, i))
	}
	for i := range n {
		h.await(fmt.Sprintf("buy-%d", i), fact.StateDelivered)
	}
}

func notFoundError(code upstream.Code) error {
	return &upstream.Error{Code: code, TraceID: "tr_x"}
}

// Any later change of a booked amount at the provider is a finding of that amount.
func TestTrap19AnOrdersMoneyIsComparedWithAFreshRead(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.buys(1)
	cents, now := func(n int64) *int64 { return &n }, time.Now()
	refund := func(amount int64, currency string, at *time.Time) func(*upstream.Order) error {
		return func(o *upstream.Order) error {
			o.Refund = &upstream.Refund{Status: "whatever", AmountCents: &amount, Currency: currency, RefundedAt: at}
			return nil
		}
	}
	for name, c := range map[string]struct {
		change func(*upstream.Order) error
		kind   string
		amount int64
	}{
		"the same":                {func(*upstream.Order) error { return nil }, "", 0},
		"a refund came later":     {refund(120, "USD", &now), "order_refund", 120},
		"more than the charge":    {refund(500, "USD", &now), "refund_amount", 500},
		"a refund in other money": {refund(120, "EUR", &now), "refund_currency", 0},
		"a refund without a date": {refund(120, "USD", nil), "", 0},
		"a refund of nothing":     {refund(0, "USD", &now), "", 0},
		"another total":           {func(o *upstream.Order) error { o.TotalCents, o.Total = cents(350), "3.50"; return nil }, "order_total", 50},
		"no cost":                 {func(o *upstream.Order) error { o.TotalCents, o.Total = cents(0), "0"; return nil }, "order_total", -300},
		"other money":             {func(o *upstream.Order) error { o.Currency = "EUR"; return nil }, "order_currency", 0},
		"a total as other text":   {func(o *upstream.Order) error { o.Total = "300"; return nil }, "", 0},
		"unknown":                 {func(*upstream.Order) error { return notFoundError(upstream.CodeOrderNotFound) }, "order_missing", -300},
	} {
		t.Run(name, func(t *testing.T) {
			reconciler := h.reconciler(&retold{Client: h.client, order: c.change}, 0)
			x := h.pass(reconciler)
			if c.kind == "order_missing" { // not shown yet, for ten minutes
				if len(x.Findings) > 0 || x.Compared.Left != 1 {
					t.Errorf("%+v", x)
				}
				h.ahead.Store(int64(11 * time.Minute))
				defer h.ahead.Store(0)
				x = h.pass(reconciler)
			}
			if c.kind == "" && (!x.Agrees() || x.Orders != 1) {
				t.Errorf("%+v", x)
			}
			if c.kind != "" && (len(x.Findings) != 1 || x.Findings[0].Kind != c.kind || x.Findings[0].AmountCents != c.amount ||
				x.Findings[0].OperationID != "buy-0/1" || x.Findings[0].OrderNo == "" || x.Findings[0].Explanation == "") {
				t.Errorf("%+v", x.Findings)
			}
		})
	}
	h.settled(300, 0)
	// An operator's record also explains an order that the provider no longer has.
	o, err := h.ledger.Operations.Operation(t.Context(), "buy-0/1")
	check(t, err)
	h.recorded(desk.Recording{Kind: "top-up", Cents: 300, OrderNo: o.OrderNo})
	x := h.pass(h.reconciler(&retold{Client: h.client, order: func(*upstream.Order) error { return notFoundError(upstream.CodeOrderNotFound) }}, 0))
	if slices.ContainsFunc(x.Findings, func(f reconcile.Finding) bool { return f.Kind == decide.FindingMissing }) {
		t.Errorf("%+v", x.Findings)
	}
}

func TestAnOrderThatDiffersIsReadAgainUntilItAgrees(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.buys(1)
	wrong := true
	p := &retold{Client: h.client, order: func(o *upstream.Order) error {
		if wrong {
			*o.TotalCents, o.Total = 301, "3.01"
		}
		return nil
	}}
	c := h.reconciler(p, 0)
	for range 3 {
		if x := h.pass(c); len(x.Findings) != 1 {
			t.Fatalf("%+v", x)
		}
	}
	wrong = false
	if x := h.pass(c); !x.Agrees() {
		t.Errorf("%+v", x)
	}
}

// With few requests per pass, the older orders are read one after another, and none is left
// out.
func TestEveryOrderIsReadInTurn(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.buys(9)
	p := &retold{Client: h.client}
	c := h.reconciler(p, 8)
	read := map[string]bool{}
	passes := 0
	for ; passes < 20 && len(read) < 9; passes++ {
		p.read = nil
		x := h.pass(c)
		if !x.Agrees() || len(p.read) > 8 {
			t.Fatalf("%d orders were read in one pass: %+v", len(p.read), x)
		}
		for _, no := range p.read {
			read[no] = true
		}
	}
	if len(read) != 9 || passes < 2 {
		t.Errorf("%d of 9 orders after %d passes", len(read), passes)
	}
	c.ChangedSeq, c.Sticky = 1<<40, map[string]bool{} // only the turn is left
	p.read = nil
	for range 12 {
		h.pass(c)
	}
	slices.Sort(p.read)
	if len(slices.Compact(p.read)) != 9 {
		t.Errorf("the turn read %d of 9", len(slices.Compact(p.read)))
	}
}

// The polls of the order decide when it is read next.
func TestTrap26AnOrderThatIsPolledIsNotReadEarlier(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	p := &retold{Client: h.client}
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}],"sandbox_scenario":"delayed"}`)
	h.until("the order has a number", func() bool { return len(h.facts("order.accepted")) > 0 })
	o, err := h.ledger.Operations.Operation(t.Context(), "buy/1")
	check(t, err)
	x := h.pass(h.reconciler(p, 0))
	if again, _ := h.ledger.Operations.Operation(t.Context(), "buy/1"); again.State == fact.StateOpen && slices.Contains(p.read, o.OrderNo) {
		t.Errorf("an open order was read: %v", p.read)
	}
	if len(x.Findings) > 0 {
		t.Errorf("%+v", x)
	}
	h.await("buy", fact.StateDelivered)
}

func TestAnUnknownOrderBelongsToTheOperationInReview(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(orders, "unresolved_record", map[string]any{"executed": true})
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}]}`)
	id := h.await("buy", fact.StateReview).Operations[0].OperationID
	if f := h.finds("outside_order", 600); f.OperationID != id || !strings.Contains(f.Explanation, id) {
		t.Errorf("%+v", f)
	}
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 600, By: "ada", Reason: "it is in the list of orders"}))
	h.agrees()
	h.settled(600, 0)
}

func TestARenewedExpiryThatDoesNotMoveIsAFinding(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	due := time.Now().Add(240 * time.Hour).UTC().Format(time.RFC3339)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"],"due_before":"` + due + `"}`)
	lines := h.await("keep", fact.StateCompleted).Operations[0].Lines
	old := lines[0].ObservedExpiresAt
	p := &retold{Client: h.client, proxy: func(x *upstream.Proxy) error {
		if x.ProxyID == "px_1" {
			x.ExpiresAt = old
		}
		return nil
	}}
	c := h.reconciler(p, 0)
	if x := h.pass(c); !x.Agrees() {
		t.Errorf("the provider has ten minutes to show it: %+v", x)
	}
	h.ahead.Store(int64(11 * time.Minute))
	for range 2 {
		x := h.pass(c)
		if len(x.Findings) != 1 || x.Findings[0].Kind != "expiry_not_moved" || x.Findings[0].ProxyID != "px_1" || x.Findings[0].OperationID != "keep/0001" || x.Findings[0].AmountCents != 300 {
			t.Fatalf("%+v", x)
		}
	}
	p.proxy = nil
	if x := h.pass(c); !x.Agrees() {
		t.Errorf("it has moved: %+v", x)
	}
}

func TestAnExpiryThatAListingSawMoveIsNotReread(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	due := time.Now().Add(240 * time.Hour).UTC().Format(time.RFC3339)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"],"due_before":"` + due + `"}`)
	h.await("keep", fact.StateCompleted)
	seen, err := h.client.Proxy(t.Context(), "px_1")
	check(t, err)
	h.ahead.Store(int64(11 * time.Minute))
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Observe(1, Observed(seen, h.now())) }))
	p := &retold{Client: h.client, proxy: func(*upstream.Proxy) error { t.Error("it was read again"); return nil }}
	if x := h.pass(h.reconciler(p, 0)); !x.Agrees() {
		t.Errorf("%+v", x)
	}
}

func TestWithoutReadingOrdersTheWalletIsStillCompared(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.buys(1)
	h.wallet(77)
	p := &retold{Client: h.client, order: func(*upstream.Order) error { return notFoundError(upstream.CodeInsufficientScope) }}
	x := h.pass(h.reconciler(p, 0))
	if len(x.Findings) != 1 || x.Findings[0].AmountCents != 77 || !strings.Contains(strings.Join(x.Notes, " "), "insufficient_scope") {
		t.Errorf("%+v", x)
	}
}

// The provider lists the order before its reply arrives.
func TestAnOrderUnderWayIsNotAnOutsideOrder(t *testing.T) {
	t.Parallel()
	var p held
	h := idleRig(t)
	p.Client = h.client
	h.bind(func(c *Config) { c.Provider = &p })
	h.start()
	post := newHold()
	p.post.Store(post)
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}]}`)
	<-post.reached
	c := h.reconciler(h.client, 0)
	if x := h.pass(c); !x.Agrees() || x.Quiet {
		t.Errorf("%+v", x)
	}
	close(post.release)
	h.await("buy", fact.StateDelivered)
	if x := h.pass(c); !x.Agrees() || !x.Quiet {
		t.Errorf("%+v", x)
	}
	h.settled(600, 0)
}

func TestALateRefundIsExplainedByItsOrdersRecord(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.buys(1)
	now, amount := time.Now(), int64(120)
	h.wallet(amount)
	c := h.reconciler(&retold{Client: h.client, order: func(o *upstream.Order) error {
		o.Refund = &upstream.Refund{Status: "x", AmountCents: &amount, Currency: "USD", RefundedAt: &now}
		return nil
	}}, 0)
	x := h.pass(c)
	if len(x.Findings) != 2 || x.Findings[0].Kind != "order_refund" || !strings.Contains(x.Findings[1].Explanation, x.Findings[0].OrderNo) {
		t.Fatalf("%+v", x.Findings)
	}
	h.recorded(desk.Recording{Kind: "top-up", Cents: amount, OrderNo: x.Findings[0].OrderNo})
	if x := h.pass(c); !x.Agrees() {
		t.Errorf("%+v", x.Findings)
	}
}

// The booking may have happened before or after the wallet was read.
func TestWhatIsBookedAroundTheReadingWidensTheInterval(t *testing.T) {
	at := func(wallet, charged, refunded, funding, external int64, open ...tables.Exposure) tables.Position {
		return tables.Position{Balance: tables.Balance{WalletCents: wallet, ChargedCents: charged, RefundedCents: refunded, FundingCents: funding, ExternalCents: external}, Open: open}
	}
	for name, c := range map[string]struct {
		w         reconcile.WalletReading
		low, high int64
	}{
		"nothing":                  {reconcile.WalletReading{Before: at(1000, 0, 0, 1000, 0), After: at(1000, 0, 0, 1000, 0)}, 1000, 1000},
		"charged and refunded":     {reconcile.WalletReading{Moved: true, Before: at(1000, 0, 0, 1000, 0), After: at(1000, 30, 30, 1000, 0)}, 970, 1030},
		"recorded":                 {reconcile.WalletReading{Moved: true, Before: at(1000, 0, 0, 1000, 0), After: at(1040, 0, 0, 1050, 10)}, 990, 1050},
		"begun meanwhile":          {reconcile.WalletReading{Moved: true, Before: at(1000, 0, 0, 1000, 0), After: at(1000, 0, 0, 1000, 0, tables.Exposure{Charge: fact.Known(9)})}, 991, 1000},
		"in progress all the time": {reconcile.WalletReading{Before: at(1000, 0, 0, 1000, 0, tables.Exposure{Charge: fact.Known(5), ReturnCents: 7})}, 995, 1007},
	} {
		if x := c.w.Check(); *x.LowCents != c.low || *x.HighCents != c.high {
			t.Errorf("%s: %d to %d, want %d to %d", name, *x.LowCents, *x.HighCents, c.low, c.high)
		}
	}
}

// This holds however old the order is.
func TestWhatDifferedIsLookedAtAgainAfterARestart(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.buys(1)
	no := h.await("buy-0", fact.StateDelivered).Operations[0].OrderNo
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerDiscrepancy{Finding: "order_total", AmountCents: 50, OrderNo: no, Explanation: "x"})
	}))
	c := h.reconciler(h.client, 0)
	check(t, c.Load(t.Context()))
	if !c.Sticky[no] || len(c.Known[no]) != 1 {
		t.Errorf("%v %v", c.Sticky, c.Known)
	}
	if x := h.pass(c); !x.Agrees() || len(c.Known) != 0 {
		t.Errorf("%+v %v", x, c.Known)
	}
}

// An order that cannot be read does not prevent the comparison of the others and of the
// wallet. An error that may concern the whole account ends the pass.
func TestAnUnreadableOrderLeavesTheOthersCompared(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.buys(2)
	bad, err := h.ledger.Operations.Operation(t.Context(), "buy-0/1")
	check(t, err)
	unreadable := append(h.handmade(1), bad.OrderNo)
	var answer error
	p := &retold{Client: h.client, order: func(o *upstream.Order) error {
		if slices.Contains(unreadable, o.OrderNo) {
			return answer
		}
		return nil
	}}
	for _, answer = range []error{notFoundError(upstream.CodeOK), notFoundError("order_archived"), fmt.Errorf("read: %w", upstream.ErrBadID)} {
		x := h.pass(h.reconciler(p, 100))
		notes := strings.Join(x.Notes, " ")
		if x.Compared.Orders != 1 || !x.Compared.Wallet || x.Compared.Left != 2 ||
			!strings.Contains(notes, unreadable[0]+" could not be read") || !strings.Contains(notes, unreadable[1]+" could not be read") {
			t.Errorf("%v: %+v", answer, x)
		}
	}
	answer = notFoundError(upstream.CodeAPIKeyRevoked)
	if x, err := h.reconciler(p, 100).Reconcile(t.Context(), nil); err == nil {
		t.Errorf("a revoked key is no matter of one order: %+v", x)
	}
}
