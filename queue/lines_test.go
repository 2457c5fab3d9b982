package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func outgoingOf(line Line, n int) []Outgoing {
	all := make([]Outgoing, n)
	for i := range all {
		all[i] = Outgoing{Kind: line.Kind, Priority: line.Priority, Data: fmt.Appendf(nil, `{"id":"%s-%d"}`, ConsumerOf(line), i)}
	}
	return all
}

// What one line holds, fetched or not, keeps no other line from its commands.
func TestNoLineWaitsForAnother(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	check(t, NewPublisher(q.JetStream()).PublishCommands(within(t), "main", outgoingOf(bulk, 2000)))
	for _, line := range Lines() {
		check(t, NewPublisher(q.JetStream()).Publish(within(t), "main", outgoingOf(line, 1)[0]))
	}
	intake := openIntake(t, q)
	takeFrom(t, intake, bulk, 1) // and the rest of its buffer stays full
	for _, line := range Lines() {
		m := takeFrom(t, intake, line, 1)[0]
		if m.Kind != line.Kind || m.Priority != line.Priority || m.Subject != line.Subject("main") {
			t.Errorf("%+v came by %v", m, line)
		}
	}
}

// A purge of one line removes nothing of another, in whatever order they lie and
// are acknowledged.
func TestAPurgeOfALineKeepsTheOthers(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	lines := []Line{renewals, orders, bulk}
	var mixed []Outgoing
	for n := range 400 {
		for _, line := range lines {
			mixed = append(mixed, outgoingOf(line, n+1)[n])
		}
	}
	check(t, NewPublisher(q.JetStream()).PublishCommands(within(t), "main", mixed))
	intake := openIntake(t, q)
	kept := takeFrom(t, intake, orders, 400)
	for i := range kept[:100] {
		check(t, kept[i].Ack())
	}
	for _, line := range []Line{bulk, renewals} {
		for _, m := range takeFrom(t, intake, line, 400) {
			check(t, m.Ack())
		}
	}
	awaitCount(t, q, 300)
	stream, err := q.js.Stream(within(t), CommandsStream("main"))
	check(t, err)
	for i := range kept[100:] {
		if _, err := stream.GetMsg(within(t), kept[100+i].StreamSequence); err != nil {
			t.Fatalf("command %d was removed with those of another line: %v", i, err)
		}
		check(t, kept[100+i].Ack())
	}
	awaitEmpty(t, q, "main")
}

// Of a line that rests nothing is asked for and nothing is held: the server keeps
// all of it, however long.
func TestALineThatRestsHoldsNothing(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	check(t, NewPublisher(q.JetStream()).PublishCommands(within(t), "main", outgoing(1000)))
	intake := openIntake(t, q)
	first := take(t, intake, 10)
	intake.Rest(renewals)
	awaitStill(t, q, intake, len(first))
	for i := range first {
		check(t, first[i].Ack())
	}
	awaitCount(t, q, 990)
	again := take(t, intake, 990)
	seen := map[string]bool{}
	for i := range again {
		seen[string(again[i].Data)] = true
		check(t, again[i].Ack())
	}
	if len(seen) != 990 || seen[string(first[0].Data)] {
		t.Errorf("%d commands came behind the rest", len(seen))
	}
	awaitEmpty(t, q, "main")
}

// awaitStill returns when the intake asks the server for no renewals and has put back all
// that it was sent but those that were taken. A purge waits until they come again.
func awaitStill(t testing.TB, q *Queue, intake *Intake, taken int) {
	t.Helper()
	acks := intake.lines[renewals].acks
	consumer, err := q.js.Consumer(within(t), CommandsStream("main"), ConsumerOf(renewals))
	check(t, err)
	for ctx := within(t); ; {
		info, err := consumer.Info(ctx)
		check(t, err)
		acks.mu.Lock()
		seen, back := acks.delivery, len(acks.returned)
		acks.mu.Unlock()
		if info.NumWaiting == 0 && uint64(back+taken) == seen {
			return
		}
	}
}

// A stream that an earlier version made, with its one consumer and what that had
// out, goes on with all lines.
func TestAnEarlierStreamGetsTheLines(t *testing.T) {
	t.Parallel()
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	old := jetstream.StreamConfig{
		Name: CommandsStream("main"), Subjects: []string{CommandSubject("main", KindOrderCreate), CommandSubject("main", KindProxyRenew)},
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, AllowAtomicPublish: true, Duplicates: 100 * time.Millisecond, AllowDirect: true,
	}
	_, err := q.js.CreateStream(ctx, old)
	check(t, err)
	consumer, err := q.js.CreateConsumer(ctx, old.Name, jetstream.ConsumerConfig{Durable: formerConsumer, AckPolicy: jetstream.AckExplicitPolicy})
	check(t, err)
	check(t, NewPublisher(q.JetStream()).PublishCommands(ctx, "main", outgoing(20)))
	_, err = consumer.Fetch(5)
	check(t, err)
	check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(ctx, q.JetStream()))
	check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Check(ctx, q.JetStream()))
	check(t, NewPublisher(q.JetStream()).Publish(ctx, "main", outgoingOf(bulk, 1)[0]))
	intake := openIntake(t, q)
	got := append(take(t, intake, 20), takeFrom(t, intake, bulk, 1)...)
	for i := range got {
		check(t, got[i].Ack())
	}
	awaitEmpty(t, q, "main")
	stream, err := q.js.Stream(ctx, old.Name)
	check(t, err)
	have := stream.CachedInfo().Config.Subjects
	for _, line := range Lines() {
		if !slices.Contains(have, line.Subject("main")) {
			t.Errorf("the stream has no %s", line.Subject("main"))
		}
	}
}
