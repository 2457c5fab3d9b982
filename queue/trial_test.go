package queue

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestATrialRemovesItsAccountAlone: another account that came meanwhile keeps all of its
// own, and the bucket that both use.
func TestATrialRemovesItsAccountAlone(t *testing.T) {
	t.Parallel()
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	trial, err := q.NewTrial(ctx, "trial")
	check(t, err)
	for _, account := range []string{"trial", "main"} {
		check(t, q.EnsureStreams(ctx, account, 1))
		lease, err := NewLeases(q.JetStream(), 1).TryAcquire(ctx, account, "runner of "+account, 10*time.Second)
		check(t, err)
		t.Cleanup(func() { _ = lease.Release(within(t)) })
	}
	if _, err := q.NewTrial(ctx, "main"); !isOccupied(err, 4) {
		t.Errorf("an account that is there: %v", err)
	}
	check(t, trial.End(ctx))
	if holder, err := LeaseHolder(ctx, q.JetStream(), "trial"); holder != "" || err != nil {
		t.Errorf("lease of %q, %v", holder, err)
	}
	if holder, err := LeaseHolder(ctx, q.JetStream(), "main"); holder == "" || err != nil {
		t.Errorf("the other's lease is gone: %v", err)
	}
	check(t, q.CheckStreams(ctx, "main", 1, true))
	_, err = q.NewTrial(ctx, "trial")
	check(t, err) // nothing of it is left
}

// TestATrialRemovesTheBucketsThatCameWithIt: else a server would keep them for good.
func TestATrialRemovesTheBucketsThatCameWithIt(t *testing.T) {
	t.Parallel()
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	trial, err := q.NewTrial(ctx, "trial")
	check(t, err)
	lease, err := NewLeases(q.JetStream(), 1).TryAcquire(ctx, "trial", "n", 10*time.Second)
	check(t, err)
	check(t, lease.Release(ctx))
	check(t, trial.End(ctx))
	if _, err := q.js.Stream(ctx, "KV_"+LeaseBucket); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the bucket of leases: %v", err)
	}
	check(t, trial.End(ctx)) // again, as behind an end that was cut short
}

func isOccupied(err error, found int) bool {
	occupied, ok := errors.AsType[*OccupiedError](err)
	return ok && len(occupied.Found) == found
}
