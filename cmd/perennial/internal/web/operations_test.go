package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// wayOfPx adds an order that delivers a proxy, and two renewals of the proxy. The reply to the
// first attempt of the second renewal was lost.
func (h *rig) wayOfPx() {
	h.t.Helper()
	ref := func(command, operation, trace string) fact.Ref {
		return fact.Ref{CommandID: command, OperationID: operation, Labels: map[string]string{"team": "shop"}, TraceID: trace}
	}
	accept := func(kind fact.Kind, command, operation string, ids ...string) fact.Fact {
		return fact.CommandAccepted{Ref: fact.Ref{CommandID: command, Labels: map[string]string{"team": "shop"}}, Kind: kind, Content: []byte(`{"items":[{"offer_code":"off_us_dallas","quantity":5}]}`), DurationDays: 30,
			Operations: []fact.Planned{{OperationID: operation, Chunk: "1", Generation: 1, Key: "key-" + operation, ProxyIDs: ids}}}
	}
	send := func(command, operation string, attempt int64) fact.Fact {
		return fact.OperationSending{Ref: ref(command, operation, ""), Attempt: attempt, Key: "key-" + operation, Body: `{"x":1}`, SentAt: noon}
	}
	paid := func(command, operation, trace string, attempt int64) fact.Fact {
		return fact.RenewalSettled{Ref: ref(command, operation, trace), Status: "completed", Attempt: attempt, Code: "ok",
			Lines: fact.Lines{ChargedCents: 300, Items: []fact.Line{{ProxyID: "px_new", State: fact.LineSucceeded, ChargedCents: 300}}}}
	}
	for _, facts := range [][]fact.Fact{
		{accept(fact.KindOrder, "buy", "buy/0001"), send("buy", "buy/0001", 1), fact.OrderAccepted{Ref: ref("buy", "buy/0001", "trc_order"), Attempt: 1, OrderNo: "NO-1", NextAt: noon},
			fact.OrderDelivered{OrderState: fact.OrderState{Ref: ref("buy", "buy/0001", ""), OrderNo: "NO-1", Status: "completed", ExpectedCount: 1, DeliveredCount: 1, ChargedCents: 500}, ProxyIDs: []string{"px_new"}}},
		{accept(fact.KindRenewal, "first", "first/0001", "px_new"), send("first", "first/0001", 1), paid("first", "first/0001", "trc_first", 1)},
		{fact.SweepPlanned{Schedule: "keep", Slot: noon, Plan: "p1", Planned: []fact.PlannedCommand{{CommandID: "second", Proxies: 1, EstimateCents: 300}}}},
		{accept(fact.KindRenewal, "second", "second/0001", "px_new"), send("second", "second/0001", 1),
			fact.OperationWaiting{Ref: ref("second", "second/0001", "trc_lost"), Attempt: 1, Reason: "the connection was reset", Ambiguous: true, HTTPStatus: 502, NextAt: noon.Add(time.Minute)},
			send("second", "second/0001", 2), paid("second", "second/0001", "trc_second", 2)},
	} {
		h.wait(time.Second)
		check(h.t, h.main.Write(h.t.Context(), func(tx *ledger.Tx) error { return tx.Append(facts...) }))
	}
}

// awaits waits for a figure, with a time limit.
func (h *rig) awaits(made <-chan struct{}) {
	h.t.Helper()
	select {
	case <-made:
	case <-time.After(20 * time.Second):
		h.t.Fatal("nothing was made")
	}
}

// shows gets a page again until a figure that is computed in the background is on it.
func (h *rig) shows(path, want string) (page string) {
	h.t.Helper()
	for {
		made := h.pages.figures.next()
		if _, page, _ = h.get(path); strings.Contains(page, want) {
			return page
		}
		if !strings.Contains(page, "Being counted") && !strings.Contains(page, "In progress since") && !strings.Contains(page, "A new one is in progress") && !strings.Contains(page, "being made") {
			h.t.Fatalf("no %q in\n%s", want, page)
		}
		h.awaits(made)
	}
}

// The page shows each attempt with its bytes, code, trace ID and outcome. It shows what the
// operation booked, its events, and the operations before and after it for its proxy.
func TestOneOperationIsShownWhole(t *testing.T) {
	h := newRig(t)
	h.wayOfPx()
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	_, page, _ := h.get("/a/main/operation?id=first")
	for _, want := range []string{
		`id=buy%2F0001" title="buy/0001">buy/0001</a></td><td data-th="next"><a href="/a/main/operation?id=second%2F0001"`, // before and after it
		"attempt 1, 7 bytes", "<code>ok</code>", "trace trc_first", "Nothing: it has ended.", "key-first/0001", `label=team%3Dshop">team=shop</a>`,
		`<td>renewals</td><td class="n">3.00 USD</td>`, `<td>wallet</td><td class="n">-3.00 USD</td>`, "event main/",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	_, page, _ = h.get("/a/main/operation?id=second")
	for _, want := range []string{"attempt 1, HTTP 502", "outcome unknown", "the connection was reset", "Next step not before", "attempt 2, 7 bytes", `id=first%2F0001" title="first/0001">first/0001</a></td><td></td>`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if _, page, _ = h.get("/a/main/operation?id=buy"); !strings.Contains(page, `/a/main/proxy?id=px_new">px_new</a>`) || !strings.Contains(page, "NO-1") {
		t.Errorf("the order's page has no proxy, or no number:\n%s", page)
	}
	if _, page, _ = h.get("/a/main/proxy?id=px_new"); !strings.Contains(page, `It was bought by <a href="/a/main/operation?id=buy%2F0001"`) {
		t.Errorf("the proxy's page does not say what bought it:\n%s", page)
	}
	if _, page, _ = h.get("/a/main/operation?id=r1"); !strings.Contains(page, ">reserved<") || !strings.Contains(page, "Resolve the review") {
		t.Errorf("the review's page has no claim, or no form:\n%s", page)
	}
}

// The trace ID of any attempt also finds the operation.
func TestOperationsAreFoundByEveryFilter(t *testing.T) {
	h := newRig(t)
	h.wayOfPx()
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	for filter, want := range map[string]string{
		"":                  "second/0001 first/0001 buy/0001 r1/0001",
		"kind=order":        "buy/0001",
		"state=delivered":   "buy/0001",
		"state=completed":   "second/0001 first/0001",
		"state=review":      "r1/0001",
		"schedule=keep":     "second/0001",
		"label=team%3Dshop": "second/0001 first/0001 buy/0001",
		"from=2026-11-22":   "",
		"until=2026-11-20":  "",
		"until=2026-11-21":  "second/0001 first/0001 buy/0001 r1/0001",
		"from=2026-11-21&until=2026-11-21&state=completed&label=team%3Dshop": "second/0001 first/0001",
	} {
		_, page, _ := h.get("/a/main/operations?" + filter)
		at := 0
		for _, id := range []string{"second/0001", "first/0001", "buy/0001", "r1/0001"} {
			if i := strings.Index(page, ">"+id+"</a>"); (i > 0) != strings.Contains(want, id) || i > 0 && i < at {
				t.Errorf("%s: %s is at %d, want %q in this order", filter, id, i, want)
			} else if i > 0 {
				at = i
			}
		}
	}
	_, page, _ := h.get("/a/main/operations")
	wants(t, page, `<a href="?state=held">on hold 1</a>`, `<a href="?state=review">review 1</a>`, "all 5", "completed 2", "delivered 1", "renew px_1 for 30 days", "buy 5 × off_us_dallas")
	_, page, _ = h.get("/a/main/operations?label=team%3Dshop&before=none")
	wants(t, page, `<a href="?label=team%3Dshop&amp;state=review">review</a>`) // with a label, the tabs show no counts
	for _, wrong := range []string{"from=yesterday", "label=shop"} {
		if _, page, _ := h.get("/a/main/operations?" + wrong); !strings.Contains(page, `class="bad" role="alert"`) || strings.Contains(page, "r1/0001") {
			t.Errorf("%s is not refused", wrong)
		}
	}
	for query, want := range map[string]string{"trc_lost": "second%2F0001", "trc_first": "first%2F0001", "NO-1": "buy%2F0001", "px_new": "proxy?id=px_new", "team=shop": "label=team%3Dshop"} {
		made := h.pages.figures.next()
		code, page, header := h.get("/a/main/operations?q=" + url.QueryEscape(query))
		if code == http.StatusOK && strings.Contains(page, "being searched") {
			h.awaits(made)
			code, _, header = h.get("/a/main/operations?q=" + url.QueryEscape(query))
		}
		if code != http.StatusSeeOther || !strings.Contains(header.Get("Location"), want) {
			t.Errorf("%s leads to %d %s", query, code, header.Get("Location"))
		}
	}
}

// A command and its operation are one row, and the next page has the rest.
func TestASearchCountsItsMatches(t *testing.T) {
	h := newRig(t)
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		for i := range tracedShown + 3 {
			id := fmt.Sprintf("crash-%d", i)
			if err := tx.Append(fact.CommandAccepted{Ref: fact.Ref{CommandID: id}, Kind: fact.KindRenewal, Content: json.RawMessage(`{}`), DurationDays: 30,
				Operations: []fact.Planned{{OperationID: id + "/0001", Chunk: "1", Generation: 1, Key: "key-" + id, ProxyIDs: []string{"px_of_" + id}}}},
				fact.OperationSending{Ref: fact.Ref{CommandID: id, OperationID: id + "/0001"}, Attempt: 1, Key: "key-" + id, Body: "{}", SentAt: noon}); err != nil {
				return err
			}
		}
		return nil
	}))
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	page := h.settled("/a/main/operations?q=crash-")
	wants(t, page, "23 matches, 1 to 20 shown", `<a href="?q=crash-&amp;skip=20" rel="next">More</a>`, "renew px_of_crash-22 for 30 days sending 0.00 USD", "crash-22/0001")
	if strings.Contains(page, ">crash-22</a>") || strings.Count(page, "/0001</a>") != tracedShown {
		t.Errorf("a command and its operation are two rows:\n%s", page)
	}
	page = h.settled("/a/main/operations?q=crash-&skip=20")
	wants(t, page, "23 matches, 21 to 23 shown", "crash-0/0001")
	if strings.Contains(page, ">More<") {
		t.Error("there is a page after the last one")
	}
}

func TestAProofIsAskedForByAnOperatorAndShown(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	_, page, _ := h.get("/a/main/money")
	if strings.Contains(page, "Verified:") {
		t.Fatal("nobody has asked for a proof")
	}
	h.main.answer["reconcile"] = map[string]any{"ok": false, "wallet": map[string]any{"provider_cents": 499_000, "book_cents": 500_000}, "findings": []map[string]any{{"kind": "wallet", "amount_cents": -1000, "explanation": markup}}}
	for what, want := range map[string]string{"verify": "Verified: 6 journal entries", "reconcile": "They differ: 4,990.00 USD in the wallet, 5,000.00 USD in the books"} {
		if code, _ := h.post(h.client, "/a/main/check/"+what, h.server.URL, map[string]string{"form": formOf(t, page)}); code != http.StatusSeeOther {
			t.Fatalf("%s: %d", what, code)
		}
		h.shows("/a/main/money", want)
	}
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Observe(2, tables.Proxy{ProxyID: "px_odd"}) })) // without the time when it was seen
	if code, _ := h.post(h.client, "/a/main/check/verify", h.server.URL, map[string]string{"form": formOf(t, page)}); code != http.StatusSeeOther {
		t.Fatalf("verify again: %d", code)
	}
	if page = h.shows("/a/main/money", "ledger is broken (proxies)"); strings.Contains(page, "Verified:") {
		t.Error("a broken ledger is said to hold")
	}
	viewer := h.browser()
	h.signIn(viewer, Person{Name: "bob", Role: Viewer})
	_, page, _ = h.getAs(viewer, "/a/main/money")
	if code, _ := h.post(viewer, "/a/main/check/verify", h.server.URL, map[string]string{"form": formOf(t, page)}); code != http.StatusForbidden {
		t.Errorf("a viewer's proof is answered with %d", code)
	}
}

// The comparison is only delayed, and no operation has an unknown cost.
func TestAWalletThatMayBeShownLateIsNotCalledUnknown(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	_, page, _ := h.get("/a/main/money")
	h.main.answer["reconcile"] = map[string]any{"ok": nil, "wallet": map[string]any{"provider_cents": 450_000, "book_cents": 500_000, "late": true}}
	if code, _ := h.post(h.client, "/a/main/check/reconcile", h.server.URL, map[string]string{"form": formOf(t, page)}); code != http.StatusSeeOther {
		t.Fatalf("%d", code)
	}
	if page = h.shows("/a/main/money", "Not compared: money was booked in the last ten minutes"); strings.Contains(page, "the cost of") {
		t.Error("an unknown cost is named")
	}
}

// Each label links to the operations that make up its amount.
func TestAStatementAddsUpToTheBalance(t *testing.T) {
	h := newRig(t)
	h.wayOfPx()
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	b, err := h.main.Money.Balance(t.Context(), "main")
	check(t, err)
	page := h.shows("/a/main/statement?month=2026-11", "Balance carried forward")
	for _, want := range []string{">Balance carried forward</th><td class=\"n\">" + fact.Amount(b.WalletCents, "USD"), `from=2026-11-01&amp;label=team%3Dshop&amp;until=2026-11-30">team=shop</a></td><td class="n" data-th="charges">3</td><td class="n" data-th="charged">11.00 USD</td>`, "The month is not finished", ">Opening balance</th>", ">Top-ups</th>", "The opening balance was in the provider's wallet when this ledger began.", ">Charges</th>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	for _, month := range []string{"2026-13", "next", "2026-12"} {
		if code, _, _ := h.get("/a/main/statement?month=" + month); code != http.StatusNotFound {
			t.Errorf("%s: %d", month, code)
		}
	}
}

// An earlier command whose ID equals the operation's ID does not hide the operation.
func TestAnOperationWhoseIDACommandHasIsShown(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		for _, id := range []string{"pay", "pay/1"} {
			ref := fact.Ref{CommandID: id, OperationID: id + "/1"}
			if err := tx.Append(
				fact.CommandAccepted{Ref: fact.Ref{CommandID: id}, Kind: fact.KindOrder, Content: []byte(`{}`), Operations: []fact.Planned{{OperationID: id + "/1", Chunk: "1", Generation: 1, Key: "key of " + id}}},
				fact.CommandHeld{Ref: ref, Reason: "held " + id}); err != nil {
				return err
			}
		}
		return nil
	}))
	_, page, _ := h.get("/a/main/operation?id=" + url.QueryEscape("pay/1"))
	for _, want := range []string{"key of pay<", "A command has this operation&#39;s id too", "pay/1/1", `name="command_id" value="pay"`, "status pay/1 --as operation"} {
		if !strings.Contains(strings.ReplaceAll(page, "this operation's", "this operation&#39;s"), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	_, page, _ = h.get("/a/main/operation?id=" + url.QueryEscape("pay/1/1"))
	if !strings.Contains(page, "key of pay/1<") || !strings.Contains(page, `name="command_id" value="pay/1"`) {
		t.Error("the command's own operation is not shown")
	}
	h.main.answer["cancel"] = map[string]any{"changed": 1}
	_, page = h.post(h.client, "/a/main/change/cancel", h.server.URL, map[string]string{"form": formOf(t, page), "command_id": "pay/1", "reason": "no"})
	all := h.main.requests()
	if last := all[len(all)-1]; last.question["command_id"] != "pay/1" || last.question["id"] != nil || !strings.Contains(page, "perennial cancel pay/1 --as command") {
		t.Errorf("%+v", last)
	}
}

// The charge is not booked yet, which is not the same as zero.
func TestAnAcceptedOrderIsChargedWhenItEnds(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	ref := fact.Ref{CommandID: "buy", OperationID: "buy/0001"}
	h.wait(time.Second)
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(
			fact.CommandAccepted{Ref: fact.Ref{CommandID: "buy"}, Kind: fact.KindOrder, Content: []byte(`{}`), DurationDays: 30, Operations: []fact.Planned{{OperationID: "buy/0001", Chunk: "1", Generation: 1, Key: "key"}}},
			fact.OperationSending{Ref: ref, Attempt: 1, Key: "key", Body: `{}`, SentAt: noon},
			fact.OrderAccepted{Ref: ref, Attempt: 1, OrderNo: "NO-1", NextAt: noon})
	}))
	for _, path := range []string{"/a/main/operations", "/a/main/operation?id=buy/0001"} {
		if _, page, _ := h.get(path); !strings.Contains(page, "when it ends") {
			t.Errorf("%s:\n%s", path, page)
		}
	}
}
