package queue

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// awaitDiverged returns the outbox's [DivergedError].
func awaitDiverged(t testing.TB, result <-chan error) *DivergedError {
	t.Helper()
	select {
	case err := <-result:
		var diverged *DivergedError
		if !errors.As(err, &diverged) {
			t.Fatal(err)
		}
		return diverged
	case <-within(t).Done():
		t.Fatal("the outbox goes on")
	}
	return nil
}

// published reads the stream and compares it with the journal, row by row.
func published(t testing.TB, q *Queue, j *journal, rows int) {
	t.Helper()
	next := uint64(1)
	for event, err := range EventsOf(q.JetStream(), "main").Follow(within(t), WatchFrom{}) {
		check(t, err)
		if event.Seq != next || event.StreamSeq != next || event.Hash != j.rows[next-1].Hash ||
			event.Type != "order.delivered" || string(event.Data) != string(j.rows[next-1].Payload) {
			t.Fatalf("at %d: %+v", next, event)
		}
		if next++; next > uint64(rows) {
			break
		}
	}
	last, found, err := EventsOf(q.JetStream(), "main").Last(within(t))
	check(t, err)
	if !found || last.StreamSeq != uint64(rows) {
		t.Fatalf("last event %+v", last)
	}
}

func TestEveryFactIsPublishedOnceAndInOrder(t *testing.T) {
	q := newQueue(t)
	j := newJournal("a", 1000)
	outbox, _ := startOutbox(t, q, j)
	check(t, outbox.Wait(within(t), 1000))
	j.append("a", 3)
	check(t, outbox.Wait(within(t), 1003))
	if outbox.Published() != 1003 {
		t.Fatal(outbox.Published())
	}
	published(t, q, j, 1003)
}

func TestTheOutboxGoesOnAfterARestartOfTheServer(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir())
	check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(within(t), connect(t, server).JetStream()))
	q := connect(t, server)
	j := newJournal("a", 500)
	outbox, _ := startOutbox(t, q, j)
	check(t, outbox.Wait(within(t), 500))
	server.Shutdown()
	j.append("a", 500)

	server.Start()
	check(t, outbox.Wait(within(t), 1000))
	published(t, q, j, 1000)
}

// A reconnect over a slow line must not cost a round trip for each event.
func TestTheOutboxFindsItsPlaceInAFewRequests(t *testing.T) {
	q := newQueue(t)
	j := newJournal("a", 700)
	outbox, _ := startOutbox(t, q, j)
	check(t, outbox.Wait(within(t), 700))
	requests, err := q.nc.SubscribeSync("$JS.API.>")
	check(t, err)
	check(t, q.nc.Flush())
	again := NewOutbox(q.JetStream(), "main", j)
	place, err := again.findPlace(within(t))
	check(t, err)
	if place != 700 {
		t.Errorf("it goes on behind %d", place)
	}
	check(t, q.nc.Flush())
	if n, _, err := requests.Pending(); err != nil || n > 20 {
		t.Errorf("%d requests for 700 events: %v", n, err)
	}
}

func TestAnEventsStreamsLostTailIsRefilled(t *testing.T) {
	dir, old := t.TempDir(), t.TempDir()
	j := newJournal("a", 100)
	run := func(rows int) *Queue {
		server := startServer(t, dir)
		q := connect(t, server)
		check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(within(t), q.JetStream()))
		outbox := NewOutbox(q.JetStream(), "main", j)
		ctx, cancel := context.WithCancel(within(t))
		done := make(chan struct{})
		go func() { defer close(done); _ = outbox.Run(ctx) }()
		check(t, outbox.Wait(ctx, uint64(rows)))
		cancel()
		receive(t, done)
		if rows == 100 || rows == 200 {
			q.Close()
			server.Shutdown()
		}
		return q
	}
	run(100)
	check(t, os.CopyFS(old, os.DirFS(dir)))
	j.append("a", 100)
	run(200)
	check(t, os.RemoveAll(dir))
	check(t, os.CopyFS(dir, os.DirFS(old)))
	j.append("a", 5)
	published(t, run(205), j, 205)
}

func TestLedgerOlderThanItsEventsStopsTheAccount(t *testing.T) {
	q := newQueue(t)
	outbox, _ := startOutbox(t, q, newJournal("a", 20))
	check(t, outbox.Wait(within(t), 20))
	_, result := startOutbox(t, q, newJournal("a", 15))
	if d := awaitDiverged(t, result); d.StreamSeq != 20 || d.Account != "main" || !strings.Contains(d.Reason, "ahead") {
		t.Fatal(d)
	}
}

func TestRewrittenLedgerStopsTheAccount(t *testing.T) {
	q := newQueue(t)
	outbox, _ := startOutbox(t, q, newJournal("a", 20))
	check(t, outbox.Wait(within(t), 20))
	_, result := startOutbox(t, q, newJournal("b", 25))
	if d := awaitDiverged(t, result); d.StreamHash != "a-20" || d.LedgerHash != "b-20" {
		t.Fatal(d)
	}
}

func TestForeignMessageAmongTheEventsStopsTheAccount(t *testing.T) {
	q := newQueue(t)
	j := newJournal("a", 20)
	outbox, result := startOutbox(t, q, j)
	check(t, outbox.Wait(within(t), 20))
	_, err := q.JetStream().Store(within(t), &nats.Msg{Subject: EventSubject("main", "order.delivered"), Data: []byte("me too")})
	check(t, err)
	j.append("a", 3) // at once: the second would be stored right after the stranger's message
	if d := awaitDiverged(t, result); !strings.Contains(d.Reason, "another publisher") {
		t.Fatal(d)
	}
}

func TestAnEmptiedEventsStreamIsNotRefilledUnasked(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	j := newJournal("a", 20)
	outbox := NewOutbox(q.JetStream(), "main", j)
	outbox.Held, outbox.RefillAdvice = Held{Last: 20, Firm: 1}, "ask for it"
	if d := awaitDiverged(t, runOutbox(t, outbox)); !strings.Contains(d.Reason, "rows up to 20") || !strings.Contains(d.Reason, "ask for it") {
		t.Fatal(d)
	}
	isEmpty(t, q)
	again := NewOutbox(q.JetStream(), "main", j)
	again.Held, again.Refill = Held{Last: 20, Firm: 20}, true
	result := runOutbox(t, again)
	check(t, again.Wait(within(t), 20))
	published(t, q, j, 20)
	check(t, q.js.DeleteStream(within(t), EventsStream("main"))) // it was asked for once
	check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(within(t), q.JetStream()))
	j.append("a", 1)
	if d := awaitDiverged(t, result); !strings.Contains(d.Reason, "empty") {
		t.Fatal(d)
	}
}

// The outbox itself knows what it published, without any note.
func TestAStreamRemovedUnderItsOutboxStopsTheAccount(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	j := newJournal("a", 20)
	outbox, result := startOutbox(t, q, j)
	check(t, outbox.Wait(within(t), 20))
	check(t, q.js.DeleteStream(within(t), EventsStream("main")))
	check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(within(t), q.JetStream()))
	j.append("a", 1)
	if d := awaitDiverged(t, result); !strings.Contains(d.Reason, "empty") {
		t.Fatal(d)
	}
	isEmpty(t, q)
}

func isEmpty(t testing.TB, q *Queue) {
	t.Helper()
	if last, found, err := EventsOf(q.JetStream(), "main").Last(within(t)); found || err != nil {
		t.Fatalf("%+v %v", last, err)
	}
}

func TestWhatAStreamMayLose(t *testing.T) {
	for _, test := range []struct {
		held    Held
		last    uint64
		refused bool
	}{
		{Held{}, 0, false},
		{Held{Last: 20}, 20, false},
		{Held{Last: 20, Firm: 15}, 25, false},
		{Held{Last: 20, Firm: 15}, 15, false}, // a power cut
		{Held{Last: 20, Firm: 15}, 14, true},
		{Held{Last: 20}, 1, false},
		{Held{Last: 20}, 0, false}, // a crash within minutes of the first start
		{Held{Last: 20, Firm: 1}, 0, true},
	} {
		if got := test.held.Missing(test.last); (got != "") != test.refused {
			t.Errorf("%+v, ends with %d: %q", test.held, test.last, got)
		}
	}
}
