//go:build check

package outbox

import (
	"context"
	"fmt"
	"testing"
	"time"

	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
	"perennial/queue/streams"
)

// The leader of three replicas steps down repeatedly while rows are published. The leader's
// view is never older than what was acknowledged.
func TestLeadersThatStepDownCostNoRow(t *testing.T) {
	t.Parallel()
	servers := natstest.Cluster(t)
	js := jstest.Connect(t, servers[0].ClientURL()+","+servers[1].ClientURL()+","+servers[2].ClientURL())
	ctx := natstest.Within(t)
	natstest.Again(ctx, t, func(ctx context.Context) error {
		return streams.Wanted{Account: "main", Replicas: 3}.Ensure(ctx, js)
	})
	j := newJournal("a", 4000)
	step := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range step {
			_, _ = js.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN."+queue.EventsStream("main"), nil, 2*time.Second)
		}
	}()
	p := publishesFirst(js)
	for n, from := 0, 0; from < len(j.rows); n++ {
		to := min(from+1+n%7*20, len(j.rows))
		if n%20 == 5 {
			select {
			case step <- struct{}{}:
			default:
			}
		}
		if err := p.Publish(ctx, j.rows[from:to]); err != nil {
			t.Error(err)
			break
		}
		natstest.Again(ctx, t, func(ctx context.Context) error {
			last, found, err := events.Of(js, "main").LastRow(ctx)
			if err == nil && (!found || last.Seq != uint64(to)) {
				return fmt.Errorf("row %d was acknowledged, and the leader ends with %d", to, last.Seq)
			}
			return err
		})
		from = to
	}
	close(step)
	natstest.Receive(t, done)
	for {
		if last, found, err := events.Of(js, "main").Last(ctx); err == nil && found && last.Seq == 4000 {
			break // this replica too
		}
		natstest.Check(t, sleep.For(ctx, 20*time.Millisecond))
	}
	published(t, js, j, 4000)
}
