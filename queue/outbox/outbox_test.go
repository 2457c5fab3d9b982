package outbox

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
	"perennial/queue/streams"
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
	case <-natstest.Within(t).Done():
		t.Fatal("the outbox goes on")
	}
	return nil
}

// published reads the stream and compares it with the journal, row by row.
func published(t testing.TB, js *queue.JetStream, j *journal, rows int) {
	t.Helper()
	next := uint64(1)
	for event, err := range events.Of(js, "main").Follow(natstest.Within(t), events.From{}) {
		natstest.Check(t, err)
		if event.Seq != next || event.StreamSeq != next || event.Hash != j.rows[next-1].Hash ||
			event.Type != "order.delivered" || string(event.Data) != string(j.rows[next-1].Payload) {
			t.Fatalf("at %d: %+v", next, event)
		}
		if next++; next > uint64(rows) {
			break
		}
	}
	last, found, err := events.Of(js, "main").Last(natstest.Within(t))
	natstest.Check(t, err)
	if !found || last.StreamSeq != uint64(rows) {
		t.Fatalf("last event %+v", last)
	}
}

func TestEveryFactIsPublishedOnceAndInOrder(t *testing.T) {
	js := newMain(t)
	j := newJournal("a", 1000)
	outbox, _ := startOutbox(t, js, j)
	natstest.Check(t, outbox.Wait(natstest.Within(t), 1000))
	j.append("a", 3)
	natstest.Check(t, outbox.Wait(natstest.Within(t), 1003))
	if outbox.Published() != 1003 {
		t.Fatal(outbox.Published())
	}
	published(t, js, j, 1003)
}

func TestTheOutboxGoesOnAfterARestartOfTheServer(t *testing.T) {
	t.Parallel()
	server := natstest.Serve(t, t.TempDir())
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), jstest.Connect(t, server.URL())))
	js := jstest.Connect(t, server.URL())
	j := newJournal("a", 500)
	outbox, _ := startOutbox(t, js, j)
	natstest.Check(t, outbox.Wait(natstest.Within(t), 500))
	server.Shutdown()
	j.append("a", 500)

	server.Start()
	natstest.Check(t, outbox.Wait(natstest.Within(t), 1000))
	published(t, js, j, 1000)
}

// A reconnect over a slow line must not cost a round trip for each event.
func TestTheOutboxFindsItsPlaceInAFewRequests(t *testing.T) {
	js := newMain(t)
	j := newJournal("a", 700)
	outbox, _ := startOutbox(t, js, j)
	natstest.Check(t, outbox.Wait(natstest.Within(t), 700))
	requests, err := js.Conn().SubscribeSync("$JS.API.>")
	natstest.Check(t, err)
	natstest.Check(t, js.Conn().Flush())
	again := New(js, "main", j)
	place, err := again.findPlace(natstest.Within(t))
	natstest.Check(t, err)
	if place != 700 {
		t.Errorf("it goes on behind %d", place)
	}
	natstest.Check(t, js.Conn().Flush())
	if n, _, err := requests.Pending(); err != nil || n > 20 {
		t.Errorf("%d requests for 700 events: %v", n, err)
	}
}

func TestAnEventsStreamsLostTailIsRefilled(t *testing.T) {
	dir, old := t.TempDir(), t.TempDir()
	j := newJournal("a", 100)
	run := func(rows int) *queue.JetStream {
		server := natstest.Serve(t, dir)
		js := jstest.Connect(t, server.URL())
		natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), js))
		outbox := New(js, "main", j)
		ctx, cancel := context.WithCancel(natstest.Within(t))
		done := make(chan struct{})
		go func() { defer close(done); _ = outbox.Run(ctx) }()
		natstest.Check(t, outbox.Wait(ctx, uint64(rows)))
		cancel()
		natstest.Receive(t, done)
		if rows == 100 || rows == 200 {
			js.Conn().Close()
			server.Shutdown()
		}
		return js
	}
	run(100)
	natstest.Check(t, os.CopyFS(old, os.DirFS(dir)))
	j.append("a", 100)
	run(200)
	natstest.Check(t, os.RemoveAll(dir))
	natstest.Check(t, os.CopyFS(dir, os.DirFS(old)))
	j.append("a", 5)
	published(t, run(205), j, 205)
}

func TestLedgerOlderThanItsEventsStopsTheAccount(t *testing.T) {
	js := newMain(t)
	outbox, _ := startOutbox(t, js, newJournal("a", 20))
	natstest.Check(t, outbox.Wait(natstest.Within(t), 20))
	_, result := startOutbox(t, js, newJournal("a", 15))
	if d := awaitDiverged(t, result); d.StreamSeq != 20 || d.Account != "main" || !strings.Contains(d.Reason, "ahead") {
		t.Fatal(d)
	}
}

func TestRewrittenLedgerStopsTheAccount(t *testing.T) {
	js := newMain(t)
	outbox, _ := startOutbox(t, js, newJournal("a", 20))
	natstest.Check(t, outbox.Wait(natstest.Within(t), 20))
	_, result := startOutbox(t, js, newJournal("b", 25))
	if d := awaitDiverged(t, result); d.StreamHash != "a-20" || d.LedgerHash != "b-20" {
		t.Fatal(d)
	}
}

func TestForeignMessageAmongTheEventsStopsTheAccount(t *testing.T) {
	js := newMain(t)
	j := newJournal("a", 20)
	outbox, result := startOutbox(t, js, j)
	natstest.Check(t, outbox.Wait(natstest.Within(t), 20))
	_, err := js.Store(natstest.Within(t), &nats.Msg{Subject: queue.EventSubject("main", "order.delivered"), Data: []byte("me too")})
	natstest.Check(t, err)
	j.append("a", 3) // in one call, because a second row on its own would be stored right after the other client's message
	if d := awaitDiverged(t, result); !strings.Contains(d.Reason, "another publisher") {
		t.Fatal(d)
	}
}

func TestAnEmptiedEventsStreamIsNotRefilledUnasked(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	j := newJournal("a", 20)
	outbox := New(js, "main", j)
	outbox.Held, outbox.RefillAdvice = Held{Last: 20, Firm: 1}, "ask for it"
	if d := awaitDiverged(t, runOutbox(t, outbox)); !strings.Contains(d.Reason, "rows up to 20") || !strings.Contains(d.Reason, "ask for it") {
		t.Fatal(d)
	}
	isEmpty(t, js)
	again := New(js, "main", j)
	again.Held, again.Refill = Held{Last: 20, Firm: 20}, true
	result := runOutbox(t, again)
	natstest.Check(t, again.Wait(natstest.Within(t), 20))
	published(t, js, j, 20)
	natstest.Check(t, js.DeleteStream(natstest.Within(t), queue.EventsStream("main"))) // it was requested once
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), js))
	j.append("a", 1)
	if d := awaitDiverged(t, result); !strings.Contains(d.Reason, "empty") {
		t.Fatal(d)
	}
}

// The outbox knows what it published, even without Held.
func TestAStreamRemovedUnderItsOutboxStopsTheAccount(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	j := newJournal("a", 20)
	outbox, result := startOutbox(t, js, j)
	natstest.Check(t, outbox.Wait(natstest.Within(t), 20))
	natstest.Check(t, js.DeleteStream(natstest.Within(t), queue.EventsStream("main")))
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), js))
	j.append("a", 1)
	if d := awaitDiverged(t, result); !strings.Contains(d.Reason, "empty") {
		t.Fatal(d)
	}
	isEmpty(t, js)
}

func isEmpty(t testing.TB, js *queue.JetStream) {
	t.Helper()
	if last, found, err := events.Of(js, "main").Last(natstest.Within(t)); found || err != nil {
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
