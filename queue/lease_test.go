package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func awaitLost(t testing.TB, lease *Lease) {
	t.Helper()
	select {
	case <-lease.Lost():
	case <-within(t).Done():
		t.Fatal("the holder noticed nothing")
	}
}

func TestOnlyOneRunnerHoldsAnAccountAndTheNextFollows(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	first, err := q.AcquireLease(ctx, "main", "one", time.Second)
	check(t, err)
	var held *LeaseHeldError
	if _, err := q.TryAcquireLease(ctx, "main", "two", time.Second); !errors.As(err, &held) || held.Holder != "one" {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := q.AcquireLease(short, "main", "two", time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	next := make(chan *Lease, 1)
	go func() {
		lease, err := q.AcquireLease(ctx, "main", "two", time.Second)
		if err != nil {
			t.Error(err)
		}
		next <- lease
	}()
	check(t, first.Release(ctx))
	awaitLost(t, first)
	second := <-next
	check(t, second.Release(ctx))
}

func TestAccountOfARunnerThatDiedIsTakenOver(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	dead, err := q.AcquireLease(ctx, "main", "one", time.Second)
	check(t, err)
	dead.stop() // renews no more, and does not release
	<-dead.done
	next, err := q.AcquireLease(ctx, "main", "two", time.Second)
	check(t, err)
	check(t, next.Release(ctx))
}

func TestHolderNoticesThatItsLeaseWasDeleted(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	lease, err := q.AcquireLease(ctx, "main", "one", time.Second)
	check(t, err)
	check(t, lease.bucket.Delete(ctx, "main"))
	awaitLost(t, lease)
	check(t, lease.Release(ctx))
}

func TestHolderCutOffFromTheServerGivesUpInTime(t *testing.T) {
	server := startServer(t, t.TempDir())
	q := connect(t, server)
	lease, err := q.AcquireLease(within(t), "main", "one", time.Second)
	check(t, err)
	server.Shutdown()
	awaitLost(t, lease)
	check(t, lease.Release(within(t)))
}

// A renewal that the server stored and whose answer was lost is the holder's own
// write, and no stranger's.
func TestAHolderKnowsItsOwnWriteWhoseAnswerWasLost(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	lease, err := q.AcquireLease(ctx, "main", "me-1", time.Second)
	check(t, err)
	entry, err := lease.bucket.Get(ctx, "main")
	check(t, err)
	lost, err := lease.bucket.Update(ctx, "main", []byte("me-1"), entry.Revision())
	check(t, err)
	watch, err := lease.bucket.Watch(ctx, "main")
	check(t, err)
	defer func() { check(t, watch.Stop()) }()
	for renewed := false; !renewed; {
		select {
		case e := <-watch.Updates():
			renewed = e != nil && e.Revision() > lost
		case <-lease.Lost():
			t.Fatal("the lease was lost to its own holder")
		}
	}
	check(t, lease.Release(ctx))
	if _, err := lease.bucket.Get(ctx, "main"); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("it was not given back: %v", err)
	}
}

// The first write of the key may lose its answer as well.
func TestAnAccountThatWasTakenWithoutAnAnswerIsOnesOwn(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	bucket, _, err := q.leaseBucket(ctx, time.Second)
	check(t, err)
	first, err := bucket.Create(ctx, "main", []byte("me-1"))
	check(t, err)
	var held *LeaseHeldError
	if _, err := q.TryAcquireLease(ctx, "main", "me-2", time.Second); !errors.As(err, &held) {
		t.Fatal(err)
	}
	lease, err := q.TryAcquireLease(ctx, "main", "me-1", time.Second)
	check(t, err)
	if lease.revision <= first {
		t.Error("the key was not written again: its age counts from the lost answer")
	}
	check(t, lease.Release(ctx))
}

// A process that was stopped for longer than its lease does not know it yet: the
// server does.
func TestAHolderThatWasReplacedSeesItWhenItAsks(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	stopped, err := q.AcquireLease(ctx, "main", "one", time.Second)
	check(t, err)
	check(t, stopped.Confirm(ctx))
	stopped.stop()
	<-stopped.done
	next, err := q.AcquireLease(ctx, "main", "two", time.Second)
	check(t, err)
	if err := stopped.Confirm(ctx); err == nil {
		t.Error("it takes the account for its own")
	}
	check(t, next.Confirm(ctx))
	check(t, next.Release(ctx))
	if err := next.Confirm(ctx); err == nil {
		t.Error("it takes the account for its own although it gave it back")
	}
}
