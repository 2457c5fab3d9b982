package events

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
	"perennial/queue/positions"
	"perennial/queue/streams"
)

// fill publishes rows on the events stream like an outbox.
func fill(t testing.TB, js *queue.JetStream, from, to int, body func(seq int) string) {
	t.Helper()
	for seq := from; seq <= to; seq++ {
		_, err := js.PublishMsg(natstest.Within(t), &nats.Msg{
			Subject: queue.EventSubject("main", "order.delivered"), Data: []byte(body(seq)),
			Header: nats.Header{HeaderSeq: {strconv.Itoa(seq)}, HeaderHash: {"a-" + strconv.Itoa(seq)}},
		})
		natstest.Check(t, err)
	}
}

func plain(seq int) string { return `{"id":"main/1/` + strconv.Itoa(seq) + `"}` }

func alone(context.Context) error { return nil }

func state(t *testing.T, js *queue.JetStream) State {
	t.Helper()
	s, err := Of(js, "main").State(natstest.Within(t))
	natstest.Check(t, err)
	return s
}

func TestBoundEventsRemovesExactlyTheFirstAndTheBytesShrink(t *testing.T) {
	t.Parallel()
	for name, embedded := range map[string]bool{"embedded": true, "external": false} {
		t.Run(name, func(t *testing.T) {
			js := jstest.New(t)
			natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: embedded}.Ensure(natstest.Within(t), js))
			fill(t, js, 1, 5000, plain)
			before := state(t, js)
			for _, first := range []uint64{2001, 2000, 4990} {
				natstest.Check(t, Of(js, "main").Bound(natstest.Within(t), Bounding{First: first, Alone: alone}))
				after := state(t, js)
				if want := max(first, 2001); after.First != want || after.Last != 5000 || after.Messages != 5001-want || after.Cut || after.Bytes >= before.Bytes {
					t.Fatalf("bounded to %d: %+v, before %+v", first, after, before)
				}
			}
			natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), js))
			fill(t, js, 5001, 5010, plain)
			if s := state(t, js); s.First != 4990 || s.Last != 5010 {
				t.Errorf("what is published behind it: %+v", s)
			}
		})
	}
}

func TestAStreamThatWasCutIsClosedUntilOpened(t *testing.T) {
	js := newMain(t)
	fill(t, js, 1, 100, plain)
	for _, removed := range []bool{false, true} {
		stream, err := js.Stream(natstest.Within(t), queue.EventsStream("main"))
		natstest.Check(t, err)
		cut := streams.CutConfig(stream.CachedInfo().Config, 50)
		if removed {
			cut.MaxMsgs, cut.Discard = 51, jetstream.DiscardOld
		}
		_, err = js.UpdateStream(natstest.Within(t), cut)
		natstest.Check(t, err)
		if _, err := js.Publish(natstest.Within(t), queue.EventSubject("main", "order.delivered"), []byte("from elsewhere")); err == nil || !state(t, js).Cut {
			t.Errorf("it takes what is published: %+v", state(t, js))
		}
		natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Check(natstest.Within(t), js))
		natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), js))
		if s := state(t, js); s.Cut || s.Last != 100 || s.First > 50 {
			t.Errorf("opened again: %+v", s)
		}
	}
	fill(t, js, 101, 101, plain)
	if s := state(t, js); s.First != 50 || s.Last != 101 {
		t.Errorf("a limit is left: %+v", s)
	}
}

func TestALimitOfAnotherProgramIsStillRefused(t *testing.T) {
	js := newMain(t)
	stream, err := js.Stream(natstest.Within(t), queue.EventsStream("main"))
	natstest.Check(t, err)
	config := stream.CachedInfo().Config
	config.MaxMsgs, config.Discard = 10, jetstream.DiscardOld
	_, err = js.UpdateStream(natstest.Within(t), config)
	natstest.Check(t, err)
	var refused *queue.StreamError
	if err := (streams.Wanted{Account: "main", Replicas: 1, Embedded: true}).Ensure(natstest.Within(t), js); !errors.As(err, &refused) || refused.Field != "max_msgs" {
		t.Errorf("got %v", err)
	}
}

func TestNothingIsRemovedWhileAnotherRunnerHasTheAccount(t *testing.T) {
	js := newMain(t)
	fill(t, js, 1, 100, plain)
	taken := errors.New("another runner has it")
	err := Of(js, "main").Bound(natstest.Within(t), Bounding{First: 50, Alone: func(context.Context) error { return taken }})
	if s := state(t, js); !errors.Is(err, taken) || s.First != 1 || s.Cut {
		t.Errorf("%v %+v", err, s)
	}
	if err := Of(js, "main").Bound(natstest.Within(t), Bounding{First: 101, Alone: alone}); err == nil || state(t, js).First != 1 {
		t.Errorf("nothing is to stay: %v", err)
	}
}

func TestUnreadEventsNamesEveryDurableConsumerAndItsPlace(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	fill(t, js, 1, 100, plain)
	name := queue.EventsStream("main")
	consumerOf := func(c jetstream.ConsumerConfig) jetstream.Consumer {
		consumer, err := js.CreateConsumer(natstest.Within(t), name, c)
		natstest.Check(t, err)
		return consumer
	}
	acked := consumerOf(jetstream.ConsumerConfig{Durable: "acked-40", AckPolicy: jetstream.AckExplicitPolicy})
	batch, err := acked.Fetch(60) // 20 of them are delivered but not acknowledged
	natstest.Check(t, err)
	n := 0
	for m := range batch.Messages() {
		if n++; n <= 40 {
			natstest.Check(t, m.DoubleAck(natstest.Within(t)))
		}
	}
	consumerOf(jetstream.ConsumerConfig{Durable: "nothing-yet", AckPolicy: jetstream.AckAllPolicy})
	consumerOf(jetstream.ConsumerConfig{Durable: "from-90", AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: 90})
	consumerOf(jetstream.ConsumerConfig{Durable: "new-ones", AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverNewPolicy})
	consumerOf(jetstream.ConsumerConfig{Durable: "of-another-type", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: queue.EventSubject("main", "never.published")})
	consumerOf(jetstream.ConsumerConfig{Durable: "without-acks", AckPolicy: jetstream.AckNonePolicy})
	consumerOf(jetstream.ConsumerConfig{Name: "ephemeral", AckPolicy: jetstream.AckExplicitPolicy})
	older, err := js.Conn().JetStream()
	natstest.Check(t, err)
	_, err = older.AddConsumer(name, &nats.ConsumerConfig{Durable: "pushed", DeliverSubject: "somewhere", AckPolicy: nats.AckExplicitPolicy})
	natstest.Check(t, err)
	unread, err := Of(js, "main").Unread(natstest.Within(t))
	natstest.Check(t, err)
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
	js := newMain(t)
	if _, found, err := Of(js, "main").Last(natstest.Within(t)); found || err != nil {
		t.Fatal(found, err)
	}
	fill(t, js, 1, 10, plain)
	from, err := Of(js, "main").firstWatched(natstest.Within(t), From{New: true})
	natstest.Check(t, err)
	if from != 11 {
		t.Fatal(from)
	}
	ctx, cancel := context.WithCancel(natstest.Within(t))
	defer cancel()
	var last error
	for event, err := range Of(js, "main").Follow(ctx, From{Seq: 10}) {
		if err == nil && event.Seq != 10 {
			t.Fatalf("%+v", event)
		}
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Fatal(last)
	}
	for _, err := range Of(js, "other").Follow(natstest.Within(t), From{}) {
		if !errors.Is(err, queue.ErrNoAccount) {
			t.Fatal(err)
		}
	}
}

// Webhooks that have delivered all events are not listed.
func TestUnreadEventsNamesWebhooksThatAreBehind(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	fill(t, js, 1, 100, plain)
	natstest.Check(t, positions.Of(js, "main").Ensure(natstest.Within(t), 1))
	for name, seq := range map[string]uint64{"behind": 40, "at-the-end": 100, "begins": 0} {
		_, err := positions.Of(js, "main").Write(natstest.Within(t), name, positions.Position{Mark: positions.Mark{Seq: seq}, Read: positions.Mark{Seq: 100}}, 0)
		natstest.Check(t, err)
	}
	unread, err := Of(js, "main").Unread(natstest.Within(t))
	natstest.Check(t, err)
	if fmt.Sprint(unread) != "[{webhook begins 1} {webhook behind 41}]" || WebhookOf(unread[1].Consumer) != "behind" || WebhookOf("behind") != "" {
		t.Errorf("%v", unread)
	}
}

// The stream begins after an archive.
func TestAnEventIsFoundByItsSequenceAndItsTime(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	began := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	fill(t, js, 1, 100, func(seq int) string {
		return fmt.Sprintf(`{"time":%q}`, began.Add(time.Duration(seq-1)*time.Hour).Format(time.RFC3339))
	})
	natstest.Check(t, Of(js, "main").Bound(natstest.Within(t), Bounding{First: 31, Alone: alone}))
	for seq, want := range map[uint64]bool{30: false, 31: true, 100: true, 101: false} {
		if e, found, err := Of(js, "main").At(natstest.Within(t), seq); err != nil || found != want || found && (e.Seq != seq || e.Hash == "") {
			t.Errorf("event %d: %+v %t %v", seq, e, found, err)
		}
	}
	for at, want := range map[time.Duration]uint64{0: 31, 30 * time.Hour: 31, 40 * time.Hour: 41, 40*time.Hour + 1: 42, 1000 * time.Hour: 101} {
		if got, err := Of(js, "main").FirstSince(natstest.Within(t), began.Add(at)); err != nil || got != want {
			t.Errorf("since %s: %d, want %d: %v", at, got, want, err)
		}
	}
}
