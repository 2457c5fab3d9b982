//go:build check

package queue_test

import (
	"context"
	"testing"
	"time"

	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/natstest"
)

// TestJetStreamIsAwaited waits while a cluster elects its leader; without a quorum the wait
// ends.
func TestJetStreamIsAwaited(t *testing.T) {
	t.Parallel()
	servers := natstest.Cluster(t)
	q, err := queue.Connect(queue.ConnectConfig{URL: servers[0].ClientURL(), Log: natstest.Quiet()})
	natstest.Check(t, err)
	t.Cleanup(q.Close)
	natstest.Check(t, queue.AwaitPresent(natstest.Within(t), q.JetStream(), func() {}))
	for _, s := range servers[1:] {
		s.Shutdown()
	}
	end := natstest.Within(t)
	for { // the remaining server may stay leader for some seconds
		waits := 0
		ctx, cancel := context.WithTimeout(end, time.Second)
		err := queue.AwaitPresent(ctx, q.JetStream(), func() { waits++ })
		cancel()
		if err != nil {
			if waits != 1 || end.Err() != nil {
				t.Errorf("without a quorum: %v, %d", err, waits)
			}
			return
		}
		natstest.Check(t, sleep.For(end, 20*time.Millisecond))
	}
}
