package outbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
	"perennial/queue/streams"
)

// newExternal returns the JetStream of a server with an external server's streams.
func newExternal(t testing.TB) *queue.JetStream {
	t.Helper()
	js := jstest.New(t)
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1}.Ensure(natstest.Within(t), js))
	return js
}

// publishesFirst returns an outbox whose rows are committed after their publication.
func publishesFirst(js *queue.JetStream) *Outbox {
	o := New(js, "main", nil)
	o.Before = true
	return o
}

func lastSeq(t testing.TB, js *queue.JetStream) uint64 {
	t.Helper()
	info, err := events.Of(js, "main").Info(natstest.Within(t))
	natstest.Check(t, err)
	return info.State.LastSeq
}

func TestRowsAreOnTheStreamWhenPublishReturns(t *testing.T) {
	js := newExternal(t)
	p, j := publishesFirst(js), newJournal("a", 0)
	j.append("a", 2516)
	for _, cut := range [][2]int{{0, 1}, {1, 3}, {3, 16}, {16, 2516}} { // the last is 2,500 rows
		natstest.Check(t, p.Publish(natstest.Within(t), j.rows[cut[0]:cut[1]]))
		if last := lastSeq(t, js); last != uint64(cut[1]) {
			t.Fatalf("after row %d the stream ends with %d", cut[1], last)
		}
	}
	published(t, js, j, 2516)
}

func TestRowsThatAreThereAlreadyAreNotPublishedAgain(t *testing.T) {
	js := newExternal(t)
	p, j := publishesFirst(js), newJournal("a", 40)
	for _, cut := range [][2]int{{0, 20}, {0, 20}, {19, 20}, {5, 12}, {10, 40}} { // the last is a part
		natstest.Check(t, p.Publish(natstest.Within(t), j.rows[cut[0]:cut[1]]))
	}
	published(t, js, j, 40)
}

func TestRowsOfAnotherRunnerFenceAndNothingIsAdded(t *testing.T) {
	js := newExternal(t)
	own, other := newJournal("a", 20), newJournal("b", 20)
	natstest.Check(t, publishesFirst(js).Publish(natstest.Within(t), own.rows[:10]))
	natstest.Check(t, publishesFirst(js).Publish(natstest.Within(t), other.rows[10:13]))
	for _, rows := range [][]Event{own.rows[10:11], own.rows[10:13], own.rows[10:20], own.rows[8:20]} {
		err := publishesFirst(js).Publish(natstest.Within(t), rows)
		fenced, ok := errors.AsType[*FencedError](err)
		if !ok || *fenced != (FencedError{Account: "main", Seq: 11, StreamHash: "b-11", OwnHash: "a-11"}) {
			t.Errorf("%d rows: %v", len(rows), err)
		}
	}
	if last := lastSeq(t, js); last != 13 {
		t.Errorf("the stream ends with %d", last)
	}
}

// A message that no runner wrote is as foreign as another runner's row.
func TestAMessageThatIsNoRowFences(t *testing.T) {
	js := newExternal(t)
	_, err := js.Store(natstest.Within(t), &nats.Msg{Subject: queue.EventSubject("main", "order.delivered"), Data: []byte("me too")})
	natstest.Check(t, err)
	err = publishesFirst(js).Publish(natstest.Within(t), newJournal("a", 2).rows)
	if fenced, ok := errors.AsType[*FencedError](err); !ok || fenced.Seq != 1 || fenced.StreamHash != "" {
		t.Error(err)
	}
}

func TestAStreamThatLostItsEndIsReported(t *testing.T) {
	t.Parallel()
	js := newExternal(t)
	j := newJournal("a", 20)
	p := publishesFirst(js)
	natstest.Check(t, p.Publish(natstest.Within(t), j.rows[:5]))
	for _, rows := range [][]Event{j.rows[10:11], j.rows[6:20]} {
		short, ok := errors.AsType[*ShortStreamError](p.Publish(natstest.Within(t), rows))
		if !ok || *short != (ShortStreamError{Account: "main", StreamSeq: 5, Seq: rows[0].Seq - 1}) {
			t.Errorf("%+v", short)
		}
	}
	if last := lastSeq(t, js); last != 5 {
		t.Errorf("the stream ends with %d", last)
	}
}

// A leader without a quorum may have been replaced.
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
	js := newExternal(t)
	j := newJournal("a", 3)
	j.rows[1].Payload = make([]byte, js.MaxPayload())
	size, ok := errors.AsType[*EventSizeError](publishesFirst(js).Publish(natstest.Within(t), j.rows))
	if !ok || size.Seq != 2 || size.Most != js.MaxPayload() || size.Bytes <= size.Most {
		t.Errorf("%+v", size)
	}
	if last := lastSeq(t, js); last != 0 {
		t.Errorf("the stream ends with %d", last)
	}
}

func TestALostAcknowledgementStoresRowsOnce(t *testing.T) {
	t.Parallel()
	server := natstest.Serve(t, t.TempDir())
	direct := jstest.Connect(t, server.URL())
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1}.Ensure(natstest.Within(t), direct))
	proxy := natstest.StartMute(t, server.URL())
	js := jstest.Connect(t, proxy.URL)
	p, j := publishesFirst(js), newJournal("a", 60)
	natstest.Check(t, p.Publish(natstest.Within(t), j.rows[:1]))
	for _, cut := range [][2]int{{1, 2}, {2, 30}, {30, 60}} {
		proxy.Dropped.Store(true)
		natstest.Check(t, p.Publish(natstest.Within(t), j.rows[cut[0]:cut[1]]))
		if proxy.Dropped.Load() {
			t.Error("no answer was lost")
		}
	}
	published(t, direct, j, 60)
}

// A refusal while rows are in progress does not show whose rows they are.
func TestRowsUnderWayAreWaitedFor(t *testing.T) {
	js := newExternal(t)
	j := newJournal("a", 4)
	l := &look{outbox: publishesFirst(js)}
	if _, err := l.find(natstest.Within(t), j.rows); !errors.Is(err, errUndecided) {
		t.Error(err)
	}
	natstest.Check(t, l.outbox.Publish(natstest.Within(t), j.rows[:3]))
	if found, err := l.find(natstest.Within(t), j.rows); found != 3 || err != nil {
		t.Error(found, err)
	}
}

func TestPublishEndsWithItsContextWhileTheServerIsAway(t *testing.T) {
	server := natstest.Serve(t, t.TempDir())
	js := jstest.Connect(t, server.URL())
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1}.Ensure(natstest.Within(t), js))
	server.Shutdown()
	ctx, cancel := context.WithTimeout(natstest.Within(t), 100*time.Millisecond)
	defer cancel()
	if err := publishesFirst(js).Publish(ctx, newJournal("a", 2).rows); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestPublishGoesOnWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	server := natstest.Serve(t, t.TempDir())
	js := jstest.Connect(t, server.URL())
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1}.Ensure(natstest.Within(t), js))
	p, j := publishesFirst(js), newJournal("a", 10)
	natstest.Check(t, p.Publish(natstest.Within(t), j.rows[:5]))
	server.Shutdown()
	done := make(chan error, 1)
	go func() { done <- p.Publish(natstest.Within(t), j.rows[5:]) }()
	server.Start()
	natstest.Check(t, natstest.Receive(t, done))
	published(t, js, j, 10)
}
