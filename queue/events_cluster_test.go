//go:build check

package queue

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"perennial/ledger/sleep"
	"perennial/queue/natstest"
)

// Every copy of the stream loses the same events, and a server that was away
// meanwhile does too.
func TestAReplicatedStreamIsBoundedOnEveryServer(t *testing.T) {
	t.Parallel()
	servers := natstest.Cluster(t)
	q := connectTo(t, servers[0].ClientURL()+","+servers[1].ClientURL()+","+servers[2].ClientURL())
	ctx := within(t)
	natstest.Again(ctx, t, func(ctx context.Context) error {
		return Wanted{Account: "main", Replicas: 3}.Ensure(ctx, q.JetStream())
	})
	for seq := 1; seq <= 3000; seq++ {
		_, err := q.JetStream().Publish(ctx, EventSubject("main", "order.delivered"), []byte("{}"))
		check(t, err)
	}
	check(t, EventsOf(q.JetStream(), "main").Bound(ctx, Bounding{First: 1501, Alone: func(context.Context) error { return nil }}))
	s, content := Snapshot{Seq: 1500, Hash: "own-1500", SnapshotHash: "0123456789abcdef0123"}, []byte("what 1500 events amounted to")
	natstest.Again(ctx, t, func(ctx context.Context) error {
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
	if s, err := EventsOf(q.JetStream(), "main").State(ctx); err != nil || s.First != 1501 || s.Cut {
		t.Errorf("%+v %v", s, err)
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
