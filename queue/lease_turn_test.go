package queue

import (
	"testing"
	"time"
)

// TestAFreeAccountIsLeftToAnotherRunnerForAWhile: the other one gets it meanwhile; where
// none comes, it is taken all the same, behind a fifth of the time to live.
func TestAFreeAccountIsLeftToAnotherRunnerForAWhile(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	waits, got := make(chan struct{}, 64), make(chan *Lease, 1)
	leave := Turn{Yields: func() bool { return true }, Waits: func() { waits <- struct{}{} }}
	contend := func() {
		lease, err := q.AcquireLeaseInTurn(ctx, "main", "two", time.Second, leave)
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}
	go contend()
	receive(t, waits)
	preferred, err := q.TryAcquireLease(ctx, "main", "one", time.Second)
	check(t, err)
	check(t, preferred.Release(ctx))
	free := time.Now()
	lease := receive(t, got)
	if waited := time.Since(free); waited < yieldTime(time.Second) {
		t.Errorf("it was left to another runner for %s", waited)
	}
	check(t, lease.Release(ctx))
}

// TestARunnerThatIsPreferredWaitsForNobody: an account given back is had at once, and so is
// one whose holder is gone when its time is over.
func TestARunnerThatIsPreferredWaitsForNobody(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	const ttl = 4 * time.Second
	dead, err := q.AcquireLease(ctx, "main", "one", ttl)
	check(t, err)
	dead.stop()
	receive(t, dead.done)
	died := time.Now()
	lease, err := q.AcquireLeaseInTurn(ctx, "main", "two", ttl, Turn{Yields: func() bool { return false }})
	check(t, err)
	if waited := time.Since(died); waited > ttl+ttl/5 {
		t.Errorf("it had the account %s behind the last renewal", waited)
	}
	check(t, lease.Release(ctx))
}
