package jobs

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheGateServesByUrgencyAndThenByArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRateGate(1)
		if !g.TryPass() || g.TryPass() {
			t.Fatal("one token a second, and not one went through")
		}
		var mu sync.Mutex
		var served []string
		var all sync.WaitGroup
		come := func(name string, p gatePriority) {
			all.Go(func() {
				if err := g.Pass(context.Background(), p); err != nil {
					t.Error(err)
				}
				mu.Lock()
				served = append(served, name)
				mu.Unlock()
			})
			synctest.Wait()
		}
		come("listing", priorityListing)
		come("poll", priorityPoll)
		come("order 1", priorityOrder)
		come("renewal 1", priorityRenewal)
		come("renewal 2", priorityRenewal)
		come("ambiguous", priorityAmbiguous)
		come("order 2", priorityOrder)
		if g.TryPass() {
			t.Error("TryPass passed before those that wait")
		}
		began := time.Now()
		all.Wait()
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("seven passes at one a second took %s", took)
		}
		want := []string{"ambiguous", "renewal 1", "renewal 2", "listing", "order 1", "order 2", "poll"} // every fourth turn is a read's
		if !slices.Equal(served, want) {
			t.Errorf("served %v", served)
		}
	})
}

// Renewals at the full rate once left no turn for listings and wallet reads, without which no
// schedule runs.
func TestReadsHaveAShareOfTheRateHoweverMuchIsPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRateGate(4)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		pass := func(p gatePriority) (turns *atomic.Int64) {
			turns = &atomic.Int64{}
			all.Go(func() {
				for g.Pass(ctx, p) == nil {
					turns.Add(1)
				}
			})
			return turns
		}
		for range 8 {
			pass(priorityAmbiguous)
			pass(priorityRenewal)
		}
		poll, listing := pass(priorityPoll), pass(priorityListing)
		time.Sleep(100 * time.Second)
		stop()
		all.Wait()
		time.Sleep(time.Second)                                         // the gate finds that no caller waits
		if sum := poll.Load() + listing.Load(); sum < 98 || sum > 104 { // the first second is a burst
			t.Errorf("reads had %d of 400 turns", sum)
		}
		if listing.Load() < 48 || poll.Load() < 48 {
			t.Errorf("polls had %d turns, the listing %d", poll.Load(), listing.Load())
		}
	})
}

// Whatever requests arrive or give up, a read passes within readEvery turns of each earlier
// read and itself. All others pass by priority and arrival.
func TestNoDrawOfCallersStarvesARead(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 40))
		synctest.Test(t, func(t *testing.T) {
			g := newRateGate(1)
			g.TryPass()
			open, end := context.WithCancel(t.Context())
			defer time.Sleep(time.Second) // the gate finds that no caller waits
			defer end()
			type caller struct {
				priority gatePriority
				since    int // turns served before it came
				before   int // reads that waited when it came
				leave    context.CancelFunc
			}
			var waiting []*caller
			var all sync.WaitGroup
			served := make(chan *caller, 1)
			reads := func() (n int) {
				for _, c := range waiting {
					if c.priority >= priorityPoll {
						n++
					}
				}
				return n
			}
			for turns := 0; turns < 60 || len(waiting) > 0; {
				for turns < 60 && (len(waiting) == 0 || random.IntN(3) > 0) {
					ctx, leave := context.WithCancel(open)
					c := &caller{gatePriority(random.IntN(int(priorityListing) + 1)), turns, reads(), leave}
					waiting = append(waiting, c)
					all.Go(func() {
						if g.Pass(ctx, c.priority) == nil {
							served <- c
						}
					})
					synctest.Wait()
				}
				if i := random.IntN(len(waiting)); random.IntN(5) == 0 && len(waiting) > 1 {
					waiting[i].leave()
					waiting = slices.Delete(waiting, i, i+1)
					synctest.Wait()
				}
				c := <-served
				c.leave()
				i := slices.Index(waiting, c)
				if took := turns - c.since; c.priority >= priorityPoll && took >= readEvery*(c.before+1) {
					t.Fatalf("seed %d: a read waited for %d turns, with %d reads before it", seed, took, c.before)
				}
				if c.priority < priorityPoll && slices.ContainsFunc(waiting, func(o *caller) bool { return o.priority < c.priority }) {
					t.Fatalf("seed %d: priority %d was served before a more urgent caller", seed, c.priority)
				}
				if c.priority < priorityPoll && slices.ContainsFunc(waiting[:i], func(o *caller) bool { return o.priority == c.priority }) {
					t.Fatalf("seed %d: of priority %d, one that came later was served first", seed, c.priority)
				}
				waiting = slices.Delete(waiting, i, i+1)
				turns++
			}
			all.Wait()
		})
	}
}

func TestWhoeverGivesUpAtTheGateCostsTheOthersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRateGate(1)
		g.TryPass()
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if err := g.Pass(ctx, priorityAmbiguous); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		all.Go(func() {
			if err := g.Pass(context.Background(), priorityListing); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("waited %s behind people who had left", took)
			}
		})
		synctest.Wait()
		cancel()
		all.Wait()
		if err := g.Pass(ctx, priorityAmbiguous); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled caller: %v", err)
		}
	})
}

func TestABurstIsASecondsWorth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRateGate(5)
		began := time.Now()
		for range 15 {
			if err := g.Pass(context.Background(), priorityOrder); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("15 requests at 5 a second took %s", took)
		}
	})
}

// drained counts the requests that the gate passes immediately.
func drained(g *rateGate) (n int) {
	for g.TryPass() {
		n++
	}
	return n
}

func TestATokenGivenBackIsPassedOnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRateGate(2)
		if n := drained(g); n != 2 {
			t.Fatalf("%d went through, of two tokens", n)
		}
		g.GiveBack()
		if n := drained(g); n != 1 {
			t.Fatalf("one token was given back, and %d went through", n)
		}
		g.GiveBack()
		began := time.Now()
		for range 3 {
			if err := g.Pass(t.Context(), priorityPoll); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("one at once and two at two a second took %s", took)
		}
	})
}

func TestTokensGivenBackNeverExceedTheBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRateGate(2)
		for range 2 {
			g.TryPass()
		}
		for range 2 {
			g.GiveBack()
		}
		time.Sleep(time.Minute) // of the bubble: the limiter is full again
		if n := drained(g); n != 2 {
			t.Errorf("%d went through at once, of a burst of 2", n)
		}
	})
}
