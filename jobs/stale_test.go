package jobs

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// X-API-Timestamp is the time of the intent. A request whose turn comes more than a minute
// later is recorded as unsent and signed again, under the same key.
func TestTrap34ALateIntentIsNotSentWithItsOldTime(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.bind(func(c *Config) { c.Concurrency = 1 }) // the second waits for the first
	h.listed()
	h.start()
	h.fault(renew, "hang", map[string]any{"seconds": 1})
	h.renew(`{"id":"first","duration_days":30,"proxy_ids":["px_1"]}`)
	h.until("the first is in progress", func() bool { return len(h.facts("operation.sending")) == 1 })
	h.renew(`{"id":"second","duration_days":30,"proxy_ids":["px_2"]}`)
	h.until("the second has its intent", func() bool { return len(h.facts("operation.sending")) == 2 })
	h.ahead.Store(int64(2 * time.Minute))
	h.await("second", fact.StateCompleted)
	unsent := h.facts("operation.unsent")
	if len(unsent) == 0 {
		t.Fatal("it was sent with its old time")
	}
	if f, _ := unsent[0].(fact.OperationUnsent); f.CommandID != "second" {
		t.Fatalf("unsent: %+v", unsent)
	}
	var sent []fact.OperationSending
	for _, f := range h.facts("operation.sending") {
		if f, _ := f.(fact.OperationSending); f.CommandID == "second" {
			sent = append(sent, f)
		}
	}
	first, last := sent[0], sent[len(sent)-1]
	if len(sent) < 2 || !last.SentAt.After(first.SentAt) || last.Key != first.Key || last.Body != first.Body {
		t.Errorf("sent as %+v", sent)
	}
	h.settled(600, 0)
}

// beholder is a provider that runs a hook during reads of a proxy.
type beholder struct {
	*upstream.Client
	after func()
}

func (p beholder) Proxy(ctx context.Context, id string) (upstream.Proxy, error) {
	read, err := p.Client.Proxy(ctx, id)
	p.after()
	return read, err
}

// A deadline may pass during the precheck.
func TestADeadlineThatPassesDuringThePrecheckIsKept(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.oneClock()
	h.bind(func(c *Config) {
		c.Provider = beholder{h.client, func() { h.later(2 * time.Hour) }}
	})
	h.start()
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"],"due_before":"2999-01-01T00:00:00Z","not_after":"` +
		h.now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`)
	if o := h.await("keep", fact.StateRejected).Operations[0]; o.Code != "not_after" {
		t.Errorf("%+v", o)
	}
	h.settled(0, 0)
}

// The provider may keep showing the old expiry, but one expiry allows only one successful
// renewal.
func TestTrap09AnExpiryShownForLongIsPaidForOnce(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	before, err := h.client.Proxy(t.Context(), "px_1")
	check(t, err)
	h.bind(func(c *Config) {
		c.Provider = &retold{Client: h.client, proxy: func(x *upstream.Proxy) error { x.ExpiresAt = before.ExpiresAt; return nil }}
	})
	h.start()
	const due = `"duration_days":30,"proxy_ids":["px_1"],"due_before":"2999-01-01T00:00:00Z"}`
	h.renew(`{"id":"first",` + due)
	h.await("first", fact.StateCompleted)
	h.renew(`{"id":"second",` + due)
	if s := h.await("second", fact.StateRejected); s.Operations[0].Code != "nothing_due" {
		t.Errorf("%+v", s)
	}
	h.settled(300, 0)
}

// A Retry-After comes between two reads of one precheck. When it has ended, the first read is
// stale, because an operator may have renewed by hand.
func TestTrap09WhatWasReadBeforeARetryAfterIsReread(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.oneClock()
	h.bind(func(c *Config) {
		c.Provider = beholder{h.client, sync.OnceFunc(func() { h.hold(time.Hour) })}
	})
	planned := h.accepts(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"],"due_before":"` + h.now().Add(48*time.Hour).UTC().Format(time.RFC3339) + `"}`)
	record, err := h.ledger.Operations.Operation(t.Context(), planned.OperationID)
	check(t, err)
	j, err := h.runner.load(t.Context(), record)
	check(t, err)
	// The operation must make no request and must not wait. The timeout stops one that does.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if goOn, err := h.runner.prepare(ctx, j); goOn || err != nil || ctx.Err() != nil || !h.runner.ready.isActive(record.ID) {
		t.Fatalf("it was not postponed: %t %v %v", goOn, err, ctx.Err())
	}
	body, err := upstream.RenewBody(upstream.RenewRequest{ProxyIDs: []string{"px_1"}, DurationDays: 30})
	check(t, err)
	if reply := h.client.Post(t.Context(), upstream.Write{Kind: upstream.WriteRenewal, Key: "by-hand", Body: body, Timestamp: time.Now()}); !reply.Success {
		t.Fatalf("%+v", reply)
	}
	h.later(61 * time.Minute)
	h.start()
	h.await("keep", fact.StateCompleted)
	for _, f := range h.facts("operation.sending") {
		if s, _ := f.(fact.OperationSending); s.Body != `{"proxy_ids":["px_2"],"duration_days":30}` {
			t.Errorf("sent %s", s.Body)
		}
	}
	if n := len(h.facts("proxy.skipped")); n != 1 {
		t.Errorf("%d proxies were left out", n)
	}
}

// A recent listing suffices for a large operation. For a few proxies, each is read again.
func TestTrap09FewProxiesAreReadAgainHoweverFreshTheirListing(t *testing.T) {
	few := []string{"px_1", "px_2", "px_3", "px_4", "px_5", "px_6"}
	many := slices.Repeat(few, 2)
	for name, c := range map[string]struct {
		ids   []string
		ahead time.Duration // this machine's clock, while it was listed
		reads int
	}{
		"few":                             {few, 0, 6},
		"many":                            {many, 0, 0},
		"many, listed too long ago":       {many, -11 * time.Minute, 6},
		"many, listed in the time ahead":  {many, time.Hour, 6},
		"many, listed since the last one": {many, -time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := idleRig(t)
			h.ahead.Store(int64(c.ahead))
			h.observe()
			h.ahead.Store(0)
			reads := 0
			h.bind(func(c *Config) { c.Provider = beholder{h.client, func() { reads++ }} })
			p := checked{}
			j := &job{op: decide.Operation{ProxyIDs: c.ids}, cmd: command.Command{DueBefore: new(h.now().Add(48 * time.Hour))}}
			_, err := h.runner.precheckProxies(t.Context(), j, &p)
			check(t, err)
			if reads != c.reads {
				t.Errorf("%d proxies were read", reads)
			}
		})
	}
}

// An operation whose precheck fails waits longer each time, and occupies neither a worker nor
// the rate.
func TestALookThatFailsWaitsAndOrdersGoOn(t *testing.T) {
	t.Parallel()
	h := idleRig(t, func(c *Config) { c.RatePerSecond = 20 })
	h.control("/faults", map[string]any{"method": "GET", "path": "/api/v1/proxies/{proxy_id}", "fault": "error_before", "times": -1})
	h.start()
	ids := []string{"px_1", "px_2", "px_3", "px_4", "px_5", "px_6"}
	for _, id := range ids {
		h.renew(`{"id":"` + id + `","duration_days":30,"proxy_ids":["` + id + `"],"due_before":"2099-01-01T00:00:00Z"}`)
	}
	h.order(buyA)
	for _, id := range ids {
		h.await(id, fact.StateWaiting)
	}
	h.await("a", fact.StateDelivered)
	s, err := inspect.Status(t.Context(), h.ledger, "px_1")
	check(t, err)
	if o := s.Operations[0]; o.Attempts != 0 || o.Ambiguous != 0 || !strings.Contains(o.Reason, "before paying") {
		t.Errorf("%+v", o)
	}
	h.ask(http.MethodDelete, "/faults", nil)
	for _, id := range ids {
		h.await(id, fact.StateCompleted)
	}
	h.settled(2100, 0)
}
