package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
	"perennial/queue/streams"
)

// filled publishes this many rows on the events stream, and returns their journal.
func filled(t *testing.T, js *queue.JetStream, rows int) *journal {
	t.Helper()
	j := newJournal("own", rows)
	runOutboxTo(t, js, j, uint64(rows))
	return j
}

// runOutboxTo publishes a journal up to a row.
func runOutboxTo(t *testing.T, js *queue.JetStream, j *journal, last uint64) {
	t.Helper()
	outbox := New(js, "main", j)
	ctx, cancel := context.WithCancel(natstest.Within(t))
	done := make(chan struct{})
	go func() { defer close(done); _ = outbox.Run(ctx) }()
	natstest.Check(t, outbox.Wait(natstest.Within(t), last))
	cancel()
	natstest.Receive(t, done)
}

func TestTheOutboxRefusesAStreamThatLostTooMuch(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	j := filled(t, js, 3000)
	natstest.Check(t, events.Of(js, "main").Bound(natstest.Within(t), events.Bounding{First: 1001, Alone: func(context.Context) error { return nil }}))
	for latest, refused := range map[uint64]bool{0: true, 1000: true, 1001: false, 2000: false} {
		outbox := New(js, "main", j)
		outbox.Begins = func(context.Context) (uint64, error) { return latest, nil }
		last, err := outbox.findPlace(natstest.Within(t))
		var diverged *DivergedError
		if errors.As(err, &diverged) != refused || !refused && last != 3000 {
			t.Errorf("to begin with %d at the latest: %d %v", latest, last, err)
		}
	}
}

// Replicas answer direct reads and may lag, so reads that affect a decision must go to the
// leader.
func TestNoReplicaIsAskedForRowsThatDecide(t *testing.T) {
	js := newExternal(t)
	direct, err := js.Conn().SubscribeSync("$JS.API.DIRECT.>")
	natstest.Check(t, err)
	asked, err := js.Conn().SubscribeSync("$JS.API.STREAM.MSG.GET." + queue.EventsStream("main"))
	natstest.Check(t, err)
	j := newJournal("a", 3)
	p := publishesFirst(js)
	natstest.Check(t, p.Publish(natstest.Within(t), j.rows))
	natstest.Check(t, p.Publish(natstest.Within(t), j.rows)) // compared
	_, _, err = events.Of(js, "main").LastRow(natstest.Within(t))
	natstest.Check(t, err)
	natstest.Check(t, js.Conn().Flush())
	if n, _, err := direct.Pending(); n != 0 || err != nil {
		t.Errorf("%d direct reads: %v", n, err)
	}
	if n, _, err := asked.Pending(); n != 4 || err != nil {
		t.Errorf("the leader was asked %d times: %v", n, err)
	}
}

// A follower notices within seconds that its server or consumer is gone.
func TestFollowersAskForAHeartbeatEachSecond(t *testing.T) {
	js := newExternal(t)
	pulls, err := js.Conn().SubscribeSync("$JS.API.CONSUMER.MSG.NEXT." + queue.EventsStream("main") + ".>")
	natstest.Check(t, err)
	j := newJournal("a", 3)
	natstest.Check(t, publishesFirst(js).Publish(natstest.Within(t), j.rows))
	for _, err := range events.Of(js, "main").Follow(natstest.Within(t), events.From{}) {
		natstest.Check(t, err)
		break
	}
	_, err = New(js, "main", j).findPlace(natstest.Within(t))
	natstest.Check(t, err)
	for range 2 {
		m, err := pulls.NextMsgWithContext(natstest.Within(t))
		natstest.Check(t, err)
		var pull struct {
			Heartbeat time.Duration `json:"idle_heartbeat"`
		}
		natstest.Check(t, json.Unmarshal(m.Data, &pull))
		if pull.Heartbeat != time.Second {
			t.Errorf("%s", m.Data)
		}
	}
}

// An events stream from a version that published after the commit is adjusted for
// publishing before it. The embedded server's stream stays as it is.
func TestAnEventsStreamOfAnEarlierVersionTakesBatches(t *testing.T) {
	js := jstest.New(t)
	ctx := natstest.Within(t)
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: queue.EventsStream("main"), Description: "ours", Subjects: []string{queue.EventSubject("main", ">")}, Discard: jetstream.DiscardNew,
		DenyDelete: true, DenyPurge: true, AllowDirect: true, Duplicates: 100 * time.Millisecond,
	})
	natstest.Check(t, err)
	j := newJournal("a", 10)
	for n := range 5 {
		msg, err := eventMessage("main", &j.rows[n])
		natstest.Check(t, err)
		_, err = js.Store(ctx, msg)
		natstest.Check(t, err)
	}
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1}.Ensure(ctx, js))
	info, err := events.Of(js, "main").Info(ctx)
	natstest.Check(t, err)
	if !info.Config.AllowAtomicPublish || info.Config.Description != "ours" || info.Config.PersistMode == jetstream.AsyncPersistMode || info.State.LastSeq != 5 {
		t.Errorf("%+v", info)
	}
	natstest.Check(t, publishesFirst(js).Publish(ctx, j.rows[5:]))
	published(t, js, j, 10)
}

// BenchmarkOutbox publishes journal rows of one kilobyte.
func BenchmarkOutbox(b *testing.B) {
	js := newMain(b)
	rows := newJournal("a", b.N)
	payload := make([]byte, 1024)
	for i := range rows.rows {
		rows.rows[i].Payload = payload
	}
	b.ResetTimer()
	outbox, _ := startOutbox(b, js, rows)
	natstest.Check(b, outbox.Wait(context.Background(), uint64(b.N)))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
