package schedules

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/ledger/testrun"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// crowdSize is how many proxies precede the renewable proxy: as many as a plan reads. It is
// smaller unless the larger run is requested.
func crowdSize() int {
	if testrun.Check {
		return maxConsidered
	}
	return maxConsidered / 100
}

// crowd returns a rig whose table has crowdSize proxies that cannot be renewed, followed by one
// that can.
func crowd(t *testing.T, facts func(id string) []fact.Fact, s plans.Schedule) *rig {
	t.Helper()
	h := &rig{watch: &watch{now: noon}, stream: &stream{}}
	l := openLedger(t, t.TempDir()+"/main.ledger.db", h.watch.Now)
	dead := make([]tables.Proxy, 0, crowdSize())
	var all []fact.Fact
	for i := range crowdSize() {
		dead = append(dead, px(fmt.Sprintf("px_dead_%06d", i), -time.Duration(1+i%1000)*time.Hour))
		all = append(all, facts(dead[i].ProxyID)...)
	}
	check(t, l.Write(t.Context(), func(tx *ledger.Tx) error {
		if err := tx.Observe(1, append(dead, px("px_live", 10*time.Hour))...); err != nil {
			return err
		}
		return tx.Append(all...)
	}))
	h.config = Config{Account: "main", Ledger: l, Provider: fleet(t, h.watch, nil), Publisher: h.stream, Clock: h.watch.Now, Schedules: []plans.Schedule{s}, considered: crowdSize()}
	h.restart(t)
	return h
}

// planned makes a plan from the table without a new listing.
func (h *rig) planned(t testing.TB) plans.Plan {
	t.Helper()
	p, err := h.plan(t.Context(), h.runners[0], firing{})
	check(t, err)
	return p.Plan
}

func TestTrap54WhatIsRetiredDoesNotHideWhatLives(t *testing.T) {
	t.Parallel()
	retired := func(id string) []fact.Fact {
		return []fact.Fact{fact.ProxyRetired{ProxyID: id, By: "ada", Reason: "let go"}}
	}
	p := crowd(t, retired, keepalive()).planned(t)
	want(t, "included", ids(p), []string{"px_live"})
	want(t, "due", p.Due, crowdSize()+1)
	want(t, "left out", p.LeftOutCounts, map[string]int{plans.ReasonRetired: crowdSize()})
}

func TestTrap54WhatIsLongExpiredComesAfterWhatLives(t *testing.T) {
	t.Parallel()
	s := keepalive()
	s.BudgetCents = 300
	h := crowd(t, func(string) []fact.Fact { return nil }, s)
	paid(t, h.Ledger, "px_live", 300)
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Observe(1, px("px_live", 10*time.Hour)) }))
	p := h.planned(t)
	want(t, "included", ids(p), []string{"px_live"})
	want(t, "due", p.Due, crowdSize()+1)
	want(t, "the latest of the expired before the others", p.LeftOut[0].ExpiresAt, noon.Add(-time.Hour))
}

// Each later part of a large run finds the run's own proxies first.
func TestTrap54WhatASweepHasTakenDoesNotHideTheRest(t *testing.T) {
	t.Parallel()
	h := crowd(t, func(string) []fact.Fact { return nil }, keepalive())
	taken := map[string]bool{}
	for i := range crowdSize() {
		taken[fmt.Sprintf("px_dead_%06d", i)] = true
	}
	p, err := h.plan(t.Context(), h.runners[0], firing{rest: &remainder{taken: taken}})
	check(t, err)
	// The kind waits for the price that the first part will show.
	want(t, "left out", p.LeftOutCounts, map[string]int{plans.ReasonTaken: crowdSize(), plans.ReasonUnpriced: 1})
	want(t, "waits for its canary", len(p.Awaited), 1)
}

func TestTrap54WhatIsRetiredDoesNotStay(t *testing.T) {
	for name, match := range map[string]plans.Match{"by kind": {}, "one by one": {ExceptProxyIDs: []string{"px_other"}}} {
		s := keepalive()
		s.Keep, s.Match = plans.Keep{AtLeast: 1}, match
		h := newRig(t, map[string]string{"px_stays": "240h", "px_due": "24h"}, s)
		check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Append(fact.ProxyRetired{ProxyID: "px_stays", By: "ada", Reason: "slow"})
		}))
		want(t, name, ids(h.sweep(t)), []string{"px_due"})
	}
}

func TestAReplacementLooksAtTheProxyFirst(t *testing.T) {
	h := replacing(t, plans.Replace{Enabled: true, MaxCents: 400, After: 2}, map[string]string{"px_1": "24h"})
	for n := 1; n <= 2; n++ {
		renewal(t, h.Ledger, n, "px_1", "failed", 300, noon.Add(24*time.Hour))
	}
	h.watch.add(time.Minute) // the table is a minute old: fresh enough for a plan
	client, ok := h.config.Provider.(*upstream.Client)
	want(t, "a client", ok, true)
	_, err := client.Renew(t.Context(), "by-hand", upstream.RenewRequest{ProxyIDs: []string{"px_1"}, DurationDays: 30})
	check(t, err)
	h.run(t)
	want(t, "orders", len(h.stream.orders), 0)
	retired, err := h.Ledger.Fleet.Retired(t.Context(), "px_1")
	check(t, err)
	want(t, "retired", retired, false)
}

func TestMissedSlotsAreFoundBehindManyParts(t *testing.T) {
	s := keepalive()
	s.Cron = "0 * * * *"
	h := newRig(t, map[string]string{"px_1": "500h"}, s)
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		if err := tx.Append(fact.SweepPlanned{Schedule: "keepalive", Slot: noon}); err != nil {
			return err
		}
		for i := range 2*slotsRead + 1 {
			if err := tx.Append(fact.SweepPlanned{Schedule: "keepalive", Slot: noon.Add(time.Duration(i*10+7) * time.Second)}); err != nil {
				return err
			}
		}
		return nil
	}))
	h.watch.add(10 * time.Hour)
	last, err := h.countsFrom(t.Context(), h.runners[0])
	check(t, err)
	want(t, "the last slot of the calendar", last, noon)
}

func TestTheBudgetOfADayIsOneClocks(t *testing.T) {
	s := keepalive()
	s.DailyBudgetCents, s.MonthlyBudgetCents = 300, 300
	for _, skew := range []time.Duration{4 * time.Minute, -4 * time.Minute} {
		h := newRig(t, map[string]string{"px_1": "290h", "px_2": "291h", "px_3": "292h"}, s)
		h.paid(t, "px_1", 300)
		// By our clock the month ends in two minutes. By the provider's clock it is over, or
		// ends later.
		h.watch.add(time.Date(2026, 11, 30, 23, 58, 0, 0, time.UTC).Sub(h.watch.Now()))
		h.provided = skew
		want(t, "first", ids(h.sweep(t)), []string{"px_1"})
		renewal(t, h.Ledger, 1, "px_1", "succeeded", 300, noon.Add(290*time.Hour))
		h.watch.add(time.Second)
		want(t, "again on the same day", ids(h.sweep(t)), []string(nil))
		h.watch.add(5 * time.Minute)
		want(t, "the next day", ids(h.sweep(t)), []string{"px_2"})
	}
}

func TestTwoSchedulesDoNotSpendOneWalletTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := keepalive(), keepalive()
		a.Name, b.Name = "a", "b"
		a.Match.ProxyIDs, b.Match.ProxyIDs = []string{"px_1"}, []string{"px_2"}
		l := openLedger(t, t.TempDir()+"/main.ledger.db", time.Now)
		expires := time.Now().Add(24 * time.Hour)
		asked, waiting := make(chan struct{}), atomic.Int32{}
		s, err := New(Config{
			Account: "main", Ledger: l, Publisher: &stream{}, Clock: time.Now, Schedules: []plans.Schedule{a, b},
			Provider: fake(func(upstream.PageRequest) (p upstream.Page[upstream.Proxy], err error) {
				p.Items = []upstream.Proxy{{ProxyID: "px_1", ExpiresAt: &expires}, {ProxyID: "px_2", ExpiresAt: &expires}}
				return p, nil
			}),
			Wallet: func(context.Context) (int64, error) { waiting.Add(1); <-asked; return 300, nil },
		})
		check(t, err)
		for _, id := range []string{"px_1", "px_2"} {
			renewal(t, l, 0, id, "succeeded", 300, time.Now().Add(-30*fact.Day))
		}
		time.Sleep(time.Second)
		cents := make(chan int64, 2)
		for _, name := range []string{"a", "b"} {
			go func() {
				plan, err := s.RunNow(context.Background(), name, "ann", "due", nil)
				if err != nil {
					t.Error(err)
				}
				cents <- plan.EstimateCents.Or(0)
			}()
		}
		synctest.Wait()
		if n := waiting.Load(); n != 1 {
			t.Errorf("%d plans count on the wallet at once", n)
		}
		close(asked)
		want(t, "planned of a wallet of 300", <-cents+<-cents, int64(300))
		check(t, l.Close())
	})
}
