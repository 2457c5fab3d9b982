package intake

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
	"perennial/queue/publish"
	"perennial/queue/streams"
)

func outgoingOf(line queue.Line, n int) []publish.Outgoing {
	all := make([]publish.Outgoing, n)
	for i := range all {
		all[i] = publish.Outgoing{Kind: line.Kind, Priority: line.Priority, Data: fmt.Appendf(nil, `{"id":"%s-%d"}`, streams.ConsumerOf(line), i)}
	}
	return all
}

// Commands held by one line, fetched or not, do not keep another line from its commands.
func TestNoLineWaitsForAnother(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	natstest.Check(t, publish.New(js).PublishCommands(natstest.Within(t), "main", outgoingOf(bulk, 2000)))
	for _, line := range queue.Lines() {
		natstest.Check(t, publish.New(js).Publish(natstest.Within(t), "main", outgoingOf(line, 1)[0]))
	}
	intake := openIntake(t, js)
	takeFrom(t, intake, bulk, 1) // the rest of its buffer stays full
	for _, line := range queue.Lines() {
		m := takeFrom(t, intake, line, 1)[0]
		if m.Kind != line.Kind || m.Priority != line.Priority || m.Subject != line.Subject("main") {
			t.Errorf("%+v came by %v", m, line)
		}
	}
}

// A purge of one line removes nothing of another, whatever their order and
// acknowledgements.
func TestAPurgeOfALineKeepsTheOthers(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	lines := []queue.Line{renewals, orders, bulk}
	var mixed []publish.Outgoing
	for n := range 400 {
		for _, line := range lines {
			mixed = append(mixed, outgoingOf(line, n+1)[n])
		}
	}
	natstest.Check(t, publish.New(js).PublishCommands(natstest.Within(t), "main", mixed))
	intake := openIntake(t, js)
	kept := takeFrom(t, intake, orders, 400)
	for i := range kept[:100] {
		natstest.Check(t, kept[i].Ack())
	}
	for _, line := range []queue.Line{bulk, renewals} {
		for _, m := range takeFrom(t, intake, line, 400) {
			natstest.Check(t, m.Ack())
		}
	}
	awaitCount(t, js, 300)
	stream, err := js.Stream(natstest.Within(t), queue.CommandsStream("main"))
	natstest.Check(t, err)
	for i := range kept[100:] {
		if _, err := stream.GetMsg(natstest.Within(t), kept[100+i].StreamSequence); err != nil {
			t.Fatalf("command %d was removed with those of another line: %v", i, err)
		}
		natstest.Check(t, kept[100+i].Ack())
	}
	awaitEmpty(t, js, "main")
}

// A new consumer numbers its deliveries from 1. If its first deliveries are lost with a connection, the
// next number may be the one after those of the old consumer, so the run must end before.
func TestARunDoesNotOutliveItsConsumer(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	natstest.Check(t, publish.New(js).PublishCommands(natstest.Within(t), "main", outgoingOf(orders, 1)))
	intake := openIntake(t, js)
	m := takeFrom(t, intake, orders, 1)[0]
	natstest.Check(t, m.Ack())
	awaitEmpty(t, js, "main")
	acks := intake.lines[orders].acks
	number := func() int {
		acks.mu.Lock()
		defer acks.mu.Unlock()
		return acks.number
	}
	before := number()
	natstest.Check(t, js.DeleteConsumer(natstest.Within(t), queue.CommandsStream("main"), streams.ConsumerOf(orders)))
	for ctx := natstest.Within(t); number() == before; {
		_, err := js.Stream(ctx, queue.CommandsStream("main"))
		natstest.Check(t, err)
	}
}

// behind is a stream whose leader has not applied the newest commands yet. The replica that delivers
// them may be ahead of it.
type behind struct {
	jetstream.Stream

	info *jetstream.StreamInfo
}

func (b behind) Info(context.Context, ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return b.info, nil
}

// A leader that is behind does not show the other line's command that the purge would remove.
func TestAPurgeTrustsNoLeaderThatIsBehind(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	publisher, all := publish.New(js), outgoingOf(orders, 21)
	natstest.Check(t, publisher.PublishCommands(natstest.Within(t), "main", all[:20]))
	stream, err := js.Stream(natstest.Within(t), queue.CommandsStream("main"))
	natstest.Check(t, err)
	info, err := stream.Info(natstest.Within(t), jetstream.WithSubjectFilter(queue.CommandSubject("main", ">")))
	natstest.Check(t, err)
	natstest.Check(t, publisher.PublishCommands(natstest.Within(t), "main", []publish.Outgoing{outgoingOf(renewals, 1)[0], all[20]}))
	intake := openIntake(t, js)
	intake.lines[orders].acks.stream = behind{stream, info}
	for _, m := range takeFrom(t, intake, orders, 21) {
		natstest.Check(t, m.Ack())
	}
	awaitCount(t, js, 1)
	if _, err := stream.GetMsg(natstest.Within(t), 21); err != nil {
		t.Errorf("the command of the other line was removed: %v", err)
	}
}

// A resting line requests and holds nothing: the server keeps all its commands.
func TestALineThatRestsHoldsNothing(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	natstest.Check(t, publish.New(js).PublishCommands(natstest.Within(t), "main", outgoing(1000)))
	intake := openIntake(t, js)
	first := take(t, intake, 10)
	intake.Rest(renewals)
	awaitStill(t, js, intake, len(first))
	for i := range first {
		natstest.Check(t, first[i].Ack())
	}
	awaitCount(t, js, 990)
	again := take(t, intake, 990)
	seen := map[string]bool{}
	for i := range again {
		seen[string(again[i].Data)] = true
		natstest.Check(t, again[i].Ack())
	}
	if len(seen) != 990 || seen[string(first[0].Data)] {
		t.Errorf("%d commands came behind the rest", len(seen))
	}
	awaitEmpty(t, js, "main")
}

// awaitStill returns when the intake requests nothing for renewals and has put back all
// commands except those taken. Purges wait until these come again.
func awaitStill(t testing.TB, js *queue.JetStream, intake *Intake, taken int) {
	t.Helper()
	acks := intake.lines[renewals].acks
	consumer, err := js.Consumer(natstest.Within(t), queue.CommandsStream("main"), streams.ConsumerOf(renewals))
	natstest.Check(t, err)
	for ctx := natstest.Within(t); ; {
		info, err := consumer.Info(ctx)
		natstest.Check(t, err)
		acks.mu.Lock()
		seen, back := acks.delivery, len(acks.returned)
		acks.mu.Unlock()
		if info.NumWaiting == 0 && uint64(back+taken) == seen {
			return
		}
	}
}

// A stream from an earlier version, with one consumer and its pending deliveries, continues
// with all lines.
func TestAnEarlierStreamGetsTheLines(t *testing.T) {
	t.Parallel()
	js := jstest.New(t)
	ctx := natstest.Within(t)
	old := jetstream.StreamConfig{
		Name: queue.CommandsStream("main"), Subjects: []string{queue.CommandSubject("main", queue.KindOrderCreate), queue.CommandSubject("main", queue.KindProxyRenew)},
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, AllowAtomicPublish: true, Duplicates: 100 * time.Millisecond, AllowDirect: true,
	}
	_, err := js.CreateStream(ctx, old)
	natstest.Check(t, err)
	consumer, err := js.CreateConsumer(ctx, old.Name, jetstream.ConsumerConfig{Durable: formerConsumer, AckPolicy: jetstream.AckExplicitPolicy})
	natstest.Check(t, err)
	natstest.Check(t, publish.New(js).PublishCommands(ctx, "main", outgoing(20)))
	_, err = consumer.Fetch(5)
	natstest.Check(t, err)
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(ctx, js))
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Check(ctx, js))
	natstest.Check(t, publish.New(js).Publish(ctx, "main", outgoingOf(bulk, 1)[0]))
	intake := openIntake(t, js)
	got := append(take(t, intake, 20), takeFrom(t, intake, bulk, 1)...)
	for i := range got {
		natstest.Check(t, got[i].Ack())
	}
	awaitEmpty(t, js, "main")
	stream, err := js.Stream(ctx, old.Name)
	natstest.Check(t, err)
	have := stream.CachedInfo().Config.Subjects
	for _, line := range queue.Lines() {
		if !slices.Contains(have, line.Subject("main")) {
			t.Errorf("the stream has no %s", line.Subject("main"))
		}
	}
}
