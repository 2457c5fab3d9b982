//go:build check

package events_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
	"perennial/queue/objects"
	"perennial/queue/streams"
)

// Every copy of the stream loses the same events, even on a server that was away meanwhile.
func TestAReplicatedStreamIsBoundedOnEveryServer(t *testing.T) {
	t.Parallel()
	servers := natstest.Cluster(t)
	js := jstest.Connect(t, servers[0].ClientURL()+","+servers[1].ClientURL()+","+servers[2].ClientURL())
	ctx := natstest.Within(t)
	natstest.Again(ctx, t, func(ctx context.Context) error {
		return streams.Wanted{Account: "main", Replicas: 3}.Ensure(ctx, js)
	})
	for seq := 1; seq <= 3000; seq++ {
		_, err := js.Publish(ctx, queue.EventSubject("main", "order.delivered"), []byte("{}"))
		natstest.Check(t, err)
	}
	natstest.Check(t, events.Of(js, "main").Bound(ctx, events.Bounding{First: 1501, Alone: func(context.Context) error { return nil }}))
	s, content := objects.Snapshot{Seq: 1500, Hash: "own-1500", SnapshotHash: "0123456789abcdef0123"}, []byte("what 1500 events amounted to")
	natstest.Again(ctx, t, func(ctx context.Context) error {
		return objects.SnapshotsOf(js, "main").Store(ctx, 3, s, bytes.NewReader(content))
	})
	awaitCopies(ctx, t, servers, 1501, 3000)
	if s, err := events.Of(js, "main").State(ctx); err != nil || s.First != 1501 || s.Cut {
		t.Errorf("%+v %v", s, err)
	}
}

// TestACopyThatIsBehindIsBoundedToo: a server that is still catching up when the first
// events are removed ends with what the others have. Each copy applies the limit to what it
// holds at that moment.
func TestACopyThatIsBehindIsBoundedToo(t *testing.T) {
	t.Parallel()
	servers, restart := natstest.RestartableCluster(t)
	js := jstest.Connect(t, servers[0].ClientURL()+","+servers[1].ClientURL()+","+servers[2].ClientURL())
	ctx := natstest.Within(t)
	natstest.Again(ctx, t, func(ctx context.Context) error {
		return streams.Wanted{Account: "main", Replicas: 3}.Ensure(ctx, js)
	})
	info, err := js.Stream(ctx, queue.EventsStream("main"))
	natstest.Check(t, err)
	behind := slices.IndexFunc(servers, func(s *server.Server) bool { return s.Name() != info.CachedInfo().Cluster.Leader })
	servers[behind].Shutdown()
	servers[behind].WaitForShutdown()
	js = jstest.Connect(t, servers[(behind+1)%3].ClientURL()+","+servers[(behind+2)%3].ClientURL())
	const last, first = 30_000, 15_001
	content := bytes.Repeat([]byte("x"), 300)
	for range last {
		_, err := js.PublishAsync(queue.EventSubject("main", "order.delivered"), content)
		natstest.Check(t, err)
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	restart(behind)
	for copyOf(t, servers[behind], queue.EventsStream("main")).LastSeq == 0 {
		natstest.Check(t, sleep.For(ctx, time.Millisecond))
	}
	natstest.Check(t, events.Of(js, "main").Bound(ctx, events.Bounding{First: first, Alone: func(context.Context) error { return nil }}))
	awaitCopies(ctx, t, servers, first, last)
}

// awaitCopies returns when each server's copy of the events holds those from first to last.
func awaitCopies(ctx context.Context, t *testing.T, servers []*server.Server, first, last uint64) {
	t.Helper()
	for _, each := range servers {
		for {
			st := copyOf(t, each, queue.EventsStream("main"))
			if st.FirstSeq == first && st.LastSeq == last && st.Msgs == last-first+1 {
				break
			}
			if err := sleep.For(ctx, 20*time.Millisecond); err != nil {
				t.Fatalf("the copy of %s: %+v, %v", each.Name(), st, err)
			}
		}
	}
}

// copyOf returns the state of one server's copy of a stream.
func copyOf(t *testing.T, s *server.Server, stream string) server.StreamState {
	t.Helper()
	info, err := s.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	natstest.Check(t, err)
	for _, account := range info.AccountDetails {
		for _, detail := range account.Streams {
			if detail.Name == stream {
				return detail.State
			}
		}
	}
	return server.StreamState{}
}
