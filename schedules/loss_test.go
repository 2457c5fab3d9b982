package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/listing"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// hiding is a provider that omits some proxies from its list while hide is set.
type hiding struct {
	listing.Provider
	hide     func(id string) bool
	unusable []upstream.Unusable
}

func (h *hiding) ProxiesPage(ctx context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
	page, err := h.Provider.ProxiesPage(ctx, r)
	page.Items = slices.DeleteFunc(page.Items, func(p upstream.Proxy) bool { return h.hide != nil && h.hide(p.ProxyID) })
	page.Unusable = h.unusable
	return page, err
}

func shrunk(t testing.TB, l *ledger.Ledger) (all []fact.ListingShrunk) {
	t.Helper()
	rows, err := l.Rows(t.Context(), 0, 100_000)
	check(t, err)
	for _, r := range rows {
		if r.Type == "listing.shrunk" {
			var f fact.ListingShrunk
			check(t, json.Unmarshal([]byte(r.Data), &f))
			all = append(all, f)
		}
	}
	return all
}

// losing returns a rig with ten due proxies that were listed once. Its provider can hide them.
func losing(t *testing.T, schedules ...plans.Schedule) (*rig, *hiding) {
	t.Helper()
	expiries := map[string]string{}
	for i := range 10 {
		expiries[fmt.Sprintf("px_%d", i)] = "48h"
	}
	h := newRig(t, expiries, schedules...)
	client := h.config.Provider.(*upstream.Client)
	hidden := &hiding{Provider: client}
	h.config.Provider, h.config.Proxy = hidden, client.Proxy
	h.restart(t)
	for id := range expiries {
		h.paid(t, id, 300)
	}
	check(t, h.lister.WaitPass(t.Context()))
	want(t, "not ready", h.NotReady(), "")
	h.watch.add(11 * time.Minute)
	return h, hidden
}

func TestTrap66AnEmptyListingForgetsNoProxy(t *testing.T) {
	h, provider := losing(t, keepalive())
	provider.hide = func(string) bool { return true }
	for range 3 {
		check(t, h.lister.WaitPass(t.Context()))
		h.watch.add(time.Minute)
	}
	want(t, "proxies", len(shown(t, h.Ledger)), 10)
	if said := h.NotReady(); !strings.Contains(said, "did not show 10 of 10 known proxies") {
		t.Errorf("said: %q", said)
	}
	told := shrunk(t, h.Ledger)
	if len(told) != 1 || told[0].Known != 10 || told[0].NotListed != 10 || len(told[0].ProxyIDs) != 10 {
		t.Errorf("told: %+v", told)
	}
	plan, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "due", plan.Due, 10)

	provider.hide = nil
	if fresh, err := h.lister.Fresh(t.Context(), time.Hour); err != nil || fresh {
		t.Errorf("a pass that lost all serves: %v", err)
	}
	plan, err = h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "due", plan.Due, 10)
	want(t, "not ready", h.NotReady(), "")
	p, err := h.Ledger.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	want(t, "unlisted", p.UnlistedAt, nil)
}

func TestTrap66AFewMissingProxiesStayDueAndAreNoFinding(t *testing.T) {
	h, provider := losing(t, keepalive())
	provider.hide = func(id string) bool { return id < "px_4" }
	plan := h.sweep(t)
	want(t, "included", len(plan.Included), 10)
	want(t, "not ready", h.NotReady(), "")
	want(t, "told", len(shrunk(t, h.Ledger)), 0)
	known, err := h.Ledger.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	if known.UnlistedAt == nil {
		t.Error("it is not marked as unlisted")
	}
	if _, read, err := h.Ledger.Fleet.SeenExpiry(t.Context(), "px_1"); err != nil || read {
		t.Errorf("it is not read before it is renewed: %v", err)
	}
}

func TestTrap66AThresholdIsConfigurable(t *testing.T) {
	for name, c := range map[string]struct{ percent, least, hidden, lost int }{
		"the share":  {50, 2, 4, 0},
		"over both":  {50, 2, 5, 5},
		"the number": {10, 7, 6, 0},
	} {
		h, provider := losing(t)
		h.config.LossPercent, h.config.LossMin = c.percent, c.least
		h.restart(t)
		provider.hide = func(id string) bool { return id < fmt.Sprintf("px_%d", c.hidden) }
		check(t, h.lister.WaitPass(t.Context()))
		if told := shrunk(t, h.Ledger); (c.lost > 0) != (len(told) == 1) || c.lost > 0 && told[0].NotListed != c.lost {
			t.Errorf("%s: %+v", name, told)
		}
	}
}

// A proxy leaves the table only after its own read or its expiry.
func TestTrap66WhatItsOwnReadDoesNotFindIsGone(t *testing.T) {
	h, provider := losing(t, keepalive())
	provider.hide = func(string) bool { return true }
	read := h.config.Proxy
	h.config.Proxy = func(ctx context.Context, id string) (upstream.Proxy, error) {
		if id < "px_6" {
			return upstream.Proxy{}, refused(upstream.CodeProxyNotFound)
		}
		return read(ctx, id)
	}
	h.restart(t)
	check(t, h.lister.WaitPass(t.Context()))
	h.watch.add(time.Minute)
	check(t, h.lister.WaitPass(t.Context()))
	want(t, "proxies", shown(t, h.Ledger), []string{"px_6", "px_7", "px_8", "px_9"})
	gone := func() (n int) {
		for _, factType := range h.facts(t, 0) {
			if factType == "proxy.gone" {
				n++
			}
		}
		return n
	}
	want(t, "said to be gone", gone(), 6)

	h.watch.add(49 * time.Hour)
	check(t, h.lister.WaitPass(t.Context()))
	want(t, "proxies after their expiry", len(shown(t, h.Ledger)), 0)
	want(t, "said to be gone, which had not expired", gone(), 6)
	want(t, "not ready", h.NotReady(), "")
}

func TestTrap66AProxyThatCannotBeReadHidesNoOther(t *testing.T) {
	h, provider := losing(t, keepalive())
	provider.hide = func(string) bool { return true }
	h.config.Proxy = func(_ context.Context, id string) (upstream.Proxy, error) {
		if id == "px_0" || id == "px_1" || id == "px_2" {
			return upstream.Proxy{}, &upstream.TransportError{Err: errors.New("reset")}
		}
		return upstream.Proxy{}, refused(upstream.CodeProxyNotFound)
	}
	h.restart(t)
	for range 3 {
		check(t, h.lister.WaitPass(t.Context()))
		h.watch.add(time.Minute)
	}
	want(t, "proxies", shown(t, h.Ledger), []string{"px_0", "px_1", "px_2"})
}

func TestTrap66WhatIsLostIsRememberedAcrossARestart(t *testing.T) {
	h, provider := losing(t, keepalive())
	provider.hide = func(string) bool { return true }
	check(t, h.lister.WaitPass(t.Context()))
	h.restart(t)
	check(t, h.lister.Recall(t.Context()))
	if h.NotReady() == "" {
		t.Error("ready")
	}
}

// lossInBubble makes a bench's listings empty while the returned value is true.
func lossInBubble(b *bench) *atomic.Bool {
	empty, inner := &atomic.Bool{}, b.config.Provider
	b.config.Provider = fake(func(r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
		if empty.Load() {
			return upstream.Page[upstream.Proxy]{}, nil
		}
		return inner.ProxiesPage(b.t.Context(), r)
	})
	return empty
}

func TestTrap66ASweepOfLostProxiesFailsUntilTheyAreListed(t *testing.T) {
	t.Parallel()
	daily := keepalive()
	daily.Cron = "0 1 * * *"
	proxies := map[string]time.Duration{}
	for i := range 10 {
		proxies[fmt.Sprintf("px_%d", i)] = 95 * time.Hour // due after the first day
	}
	inBubble(t, daily, proxies, func(t *testing.T, b *bench) {
		for id := range proxies {
			paid(t, b.Ledger, id, 300)
		}
		b.end()
		empty := lossInBubble(b)
		b.stream.arrived = nil
		b.start()
		time.Sleep(20 * time.Hour)
		empty.Store(true)
		time.Sleep(15 * time.Hour) // past the slot at 01:00
		synctest.Wait()
		told := failures(t, b.Ledger)
		if len(told) != 1 || told[0].Due != 10 || !strings.Contains(told[0].Reason, "did not show 10 of 10") {
			t.Fatalf("told: %+v", told)
		}
		want(t, "commands", len(b.stream.ids()), 0)
		if said := b.NotReady(); !strings.Contains(said, "schedule keepalive") {
			t.Errorf("said: %q", said)
		}
		empty.Store(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want(t, "not ready", b.NotReady(), "")
		if len(b.stream.ids()) == 0 {
			t.Error("nothing was renewed when the listing was whole again")
		}
	})
}

func TestTrap66WhatExpiresSoonIsRenewedThoughItIsNotListed(t *testing.T) {
	t.Parallel()
	daily := keepalive()
	daily.Cron = "0 1 * * *"
	proxies := map[string]time.Duration{}
	for i := range 10 {
		proxies[fmt.Sprintf("px_%d", i)] = 30 * time.Hour
	}
	inBubble(t, daily, proxies, func(t *testing.T, b *bench) {
		for id := range proxies {
			paid(t, b.Ledger, id, 300)
		}
		b.end()
		empty := lossInBubble(b)
		b.stream.arrived = nil
		b.start()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		empty.Store(true)
		time.Sleep(26 * time.Hour)
		synctest.Wait()
		if len(failures(t, b.Ledger)) == 0 || len(b.stream.ids()) == 0 {
			t.Errorf("told: %+v, renewed %v", failures(t, b.Ledger), b.stream.ids())
		}
		empty.Store(false)
		time.Sleep(6 * time.Minute) // the next listing
		synctest.Wait()
		want(t, "not ready", b.NotReady(), "")
	})
}

func TestTrap65TheOthersArePlanned(t *testing.T) {
	h, provider := losing(t, keepalive())
	provider.hide = func(id string) bool { return id == "px_3" || id == "px_7" }
	provider.unusable = []upstream.Unusable{
		{ID: "px_3", Position: 4, Field: "expires_at", Why: "expires_at is not a string"},
		{ID: "px_new", Position: 5, Field: "expires_at", Why: "expires_at is not an ISO 8601 time with a zone"},
		{Position: 8, Field: "proxy_id", Why: "proxy_id is not a string"},
	}
	plan := h.sweep(t)
	want(t, "included", len(plan.Included), 9)
	want(t, "left out", plan.LeftOutCounts, map[string]int{plans.ReasonUnusable: 1})
	want(t, "unusable", plan.Unusable, []plans.Unusable{{ProxyID: "px_3", Reason: "expires_at is not a string"}, {ProxyID: "px_new", Reason: "expires_at is not an ISO 8601 time with a zone"}})
	want(t, "all unusable", plan.UnusableCount, 3)
	for _, id := range []string{"px_3", "px_7"} {
		p, err := h.Ledger.Sweeps.Listed(t.Context(), id)
		check(t, err)
		if p.UnlistedAt != nil || p.Retired || p.ExpiresAt == nil {
			t.Errorf("%+v", p)
		}
	}
	provider.hide, provider.unusable = nil, nil
	check(t, h.lister.WaitPass(t.Context()))
	if p, err := h.Ledger.Fleet.Proxy(t.Context(), "px_3"); err != nil || p.Unreadable != "" {
		t.Errorf("it is readable again: %+v %v", p, err)
	}
}

// A list with mostly unreadable entries is reported like an empty list, and the readable proxies
// are renewed.
func TestTrap65AListOfUnreadableEntriesIsAFinding(t *testing.T) {
	for name, id := range map[string]func(i int) string{"with ids": func(i int) string { return fmt.Sprintf("px_%d", i) }, "without": func(int) string { return "" }} {
		h, provider := losing(t, keepalive())
		provider.hide = func(id string) bool { return id < "px_8" }
		for i := range 8 {
			provider.unusable = append(provider.unusable, upstream.Unusable{ID: id(i), Position: i + 1, Why: "expires_at is not a string"})
		}
		check(t, h.lister.WaitPass(t.Context()))
		if told := shrunk(t, h.Ledger); len(told) != 1 || told[0].NotListed != 8 || h.NotReady() == "" {
			t.Errorf("%s: %+v", name, told)
		}
		unlisted, unreadable, err := h.Ledger.Fleet.CountUnlisted(t.Context())
		check(t, err)
		want(t, name+": unlisted", unlisted, 0)
		if plan := h.sweep(t); len(plan.Included) != 10-unreadable {
			t.Errorf("%s: %d are included", name, len(plan.Included))
		}
	}
}

func TestTrap65AMatchOfWhatIsNotTextDoesNotFit(t *testing.T) {
	s := keepalive()
	s.Match.Protocol = []string{"socks5"}
	f := s.Match.Filter(plans.Lists{})
	for protocol, want := range map[string][2]bool{"socks5": {true, false}, "http": {false, false}, upstream.NotText: {false, true}} {
		if p := (tables.Proxy{Protocol: protocol}); f.About(p) != want[0] || f.Undecided(p) != want[1] {
			t.Errorf("%s: %v %v", protocol, f.About(p), f.Undecided(p))
		}
	}
	h := newRig(t, nil, s)
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Observe(1, tables.Proxy{ProxyID: "px_1", Protocol: upstream.NotText, ExpiresAt: new(noon.Add(24 * time.Hour)), SeenAt: noon})
	}))
	plan, err := h.plan(t.Context(), h.runners[0], firing{})
	check(t, err)
	want(t, "left out", plan.LeftOutCounts, map[string]int{plans.ReasonNotText: 1})
	want(t, "named", plan.LeftOut[0].ProxyID, "px_1")
}

// unreadableList is a provider whose list of proxies has no array.
type unreadableList struct {
	*upstream.Client

	broken atomic.Bool
}

func (p *unreadableList) ProxiesPage(ctx context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
	if p.broken.Load() {
		return upstream.Page[upstream.Proxy]{}, &upstream.Error{Code: upstream.CodeOK, Failure: "no array of proxies"}
	}
	return p.Client.ProxiesPage(ctx, r)
}

// New proxies are then never seen, although every request is answered.
func TestAListThatCannotBeReadIsNotReady(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	client, ok := h.config.Provider.(*upstream.Client)
	if !ok {
		t.Fatal("the provider is no client")
	}
	p := &unreadableList{Client: client}
	p.broken.Store(true)
	h.config.Provider = p
	h.restart(t)
	if err := h.lister.WaitPass(t.Context()); err == nil {
		t.Fatal("the list was read")
	}
	want(t, "at first", h.NotReady(), "")
	h.watch.add(30 * time.Second)
	if said := h.NotReady(); !strings.Contains(said, "cannot be read since ") || !strings.Contains(said, "no array of proxies") {
		t.Errorf("%q", said)
	}
	p.broken.Store(false)
	check(t, h.lister.WaitPass(t.Context()))
	want(t, "it can be read", h.NotReady(), "")
}
