//go:build check

package events_test

import (
	"bytes"
	"context"
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
	for _, each := range servers {
		for {
			if st := copyOf(t, each, queue.EventsStream("main")); st.FirstSeq == 1501 && st.LastSeq == 3000 && st.Msgs == 1500 {
				break
			}
			natstest.Check(t, sleep.For(ctx, 20*time.Millisecond))
		}
	}
	if s, err := events.Of(js, "main").State(ctx); err != nil || s.First != 1501 || s.Cut {
		t.Errorf("%+v %v", s, err)
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
