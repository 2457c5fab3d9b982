package trial

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/lease"
	"perennial/queue/natstest"
	"perennial/queue/streams"
)

// Another account that was added in the meantime keeps its streams and buckets, and the shared
// bucket.
func TestATrialRemovesItsAccountAlone(t *testing.T) {
	t.Parallel()
	q := connect(t)
	ctx := natstest.Within(t)
	begun, err := Begin(ctx, q.JetStream(), "trial")
	natstest.Check(t, err)
	for _, account := range []string{"trial", "main"} {
		natstest.Check(t, streams.Wanted{Account: account, Replicas: 1}.Ensure(ctx, q.JetStream()))
		taken, err := lease.New(q.JetStream(), 1).TryAcquire(ctx, account, "runner of "+account, 10*time.Second)
		natstest.Check(t, err)
		t.Cleanup(func() { _ = taken.Release(natstest.Within(t)) })
	}
	if _, err := Begin(ctx, q.JetStream(), "main"); !isOccupied(err, 4) {
		t.Errorf("an account that is there: %v", err)
	}
	natstest.Check(t, begun.End(ctx))
	if holder, err := lease.Holder(ctx, q.JetStream(), "trial"); holder != "" || err != nil {
		t.Errorf("lease of %q, %v", holder, err)
	}
	if holder, err := lease.Holder(ctx, q.JetStream(), "main"); holder == "" || err != nil {
		t.Errorf("the other's lease is gone: %v", err)
	}
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1}.Check(ctx, q.JetStream()))
	_, err = Begin(ctx, q.JetStream(), "trial")
	natstest.Check(t, err) // nothing of the first trial is left
}

// Otherwise a server would keep them.
func TestATrialRemovesTheBucketsThatCameWithIt(t *testing.T) {
	t.Parallel()
	q := connect(t)
	ctx := natstest.Within(t)
	begun, err := Begin(ctx, q.JetStream(), "trial")
	natstest.Check(t, err)
	taken, err := lease.New(q.JetStream(), 1).TryAcquire(ctx, "trial", "n", 10*time.Second)
	natstest.Check(t, err)
	natstest.Check(t, taken.Release(ctx))
	natstest.Check(t, begun.End(ctx))
	if _, err := q.JetStream().Stream(ctx, "KV_"+queue.LeaseBucket); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the bucket of leases: %v", err)
	}
	natstest.Check(t, begun.End(ctx)) // again, as after an interrupted end
}

func isOccupied(err error, found int) bool {
	occupied, ok := errors.AsType[*OccupiedError](err)
	return ok && len(occupied.Found) == found
}

// connect returns a connection to a new server, through which the streams are created.
func connect(t *testing.T) *queue.Queue {
	t.Helper()
	q, err := queue.Connect(queue.ConnectConfig{URL: natstest.Serve(t, t.TempDir()).URL(), Log: natstest.Quiet()})
	natstest.Check(t, err)
	t.Cleanup(q.Close)
	return q
}
