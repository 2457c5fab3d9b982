package schedules

import (
	"testing"
	"time"

	"perennial/ledger"
)

// TestAScheduleThatFitsNoListedProxyNamesItsFields, and is silent where one
// fits or nothing was listed.
func TestAScheduleThatFitsNoListedProxyNamesItsFields(t *testing.T) {
	s := keepalive()
	s.Match = Match{CountryCode: []string{"UK"}, Region: []string{"Dallas"}}
	h := newRig(t, soon(), s)
	none, err := MatchesNone(t.Context(), h.Ledger, s, nil)
	check(t, err)
	want(t, "before anything was listed", none, "")
	check(t, h.lister.WaitPass(t.Context()))
	none, err = MatchesNone(t.Context(), h.Ledger, s, nil)
	check(t, err)
	want(t, "none", none, "its match fits none of the 4 listed proxies: is country_code, region written right?")
	plan, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "plan", plan.MatchesNone, none)
	all, err := h.List(t.Context())
	check(t, err)
	want(t, "list", all[0].MatchesNone, none)
	for _, m := range []Match{{}, {CountryCode: []string{"us"}}, {ProxyIDs: []string{"px_far"}}} {
		s.Match = m
		none, err := MatchesNone(t.Context(), h.Ledger, s, nil)
		check(t, err)
		want(t, "one fits", none, "")
	}
}

// TestUncoveredIsWhatLivesAndNoScheduleRenews: an exception is covered by nothing,
// and what never expires needs nothing.
func TestUncoveredIsWhatLivesAndNoScheduleRenews(t *testing.T) {
	one, other := keepalive(), keepalive()
	one.Match = Match{ProxyIDs: []string{"px_1", "px_2"}, ExceptProxyIDs: []string{"px_2"}}
	other.Match = Match{CountryCode: []string{"DE"}}
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "48h", "px_de_1": "10h", "px_far": "900h", "px_never": ""}, one)
	check(t, h.lister.WaitPass(t.Context()))
	var ids []string
	find := func(now time.Time, all ...Schedule) []string {
		ids = []string{}
		check(t, Uncovered(t.Context(), h.Ledger, now, all, nil, func(p ledger.Proxy) error { ids = append(ids, p.ProxyID); return nil }))
		return ids
	}
	want(t, "of two schedules", find(noon, one, other), []string{"px_2", "px_far"})
	want(t, "later", find(noon.Add(100*time.Hour), one, other), []string{"px_far"})
	want(t, "with one for all", find(noon, one, other, keepalive()), []string{})
}
