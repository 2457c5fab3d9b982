// Tests of hearing leases: one watch for all that wait.

package queue

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestWaitingForALeaseAsksTheServerNothing while its holder renews it: with many accounts
// and runners the looks of those that wait were most of what the server had to answer.
func TestWaitingForALeaseAsksTheServerNothing(t *testing.T) {
	t.Parallel()
	const accounts, renewals, ttl = 5, 4, 3 * time.Second
	url := startServer(t, t.TempDir())
	one, ctx := connect(t, url), within(t)
	two := NewLeases(connect(t, url).JetStream(), 1)
	var held []*Lease
	for i := range accounts {
		lease, err := NewLeases(one.JetStream(), 1).Acquire(ctx, fmt.Sprintf("a%d", i), "one", ttl, Turn{})
		check(t, err)
		held = append(held, lease)
	}
	var asked atomic.Int64
	waiting, next := make(chan struct{}, accounts), make(chan *Lease, accounts)
	for i := range accounts {
		go func() {
			lease, err := two.Acquire(ctx, fmt.Sprintf("a%d", i), "two", ttl, Turn{Waits: func() { waiting <- struct{}{} }})
			if err != nil {
				t.Error(err)
			}
			next <- lease
		}()
	}
	for range accounts {
		receive(t, waiting)
	}
	_, err := one.nc.Subscribe("$JS.API.STREAM.INFO.KV_"+LeaseBucket, func(*nats.Msg) { asked.Add(1) })
	check(t, err)
	check(t, one.nc.Flush())
	for range renewals {
		awaitRenewal(t, held[0]) // and with it, near enough, of the others
	}
	if holder := two.Heard("a0"); holder != "one" {
		t.Errorf("%q was heard to hold the lease", holder)
	}
	if n := asked.Load(); n > accounts*renewals/2 {
		t.Errorf("%d requests for the bucket while %d leases were renewed %d times", n, accounts, renewals)
	}
	for _, lease := range held {
		check(t, lease.Release(ctx))
	}
	for range accounts {
		check(t, receive(t, next).Release(ctx))
	}
	if holder := two.Heard("a0"); holder != "" {
		t.Errorf("%q is heard of where nothing listens", holder)
	}
}

// TestAWatchHears every key once, also of a bucket that was made anew, whose revisions
// begin again; a waiter that comes later hears the last one.
func TestAWatchHears(t *testing.T) {
	w := &leaseWatch{heard: map[string]heardKey{}, listeners: map[*leaseListener]struct{}{{}: {}}}
	first := w.listen("main")
	for _, revision := range []uint64{7, 7, 8, 2} {
		w.note("main", leaseKey{revision: revision, holder: "one"})
		w.note("other", leaseKey{revision: revision})
	}
	revisions := func(l *leaseListener) (all []uint64) {
		receive(t, l.ready)
		for _, key := range w.take(l) {
			all = append(all, key.revision)
		}
		return all
	}
	if heard := revisions(first); !slices.Equal(heard, []uint64{7, 8, 2}) {
		t.Errorf("heard %d", heard)
	}
	if heard := revisions(w.listen("main")); !slices.Equal(heard, []uint64{2}) {
		t.Errorf("a later waiter heard %d", heard)
	}
}
