package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"perennial/queue"
	"perennial/queue/client"
	"perennial/queue/freeport"
	"perennial/queue/natstest"
	"perennial/queue/streams"
)

// While the hub is away no server knows the account. The stream of the leaf node's own
// JetStream belongs to another program.
func TestTheHubOfALeafNodeIsWaitedFor(t *testing.T) {
	t.Parallel()
	port, err := freeport.Loopback()
	check(t, err)
	at := fmt.Sprintf("127.0.0.1:%d", port)
	edge := natstest.Start(t, `server_name: edge, jetstream {store_dir: $STORE, domain: edge}, leafnodes {reconnect: "50ms", remotes: [{url: "nats-leaf://`+at+`"}]}`)
	q, err := queue.Connect(queue.ConnectConfig{URL: edge.ClientURL()})
	check(t, err)
	t.Cleanup(q.Close)
	main, err := client.New(q, "main")
	check(t, err)
	renewal := client.Renewal{ID: "r", ProxyIDs: []string{"px_us_1"}, DurationDays: 30}
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for what, err := range map[string]error{"publish": main.Publish(short, renewal), "do": func() error { _, err := main.Do(short, renewal); return err }()} {
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, queue.ErrNoAccount) {
			t.Errorf("%s: %v", what, err)
		}
	}
	hub := natstest.Start(t, `server_name: hub, jetstream {store_dir: $STORE, domain: hub}, leafnodes {listen: "`+at+`"}`)
	runner, err := queue.Connect(queue.ConnectConfig{URL: hub.ClientURL()})
	check(t, err)
	t.Cleanup(runner.Close)
	check(t, streams.Wanted{Account: "main", Replicas: 1}.Ensure(within(t), runner.JetStream()))
	check(t, main.Publish(within(t), renewal))
}
