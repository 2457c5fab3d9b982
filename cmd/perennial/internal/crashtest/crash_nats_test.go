package crashtest

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/embedded"
)

// outerNATS is a NATS server that keeps running while the runner is stopped. checkBooks reads the
// events from its store.
type outerNATS struct {
	t      testing.TB
	server *embedded.Server
	js     jetstream.JetStream
	leases jetstream.KeyValue
}

// startOuterNATS starts a server whose leases last a second.
func startOuterNATS(t testing.TB, w *world) *outerNATS {
	t.Helper()
	server, err := embedded.Start(embedded.Config{Listen: freeAddress(t), StoreDir: filepath.Join(w.dir, "data", "nats")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	nc, js := connectTo(t, server.URL())
	t.Cleanup(nc.Close)
	leases, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: queue.LeaseBucket, TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return &outerNATS{t: t, server: server, js: js, leases: leases}
}

func (n *outerNATS) url() string { return n.server.URL() }

// hurry makes JetStream redeliver unacknowledged commands after a second.
func (n *outerNATS) hurry() {
	n.t.Helper()
	stream, err := n.js.Stream(n.t.Context(), queue.CommandsStream("main"))
	if err != nil {
		n.t.Fatal(err)
	}
	for info := range stream.ListConsumers(n.t.Context()).Info() {
		config := info.Config
		config.AckWait = time.Second
		if _, err := n.js.UpdateConsumer(n.t.Context(), queue.CommandsStream("main"), config); err != nil {
			n.t.Fatal(err)
		}
	}
}

// awaitLeaseGone waits until no runner holds the lease. By then JetStream redelivers the
// unacknowledged commands too.
func (n *outerNATS) awaitLeaseGone() {
	n.t.Helper()
	await(n.t, "the lease has run out", func() bool {
		_, err := n.leases.Get(n.t.Context(), "main")
		return errors.Is(err, jetstream.ErrKeyNotFound)
	})
}
