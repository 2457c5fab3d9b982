package schedules

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

func TestAPausedScheduleFiresNothingUntilItIsResumed(t *testing.T) {
	hourly := keepalive()
	hourly.Cron = "0 * * * *"
	inBubble(t, hourly, map[string]time.Duration{"px_1": 200 * time.Hour, "px_2": 30 * time.Hour}, func(t *testing.T, b *bench) {
		<-b.stream.arrived
		synctest.Wait()
		b.stream.arrived = nil
		began, fired := time.Now(), len(b.slots(100))
		check(t, b.Pause(t.Context(), "keepalive", nil, "ada", "prices change"))
		time.Sleep(3 * time.Hour)
		b.end()
		b.start() // a restart keeps the pause
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		want(t, "slots", len(b.slots(100)), fired)
		list, err := b.List(t.Context())
		check(t, err)
		want(t, "paused by", list[0].Paused.By+", "+list[0].Paused.Reason, "ada, prices change")
		want(t, "paused since", list[0].Paused.Since.UTC(), began.UTC())
		if list[0].NextSlot != nil {
			t.Errorf("it fires at %s", list[0].NextSlot)
		}
		want(t, "failing", len(b.Failing()), 0)

		check(t, b.Resume(t.Context(), "keepalive", "bob", "prices are known"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		slots := b.slots(100)
		want(t, "slots of the pause", len(slots)-fired, 6)
		want(t, "the one that served them", slots[0].State, stateFinished)
		for _, s := range slots[1:6] {
			want(t, "the others", s.State, "missed")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		want(t, "and on", len(b.slots(100))-fired, 7)
	})
}

func TestAPauseEndsByItsTime(t *testing.T) {
	inBubble(t, keepalive(), map[string]time.Duration{"px_1": time.Hour}, func(t *testing.T, b *bench) {
		b.stream.arrived = nil
		until := time.Now().Add(50 * time.Minute)
		check(t, b.Pause(t.Context(), "keepalive", &until, "ada", "a quiet hour"))
		list, err := b.List(t.Context())
		check(t, err)
		want(t, "fires next", list[0].NextSlot.UTC(), until.UTC())
		time.Sleep(49 * time.Minute)
		synctest.Wait()
		want(t, "slots before its end", len(b.slots(10)), 0)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want(t, "slots behind it", len(b.slots(10)), 3)
		rows, err := b.Ledger.Rows(t.Context(), 0, 100)
		check(t, err)
		resumed := slices.IndexFunc(rows, func(r chain.Row) bool { return r.Type == "schedule.resumed" })
		f, err := fact.Decode(rows[resumed].Type, []byte(rows[resumed].Data))
		check(t, err)
		want[fact.Fact](t, "resumed", f, fact.ScheduleResumed{Schedule: "keepalive", Reason: "the time of its pause is over"})
		if paused, err := b.PauseOf(t.Context(), "keepalive"); err != nil || paused != nil {
			t.Errorf("paused: %+v, %v", paused, err)
		}
	})
}

// On a large account, a run waits minutes for its listing.
func TestAPauseDuringASweepKeepsItFromBeingPlanned(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	h.paid(t, "px_1", 300)
	h.config.Pass = func(ctx context.Context) error {
		return h.Pause(ctx, "keepalive", nil, "ada", "now")
	}
	h.restart(t)
	_, err := h.fire(t.Context(), h.runners[0], firing{slot: noon})
	wantErr(t, err, errPaused)
	want(t, "published", len(h.stream.commands), 0)
	h.runners[0].leave(&remainder{began: noon, more: true})
	check(t, h.sweepRemainder(t.Context(), h.runners[0]))
	want(t, "published of a rest", len(h.stream.commands), 0)
	want(t, "failing", len(h.Failing()), 0)

	_, err = h.RunNow(t.Context(), "keepalive", "ann", "these now", nil)
	check(t, err)
	want(t, "published for a person", len(h.stream.commands), 1)
}

func TestAPauseThatCannotBeIsRefused(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	past, far := noon.Add(-time.Second), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for what, err := range map[string]error{
		"an instant that is over": h.Pause(t.Context(), "keepalive", &past, "ada", "x"),
		"the year 10000":          h.Pause(t.Context(), "keepalive", &far, "ada", "x"),
		"not paused":              h.Resume(t.Context(), "keepalive", "ada", "x"),
	} {
		if _, refused := errors.AsType[*command.RefusedError](err); !refused {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantErr(t, h.Pause(t.Context(), "keepalife", nil, "ada", "x"), ErrNoSchedule)
	wantErr(t, h.Resume(t.Context(), "keepalife", "ada", "x"), ErrNoSchedule)

	// A paused schedule that is no longer configured can still be resumed.
	check(t, h.Pause(t.Context(), "keepalive", nil, "ada", "x"))
	h.config.Schedules = nil
	h.restart(t)
	check(t, h.Resume(t.Context(), "keepalive", "ada", "it is gone"))
	_, err := h.Ledger.Sweeps.SchedulePaused(t.Context(), "keepalive")
	wantErr(t, err, ledger.ErrNotFound)
}
