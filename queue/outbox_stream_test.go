package queue

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// filled publishes so many rows on the events stream, and gives their journal.
func filled(t *testing.T, q *Queue, rows int) *journal {
	t.Helper()
	j := newJournal("own", rows)
	runOutboxTo(t, q, j, uint64(rows))
	return j
}

// runOutboxTo publishes a journal up to a row.
func runOutboxTo(t *testing.T, q *Queue, j *journal, last uint64) {
	t.Helper()
	outbox := NewOutbox(q.JetStream(), "main", j)
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan struct{})
	go func() { defer close(done); _ = outbox.Run(ctx) }()
	check(t, outbox.Wait(within(t), last))
	cancel()
	receive(t, done)
}

func TestTheOutboxRefusesAStreamThatLostTooMuch(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	j := filled(t, q, 3000)
	check(t, EventsOf(q.JetStream(), "main").Bound(within(t), Bounding{First: 1001, Alone: func(context.Context) error { return nil }}))
	for latest, refused := range map[uint64]bool{0: true, 1000: true, 1001: false, 2000: false} {
		outbox := NewOutbox(q.JetStream(), "main", j)
		outbox.Begins = func(context.Context) (uint64, error) { return latest, nil }
		last, err := outbox.findPlace(within(t))
		var diverged *DivergedError
		if errors.As(err, &diverged) != refused || !refused && last != 3000 {
			t.Errorf("to begin with %d at the latest: %d %v", latest, last, err)
		}
	}
}

// A replica answers direct reads, and may be behind: nothing that decides asks for one.
func TestNoReplicaIsAskedForRowsThatDecide(t *testing.T) {
	q := newExternal(t)
	direct, err := q.nc.SubscribeSync("$JS.API.DIRECT.>")
	check(t, err)
	asked, err := q.nc.SubscribeSync("$JS.API.STREAM.MSG.GET." + EventsStream("main"))
	check(t, err)
	j := newJournal("a", 3)
	p := publishesFirst(q)
	check(t, p.Publish(within(t), j.rows))
	check(t, p.Publish(within(t), j.rows)) // compared
	_, _, err = EventsOf(q.JetStream(), "main").LastRow(within(t))
	check(t, err)
	check(t, q.nc.Flush())
	if n, _, err := direct.Pending(); n != 0 || err != nil {
		t.Errorf("%d direct reads: %v", n, err)
	}
	if n, _, err := asked.Pending(); n != 4 || err != nil {
		t.Errorf("the leader was asked %d times: %v", n, err)
	}
}

// A follower whose server or consumer is gone without a word notices it within seconds.
func TestFollowersAskForAHeartbeatEachSecond(t *testing.T) {
	q := newExternal(t)
	pulls, err := q.nc.SubscribeSync("$JS.API.CONSUMER.MSG.NEXT." + EventsStream("main") + ".>")
	check(t, err)
	j := newJournal("a", 3)
	check(t, publishesFirst(q).Publish(within(t), j.rows))
	for _, err := range EventsOf(q.JetStream(), "main").Follow(within(t), WatchFrom{}) {
		check(t, err)
		break
	}
	_, err = NewOutbox(q.JetStream(), "main", j).findPlace(within(t))
	check(t, err)
	for range 2 {
		m, err := pulls.NextMsgWithContext(within(t))
		check(t, err)
		var pull struct {
			Heartbeat time.Duration `json:"idle_heartbeat"`
		}
		check(t, json.Unmarshal(m.Data, &pull))
		if pull.Heartbeat != time.Second {
			t.Errorf("%s", m.Data)
		}
	}
}

// An events stream of a version that published after the commit gets what publishing
// before it needs. The server inside the process keeps what it has.
func TestAnEventsStreamOfAnEarlierVersionTakesBatches(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	_, err := q.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: EventsStream("main"), Description: "ours", Subjects: []string{EventSubject("main", ">")}, Discard: jetstream.DiscardNew,
		DenyDelete: true, DenyPurge: true, AllowDirect: true, Duplicates: 100 * time.Millisecond,
	})
	check(t, err)
	j := newJournal("a", 10)
	for n := range 5 {
		msg, err := eventMessage("main", &j.rows[n])
		check(t, err)
		_, err = q.JetStream().Store(ctx, msg)
		check(t, err)
	}
	check(t, Wanted{Account: "main", Replicas: 1}.Ensure(ctx, q.JetStream()))
	info, err := EventsOf(q.JetStream(), "main").Info(ctx)
	check(t, err)
	if !info.Config.AllowAtomicPublish || info.Config.Description != "ours" || info.Config.PersistMode == jetstream.AsyncPersistMode || info.State.LastSeq != 5 {
		t.Errorf("%+v", info)
	}
	check(t, publishesFirst(q).Publish(ctx, j.rows[5:]))
	published(t, q, j, 10)
}

// BenchmarkOutbox publishes journal rows of one kilobyte.
func BenchmarkOutbox(b *testing.B) {
	q := newQueue(b)
	rows := newJournal("a", b.N)
	payload := make([]byte, 1024)
	for i := range rows.rows {
		rows.rows[i].Payload = payload
	}
	b.ResetTimer()
	outbox, _ := startOutbox(b, q, rows)
	check(b, outbox.Wait(context.Background(), uint64(b.N)))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
