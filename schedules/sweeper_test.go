package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/intake"
	"perennial/queue/publish"
	"perennial/queue/streams"
	"perennial/schedules/plans"
)

// soon returns two due proxies of one kind, one that is not due, and one that never expires.
func soon() map[string]string {
	return map[string]string{"px_1": "24h", "px_2": "48h", "px_far": "100h", "px_never": ""}
}

func TestASlotFiredAgainPublishesWhatIsDueOnce(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	h.paid(t, "px_1", 300)
	before, _, err := h.Ledger.Head(t.Context())
	check(t, err)
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	want(t, "state", plan.State, stateFinished)
	want(t, "estimate", plan.EstimateCents, fact.Known(600))
	want(t, "published", h.stream.ids(), []string{"px_1 px_2"})
	want(t, "facts", h.facts(t, before), []string{"sweep.planned", "sweep.finished"})

	h.restart(t)
	_, err = h.fire(t.Context(), h.runners[0], firing{slot: *plan.Slot})
	wantErr(t, err, ErrFired)
	want(t, "published after a restart", len(h.stream.commands), 1)

	// A second run before the commands were accepted publishes the same commands. Its second
	// already has a slot, so it takes the next second.
	again, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	want(t, "slot", again.Slot.Sub(*plan.Slot), time.Second)
	want(t, "second command", h.stream.raw[1], h.stream.raw[0])
}

func TestTrap10ASweepLeavesAloneWhatNeverExpires(t *testing.T) {
	h := newRig(t, map[string]string{"px_never": ""}, keepalive())
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	want(t, "due", plan.Due, 0)
	want(t, "facts", h.facts(t, 0), []string{"sweep.planned", "sweep.finished"})
	want(t, "published", len(h.stream.commands), 0)
}

func TestASweepCutByACrashIsRepublishedUnchanged(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	h.paid(t, "px_1", 300)
	ctx, crash := context.WithCancel(t.Context())
	h.stream.fail = func() error { crash(); return errors.New("no reply") }
	planned, err := h.RunNow(ctx, "keepalive", "ann", "due", nil)
	wantErr(t, err, context.Canceled)
	want(t, "published", len(h.stream.commands), 0)

	h.stream.fail = nil
	h.restart(t)
	_, err = h.resumePlanned(t.Context(), h.runners[0])
	check(t, err)
	want(t, "published", h.stream.raw, []string{string(planned.Commands[0])})
	last, err := h.Ledger.Sweeps.LastSlot(t.Context(), "keepalive")
	check(t, err)
	want(t, "state", last.State, stateFinished)
}

func TestAPlanOverTheApprovalLimitWaitsAndStaysExact(t *testing.T) {
	s := keepalive()
	s.ApproveOverCents = 599
	h := newRig(t, soon(), s)
	h.paid(t, "px_1", 300)
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	want(t, "state", plan.State, StateHeld)
	h.watch.add(time.Minute)
	again, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	want(t, "the plan of a later slot", again.Hash, plan.Hash)
	want(t, "published", len(h.stream.commands), 0)
	all, err := h.List(t.Context())
	check(t, err)
	want(t, "listed plan", all[0].Plan, plan.Hash)

	wantErr(t, h.Approve(t.Context(), "another", "ada", "checked"), ErrNoPlan)
	h.restart(t)
	check(t, h.Approve(t.Context(), plan.Hash, "ada", "checked"))
	want(t, "published", h.stream.raw, []string{string(plan.Commands[0])})
	held, err := h.Ledger.Sweeps.HeldSlots(t.Context(), plan.Hash)
	check(t, err)
	want(t, "still held", len(held), 0)
	wantErr(t, h.Approve(t.Context(), plan.Hash, "ada", "checked"), ErrNoPlan)
}

func TestOverTheBudgetTheAffordableGoesTheRestIsSaid(t *testing.T) {
	s := keepalive()
	s.BudgetCents = 500
	h := newRig(t, soon(), s)
	h.paid(t, "px_2", 300)
	before, _, err := h.Ledger.Head(t.Context())
	check(t, err)
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)
	want(t, "published", h.stream.ids(), []string{"px_1"})
	want(t, "state", plan.State, stateFinished)
	want(t, "facts", h.facts(t, before), []string{"sweep.held", "sweep.planned", "sweep.finished"})
	row, err := h.Ledger.Row(t.Context(), before+1)
	check(t, err)
	var held fact.SweepHeld
	check(t, json.Unmarshal([]byte(row.Data), &held))
	want(t, "shortfall", held.ShortfallCents, int64(100))
	want(t, "lost first", held.FirstLostAt, &plan.Shortfalls[0].FirstLostAt)
	want(t, "left out", held.LeftOut, 1)
}

func TestAClockThatIsWrongSweepsNothing(t *testing.T) {
	for _, away := range []time.Duration{6 * time.Minute, -6 * time.Minute} {
		h := newRig(t, soon(), keepalive())
		h.provided = away
		_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
		wantErr(t, err, errSkew)
		want(t, "facts", len(h.facts(t, 0)), 0)
		h.provided = away / 2
		_, err = h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
		check(t, err)
	}
}

func TestLookingAtAPlanChangesNothing(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	h.paid(t, "px_1", 300)
	before, hash, err := h.Ledger.Head(t.Context())
	check(t, err)
	plan, err := h.PlanNow(t.Context(), "keepalive")
	check(t, err)
	want(t, "included", ids(plan), []string{"px_1", "px_2"})
	after, afterHash, err := h.Ledger.Head(t.Context())
	check(t, err)
	if after != before || afterHash != hash || len(h.stream.commands) != 0 {
		t.Fatal("looking at a plan left a trace")
	}
	_, err = h.PlanNow(t.Context(), "nightly")
	wantErr(t, err, ErrNoSchedule)
	all, err := h.List(t.Context())
	check(t, err)
	want(t, "next slot", *all[0].NextSlot, noon.Add(15*time.Minute))
	if all[0].LastSlot != nil || all[0].State != "" {
		t.Fatalf("a slot before the first one: %+v", all[0])
	}
}

func TestASweepGoesThroughTheFrontDoor(t *testing.T) {
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	check(t, err)
	t.Cleanup(server.Shutdown)
	q, err := queue.Connect(queue.ConnectConfig{Embedded: server})
	check(t, err)
	t.Cleanup(q.Close)
	check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(t.Context(), q.JetStream()))
	s := keepalive()
	s.Chunk = 1
	h := newRig(t, soon(), s)
	h.Publisher = publish.New(q.JetStream())
	h.paid(t, "px_1", 300)
	plan, err := h.RunNow(t.Context(), "keepalive", "ann", "due", nil)
	check(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	intake, err := intake.Open(ctx, q.JetStream(), "main")
	check(t, err)
	t.Cleanup(intake.Close)
	var got []string
	for len(got) < 2 {
		messages, err := intake.Fetch(ctx, queue.Line{Kind: queue.KindProxyRenew, Priority: queue.PriorityBulk}, 2)
		check(t, err)
		for _, m := range messages {
			want(t, "kind", m.Kind, queue.KindProxyRenew)
			got = append(got, string(m.Data))
			check(t, m.Ack())
		}
	}
	want(t, "commands", got, []string{string(plan.Commands[0]), string(plan.Commands[1])})
}

func TestASweeperRefusesSchedulesThatAreNotItsOwn(t *testing.T) {
	h := newRig(t, nil)
	for _, schedules := range [][]plans.Schedule{
		{keepalive(), keepalive()},
		{{Name: "x", Account: "other", Cron: "@daily", RenewBefore: time.Hour, DurationDays: 30}},
		{{Name: "x", Account: "main", Cron: "@daily", RenewBefore: 31 * fact.Day, DurationDays: 30}},
	} {
		c := h.config
		c.Schedules = schedules
		if _, err := New(c); err == nil {
			t.Errorf("%+v is accepted", schedules)
		}
	}
}

// A page that is sent twice would spend a whole budget twice.
func TestARunIsRefusedIfAnotherWasMadeSince(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	run := func(after time.Time) error {
		_, err := h.RunNow(t.Context(), "keepalive", "ann", "due", &after)
		return err
	}
	check(t, run(time.Time{}))
	refused := func(err error) bool { _, ok := errors.AsType[*command.RefusedError](err); return ok }
	if err := run(time.Time{}); !refused(err) {
		t.Errorf("of a page from before the first run: %v", err)
	}
	last, err := h.Ledger.Sweeps.LastSlot(t.Context(), "keepalive")
	check(t, err)
	h.watch.add(time.Second)
	check(t, run(last.At))
	if err := run(last.At); !refused(err) {
		t.Errorf("sent twice: %v", err)
	}
}
