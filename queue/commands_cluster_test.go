//go:build check

package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"perennial/ledger/sleep"
	"perennial/queue/natstest"
)

// A stream whose leader is lost has none for some seconds, and nothing takes what is published.
func TestACommandIsStoredAfterItsStreamLostItsLeader(t *testing.T) {
	t.Parallel()
	servers := natstest.Cluster(t)
	ctx := within(t)
	led := func() int {
		for i, s := range servers {
			if s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, CommandsStream("main")) {
				return i
			}
		}
		return -1
	}
	first, err := Connect(ConnectConfig{URL: servers[0].ClientURL(), Log: quiet()})
	check(t, err)
	natstest.Again(ctx, t, func(ctx context.Context) error {
		return Wanted{Account: "main", Replicas: 3}.Ensure(ctx, first.JetStream())
	})
	first.Close()
	for led() < 0 {
		check(t, sleep.For(ctx, 20*time.Millisecond))
	}
	lost := led()
	q, err := Connect(ConnectConfig{URL: servers[(lost+1)%3].ClientURL(), Log: quiet()})
	check(t, err)
	t.Cleanup(q.Close)
	servers[lost].Shutdown()
	natstest.Again(ctx, t, func(ctx context.Context) error {
		err := NewPublisher(q.JetStream()).PublishCommands(ctx, "main", someCommands(5))
		if errors.Is(err, ErrNoAccount) {
			t.Error(err)
		}
		return err // one that the lost server took with it is not answered
	})
}
