package jobs

import (
	"context"
	"sync"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/upstream"
)

// TestTrap34AnIntentThatWaitedTooLongIsNotSentWithItsOldTime: X-API-Timestamp is
// the moment of the intent. A request whose turn comes more than a minute later
// is recorded as unsent and signed anew, under the same key.
func TestTrap34AnIntentThatWaitedTooLongIsNotSentWithItsOldTime(t *testing.T) {
	h := idleHouse(t)
	h.bind(func(c *Config) { c.Concurrency = 1 }) // the second waits for the first
	h.start()
	h.fault(renew, "hang", map[string]any{"seconds": 1})
	h.renew(`{"id":"first","duration_days":30,"proxy_ids":["px_1"]}`)
	h.until("the first is under way", func() bool { return len(h.facts("operation.sending")) == 1 })
	h.renew(`{"id":"second","duration_days":30,"proxy_ids":["px_2"]}`)
	h.until("the second has its intent", func() bool { return len(h.facts("operation.sending")) == 2 })
	h.ahead.Store(int64(2 * intentAge))
	unsent, _ := h.awaitFact("operation.unsent").(ledger.OperationUnsent)
	if unsent.CommandID != "second" {
		t.Fatalf("%+v", unsent)
	}
	h.await("second", ledger.StateCompleted)
	var sent []ledger.OperationSending
	for _, f := range h.facts("operation.sending") {
		if f, _ := f.(ledger.OperationSending); f.CommandID == "second" {
			sent = append(sent, f)
		}
	}
	first, last := sent[0], sent[len(sent)-1]
	if len(sent) < 2 || !last.SentAt.After(first.SentAt) || last.Key != first.Key || last.Body != first.Body {
		t.Errorf("sent as %+v", sent)
	}
	h.settled(600, 0)
}

// beholder is a provider beside whose reads of a proxy things happen.
type beholder struct {
	*upstream.Client
	after func()
}

func (p beholder) Proxy(ctx context.Context, id string) (upstream.Proxy, error) {
	read, err := p.Client.Proxy(ctx, id)
	p.after()
	return read, err
}

// A look before paying takes its time: a deadline that passes meanwhile has
// passed.
func TestADeadlineThatPassesDuringTheLookIsKept(t *testing.T) {
	h := idleHouse(t)
	h.oneClock()
	h.bind(func(c *Config) {
		c.Provider = beholder{h.client, func() { h.later(2 * time.Hour) }}
	})
	h.start()
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"],"due_before":"2999-01-01T00:00:00Z","not_after":"` +
		h.now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`)
	if o := h.await("keep", ledger.StateRejected).Operations[0]; o.Code != "not_after" {
		t.Errorf("%+v", o)
	}
	h.settled(0, 0)
}

// A Retry-After between two reads of one look: what was read before it is old
// when it is over, and somebody may have renewed by hand.
func TestTrap09WhatWasReadBeforeARetryAfterIsReadAgainAfterIt(t *testing.T) {
	h := idleHouse(t)
	h.oneClock()
	h.bind(func(c *Config) {
		c.Provider = beholder{h.client, sync.OnceFunc(func() { h.hold(time.Hour) })}
	})
	planned := h.accepts(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"],"due_before":"` + h.now().Add(48*time.Hour).UTC().Format(time.RFC3339) + `"}`)
	record, err := h.ledger.Operation(t.Context(), planned.OperationID)
	check(t, err)
	j, err := h.runner.load(t.Context(), record)
	check(t, err)
	if goOn, err := h.runner.prepare(t.Context(), j); goOn || err != nil || !h.runner.ready.isActive(record.ID) {
		t.Fatalf("it was not put off: %t %v", goOn, err)
	}
	body, err := upstream.RenewBody(upstream.RenewRequest{ProxyIDs: []string{"px_1"}, DurationDays: 30})
	check(t, err)
	if reply := h.client.Post(t.Context(), upstream.Write{Kind: upstream.WriteRenewal, Key: "by-hand", Body: body, Timestamp: time.Now()}); !reply.Success {
		t.Fatalf("%+v", reply)
	}
	h.later(61 * time.Minute)
	h.start()
	h.await("keep", ledger.StateCompleted)
	for _, f := range h.facts("operation.sending") {
		if s, _ := f.(ledger.OperationSending); s.Body != `{"proxy_ids":["px_2"],"duration_days":30}` {
			t.Errorf("sent %s", s.Body)
		}
	}
	if n := len(h.facts("proxy.skipped")); n != 1 {
		t.Errorf("%d proxies were left out", n)
	}
}
