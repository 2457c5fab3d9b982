package jobs

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// garbled is a provider whose entries for some proxies cannot be read.
type garbled struct {
	*upstream.Client
	ids  []string
	code upstream.Code // of their reads; CodeOK: their data is malformed
	read []string
}

func (p *garbled) Proxy(ctx context.Context, id string) (upstream.Proxy, error) {
	p.read = append(p.read, id)
	if slices.Contains(p.ids, id) {
		return upstream.Proxy{}, &upstream.Error{Method: http.MethodGet, Path: "/api/v1/proxies/" + id, HTTPStatus: http.StatusOK, Code: p.code, Failure: "malformed data: expires_at is not a string"}
	}
	return p.Client.Proxy(ctx, id)
}

// A proxy that cannot be read delays neither the others nor, after a few minutes, its own
// command.
func TestTrap65AnUnreadableDetailHoldsUpNoOther(t *testing.T) {
	h := idleRig(t)
	for name, c := range map[string]struct {
		ids    []string
		cmd    command.Command
		waited time.Duration
		left   []string
		waits  bool
	}{
		"guarded, at first":    {[]string{"px_1", "px_2"}, command.Command{DueBefore: new(someNoon.AddDate(20, 0, 0))}, time.Second, nil, true},
		"guarded":              {[]string{"px_1", "px_2"}, command.Command{DueBefore: new(someNoon.AddDate(20, 0, 0))}, 4 * time.Minute, []string{"px_2"}, false},
		"without a guard":      {[]string{"px_1", "px_2"}, command.Command{}, 4 * time.Minute, []string{"px_2"}, false},
		"at first":             {[]string{"px_1", "px_2"}, command.Command{}, time.Second, nil, true},
		"alone":                {[]string{"px_1"}, command.Command{}, 4 * time.Minute, nil, false},
		"one of several alone": {[]string{"px_1", "px_3"}, command.Command{}, 4 * time.Minute, nil, false},
	} {
		h.bind(func(cfg *Config) {
			cfg.Provider = &garbled{Client: h.client, ids: []string{"px_1", "px_3"}, code: upstream.CodeOK}
		})
		op := sentOf(c.ids...)
		next := someNoon.Add(c.waited)
		op.State, op.Reason, op.UpdatedAt, op.NextAt = fact.StateWaiting, "it could not be read", someNoon, &next
		p := checked{ids: c.ids}
		d, err := h.runner.precheckProxies(t.Context(), &job{op: op, cmd: c.cmd}, &p)
		check(t, err)
		if d.Postponed != c.waits || !c.waits && (!slices.Equal(p.ids, c.left) || d.Send != (len(c.left) > 0)) {
			t.Errorf("%s: %+v, %v", name, d, p.ids)
		}
	}
}

// badOffer is a provider with an offer that cannot be read.
type badOffer struct{ *upstream.Client }

func (p badOffer) OffersPage(ctx context.Context, f upstream.OfferFilter, r upstream.PageRequest) (upstream.Page[upstream.Offer], error) {
	page, err := p.Client.OffersPage(ctx, f, r)
	page.Items = slices.DeleteFunc(page.Items, func(o upstream.Offer) bool { return o.OfferCode == "off_us_dallas" })
	page.Unusable = append(page.Unusable, upstream.Unusable{ID: "off_us_dallas", Position: 1, Field: "max_quantity", Why: "max_quantity is not a 64-bit integer"})
	return page, err
}

func TestTrap65AnOrderForAnUnreadableOfferEnds(t *testing.T) {
	h := idleRig(t)
	h.oneClock()
	h.bind(func(c *Config) { c.Provider = badOffer{h.client} })
	h.start()
	h.order(`{"id":"good","duration_days":30,"items":[{"offer_code":"off_de_frankfurt","quantity":1}],"max_total_cents":9000}`)
	h.await("good", fact.StateDelivered)
	h.order(`{"id":"bad","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}],"max_total_cents":600}`)
	h.await("bad", fact.StateWaiting)
	for i := range 12 {
		if len(h.facts("command.rejected")) > 0 {
			break
		}
		n := len(h.rows())
		h.later(time.Duration(i+1) * 10 * time.Minute)
		h.runner.wakeDueLoop()
		h.until("it was looked at again", func() bool { return len(h.rows()) > n })
	}
	f, ok := h.awaitFact("command.rejected").(fact.CommandRejected)
	if !ok || f.Code != "offer_unreadable" {
		t.Errorf("%+v", f)
	}
}

// A proxy that no listing shows is read before its renewal, even in a large command. It leaves
// the table if its own read does not find it.
func TestTrap66AnUnlistedProxyIsReadBeforeItIsRenewed(t *testing.T) {
	h := idleRig(t)
	provider := &garbled{Client: h.client, ids: []string{"px_2"}, code: upstream.CodeProxyNotFound}
	h.bind(func(c *Config) { c.Provider = provider })
	now := h.runner.clock.Now()
	expires := now.Add(24 * time.Hour)
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Observe(1, tables.Proxy{ProxyID: "px_1", ExpiresAt: &expires, SeenAt: now.Add(-time.Second), UnlistedAt: &now},
			tables.Proxy{ProxyID: "px_2", ExpiresAt: &expires, SeenAt: now.Add(-time.Second), UnlistedAt: &now},
			tables.Proxy{ProxyID: "px_3", ExpiresAt: &expires, SeenAt: now.Add(-time.Second)})
	}))
	for _, id := range []string{"px_1", "px_2", "px_3"} {
		if _, err := h.runner.current(t.Context(), &job{lane: laneRenewal}, id); (id == "px_2") != errors.Is(err, upstream.CodeProxyNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if !slices.Equal(provider.read, []string{"px_1", "px_2"}) {
		t.Errorf("read: %v", provider.read)
	}
	if _, err := h.ledger.Sweeps.Listed(t.Context(), "px_2"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("px_2 stays in the table: %v", err)
	}
}
