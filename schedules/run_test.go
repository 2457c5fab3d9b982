package schedules

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// bench is a sweeper whose clock is the synctest bubble's. A restart may advance the clock.
type bench struct {
	*Sweeper
	t      *testing.T
	config Config
	away   time.Duration
	stream *stream
	stop   context.CancelFunc
	done   chan error
}

// inBubble runs a test with a bench whose proxies expire after the given durations.
func inBubble(t *testing.T, schedule plans.Schedule, proxies map[string]time.Duration, test func(*testing.T, *bench), change ...func(*testing.T, *Config)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, stream: &stream{arrived: make(chan struct{})}}
		clock := func() time.Time { return time.Now().Add(b.away) }
		l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(t.TempDir(), "main.ledger.db"), Clock: clock})
		check(t, err)
		began := clock()
		b.config = Config{
			Account: "main", Ledger: l, Clock: clock, Publisher: b.stream, Schedules: []plans.Schedule{schedule},
			Provider: fake(func(upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
				var page upstream.Page[upstream.Proxy]
				for id, in := range proxies {
					expires := began.Add(in)
					page.Items = append(page.Items, upstream.Proxy{ProxyID: id, CountryCode: "US", ExpiresAt: &expires})
				}
				return page, nil
			}),
		}
		for _, f := range change {
			f(t, &b.config)
		}
		b.start()
		test(t, b)
		b.end()
		check(t, l.Close())
	})
}

const plannedInBubbles = 1000

func fewPlanned(t *testing.T) context.Context {
	return failpoint.WithSize(t.Context(), "plan.most", plannedInBubbles)
}

func (b *bench) start() {
	var err error
	b.Sweeper, err = New(b.config)
	check(b.t, err)
	var ctx context.Context
	ctx, b.stop = context.WithCancel(fewPlanned(b.t))
	b.done = make(chan error, 1)
	go func() { b.done <- b.Run(ctx) }()
}

func (b *bench) end() {
	b.stop()
	wantErr(b.t, <-b.done, context.Canceled)
}

func (b *bench) slots(limit int) []tables.Slot {
	b.t.Helper()
	slots, err := b.Ledger.Sweeps.SlotsOf(b.t.Context(), "keepalive", limit)
	check(b.t, err)
	return slots
}

func TestSlotsFireAtTheirTimeOneAfterTheOther(t *testing.T) {
	inBubble(t, keepalive(), map[string]time.Duration{"px_1": time.Hour}, func(t *testing.T, b *bench) {
		began := time.Now()
		for n := 1; n <= 3; n++ {
			<-b.stream.arrived
			slot := began.Add(time.Duration(n) * 15 * time.Minute)
			want(t, "fired at", time.Now(), b.runners[0].calendar.Start(slot))
		}
		synctest.Wait()
		slots := b.slots(10)
		want(t, "slots", len(slots), 3)
		for _, s := range slots {
			want(t, "state", s.State, stateFinished)
		}
	})
}

func TestSlotsMissedWhileDownAreRunOnceTogetherAndReported(t *testing.T) {
	inBubble(t, keepalive(), map[string]time.Duration{"px_1": 10 * time.Hour}, func(t *testing.T, b *bench) {
		<-b.stream.arrived
		synctest.Wait()
		b.end()
		b.away = time.Hour // down for an hour: four slots pass
		b.start()
		<-b.stream.arrived
		synctest.Wait()
		slots := b.slots(10)
		states := []string{}
		for _, s := range slots {
			states = append(states, s.State)
		}
		want(t, "states, the newest first", states, []string{stateFinished, "missed", "missed", "missed", stateFinished})
		planned, err := b.Ledger.Sweeps.Plan(t.Context(), slots[0])
		check(t, err)
		want(t, "served slots", len(planned.Missed), 3)
	})
}

func TestCommandsArePublishedAgainUntilTheyAreOnTheStream(t *testing.T) {
	tries := 0
	inBubble(t, keepalive(), map[string]time.Duration{"px_1": time.Hour}, func(t *testing.T, b *bench) {
		b.stream.mu.Lock()
		b.stream.fail = func() error {
			if tries++; tries < 4 {
				return errors.New("not connected")
			}
			return nil
		}
		b.stream.mu.Unlock()
		<-b.stream.arrived
		synctest.Wait()
		want(t, "tries", tries, 4)
		want(t, "state", b.slots(1)[0].State, stateFinished)
	})
}

func TestASweepGoesOnOnceItsCanaryHasAPrice(t *testing.T) {
	daily := keepalive()
	daily.Cron = "@daily"
	inBubble(t, daily, map[string]time.Duration{"px_1": 30 * time.Hour, "px_2": 31 * time.Hour, "px_3": 32 * time.Hour}, func(t *testing.T, b *bench) {
		<-b.stream.arrived
		want(t, "canary", b.stream.ids(), []string{"px_1"})
		canary := time.Now()
		renewal(t, b.Ledger, 1, "px_1", "succeeded", 300, b.stream.commands[0].ExpectExpiresAt["px_1"])
		<-b.stream.arrived
		want(t, "published", b.stream.ids(), []string{"px_1", "px_2 px_3"})
		if waited := time.Since(canary); waited > remainderEvery+time.Second {
			t.Fatalf("the rest waited for %s", waited)
		}
		synctest.Wait()
		slots := b.slots(2)
		rest, err := b.Ledger.Sweeps.SlotResult(t.Context(), slots[0])
		check(t, err)
		first, err := b.Ledger.Sweeps.SlotResult(t.Context(), slots[1])
		check(t, err)
		want(t, "the first continues none", first.Continues, nil)
		want(t, "the rest continues the first", rest.Continues, &slots[1].At)
		want(t, "why", rest.Why(), "continues the run of "+slots[1].At.Format(time.RFC3339))
		runs, err := Runs(t.Context(), b.Ledger, "keepalive", 2)
		check(t, err)
		want(t, "plan", runs[0].Plan(), slots[1].Plan)
	})
}

func TestTheBudgetIsOfTheWholeSweepItsCanaryIncluded(t *testing.T) {
	daily := keepalive()
	daily.Cron, daily.BudgetCents = "@daily", 600
	inBubble(t, daily, map[string]time.Duration{"px_1": 30 * time.Hour, "px_2": 31 * time.Hour, "px_3": 32 * time.Hour}, func(t *testing.T, b *bench) {
		<-b.stream.arrived
		renewal(t, b.Ledger, 1, "px_1", "succeeded", 300, b.stream.commands[0].ExpectExpiresAt["px_1"])
		<-b.stream.arrived
		want(t, "published", b.stream.ids(), []string{"px_1", "px_2"})
	})
}

func TestAFullPlanGoesOnBeforeTheNextSlot(t *testing.T) {
	full := sweep{Made: plans.Made{Plan: plans.Plan{
		State: stateFinished, EstimateCents: fact.Known(300), LeftOutCounts: map[string]int{plans.ReasonBeyond: 1}, Left: &fact.SweepLeft{Proxies: 1},
		Included: []plans.Included{{ProxyID: "px_1", EstimateCents: fact.Known(300)}},
	}}}
	rest := full.remainder(remainder{taken: map[string]bool{"px_0": true}, spent: 200})
	want(t, "taken", rest.taken, map[string]bool{"px_0": true, "px_1": true})
	want(t, "spent", rest.spent, int64(500))
	full.State = StateHeld
	if !rest.more || full.remainder(remainder{}) != nil {
		t.Fatal("a full plan does not go on, or a held one does")
	}
}

func TestAClockSetBackDoesNotFireASlotTwice(t *testing.T) {
	inBubble(t, keepalive(), map[string]time.Duration{"px_1": 50 * time.Hour}, func(t *testing.T, b *bench) {
		<-b.stream.arrived
		synctest.Wait()
		fired := b.slots(1)[0].At
		b.end()
		b.away = -20 * time.Minute
		b.start()
		<-b.stream.arrived
		synctest.Wait()
		want(t, "the next slot to fire", b.slots(1)[0].At, fired.Add(15*time.Minute))
		want(t, "slots", len(b.slots(10)), 2)
	})
}

// A process may be stopped between any two readings of the clock.
func TestASlotBetweenTwoReadingsOfTheClockFires(t *testing.T) {
	for still := 2; still <= 4; still++ {
		synctest.Test(t, func(t *testing.T) {
			var away, readings atomic.Int64
			away.Store(int64(15*time.Minute - time.Second))
			clock := func() time.Time { return time.Now().Add(time.Duration(away.Load())) }
			l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(t.TempDir(), "main.ledger.db"), Clock: clock})
			check(t, err)
			s, err := New(Config{
				Account: "main", Ledger: l, Publisher: &stream{}, Schedules: []plans.Schedule{keepalive()}, ProviderTime: clock,
				Provider: fake(func(upstream.PageRequest) (page upstream.Page[upstream.Proxy], err error) { return page, nil }),
				Clock: func() time.Time {
					if readings.Add(1) == int64(still) {
						away.Add(int64(2 * time.Second))
					}
					return clock()
				},
			})
			check(t, err)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			wantErr(t, s.follow(ctx, s.runners[0]), context.DeadlineExceeded)
			slots, err := l.Sweeps.SlotsOf(t.Context(), "keepalive", 10)
			check(t, errors.Join(err, l.Close()))
			want(t, fmt.Sprintf("slots where it stood still before reading %d", still), len(slots), 1)
		})
	}
}

// Two sweepers with the same ledger run one slot at the same time.
func TestTwoRunnersFireASlotOnce(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	h.paid(t, "px_1", 300)
	check(t, h.lister.WaitPass(t.Context()))
	other, err := New(h.config)
	check(t, err)
	ended := make(chan error, 2)
	for _, s := range []*Sweeper{h.Sweeper, other} {
		go func() {
			_, err := s.fire(t.Context(), s.runners[0], firing{slot: noon, byHand: true})
			ended <- err
		}()
	}
	first, second := <-ended, <-ended
	if first == nil {
		first, second = second, first
	}
	wantErr(t, first, ErrFired)
	check(t, second)
	// The other sweeper may have found the slot planned, and published the same commands again.
	want(t, "published", slices.Compact(h.stream.raw), h.stream.raw[:1])
}
