package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// fill publishes rows on the events stream as an outbox does.
func fill(t testing.TB, q *Queue, from, to int, body func(seq int) string) {
	t.Helper()
	for seq := from; seq <= to; seq++ {
		_, err := q.js.PublishMsg(within(t), &nats.Msg{
			Subject: EventSubject("main", "order.delivered"), Data: []byte(body(seq)),
			Header: nats.Header{HeaderSeq: {strconv.Itoa(seq)}, HeaderHash: {"a-" + strconv.Itoa(seq)}},
		})
		check(t, err)
	}
}

func plain(seq int) string { return `{"id":"main/1/` + strconv.Itoa(seq) + `"}` }

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
			fill(t, q, 1, 5000, plain)
			before := state(t, q)
			for _, first := range []uint64{2001, 2000, 4990} {
				check(t, EventsOf(q.JetStream(), "main").Bound(within(t), Bounding{First: first, Alone: alone}))
				after := state(t, q)
				if want := max(first, 2001); after.First != want || after.Last != 5000 || after.Messages != 5001-want || after.Cut || after.Bytes >= before.Bytes {
					t.Fatalf("bounded to %d: %+v, before %+v", first, after, before)
				}
			}
			check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(within(t), q.JetStream()))
			fill(t, q, 5001, 5010, plain)
			if s := state(t, q); s.First != 4990 || s.Last != 5010 {
				t.Errorf("what is published behind it: %+v", s)
			}
		})
	}
}

func TestAStreamThatWasCutIsClosedUntilOpened(t *testing.T) {
	q := newQueue(t)
	fill(t, q, 1, 100, plain)
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
	fill(t, q, 101, 101, plain)
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
	fill(t, q, 1, 100, plain)
	taken := errors.New("another runner has it")
	err := EventsOf(q.JetStream(), "main").Bound(within(t), Bounding{First: 50, Alone: func(context.Context) error { return taken }})
	if s := state(t, q); !errors.Is(err, taken) || s.First != 1 || s.Cut {
		t.Errorf("%v %+v", err, s)
	}
	if err := EventsOf(q.JetStream(), "main").Bound(within(t), Bounding{First: 101, Alone: alone}); err == nil || state(t, q).First != 1 {
		t.Errorf("nothing is to stay: %v", err)
	}
}

func TestUnreadEventsNamesEveryDurableConsumerAndItsPlace(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	fill(t, q, 1, 100, plain)
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

func TestWatcherThatWantsNewEventsGetsNoOldOnes(t *testing.T) {
	q := newQueue(t)
	if _, found, err := EventsOf(q.JetStream(), "main").Last(within(t)); found || err != nil {
		t.Fatal(found, err)
	}
	fill(t, q, 1, 10, plain)
	from, err := EventsOf(q.JetStream(), "main").firstWatched(within(t), WatchFrom{New: true})
	check(t, err)
	if from != 11 {
		t.Fatal(from)
	}
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var last error
	for event, err := range EventsOf(q.JetStream(), "main").Follow(ctx, WatchFrom{Seq: 10}) {
		if err == nil && event.Seq != 10 {
			t.Fatalf("%+v", event)
		}
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Fatal(last)
	}
	for _, err := range EventsOf(q.JetStream(), "other").Follow(within(t), WatchFrom{}) {
		if !errors.Is(err, ErrNoAccount) {
			t.Fatal(err)
		}
	}
}

// TestUnreadEventsNamesWebhooksThatAreBehind, and none that has delivered all.
func TestUnreadEventsNamesWebhooksThatAreBehind(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	fill(t, q, 1, 100, plain)
	check(t, PositionsOf(q.JetStream(), "main").Ensure(within(t), 1))
	for name, seq := range map[string]uint64{"behind": 40, "at-the-end": 100, "begins": 0} {
		_, err := PositionsOf(q.JetStream(), "main").Write(within(t), name, WebhookPosition{EventMark: EventMark{Seq: seq}, Read: EventMark{Seq: 100}}, 0)
		check(t, err)
	}
	unread, err := EventsOf(q.JetStream(), "main").Unread(within(t))
	check(t, err)
	if fmt.Sprint(unread) != "[{webhook begins 1} {webhook behind 41}]" || WebhookOf(unread[1].Consumer) != "behind" || WebhookOf("behind") != "" {
		t.Errorf("%v", unread)
	}
}

// TestAnEventIsFoundByItsSequenceAndItsTime on a stream that begins behind an archive.
func TestAnEventIsFoundByItsSequenceAndItsTime(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	began := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	fill(t, q, 1, 100, func(seq int) string {
		return fmt.Sprintf(`{"time":%q}`, began.Add(time.Duration(seq-1)*time.Hour).Format(time.RFC3339))
	})
	check(t, EventsOf(q.JetStream(), "main").Bound(within(t), Bounding{First: 31, Alone: alone}))
	for seq, want := range map[uint64]bool{30: false, 31: true, 100: true, 101: false} {
		if e, found, err := EventsOf(q.JetStream(), "main").At(within(t), seq); err != nil || found != want || found && (e.Seq != seq || e.Hash == "") {
			t.Errorf("event %d: %+v %t %v", seq, e, found, err)
		}
	}
	for at, want := range map[time.Duration]uint64{0: 31, 30 * time.Hour: 31, 40 * time.Hour: 41, 40*time.Hour + 1: 42, 1000 * time.Hour: 101} {
		if got, err := EventsOf(q.JetStream(), "main").FirstSince(within(t), began.Add(at)); err != nil || got != want {
			t.Errorf("since %s: %d, want %d: %v", at, got, want, err)
		}
	}
}
