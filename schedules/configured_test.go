package schedules

import (
	"testing"
	"testing/synctest"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

// daily returns a schedule with one slot a day, at 03:00.
func daily() plans.Schedule {
	s := keepalive()
	s.Cron = "0 3 * * *"
	return s
}

// states returns the states of the schedule's slots, newest first.
func (b *bench) states() (all []string) {
	b.t.Helper()
	slots, err := b.Ledger.Sweeps.SlotsOf(b.t.Context(), b.config.Schedules[0].Name, 100)
	check(b.t, err)
	for _, s := range slots {
		all = append(all, s.At.UTC().Format("02 15:04 ")+s.State)
	}
	return all
}

// downFor restarts the runner with another configuration, after d without a runner.
func (b *bench) downFor(d time.Duration, change func(*plans.Schedule)) {
	b.t.Helper()
	b.end()
	b.away += d
	next := b.config.Schedules[0]
	change(&next)
	b.config.Schedules = []plans.Schedule{next}
	b.start()
	time.Sleep(2 * plans.MaxJitter)
	synctest.Wait()
}

// configurations returns the journal's schedule.configured facts.
func (b *bench) configurations() (all []fact.ScheduleConfigured) {
	b.t.Helper()
	rows, err := b.Ledger.Rows(b.t.Context(), 0, 1000)
	check(b.t, err)
	for _, r := range rows {
		f, err := fact.Decode(r.Type, []byte(r.Data))
		check(b.t, err)
		if f, ok := f.(fact.ScheduleConfigured); ok {
			all = append(all, f)
		}
	}
	return all
}

func unchanged(*plans.Schedule) {}

// The time in a synctest bubble begins on 2000-01-01 at midnight.
func TestANewScheduleCatchesUpFromItsFirstStart(t *testing.T) {
	inBubble(t, daily(), map[string]time.Duration{"px_1": 30 * fact.Day}, func(t *testing.T, b *bench) {
		synctest.Wait()
		want(t, "slots before its first start", b.states(), nil)
		silent := func(after time.Duration) string {
			said, err := Silent(t.Context(), b.Ledger, b.Clock().Add(after), b.config.Schedules[0])
			check(t, err)
			return said
		}
		want(t, "silent before its slot", silent(3*time.Hour), "")
		want(t, "silent after it", silent(29*time.Hour), "no run was made since 2000-01-01T00:00:00Z, and 2 scheduled times have passed")
		until := b.Clock().Add(time.Hour)
		pause := func(until *time.Time) {
			check(t, b.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
				return tx.Append(fact.SchedulePaused{Schedule: "keepalive", Until: until, By: "ada", Reason: "x"})
			}))
		}
		pause(nil)
		want(t, "silent while it is paused", silent(29*time.Hour), "")
		pause(&until)
		want(t, "silent after its pause", silent(29*time.Hour), "no run was made since "+until.UTC().Format(time.RFC3339)+", and 2 scheduled times have passed")
		check(t, b.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Append(fact.ScheduleResumed{Schedule: "keepalive", By: "ada", Reason: "x"})
		}))
		b.downFor(5*time.Hour, unchanged)
		want(t, "silent behind it", silent(0), "")
		want(t, "the slot that passed while nothing ran", b.states(), []string{"01 03:00 finished"})
		b.downFor(24*time.Hour, unchanged)
		want(t, "one fact", len(b.configurations()), 1)
		want(t, "slots", len(b.states()), 2)
	})
}

func TestAMovedCronCatchesUpFromTheMove(t *testing.T) {
	inBubble(t, daily(), map[string]time.Duration{"px_1": 30 * fact.Day}, func(t *testing.T, b *bench) {
		time.Sleep(4 * time.Hour)
		want(t, "slots", b.states(), []string{"01 03:00 finished"})
		b.downFor(6*time.Hour, func(s *plans.Schedule) { s.Cron = "0 9 * * *" }) // 10:00
		want(t, "slots before the move", b.states(), []string{"01 03:00 finished"})
		b.downFor(24*time.Hour, unchanged)
		want(t, "slots after it", b.states(), []string{"02 09:00 finished", "01 03:00 finished"})
		b.downFor(time.Hour, func(s *plans.Schedule) { s.Timezone = "Asia/Tokyo" }) // 11:01, and 09:00 there is 00:00
		b.downFor(14*time.Hour, unchanged)
		want(t, "slots of the other zone", b.states()[0], "03 00:00 finished")
		want(t, "facts", len(b.configurations()), 3)
	})
}

// A new cron does not lose the slots that the old cron missed while no runner ran.
func TestAMovedCronServesWhatTheOldOneMissed(t *testing.T) {
	inBubble(t, daily(), map[string]time.Duration{"px_1": 30 * fact.Day}, func(t *testing.T, b *bench) {
		time.Sleep(4 * time.Hour)
		b.downFor(30*time.Hour, func(s *plans.Schedule) { s.Cron = "0 5 * * *" }) // the 2nd, 10:00
		want(t, "slots", b.states(), []string{"02 05:00 finished", "01 05:00 missed", "01 03:00 finished"})
	})
}

// The ledger has no schedule.configured fact, because an older version wrote it.
func TestAScheduleOfAnOlderLedgerCountsFromItsLastSlot(t *testing.T) {
	h := newRig(t, nil, daily())
	slot := noon.Add(-57 * time.Hour)
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.SweepPlanned{Schedule: "keepalive", Slot: slot, Plan: "p"}, fact.SweepFinished{Schedule: "keepalive", Slot: slot, Plan: "p"})
	}))
	last, err := h.resumePlanned(t.Context(), h.runners[0])
	check(t, err)
	want(t, "last", last, slot)
}

// A clock that was ahead at the first start must not stop the schedule's runs.
func TestAClockThatWasAheadAtTheFirstStartIsForgotten(t *testing.T) {
	h := newRig(t, nil, daily())
	h.watch.add(365 * fact.Day)
	_, err := h.resumePlanned(t.Context(), h.runners[0])
	check(t, err)
	h.watch.add(-365 * fact.Day)
	last, err := h.resumePlanned(t.Context(), h.runners[0])
	check(t, err)
	want(t, "last", last, noon)
}
