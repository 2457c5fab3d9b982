package schedules

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

func dailySchedule() plans.Schedule {
	s := keepalive()
	s.Cron = "@daily"
	return s
}

func threeUnpriced() map[string]time.Duration {
	return map[string]time.Duration{"px_1": 30 * time.Hour, "px_2": 31 * time.Hour, "px_3": 32 * time.Hour}
}

func TestTheRestOfASweepSurvivesARestart(t *testing.T) {
	s := dailySchedule()
	s.BudgetCents = 600
	inBubble(t, s, threeUnpriced(), func(t *testing.T, b *bench) {
		<-b.stream.arrived
		synctest.Wait()
		b.end() // its canary is published
		renewal(t, b.Ledger, 1, "px_1", "succeeded", 300, b.stream.commands[0].ExpectExpiresAt["px_1"])
		began := time.Now()
		b.start()
		<-b.stream.arrived
		want(t, "published, within the budget of the whole sweep", b.stream.ids(), []string{"px_1", "px_2"})
		if waited := time.Since(began); waited > 2*remainderEvery {
			t.Fatalf("the rest waited for %s", waited)
		}
		synctest.Wait()
		planned, err := b.Ledger.Sweeps.Plan(t.Context(), b.slots(1)[0])
		check(t, err)
		want(t, "a part of the slot before", *planned.Of, b.slots(2)[1].At)
	})
}

func TestALargeSweepGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	due := map[string]time.Duration{}
	for i := range plannedInBubbles + 500 {
		due[fmt.Sprintf("px_%05d", i)] = 30*time.Hour + time.Duration(i)*time.Second
	}
	hourly := keepalive()
	hourly.Cron = "0 * * * *"
	inBubble(t, hourly, due, func(t *testing.T, b *bench) {
		paid(t, b.Ledger, "px_other", 300) // the price is known, so no canary
		check(t, b.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Observe(0, tables.Proxy{ProxyID: "px_other", CountryCode: "US", SeenAt: time.Now()})
		}))
		<-b.stream.arrived
		synctest.Wait()
		b.end()
		want(t, "published at first", len(b.stream.commands), plannedInBubbles/100)
		b.start()
		synctest.Wait()
		list, err := b.List(t.Context())
		check(t, err)
		want(t, "left", list[0].Left.Proxies, 500)
		<-b.stream.arrived // commands that are not accepted yet, published again unchanged
		<-b.stream.arrived
		synctest.Wait()
		last := b.stream.commands[len(b.stream.commands)-5:]
		want(t, "the rest", last[0].ProxyIDs[0], fmt.Sprintf("px_%05d", plannedInBubbles))
		list, err = b.List(t.Context())
		check(t, err)
		want(t, "left at the end", list[0].Left, (*fact.SweepLeft)(nil))
	})
}

func TestASweepByHandGoesOnByItself(t *testing.T) {
	inBubble(t, dailySchedule(), threeUnpriced(), func(t *testing.T, b *bench) {
		ran := make(chan error, 1)
		go func() {
			_, err := b.RunNow(t.Context(), "keepalive", "ann", "due", nil)
			ran <- err
		}()
		<-b.stream.arrived
		check(t, <-ran) // the remainder is known only after the commit that records the plan
		list, err := b.List(t.Context())
		check(t, err)
		want(t, "left", *list[0].Left, fact.SweepLeft{Proxies: 2, Unpriced: 2, FirstExpiresAt: list[0].Left.FirstExpiresAt})
		want(t, "the first expires in", time.Until(*list[0].Left.FirstExpiresAt).Round(time.Minute), 31*time.Hour)
		by := time.Now()
		renewal(t, b.Ledger, 1, "px_1", "succeeded", 300, b.stream.commands[0].ExpectExpiresAt["px_1"])
		<-b.stream.arrived
		want(t, "published", b.stream.ids(), []string{"px_1", "px_2 px_3"})
		if waited := time.Since(by); waited > remainderEvery+time.Second {
			t.Fatalf("the rest waited for %s", waited)
		}
	})
}

func TestWhatAnApprovedPlanLeftIsPlannedNext(t *testing.T) {
	t.Parallel()
	s := dailySchedule()
	s.ApproveOverCents = 300
	due := map[string]time.Duration{}
	for i := range plannedInBubbles + 1 {
		due[fmt.Sprintf("px_%05d", i)] = 30*time.Hour + time.Duration(i)*time.Second
	}
	inBubble(t, s, due, func(t *testing.T, b *bench) {
		paid(t, b.Ledger, "px_other", 300)
		check(t, b.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Observe(0, tables.Proxy{ProxyID: "px_other", CountryCode: "US", SeenAt: time.Now()})
		}))
		plan, err := b.RunNow(fewPlanned(t), "keepalive", "ann", "due", nil)
		check(t, err)
		want(t, "state", plan.State, StateHeld)
		go func() { <-b.stream.arrived; <-b.stream.arrived }()
		check(t, b.Approve(t.Context(), plan.Hash, "ada", "checked"))
		time.Sleep(2 * remainderEvery)
		synctest.Wait()
		last := b.slots(1)[0]
		want(t, "the rest waits for an approval of its own", last.State, StateHeld)
		planned, err := b.Ledger.Sweeps.Plan(t.Context(), last)
		check(t, err)
		want(t, "of it", planned.Planned[0].Proxies, 1)
		list, err := b.List(t.Context())
		check(t, err)
		if says := "its estimate of 3.00, plus 3,000.00 already published in this run, exceeds"; !strings.Contains(list[0].Why, says) {
			t.Errorf("not %q: %s", says, list[0].Why)
		}
	})
}

// The canary is still open, and more proxies are due than one plan reads.
func TestARunThatCanRenewNothingMoreIsNotRepeated(t *testing.T) {
	due := map[string]time.Duration{}
	for i := range 5 {
		due[fmt.Sprintf("px_%d", i)] = 30*time.Hour + time.Duration(i)*time.Hour
	}
	inBubble(t, dailySchedule(), due, func(t *testing.T, b *bench) {
		<-b.stream.arrived
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if slots := b.slots(100); len(slots) > 3 {
			t.Errorf("%d runs were made while nothing could be renewed", len(slots))
		}
	}, func(_ *testing.T, c *Config) { c.considered = 3 })
}
