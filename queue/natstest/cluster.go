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
	servers, _ = RestartableCluster(t)
	return servers
}

// noSuitablePeers is the error of a cluster whose leader has not heard from all servers yet.
func RestartableCluster(t testing.TB) (servers []*server.Server, restart func(i int)) {
	t.Helper()
	const size = 3
	routes, ports := make([]*url.URL, 0, size), make([]int, 0, size)
	for range size {
		port, err := freeport.Loopback()
		Check(t, err)
		ports = append(ports, port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	servers = make([]*server.Server, size)
	dirs := [size]string{t.TempDir(), t.TempDir(), t.TempDir()}
	restart = func(i int) {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dirs[i], NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[i]}, Routes: routes,
		})
		Check(t, err)
		s.Start()
		servers[i] = s
	}
	for i := range servers {
		restart(i)
		t.Cleanup(func() { servers[i].Shutdown(); servers[i].WaitForShutdown() })
	}
	for _, s := range servers {
		if !s.ReadyForConnections(Patience) {
			t.Fatal("not ready")
		}
	}
	return servers, restart
}

// noSuitablePeers is the error of a cluster whose leader has not heard from all servers
// yet.
const noSuitablePeers jetstream.ErrorCode = 10005

// Again calls the function do until it succeeds. An error other than those of a cluster without
// a leader fails the test.
func Again(ctx context.Context, t testing.TB, do func(context.Context) error) {
	t.Helper()
	for {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := do(try)
		cancel()
		if err == nil {
			return
		}
		unavailable, _ := errors.AsType[*jetstream.APIError](err) // 503 means that the whole cluster has no leader
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, jetstream.ErrNoStreamResponse) &&
			(unavailable == nil || unavailable.Code != http.StatusServiceUnavailable && unavailable.ErrorCode != noSuitablePeers) {
			t.Fatal(err)
		}
		t.Log(err)
		Check(t, sleep.For(ctx, 50*time.Millisecond))
	}
}
