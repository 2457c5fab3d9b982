package jobs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// readAll returns the bytes of a ledger file and of all files next to it.
func readAll(t *testing.T, path string) string {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	check(t, err)
	var all strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(f)
		check(t, err)
		all.Write(data)
	}
	return all.String()
}

func TestTrap38RateLimitedPausesEveryoneUntilRetryAfter(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.fault(orders, "code", map[string]any{"code": "rate_limited", "http_status": 429, "retry_after": "1"})
	h.start()
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	paused, _ := h.awaitFact("account.paused").(fact.AccountPaused)
	if paused.Scope != "account" || paused.Cause != "rate_limited" || paused.Until == nil {
		t.Fatalf("%+v", paused)
	}
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("buy", fact.StateDelivered)
	h.await("keep", fact.StateCompleted)
	for _, r := range h.rows() {
		if r.Type != "operation.sending" {
			continue
		}
		f, err := fact.Decode(r.Type, []byte(r.Data))
		check(t, err)
		if x, _ := f.(fact.OperationSending); x.SentAt.Before(*paused.Until) && (x.CommandID == "keep" || x.Attempt > 1) {
			t.Errorf("sent at %s, and the provider said not before %s", x.SentAt, paused.Until)
		}
	}
	h.settled(600, 0)
}

func TestTrap38TheReadsBeforePayingCloseTheGateToo(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.control("/faults", map[string]any{"method": "GET", "path": "/api/v1/offers", "fault": "code", "code": "rate_limited", "http_status": 429, "retry_after": "1"})
	h.start()
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}],"max_total_cents":300}`)
	if paused, _ := h.awaitFact("account.paused").(fact.AccountPaused); paused.Cause != "rate_limited" || paused.Until == nil {
		t.Errorf("%+v", paused)
	}
	h.await("buy", fact.StateDelivered)
	h.settled(300, 0)
}

func TestTrap38APauseIsKeptAcrossARestart(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.fault(renew, "code", map[string]any{"code": "rate_limited", "http_status": 429, "retry_after": "3600"})
	h.start()
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("keep", fact.StateWaiting)
	h.awaitFact("account.paused")
	h.halt()
	next := NewRunner(h.runner.Config)
	var wait *ThrottledError
	if err := next.Bind(t.Context()); !errors.As(err, &wait) {
		t.Errorf("the start says %v", err)
	}
	if _, blocked := next.pauses.until(laneRenewal); !blocked {
		t.Error("the restart forgot the pause")
	}
	h.settled(0, 0)
}

func TestAKeyThatMayNotOrderPausesOnlyOrders(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.fault(orders, "code", map[string]any{"code": "insufficient_scope", "http_status": 403})
	h.start()
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	if paused, _ := h.awaitFact("account.paused").(fact.AccountPaused); paused.Scope != "order" || paused.Until != nil {
		t.Errorf("%+v", paused)
	}
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("keep", fact.StateCompleted)
	h.await("buy", fact.StateDelivered)
	h.awaitFact("account.resumed")
	h.settled(600, 0)
}

func TestARevokedKeyPausesTheAccountUntilItWorks(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	revoke := func(revoked bool) {
		h.control("/keys", map[string]any{"app_id": sandbox.DemoSandboxAppID, "revoked": revoked})
	}
	revoke(true)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	if paused, _ := h.awaitFact("account.paused").(fact.AccountPaused); paused.Scope != "account" || paused.Cause != "api_key_revoked" {
		t.Errorf("%+v", paused)
	}
	revoke(false)
	if o := h.await("keep", fact.StateCompleted).Operations[0]; o.Ambiguous != 0 {
		t.Errorf("%+v", o)
	}
	h.awaitFact("account.resumed")
	h.settled(300, 0)
}

func TestTrap02AWrongClockIsReportedAndNothingIsResent(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.fault(renew, "drop_after", nil)
	h.runner.clock.Hear(time.Now().Add(6 * time.Minute)) // the last thing heard of the provider's clock
	h.start()
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("keep", fact.StateCompleted) // the next read shows that the clocks agree
	var paused fact.Fact
	sends := 0
	for _, r := range h.rows() {
		f, err := fact.Decode(r.Type, []byte(r.Data))
		check(t, err)
		switch f.(type) {
		case fact.AccountPaused:
			paused = f
		case fact.OperationSending:
			if sends++; sends > 1 && paused == nil {
				t.Error("sent again by a wrong clock")
			}
		}
	}
	if f, _ := paused.(fact.AccountPaused); f.Cause != "clock" || !strings.Contains(f.Detail, "set the clock") {
		t.Errorf("%+v", paused)
	}
	h.settled(300, 0)
}

// Operations that may have been sent before the restore wait while the clock is wrong, and
// continue when it is right.
func TestTrap13WhatAWrongClockPutDownGoesOn(t *testing.T) {
	t.Parallel()
	h, backup := forgetful(t)
	h.restore(backup)
	h.awaitStrange("order ")
	h.order(buyB)
	h.renew(renewC)
	h.await("b", fact.StateAccepted)
	h.await("c", fact.StateAccepted)
	h.runner.clock.Hear(time.Now().Add(6 * time.Minute)) // the last thing heard of the provider's clock
	h.resumes("ada", "go on")
	h.await("b", fact.StateDelivered)
	h.await("c", fact.StateCompleted, fact.StateReview)
	if !slices.ContainsFunc(h.facts("account.paused"), func(f fact.Fact) bool { p, _ := f.(fact.AccountPaused); return p.Cause == decide.CauseClock }) {
		t.Error("it was not paused for its clock")
	}
}

// Eight concurrent requests are rate limited together. They count as one reply, not as eight
// in a row.
func TestTrap38RefusalsOfOneMomentCountOnce(t *testing.T) {
	h := idleRig(t)
	answered := func(reply upstream.Reply) time.Duration {
		d := h.runner.decideOnReply(sentOf("px_1"), decide.Replied{Moment: decide.Moment{Now: someNoon}, Reply: reply})
		if d.Pause == nil {
			return 0
		}
		return d.Pause.Until.Sub(someNoon)
	}
	envelope := func(code upstream.Code, status int) upstream.Reply {
		return upstream.Reply{Sent: true, Envelope: true, HTTPStatus: status, Code: code, Success: code == upstream.CodeOK}
	}
	limited := envelope(upstream.CodeRateLimited, 429)
	until := time.Now().Add(time.Hour)
	if wait := answered(limited); wait != decide.ThrottleFirst {
		t.Fatalf("the first waits %s", wait)
	}
	h.runner.pauses.put(tables.Pause{Scope: decide.ScopeAccount, Cause: decide.CauseThrottled, Until: &until})
	for range 7 {
		if wait := answered(limited); wait != decide.ThrottleFirst {
			t.Fatalf("one of the same moment waits %s", wait)
		}
	}
	h.runner.pauses.drop(tables.Pause{Scope: decide.ScopeAccount, Cause: decide.CauseThrottled, Until: &until})
	if wait := answered(limited); wait != 2*decide.ThrottleFirst {
		t.Fatalf("the next in a row waits %s", wait)
	}
	if answered(envelope(upstream.CodeOK, 200)); answered(limited) != decide.ThrottleFirst {
		t.Fatal("a success did not end the row")
	}
}

// The body depends only on the set of ids: an attempt after a restart reads its proxies from
// the ledger and sends the same bytes.
func TestTrap05TheBodyIsTheSameInAnyOrderOfIDs(t *testing.T) {
	r := &attempts{Config: &Config{}}
	c := command.Command{Kind: fact.KindRenewal, DurationDays: 30}
	a, err := r.body(c, []string{"px_2", "px_10", "px_1"})
	check(t, err)
	b, err := r.body(c, []string{"px_1", "px_10", "px_2"})
	check(t, err)
	if string(a) != string(b) || string(a) != `{"proxy_ids":["px_1","px_10","px_2"],"duration_days":30}` {
		t.Fatalf("%s\n%s", a, b)
	}
}
