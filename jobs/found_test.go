package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// An operator sends one line of a review again, and later the other lines. Nothing is paid for
// twice.
func TestALineAnsweredIsNotSentAgainWithTheOthers(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "unresolved_record", map[string]any{"executed": false})
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	id := h.await("keep", fact.StateReview).Operations[0].OperationID
	answer := desk.Resolution{ID: id, Charged: new(false), SendAgain: true, By: "ada", Reason: "support says so"}
	one := answer
	one.ProxyID = "px_1"
	check(t, h.runner.Resolve(t.Context(), one))
	h.until("px_1 is renewed", func() bool { return len(h.facts("renewal.completed")) == 1 })
	check(t, h.runner.Resolve(t.Context(), answer))
	h.until("px_2 is renewed", func() bool { return len(h.facts("renewal.completed")) == 2 })
	h.settled(600, 0)
}

// A renewal makes the earlier read of its proxy out of date, however the renewal ended.
func TestTrap09WhatSettledInAReviewIsReadAgainBeforePaying(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	const guarded = `"duration_days":30,"proxy_ids":["px_1"],"due_before":"2026-01-01T00:00:00Z"}`
	h.renew(`{"id":"look",` + guarded) // reads px_1, which is not due, into the cache
	h.await("look", fact.StateRejected)
	asked := h.now()
	page, err := h.client.ProxiesPage(t.Context(), upstream.PageRequest{Size: 50})
	check(t, err)
	h.fault(renew, "renewal", map[string]any{"unresolved": []string{"px_2"}})
	h.renew(`{"id":"both","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	h.await("both", fact.StatePartial, fact.StateReview)
	check(t, h.runner.noteAll(t.Context(), asked, page.Items)) // a listing that was in progress meanwhile
	seen := len(h.facts("proxy.skipped"))
	known, err := h.ledger.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	settled, err := h.ledger.Operations.SettledSince(t.Context(), "px_1", known.SeenAt)
	check(t, err)
	if known.SeenAt.Unix() > 0 && !settled {
		t.Error("the cache is trusted although a renewal has settled since")
	}
	now, err := h.runner.current(t.Context(), &job{lane: laneRenewal}, "px_1")
	check(t, err)
	if now.ExpiresAt == nil || known.ExpiresAt == nil || !now.ExpiresAt.After(*known.ExpiresAt) {
		t.Errorf("the expiry before paying is %v and was %v: %d skipped", now.ExpiresAt, known.ExpiresAt, seen)
	}
}

// An old command may have the id of another command's operation. A request with such an id is
// refused unless it says which one is meant.
func TestAnIDOfCommandAndOperationIsAskedBack(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "code", map[string]any{"code": "insufficient_wallet_balance", "http_status": 402})
	h.renew(`{"id":"a","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("a", fact.StateRejected)
	c := command.Command{ID: "a/0001", Kind: fact.KindRenewal, DurationDays: 60, ProxyIDs: []string{"px_2"}}
	content, hash, err := c.Content()
	check(t, err)
	planned := c.Operations(h.runner.Binding(), c.ProxyIDs, false)
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		ref := fact.Ref{CommandID: c.ID, OperationID: planned[0].OperationID}
		return tx.Append(
			fact.CommandAccepted{Ref: fact.Ref{CommandID: c.ID}, Kind: c.Kind, ContentHash: hash, Content: content, DurationDays: c.DurationDays, Operations: planned},
			fact.CommandRejected{Ref: ref, Code: "x", Reason: "refused"})
	}))
	s, err := inspect.Status(t.Context(), h.ledger, "a/0001")
	if err != nil || s.CommandID != "a/0001" || s.SameID == nil || s.SameID.OperationID != "a/0001" || s.SameID.CommandID != "a" {
		t.Errorf("the status is %+v: %v", s, err)
	}
	for as, want := range map[inspect.As]string{inspect.AsOperation: "a", inspect.AsCommand: "a/0001"} {
		if s, err := inspect.StatusAs(t.Context(), h.ledger, "a/0001", as); err != nil || s.CommandID != want {
			t.Errorf("as %s it is %q: %v", as, s.CommandID, err)
		}
	}
	if _, err := h.runner.Retry(t.Context(), "a/0001", "ada", "x"); err == nil || !strings.Contains(err.Error(), "command_id or operation_id") {
		t.Errorf("a retry of an id with two meanings: %v", err)
	}
	if n, err := h.runner.Retry(t.Context(), "a/0001", "ada", "x", inspect.AsOperation); err != nil || n != 1 {
		t.Errorf("a retry of the operation: %d %v", n, err)
	}
	h.await("a", fact.StateCompleted)
	if n, err := h.runner.Retry(t.Context(), "a/0001", "ada", "x", inspect.AsCommand); err != nil || n != 1 {
		t.Errorf("a retry of the command: %d %v", n, err)
	}
	h.await("a/0001", fact.StateCompleted)
	if _, err := h.runner.Retry(t.Context(), "a/0001/0001", "ada", "x", inspect.AsCommand); err == nil {
		t.Error("an operation was taken for a command")
	}
}

// An old refusal, or other content under the same id, does not answer a query about this
// content.
func TestAStateIsThatOfTheContentAskedFor(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.renew(`{"id":"keep","duration_days":31,"proxy_ids":["px_1"]}`)
	h.awaitFact("command.rejected")
	good := `{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`
	c, err := command.Parse(fact.KindRenewal, []byte(good), command.Rules{})
	check(t, err)
	_, hash, err := c.Content()
	check(t, err)
	if state, err := inspect.StateOf(t.Context(), h.ledger, "keep", hash, ""); err == nil {
		t.Errorf("the old refusal was given as the answer: %s", state)
	}
	h.renew(good)
	h.await("keep", fact.StateCompleted)
	if state, err := inspect.StateOf(t.Context(), h.ledger, "keep", hash, ""); err != nil || state != "completed" {
		t.Errorf("%s %v", state, err)
	}
	if state, _ := inspect.StateOf(t.Context(), h.ledger, "keep", "other", ""); state != inspect.StateConflict {
		t.Errorf("another content is %s", state)
	}
}

// Proxies of unknown price do not bypass the daily limit, and the proxies that fit into the
// day are renewed.
func TestTrap68ACommandDearerThanADayGoesDayByDay(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.oneClock()
	h.bind(func(c *Config) { c.DailyLimitCents, c.Provider = 1000, h.client })
	h.start()
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2","px_3","px_4","px_5","px_6"]}`)
	if s := h.await("keep", fact.StateHeld); !strings.Contains(s.Reason, "daily_limit_cents is 10.00 USD") {
		t.Errorf("%+v", s)
	}
	h.settled(900, 0)
	h.later(24 * time.Hour)
	h.runner.wakeDueLoop()
	h.await("keep", fact.StateCompleted)
	h.settled(1800, 0)
}

// Otherwise the proxy would be put on hold again every day.
func TestAProxyDearerThanADayIsRefused(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.bind(func(c *Config) { c.DailyLimitCents = 400 })
	h.start()
	h.renew(`{"id":"price","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("price", fact.StateCompleted)
	h.renew(`{"id":"dear","duration_days":60,"proxy_ids":["px_1","px_2"]}`)
	s := h.await("dear", fact.StateRejected)
	if o := s.Operations[0]; o.Code != fact.CodeDailyLimit || o.Attempts != 0 || !strings.Contains(s.Reason, "6.00 USD") {
		t.Errorf("%+v", s)
	}
	h.settled(300, 0)
}

// The first proxy of the command no longer exists, so another one shows the price.
func TestTrap23AnotherProxyTellsThePriceWhereTheFirstIsDead(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]string{"a limit": "", "a ceiling": `,"max_total_cents":600`} {
		h := idleRig(t)
		h.bind(func(c *Config) {
			if limit == "" {
				c.DailyLimitCents = 600
			}
		})
		h.start()
		h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_gone","px_2","px_3"]` + limit + `}`)
		if s := h.await("keep", fact.StatePartial); s.Operations[0].Code != "proxy_not_found" || len(h.facts("renewal.completed")) != 2 {
			t.Errorf("%s: %+v", name, s)
		}
		h.settled(600, 0)
		h.halt()
	}
}

// Otherwise one message with 5,000 unknown ids would cost millions of reads and thousands of
// operations. A retry asks the provider again.
func TestUnknownProxiesUnderALimitAreRefusedTogether(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	ids, err := json.Marshal(someIDs("none", 40))
	check(t, err)
	h.renew(`{"id":"none","duration_days":30,"max_total_cents":900,"proxy_ids":` + string(ids) + `}`)
	s := h.await("none", fact.StateRejected)
	if sent := len(h.facts("operation.sending")); sent != 1 || len(s.Operations) > 3 {
		t.Errorf("%d requests, %d operations", sent, len(s.Operations))
	}
	for _, o := range s.Operations {
		if o.State == fact.StateRejected && o.Code != "proxy_not_found" && o.Code != fact.CodeDivided {
			t.Errorf("%+v", o)
		}
	}
	_, err = h.runner.Retry(t.Context(), "none", "ada", "they are listed now")
	check(t, err)
	h.until("the provider is asked again", func() bool { return len(h.facts("operation.sending")) > 1 })
	h.settled(0, 0)
}

// Renewals of unknown price in review do not block those of other commands, up to a limit.
func TestReviewsOfUnknownPriceLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	h := newRig(t, func(c *Config) { c.DailyLimitCents = 100_000 })
	for i := range 4 {
		h.fault(renew, "code", map[string]any{"code": "idempotency_unresolved", "http_status": 409})
		id := fmt.Sprintf("r-%d", i)
		h.renew(fmt.Sprintf(`{"id":%q,"duration_days":30,"proxy_ids":["px_%d"]}`, id, i+1))
		if i < 3 {
			h.await(id, fact.StateReview)
		}
	}
	h.awaitFact("operation.waiting")
	if s := h.await("r-3", fact.StateWaiting); !strings.Contains(s.Reason, "price is not known") {
		t.Errorf("%+v", s)
	}
	h.settled(0, 0)
}

// The operation had no price when it was sent. Later charges of other operations show what it
// may have cost.
func TestTheLimitCountsAReviewOnceItsPriceIsKnown(t *testing.T) {
	t.Parallel()
	h := newRig(t, func(c *Config) { c.DailyLimitCents = 1000 })
	h.fault(renew, "code", map[string]any{"code": "idempotency_unresolved", "http_status": 409, "executed": true})
	for i, state := range []fact.State{fact.StateReview, fact.StateCompleted, fact.StateCompleted, fact.StateHeld} {
		id := fmt.Sprintf("r-%d", i)
		h.renew(fmt.Sprintf(`{"id":%q,"duration_days":30,"proxy_ids":["px_%d"]}`, id, i+1))
		if s := h.await(id, state, fact.StateCompleted); s.State != string(state) {
			t.Errorf("%+v", s)
		}
	}
}

// The command does not renew a proxy that another operation has reserved, and its status says
// so.
func TestWhatACommandLeftOutIsInItsStatus(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "renewal", map[string]any{"unresolved": []string{"px_1"}})
	h.renew(`{"id":"first","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("first", fact.StateReview)
	h.renew(`{"id":"second","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	s := h.await("second", fact.StateCompleted)
	if len(s.LeftOut) != 1 || s.LeftOut[0].ProxyID != "px_1" || s.LeftOut[0].Reason == "" {
		t.Errorf("left out: %+v", s.LeftOut)
	}
}

// Each half is checked against the cost of the others, and the valid proxies are still
// renewed.
func TestHalvesOfARefusedChunkTakeTurnsUnderACeiling(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2","px_nowhere","px_3"],"max_total_cents":1200}`)
	h.await("keep", fact.StatePartial)
	h.settled(900, 0)
	under := ""
	for _, row := range h.rows() {
		switch row.Type {
		case "operation.sending":
			if under != "" {
				t.Errorf("%s was sent while %s was in progress", row.Operation, under)
			}
			under = row.Operation
		case "renewal.completed", "command.rejected":
			under = ""
		}
	}
}

// The simulation found that an answer for a whole renewal booked the cost of its other lines
// again.
func TestAnAnswerBooksNoMoreThanWhatIsInSuspense(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "renewal", map[string]any{"unresolved": 1})
	h.renew(`{"id":"r1","proxy_ids":["px_1","px_2","px_3"],"duration_days":30}`)
	h.await("r1", fact.StateReview, fact.StatePartial, fact.StateCompleted)
	whole := desk.Resolution{ID: "r1/0001", Charged: new(true), ChargedCents: 900, ConfirmCents: new(int64(900)), By: "ada", Reason: "all of it"}
	var refused *command.RefusedError
	if err := h.runner.Resolve(t.Context(), whole); !errors.As(err, &refused) {
		t.Fatalf("900 cents for what has 300 in suspense: %v", err)
	}
	for _, x := range reviewsOf(t, h) {
		check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: x.OperationID, ProxyID: x.ProxyID, Charged: new(true), ChargedCents: 300, ConfirmCents: new(int64(300)), By: "ada", Reason: "the invoice"}))
	}
	h.settled(900, 0)
}

// A line that was answered separately is booked. An amount for the whole renewal may or may
// not include it.
func TestAnAnsweredLineIsNotBookedAgainWithTheWhole(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "code", map[string]any{"code": "of_tomorrow", "executed": true})
	h.renew(`{"id":"r1","proxy_ids":["px_1","px_2","px_3"],"duration_days":30}`)
	h.await("r1", fact.StateReview)
	answer := desk.Resolution{ID: "r1/0001", ProxyID: "px_1", Charged: new(true), ChargedCents: 300, ConfirmCents: new(int64(300)), By: "ada", Reason: "the invoice"}
	check(t, h.runner.Resolve(t.Context(), answer))
	whole := answer
	whole.ProxyID, whole.ChargedCents, whole.ConfirmCents = "", 900, new(int64(900))
	var refused *command.RefusedError
	if err := h.runner.Resolve(t.Context(), whole); !errors.As(err, &refused) {
		t.Errorf("900 cents for all of it, of which 300 are booked: %v", err)
	}
	for _, id := range []string{"px_2", "px_3"} {
		answer.ProxyID = id
		check(t, h.runner.Resolve(t.Context(), answer))
	}
	h.settled(900, 0)
}

func reviewsOf(t *testing.T, h *rig) []tables.Review {
	t.Helper()
	all, err := h.ledger.Operations.Reviews(t.Context())
	check(t, err)
	return all
}

// Content that cannot be parsed has no other hash. Without the message's hash, its producer
// would wait forever.
func TestARefusalAtIntakeIsFoundByItsMessage(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	const text = `{"id":"keep","duration_days":31,"proxy_ids":["px_1"]}`
	h.renew(text)
	h.awaitFact("command.rejected")
	if state, err := inspect.StateOf(t.Context(), h.ledger, "keep", "of the content", command.MessageHash([]byte(text))); err != nil || state != "rejected" {
		t.Errorf("%s %v", state, err)
	}
	if state, err := inspect.StateOf(t.Context(), h.ledger, "keep", "of the content", command.MessageHash([]byte("another"))); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("another message: %s %v", state, err)
	}
}

// If a refused chunk were only halved, each unknown proxy would become its own operation, with
// two facts that repeat all labels.
func TestUnknownProxiesMakeFewOperations(t *testing.T) {
	t.Parallel()
	h := newRig(t, func(c *Config) { c.RatePerSecond = 10_000 })
	ids := []string{"px_1", "px_2", "px_3"}
	for n := range 90 {
		ids = append(ids, fmt.Sprintf("px_nowhere_%d", n))
	}
	body, err := json.Marshal(map[string]any{"id": "many", "duration_days": 30, "proxy_ids": ids})
	check(t, err)
	h.renew(string(body))
	s := h.await("many", fact.StatePartial)
	h.settled(900, 0)
	if len(s.Operations) != 3 {
		t.Errorf("%d operations", len(s.Operations))
	}
	renewed := map[string]bool{}
	for _, o := range s.Operations {
		for _, l := range o.Lines {
			renewed[l.ProxyID] = renewed[l.ProxyID] || l.State == "succeeded"
		}
	}
	for id, ok := range renewed {
		if ok != !strings.HasPrefix(id, "px_nowhere") {
			t.Errorf("%s: renewed: %t", id, ok)
		}
	}
	if len(renewed) != len(ids) {
		t.Errorf("%d of %d proxies have a line", len(renewed), len(ids))
	}
}
