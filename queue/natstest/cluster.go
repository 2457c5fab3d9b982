package natstest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/ledger/sleep"
	"perennial/queue/freeport"
)

// Cluster runs three servers with JetStream until the test ends.
func Cluster(t testing.TB) (servers []*server.Server) {
	t.Helper()
	const size = 3
	routes, ports := make([]*url.URL, 0, size), make([]int, 0, size)
	for range size {
		port, err := freeport.Loopback()
		Check(t, err)
		ports = append(ports, port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	for i, port := range ports {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port}, Routes: routes,
		})
		Check(t, err)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers = append(servers, s)
	}
	for _, s := range servers {
		if !s.ReadyForConnections(Patience) {
			t.Fatal("not ready")
		}
	}
	return servers
}

// noSuitablePeers is the answer of a cluster whose leader has not heard from all servers
// yet.
const noSuitablePeers jetstream.ErrorCode = 10005

// Again retries what a cluster may refuse while it elects its leaders, until it succeeds.
func Again(ctx context.Context, t testing.TB, do func(context.Context) error) {
	t.Helper()
	for {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := do(try)
		cancel()
		if err == nil {
			return
		}
		unavailable, _ := errors.AsType[*jetstream.APIError](err) // for the whole system: it has no leader
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, jetstream.ErrNoStreamResponse) &&
			(unavailable == nil || unavailable.Code != http.StatusServiceUnavailable && unavailable.ErrorCode != noSuitablePeers) {
			t.Fatal(err)
		}
		t.Log(err)
		Check(t, sleep.For(ctx, 50*time.Millisecond))
	}
}
