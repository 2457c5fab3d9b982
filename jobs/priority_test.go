package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/intake"
	"perennial/queue/publish"
)

// bulk publishes a renewal with bulk priority, as a schedule does.
func (h *rig) bulk(text string) {
	h.t.Helper()
	check(h.t, publish.New(h.queue.JetStream()).Publish(h.t.Context(), "main", publish.Outgoing{Kind: queue.KindProxyRenew, Priority: queue.PriorityBulk, Data: []byte(text)}))
}

// The priority is not part of the content: the same content with another priority is the same
// command.
func TestACommandUnderAnotherPriorityIsAbsorbed(t *testing.T) {
	t.Parallel()
	var hashes []string
	for _, priority := range []string{"", `,"priority":"high"`, `,"priority":"bulk"`} {
		c, err := command.Parse(fact.KindRenewal, []byte(`{"id":"r","duration_days":30,"proxy_ids":["px_1"]`+priority+`}`), rulesOfSandbox)
		check(t, err)
		content, hash, err := c.Content()
		check(t, err)
		back, err := command.ReadContent(content)
		check(t, err)
		if back.Priority != c.Priority {
			t.Errorf("%q is stored as %q", c.Priority, back.Priority)
		}
		hashes = append(hashes, hash)
	}
	if len(slices.Compact(hashes)) != 1 {
		t.Errorf("three contents: %v", hashes)
	}
	h := newRig(t)
	h.renew(`{"id":"r","duration_days":30,"proxy_ids":["px_1"],"priority":"high"}`)
	h.await("r", fact.StateCompleted)
	h.bulk(`{"id":"r","duration_days":30,"proxy_ids":["px_1"]}`)
	h.bulk(`{"id":"behind","duration_days":30,"proxy_ids":["px_2"]}`)
	h.await("behind", fact.StateCompleted)
	if all := strings.Join(h.journal(), " "); strings.Contains(all, "command.conflict") {
		t.Error(all)
	}
}

func TestAPriorityThatDoesNotExistIsRefused(t *testing.T) {
	for _, kind := range []fact.Kind{fact.KindOrder, fact.KindRenewal} {
		_, err := command.Parse(kind, []byte(`{"id":"r","duration_days":30,"priority":"urgent"}`), rulesOfSandbox)
		if err == nil || !strings.Contains(err.Error(), "priority") {
			t.Errorf("%v", err)
		}
	}
}

// Urgent commands go first, but every place gets a share.
func TestWhatIsUrgentGoesFirstAndNothingStarves(t *testing.T) {
	r := newReady(1000, newPauses(time.Now))
	names := map[place]string{}
	for i, p := range paying {
		names[p] = string("HhNnBb"[i])
		for n := range 200 {
			priority := priorityRenewal
			if p.lane == laneOrder {
				priority = priorityOrder
			}
			r.push(&job{lane: p.lane, urgency: p.urgency, priority: priority, at: someNoon.Add(time.Duration(n) * time.Second),
				op: decide.Operation{Operation: fact.Operation{ID: fmt.Sprintf("%v-%d", p, n)}}})
		}
	}
	var order strings.Builder
	for range 120 {
		j, err := r.pop(t.Context())
		check(t, err)
		order.WriteString(names[j.place()])
	}
	got := order.String()
	if !strings.HasPrefix(got, "HHH") {
		t.Errorf("the most urgent does not go first: %s", got)
	}
	for _, name := range names {
		for rest := got; len(rest) >= 12; rest = rest[1:] {
			if !strings.Contains(rest[:12], name) {
				t.Fatalf("%s starves: %s", name, got)
			}
		}
	}
}

// An expired proxy is already lost. If it went first, living proxies would expire too.
func TestTheLivingAreRenewedBeforeTheExpired(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	r, now := h.runner, h.now()
	queued := newReady(1000, newPauses(time.Now))
	for id, in := range map[string]time.Duration{"gone long": -48 * time.Hour, "gone": -time.Hour, "soon": time.Hour, "later": 48 * time.Hour} {
		record := fact.Operation{ID: id, Kind: fact.KindRenewal, State: fact.StateAccepted, AcceptedAt: now}
		queued.push(r.job(record, command.Command{DueBefore: new(now.Add(in))}, []string{id}))
	}
	var order []string
	for range 4 {
		j, err := queued.pop(t.Context())
		check(t, err)
		order = append(order, j.op.ID)
	}
	if want := []string{"soon", "later", "gone", "gone long"}; !slices.Equal(order, want) {
		t.Errorf("order %v", order)
	}
}

// An operator's order does not wait for a batch, and a small renewal does not wait for a large
// one.
func TestASmallCommandDoesNotWaitForABatch(t *testing.T) {
	t.Parallel()
	h := idleRig(t, func(c *Config) { c.Concurrency, c.RatePerSecond = 1, 200 })
	const batch = 1500
	for n := range batch {
		h.bulk(fmt.Sprintf(`{"id":"b%d","duration_days":30,"proxy_ids":["px_nowhere_%d"]}`, n, n))
	}
	h.start()
	h.await("b0", fact.StateRejected)
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("keep", fact.StateCompleted)
	h.await("buy", fact.StateDelivered)
	counts, err := h.ledger.Operations.StateCounts(t.Context())
	check(t, err)
	if done := counts[fact.StateRejected]; done > batch/2 {
		t.Errorf("%d of %d of the batch went before", done, batch)
	}
}

// resting is a commands stream that reports the lines that rest.
type resting struct {
	Commands
	mu      sync.Mutex
	fetched map[queue.Line]int
	rests   chan queue.Line
}

func (r *resting) Fetch(ctx context.Context, line queue.Line, limit int) ([]intake.Message, error) {
	messages, err := r.Commands.Fetch(ctx, line, limit)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fetched[line] += len(messages)
	return messages, err
}

func (r *resting) Rest(line queue.Line) {
	r.Commands.Rest(line)
	r.rests <- line
}

// While the account is paused, commands that cannot start stay in the stream instead of being
// fetched and put back every few seconds. Other lines are not blocked.
func TestAPausedAccountFetchesNoMoreThanItCanHold(t *testing.T) {
	t.Parallel()
	h := idleRig(t, func(c *Config) { c.Concurrency, c.RatePerSecond = 1, 500 })
	const backlog = 300
	for n := range backlog {
		h.renew(fmt.Sprintf(`{"id":"r%d","duration_days":30,"proxy_ids":["px_nowhere_%d"]}`, n, n))
	}
	watched := &resting{fetched: map[queue.Line]int{}, rests: make(chan queue.Line, 100)}
	h.commands = func(c Commands) Commands { watched.Commands = c; return watched }
	check(t, h.runner.PauseByHand(t.Context(), "a test", "to see"))
	h.start()
	renewals := queue.Line{Kind: queue.KindProxyRenew}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case line := <-watched.rests:
		if line != renewals {
			t.Errorf("%v rests", line)
		}
	case <-late.C:
		t.Fatal("the line does not rest")
	}
	watched.mu.Lock()
	fetched := watched.fetched[renewals]
	watched.mu.Unlock()
	if fetched > h.runner.ready.capacity {
		t.Errorf("%d were fetched, and there is room for %d", fetched, h.runner.ready.capacity)
	}
	h.order(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.await("buy", fact.StateAccepted)
	_, err := h.runner.ResumeByHand(t.Context(), "a test", "seen", false)
	check(t, err)
	h.await("buy", fact.StateDelivered)
	h.await(fmt.Sprintf("r%d", backlog-1), fact.StateRejected)
}

// A day's backlog of orders in a paused lane starves no renewal.
func TestAPausedLaneDoesNotKeepAnotherFromComingBack(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	past := h.now().Add(-time.Minute).UTC()
	for n := range 700 {
		h.waits(fact.KindOrder, fmt.Sprintf(`{"id":"o%d","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`, n), past)
	}
	h.waits(fact.KindRenewal, `{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`, past.Add(time.Second))
	check(t, h.runner.pause(t.Context(), decide.Pause{Scope: string(laneOrder), Cause: "insufficient_scope", Detail: "test"}))
	h.start()
	h.await("keep", fact.StateCompleted)
}

// waits adds an operation that may have executed to the ledger.
func (h *rig) waits(kind fact.Kind, text string, next time.Time) {
	h.t.Helper()
	c, err := command.Parse(kind, []byte(text), rulesOfSandbox)
	check(h.t, err)
	content, hash, err := c.Content()
	check(h.t, err)
	planned := c.Operations(h.runner.Binding(), c.ProxyIDs, false)
	p := planned[0]
	body, err := h.runner.body(c, p.ProxyIDs)
	check(h.t, err)
	ref := fact.Ref{CommandID: c.ID, OperationID: p.OperationID}
	check(h.t, h.ledger.Write(h.t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(
			fact.CommandAccepted{Ref: fact.Ref{CommandID: c.ID}, Kind: c.Kind, ContentHash: hash, Content: content, DurationDays: c.DurationDays, Operations: planned},
			fact.OperationSending{Ref: ref, Attempt: 1, Key: p.Key, Body: string(body), SentAt: next, AppID: h.client.AppID()},
			fact.OperationWaiting{Ref: ref, Attempt: 1, Reason: "timeout", Ambiguous: true, NextAt: next})
	}))
}

// Commands that were accepted in one batch are sent in the order of acceptance.
func TestWhatCameTogetherGoesInItsOrder(t *testing.T) {
	r := newReady(100, newPauses(time.Now))
	var want, got []string
	for n := range 20 {
		id := fmt.Sprintf("o%d", n)
		want = append(want, id)
		r.push(&job{lane: laneOrder, priority: priorityOrder, at: someNoon, op: decide.Operation{Operation: fact.Operation{ID: id}}})
	}
	for range want {
		j, err := r.pop(t.Context())
		check(t, err)
		got = append(got, j.op.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("order %v", got)
	}
}
