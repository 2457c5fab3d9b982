package jobs

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// unsure makes an order of two proxies that needs review, although the provider has executed
// it.
func (h *rig) unsure(id string) (operation string) {
	h.t.Helper()
	h.fault(orders, "code", map[string]any{"code": "idempotency_unresolved", "http_status": 409, "executed": true})
	h.order(`{"id":"` + id + `","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}]}`)
	return h.await(id, fact.StateReview).Operations[0].OperationID
}

// bought makes an order at the provider, outside Perennial.
func (h *rig) bought(key, offer string, n int64) (no string) {
	h.t.Helper()
	made, err := h.client.CreateOrder(h.t.Context(), key, upstream.OrderRequest{DurationDays: 30, Items: []upstream.OrderItem{{OfferCode: offer, Quantity: n}}})
	check(h.t, err)
	return made.OrderNo
}

func (h *rig) claims(operation, no string) error {
	return h.runner.Resolve(h.t.Context(), desk.Resolution{ID: operation, Charged: new(true), ChargedCents: 600, OrderNo: no, By: "ada", Reason: "it is this one"})
}

// refusedFor fails the test unless the answer is refused with all of the words.
func (h *rig) refusedFor(operation, no string, words ...string) {
	h.t.Helper()
	err := h.claims(operation, no)
	var refused *command.RefusedError
	if !errors.As(err, &refused) {
		h.t.Fatalf("order %s: %v", no, err)
	}
	for _, w := range words {
		if !strings.Contains(refused.Reason, w) {
			h.t.Errorf("%q is not in %q", w, refused.Reason)
		}
	}
}

func TestAnAnswerCannotNameAnOrderThatContradictsIt(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	earlier := h.bought("earlier", "off_us_dallas", 2)
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerRecorded{Movement: "external", AmountCents: 600, OrderNo: earlier, By: "ada", Reason: "x"})
	}))
	id := h.unsure("buy")
	more, other := h.bought("more", "off_us_dallas", 3), h.bought("other", "off_de_frankfurt", 2)
	h.refusedFor(id, more, more, id, "3 × off_us_dallas", "2 × off_us_dallas")
	h.refusedFor(id, other, other, id, "off_de_frankfurt", "off_us_dallas")
	h.refusedFor(id, earlier, earlier, id, "recorded", "record --kind top-up --cents 600")
	h.refusedFor(id, "ord_nowhere", "ord_nowhere", id, "does not show")
	e := h.evidence(id)
	if len(e.Orders) != 1 {
		t.Fatalf("the orders that it may have made are %+v", e.Orders)
	}
	h.fault("/api/v1/orders/*", "code", map[string]any{"method": "GET", "code": "internal_error", "http_status": 500, "times": 1})
	h.refusedFor(id, e.Orders[0].OrderNo, e.Orders[0].OrderNo, id, "could not be compared", "without --order")
	check(t, h.claims(id, e.Orders[0].OrderNo))
	answer, _ := h.facts("operation.resolved")[0].(fact.OperationResolved)
	if len(answer.ProxyIDs) != 2 || len(answer.Proxies) != 2 || answer.Proxies[0].OfferCode != "off_us_dallas" || *answer.Proxies[0].ChargedCents != 300 {
		t.Errorf("%+v", answer)
	}
	if s, err := inspect.Status(t.Context(), h.ledger, "buy"); err != nil || len(s.Operations[0].ProxyIDs) != 2 {
		t.Errorf("%+v %v", s, err)
	}
	if known, err := h.ledger.Fleet.Proxy(t.Context(), answer.ProxyIDs[0]); err != nil || known.ExpiresAt == nil {
		t.Errorf("%+v %v", known, err)
	}
	again := h.unsure("again")
	h.refusedFor(again, e.Orders[0].OrderNo, id, again)
}

func TestWhatAnOrderShowsDecidesWhoMadeIt(t *testing.T) {
	sent := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	m := reconcile.Maker{Operation: fact.Operation{ID: "buy/1", FirstSentAt: &sent}, Items: []command.Item{{OfferCode: "a", Quantity: 2}, {OfferCode: "b", Quantity: 1}}}
	shows := func(items ...upstream.OrderItem) reconcile.ForeignOrder {
		return reconcile.ForeignOrder{CreatedAt: sent, Items: items}
	}
	for name, test := range map[string]struct {
		x    reconcile.ForeignOrder
		says string
	}{
		"nothing shown":      {reconcile.ForeignOrder{}, ""},
		"the same":           {shows(upstream.OrderItem{OfferCode: "b", Quantity: 1}, upstream.OrderItem{OfferCode: "a", Quantity: 2}), ""},
		"the same, in parts": {shows(upstream.OrderItem{OfferCode: "a", Quantity: 1}, upstream.OrderItem{OfferCode: "b", Quantity: 1}, upstream.OrderItem{OfferCode: "a", Quantity: 1}), ""},
		"a line less":        {shows(upstream.OrderItem{OfferCode: "a", Quantity: 2}), "asked for"},
		"other quantities":   {shows(upstream.OrderItem{OfferCode: "a", Quantity: 1}, upstream.OrderItem{OfferCode: "b", Quantity: 2}), "asked for"},
		"as many proxies":    {reconcile.ForeignOrder{CreatedAt: sent, Expected: 3}, ""},
		"more proxies":       {reconcile.ForeignOrder{CreatedAt: sent, Expected: 4}, "4 proxies"},
		"made before":        {reconcile.ForeignOrder{CreatedAt: sent.Add(-upstream.MaxSkew - time.Second)}, "first sent"},
		"between two clocks": {reconcile.ForeignOrder{CreatedAt: sent.Add(-upstream.MaxSkew)}, ""},
	} {
		if got := m.CannotHaveMade(test.x); (got == "") != (test.says == "") || !strings.Contains(got, test.says) {
			t.Errorf("%s: %q", name, got)
		}
	}
	m.FirstAmbiguousAt = new(sent.Add(-time.Hour)) // presumed sent in the lost time, and sent again
	if got := m.CannotHaveMade(reconcile.ForeignOrder{CreatedAt: sent.Add(-time.Hour)}); got != "" {
		t.Error(got)
	}
	m.Items = nil // the command's content is not known any more
	if got := m.CannotHaveMade(reconcile.ForeignOrder{CreatedAt: sent, Expected: 4}); got != "" {
		t.Error(got)
	}
}

// altered is a provider whose order details have changed.
type altered struct {
	*upstream.Client
	to func(*upstream.Order)
}

func (p *altered) Order(ctx context.Context, no string) (upstream.Order, error) {
	o, err := p.Client.Order(ctx, no)
	if p.to != nil {
		p.to(&o)
	}
	return o, err
}

// However an order ends, its proxies are recorded as its own, and a schedule that matches its
// labels renews them.
func TestTheProxiesOfAnAnsweredOrderCarryItsLabels(t *testing.T) {
	t.Parallel()
	untold := func(o *upstream.Order) { o.TotalCents = nil }
	other := func(o *upstream.Order) { o.OrderNo = "ord_of_another" } // its proxies are not believed
	for name, row := range map[string]struct {
		to    func(*upstream.Order)
		named bool
		later bool // the provider shows the order after the answer
	}{
		"answered": {untold, false, false}, "answered with its number": {untold, true, false},
		"not read, and answered": {other, false, false}, "not read, and answered with its number": {other, true, false},
		"answered, and read later": {other, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := idleRig(t)
			p := &altered{h.client, row.to}
			h.bind(func(c *Config) { c.Provider = p })
			h.start()
			h.order(`{"id":"o","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}],"labels":{"team":"ads"}}`)
			o := h.await("o", fact.StateReview).Operations[0]
			h.halt()
			if !row.later {
				p.to = nil
			}
			x := desk.Resolution{ID: o.OperationID, Charged: new(true), ChargedCents: 300, ConfirmCents: new(int64(300)), By: "ada", Reason: "the invoice"}
			if row.named {
				x.OrderNo = o.OrderNo
			}
			check(t, h.runner.Resolve(t.Context(), x))
			if row.later {
				p.to = nil
				for range 2 { // the second pass finds nothing new
					h.reconcile()
				}
				if n := len(h.facts("order.listed")); n != 1 {
					t.Errorf("%d facts name its proxies", n)
				}
			}
			s, err := inspect.Status(t.Context(), h.ledger, "o")
			check(t, err)
			ids := s.Operations[0].ProxyIDs
			if len(ids) != 1 {
				t.Fatalf("its proxies are %v", ids)
			}
			known, err := h.ledger.Fleet.Proxy(t.Context(), ids[0])
			if err != nil || known.Labels["team"] != "ads" {
				t.Errorf("%+v (%v)", known, err)
			}
			if by, err := h.ledger.Operations.DeliveredBy(t.Context(), ids[0]); err != nil || by != o.OperationID {
				t.Errorf("delivered by %q (%v)", by, err)
			}
			ends := h.facts("command.finished")
			end, _ := ends[len(ends)-1].(fact.CommandFinished)
			if len(end.Lines) != 1 || end.Lines[0].ProxyID != ids[0] {
				t.Errorf("its end names %+v", end.Lines)
			}
		})
	}
}

// The provider could not be read when the operator answered. If two orders fit, neither is
// chosen.
func TestAnOrderWithoutANumberIsFoundAfterItsAnswer(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]int{"one order fits": 0, "two orders fit": 1} {
		t.Run(name, func(t *testing.T) {
			h := newRig(t)
			h.fault(orders, "code", map[string]any{"code": "idempotency_unresolved", "http_status": 409, "executed": true})
			h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}],"labels":{"team":"ads"}}`)
			id := h.await("buy", fact.StateReview).Operations[0].OperationID
			h.halt()
			for range more {
				h.bought("elsewhere", "off_us_dallas", 2)
			}
			h.fault(orders, "code", map[string]any{"method": "GET", "code": "internal_error", "http_status": 500, "times": 1})
			check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 600, ConfirmCents: new(int64(600)), By: "ada", Reason: "the invoice"}))
			for range 2 { // the second pass finds nothing new
				h.reconcile()
			}
			listed := h.facts("order.listed")
			if more > 0 {
				if len(listed) > 0 {
					t.Errorf("%+v", listed)
				}
				return
			}
			if len(listed) != 1 {
				t.Fatalf("%d facts name its proxies", len(listed))
			}
			h.listed()
			f, _ := listed[0].(fact.OrderListed)
			for _, proxy := range f.ProxyIDs {
				known, err := h.ledger.Fleet.Proxy(t.Context(), proxy)
				if err != nil || known.Labels["team"] != "ads" {
					t.Errorf("%+v (%v)", known, err)
				}
			}
			if by, err := h.ledger.Operations.DeliveredBy(t.Context(), f.ProxyIDs[0]); err != nil || by != id || len(f.ProxyIDs) != 2 {
				t.Errorf("%+v, delivered by %q (%v)", f, by, err)
			}
			h.agrees()
		})
	}
}

// The command's content is in an archive that was moved away. An order made elsewhere is still
// found.
func TestAnAnswerWhoseArchiveIsElsewhereStopsNoComparison(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.oneClock()
	id := h.unsure("buy")
	h.halt()
	h.fault(orders, "code", map[string]any{"method": "GET", "code": "internal_error", "http_status": 500, "times": 1})
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 600, ConfirmCents: new(int64(600)), By: "ada", Reason: "the invoice"}))
	h.later(10 * 24 * time.Hour)
	x := ledger.Archive{Path: h.path, Before: h.now().AddDate(0, 0, -8), Clock: h.now, Keep: 1}
	var err error
	x.Published.Seq, x.Published.Hash, err = h.ledger.Head(t.Context())
	check(t, errors.Join(err, h.ledger.Close()))
	out, err := x.Run(t.Context())
	check(t, errors.Join(err, os.Rename(out.File, out.File+".away")))
	h.openLedger()
	h.bind(func(c *Config) { c.Provider = h.client })
	h.bought("elsewhere", "off_de_frankfurt", 1)
	if x := h.reconcile(); len(x.Findings) == 0 {
		t.Errorf("%+v", x)
	}
}

// Otherwise an order of this ledger could be recorded as made elsewhere.
func TestAFindingNamesTheAnswerThatMayBeWrong(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.oneClock()
	id := h.unsure("buy")
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(false), AgainstEvidence: true, By: "ada", Reason: "no invoice"}))
	x := h.reconcile()
	said := ""
	for _, f := range x.Findings {
		said += f.Explanation + "\n"
	}
	for _, part := range []string{"if it is of " + id + ", which was answered as not charged: `perennial reviews correct " + id + " --charge 6.00 --confirm-amount 6.00 --reason TEXT`;", "ledger record --kind external --cents 600 --order "} {
		if !strings.Contains(said, part) {
			t.Errorf("%q is not in the findings: %s", part, said)
		}
	}
}

// A wrong correction is more likely than money spent elsewhere.
func TestAFindingOfAnAnsweredOrderNamesTheWayBack(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.oneClock()
	id := h.unsure("buy")
	orders, err := h.client.OrdersPage(t.Context(), upstream.PageRequest{Size: 1})
	check(t, err)
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: id, Charged: new(true), ChargedCents: 600, OrderNo: orders.Items[0].OrderNo, By: "ada", Reason: "it is this one"}))
	h.agrees()
	rows := h.rows()
	answer := rows[slices.IndexFunc(rows, func(r chain.Row) bool { return r.Type == "operation.resolved" })]
	h.recorded(desk.Recording{CorrectsSeq: answer.Seq, Cents: 600})
	said := ""
	for _, f := range h.reconcile().Findings {
		said += f.Explanation + "\n"
	}
	if !strings.Contains(said, "an operator answered for it: `perennial reviews correct "+id+"`") {
		t.Errorf("%s", said)
	}
}
