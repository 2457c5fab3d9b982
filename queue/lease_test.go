package queue

import (
	"context"
	"errors"
	"testing"
	"time"
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
