package schedules

import (
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// The next run would renew the proxy.
func TestAProxySaysThatTheLastRunSkippedIt(t *testing.T) {
	s := keepalive()
	s.BudgetCents = 500
	h := newRig(t, soon(), s)
	h.paid(t, "px_2", 300)
	_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	coverage, err := plans.NewCoverage([]plans.Schedule{s}, plans.HistoryOf(h.Ledger.Queries), nil)
	check(t, err)
	outlook := func(id string) RenewalOutlook {
		p, err := h.Ledger.Fleet.Proxy(t.Context(), id)
		check(t, err)
		out, err := RenewalOutlookFrom{
			Proxy: p, Listed: true, Now: h.watch.Now(), Coverage: coverage,
			Status:  func(string) (Status, string) { return Status{Schedule: "keepalive"}, "" },
			Plan:    func(string) (*plans.Plan, string) { return &plans.Plan{}, "" },
			LastRun: func(of plans.Schedule) (*LastRun, error) { return ReadLastRun(t.Context(), h.Ledger, of) },
		}.Outlook(t.Context())
		check(t, err)
		return out
	}
	skipped := outlook("px_2")
	for _, part := range []string{"The run of ", " skipped it: ", "budget_cents (5.00)"} {
		if !skipped.Good || !strings.Contains(skipped.LastRun, part) {
			t.Errorf("of what was skipped: %+v", skipped)
		}
	}
	want(t, "of what was taken", outlook("px_1").LastRun, "")
	run, err := ReadLastRun(t.Context(), h.Ledger, s)
	check(t, err)
	var ids []string
	check(t, run.EachSkipped(t.Context(), h.Ledger, nil, func(p tables.Proxy) error { ids = append(ids, p.ProxyID); return nil }))
	want(t, "the run skipped", ids, []string{"px_2"})
}

// Otherwise an operator would look for a problem that another schedule has solved.
func TestASkippedProxyThatWasRenewedSinceNeedsNobody(t *testing.T) {
	s, other := keepalive(), keepalive()
	s.BudgetCents, other.Name = 500, "other"
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "48h", "px_3": "50h"}, s, other)
	h.paid(t, "px_2", 300)
	_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	still := func() (int, int) {
		all, err := h.List(t.Context())
		check(t, err)
		return all[0].Result.OverLimit, all[0].StillOverLimit
	}
	over, n := still()
	want(t, "after the run", []int{over, n}, []int{2, 2})
	p, err := h.Ledger.Fleet.Proxy(t.Context(), "px_2")
	check(t, err)
	renewal(t, h.Ledger, 2, "px_2", "succeeded", 300, *p.ExpiresAt)
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Stale("px_2") }))
	over, n = still()
	want(t, "when one is renewed", []int{over, n}, []int{2, 1})
}

// A paused schedule, or one without money, keeps no other from renewing the proxy.
func TestAnOutlookIsOfTheScheduleThatRenews(t *testing.T) {
	first, second := keepalive(), keepalive()
	second.Name = "second"
	h := newRig(t, soon(), first, second)
	coverage, err := plans.NewCoverage([]plans.Schedule{first, second}, plans.HistoryOf(h.Ledger.Queries), nil)
	check(t, err)
	check(t, h.lister.WaitPass(t.Context()))
	p, err := h.Ledger.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	paused := map[string]bool{}
	outlook := func() RenewalOutlook {
		out, err := RenewalOutlookFrom{
			Proxy: p, Listed: true, Now: h.watch.Now(), Coverage: coverage,
			Status: func(name string) (Status, string) {
				one := Status{Schedule: name}
				if paused[name] {
					one.Paused = &tables.SchedulePause{By: "ann", Reason: "a holiday"}
				}
				return one, ""
			},
			Plan:    func(string) (*plans.Plan, string) { return &plans.Plan{}, "" },
			LastRun: func(of plans.Schedule) (*LastRun, error) { return ReadLastRun(t.Context(), h.Ledger, of) },
		}.Outlook(t.Context())
		check(t, err)
		return out
	}
	want(t, "both run", outlook().Schedule, "keepalive")
	paused["keepalive"] = true
	out := outlook()
	want(t, "the first is paused", []any{out.Schedule, out.Good}, []any{"second", true})
	paused["second"] = true
	out = outlook()
	want(t, "both are paused", []any{out.Schedule, out.Good}, []any{"keepalive", false})
}

// A proxy that the run renews later was not skipped, and the budget is no reason for it.
func TestWhatARunRenewsLaterIsNotSkipped(t *testing.T) {
	s := keepalive()
	s.BudgetCents = 500
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h"}, s)
	_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	run, err := ReadLastRun(t.Context(), h.Ledger, s)
	check(t, err)
	want(t, "not renewed, to be renewed later, skipped", []int64{run.Result.Skipped, run.Result.Left, run.Result.SkippedSoFar()}, []int64{2, 2, 0})
	px2, err := h.Ledger.Fleet.Proxy(t.Context(), "px_2")
	check(t, err)
	text, err := run.Text(t.Context(), px2)
	check(t, err)
	if !strings.HasSuffix(text, " continues, and renews it later as far as its budgets allow.") {
		t.Error(text)
	}
	states := func() (all []string) {
		rows, _, err := run.ListSkipped(t.Context(), h.Ledger, []plans.Schedule{s}, nil, h.watch.Now(), 10)
		check(t, err)
		for _, x := range rows {
			all = append(all, x.ProxyID+" "+x.State)
		}
		return all
	}
	want(t, "listed", states(), []string{"px_2 later in this run", "px_3 later in this run"})

	run.Result.Left, run.Result.OverLimit, run.Result.Reason = 1, 1, "budget_cents (5.00) exceeded"
	if text := run.Why(); text != "the run continues with 1 more as far as its budgets allow, and skipped 1: budget_cents (5.00) exceeded" {
		t.Error(text)
	}
}

// A run can skip a proxy of known price for lack of money while others wait for their first price.
func TestARunThatContinuesSaysWhichProxiesItSkipped(t *testing.T) {
	s := keepalive()
	s.BudgetCents = 500
	h := newRig(t, map[string]string{"px_de_1": "24h", "px_de_2": "25h", "px_1": "26h", "px_2": "27h"}, s)
	h.paid(t, "px_2", 300)
	_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	run, err := ReadLastRun(t.Context(), h.Ledger, s)
	check(t, err)
	want(t, "left, over the budget", []int64{run.Result.Left, int64(run.Result.OverLimit)}, []int64{1, 1})
	states := func() []string {
		rows, _, err := run.ListSkipped(t.Context(), h.Ledger, []plans.Schedule{s}, nil, h.watch.Now(), 10)
		check(t, err)
		return []string{rows[0].ProxyID + ": " + rows[0].State, rows[1].ProxyID + ": " + rows[1].State}
	}
	listed := []string{"px_de_2: later in this run", "px_2: over budget"}
	want(t, "listed", states(), listed)
	h.watch.add(time.Second)
	renewal(t, h.Ledger, 2, "px_de_1", "succeeded", 350, noon.Add(24*time.Hour))
	want(t, "when the price is known, and the run has not planned again", states(), listed)

	texts := map[string]string{}
	for _, id := range []string{"px_de_2", "px_2"} {
		p, err := h.Ledger.Fleet.Proxy(t.Context(), id)
		check(t, err)
		text, err := run.Text(t.Context(), p)
		check(t, err)
		_, texts[id], _ = strings.Cut(text, "Z ")
	}
	want(t, "of px_de_2", texts["px_de_2"], "continues, and renews it later as far as its budgets allow.")
	if !strings.HasPrefix(texts["px_2"], "skipped it: budget_cents (5.00) exceeded: 1 proxy skipped") {
		t.Error(texts["px_2"])
	}
	run.Result.LeftUnpriced = 0 // the plan was full
	want(t, "listed of a full plan", states()[1], "px_2: later in this run, or over budget")
}

// Its proxies were not skipped: the newer run planned them again.
func TestARunThatANewerOneReplacedSkippedNothing(t *testing.T) {
	s := keepalive()
	s.BudgetCents = 500
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h"}, s)
	_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	h.watch.add(time.Second)
	_, err = h.RunNow(t.Context(), "keepalive", "ann", "again", nil)
	check(t, err)
	runs, err := Runs(t.Context(), h.Ledger, "keepalive", 10)
	check(t, err)
	want(t, "the first run", []any{len(runs), runs[1].Outcome, runs[1].Skipped}, []any{2, tables.OutcomeReplaced, int64(0)})
	if want := "the run of " + runs[0].Began.Format(time.RFC3339) + " replaced it before it renewed 2 more"; runs[1].Why() != want {
		t.Errorf("%s, want %s", runs[1].Why(), want)
	}
}

// The proxy was skipped for a reason other than a money limit.
func TestARunWithoutRecordedReasonsInventsNone(t *testing.T) {
	s := keepalive()
	s.Match.ExceptProxyIDs = []string{"px_2"}
	h := newRig(t, soon(), s)
	h.paid(t, "px_2", 300)
	_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	run, err := ReadLastRun(t.Context(), h.Ledger, s)
	check(t, err)
	p, err := h.Ledger.Fleet.Proxy(t.Context(), "px_2")
	check(t, err)
	text, err := run.Text(t.Context(), p)
	check(t, err)
	if run.Result.Skipped != 1 || !strings.HasSuffix(text, " skipped it.") {
		t.Errorf("%d skipped: %s", run.Result.Skipped, text)
	}
}

// A proxy that was bought after the run was not skipped either.
func TestARunThatTookAllSkippedNothing(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	h.paid(t, "px_1", 300)
	h.sweep(t)
	run, err := ReadLastRun(t.Context(), h.Ledger, keepalive())
	check(t, err)
	p, err := h.Ledger.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	p.ProxyID = "px_9"
	want(t, "nothing was skipped", run.Skipped(p), false)
	run.Result.Skipped = 1
	want(t, "it was due then", run.Skipped(p), true)
	p.StartsAt = new(noon.Add(time.Hour))
	want(t, "bought since", run.Skipped(p), false)
}

// A proxy that expires before the next slot is not safe.
func TestNoRunIsPromisedAfterTheExpiry(t *testing.T) {
	s := keepalive()
	s.Cron = "0 3 1 1 *"
	h := newRig(t, soon(), s)
	_, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	coverage, err := plans.NewCoverage([]plans.Schedule{s}, plans.HistoryOf(h.Ledger.Queries), nil)
	check(t, err)
	p, err := h.Ledger.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	out, err := RenewalOutlookFrom{
		Proxy: p, Listed: true, Now: h.watch.Now(), Coverage: coverage,
		Status:  func(string) (Status, string) { return Status{Schedule: "keepalive"}, "" },
		Plan:    func(string) (*plans.Plan, string) { return &plans.Plan{}, "" },
		LastRun: func(of plans.Schedule) (*LastRun, error) { return ReadLastRun(t.Context(), h.Ledger, of) },
	}.Outlook(t.Context())
	check(t, err)
	if out.Good || !strings.Contains(out.Text, "before the next run") {
		t.Errorf("%+v", out)
	}
}

// After a decline no plan needs approval, but the next run's plan will need approval too.
func TestAnOutlookSaysThatTheNextPlanNeedsAnApproval(t *testing.T) {
	s := keepalive()
	s.ApproveOverCents = 100
	h := newRig(t, soon(), s)
	h.paid(t, "px_1", 300)
	coverage, err := plans.NewCoverage([]plans.Schedule{s}, plans.HistoryOf(h.Ledger.Queries), nil)
	check(t, err)
	paused := ""
	outlook := func() RenewalOutlook {
		p, err := h.Ledger.Fleet.Proxy(t.Context(), "px_1")
		check(t, err)
		out, err := RenewalOutlookFrom{
			Proxy: p, Listed: true, Now: h.watch.Now(), Coverage: coverage, Paused: paused,
			Status: func(name string) (Status, string) {
				all, err := h.List(t.Context())
				check(t, err)
				return StatusOf(all, name)
			},
			Plan: func(name string) (*plans.Plan, string) {
				plan, err := h.PlanNow(t.Context(), name)
				check(t, err)
				return &plan, ""
			},
			LastRun: func(of plans.Schedule) (*LastRun, error) { return ReadLastRun(t.Context(), h.Ledger, of) },
		}.Outlook(t.Context())
		check(t, err)
		return out
	}
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	if out := outlook(); out.Good || !strings.Contains(out.Text, "`perennial schedules show keepalive`") {
		t.Errorf("while the plan is on hold: %+v", out)
	}
	h.watch.add(time.Second)
	check(t, h.Decline(t.Context(), plan.Hash, "ann", "too early"))
	if out := outlook(); out.Good || !strings.Contains(out.Text, "next run will need approval: ") || !strings.Contains(out.Text, "exceeds approve_over_cents (1.00") {
		t.Errorf("after the decline: %+v", out)
	}
	paused = "the account is paused"
	if out := outlook(); !strings.HasSuffix(out.Text, ". Nothing is sent now: the account is paused") {
		t.Errorf("in a pause: %+v", out)
	}
	again, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	want(t, "the plan of the next run", again.Hash, plan.Hash)
	all, err := h.List(t.Context())
	check(t, err)
	if why := all[0].Why; !strings.HasSuffix(why, "; it is the plan that ann declined before: too early") {
		t.Errorf("the plan on hold does not say that it was declined: %s", why)
	}
}

// A run may start up to half a minute after its slot. Until then the list must not skip the
// slot.
func TestASlotThatIsDueStaysTheNextOne(t *testing.T) {
	s := keepalive()
	s.Cron = "*/15 * * * *"
	h := newRig(t, soon(), s)
	r := h.runners[0]
	last := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	due := last.Add(15 * time.Minute)
	want(t, "before it", r.nextSlot(due.Add(-time.Second), nil, last), &due)
	want(t, "until it starts", r.nextSlot(r.calendar.Start(due), nil, last), &due)
	want(t, "once it has a plan", r.nextSlot(r.calendar.Start(due), nil, due), new(due.Add(15*time.Minute)))
	want(t, "of a slot that was missed", r.nextSlot(due.Add(5*time.Minute), nil, last), new(due.Add(15*time.Minute)))
	want(t, "while it is paused", r.nextSlot(r.calendar.Start(due), &tables.SchedulePause{}, last), (*time.Time)(nil))
}

// A first run that is due was not missed either.
func TestAFirstRunThatIsDueIsNotTheOneAfterIt(t *testing.T) {
	s := keepalive()
	s.Cron = "*/15 * * * *"
	h := newRig(t, soon(), s)
	r, now := h.runners[0], h.watch.Now()
	due := r.calendar.Next(now)
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.ScheduleConfigured{Schedule: s.Name, Cron: s.Cron, Timezone: r.calendar.Zone.String(), Since: now})
	}))
	h.watch.add(due.Sub(now))
	all, err := h.List(t.Context())
	check(t, err)
	want(t, "next", all[0].NextSlot, &due)
	want(t, "why", all[0].Why, "its first run is due, and begins within 30 seconds")
}

// The approved plan of the earlier slot has the commands of both slots.
func TestASlotThatHeldAnEarlierPlanSkippedNothing(t *testing.T) {
	s := keepalive()
	s.ApproveOverCents = 100
	h := newRig(t, soon(), s)
	h.paid(t, "px_1", 300)
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	h.watch.add(time.Minute)
	_, err = h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	check(t, h.Approve(t.Context(), plan.Hash, "ann", "fine"))
	runs, err := Runs(t.Context(), h.Ledger, "keepalive", 10)
	check(t, err)
	want(t, "runs", len(runs), 2)
	if x := runs[0]; x.Skipped != 0 || !strings.Contains(x.Reason, "its plan is that of the run of ") {
		t.Errorf("%+v", x.SlotResult)
	}
}

// TestAPlanOnHoldCountsWhatItSkips counts a retired proxy as skipped, in the run with the
// plan and in the next one, which found the same plan.
func TestAPlanOnHoldCountsWhatItSkips(t *testing.T) {
	s := keepalive()
	s.ApproveOverCents = 100
	h := newRig(t, soon(), s)
	h.paid(t, "px_1", 300)
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.ProxyRetired{ProxyID: "px_2", By: "ada", Reason: "slow"})
	}))
	for range 2 {
		_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
		check(t, err)
		h.watch.add(time.Minute)
	}
	runs, err := Runs(t.Context(), h.Ledger, "keepalive", 10)
	check(t, err)
	want(t, "runs", len(runs), 2)
	for _, x := range runs {
		if x.Outcome != StateHeld || x.Skipped != 1 {
			t.Errorf("%+v", x.SlotResult)
		}
	}
}

// An approval changes nothing for the proxies that the budget left out.
func TestAPlanOnHoldNeedsMoneyForWhatItSkips(t *testing.T) {
	s := keepalive()
	s.BudgetCents, s.ApproveOverCents = 500, 100
	h := newRig(t, soon(), s)
	h.paid(t, "px_1", 300)
	_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	all, err := h.List(t.Context())
	check(t, err)
	want(t, "the run", []any{all[0].State, all[0].Result.Outcome, all[0].StillOverLimit}, []any{StateHeld, StateHeld, 1})
	run, err := ReadLastRun(t.Context(), h.Ledger, s)
	check(t, err)
	rows, _, err := run.ListSkipped(t.Context(), h.Ledger, []plans.Schedule{s}, nil, h.watch.Now(), 10)
	check(t, err)
	want(t, "skipped", []any{len(rows), rows[0].ProxyID, rows[0].State}, []any{1, "px_2", tables.OutcomeOverBudget})
}

// Plans without commands have the same hash.
func TestTwoRunsThatRenewNothingAreNoOnePlan(t *testing.T) {
	s := keepalive()
	s.BudgetCents = 100
	h := newRig(t, soon(), s)
	h.paid(t, "px_1", 300)
	for range 2 {
		_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
		check(t, err)
		h.watch.add(time.Minute)
	}
	runs, err := Runs(t.Context(), h.Ledger, "keepalive", 10)
	check(t, err)
	if x := runs[0]; x.Skipped != 2 || strings.Contains(x.Reason, "its plan is that of") {
		t.Errorf("%+v", x.SlotResult)
	}
}

// Without the time, an operator would have to look up when the renewal failed and when runs follow.
func TestAFailedProxySaysWhichRunTriesItAgain(t *testing.T) {
	s := keepalive()
	s.Cron = "0 3 * * *"
	h := newRig(t, map[string]string{"px_1": "60h"}, s)
	check(t, h.lister.WaitPass(t.Context()))
	p, err := h.Ledger.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	renewal(t, h.Ledger, 1, "px_1", "failed", 300, *p.ExpiresAt)
	coverage, err := plans.NewCoverage([]plans.Schedule{s}, plans.HistoryOf(h.Ledger.Queries), nil)
	check(t, err)
	out, err := RenewalOutlookFrom{
		Proxy: p, Listed: true, Now: h.watch.Now(), Coverage: coverage,
		Status:  func(string) (Status, string) { return Status{Schedule: "keepalive"}, "" },
		Plan:    func(string) (*plans.Plan, string) { return &plans.Plan{}, "" },
		LastRun: func(of plans.Schedule) (*LastRun, error) { return ReadLastRun(t.Context(), h.Ledger, of) },
	}.Outlook(t.Context())
	check(t, err)
	want(t, "the next run", *out.At, noon.Add(15*time.Hour))
	if !strings.HasSuffix(out.Text, " tries it again: the run of "+noon.Add(15*time.Hour).Format(time.RFC3339)+".") {
		t.Error(out.Text)
	}
}

// The same while the proxy was not read since its renewal failed.
func TestAFailedProxyThatIsUnreadSaysWhichRunTriesItAgain(t *testing.T) {
	s := keepalive()
	h := newRig(t, map[string]string{"px_1": "60h"}, s)
	check(t, h.lister.WaitPass(t.Context()))
	p, err := h.Ledger.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	renewal(t, h.Ledger, 1, "px_1", "failed", 300, *p.ExpiresAt)
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Stale("px_1") }))
	p, err = h.Ledger.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	renewals, err := h.Ledger.Fleet.RenewalsOf(t.Context(), "px_1", 10)
	check(t, err)
	coverage, err := plans.NewCoverage([]plans.Schedule{s}, plans.HistoryOf(h.Ledger.Queries), nil)
	check(t, err)
	out, err := RenewalOutlookFrom{
		Proxy: p, Listed: true, Now: h.watch.Now(), Coverage: coverage, Renewals: renewals,
		Status: func(string) (Status, string) { return Status{Schedule: "keepalive"}, "" },
	}.Outlook(t.Context())
	check(t, err)
	if !strings.Contains(out.Text, "the provider reports it as failed") {
		t.Error(out.Text)
	}
	want(t, "the next run", *out.At, noon.Add(30*time.Minute))
	s.RenewBefore = 24 * time.Hour
	coverage, err = plans.NewCoverage([]plans.Schedule{s}, plans.HistoryOf(h.Ledger.Queries), nil)
	check(t, err)
	out, err = RenewalOutlookFrom{
		Proxy: p, Listed: true, Now: h.watch.Now(), Coverage: coverage, Renewals: renewals,
		Status: func(string) (Status, string) { return Status{Schedule: "keepalive"}, "" },
	}.Outlook(t.Context())
	check(t, err)
	want(t, "it is not due yet", *out.At, noon.Add(36*time.Hour))
}
