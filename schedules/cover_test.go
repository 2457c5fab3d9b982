package schedules

import (
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// There is no warning if a proxy matches, or if nothing was listed.
func TestAScheduleThatFitsNoListedProxyNamesItsFields(t *testing.T) {
	s := keepalive()
	s.Match = plans.Match{CountryCode: []string{"UK"}, Region: []string{"Dallas"}}
	h := newRig(t, soon(), s)
	none, err := MatchesNone(t.Context(), h.Ledger.Fleet, s, nil)
	check(t, err)
	want(t, "before anything was listed", none, "")
	check(t, h.lister.WaitPass(t.Context()))
	none, err = MatchesNone(t.Context(), h.Ledger.Fleet, s, nil)
	check(t, err)
	want(t, "none", none, "its match fits none of the 4 listed proxies: is country_code, region written right?")
	plan, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "plan", plan.MatchesNone, none)
	all, err := h.List(t.Context())
	check(t, err)
	want(t, "list", all[0].MatchesNone, none)
	for _, m := range []plans.Match{{}, {CountryCode: []string{"us"}}, {ProxyIDs: []string{"px_far"}}} {
		s.Match = m
		none, err := MatchesNone(t.Context(), h.Ledger.Fleet, s, nil)
		check(t, err)
		want(t, "one fits", none, "")
	}
}

// No schedule covers an exception. A proxy without a known expiry is never due, whatever schedule it
// matches, so a person must know of it.
func TestUncoveredIsWhatLivesAndNoScheduleRenews(t *testing.T) {
	one, other := keepalive(), keepalive()
	one.Match = plans.Match{ProxyIDs: []string{"px_1", "px_2"}, ExceptProxyIDs: []string{"px_2"}}
	other.Match = plans.Match{CountryCode: []string{"DE"}}
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "48h", "px_de_1": "10h", "px_far": "900h", "px_never": ""}, one)
	if _, known := h.Uncovered(t.Context()); known {
		t.Error("what no schedule renews is known before anything was listed")
	}
	check(t, h.lister.WaitPass(t.Context()))
	n, known := h.Uncovered(t.Context())
	want(t, "counted", []any{n, known}, []any{int64(4), true})
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { // as after a delivered order
		return tx.Observe(0, tables.Proxy{ProxyID: "px_new", ExpiresAt: new(noon.Add(time.Hour)), SeenAt: noon})
	}))
	n, _ = h.Uncovered(t.Context())
	want(t, "with a delivered one", n, 5)
	h.took.Store(int64(recountWithin) + 1)
	n, _ = h.Uncovered(t.Context())
	want(t, "of a fleet too large to count again", n, 4)
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Gone("px_new") }))
	var ids []string
	find := func(now time.Time, all ...plans.Schedule) []string {
		ids = []string{}
		check(t, Uncovered(t.Context(), h.Ledger.Fleet, now, all, nil, func(p tables.Proxy) error { ids = append(ids, p.ProxyID); return nil }))
		return ids
	}
	want(t, "of two schedules", find(noon, one, other), []string{"px_2", "px_far", "px_never"})
	want(t, "later", find(noon.Add(100*time.Hour), one, other), []string{"px_far", "px_never"})
	want(t, "with one for all", find(noon, one, other, keepalive()), []string{"px_never"})
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { // an entry that cannot be read
		return tx.ObserveUnreadable(9, "px_odd", "expires_at is no time")
	}))
	want(t, "with an unreadable one", find(noon, one, other, keepalive()), []string{"px_never", "px_odd"})
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.ProxyRetired{ProxyID: "px_never", By: "ada", Reason: "it has no end"})
	}))
	want(t, "with a retired one", find(noon, one, other, keepalive()), []string{"px_odd"})
}

// A fact reports such proxies after two listings with them. Later it reports an increase at most
// once a day, and the end.
func TestProxiesInNoScheduleAreAFinding(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "48h", "px_3": "96h", "px_4": "900h"}, keepalive())
	told := func() fact.ListingUncovered {
		f, _, err := h.Ledger.Fleet.LastUncovered(t.Context())
		check(t, err)
		return f
	}
	rows := func() (n int) {
		for _, kind := range h.facts(t, 0) {
			if kind == "listing.uncovered" {
				n++
			}
		}
		return n
	}
	listed := func(passes, facts int, after time.Duration, covered ...string) {
		t.Helper()
		h.watch.add(after)
		h.Schedules[0].Match = plans.Match{ProxyIDs: covered}
		for range passes {
			check(t, h.lister.WaitPass(t.Context()))
		}
		want(t, "facts", rows(), facts)
	}
	listed(2, 0, 0, "px_1", "px_2", "px_3", "px_4")
	listed(1, 0, 0, "px_1", "px_4")
	listed(2, 1, 0, "px_1", "px_4")
	want(t, "told", told().ProxyIDs, []string{"px_2", "px_3"})
	want(t, "first", told().FirstExpiresAt.UTC(), noon.Add(48*time.Hour))
	listed(3, 1, 0, "px_1")
	h.config.Schedules = h.Schedules
	h.restart(t)
	listed(3, 2, 24*time.Hour, "px_1")
	want(t, "grown", told().Uncovered, 3)
	listed(3, 2, 0, "px_1", "px_4")
	listed(3, 3, 24*time.Hour, "px_1", "px_2", "px_3") // fewer, so that an increase is reported again
	want(t, "fewer", told().ProxyIDs, []string{"px_4"})
	listed(3, 4, 24*time.Hour, "px_1", "px_2")
	want(t, "more again", told().ProxyIDs, []string{"px_3", "px_4"})
	listed(3, 5, 24*time.Hour, "px_1", "px_2") // px_3 has expired
	want(t, "after the end of one", told().ProxyIDs, []string{"px_4"})
	listed(3, 6, 0, "px_1", "px_2", "px_3", "px_4")
	want(t, "ended", told().Uncovered, 0)
}

// The first schedule in the configuration renews a proxy. The price is what was last paid for
// the proxy or for its kind.
func TestACoverageNamesTheScheduleAndThePrice(t *testing.T) {
	first, second := keepalive(), keepalive()
	first.Match, second.Name, second.DurationDays = plans.Match{ExceptProxyIDs: []string{"px_2"}}, "second", 60
	second.Match = plans.Match{CountryCode: []string{"US"}}
	h := newRig(t, soon(), first)
	h.paid(t, "px_1", 300)
	check(t, h.lister.WaitPass(t.Context()))
	c, err := plans.NewCoverage([]plans.Schedule{first, second}, plans.HistoryOf(h.Ledger.Queries), nil)
	check(t, err)
	page, err := h.Ledger.Fleet.PricedPage(t.Context(), tables.From(noon), noon.Add(1000*time.Hour), 10)
	check(t, err)
	got := map[string]plans.Price{}
	for _, p := range page {
		s, covered := c.Of(p.Proxy)
		price, err := c.Price(t.Context(), p)
		check(t, err)
		if got[p.ProxyID+" "+s.Name] = price; !covered {
			t.Errorf("%s is not covered", p.ProxyID)
		}
	}
	want(t, "own", got["px_1 keepalive"], plans.Price{Cents: fact.Known(300), From: plans.PriceOwn})
	want(t, "kind, for 60 days", got["px_2 second"], plans.Price{Cents: fact.Known(600), From: plans.PriceKind})
	if s, excepted := c.Excepting(page[1].Proxy); !excepted || s.Name != "keepalive" {
		t.Errorf("the exception of %s", s.Name)
	}
	slots, _, err := first.Slots(noon, 2)
	check(t, err)
	want(t, "slots", slots, []time.Time{noon.Add(15 * time.Minute), noon.Add(30 * time.Minute)})
	from, until := first.DueOn(noon, noon.Add(24*time.Hour), noon)
	want(t, "today with what was due", []time.Time{from.UTC(), until}, []time.Time{time.Unix(0, 0).UTC(), noon.Add(96 * time.Hour)})
}

// Whatever kept a schedule from renewing a proxy, the proxy is counted before it expires.
func TestAProxyThatExpiresSoonAndWasNotRenewedIsLate(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "20h", "px_2": "26h", "px_3": "900h"}, keepalive())
	check(t, h.lister.WaitPass(t.Context()))
	late := func(change func(*Status)) int64 {
		all, err := h.List(t.Context())
		check(t, err)
		all[0].LastSlot = &noon
		if change != nil {
			change(&all[0])
		}
		n, first, err := h.Late(t.Context(), all)
		check(t, err)
		if (n > 0) != (first != "") {
			t.Errorf("%d late, and the first is %q", n, first)
		}
		return n
	}
	want(t, "a run has left it out", late(nil), 1)
	want(t, "the first run comes in time", late(func(s *Status) { s.LastSlot = nil }), 0)
	want(t, "the first run comes too late", late(func(s *Status) { s.LastSlot, s.NextSlot = nil, new(noon.Add(21*time.Hour)) }), 1)
	want(t, "a run is in progress", late(func(s *Status) { s.State = "planned" }), 0)
	want(t, "a paused schedule says why", late(func(s *Status) { s.Paused = &tables.SchedulePause{By: "ann"} }), 0)
	want(t, "a run that lacks money says why", late(func(s *Status) { s.StillOverLimit = 1 }), 0)
	p, err := h.Ledger.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	renewal(t, h.Ledger, 1, "px_1", "failed", 300, *p.ExpiresAt)
	want(t, "its renewal failed", late(nil), 1)
	h.watch.add(7 * time.Hour)
	want(t, "the next one is near", late(nil), 2)
	renewal(t, h.Ledger, 2, "px_1", "succeeded", 300, *p.ExpiresAt)
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Stale("px_1") }))
	want(t, "it is renewed", late(nil), 1)
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.ProxyRetired{ProxyID: "px_2", By: "ada", Reason: "not needed"})
	}))
	want(t, "the other is retired", late(nil), 0)
}
