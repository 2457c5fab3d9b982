package jobs

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

func TestAnOrderAndARenewalAreCarriedOut(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}],"labels":{"ticket":"OPS-7"}}`)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	bought := h.await("buy", fact.StateDelivered)
	if o := bought.Operations[0]; o.OrderNo == "" || o.ChargedCents != 600 || o.DeliveredCount != 2 || bought.Labels["ticket"] != "OPS-7" {
		t.Errorf("%+v", bought)
	}
	kept := h.await("keep", fact.StateCompleted)
	if o := kept.Operations[0]; len(o.Lines) != 2 || o.Lines[0].State != "succeeded" || o.Attempts != 1 {
		t.Errorf("%+v", kept)
	}
	h.settled(1200, 0)
}

func TestTrap27EveryScenarioEndsAsTheProviderSays(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	for _, name := range []string{"success", "delayed", "partial", "rejected"} {
		h.order(`{"id":"` + name + `","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}],"sandbox_scenario":"` + name + `"}`)
	}
	for _, name := range []string{"success", "delayed", "partial"} {
		h.await(name, fact.StateDelivered)
	}
	h.await("rejected", fact.StateRefunded)
	ended, end := context.WithCancel(t.Context())
	end()
	if c, err := h.runner.command(ended, "delayed"); err != nil || c.Ordered() != 2 {
		t.Errorf("a poll reads from the journal again what was ordered: %+v %v", c, err)
	}
	h.settled(2400, 600)
}

func TestTrap06Trap14ALostReplyIsChargedOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"drop_after", "drop_before", "error_after", "error_before", "truncate", "garbage", "html"} {
		t.Run(name, func(t *testing.T) {
			h := idleRig(t)
			h.fault(orders, name, nil)
			h.fault(renew, name, nil)
			h.start()
			h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
			h.renew(`{"id":"keep","duration_days":60,"proxy_ids":["px_1"]}`)
			bought, kept := h.await("buy", fact.StateDelivered), h.await("keep", fact.StateCompleted)
			for _, s := range []inspect.CommandStatus{bought, kept} {
				if o := s.Operations[0]; o.Attempts != 2 || o.Ambiguous != 1 {
					t.Errorf("%s took %d attempts, %d of them ambiguous", s.CommandID, o.Attempts, o.Ambiguous)
				}
			}
			sent := h.facts("operation.sending")
			bodies := map[string]string{}
			for _, f := range sent {
				x, _ := f.(fact.OperationSending)
				if before, ok := bodies[x.Key]; ok && before != x.Body {
					t.Errorf("the second attempt sent %s after %s", x.Body, before)
				}
				bodies[x.Key] = x.Body
			}
			if len(sent) != 4 || len(bodies) != 2 {
				t.Errorf("%d attempts under %d keys", len(sent), len(bodies))
			}
			h.settled(900, 0)
		})
	}
}

func TestTrap12ACommandThatComesTwiceIsDoneOnce(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.renew(`{"proxy_ids":["px_1"], "duration_days":30, "id":"keep"}`)
	h.await("keep", fact.StateCompleted)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.renew(`{"id":"keep","duration_days":60,"proxy_ids":["px_1"]}`)
	h.renew(`{"id":"last","duration_days":30,"proxy_ids":["px_2"]}`)
	h.await("last", fact.StateCompleted) // what came before it has been taken in
	conflicts := h.facts("command.conflict")
	if len(conflicts) != 1 {
		t.Fatalf("%d conflicts", len(conflicts))
	}
	conflict, _ := conflicts[0].(fact.CommandConflict)
	if conflict.CommandID != "keep" || conflict.ContentHash == conflict.AcceptedHash || !strings.Contains(conflict.Reason, "choose another id") {
		t.Errorf("%+v", conflict)
	}
	if n := len(h.facts("command.accepted")); n != 2 {
		t.Errorf("%d of two commands were accepted", n)
	}
	h.settled(600, 0)
}

func TestARefusedCommandCanBeCorrectedUnderItsID(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.renew(`{"id":"keep","duration_days":31,"proxy_ids":["px_1"]}`)
	if s := h.await("keep", fact.StateRejected); !strings.Contains(s.Reason, "31") {
		t.Errorf("%+v", s)
	}
	h.renew(`not a command`)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("keep", fact.StateCompleted)
	h.halt()
	if len(h.dead) != 1 || string(h.dead[0].Data) != "not a command" || h.dead[0].Reason == "" {
		t.Errorf("dead letters: %+v", h.dead)
	}
	h.settled(300, 0)
}

func TestTrap09TheSecondRenewalOfAProxyLeavesItOut(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "renewal", map[string]any{"unresolved": []string{"px_1"}})
	h.renew(`{"id":"first","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("first", fact.StateReview)
	h.renew(`{"id":"second","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	second := h.await("second", fact.StateCompleted)
	if l := second.Operations[0].Lines; len(l) != 1 || l[0].ProxyID != "px_2" {
		t.Errorf("%+v", l)
	}
	skipped, _ := h.awaitFact("proxy.skipped").(fact.ProxySkipped)
	if skipped.ProxyID != "px_1" || skipped.CommandID != "second" || !strings.Contains(skipped.Reason, "first/0001") {
		t.Errorf("%+v", skipped)
	}
	h.renew(`{"id":"third","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("third", fact.StateRejected)
	h.settled(600, 0)
}

func TestTrap09AProxyRenewedByHandIsLeftAlone(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	before, err := h.client.Proxy(t.Context(), "px_1")
	check(t, err)
	other, err := h.client.Proxy(t.Context(), "px_2")
	check(t, err)
	_, err = h.client.Renew(t.Context(), "by-hand", upstream.RenewRequest{ProxyIDs: []string{"px_1"}, DurationDays: 30})
	check(t, err)
	h.renew(`{"id":"sweep","duration_days":30,"proxy_ids":["px_1","px_2","px_3"],"due_before":"` + before.ExpiresAt.Add(time.Hour).Format(time.RFC3339) + `",
		"expect_expires_at":{"px_1":"` + before.ExpiresAt.Format(time.RFC3339Nano) + `","px_2":"` + other.ExpiresAt.Format(time.RFC3339Nano) + `"}}`)
	swept := h.await("sweep", fact.StateCompleted)
	if l := swept.Operations[0].Lines; l[0].State != "skipped" || l[1].State != "succeeded" || l[2].State != "succeeded" || l[1].ObservedExpiresAt == nil {
		t.Errorf("%+v", l)
	}
	// The same expiries again: each allows one successful renewal.
	h.renew(`{"id":"sweep-2","duration_days":30,"proxy_ids":["px_2"],"due_before":"` + other.ExpiresAt.Add(time.Hour).Format(time.RFC3339) + `"}`)
	if s := h.await("sweep-2", fact.StateRejected); s.Operations[0].Code != "nothing_due" {
		t.Errorf("%+v", s)
	}
	h.renew(`{"id":"sweep-3","duration_days":30,"proxy_ids":["px_1"],"expect_expires_at":{"px_1":"` + before.ExpiresAt.Format(time.RFC3339Nano) + `"}}`)
	if s := h.await("sweep-3", fact.StateRejected); s.Operations[0].Code != "nothing_due" {
		t.Errorf("%+v", s)
	}
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerRecorded{Movement: "external", AmountCents: 300, By: "ada", Reason: "by hand"})
	}))
	b, err := h.ledger.Money.Balance(t.Context(), "main")
	check(t, err)
	w, err := h.client.Wallet(t.Context())
	check(t, err)
	if w.BalanceCents != b.WalletCents || b.ChargedCents != 600 {
		t.Errorf("wallet %d, book %+v", w.BalanceCents, b)
	}
}

func TestTrap08Trap18APartialRenewalIsFinishedByAPerson(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "renewal", map[string]any{"failed": []string{"px_1"}, "unresolved": []string{"px_2", "px_3"}})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2","px_3","px_4"]}`)
	s := h.await("keep", fact.StateReview)
	states := map[string]string{}
	for _, l := range s.Operations[0].Lines {
		states[l.ProxyID] = string(l.State)
	}
	if states["px_1"] != "failed" || states["px_2"] != "unresolved" || states["px_4"] != "succeeded" {
		t.Fatalf("%v", states)
	}
	h.settled(1200, 300)
	b, err := h.ledger.Money.Balance(t.Context(), "main")
	check(t, err)
	if b.SuspenseCents != 600 {
		t.Errorf("in suspense: %d", b.SuspenseCents)
	}
	resolve := func(x desk.Resolution) error {
		x.ID, x.By, x.Reason = "keep/0001", "ada", "the provider's support said so"
		return h.runner.Resolve(t.Context(), x)
	}
	for _, bad := range []desk.Resolution{{ProxyID: "px_2"}, {ProxyID: "px_4", Charged: new(false)}, {ProxyID: "px_9", Charged: new(false)}, {ProxyID: "px_2", Charged: new(false), ChargedCents: 5}, {ProxyID: "px_2", Charged: new(true), ChargedCents: -1}, {ProxyID: "px_2", Charged: new(true), ChargedCents: 5, SendAgain: true}} {
		if err := resolve(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	check(t, resolve(desk.Resolution{ProxyID: "px_2", Charged: new(true), ChargedCents: 300}))
	if err := resolve(desk.Resolution{ProxyID: "px_2", Charged: new(false)}); err == nil {
		t.Error("one line was resolved twice")
	}
	check(t, resolve(desk.Resolution{ProxyID: "px_3", Charged: new(true), ChargedCents: 300}))
	h.await("keep", fact.StateResolved)
	h.settled(1200, 300)
	// Only the failed proxies may be renewed again, by a new command.
	h.renew(`{"id":"again","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("again", fact.StateCompleted)
	h.settled(1500, 300)
}

func TestTrap16AllFailedIsBookedAndRefunded(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "renewal", map[string]any{"failed": 2})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	h.await("keep", fact.StateFailed)
	h.settled(600, 600)
}

func TestTrap03AnUnresolvedKeyWaitsForAPerson(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "unresolved_record", map[string]any{"executed": false})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	before := h.await("keep", fact.StateReview).Operations[0]
	if before.Code != "idempotency_unresolved" || before.TraceID == "" {
		t.Errorf("%+v", before)
	}
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: before.OperationID, Charged: new(false), SendAgain: true, By: "ada", Reason: "support: nothing was charged"}))
	h.until("the second generation is done", func() bool {
		o, err := h.ledger.Operations.Operation(t.Context(), "keep/0001~2")
		return err == nil && o.State == fact.StateCompleted && o.Key != before.IdempotencyKey
	})
	h.settled(300, 0)
}

func TestTrap05Trap14AnInterruptedSendRepeatsItsKeyAndBytes(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	// No code here would produce these bytes, so only the stored body can match.
	const body = `{ "duration_days": 30, "proxy_ids": [ "px_1" ] }`
	planned := h.accepts(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	ref := fact.Ref{CommandID: "keep", OperationID: planned.OperationID}
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.OperationSending{Ref: ref, Attempt: 1, Key: planned.Key, Body: body, SentAt: tx.Now(), AppID: h.client.AppID()})
	}))
	reply := h.client.Post(t.Context(), upstream.Write{Kind: upstream.WriteRenewal, Key: planned.Key, Body: []byte(body)})
	if !reply.Success {
		t.Fatalf("%+v", reply)
	}
	h.restart()
	if o := h.await("keep", fact.StateCompleted).Operations[0]; o.Attempts != 2 || o.Ambiguous != 1 {
		t.Errorf("%+v", o)
	}
	for _, f := range h.facts("operation.sending") {
		if s, _ := f.(fact.OperationSending); s.Key != planned.Key || s.Body != body {
			t.Errorf("sent as %+v", s)
		}
	}
	if started, _ := h.awaitFact("runner.started").(fact.RunnerStarted); started.Recovered != 1 {
		t.Errorf("%+v", started)
	}
	h.settled(300, 0)
}

func TestWhatWasAcceptedBeforeAStopIsDoneAfterIt(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	check(t, h.runner.PauseByHand(t.Context(), "ada", "maintenance"))
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_2","px_1"]}`)
	h.awaitFact("command.accepted")
	h.restart()
	if n := len(h.facts("operation.sending")); n != 0 {
		t.Errorf("%d sends although a person paused the account", n)
	}
	if n, err := h.runner.ResumeByHand(context.Background(), "ada", "done", false); err != nil || n != 1 {
		t.Errorf("%d pauses ended", n)
	}
	h.await("keep", fact.StateCompleted)
	h.settled(600, 0)
}

// A stop waits for a hanging request for DrainTimeout at most. The next run retries under the
// same key.
func TestAStopDrainsRequestsAndLeavesTheRestForLater(t *testing.T) {
	t.Parallel()
	brief := func(c *Config) { c.DrainTimeout = 100 * time.Millisecond }
	h := idleRig(t, brief)
	h.fault(renew, "hang", map[string]any{"seconds": 3600})
	h.start()
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.awaitFact("operation.sending")
	h.halt()
	h.ask(http.MethodDelete, "/faults", nil) // where the stop came before the request
	h.restart()
	h.await("keep", fact.StateCompleted)
	if n := len(h.facts("operation.sending")); n < 2 {
		t.Errorf("sent %d times", n)
	}
	h.settled(300, 0)
}
