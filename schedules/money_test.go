package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

func (h *rig) held(t testing.TB, after int64) (all []fact.SweepHeld) {
	t.Helper()
	rows, err := h.Ledger.Rows(t.Context(), after, 1000)
	check(t, err)
	for _, r := range rows {
		if r.Type == "sweep.held" {
			var one fact.SweepHeld
			check(t, json.Unmarshal([]byte(r.Data), &one))
			all = append(all, one)
		}
	}
	return all
}

func (h *rig) wallet(t testing.TB, cents func() (int64, error)) {
	t.Helper()
	h.config.Wallet = func(context.Context) (int64, error) { return cents() }
	h.restart(t)
}

func TestALowWalletPaysTheEarliestAndNamesTheRest(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h", "px_4": "27h"}, keepalive())
	h.paid(t, "px_1", 300)
	held := int64(700)
	h.wallet(t, func() (int64, error) { return held, nil })
	before, _, err := h.Ledger.Head(t.Context())
	check(t, err)
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	want(t, "published", h.stream.ids(), []string{"px_1 px_2"})
	want(t, "left of the wallet", *plan.WalletAfterCents, int64(100))
	said := h.held(t, before)
	want(t, "held", len(said), 1)
	want(t, "missing", said[0].ShortfallCents, int64(500))
	want(t, "left out", said[0].LeftOut, 2)
	want(t, "the first one lost", *said[0].FirstLostAt, noon.Add(26*time.Hour))
	want(t, "wallet", *said[0].ProviderCents, int64(700))

	h.watch.add(time.Second) // the commands are published but not accepted: they reserve 600 of the 1,100 cents
	held = 1100
	plan, err = h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "reserved", plan.ReservedCents, int64(600))
	want(t, "included", ids(plan), []string{"px_3"})
	want(t, "shortfalls", plan.Shortfalls, []plans.Shortfall{{Reason: plans.ReasonWallet, Proxies: 1, LimitCents: 1100, Cents: fact.Known(100), FirstLostAt: noon.Add(27 * time.Hour)}})
}

// The account's daily limit applies to a run, and includes commands that are published but not
// accepted.
func TestASweepStaysUnderTheLimitOfTheDay(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h", "px_4": "27h"}, keepalive())
	h.paid(t, "px_1", 300)
	h.config.DailyLimitCents = 1000 // 300 of the limit are spent
	h.restart(t)
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	want(t, "published", h.stream.ids(), []string{"px_1 px_2"})
	want(t, "shortfalls", plan.Shortfalls, []plans.Shortfall{{Reason: plans.ReasonLimit, Proxies: 2, LimitCents: 1000, Cents: fact.Known(500), FirstLostAt: noon.Add(26 * time.Hour)}})
	if held := h.held(t, 0); len(held) != 1 || held[0].Code != fact.SweepHeldDailyLimit || !strings.Contains(held[0].Reason, "daily_limit_cents (10.00)") {
		t.Errorf("%+v", held)
	}
	h.watch.add(time.Second)
	plan, err = h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "the next", ids(plan), nil)
}

// More slots run before the runner has accepted anything, as while the account is paused.
func TestWhatIsOnItsWayIsNotCountedTwice(t *testing.T) {
	s := keepalive()
	s.DailyBudgetCents, s.ApproveOverCents, s.Chunk = 900, 900, 2
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h", "px_4": "98h"}, s)
	h.paid(t, "px_1", 300)
	held := int64(900)
	h.wallet(t, func() (int64, error) { return held, nil })
	before, _, err := h.Ledger.Head(t.Context())
	check(t, err)
	first := h.sweep(t)
	want(t, "first", ids(first), []string{"px_1", "px_2", "px_3"})
	second := h.sweep(t)
	want(t, "left out of the second", second.LeftOutCounts, map[string]int{plans.ReasonOnItsWay: 3})
	want(t, "spent and reserved", []int64{second.SpentTodayCents, second.ReservedCents}, []int64{900, 900})
	want(t, "held", len(h.held(t, before)), 0)
	want(t, "published, the same again", h.stream.raw[2:], h.stream.raw[:2])

	h.watch.add(26 * time.Hour) // another day, and no command was accepted; px_4 is due
	held = 1200
	third := h.sweep(t)
	want(t, "third", ids(third), []string{"px_4"})
	want(t, "state", third.State, stateFinished)
	settle(t, h.Ledger, h.stream.commands[0], 300)
	h.watch.add(time.Second)
	want(t, "left out of the fourth", h.sweep(t).LeftOutCounts, map[string]int{plans.ReasonOnItsWay: 2, plans.ReasonRenewed: 2})
}

// Proxies whose published command no longer fits are planned again.
func TestWhatIsOnItsWayIsReplannedForMissingMoney(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, h *rig){
		"other days":   func(_ *testing.T, h *rig) { h.config.Schedules[0].DurationDays = 60 },
		"an exception": func(_ *testing.T, h *rig) { h.config.Schedules[0].Match.ExceptProxyIDs = []string{"px_2"} },
		"one of it retired": func(t *testing.T, h *rig) {
			h.append(t, fact.ProxyRetired{ProxyID: "px_2", By: "ada", Reason: "old"})
		},
		"one of it has ended": func(t *testing.T, h *rig) { renewal(t, h.Ledger, 1, "px_2", "failed", 300, noon.Add(25*time.Hour)) },
	} {
		h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h"}, keepalive())
		h.paid(t, "px_1", 300)
		want(t, name, ids(h.sweep(t)), []string{"px_1", "px_2"})
		change(t, h)
		h.restart(t)
		want(t, name+": px_1", slices.Contains(ids(h.sweep(t)), "px_1"), true)
	}
}

func TestAWalletThatCannotBeReadLimitsNothing(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	h.paid(t, "px_1", 300)
	h.wallet(t, func() (int64, error) { return 0, errors.New("timeout") })
	plan, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "included", ids(plan), []string{"px_1", "px_2"})
	if plan.WalletCents != nil || plan.WalletAfterCents != nil {
		t.Fatal("a wallet that was not read is shown")
	}
}

func TestAnEmptyWalletSendsNoCanary(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	h.wallet(t, func() (int64, error) { return 0, nil })
	plan, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "included", len(plan.Included), 0)
	want(t, "left out", plan.LeftOutCounts, map[string]int{plans.ReasonWallet: 2})
}

func TestDailyAndMonthlyBudgetsCoverAllTheirSweeps(t *testing.T) {
	s := keepalive()
	s.DailyBudgetCents, s.MonthlyBudgetCents, s.Timezone = 600, 900, "America/New_York"
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h", "px_4": "27h", "px_5": "28h"}, s)
	h.paid(t, "px_1", 300)
	sweep := func(what string, published int, reason string) {
		t.Helper()
		before := len(h.stream.commands)
		plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
		check(t, err)
		got := 0
		for _, c := range h.stream.commands[before:] {
			got += len(c.ProxyIDs)
			settle(t, h.Ledger, c, 300)
		}
		want(t, what, got, published)
		want(t, what+": reason", plan.Shortfalls[0].Reason, reason)
		if plans.HeldCodes[reason] == "" {
			t.Errorf("%s: %q has no code", what, reason)
		}
		h.watch.add(time.Second)
	}
	sweep("the first of the day", 2, plans.ReasonDay)
	sweep("the second of the day", 0, plans.ReasonDay)
	h.watch.add(12 * time.Hour) // past midnight in UTC, and 19:00 in New York
	sweep("the same day of the schedule", 0, plans.ReasonDay)
	h.watch.add(5 * time.Hour)
	sweep("the next day", 1, plans.ReasonMonth)
	h.watch.add(10 * fact.Day) // another month
	plan, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "spent of another month", plan.SpentMonthCents, int64(0))
}

func TestAWaitingPlanSaysWhatMoneyLeavesOut(t *testing.T) {
	s := keepalive()
	s.DailyBudgetCents, s.ApproveOverCents = 600, 300
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h"}, s)
	h.paid(t, "px_1", 300)
	before, _, err := h.Ledger.Head(t.Context())
	check(t, err)
	plan := h.sweep(t)
	want(t, "state", plan.State, StateHeld)
	want(t, "left out", plan.Shortfalls, []plans.Shortfall{{Reason: plans.ReasonDay, Proxies: 1, LimitCents: 600, Cents: fact.Known(300), FirstLostAt: noon.Add(26 * time.Hour)}})
	want(t, "facts", h.facts(t, before), []string{"sweep.held", "sweep.planned", "sweep.held"})
	said := h.held(t, before)
	want(t, "the first one lost", *said[0].FirstLostAt, noon.Add(26*time.Hour))
	want(t, "codes", []fact.SweepHeldCode{said[0].Code, said[1].Code}, []fact.SweepHeldCode{fact.SweepHeldDay, fact.SweepHeldApproval})
	want(t, "missing for the day", said[0].ShortfallCents, int64(300))
	want(t, "missing for the approval", said[1].ShortfallCents, int64(0))
	all, err := h.List(t.Context())
	check(t, err)
	for _, why := range []string{"daily_budget_cents (6.00) exceeded: 1 proxy skipped", "perennial schedules approve " + plan.Hash} {
		if !strings.Contains(all[0].Why, why) {
			t.Errorf("the list does not say %q: %s", why, all[0].Why)
		}
	}
}

// settle records the renewal that a run's command requested.
func settle(t testing.TB, l *ledger.Ledger, c command.RenewalCommand, cents int64) {
	t.Helper()
	settleAs(t, l, c, "completed", fact.LineSucceeded, cents)
}

func settleAs(t testing.TB, l *ledger.Ledger, c command.RenewalCommand, status string, state fact.LineState, cents int64) {
	t.Helper()
	operation := c.ID + "/0001"
	ref := fact.Ref{CommandID: c.ID, OperationID: operation}
	lines := fact.Lines{}
	for _, id := range c.ProxyIDs {
		lines.ChargedCents += cents
		lines.Items = append(lines.Items, fact.Line{ProxyID: id, State: state, ChargedCents: cents})
	}
	check(t, l.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(
			fact.CommandAccepted{
				Ref: fact.Ref{CommandID: c.ID}, Kind: fact.KindRenewal, ContentHash: "h", Content: json.RawMessage(`{}`), DurationDays: 30,
				Operations: []fact.Planned{{OperationID: operation, Chunk: "0001", Generation: 1, Key: "key-" + operation, ProxyIDs: c.ProxyIDs}},
			},
			fact.OperationSending{Ref: ref, Attempt: 1, Key: "key-" + operation, Body: "{}", SentAt: *c.DueBefore, Observed: c.ExpectExpiresAt},
			fact.RenewalSettled{Ref: ref, Status: status, Attempt: 1, Lines: lines})
	}))
}

func TestTheListOfSchedulesSaysWhy(t *testing.T) {
	s := keepalive()
	s.BudgetCents = 400
	h := newRig(t, soon(), s)
	list := func() Status {
		t.Helper()
		all, err := h.List(t.Context())
		check(t, err)
		return all[0]
	}
	want(t, "before", list().Why, "it has not run yet")
	h.paid(t, "px_1", 300)
	_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	want(t, "after", list().Why, "budget_cents (4.00) exceeded: 1 proxy skipped, 2.00 short; the first of them expires at 2026-11-23T12:00:00Z; "+
		"the next run plans them again; 2 due, 1 to renew in 1 command, about 3.00, asked for by ann: due")
}

// No proxy of the plan is due, but the plan orders replacements.
func TestAPlanOfReplacementsIsNotCalledEmpty(t *testing.T) {
	if text := planSaid(fact.SweepPlanned{Planned: []fact.PlannedCommand{{Proxies: 1}}, Commands: make([]json.RawMessage, 1)}, false, "USD"); !strings.HasPrefix(text, "0 due, 1 to renew in 1 command") {
		t.Error(text)
	}
	if text := planSaid(fact.SweepPlanned{}, false, "USD"); text != "nothing was due" {
		t.Error(text)
	}
}

// Each status asks for a forecast, and the wallet costs a request.
func TestForecastsReadTheWalletOnceInTenSeconds(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "24h"}, keepalive())
	reads := 0
	h.wallet(t, func() (int64, error) { reads++; return int64(1000 * reads), nil })
	check(t, h.lister.WaitPass(t.Context()))
	for n, x := range []struct {
		after time.Duration
		cents int64
	}{{0, 1000}, {9 * time.Second, 1000}, {time.Second, 2000}} {
		h.watch.add(x.after)
		f, err := h.Forecast(t.Context(), "", 30)
		check(t, err)
		want(t, fmt.Sprint("forecast ", n), *f.WalletCents, x.cents)
	}
	plan, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "a plan reads it itself", *plan.WalletCents, int64(3000))
}
