// How the outbox publishes: every row is on the stream once, whatever happens to the answers.

package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// newExternal is newQueue with the streams of a server that is not embedded.
func newExternal(t testing.TB) *Queue {
	t.Helper()
	q := connect(t, startServer(t, t.TempDir()))
	check(t, Wanted{Account: "main", Replicas: 1}.Ensure(within(t), q.JetStream()))
	return q
}

// publishesFirst is the outbox of rows that are committed after they are published.
func publishesFirst(q *Queue) *Outbox {
	o := NewOutbox(q.JetStream(), "main", nil)
	o.Before = true
	return o
}

func lastSeq(t testing.TB, q *Queue) uint64 {
	t.Helper()
	info, err := EventsOf(q.JetStream(), "main").Info(within(t))
	check(t, err)
	return info.State.LastSeq
}

func TestRowsAreOnTheStreamWhenPublishReturns(t *testing.T) {
	q := newExternal(t)
	p, j := publishesFirst(q), newJournal("a", 0)
	j.append("a", 2516)
	for _, cut := range [][2]int{{0, 1}, {1, 3}, {3, 16}, {16, 2516}} { // the last one: 2,500 rows
		check(t, p.Publish(within(t), j.rows[cut[0]:cut[1]]))
		if last := lastSeq(t, q); last != uint64(cut[1]) {
			t.Fatalf("after row %d the stream ends with %d", cut[1], last)
		}
	}
	published(t, q, j, 2516)
}

func TestRowsThatAreThereAlreadyAreNotPublishedAgain(t *testing.T) {
	q := newExternal(t)
	p, j := publishesFirst(q), newJournal("a", 40)
	for _, cut := range [][2]int{{0, 20}, {0, 20}, {19, 20}, {5, 12}, {10, 40}} { // the last: in part
		check(t, p.Publish(within(t), j.rows[cut[0]:cut[1]]))
	}
	published(t, q, j, 40)
}

func TestRowsOfAnotherRunnerFenceAndNothingIsAdded(t *testing.T) {
	q := newExternal(t)
	own, other := newJournal("a", 20), newJournal("b", 20)
	check(t, publishesFirst(q).Publish(within(t), own.rows[:10]))
	check(t, publishesFirst(q).Publish(within(t), other.rows[10:13]))
	for _, rows := range [][]Event{own.rows[10:11], own.rows[10:13], own.rows[10:20], own.rows[8:20]} {
		err := publishesFirst(q).Publish(within(t), rows)
		fenced, ok := errors.AsType[*FencedError](err)
		if !ok || *fenced != (FencedError{Account: "main", Seq: 11, StreamHash: "b-11", OwnHash: "a-11"}) {
			t.Errorf("%d rows: %v", len(rows), err)
		}
	}
	if last := lastSeq(t, q); last != 13 {
		t.Errorf("the stream ends with %d", last)
	}
}

// A message that no runner wrote is as foreign as another runner's row.
func TestAMessageThatIsNoRowFences(t *testing.T) {
	q := newExternal(t)
	_, err := q.JetStream().Store(within(t), &nats.Msg{Subject: EventSubject("main", "order.delivered"), Data: []byte("me too")})
	check(t, err)
	err = publishesFirst(q).Publish(within(t), newJournal("a", 2).rows)
	if fenced, ok := errors.AsType[*FencedError](err); !ok || fenced.Seq != 1 || fenced.StreamHash != "" {
		t.Error(err)
	}
}

func TestAStreamThatLostItsEndIsReported(t *testing.T) {
	t.Parallel()
	q := newExternal(t)
	j := newJournal("a", 20)
	p := publishesFirst(q)
	check(t, p.Publish(within(t), j.rows[:5]))
	for _, rows := range [][]Event{j.rows[10:11], j.rows[6:20]} {
		short, ok := errors.AsType[*ShortStreamError](p.Publish(within(t), rows))
		if !ok || *short != (ShortStreamError{Account: "main", StreamSeq: 5, Seq: rows[0].Seq - 1}) {
			t.Errorf("%+v", short)
		}
	}
	if last := lastSeq(t, q); last != 5 {
		t.Errorf("the stream ends with %d", last)
	}
}

// A leader that hears of no quorum may be one that was replaced.
func TestAnOldLeaderDoesNotSayThatAStreamIsShort(t *testing.T) {
	peer := func(active time.Duration, offline bool) *jetstream.PeerInfo {
		return &jetstream.PeerInfo{Active: active, Offline: offline}
	}
	for n, c := range []struct {
		cluster *jetstream.ClusterInfo
		heard   bool
	}{
		{nil, true},
		{&jetstream.ClusterInfo{}, true},
		{&jetstream.ClusterInfo{Replicas: []*jetstream.PeerInfo{peer(time.Second, false), peer(time.Hour, false)}}, true},
		{&jetstream.ClusterInfo{Replicas: []*jetstream.PeerInfo{peer(4*time.Second, false), peer(0, true)}}, false},
	} {
		if heardOfQuorum(c.cluster) != c.heard {
			t.Errorf("case %d", n)
		}
	}
}

func TestAnEventThatIsTooLargeIsNotTriedAgain(t *testing.T) {
	q := newExternal(t)
	j := newJournal("a", 3)
	j.rows[1].Payload = make([]byte, q.JetStream().MaxPayload())
	size, ok := errors.AsType[*EventSizeError](publishesFirst(q).Publish(within(t), j.rows))
	if !ok || size.Seq != 2 || size.Most != q.JetStream().MaxPayload() || size.Bytes <= size.Most {
		t.Errorf("%+v", size)
	}
	if last := lastSeq(t, q); last != 0 {
		t.Errorf("the stream ends with %d", last)
	}
}

func TestALostAcknowledgementStoresRowsOnce(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir())
	direct := connect(t, server)
	check(t, Wanted{Account: "main", Replicas: 1}.Ensure(within(t), direct.JetStream()))
	proxy := startMute(t, server.URL())
	q, err := Connect(ConnectConfig{URL: proxy.url, Log: quiet()})
	check(t, err)
	t.Cleanup(q.Close)
	p, j := publishesFirst(q), newJournal("a", 60)
	check(t, p.Publish(within(t), j.rows[:1]))
	for _, cut := range [][2]int{{1, 2}, {2, 30}, {30, 60}} {
		proxy.dropped.Store(true)
		check(t, p.Publish(within(t), j.rows[cut[0]:cut[1]]))
		if proxy.dropped.Load() {
			t.Error("no answer was lost")
		}
	}
	published(t, direct, j, 60)
}

// A refusal of rows that are under way says nothing about whose they are.
func TestRowsUnderWayAreWaitedFor(t *testing.T) {
	q := newExternal(t)
	j := newJournal("a", 4)
	l := &look{outbox: publishesFirst(q)}
	if _, err := l.find(within(t), j.rows); !errors.Is(err, errUndecided) {
		t.Error(err)
	}
	check(t, l.outbox.Publish(within(t), j.rows[:3]))
	if found, err := l.find(within(t), j.rows); found != 3 || err != nil {
		t.Error(found, err)
	}
}

func TestPublishEndsWithItsContextWhileTheServerIsAway(t *testing.T) {
	server := startServer(t, t.TempDir())
	q := connect(t, server)
	check(t, Wanted{Account: "main", Replicas: 1}.Ensure(within(t), q.JetStream()))
	server.Shutdown()
	ctx, cancel := context.WithTimeout(within(t), 100*time.Millisecond)
	defer cancel()
	if err := publishesFirst(q).Publish(ctx, newJournal("a", 2).rows); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestPublishGoesOnWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir())
	q := connect(t, server)
	check(t, Wanted{Account: "main", Replicas: 1}.Ensure(within(t), q.JetStream()))
	p, j := publishesFirst(q), newJournal("a", 10)
	check(t, p.Publish(within(t), j.rows[:5]))
	server.Shutdown()
	done := make(chan error, 1)
	go func() { done <- p.Publish(within(t), j.rows[5:]) }()
	server.Start()
	check(t, receive(t, done))
	published(t, q, j, 10)
}
