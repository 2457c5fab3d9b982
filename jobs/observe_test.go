package jobs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// lagging is a provider that always shows each proxy as it was at the first read.
type lagging struct {
	*upstream.Client
	mu  sync.Mutex
	old map[string]upstream.Proxy
}

func (p *lagging) Proxy(ctx context.Context, id string) (upstream.Proxy, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x, ok := p.old[id]; ok {
		return x, nil
	}
	x, err := p.Client.Proxy(ctx, id)
	if err == nil {
		p.old[id] = x
	}
	return x, err
}

// guardOf returns the conditions of a schedule's command for px_1: due, with this expected
// expiry.
func guardOf(p upstream.Proxy) string {
	return fmt.Sprintf(`,"due_before":%q,"expect_expires_at":{%q:%q}}`,
		p.ExpiresAt.Add(time.Hour).Format(time.RFC3339Nano), p.ProxyID, p.ExpiresAt.Format(time.RFC3339Nano))
}

func TestTrap45NoExpiryIsPaidForTwice(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"guarded", "plain", "plain among many", "plain, two hours ago"} {
		t.Run(first, func(t *testing.T) {
			h := idleRig(t)
			h.oneClock()
			lag := &lagging{Client: h.client, old: map[string]upstream.Proxy{}}
			h.bind(func(c *Config) { c.Provider = lag })
			h.start()
			before, err := lag.Proxy(t.Context(), "px_1")
			check(t, err)
			guard, charged := guardOf(before), int64(300)
			switch first {
			case "guarded":
				h.renew(`{"id":"one","duration_days":30,"proxy_ids":["px_1"]` + guard)
			case "plain", "plain, two hours ago":
				h.renew(`{"id":"one","duration_days":30,"proxy_ids":["px_1"]}`)
			default:
				charged = 6 * 300
				h.renew(`{"id":"one","duration_days":30,"proxy_ids":["px_1","px_2","px_3","px_4","px_5","px_6"]}`)
			}
			lines := h.await("one", fact.StateCompleted).Operations[0].Lines
			if at := lines[0].ObservedExpiresAt; at == nil || !at.Equal(before.ExpiresAt.Truncate(time.Second)) {
				t.Errorf("px_1 expired at %v, and the renewal says that it paid for %v", before.ExpiresAt, at)
			}
			if strings.Contains(first, "ago") {
				h.later(2 * time.Hour)
			}
			h.renew(`{"id":"two","duration_days":30,"proxy_ids":["px_1"]` + guard)
			if s := h.await("two", fact.StateRejected, fact.StateCompleted); s.State != string(fact.StateRejected) {
				t.Errorf("the second is %s", s.State)
			}
			h.settled(charged, 0)
		})
	}
}

// precise is a provider that shows nanoseconds in a read of one proxy and seconds in lists, as
// two services of one provider may.
type precise struct{ *upstream.Client }

func (p precise) Proxy(ctx context.Context, id string) (upstream.Proxy, error) {
	x, err := p.Client.Proxy(ctx, id)
	if x.ExpiresAt != nil {
		at := x.ExpiresAt.Truncate(time.Second).Add(123_456_789)
		x.ExpiresAt = &at
	}
	return x, err
}

// A list may show expiries rounded to the second, minute, hour or day, whereas a renewal moves
// them by days. A schedule's command has the expiry that its list showed.
func TestTrap70AnExpiryThatAListShowsCoarselyHasNotMoved(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.oneClock()
	h.bind(func(c *Config) { c.Provider = precise{h.client} })
	h.start()
	for i, to := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		id := fmt.Sprintf("px_%d", i+1)
		listed, err := h.client.Proxy(t.Context(), id)
		check(t, err)
		at := listed.ExpiresAt.Truncate(to).Format(time.RFC3339)
		guard := fmt.Sprintf(`,"due_before":%q,"expect_expires_at":{%q:%q}}`, at, id, at)
		h.renew(fmt.Sprintf(`{"id":"one-%d","duration_days":30,"proxy_ids":[%q]%s`, i, id, guard))
		h.await(fmt.Sprint("one-", i), fact.StateCompleted)
		h.renew(fmt.Sprintf(`{"id":"two-%d","duration_days":30,"proxy_ids":[%q]%s`, i, id, guard))
		h.await(fmt.Sprint("two-", i), fact.StateRejected)
		if renewed, err := h.ledger.Fleet.RenewedAt(t.Context(), id, listed.ExpiresAt.Truncate(to)); err != nil || !renewed {
			t.Errorf("shown to %s, it would be paid for again in an hour: %v", to, err)
		}
	}
	h.settled(1200, 0)
}

type tallied struct {
	*upstream.Client
	mu           sync.Mutex
	reads, pages int
}

func (p *tallied) Proxy(ctx context.Context, id string) (upstream.Proxy, error) {
	p.mu.Lock()
	p.reads++
	p.mu.Unlock()
	return p.Client.Proxy(ctx, id)
}

func (p *tallied) ProxiesPage(ctx context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
	p.mu.Lock()
	p.pages++
	p.mu.Unlock()
	return p.Client.ProxiesPage(ctx, r)
}

func TestTrap45ManyUnseenProxiesAreListedNotReadSingly(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	_, err := h.client.CreateOrder(t.Context(), "more", upstream.OrderRequest{DurationDays: 30, Items: []upstream.OrderItem{{OfferCode: "off_us_dallas", Quantity: 40}}})
	check(t, err)
	page, err := h.client.ProxiesPage(t.Context(), upstream.PageRequest{Size: 40})
	check(t, err)
	p := &tallied{Client: h.client}
	h.restart(func(c *Config) { c.Provider = p })
	var ids []string
	for _, x := range page.Items {
		ids = append(ids, `"`+x.ProxyID+`"`)
	}
	h.renew(`{"id":"all","duration_days":30,"proxy_ids":[` + strings.Join(ids, ",") + `]}`)
	s := h.await("all", fact.StateCompleted)
	for _, l := range s.Operations[0].Lines {
		if l.ObservedExpiresAt == nil && l.ProxyID != "px_forever" {
			t.Errorf("%s was paid for at no known expiry", l.ProxyID)
		}
	}
	if p.reads != 0 || p.pages == 0 || p.pages > 2 {
		t.Errorf("%d proxies took %d reads and %d pages", len(ids), p.reads, p.pages)
	}
}

// A key without proxies:read still renews proxies.
func TestTrap55APlainRenewalNeedsNoScopeToRead(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.control("/faults", map[string]any{"method": "GET", "path": "/api/v1/proxies*", "times": 1000, "fault": "code", "code": "insufficient_scope", "http_status": 403})
	h.start()
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1","px_2"]}`)
	h.await("keep", fact.StateCompleted)
	h.settled(600, 0)
}
