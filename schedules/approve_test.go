package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// twoHeld returns a rig with two held plans, and the hashes of the plans. Each plan costs 600
// cents, and they have no proxy in common.
func twoHeld(t *testing.T, s plans.Schedule) (h *rig, plans []string) {
	t.Helper()
	s.ApproveOverCents = 500
	h = newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_3": "26h", "px_4": "27h"}, s)
	h.paid(t, "px_1", 300)
	for _, pair := range [][]string{{"px_1", "px_2"}, {"px_3", "px_4"}} {
		h.config.Schedules[0].Match.ProxyIDs = pair
		h.restart(t)
		plan := h.sweep(t)
		want(t, "state", plan.State, StateHeld)
		want(t, "plan", ids(plan), pair)
		plans = append(plans, plan.Hash)
	}
	return h, plans
}

func TestAnApprovalStaysWithinTheBudgetOfItsDay(t *testing.T) {
	s := keepalive()
	s.DailyBudgetCents, s.MonthlyBudgetCents = 900, 1500
	h, plans := twoHeld(t, s)
	check(t, h.Approve(t.Context(), plans[0], "ada", "checked"))
	err := h.Approve(t.Context(), plans[1], "ada", "checked")
	wantErr(t, err, ErrOverBudget)
	if said := "daily_budget_cents is 9.00, 6.00 of it is spent or on its way, and the plan would add 6.00"; !strings.Contains(err.Error(), said) {
		t.Errorf("it does not say %q: %v", said, err)
	}
	want(t, "published", h.stream.ids(), []string{"px_1 px_2"})

	h.watch.add(13 * time.Hour) // the day after both plans were made
	check(t, h.Approve(t.Context(), plans[1], "ada", "checked"))
	want(t, "published", h.stream.ids(), []string{"px_1 px_2", "px_3 px_4"})
	want(t, "spent on the day of the approval", h.sweep(t).SpentTodayCents, int64(600))
	_, err = h.Ledger.Verify(t.Context())
	check(t, err)
}

func TestAnApprovalStaysWithinTheBudgetOfItsMonth(t *testing.T) {
	s := keepalive()
	s.MonthlyBudgetCents = 1100
	h, plans := twoHeld(t, s)
	check(t, h.Approve(t.Context(), plans[0], "ada", "checked"))
	wantErr(t, h.Approve(t.Context(), plans[1], "ada", "checked"), ErrOverBudget)
	h.watch.add(10 * fact.Day)
	check(t, h.Approve(t.Context(), plans[1], "ada", "checked"))
}

// An approval that a crash interrupted has already spent the plan's money.
func TestAnApprovalIsGivenAgainBehindACrash(t *testing.T) {
	s := keepalive()
	s.DailyBudgetCents, s.Chunk = 600, 1
	h, plans := twoHeld(t, s)
	ended, crash := context.WithCancel(t.Context())
	h.stream.fail = func() error { crash(); return errors.New("no reply") }
	wantErr(t, h.Approve(ended, plans[0], "ada", "checked"), context.Canceled)
	h.stream.fail = nil
	renewed := h.plannedCommands(t, plans[0])
	settle(t, h.Ledger, renewed[0], 300) // the stream had the command
	h.restart(t)
	check(t, h.Approve(t.Context(), plans[0], "ada", "checked"))
	want(t, "published", h.stream.ids(), []string{"px_1", "px_2"})
}

func TestADeclinedPlanRenewsNothing(t *testing.T) {
	s := keepalive()
	s.DailyBudgetCents = 700
	h, plans := twoHeld(t, s)
	wantErr(t, h.Decline(t.Context(), "none", "ada", "too dear"), ErrNoPlan)
	held, err := h.HeldPlan(t.Context(), plans[1])
	check(t, err)
	want(t, "what it holds", ids(held), []string{"px_3", "px_4"})
	want(t, "what it costs", []any{held.EstimateCents, held.Included[0].ExpiresAt, held.State}, []any{fact.Known(600), noon.Add(26 * time.Hour), StateHeld})
	now, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "a look says that it is held", []string{now.State, now.Hash}, []string{StateHeld, plans[1]})
	check(t, h.Decline(t.Context(), plans[1], "ada", "too dear"))
	wantErr(t, h.Decline(t.Context(), plans[1], "ada", "too dear"), ErrNoPlan)
	err = h.Approve(t.Context(), plans[1], "ada", "checked")
	if wantErr(t, err, ErrNoPlan); !strings.Contains(err.Error(), "this one was declined by ada: too dear") {
		t.Error(err)
	}
	want(t, "published", len(h.stream.ids()), 0)

	h.restart(t)
	all, err := h.List(t.Context())
	check(t, err)
	want(t, "outcome", []any{all[0].Outcome(), all[0].Result.Skipped, all[0].Result.Reason}, []any{tables.OutcomeDeclined, 2, "by ada: too dear"})
	if want := "declined by ada: too dear; nothing of it was renewed"; !strings.Contains(all[0].Why, want) {
		t.Errorf("%q does not say %q", all[0].Why, want)
	}
	decisions, _, err := h.Ledger.Report().DecisionsBefore(t.Context(), 0, 1)
	check(t, err)
	want(t, "decided", []string{decisions[0].Outcome, decisions[0].By, decisions[0].About}, []string{"declined", "ada", "keepalive " + plans[1]})

	plan := h.sweep(t)
	want(t, "the next run plans it again", []string{plan.State, plan.Hash}, []string{StateHeld, plans[1]})
	check(t, h.Approve(t.Context(), plans[1], "ada", "checked")) // the declined plan reserves no money
	want(t, "published", h.stream.ids(), []string{"px_3 px_4"})
	_, err = h.Ledger.Verify(t.Context())
	check(t, err)
}

// After a restart, the remainder of a declined plan is not planned automatically.
func TestADeclinedPlanHasNoRest(t *testing.T) {
	s := keepalive()
	s.ApproveOverCents = 500
	h := newRig(t, map[string]string{"px_1": "24h", "px_2": "25h", "px_de_1": "26h", "px_de_2": "27h"}, s)
	h.paid(t, "px_1", 300)
	plan := h.sweep(t)
	want(t, "held with a rest", []any{plan.State, plan.Left != nil}, []any{StateHeld, true})
	check(t, h.Decline(t.Context(), plan.Hash, "ada", "too dear"))
	h.restart(t)
	r, err := runnerOf(h.runners, "keepalive")
	check(t, err)
	check(t, h.recall(t.Context(), r))
	want(t, "rest", r.rest.Load() == nil, true)
}

// An approval that a crash interrupted has published a part of the plan, which is paid.
func TestAPlanThatIsPartlyPublishedIsNotDeclined(t *testing.T) {
	s := keepalive()
	s.Chunk = 1
	h, plans := twoHeld(t, s)
	settle(t, h.Ledger, h.plannedCommands(t, plans[0])[0], 300)
	wantErr(t, h.Decline(t.Context(), plans[0], "ada", "too dear"), ErrBegun)
	check(t, h.Approve(t.Context(), plans[0], "ada", "checked"))
}

func (h *rig) plannedCommands(t *testing.T, plan string) (all []command.RenewalCommand) {
	t.Helper()
	slots, err := h.Ledger.Sweeps.HeldSlots(t.Context(), plan)
	check(t, err)
	planned, err := h.Ledger.Sweeps.Plan(t.Context(), slots[0])
	check(t, err)
	for _, raw := range planned.Commands {
		var c command.RenewalCommand
		check(t, json.Unmarshal(raw, &c))
		all = append(all, c)
	}
	return all
}

func TestAPlanOfARemovedScheduleCanBeApproved(t *testing.T) {
	s := keepalive()
	s.DailyBudgetCents = 900
	h, plans := twoHeld(t, s)
	h.config.Schedules = nil
	h.restart(t)
	check(t, h.Approve(t.Context(), plans[0], "ada", "checked"))
}

// The journal is archived while the plan needs approval.
func TestAHeldPlanOutlivesAnArchiving(t *testing.T) {
	s := keepalive()
	s.RenewBefore, s.ApproveOverCents = 25*fact.Day, 500
	h := newRig(t, map[string]string{"px_1": "500h", "px_2": "510h", "px_3": "520h"}, s)
	h.paid(t, "px_1", 300)
	s.Match.ProxyIDs = []string{"px_1", "px_2"}
	old := h.sweptWith(t, s)
	want(t, "state", old.State, StateHeld)
	h.watch.add(9 * fact.Day)
	want(t, "held by", h.archive(t).HeldBy, "a sweep of keepalive")

	s.Match.ProxyIDs = []string{"px_2", "px_3"}
	want(t, "another plan is held", h.sweptWith(t, s).State, StateHeld)
	out := h.archive(t)
	want(t, "held by", out.HeldBy, "")
	away := out.File + ".away"
	check(t, os.Rename(out.File, away))
	_, missing := errors.AsType[*ledger.ArchivedError](h.Approve(t.Context(), old.Hash, "ada", "checked"))
	want(t, "the archive is missing, and named", missing, true)

	s.Match.ProxyIDs = []string{"px_1", "px_2"}
	want(t, "the old plan again", h.sweptWith(t, s).Hash, old.Hash)
	check(t, h.Approve(t.Context(), old.Hash, "ada", "checked"))
	want(t, "published", h.stream.raw, []string{string(old.Commands[0])})
	_, err := h.Ledger.Verify(t.Context())
	check(t, err)
}

func TestAHeldPlanIsFoundInTheArchive(t *testing.T) {
	s := keepalive()
	s.RenewBefore, s.ApproveOverCents = 25*fact.Day, 500
	h := newRig(t, map[string]string{"px_1": "500h", "px_2": "510h", "px_3": "520h"}, s)
	h.paid(t, "px_1", 300)
	old := h.sweptWith(t, s)
	h.watch.add(9 * fact.Day)
	s.Match.ProxyIDs = []string{"px_2", "px_3"}
	want(t, "another plan is held", h.sweptWith(t, s).State, StateHeld)
	h.archive(t)
	check(t, h.Approve(t.Context(), old.Hash, "ada", "checked"))
	want(t, "published", h.stream.raw, []string{string(old.Commands[0])})
}

// sweptWith sweeps after a change of the configuration.
func (h *rig) sweptWith(t *testing.T, s plans.Schedule) plans.Plan {
	t.Helper()
	h.config.Schedules[0] = s
	h.restart(t)
	return h.sweep(t)
}

// archive stops the runner, archives the journal, and starts the runner again.
func (h *rig) archive(t *testing.T) ledger.Archived {
	t.Helper()
	x := ledger.Archive{Path: h.path, Before: h.watch.Now().Add(-8 * fact.Day), Clock: h.watch.Now, Keep: 1}
	var err error
	x.Published.Seq, x.Published.Hash, err = h.Ledger.Head(t.Context())
	check(t, errors.Join(err, h.Ledger.Close()))
	out, err := x.Run(t.Context())
	check(t, err)
	h.config.Ledger = openLedger(t, h.path, h.watch.Now)
	h.restart(t)
	return out
}

// An operator has to know what is left of the budgets before the approval.
func TestAHeldPlanSaysWhatItsScheduleHasSpent(t *testing.T) {
	s := keepalive()
	s.BudgetCents, s.DailyBudgetCents = 300, 2000
	h := newRig(t, soon(), s)
	h.paid(t, "px_1", 300)
	_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	s.BudgetCents, s.ApproveOverCents = 0, 100
	h.config.Schedules = []plans.Schedule{s}
	h.restart(t)
	h.watch.add(time.Minute)
	preview, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	held, err := h.HeldPlan(t.Context(), plan.Hash)
	check(t, err)
	want(t, "spent", []int64{preview.SpentTodayCents, held.SpentTodayCents, held.SpentMonthCents}, []int64{300, 300, 300})
}
