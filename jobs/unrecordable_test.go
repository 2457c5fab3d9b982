package jobs

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// named is a provider that delivers 2,000 proxies with these ids.
type named struct {
	*upstream.Client

	prefix string
}

func (p *named) Order(ctx context.Context, no string) (upstream.Order, error) {
	o, err := p.Client.Order(ctx, no)
	if o.Delivery.Available {
		o.Proxies = o.Proxies[:0:0]
		for i := range 2000 {
			o.Proxies = append(o.Proxies, upstream.Proxy{ProxyID: fmt.Sprintf("%s%04d", p.prefix, i)})
		}
	}
	return o, err
}

// Ids that are too long for a command are left out. Ids that no fact can hold put the order in
// review, with its money booked. The only worker is then free for the next command.
func TestTrap72WhatCannotBeRecordedEndsInReview(t *testing.T) {
	t.Parallel()
	for prefix, state := range map[string]fact.State{strings.Repeat("x", 456): fact.StateDelivered, strings.Repeat(`"`, 250): fact.StateReview} {
		h := idleRig(t)
		h.bind(func(c *Config) { c.Provider, c.Concurrency = &named{h.client, prefix}, 1 })
		h.start()
		h.order(`{"id":"o","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
		s := h.await("o", state)
		if state == fact.StateReview && (!strings.Contains(s.Reason, "cannot be recorded") || len(s.Reason) > 1000) {
			t.Errorf("the reason: %q", s.Reason)
		}
		book, err := h.ledger.Money.Balance(t.Context(), "main")
		check(t, err)
		if book.ChargedCents != 300 {
			t.Errorf("%.1s: %d cents are booked", prefix, book.ChargedCents)
		}
		h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
		h.await("keep", fact.StateCompleted)
	}
}
