package schedules

import (
	"fmt"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

func TestAForecastFollowsEveryRenewalUntilTheWalletRunsOut(t *testing.T) {
	s := keepalive()
	s.DailyBudgetCents, s.Match.ExceptProxyIDs = 300, []string{"px_except"}
	h := newRig(t, map[string]string{
		"px_1": "24h", "px_2": "96h", "px_3": "100h", "px_de_1": "480h", "px_except": "24h", "px_never": "", "px_far": "900h",
	}, s)
	h.paid(t, "px_1", 300)
	check(t, h.lister.WaitPass(t.Context()))
	h.wallet(t, func() (int64, error) { return 1000, nil })
	before, _, err := h.Ledger.Head(t.Context())
	check(t, err)
	f, err := h.Forecast(t.Context(), "keepalive", 31)
	check(t, err)
	got := []string{}
	for _, d := range f.Days {
		if d.Renewals > 0 {
			got = append(got, fmt.Sprintln(d.Day, d.Renewals, d.Charge().Cents, d.Unpriced, d.OverBudgetCents, *d.WalletCents))
		}
	}
	want(t, "days", got, []string{
		"2026-11-21 1 300 0 0 700\n", "2026-11-22 2 600 0 300 100\n", "2026-12-08 1 0 1 0 100\n",
		"2026-12-19 1 300 0 0 -200\n", // the first one again
	})
	want(t, "runs out", f.RunsOutOn, "2026-12-19")
	want(t, "missing", f.MissingCents, fact.Known(200))
	if f.FailsFirst == nil {
		t.Fatal("no sweep fails first")
	}
	want(t, "fails first", *f.FailsFirst, ForecastSweep{Schedule: "keepalive", Slot: time.Date(2026, 12, 19, 12, 0, 0, 0, time.UTC), ChargeCents: fact.Known(300), MissingCents: 200})
	want(t, "sum", f.ChargeCents, fact.Known(1200))
	after, _, err := h.Ledger.Head(t.Context())
	check(t, err)
	want(t, "facts", after, before)
	_, err = h.Forecast(t.Context(), "keepalive", 0)
	wantErr(t, err, ErrForecastDays)
	_, err = h.Forecast(t.Context(), "nightly", 3)
	wantErr(t, err, ErrNoSchedule)
}

func TestAForecastOfAllSchedulesCountsAProxyOnce(t *testing.T) {
	first, second := keepalive(), keepalive()
	second.Name, second.RenewBefore = "second", 48*time.Hour
	h := newRig(t, soon(), first, second)
	h.paid(t, "px_1", 300)
	check(t, h.lister.WaitPass(t.Context()))
	f, err := h.Forecast(t.Context(), "", 3)
	check(t, err)
	want(t, "schedules", f.Schedules, []string{"keepalive", "second"})
	want(t, "sum: two now, one of which a second schedule matches too, and one tomorrow", f.ChargeCents, fact.Known(900))
	if f.WalletCents != nil || f.Days[0].WalletCents != nil {
		t.Error("a wallet that is not read")
	}
}

// A weekly schedule renews on its own day, on whatever day its proxies come due.
func TestAForecastCountsFromSlots(t *testing.T) {
	weekly := keepalive()
	weekly.Cron, weekly.RenewBefore = "0 3 * * 1", 240*time.Hour // noon is a Saturday
	for _, keep := range []int{0, 3} {
		weekly.Keep.AtLeast = keep
		h := newRig(t, map[string]string{"px_1": "24h", "px_2": "240h", "px_3": "290h"}, weekly)
		h.paid(t, "px_1", 300)
		check(t, h.lister.WaitPass(t.Context()))
		f, err := h.Forecast(t.Context(), "keepalive", 14)
		check(t, err)
		got := []string{}
		for _, d := range f.Days {
			if d.Renewals > 0 {
				got = append(got, fmt.Sprintln(d.Day, d.Renewals, d.ChargeCents.Or(-1)))
			}
		}
		want(t, fmt.Sprintf("days where %d are kept", keep), got, []string{"2026-11-23 2 600\n", "2026-11-30 1 300\n"})
	}
}

// Only a pause without an end counts.
func TestAForecastNamesTheShareOfAPausedSchedule(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	h.paid(t, "px_1", 300)
	check(t, h.lister.WaitPass(t.Context()))
	until := noon.Add(time.Hour)
	for _, end := range []*time.Time{&until, nil} {
		check(t, h.Pause(t.Context(), "keepalive", end, "ada", "holidays"))
		f, err := h.Forecast(t.Context(), "", 1)
		check(t, err)
		var all []ForecastPaused
		if end == nil {
			all = []ForecastPaused{{Schedule: "keepalive", Renewals: f.Days[0].Renewals, ChargeCents: f.Days[0].ChargeCents}}
		}
		want(t, "paused", f.Days[0].Paused, all)
	}
}

// Only today's budget is reduced by what was spent today.
func TestAForecastKnowsWhatTodayHasSpent(t *testing.T) {
	s := keepalive()
	s.DailyBudgetCents = 300
	h := newRig(t, soon(), s)
	h.paid(t, "px_1", 300)
	check(t, h.lister.WaitPass(t.Context()))
	over := func() int64 {
		f, err := h.Forecast(t.Context(), "keepalive", 1)
		check(t, err)
		return f.Days[0].OverBudgetCents
	}
	want(t, "over the whole budget", over(), 300)
	_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	want(t, "over what is left of it", over(), 600)
}

// Nothing was paid, so the renewal is still to come.
func TestAForecastCountsAProxyWhoseRenewalFailed(t *testing.T) {
	for _, one := range []struct{ match plans.Match }{{}, {plans.Match{ProxyIDs: []string{"px_1"}}}} { // counted in SQL, and each by itself
		s := keepalive()
		s.Match = one.match
		h := newRig(t, map[string]string{"px_1": "24h"}, s)
		check(t, h.lister.WaitPass(t.Context()))
		today := func() int {
			f, err := h.Forecast(t.Context(), "", 3)
			check(t, err)
			return f.Days[0].Renewals
		}
		want(t, "due", today(), 1)
		p, err := h.Ledger.Fleet.Proxy(t.Context(), "px_1")
		check(t, err)
		renewal(t, h.Ledger, 1, "px_1", "failed", 300, *p.ExpiresAt)
		check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Stale("px_1") }))
		want(t, "failed", today(), 1)
		renewal(t, h.Ledger, 2, "px_1", "succeeded", 300, *p.ExpiresAt)
		renewal(t, h.Ledger, 3, "px_1", "succeeded", 300, *p.ExpiresAt)
		check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Stale("px_1") }))
		p, err = h.Ledger.Fleet.Proxy(t.Context(), "px_1")
		check(t, err)
		want(t, "the expiry after two renewals is not expected", p.ExpectedExpiresAt == nil, true)
		want(t, "renewed twice", today(), 0)
	}
}
