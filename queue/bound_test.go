package queue

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
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

func alone(context.Context) error { return nil }

func state(t *testing.T, q *Queue) EventsState {
	t.Helper()
	s, err := EventsOf(q.JetStream(), "main").State(within(t))
	check(t, err)
	return s
}

func TestBoundEventsRemovesExactlyTheFirstAndTheBytesShrink(t *testing.T) {
	t.Parallel()
	for name, embedded := range map[string]bool{"embedded": true, "external": false} {
		t.Run(name, func(t *testing.T) {
			q := connect(t, startServer(t, t.TempDir()))
			check(t, Wanted{Account: "main", Replicas: 1, Embedded: embedded}.Ensure(within(t), q.JetStream()))
			j := filled(t, q, 5000)
			before := state(t, q)
			for _, first := range []uint64{2001, 2000, 4990} {
				check(t, EventsOf(q.JetStream(), "main").Bound(within(t), Bounding{First: first, Alone: alone}))
				after := state(t, q)
				if want := max(first, 2001); after.First != want || after.Last != 5000 || after.Messages != 5001-want || after.Cut || after.Bytes >= before.Bytes {
					t.Fatalf("bounded to %d: %+v, before %+v", first, after, before)
				}
			}
			check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(within(t), q.JetStream()))
			j.append("own", 10)
			outbox := NewOutbox(q.JetStream(), "main", j)
			outbox.Begins = func(context.Context) (uint64, error) { return 4990, nil }
			runOutbox(t, outbox)
			check(t, outbox.Wait(within(t), 5010))
			if s := state(t, q); s.First != 4990 || s.Last != 5010 {
				t.Errorf("what is published behind it: %+v", s)
			}
		})
	}
}

func TestAStreamThatWasCutIsClosedUntilOpened(t *testing.T) {
	q := newQueue(t)
	j := filled(t, q, 100)
	for _, removed := range []bool{false, true} {
		stream, err := q.js.Stream(within(t), EventsStream("main"))
		check(t, err)
		cut := CutConfig(stream.CachedInfo().Config, 50)
		if removed {
			cut.MaxMsgs, cut.Discard = 51, jetstream.DiscardOld
		}
		_, err = q.js.UpdateStream(within(t), cut)
		check(t, err)
		if _, err := q.js.Publish(within(t), EventSubject("main", "order.delivered"), []byte("from elsewhere")); err == nil || !state(t, q).Cut {
			t.Errorf("it takes what is published: %+v", state(t, q))
		}
		check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Check(within(t), q.JetStream()))
		check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(within(t), q.JetStream()))
		if s := state(t, q); s.Cut || s.Last != 100 || s.First > 50 {
			t.Errorf("opened again: %+v", s)
		}
	}
	j.append("own", 1)
	outbox := NewOutbox(q.JetStream(), "main", j)
	outbox.Begins = func(context.Context) (uint64, error) { return 50, nil }
	runOutbox(t, outbox)
	check(t, outbox.Wait(within(t), 101))
	if s := state(t, q); s.First != 50 || s.Last != 101 {
		t.Errorf("a limit is left: %+v", s)
	}
}

// A limit that is not an archiving's is refused, as ever.
func TestALimitOfAnotherProgramIsStillRefused(t *testing.T) {
	q := newQueue(t)
	stream, err := q.js.Stream(within(t), EventsStream("main"))
	check(t, err)
	config := stream.CachedInfo().Config
	config.MaxMsgs, config.Discard = 10, jetstream.DiscardOld
	_, err = q.js.UpdateStream(within(t), config)
	check(t, err)
	var refused *StreamError
	if err := (Wanted{Account: "main", Replicas: 1, Embedded: true}).Ensure(within(t), q.JetStream()); !errors.As(err, &refused) || refused.Field != "max_msgs" {
		t.Errorf("got %v", err)
	}
}

func TestNothingIsRemovedWhileAnotherRunnerHasTheAccount(t *testing.T) {
	q := newQueue(t)
	filled(t, q, 100)
	taken := errors.New("another runner has it")
	err := EventsOf(q.JetStream(), "main").Bound(within(t), Bounding{First: 50, Alone: func(context.Context) error { return taken }})
	if s := state(t, q); !errors.Is(err, taken) || s.First != 1 || s.Cut {
		t.Errorf("%v %+v", err, s)
	}
	if err := EventsOf(q.JetStream(), "main").Bound(within(t), Bounding{First: 101, Alone: alone}); err == nil || state(t, q).First != 1 {
		t.Errorf("nothing is to stay: %v", err)
	}
}

func TestTheOutboxRefusesAStreamThatLostTooMuch(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	j := filled(t, q, 3000)
	check(t, EventsOf(q.JetStream(), "main").Bound(within(t), Bounding{First: 1001, Alone: alone}))
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

func TestUnreadEventsNamesEveryDurableConsumerAndItsPlace(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	filled(t, q, 100)
	name := EventsStream("main")
	consumerOf := func(c jetstream.ConsumerConfig) jetstream.Consumer {
		consumer, err := q.js.CreateConsumer(within(t), name, c)
		check(t, err)
		return consumer
	}
	acked := consumerOf(jetstream.ConsumerConfig{Durable: "acked-40", AckPolicy: jetstream.AckExplicitPolicy})
	batch, err := acked.Fetch(60) // 20 of them are only delivered
	check(t, err)
	n := 0
	for m := range batch.Messages() {
		if n++; n <= 40 {
			check(t, m.DoubleAck(within(t)))
		}
	}
	consumerOf(jetstream.ConsumerConfig{Durable: "nothing-yet", AckPolicy: jetstream.AckAllPolicy})
	consumerOf(jetstream.ConsumerConfig{Durable: "from-90", AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: 90})
	consumerOf(jetstream.ConsumerConfig{Durable: "new-ones", AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverNewPolicy})
	consumerOf(jetstream.ConsumerConfig{Durable: "of-another-type", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: EventSubject("main", "never.published")})
	consumerOf(jetstream.ConsumerConfig{Durable: "without-acks", AckPolicy: jetstream.AckNonePolicy})
	consumerOf(jetstream.ConsumerConfig{Name: "ephemeral", AckPolicy: jetstream.AckExplicitPolicy})
	js, err := q.nc.JetStream()
	check(t, err)
	_, err = js.AddConsumer(name, &nats.ConsumerConfig{Durable: "pushed", DeliverSubject: "somewhere", AckPolicy: nats.AckExplicitPolicy})
	check(t, err)
	unread, err := EventsOf(q.JetStream(), "main").Unread(within(t))
	check(t, err)
	got := map[string]uint64{}
	for _, u := range unread {
		got[u.Consumer] = u.First
	}
	want := map[string]uint64{"acked-40": 41, "nothing-yet": 1, "from-90": 90, "without-acks": 1, "pushed": 1}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for consumer, first := range want {
		if got[consumer] != first {
			t.Errorf("%s needs %d and not %d", consumer, first, got[consumer])
		}
	}
}
