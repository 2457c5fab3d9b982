package schedules

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
)

// Another proxy comes due at each slot, so each slot has another plan.
func TestAPlanThatWaitsIsStoredOnce(t *testing.T) {
	s := keepalive()
	s.ApproveOverCents = 100
	due := map[string]string{}
	for i := range 40 {
		due[fmt.Sprintf("px_%02d", i)] = fmt.Sprintf("%dm", 72*60+15*i)
	}
	h := newRig(t, due, s)
	h.paid(t, "px_00", 300)
	stored, hashes := 0, map[string]bool{}
	for n := 1; n <= 36; n++ { // nine hours
		h.watch.add(noon.Add(time.Duration(15*n) * time.Minute).Sub(h.watch.Now()))
		plan, err := h.fire(t.Context(), h.runners[0], firing{slot: h.watch.Now()})
		check(t, err)
		want(t, "state", plan.State, StateHeld)
		hashes[plan.Hash] = true
		slot, err := h.Ledger.Sweeps.LastSlot(t.Context(), "keepalive")
		check(t, err)
		planned, err := h.Ledger.Sweeps.Plan(t.Context(), slot)
		check(t, err)
		if len(planned.Commands) > 0 {
			stored++
		}
	}
	want(t, "plans stored in nine hours", stored, 2)
	want(t, "hashes", len(hashes), 2)
	list, err := h.List(t.Context())
	check(t, err)
	if !hashes[list[0].Plan] || !strings.Contains(list[0].Why, "a plan of an earlier run needs an approval") {
		t.Errorf("%+v", list[0])
	}
	h.watch.add(time.Second)
	fresh, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil) // a requested run plans what is due now
	check(t, err)
	want(t, "another plan by hand", hashes[fresh.Hash], false)
	check(t, h.Approve(t.Context(), fresh.Hash, "ada", "checked"))
	want(t, "published", len(h.stream.commands), 1)
}

// A later run replaces the plan. While the schedule is paused, no run makes another plan.
func TestAPlanThatIsNotApprovedSpendsNothingAndIsReplaced(t *testing.T) {
	s := keepalive()
	s.ApproveOverCents = 100
	h := newRig(t, soon(), s)
	h.paid(t, "px_1", 300)
	declined, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	want(t, "state", declined.State, StateHeld)
	check(t, h.Pause(t.Context(), "keepalive", nil, "ada", "not this month"))
	h.watch.add(heldPlanServes)
	_, err = h.fire(t.Context(), h.runners[0], firing{slot: h.watch.Now()})
	want(t, "while it is paused", errors.Is(err, errPaused), true)
	check(t, h.Resume(t.Context(), "keepalive", "ada", "a new month"))
	h.append(t, fact.ProxyRetired{ProxyID: "px_1", By: "ada", Reason: "not needed"})
	_, err = h.fire(t.Context(), h.runners[0], firing{slot: h.watch.Now()})
	check(t, err)
	list, err := h.List(t.Context())
	check(t, err)
	want(t, "the declined plan is shown", list[0].Plan == declined.Hash, false)
	want(t, "published", len(h.stream.commands), 0)
}

func TestAnApprovalSaysWhoGaveIt(t *testing.T) {
	s := keepalive()
	s.ApproveOverCents = 100
	h := newRig(t, soon(), s)
	h.paid(t, "px_1", 300)
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	check(t, h.Approve(t.Context(), plan.Hash, "ada", "the month is paid"))
	rows, err := h.Ledger.Rows(t.Context(), 0, 1000)
	check(t, err)
	last := rows[len(rows)-1]
	var f fact.SweepFinished
	check(t, json.Unmarshal([]byte(last.Data), &f))
	want(t, "fact", last.Type+" "+f.By+": "+f.Reason, "sweep.finished ada: the month is paid")
}

func TestASlotOfARemovedScheduleIsEnded(t *testing.T) {
	other := keepalive()
	other.Name = "other"
	h := newRig(t, soon(), other)
	noted := fact.PlannedCommand{CommandID: "sweep-1", Proxies: 1, EstimateCents: 300}
	for _, name := range []string{"keepalive", "other"} {
		noted.CommandID = "sweep-" + name
		h.append(t, fact.SweepPlanned{
			Schedule: name, Slot: noon, Plan: "p", Commands: []json.RawMessage{json.RawMessage(`{"id":"sweep-` + name + `"}`)}, Planned: []fact.PlannedCommand{noted},
		})
	}
	reserved, err := h.Ledger.Money.Reserved(t.Context(), noon.Add(-time.Hour))
	check(t, err)
	want(t, "reserved", reserved, int64(600))
	check(t, h.FinishRemoved(t.Context()))
	check(t, h.FinishRemoved(t.Context()))
	left, err := h.Ledger.Sweeps.PlannedSlots(t.Context())
	check(t, err)
	want(t, "of the schedule that is configured", len(left), 1)
	want(t, "schedule", left[0].Schedule, "other")
	reserved, err = h.Ledger.Money.Reserved(t.Context(), noon.Add(-time.Hour))
	check(t, err)
	want(t, "reserved", reserved, int64(300))
	want(t, "published", len(h.stream.raw), 0)
	_, err = h.Ledger.Verify(t.Context())
	check(t, err)
}
