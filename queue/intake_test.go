package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"perennial/ledger/testrun"

	"github.com/nats-io/nats.go/jetstream"
)

func openIntake(t testing.TB, q *Queue) *Intake {
	t.Helper()
	intake, err := OpenIntake(within(t), q.JetStream(), "main")
	check(t, err)
	t.Cleanup(intake.Close)
	return intake
}

var renewals, orders, bulk = Line{Kind: KindProxyRenew}, Line{Kind: KindOrderCreate}, Line{KindProxyRenew, PriorityBulk}

// take fetches exactly n commands.
func take(t testing.TB, intake *Intake, n int) []Message {
	t.Helper()
	return takeFrom(t, intake, renewals, n)
}

func takeFrom(t testing.TB, intake *Intake, line Line, n int) []Message {
	t.Helper()
	ctx := within(t)
	var all []Message
	for len(all) < n {
		messages, err := intake.Fetch(ctx, line, n-len(all))
		check(t, err)
		all = append(all, messages...)
	}
	return all
}

func TestCommandArrivesAsItWasPublished(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	check(t, NewPublisher(q.JetStream()).Publish(within(t), "main", Outgoing{Kind: KindOrderCreate, Data: []byte(`{"id":"a"}`)}))
	got := takeFrom(t, openIntake(t, q), orders, 1)[0]
	if got.Kind != KindOrderCreate || got.Subject != "perennial.commands.main.order.create" || string(got.Data) != `{"id":"a"}` ||
		got.StreamSequence != 1 || got.Delivered != 1 || got.Published.IsZero() {
		t.Fatalf("%+v", got)
	}
	check(t, got.Ack())
	awaitEmpty(t, q, "main")
}

func TestCommandNotAcknowledgedSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := startServer(t, dir)
	q := connect(t, server)
	check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(within(t), q.JetStream()))
	commands := outgoing(300)
	check(t, NewPublisher(q.JetStream()).PublishCommands(within(t), "main", commands[:150]))
	intake := openIntake(t, q)
	for _, message := range take(t, intake, 150) {
		check(t, message.Ack())
	}
	awaitEmpty(t, q, "main")
	intake.Close()
	check(t, NewPublisher(q.JetStream()).PublishCommands(within(t), "main", commands[150:]))
	q.Close()
	server.Shutdown()

	q = connect(t, startServer(t, dir))
	check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(within(t), q.JetStream()))
	for n, message := range take(t, openIntake(t, q), 150) {
		if string(message.Data) != string(commands[150+n].Data) {
			t.Fatalf("%s instead of %s", message.Data, commands[150+n].Data)
		}
		check(t, message.Ack())
	}
	awaitEmpty(t, q, "main")
}

// The gathered acknowledgement must never remove what was not acknowledged.
func TestUnacknowledgedCommandIsNeverRemovedWithItsNeighbours(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	check(t, NewPublisher(q.JetStream()).PublishCommands(within(t), "main", outgoing(3000)))
	intake := openIntake(t, q)
	messages := take(t, intake, 3000)
	kept := map[uint64]bool{}
	for i := range messages {
		if i%701 == 77 {
			kept[messages[i].StreamSequence] = true
			continue
		}
		check(t, messages[i].Ack())
	}
	awaitCount(t, q, len(kept))
	for i := range messages {
		if kept[messages[i].StreamSequence] {
			check(t, messages[i].Nak(0))
		}
	}
	for _, message := range take(t, intake, len(kept)) {
		if !kept[message.StreamSequence] || message.Delivered != 2 {
			t.Fatalf("%+v", message)
		}
		check(t, message.Ack())
	}
	awaitEmpty(t, q, "main")
}

func TestCommandsOfADeadRunnerAreOfferedAgainAtOnce(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	check(t, NewPublisher(q.JetStream()).PublishCommands(within(t), "main", outgoing(100)))
	first := openIntake(t, q)
	take(t, first, 50)
	first.Close()
	for _, message := range take(t, openIntake(t, q), 100) {
		check(t, message.Ack())
	}
	awaitEmpty(t, q, "main")
}

func TestCommandsHeldByAnotherIntakeAreNotRemoved(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	check(t, NewPublisher(q.JetStream()).PublishCommands(within(t), "main", outgoing(600)))
	first := openIntake(t, q)
	held := take(t, first, 50) // never acknowledged by this runner
	first.Close()
	second, err := open(within(t), q.JetStream(), "main")
	check(t, err)
	t.Cleanup(second.Close)
	for _, message := range take(t, second, 550) {
		check(t, message.Ack())
	}
	awaitCount(t, q, 50)
	for i := range held {
		check(t, held[i].Nak(0))
	}
	for _, message := range take(t, second, 50) {
		check(t, message.Ack())
	}
	awaitEmpty(t, q, "main")
}

// awaitCount returns when n commands are left, and fails below that.
func awaitCount(t testing.TB, q *Queue, n int) {
	t.Helper()
	ctx := within(t)
	for {
		stream, err := q.js.Stream(ctx, CommandsStream("main"))
		check(t, err)
		have := int(stream.CachedInfo().State.Msgs)
		if have < n {
			t.Fatalf("%d commands are left of %d that were not acknowledged", have, n)
		}
		if have == n {
			return
		}
	}
}

func TestBacklogStaysOnTheServer(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	check(t, NewPublisher(q.JetStream()).PublishCommands(within(t), "main", outgoing(5000)))
	intake := openIntake(t, q)
	message := take(t, intake, 1)[0]
	consumer, err := q.js.Consumer(within(t), CommandsStream("main"), ConsumerOf(renewals))
	check(t, err)
	info, err := consumer.Info(within(t))
	check(t, err)
	if info.NumAckPending > pullMessages+intakeBuffer+pullMessages {
		t.Fatalf("%d commands are in memory", info.NumAckPending)
	}
	check(t, message.Ack())
}

// What was on its way when NATS was restarted is delivered again at once, and not only
// after the ack wait.
func TestCommandsUnderWayComeAgainAtOnceBehindARestart(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir())
	q := connect(t, server)
	check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(within(t), q.JetStream()))
	intake := openIntake(t, q)
	check(t, NewPublisher(q.JetStream()).Publish(within(t), "main", Outgoing{Kind: KindProxyRenew, Data: []byte(`1`)}))
	before := take(t, intake, 1)[0]
	server.Shutdown()
	server.Start()
	if again := take(t, intake, 1)[0]; string(again.Data) != "1" {
		t.Fatalf("%s", again.Data)
	} else {
		check(t, again.Ack())
	}
	check(t, before.Ack())
	awaitEmpty(t, q, "main")
}

func TestIntakeOutlivesTheDeletionOfItsConsumer(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	intake := openIntake(t, q)
	check(t, NewPublisher(q.JetStream()).Publish(within(t), "main", Outgoing{Kind: KindProxyRenew, Data: []byte(`1`)}))
	message := take(t, intake, 1)[0]
	check(t, message.Ack())
	awaitEmpty(t, q, "main")
	check(t, q.js.DeleteConsumer(within(t), CommandsStream("main"), ConsumerOf(renewals)))
	check(t, NewPublisher(q.JetStream()).Publish(within(t), "main", Outgoing{Kind: KindProxyRenew, Data: []byte(`2`)}))
	if message = take(t, intake, 1)[0]; string(message.Data) != "2" {
		t.Fatalf("%s", message.Data)
	}
}

func TestFetchObeysItsContextAndClose(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	intake := openIntake(t, q)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := intake.Fetch(ctx, renewals, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	intake.Close()
	if _, err := intake.Fetch(within(t), renewals, 1); !errors.Is(err, ErrIntakeClosed) {
		t.Fatal(err)
	}
}

// Whatever the order of acknowledging, putting back and holding on: what is
// left in the stream is exactly what was not acknowledged.
func TestStreamKeepsExactlyWhatWasNotAcknowledged(t *testing.T) {
	t.Parallel()
	seeds := uint64(2)
	if testrun.Check {
		seeds = 20
	}
	for seed := range seeds {
		q := newQueue(t)
		dice := rand.New(rand.NewPCG(seed, 1))
		const commands = 1500
		check(t, NewPublisher(q.JetStream()).PublishCommands(within(t), "main", outgoing(commands)))
		intake := openIntake(t, q)
		kept := map[uint64]Message{}
		for acked := 0; acked+len(kept) < commands; {
			messages, err := intake.Fetch(within(t), renewals, 1+dice.IntN(200))
			check(t, err)
			dice.Shuffle(len(messages), func(a, b int) { messages[a], messages[b] = messages[b], messages[a] })
			for _, message := range messages {
				switch roll := dice.IntN(1000); {
				case roll < 3:
					kept[message.StreamSequence] = message
				case roll < 20:
					check(t, message.Nak(0))
				default:
					check(t, message.Ack())
					acked++
				}
			}
		}
		awaitCount(t, q, len(kept))
		stream, err := q.js.Stream(within(t), CommandsStream("main"))
		check(t, err)
		for seq, message := range kept {
			_, err := stream.GetMsg(within(t), seq)
			check(t, err)
			check(t, message.Ack())
		}
		awaitEmpty(t, q, "main")
	}
}

// TestADeliveryBehindTheEndIsPutBack: a connection that was silent brings it when the
// intake has ended, and other intakes get it.
func TestADeliveryBehindTheEndIsPutBack(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	check(t, NewPublisher(q.JetStream()).Publish(within(t), "main", Outgoing{Kind: KindOrderCreate, Data: []byte(`{"id":"a"}`)}))
	intake := openIntake(t, q)
	line := intake.lines[orders]
	consumer, err := lineConsumer(within(t), q.JetStream(), "main", orders)
	check(t, err)
	late, err := consumer.Next()
	check(t, err)
	intake.Close()
	ended, end := context.WithCancel(within(t))
	end()
	line.take(ended, late)
	if _, err := intake.Fetch(within(t), orders, 1); !errors.Is(err, ErrIntakeClosed) {
		t.Errorf("a closed intake: %v", err)
	}
	check(t, takeFrom(t, openIntake(t, q), orders, 1)[0].Ack())
}

// TestAMissedHeartbeatIsNoLostConsumer while the consumer is there.
func TestAMissedHeartbeatIsNoLostConsumer(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	line := Lines()[0]
	consumer, err := lineConsumer(within(t), q.JetStream(), "main", line)
	check(t, err)
	if lost(within(t), consumer, jetstream.ErrNoHeartbeat) || !lost(within(t), consumer, jetstream.ErrConsumerDeleted) {
		t.Error("a busy server's consumer is lost, or a deleted one is not")
	}
	check(t, q.js.DeleteConsumer(within(t), CommandsStream("main"), consumer.CachedInfo().Name))
	if !lost(within(t), consumer, jetstream.ErrNoHeartbeat) {
		t.Error("a consumer that is gone is waited for")
	}
}
