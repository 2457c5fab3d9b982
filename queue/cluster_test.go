//go:build check

package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"perennial/ledger/sleep"
	"perennial/queue/freeport"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// startCluster runs three servers with JetStream until the test ends.
func startCluster(t *testing.T) (servers []*server.Server) {
	t.Helper()
	var routes []*url.URL
	var ports []int
	for range 3 {
		port, err := freeport.Loopback()
		check(t, err)
		ports = append(ports, port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	for i, port := range ports {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port}, Routes: routes,
		})
		check(t, err)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers = append(servers, s)
	}
	for _, s := range servers {
		if !s.ReadyForConnections(patience) {
			t.Fatal("not ready")
		}
	}
	return servers
}

// Every copy of the stream loses the same events, and a server that was away
// meanwhile does too.
func TestAReplicatedStreamIsBoundedOnEveryServer(t *testing.T) {
	t.Parallel()
	servers := startCluster(t)
	q, err := Connect(ConnectConfig{URL: servers[0].ClientURL() + "," + servers[1].ClientURL() + "," + servers[2].ClientURL(), Log: quiet()})
	check(t, err)
	t.Cleanup(q.Close)
	ctx := within(t)
	again(ctx, t, func(ctx context.Context) error {
		return Wanted{Account: "main", Replicas: 3}.Ensure(ctx, q.JetStream())
	})
	filled(t, q, 3000)
	check(t, EventsOf(q.JetStream(), "main").Bound(ctx, Bounding{First: 1501, Alone: alone}))
	s, content := snapshotOf(1500)
	again(ctx, t, func(ctx context.Context) error {
		return SnapshotsOf(q.JetStream(), "main").Store(ctx, 3, s, bytes.NewReader(content))
	})
	for _, each := range servers {
		for {
			if st := copyOf(t, each, EventsStream("main")); st.FirstSeq == 1501 && st.LastSeq == 3000 && st.Msgs == 1500 {
				break
			}
			check(t, sleep.For(ctx, 20*time.Millisecond))
		}
	}
	if s := state(t, q); s.First != 1501 || s.Cut {
		t.Errorf("%+v", s)
	}
}

// noSuitablePeers is what a cluster answers whose leader has not heard of all its servers
// yet.
const noSuitablePeers jetstream.ErrorCode = 10005

// again does what a cluster may refuse while it elects its leaders, until it succeeds.
func again(ctx context.Context, t *testing.T, do func(context.Context) error) {
	t.Helper()
	for {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := do(try)
		cancel()
		if err == nil {
			return
		}
		unavailable, _ := errors.AsType[*jetstream.APIError](err) // of the whole system: it has no leader
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, jetstream.ErrNoStreamResponse) &&
			(unavailable == nil || unavailable.Code != http.StatusServiceUnavailable && unavailable.ErrorCode != noSuitablePeers) {
			t.Fatal(err)
		}
		t.Log(err)
		check(t, sleep.For(ctx, 50*time.Millisecond))
	}
}

// copyOf is what one server's copy of a stream holds.
func copyOf(t *testing.T, s *server.Server, stream string) server.StreamState {
	t.Helper()
	info, err := s.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	check(t, err)
	for _, account := range info.AccountDetails {
		for _, detail := range account.Streams {
			if detail.Name == stream {
				return detail.State
			}
		}
	}
	return server.StreamState{}
}

// A stream whose leader is lost has none for some seconds, and nothing takes what is published.
func TestACommandIsStoredAfterItsStreamLostItsLeader(t *testing.T) {
	t.Parallel()
	servers := startCluster(t)
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
	again(ctx, t, func(ctx context.Context) error {
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
	again(ctx, t, func(ctx context.Context) error {
		err := NewPublisher(q.JetStream()).PublishCommands(ctx, "main", outgoing(5))
		if errors.Is(err, ErrNoAccount) {
			t.Error(err)
		}
		return err // one that the lost server took with it is not answered
	})
}

// TestJetStreamIsAwaited while a cluster elects its leader; without a quorum the wait ends.
func TestJetStreamIsAwaited(t *testing.T) {
	t.Parallel()
	servers := startCluster(t)
	q, err := Connect(ConnectConfig{URL: servers[0].ClientURL(), Log: quiet()})
	check(t, err)
	t.Cleanup(q.Close)
	check(t, q.JetStream().AwaitPresent(within(t), func() {}))
	for _, s := range servers[1:] {
		s.Shutdown()
	}
	end := within(t)
	for { // the one that is left may be the leader for some seconds more
		waits := 0
		ctx, cancel := context.WithTimeout(end, time.Second)
		err := q.JetStream().AwaitPresent(ctx, func() { waits++ })
		cancel()
		if err != nil {
			if waits != 1 || end.Err() != nil {
				t.Errorf("without a quorum: %v, %d", err, waits)
			}
			return
		}
		check(t, sleep.For(end, 20*time.Millisecond))
	}
}
