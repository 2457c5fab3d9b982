//go:build check

package publish

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
	"perennial/queue/streams"
)

// A stream that lost its leader has none for some seconds, and nothing takes publications.
func TestACommandIsStoredAfterItsStreamLostItsLeader(t *testing.T) {
	t.Parallel()
	servers := natstest.Cluster(t)
	ctx := natstest.Within(t)
	led := func() int {
		for i, s := range servers {
			if s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, queue.CommandsStream("main")) {
				return i
			}
		}
		return -1
	}
	first, err := queue.Connect(queue.ConnectConfig{URL: servers[0].ClientURL(), Log: natstest.Quiet()})
	natstest.Check(t, err)
	natstest.Again(ctx, t, func(ctx context.Context) error {
		return streams.Wanted{Account: "main", Replicas: 3}.Ensure(ctx, first.JetStream())
	})
	first.Close()
	for led() < 0 {
		natstest.Check(t, sleep.For(ctx, 20*time.Millisecond))
	}
	lost := led()
	js := jstest.Connect(t, servers[(lost+1)%3].ClientURL())
	servers[lost].Shutdown()
	natstest.Again(ctx, t, func(ctx context.Context) error {
		err := New(js).PublishCommands(ctx, "main", someCommands(5))
		if errors.Is(err, queue.ErrNoAccount) {
			t.Error(err)
		}
		return err // a request that was lost with the server is not answered
	})
}
