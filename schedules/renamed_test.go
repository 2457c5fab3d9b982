package schedules

import (
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

// renamed restarts the rig with another name for its schedule.
func (h *rig) renamed(t *testing.T, name, was string) {
	t.Helper()
	h.config.Schedules[0].Name, h.config.Schedules[0].Was = name, was
	h.restart(t)
}

func (h *rig) resumed(t *testing.T) time.Time {
	t.Helper()
	last, err := h.resumePlanned(t.Context(), h.runners[0])
	check(t, err)
	return last
}

func TestARenamedScheduleKeepsBudgetPlanPauseAndSlots(t *testing.T) {
	s := keepalive()
	s.DailyBudgetCents, s.MonthlyBudgetCents = 900, 900
	h, plans := twoHeld(t, s)
	check(t, h.Approve(t.Context(), plans[0], "ada", "checked"))
	from := h.resumed(t)
	check(t, h.Pause(t.Context(), "keepalive", nil, "ada", "prices change"))

	h.renamed(t, "fleet", "keepalive")
	want(t, "nothing is given up", len(h.removed(t)), 0)
	check(t, h.FinishRemoved(t.Context()))
	want(t, "it counts from", h.resumed(t), from)
	list, err := h.List(t.Context())
	check(t, err)
	want(t, "schedules", len(list), 1)
	want(t, "held plan", list[0].Plan, plans[1])
	if !strings.Contains(list[0].Why, "exceeds approve_over_cents") {
		t.Errorf("why: %s", list[0].Why)
	}
	want(t, "paused by", list[0].Paused.By, "ada")
	wantErr(t, h.Approve(t.Context(), plans[1], "ada", "checked"), ErrOverBudget)
	h.watch.add(10 * fact.Day)
	check(t, h.Approve(t.Context(), plans[1], "ada", "checked"))
	want(t, "published", h.stream.ids(), []string{"px_1 px_2", "px_3 px_4"})

	head := h.head(t)
	h.restart(t)
	h.resumed(t)
	want(t, "facts of a later start", h.facts(t, head), nil)
	_, err = h.Ledger.Verify(t.Context())
	check(t, err)
}

// An operator learns from doctor that the rename was not declared, after runs under the new
// name.
func TestARenameMayBeDeclaredLater(t *testing.T) {
	s := keepalive()
	s.MonthlyBudgetCents = 900
	h, plans := twoHeld(t, s)
	check(t, h.Approve(t.Context(), plans[0], "ada", "checked"))
	h.resumed(t)
	h.watch.add(20 * time.Minute)
	h.renamed(t, "fleet", "")
	h.resumed(t)
	gone := h.removed(t)
	want(t, "removed", len(gone), 1)
	want(t, "spent", gone[0].SpentCents, int64(600))
	want(t, "held", gone[0].Plan, plans[1])
	for _, says := range []string{"keepalive is not configured any more", "6.00", "`was: keepalive`", "perennial schedules approve " + plans[1]} {
		if !strings.Contains(gone[0].Text+gone[0].Advice, says) {
			t.Errorf("%+v does not say %q", gone[0], says)
		}
	}
	list, err := h.List(t.Context())
	check(t, err)
	want(t, "the list names it", list[1].Schedule+" "+list[1].Plan+" "+list[1].Removed, "keepalive "+plans[1]+" "+gone[0].Text+"; "+gone[0].Advice)

	h.renamed(t, "fleet", "keepalive")
	h.resumed(t)
	want(t, "removed", len(h.removed(t)), 0)
	wantErr(t, h.Approve(t.Context(), plans[1], "ada", "checked"), ErrOverBudget)
}

func (h *rig) removed(t *testing.T) []Removed {
	t.Helper()
	all, err := RemovedOf(t.Context(), h.Ledger, h.watch.Now(), h.config.Schedules)
	check(t, err)
	return all
}

func (h *rig) head(t *testing.T) int64 {
	t.Helper()
	seq, _, err := h.Ledger.Head(t.Context())
	check(t, err)
	return seq
}

func TestTwoSchedulesAreNotMadeOneByARename(t *testing.T) {
	h := newRig(t, nil, keepalive())
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.SweepPlanned{Schedule: "keepalive", Slot: noon, Plan: "p"}, fact.SweepPlanned{Schedule: "fleet", Slot: noon, Plan: "q"})
	}))
	h.renamed(t, "fleet", "keepalive")
	h.runners[0].Chunk = 1
	_, err := h.countsFrom(t.Context(), h.runners[0])
	if err == nil || !strings.Contains(err.Error(), "both have a slot at 2026-11-21T12:00:00Z: remove was") {
		t.Fatalf("error %v", err)
	}
	for says, all := range map[string][]plans.Schedule{
		"was is its own name":           {{Name: "a", Was: "a"}},
		"was is b, which is configured": {{Name: "a", Was: "b"}, {Name: "b"}},
		"was is c, which is that of ":   {{Name: "a", Was: "c"}, {Name: "b", Was: "c"}},
	} {
		if err := plans.CheckRenames(all); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}
