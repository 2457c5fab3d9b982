package lease

import (
	"testing"
	"time"

	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
)

// The other runner gets the account meanwhile. If none comes, the account is taken after a
// fifth of the time to live.
func TestAFreeAccountIsLeftToAnotherRunnerForAWhile(t *testing.T) {
	t.Parallel()
	js := jstest.New(t)
	ctx := natstest.Within(t)
	waits, got := make(chan struct{}, 64), make(chan *Lease, 1)
	leave := Turn{Yields: func() bool { return true }, Waits: func() { waits <- struct{}{} }}
	contend := func() {
		lease, err := New(js, 1).Acquire(ctx, "main", "two", longLease, leave)
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}
	go contend()
	natstest.Receive(t, waits)
	preferred, err := New(js, 1).TryAcquire(ctx, "main", "one", longLease)
	natstest.Check(t, err)
	natstest.Receive(t, waits) // it has seen that the account is held: its time begins again at the release
	free := time.Now()         // before the release: the contender may learn of it before this goroutine continues
	natstest.Check(t, preferred.Release(ctx))
	lease := natstest.Receive(t, got)
	if waited := time.Since(free); waited < yieldTime(longLease) {
		t.Errorf("it was left to another runner for %s", waited)
	}
	natstest.Check(t, lease.Release(ctx))
}

// A preferred runner takes an account as soon as it sees it without a holder.
func TestARunnerThatIsPreferredWaitsForNobody(t *testing.T) {
	js := jstest.New(t)
	ctx := natstest.Within(t)
	const ttl = 30 * time.Second // no key is renewed or expires meanwhile
	held, err := New(js, 1).Acquire(ctx, "main", "one", ttl, Turn{})
	natstest.Check(t, err)
	waits, got := make(chan struct{}, 64), make(chan *Lease, 1)
	go func() {
		lease, err := New(js, 1).Acquire(ctx, "main", "two", ttl, Turn{Yields: func() bool { return false }, Waits: func() { waits <- struct{}{} }})
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	natstest.Receive(t, waits)
	natstest.Check(t, held.Release(ctx))
	lease := natstest.Receive(t, got)
	if more := len(waits); more != 0 {
		t.Errorf("it waited %d times for an account that was free", more)
	}
	natstest.Check(t, lease.Release(ctx))
}
