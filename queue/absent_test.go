package queue

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"perennial/queue/freeport"
	"perennial/queue/natstest"
)

// TestWhyNoJetStreamAnswers: that a server has none, a wrong domain, and a hub that is away
// are told apart.
func TestWhyNoJetStreamAnswers(t *testing.T) {
	t.Parallel()
	port, err := freeport.Loopback()
	check(t, err)
	hub := natstest.Start(t, "server_name: hub, jetstream {store_dir: $STORE, domain: hub}").ClientURL()
	edge := func(more string) string {
		return natstest.Start(t, fmt.Sprintf(`server_name: edge, %s leafnodes {remotes: [{url: "nats-leaf://127.0.0.1:%d"}]}`, more, port)).ClientURL()
	}
	leaf, leafWithOwn := edge(""), edge("jetstream {store_dir: $STORE, domain: edge},")
	look := func(at ConnectConfig, says string) {
		t.Helper()
		at.Log = quiet()
		q, err := Connect(at)
		check(t, err)
		defer q.Close()
		for what, err := range map[string]error{"checked": q.JetStream().CheckPresent(within(t)), "streams made": (Wanted{Account: "main", Replicas: 1}).Ensure(within(t), q.JetStream()), "streams checked": (Wanted{Account: "main", Replicas: 1, Embedded: false}).Check(within(t), q.JetStream()),
			"probed": func() error { _, _, err := ProbeStreams(within(t), q.JetStream(), "main"); return err }()} {
			if _, ok := errors.AsType[*AbsentError](err); !ok || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	look(ConnectConfig{URL: natstest.Start(t, "server_name: plain").ClientURL()}, "has no JetStream")
	look(ConnectConfig{URL: natstest.Start(t, "jetstream {store_dir: $STORE}\naccounts {A {users: [{user: a, password: pw}]}}").ClientURL(), User: "a", Password: "pw"}, "not enabled for the NATS account")
	look(ConnectConfig{URL: leaf, Domain: "hub"}, "see that this leaf node is connected to its hub")
	look(ConnectConfig{URL: leafWithOwn, Domain: "hub"}, `has the domain "edge"`)
	look(ConnectConfig{URL: hub, Domain: "hubb"}, `has the domain "hub": set nats.domain`)
	q, err := Connect(ConnectConfig{URL: hub, Domain: "hub", Log: quiet()})
	check(t, err)
	t.Cleanup(q.Close)
	check(t, q.JetStream().CheckPresent(within(t)))
}
