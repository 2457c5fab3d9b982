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
	one, two, ctx := connect(t, url), connect(t, url), within(t)
	var held []*Lease
	for i := range accounts {
		lease, err := one.AcquireLease(ctx, fmt.Sprintf("a%d", i), "one", ttl)
		check(t, err)
		held = append(held, lease)
	}
	var asked atomic.Int64
	waiting, next := make(chan struct{}, accounts), make(chan *Lease, accounts)
	for i := range accounts {
		go func() {
			lease, err := two.AcquireLeaseInTurn(ctx, fmt.Sprintf("a%d", i), "two", ttl, Turn{Waits: func() { waiting <- struct{}{} }})
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
	if holder := two.HeardHolder("a0"); holder != "one" {
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
	if holder := two.HeardHolder("a0"); holder != "" {
		t.Errorf("%q is heard of where nothing listens", holder)
	}
}

// TestAWatchHears every key once, also of a bucket that was made anew, whose revisions
// begin again; a waiter that comes later hears the last one.
func TestAWatchHears(t *testing.T) {
	q := &Queue{leases: leaseWatch{heard: map[string]heardKey{}, listeners: map[*leaseListener]struct{}{{}: {}}}}
	first := q.listenToLease("main")
	for _, revision := range []uint64{7, 7, 8, 2} {
		q.leases.note("main", leaseKey{revision: revision, holder: "one"})
		q.leases.note("other", leaseKey{revision: revision})
	}
	revisions := func(l *leaseListener) (all []uint64) {
		receive(t, l.ready)
		for _, key := range q.leases.take(l) {
			all = append(all, key.revision)
		}
		return all
	}
	if heard := revisions(first); !slices.Equal(heard, []uint64{7, 8, 2}) {
		t.Errorf("heard %d", heard)
	}
	if heard := revisions(q.listenToLease("main")); !slices.Equal(heard, []uint64{2}) {
		t.Errorf("a later waiter heard %d", heard)
	}
}
