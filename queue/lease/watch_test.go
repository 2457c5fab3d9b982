// Tests of the watch shared by all waiting runners.

package lease

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
)

// Waiting sends no requests while the holder renews. With many accounts and runners the
// reads of waiting runners were most of the server's load.
func TestWaitingForALeaseAsksTheServerNothing(t *testing.T) {
	t.Parallel()
	const accounts, renewals, ttl = 5, 4, 3 * time.Second
	url := natstest.Serve(t, t.TempDir())
	one, ctx := jstest.Connect(t, url.URL()), natstest.Within(t)
	two := New(jstest.Connect(t, url.URL()), 1)
	var held []*Lease
	for i := range accounts {
		lease, err := New(one, 1).Acquire(ctx, fmt.Sprintf("a%d", i), "one", ttl, Turn{})
		natstest.Check(t, err)
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
		natstest.Receive(t, waiting)
	}
	_, err := one.Conn().Subscribe("$JS.API.STREAM.INFO.KV_"+queue.LeaseBucket, func(*nats.Msg) { asked.Add(1) })
	natstest.Check(t, err)
	natstest.Check(t, one.Conn().Flush())
	for range renewals {
		awaitRenewal(t, held[0]) // and nearly at the same time the others
	}
	if holder := two.Heard("a0"); holder != "one" {
		t.Errorf("%q was heard to hold the lease", holder)
	}
	if n := asked.Load(); n > accounts*renewals/2 {
		t.Errorf("%d requests for the bucket while %d leases were renewed %d times", n, accounts, renewals)
	}
	for _, lease := range held {
		natstest.Check(t, lease.Release(ctx))
	}
	for range accounts {
		natstest.Check(t, natstest.Receive(t, next).Release(ctx))
	}
	if holder := two.Heard("a0"); holder != "" {
		t.Errorf("%q is heard of where nothing listens", holder)
	}
}

// TestAWatchHears reads every key once, also in a recreated bucket, whose revisions begin
// again. A later waiter gets the last key.
func TestAWatchHears(t *testing.T) {
	w := &watch{heard: map[string]heardKey{}, listeners: map[*listener]struct{}{{}: {}}}
	first := w.listen("main")
	for _, revision := range []uint64{7, 7, 8, 2} {
		w.note("main", record{revision: revision, holder: "one"})
		w.note("other", record{revision: revision})
	}
	revisions := func(l *listener) (all []uint64) {
		natstest.Receive(t, l.ready)
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
