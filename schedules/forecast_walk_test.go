package schedules

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// walk computes a forecast proxy by proxy, without a cache.
func (h *rig) walk(t *testing.T, name string, days int) Forecast {
	t.Helper()
	runners, zone := h.runners, time.UTC
	if name != "" {
		r, err := runnerOf(runners, name)
		check(t, err)
		runners, zone = []*scheduleRunner{r}, r.calendar.Zone
	}
	o, taken := newOutlook(h.providerNow().In(zone), days), map[string]bool{}
	for _, r := range runners {
		h.walkOne(t, r, o, taken)
	}
	var wallet read
	wallet.Now = o.now
	h.reads.readWallet(t.Context(), &wallet, walletFresh)
	f := o.forecast(wallet.Inputs)
	var err error
	f.Currency, err = h.Ledger.Currency(t.Context())
	check(t, err)
	return f
}

func (h *rig) walkOne(t *testing.T, r *scheduleRunner, o *outlook, taken map[string]bool) {
	t.Helper()
	lists, err := r.Match.ReadLists(h.ReadFile)
	check(t, err)
	claimed, err := h.Ledger.Operations.Claimed(t.Context())
	check(t, err)
	fits, prices, kept := r.Match.Filter(lists), plans.NewPrices(plans.HistoryOf(h.Ledger.Queries), r.DurationDays), map[string][]life{}
	o.f.Schedules, o.spent = append(o.f.Schedules, r.Name), make([]int64, len(o.f.Days))
	o.sweeps = append(o.sweeps, scheduleCharges{r.calendar, map[int64]time.Time{}, map[int64]fact.Sum{}})
	check(t, h.Ledger.Fleet.Priced(t.Context(), o.end().Add(r.RenewBefore), func(p tables.PricedProxy) error {
		if !fits.Fits(p.Proxy) || p.Retired || taken[p.ProxyID] {
			return nil
		}
		taken[p.ProxyID] = true
		cost, err := prices.By(t.Context(), p.Proxy, p.Paid)
		check(t, err)
		cost = h.Sweeper.offers.orList(t.Context(), cost, r.DurationDays, p.Proxy)
		expires := *p.LastsUntil()
		if claimed[p.ProxyID] || p.Renewed {
			expires = expires.Add(time.Duration(r.DurationDays) * fact.Day)
		}
		if r.Keep.AtLeast > 0 {
			group := r.Keep.Group(p.Proxy)
			kept[group] = append(kept[group], life{expires, cost})
			return nil
		}
		o.renewals(r.Schedule, expires, cost, 1)
		return nil
	}))
	if r.Keep.AtLeast > 0 {
		in, staying := read{Inputs: plans.Inputs{Schedule: r.Schedule, Lists: lists, Now: o.end()}}, map[string]int{}
		check(t, h.reads.readStaying(t.Context(), r, &in, newStayingCount(staying)))
		for group, lives := range kept {
			o.keep(r.Schedule, r.Keep.AtLeast-staying[group], lives)
		}
	}
	for n, cents := range o.spent {
		if r.DailyBudgetCents > 0 {
			o.f.Days[n].OverBudgetCents += max(cents-r.DailyBudgetCents, 0)
		}
	}
}

// forecastSchedules returns schedules of each kind of match, in random order.
func forecastSchedules(random *rand.Rand) (all []plans.Schedule) {
	for i, match := range []plans.Match{
		{}, {CountryCode: []string{"us"}}, {CountryCode: []string{"DE"}, Status: []string{"active"}}, {Region: []string{"r0", "r1"}},
		{Labels: map[string]string{"team": "ads"}}, {ExceptProxyIDs: []string{"px_003", "px_010", "px_077"}}, {ProxyIDs: []string{"px_005", "px_006"}},
		{StartsFrom: "2026-11-01"}, {IPType: []string{"isp"}}, {ProxyIDsFile: "ids"},
	} {
		s := keepalive()
		s.Name, s.Match = fmt.Sprintf("s%d", i), match
		s.Cron = []string{"*/15 * * * *", "0 3 * * 1", "@every 40s", "30 4 * * *"}[random.IntN(4)]
		s.Timezone = []string{"", "Asia/Kathmandu", "America/New_York"}[random.IntN(3)]
		s.RenewBefore = []time.Duration{72 * time.Hour, 48*time.Hour + 90*time.Second, 100*time.Hour + time.Millisecond, 26*time.Hour + 1}[random.IntN(4)]
		s.DurationDays = []int64{30, 30, 60}[random.IntN(3)]
		s.DailyBudgetCents = []int64{0, 900}[random.IntN(2)]
		if random.IntN(6) == 0 {
			s.Keep = plans.Keep{AtLeast: 1 + random.IntN(60), Per: []string{"country_code"}}
		}
		all = append(all, s)
	}
	random.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all[:1+random.IntN(5)]
}

// change changes a proxy as a listing, a renewal or an operator may.
func (h *rig) change(t *testing.T, random *rand.Rand, n int) {
	t.Helper()
	id, expires := fmt.Sprintf("px_%03d", random.IntN(200)), noon.Add(time.Duration(random.Int64N(int64(120*fact.Day)))-50*fact.Day).Truncate(time.Microsecond)
	if random.IntN(3) == 0 {
		expires = expires.Truncate(time.Minute)
	}
	starts := noon.AddDate(0, 0, -random.IntN(40))
	p := tables.Proxy{
		ProxyID: id, CountryCode: []string{"US", "DE", "FR"}[random.IntN(3)], Region: fmt.Sprint("r", random.IntN(3)), LineName: "l", IPType: []string{"isp", "dc"}[random.IntN(2)],
		Protocol: "http", Status: []string{"active", "stopped"}[random.IntN(2)], ExpiresAt: &expires, StartsAt: &starts, SeenAt: h.watch.Now(),
	}
	if random.IntN(12) == 0 {
		p.ExpiresAt = nil
	}
	write := func(do func(tx *ledger.Tx) error) { check(t, h.Ledger.Write(t.Context(), do)) }
	write(func(tx *ledger.Tx) error { return tx.Observe(int64(n), p) })
	if claimed, err := h.Ledger.Operations.Claimed(t.Context()); claimed[id] || err != nil || p.ExpiresAt == nil {
		check(t, err)
		return
	}
	h.watch.add(time.Second)
	switch random.IntN(9) {
	case 0:
		renewal(t, h.Ledger, n, id, "claimed", 0, noon)
	case 1, 2: // its expiry is now expected, unless it had expired
		renewal(t, h.Ledger, n, id, "succeeded", 300+random.Int64N(50), expires)
		write(func(tx *ledger.Tx) error { return tx.Stale(id) })
	case 3:
		renewal(t, h.Ledger, n, id, "failed", 300+random.Int64N(50), expires)
	case 4:
		write(func(tx *ledger.Tx) error { return tx.Stale(id) })
	case 5:
		write(func(tx *ledger.Tx) error { return tx.Append(fact.ProxyRetired{ProxyID: id, By: "ada"}) })
	case 6:
		write(func(tx *ledger.Tx) error { return tx.Gone(id) })
	case 7:
		write(func(tx *ledger.Tx) error { return tx.ObserveUnreadable(int64(n), id, "bad") })
	}
}

// Forecasts from fresh counts and from cached counts equal a walk through the proxies, with
// labels, lists, exceptions, groups, claims, retired proxies and expected expiries.
func TestAForecastCountsWhatAWalkFinds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 7))
		h := &rig{watch: &watch{now: noon}}
		h.config = Config{
			Account: "main", Ledger: openLedger(t, filepath.Join(t.TempDir(), "main.ledger.db"), h.watch.Now), Provider: &million{}, Publisher: &stream{}, Clock: h.watch.Now,
			Schedules: forecastSchedules(random), ReadFile: func(string) ([]byte, error) { return []byte("px_001\npx_009\n"), nil },
			Wallet: func(context.Context) (int64, error) { return 20_000, nil },
			Offers: func(_ context.Context, f upstream.OfferFilter) ([]upstream.Offer, error) {
				price := int64(410)
				return []upstream.Offer{{CountryCode: "FR", Region: "r1", LineName: "l", IPType: f.IPType, Protocol: "http", UnitPriceCents: &price, BaseDurationDays: 30, DurationDays: []int64{30, 60}}}, nil
			},
		}
		h.restart(t)
		for n := range 300 {
			if n%60 == 20 {
				bought(t, h.Ledger, fmt.Sprintf("px_%03d", n/2), map[string]string{"team": "ads"})
			}
			h.change(t, random, n+1)
		}
		for n := range 8 {
			name, days := "", 1+random.IntN(100)
			if random.IntN(2) == 0 {
				name = h.Sweeper.runners[random.IntN(len(h.Sweeper.runners))].Name
			}
			h.sameForecast(t, fmt.Sprintf("seed %d", seed), name, days)
			h.watch.add(time.Duration(random.IntN(4000)) * time.Second)
			h.sameForecast(t, fmt.Sprintf("seed %d, later", seed), name, days)
			h.change(t, random, 1000+n)
			h.sameForecast(t, fmt.Sprintf("seed %d, after a change", seed), name, days)
		}
	}
}

func (h *rig) sameForecast(t *testing.T, what, name string, days int) {
	t.Helper()
	f, err := h.Forecast(t.Context(), name, days)
	check(t, err)
	got, err := json.Marshal(f)
	check(t, err)
	walked, err := json.Marshal(h.walk(t, name, days))
	check(t, err)
	want(t, fmt.Sprintf("%s, %q, %d days", what, name, days), string(got), string(walked))
}
