package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"perennial/queue"
	"perennial/queue/freeport"
	"perennial/queue/natstest"
	"perennial/queue/streams"
)

// The error distinguishes a server without JetStream, a wrong domain, and a hub that cannot be
// reached.
func TestWhyNoJetStreamAnswers(t *testing.T) {
	t.Parallel()
	port, err := freeport.Loopback()
	natstest.Check(t, err)
	hub := natstest.Start(t, "server_name: hub, jetstream {store_dir: $STORE, domain: hub}").ClientURL()
	edge := func(more string) string {
		return natstest.Start(t, fmt.Sprintf(`server_name: edge, %s leafnodes {remotes: [{url: "nats-leaf://127.0.0.1:%d"}]}`, more, port)).ClientURL()
	}
	leaf, leafWithOwn := edge(""), edge("jetstream {store_dir: $STORE, domain: edge},")
	look := func(at queue.ConnectConfig, says string) {
		t.Helper()
		at.Log = natstest.Quiet()
		q, err := queue.Connect(at)
		natstest.Check(t, err)
		defer q.Close()
		for what, err := range map[string]error{"checked": queue.CheckPresent(natstest.Within(t), q.JetStream()), "streams made": (streams.Wanted{Account: "main", Replicas: 1}).Ensure(natstest.Within(t), q.JetStream()), "streams checked": (streams.Wanted{Account: "main", Replicas: 1, Embedded: false}).Check(natstest.Within(t), q.JetStream()),
			"probed": func() error { _, _, err := streams.Probe(natstest.Within(t), q.JetStream(), "main"); return err }()} {
			if _, ok := errors.AsType[*queue.AbsentError](err); !ok || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	look(queue.ConnectConfig{URL: natstest.Start(t, "server_name: plain").ClientURL()}, "has no JetStream")
	look(queue.ConnectConfig{URL: natstest.Start(t, "jetstream {store_dir: $STORE}\naccounts {A {users: [{user: a, password: pw}]}}").ClientURL(), User: "a", Password: "pw"}, "not enabled for the NATS account")
	look(queue.ConnectConfig{URL: leaf, Domain: "hub"}, "see that this leaf node is connected to its hub")
	look(queue.ConnectConfig{URL: leafWithOwn, Domain: "hub"}, `has the domain "edge"`)
	look(queue.ConnectConfig{URL: hub, Domain: "hubb"}, `has the domain "hub": set nats.domain`)
	q, err := queue.Connect(queue.ConnectConfig{URL: hub, Domain: "hub", Log: natstest.Quiet()})
	natstest.Check(t, err)
	t.Cleanup(q.Close)
	natstest.Check(t, queue.CheckPresent(natstest.Within(t), q.JetStream()))
}
