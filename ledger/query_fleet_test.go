package ledger

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/tables"
)

func proxyIDs(proxies []tables.Proxy) (out []string) {
	for _, p := range proxies {
		out = append(out, p.ProxyID)
	}
	return out
}

func TestEveryListShowsRetirementAndTheOrdersLabels(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), accepted(fact.KindOrder, "o1/1"), sending("o1/1", 1),
		fact.OrderAccepted{Ref: ref("o1/1"), Attempt: 1, OrderNo: "no of o1/1", NextAt: noon},
		fact.OrderDelivered{OrderState: orderState("o1/1", "completed", 600, 0), ProxyIDs: []string{"px_1", "px_2"}},
		fact.ProxyRetired{ProxyID: "px_2", By: "ada", Reason: "moved away"})
	b.observe(1, noon, tables.Proxy{ProxyID: "px_1", ExpiresAt: at(time.Hour)}, tables.Proxy{ProxyID: "px_2", ExpiresAt: at(time.Hour)}, tables.Proxy{ProxyID: "px_3", ExpiresAt: at(time.Hour)})
	var shown []string
	check(t, b.Fleet.Expiring(t.Context(), *at(time.Hour), func(p tables.Proxy) error {
		shown = append(shown, fmt.Sprintln(p.ProxyID, p.Labels, p.Retired))
		return nil
	}))
	if want := []string{"px_1 map[ticket:OPS-7] false\n", "px_2 map[ticket:OPS-7] true\n", "px_3 map[] false\n"}; !slices.Equal(shown, want) {
		t.Fatalf("%v", shown)
	}
	b.add(fact.ProxyReinstated{ProxyID: "px_2", By: "ada", Reason: "back again"})
	if retired, err := b.Fleet.Retired(t.Context(), "px_2"); retired || err != nil {
		t.Fatalf("still retired (%v)", err)
	}
}

func TestAThresholdIsToldOncePerExpiry(t *testing.T) {
	b := newBook(t)
	b.observe(1, noon, tables.Proxy{ProxyID: "px_1", ExpiresAt: at(time.Hour)}, tables.Proxy{ProxyID: "px_2", ExpiresAt: at(30 * time.Hour)},
		tables.Proxy{ProxyID: "px_retired", ExpiresAt: at(time.Hour)}, tables.Proxy{ProxyID: "px_stale", ExpiresAt: at(time.Hour)})
	b.add(fact.ProxyRetired{ProxyID: "px_retired", By: "ada", Reason: "not needed"})
	check(t, b.Write(t.Context(), func(tx *Tx) error { return tx.Stale("px_stale") }))
	unwarned := func(threshold time.Duration) []string {
		t.Helper()
		all, err := b.Fleet.Unwarned(t.Context(), noon, noon.Add(threshold), threshold, 10)
		check(t, err)
		return proxyIDs(all)
	}
	if got := unwarned(24 * time.Hour); !slices.Equal(got, []string{"px_1"}) {
		t.Fatalf("a day before: %v", got)
	}
	b.add(fact.ProxyExpiring{ProxyID: "px_1", ExpiresAt: *at(time.Hour), ThresholdSeconds: 86400})
	if got := unwarned(24 * time.Hour); len(got) > 0 {
		t.Fatalf("told twice: %v", got)
	}
	if got := unwarned(time.Hour); !slices.Equal(got, []string{"px_1"}) {
		t.Fatalf("an hour before: %v", got)
	}
	b.add(fact.ProxyExpiring{ProxyID: "px_1", ExpiresAt: *at(time.Hour), ThresholdSeconds: 3600})
	if got := unwarned(24 * time.Hour); len(got) > 0 {
		t.Fatalf("a farther threshold after a nearer one: %v", got)
	}
	b.observe(2, noon, tables.Proxy{ProxyID: "px_1", ExpiresAt: at(25 * time.Hour)})
	if got := unwarned(26 * time.Hour); !slices.Equal(got, []string{"px_1"}) {
		t.Fatalf("another expiry: %v", got)
	}
}

func TestAnExpiryWarnsOfWhatIsNoLongerListed(t *testing.T) {
	b := newBook(t)
	b.observe(1, noon, tables.Proxy{ProxyID: "px_gone", ExpiresAt: at(time.Hour)})
	b.observe(2, noon.Add(2*time.Minute), tables.Proxy{ProxyID: "px_listed", ExpiresAt: at(time.Hour)}, tables.Proxy{ProxyID: "px_old", ExpiresAt: at(-time.Hour)})
	check(t, b.Write(t.Context(), func(tx *Tx) error { return tx.FinishPass(2, noon.Add(time.Minute)) }))
	expired, err := b.Fleet.UnreportedExpired(t.Context(), noon, noon.Add(time.Hour), 10)
	check(t, err)
	if got := proxyIDs(expired); !slices.Equal(got, []string{"px_gone", "px_listed"}) {
		t.Fatalf("%v", got)
	}
	b.add(fact.ProxyExpired{ProxyID: "px_gone", ExpiresAt: *at(time.Hour)})
	expired, err = b.Fleet.UnreportedExpired(t.Context(), noon, noon.Add(time.Hour), 10)
	check(t, err)
	if got := proxyIDs(expired); !slices.Equal(got, []string{"px_listed"}) {
		t.Fatalf("%v", got)
	}
}

// A renewal of unknown price in review counts at the highest price, once one is known,
// until it is answered.
func TestWhatASweepMayHaveSpent(t *testing.T) {
	b := newBook(t)
	plan := func(slot time.Duration, command string) fact.SweepPlanned {
		return fact.SweepPlanned{Schedule: "keep", Slot: noon.Add(slot), Plan: "p" + command, Planned: []fact.PlannedCommand{{CommandID: command, Proxies: 1, UnknownPrice: 1}}}
	}
	exposed := func(what string, want int64) {
		t.Helper()
		got, err := b.Money.SweepExposed(t.Context(), "keep", noon)
		check(t, err)
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	b.add(opened(10_000), plan(0, "r1"), accepted(fact.KindRenewal, "r1/0001", "px_1"))
	exposed("not sent", 0)
	b.add(sending("r1/0001", 1), fact.OperationReview{Ref: ref("r1/0001"), Reason: "no reply", Ambiguous: true})
	exposed("no price is known", 0)
	b.add(plan(time.Hour, "r2"), accepted(fact.KindRenewal, "r2/0001", "px_2"), sending("r2/0001", 1), settled("r2/0001", "completed", line("px_2", "succeeded", 310, 0)))
	exposed("a price is known", 310)
	if other, err := b.Money.SweepExposed(t.Context(), "kee", noon); err != nil || other != 0 {
		t.Errorf("another schedule: %d, %v", other, err)
	}
	b.add(fact.OperationResolved{Ref: ref("r1/0001"), Outcome: "not_charged", By: "ada", Reason: "the invoice"})
	exposed("answered", 0)
}

// The test follows one command of 600 cents from its plan to its end.
func TestWhatASweepSpends(t *testing.T) {
	b := newBook(t)
	spent := func(what string, spending, reserved int64) {
		t.Helper()
		s, err := b.Money.SweepSpending(t.Context(), "keep", noon)
		check(t, err)
		r, err := b.Money.Reserved(t.Context(), noon)
		check(t, err)
		if s != spending || r != reserved {
			t.Fatalf("%s: %d spent and %d reserved, want %d and %d", what, s, r, spending, reserved)
		}
	}
	plan := func(slot time.Duration, command string, cents int64) fact.SweepPlanned {
		return fact.SweepPlanned{Schedule: "keep", Slot: noon.Add(slot), Plan: "p" + command, Planned: []fact.PlannedCommand{{CommandID: command, Proxies: 2, EstimateCents: cents}}}
	}
	b.add(opened(10_000), plan(0, "r1", 600))
	spent("planned", 600, 600)
	b.add(plan(time.Hour, "r2", 900), fact.SweepHeld{Schedule: "keep", Slot: *at(time.Hour), Plan: "pr2", Reason: "approval"})
	spent("another waits for an approval", 600, 600)
	b.add(accepted(fact.KindRenewal, "r1/0001", "px_1", "px_2"))
	spent("accepted", 600, 600)
	b.add(sending("r1/0001", 1))
	spent("sending", 600, 600)
	b.add(settled("r1/0001", "partial", line("px_1", "succeeded", 310, 0), line("px_2", "failed", 310, 310)))
	spent("settled", 310, 0)
	b.add(plan(2*time.Hour, "bad", 300), fact.CommandRejected{Ref: fact.Ref{CommandID: "bad"}, Code: "invalid", Reason: "no"})
	spent("refused before it was accepted", 310, 0)
	hold := func(operation string) fact.CommandHeld {
		return fact.CommandHeld{Ref: ref(operation), Reason: "over the limit", EstimateCents: 700}
	}
	b.add(accepted(fact.KindOrder, "o1/1"), hold("o1/1"))
	spent("an order on hold", 310, 0)
	b.add(accepted(fact.KindRenewal, "r3/0001", "px_3"), hold("r3/0001"))
	spent("a renewal on hold", 310, 700)
	spent("of another schedule", 310, 700)
	b.add(plan(3*time.Hour, "r4", 900), fact.CommandAccepted{Ref: fact.Ref{CommandID: "r4"}, Kind: fact.KindRenewal, Content: []byte(`{}`), DurationDays: 30, Operations: []fact.Planned{
		{OperationID: "r4/0001", Chunk: "0001", Generation: 1, Key: "k1", ProxyIDs: []string{"px_4"}}, {OperationID: "r4/0002", Chunk: "0002", Generation: 1, Key: "k2", ProxyIDs: []string{"px_5", "px_6"}}}})
	spent("two operations", 310+900, 700+900)
	b.add(sending("r4/0001", 1), settled("r4/0001", "completed", line("px_4", "succeeded", 300, 0)))
	spent("one of them is paid", 310+900, 700+600)
	other, err := b.Money.SweepSpending(t.Context(), "kee", noon)
	check(t, err)
	later, err := b.Money.SweepSpending(t.Context(), "keep", noon.AddDate(0, 0, 1))
	check(t, err)
	if other != 0 || later != 0 {
		t.Fatalf("another schedule spent %d, another day %d", other, later)
	}
}

func TestWhereAListingStandsIsKept(t *testing.T) {
	b := newBook(t)
	if x, err := b.Fleet.Listing(t.Context()); err != nil || x != (tables.Listing{}) {
		t.Fatalf("before the first pass: %+v, %v", x, err)
	}
	for _, x := range []tables.Listing{
		{Pass: 7, Began: noon, Size: 200, Token: "next"},
		{Finished: *at(time.Hour), Took: time.Minute},
	} {
		check(t, b.Write(t.Context(), func(tx *Tx) error { return tx.KeepListing(x) }))
		if got, err := b.Fleet.Listing(t.Context()); err != nil || got != x {
			t.Fatalf("%+v became %+v (%v)", x, got, err)
		}
	}
}

func TestWhatStaysIsCountedByKind(t *testing.T) {
	b := newBook(t)
	b.observe(1, noon, tables.Proxy{ProxyID: "px_1", CountryCode: "US", ExpiresAt: at(3 * time.Hour)}, tables.Proxy{ProxyID: "px_2", CountryCode: "US"},
		tables.Proxy{ProxyID: "px_3", CountryCode: "US", ExpiresAt: at(time.Hour)}, tables.Proxy{ProxyID: "px_4", CountryCode: "DE", ExpiresAt: at(3 * time.Hour)})
	counts := map[string]int{}
	check(t, b.Fleet.CountStaying(t.Context(), *at(2 * time.Hour), []string{"country_code"}, func(like tables.Proxy, n int) error { counts[like.CountryCode] += n; return nil }))
	single := map[string]int{}
	check(t, b.Fleet.Staying(t.Context(), *at(2 * time.Hour), func(p tables.Proxy) error { single[p.CountryCode]++; return nil }))
	if fmt.Sprint(counts) != "map[DE:1 US:2]" || fmt.Sprint(single) != fmt.Sprint(counts) {
		t.Fatalf("%v and %v", counts, single)
	}
}

func TestTrap54WhatIsRetiredDoesNotStay(t *testing.T) {
	b := newBook(t)
	b.observe(1, noon, tables.Proxy{ProxyID: "px_1", CountryCode: "US", ExpiresAt: at(3 * time.Hour)}, tables.Proxy{ProxyID: "px_2", CountryCode: "US"})
	for _, f := range []fact.Fact{fact.ProxyRetired{ProxyID: "px_1", By: "ada", Reason: "slow"}, fact.ProxyRetired{ProxyID: "px_2", By: "ada", Reason: "slow"}, fact.ProxyReinstated{ProxyID: "px_2", By: "ada"}} {
		check(t, b.Write(t.Context(), func(tx *Tx) error { return tx.Append(f) }))
	}
	counted, single := 0, []string{}
	check(t, b.Fleet.CountStaying(t.Context(), *at(time.Hour), nil, func(_ tables.Proxy, n int) error { counted += n; return nil }))
	check(t, b.Fleet.Staying(t.Context(), *at(time.Hour), func(p tables.Proxy) error { single = append(single, p.ProxyID); return nil }))
	if counted != 1 || fmt.Sprint(single) != "[px_2]" {
		t.Fatalf("%d and %v", counted, single)
	}
}

// Pages are ordered by expiry and id. They omit and repeat no proxy, and each starts by the
// index.
func TestExpiriesComePageByPage(t *testing.T) {
	b := newBook(t)
	b.observe(1, noon, tables.Proxy{ProxyID: "px_3", ExpiresAt: at(time.Hour)}, tables.Proxy{ProxyID: "px_1", ExpiresAt: at(time.Hour)}, tables.Proxy{ProxyID: "px_2", ExpiresAt: at(time.Hour)},
		tables.Proxy{ProxyID: "px_0", ExpiresAt: at(2 * time.Hour)}, tables.Proxy{ProxyID: "px_never"}, tables.Proxy{ProxyID: "px_before", ExpiresAt: at(-time.Hour)}, tables.Proxy{ProxyID: "px_late", ExpiresAt: at(3 * time.Hour)})
	b.add(opened(1000), accepted(fact.KindRenewal, "r1/1", "px_1"), sending("r1/1", 1), settled("r1/1", "completed", line("px_1", "succeeded", 300, 0)))
	var got []string
	place := tables.From(*at(time.Hour))
	for {
		page, err := b.Fleet.PricedPage(t.Context(), place, *at(3 * time.Hour), 2)
		check(t, err)
		if len(page) == 0 {
			break
		}
		for _, p := range page {
			got = append(got, fmt.Sprint(p.ProxyID, " ", p.Paid.Cents, "/", p.Paid.Days))
			place = tables.PlaceOf(p.Proxy)
		}
		unpriced, err := b.Fleet.ExpiringPage(t.Context(), tables.From(*at(time.Hour)), *at(3 * time.Hour), 10)
		check(t, err)
		if ids := proxyIDs(unpriced); !slices.Equal(ids, []string{"px_1", "px_2", "px_3", "px_0"}) {
			t.Errorf("%v", ids)
		}
	}
	if want := []string{"px_1 300/30", "px_2 0/0", "px_3 0/0", "px_0 0/0"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if plan := steps(t, b.write, `SELECT proxy_id `+tables.ByExpiry); !slices.ContainsFunc(plan, func(s string) bool { return strings.Contains(s, "(lasts_until,proxy_id)>(?,?)") }) || len(plan) != 1 {
		t.Errorf("a page is read with %q", plan)
	}
	all, err := b.Fleet.RenewalsOf(t.Context(), "px_1", 10)
	check(t, err)
	if len(all) != 1 || all[0].OperationID != "r1/1" || all[0].ChargedCents != 300 || all[0].State != fact.LineSucceeded || all[0].Open || all[0].SettledAt == nil {
		t.Errorf("%+v", all)
	}
	if c, err := b.Fleet.CostOf(t.Context(), "px_1"); err != nil || c != (tables.ProxyCost{ChargedCents: 300, Renewals: 1, Days: 30}) {
		t.Errorf("%+v %v", c, err)
	}
}

// Proxies are found by a part of the id, country, label and state, on pages that each look
// through a bounded part of the fleet.
func TestProxiesAreFound(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), accepted(fact.KindOrder, "o/1"), sending("o/1", 1), fact.OrderAccepted{Ref: ref("o/1"), Attempt: 1, OrderNo: "no of o/1", NextAt: noon},
		fact.OrderDelivered{OrderState: orderState("o/1", "completed", 0, 0), ProxyIDs: []string{"px_ordered"}},
		fact.ProxyRetired{ProxyID: "px_retired", By: "ada"}, accepted(fact.KindRenewal, "r1/1", "px_open"),
		accepted(fact.KindRenewal, "r2/1", "px_asked"), sending("r2/1", 1), fact.OperationReview{Ref: ref("r2/1"), Attempt: 1, Ambiguous: true, Reason: "lost"})
	for i, id := range []string{"px_1", "px_open", "px_2", "px_asked", "px_ordered", "PX_Retired", "px_retired", "px_late"} {
		b.observe(1, noon, tables.Proxy{ProxyID: id, CountryCode: []string{"US", "DE"}[i%2], ExpiresAt: at(time.Duration(i+1) * time.Hour)})
	}
	b.observe(1, noon, tables.Proxy{ProxyID: "px_never", CountryCode: "US"})
	all, some := *at(9 * time.Hour), *at(8 * time.Hour)
	for _, x := range []struct {
		want string
		q    tables.ProxiesQuery
	}{
		{"px_1 px_open px_2 px_asked px_ordered PX_Retired px_retired px_late", tables.ProxiesQuery{Until: all}},
		{"PX_Retired px_retired", tables.ProxiesQuery{Until: some, ID: "RETIRED"}},
		{"px_open px_asked PX_Retired", tables.ProxiesQuery{Until: some, ID: "px_", Country: "de"}},
		{"px_ordered", tables.ProxiesQuery{Until: all, Name: "ticket", Value: "OPS-7"}},
		{"", tables.ProxiesQuery{Until: all, Name: "ticket", Value: "OPS-8"}},
		{"px_retired", tables.ProxiesQuery{Until: all, State: tables.ProxyRetired}},
		{"px_asked", tables.ProxiesQuery{Until: all, State: tables.ProxyInReview}},
		{"px_open", tables.ProxiesQuery{Until: all, State: tables.ProxyRenewing, Country: "DE"}},
		{"px_2 px_ordered px_retired", tables.ProxiesQuery{After: tables.ExpiryPlace{At: *at(2 * time.Hour), ProxyID: "px_open"}, Until: some, Country: "US"}},
	} {
		for _, looked := range []int64{tables.LookedMost, 2} {
			var got []string
			for q := x.q; ; {
				q.Limit = 2
				page, err := b.Fleet.ProxiesPage(failpoint.WithSize(t.Context(), "list.looked", looked), q)
				check(t, err)
				for _, p := range page.Proxies {
					got = append(got, p.ProxyID)
				}
				if q.After = page.Next; page.Next == (tables.ExpiryPlace{}) {
					break
				}
			}
			if strings.Join(got, " ") != x.want {
				t.Errorf("%+v, %d looked through at a time: %q", x.q, looked, got)
			}
		}
	}
	page, err := b.Fleet.ProxiesPage(t.Context(), tables.ProxiesQuery{Until: *at(5 * time.Hour), Limit: 9})
	if check(t, err); page.Proxies[1].Renewal != tables.ProxyRenewing || page.Proxies[3].Renewal != tables.ProxyInReview || page.Proxies[0].Renewal != "" {
		t.Errorf("%+v", page)
	}
	for _, text := range []string{tables.FindBound, tables.FindPage} {
		if plan := steps(t, b.write, text); !strings.HasPrefix(plan[0], "SEARCH proxies USING") || !strings.Contains(plan[0], "proxies_lasting") {
			t.Errorf("%q", plan)
		}
	}
}

// A refund counts for the period in which its run was planned, and for no later one.
func TestTrap61WhatComesBackLowersTheBudgetOfItsOwnPeriod(t *testing.T) {
	now := noon
	b := bookAt(t, filepath.Join(t.TempDir(), "main.ledger.db"), func() time.Time { return now })
	sweep := func(command string) {
		b.add(fact.SweepPlanned{Schedule: "keep", Slot: now, Plan: "p" + command, Planned: []fact.PlannedCommand{{CommandID: command, Proxies: 1, EstimateCents: 300}}},
			accepted(fact.KindRenewal, command+"/1", "px_"+command), sending(command+"/1", 1))
	}
	b.add(opened(10_000))
	sweep("r1")
	b.add(settled("r1/1", "partial", line("px_r1", "unresolved", 300, 0)))
	now = now.AddDate(0, 1, 0)
	sweep("r2")
	b.add(settled("r2/1", "completed", line("px_r2", "succeeded", 300, 0)), resolved("r1/1", "px_r1", "not_charged", 0))
	for since, want := range map[time.Time]int64{noon: 300, now: 300} {
		if got, err := b.Money.SweepSpending(t.Context(), "keep", since); err != nil || got != want {
			t.Errorf("since %s: %d, %v; want %d", since, got, err, want)
		}
	}
}
