package intake

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"perennial/ledger/testrun"
	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
	"perennial/queue/publish"
	"perennial/queue/streams"

	"github.com/nats-io/nats.go/jetstream"
)

func openIntake(t testing.TB, js *queue.JetStream) *Intake {
	t.Helper()
	intake, err := Open(natstest.Within(t), js, "main")
	natstest.Check(t, err)
	t.Cleanup(intake.Close)
	return intake
}

var renewals, orders, bulk = queue.Line{Kind: queue.KindProxyRenew}, queue.Line{Kind: queue.KindOrderCreate}, queue.Line{Kind: queue.KindProxyRenew, Priority: queue.PriorityBulk}

// take fetches exactly n commands.
func take(t testing.TB, intake *Intake, n int) []Message {
	t.Helper()
	return takeFrom(t, intake, renewals, n)
}

func takeFrom(t testing.TB, intake *Intake, line queue.Line, n int) []Message {
	t.Helper()
	ctx := natstest.Within(t)
	var all []Message
	for len(all) < n {
		messages, err := intake.Fetch(ctx, line, n-len(all))
		natstest.Check(t, err)
		all = append(all, messages...)
	}
	return all
}

func TestCommandArrivesAsItWasPublished(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	natstest.Check(t, publish.New(js).Publish(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindOrderCreate, Data: []byte(`{"id":"a"}`)}))
	got := takeFrom(t, openIntake(t, js), orders, 1)[0]
	if got.Kind != queue.KindOrderCreate || got.Subject != "perennial.commands.main.order.create" || string(got.Data) != `{"id":"a"}` ||
		got.StreamSequence != 1 || got.Delivered != 1 || got.Published.IsZero() {
		t.Fatalf("%+v", got)
	}
	natstest.Check(t, got.Ack())
	awaitEmpty(t, js, "main")
}

func TestCommandNotAcknowledgedSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := natstest.Serve(t, dir)
	js := jstest.Connect(t, server.URL())
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), js))
	commands := outgoing(300)
	natstest.Check(t, publish.New(js).PublishCommands(natstest.Within(t), "main", commands[:150]))
	intake := openIntake(t, js)
	for _, message := range take(t, intake, 150) {
		natstest.Check(t, message.Ack())
	}
	awaitEmpty(t, js, "main")
	intake.Close()
	natstest.Check(t, publish.New(js).PublishCommands(natstest.Within(t), "main", commands[150:]))
	js.Conn().Close()
	server.Shutdown()

	js = jstest.Connect(t, natstest.Serve(t, dir).URL())
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), js))
	for n, message := range take(t, openIntake(t, js), 150) {
		if string(message.Data) != string(commands[150+n].Data) {
			t.Fatalf("%s instead of %s", message.Data, commands[150+n].Data)
		}
		natstest.Check(t, message.Ack())
	}
	awaitEmpty(t, js, "main")
}

func TestUnacknowledgedCommandIsNeverRemovedWithItsNeighbours(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	natstest.Check(t, publish.New(js).PublishCommands(natstest.Within(t), "main", outgoing(3000)))
	intake := openIntake(t, js)
	messages := take(t, intake, 3000)
	kept := map[uint64]bool{}
	for i := range messages {
		if i%701 == 77 {
			kept[messages[i].StreamSequence] = true
			continue
		}
		natstest.Check(t, messages[i].Ack())
	}
	awaitCount(t, js, len(kept))
	for i := range messages {
		if kept[messages[i].StreamSequence] {
			natstest.Check(t, messages[i].Nak(0))
		}
	}
	for _, message := range take(t, intake, len(kept)) {
		if !kept[message.StreamSequence] || message.Delivered != 2 {
			t.Fatalf("%+v", message)
		}
		natstest.Check(t, message.Ack())
	}
	awaitEmpty(t, js, "main")
}

func TestCommandsOfADeadRunnerAreOfferedAgainAtOnce(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	natstest.Check(t, publish.New(js).PublishCommands(natstest.Within(t), "main", outgoing(100)))
	first := openIntake(t, js)
	take(t, first, 50)
	first.Close()
	for _, message := range take(t, openIntake(t, js), 100) {
		natstest.Check(t, message.Ack())
	}
	awaitEmpty(t, js, "main")
}

func TestCommandsHeldByAnotherIntakeAreNotRemoved(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	natstest.Check(t, publish.New(js).PublishCommands(natstest.Within(t), "main", outgoing(600)))
	first := openIntake(t, js)
	held := take(t, first, 50) // never acknowledged by this runner
	first.Close()
	second, err := openShared(natstest.Within(t), js, "main")
	natstest.Check(t, err)
	t.Cleanup(second.Close)
	for _, message := range take(t, second, 550) {
		natstest.Check(t, message.Ack())
	}
	awaitCount(t, js, 50)
	for i := range held {
		natstest.Check(t, held[i].Nak(0))
	}
	for _, message := range take(t, second, 50) {
		natstest.Check(t, message.Ack())
	}
	awaitEmpty(t, js, "main")
}

// awaitCount returns when n commands are left, and fails below that.
func awaitCount(t testing.TB, js *queue.JetStream, n int) {
	t.Helper()
	ctx := natstest.Within(t)
	for {
		stream, err := js.Stream(ctx, queue.CommandsStream("main"))
		natstest.Check(t, err)
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
	js := newMain(t)
	natstest.Check(t, publish.New(js).PublishCommands(natstest.Within(t), "main", outgoing(5000)))
	intake := openIntake(t, js)
	message := take(t, intake, 1)[0]
	consumer, err := js.Consumer(natstest.Within(t), queue.CommandsStream("main"), streams.ConsumerOf(renewals))
	natstest.Check(t, err)
	info, err := consumer.Info(natstest.Within(t))
	natstest.Check(t, err)
	if info.NumAckPending > pullMessages+intakeBuffer+pullMessages {
		t.Fatalf("%d commands are in memory", info.NumAckPending)
	}
	natstest.Check(t, message.Ack())
}

// Deliveries in flight during a restart of NATS are repeated immediately, not only after the ack
// wait.
func TestCommandsUnderWayComeAgainAtOnceBehindARestart(t *testing.T) {
	t.Parallel()
	server := natstest.Serve(t, t.TempDir())
	js := jstest.Connect(t, server.URL())
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), js))
	intake := openIntake(t, js)
	natstest.Check(t, publish.New(js).Publish(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindProxyRenew, Data: []byte(`1`)}))
	before := take(t, intake, 1)[0]
	server.Shutdown()
	server.Start()
	if again := take(t, intake, 1)[0]; string(again.Data) != "1" {
		t.Fatalf("%s", again.Data)
	} else {
		natstest.Check(t, again.Ack())
	}
	natstest.Check(t, before.Ack())
	awaitEmpty(t, js, "main")
}

func TestIntakeOutlivesTheDeletionOfItsConsumer(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	intake := openIntake(t, js)
	natstest.Check(t, publish.New(js).Publish(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindProxyRenew, Data: []byte(`1`)}))
	message := take(t, intake, 1)[0]
	natstest.Check(t, message.Ack())
	awaitEmpty(t, js, "main")
	natstest.Check(t, js.DeleteConsumer(natstest.Within(t), queue.CommandsStream("main"), streams.ConsumerOf(renewals)))
	natstest.Check(t, publish.New(js).Publish(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindProxyRenew, Data: []byte(`2`)}))
	if message = take(t, intake, 1)[0]; string(message.Data) != "2" {
		t.Fatalf("%s", message.Data)
	}
}

func TestFetchObeysItsContextAndClose(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	intake := openIntake(t, js)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := intake.Fetch(ctx, renewals, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	intake.Close()
	if _, err := intake.Fetch(natstest.Within(t), renewals, 1); !errors.Is(err, ErrIntakeClosed) {
		t.Fatal(err)
	}
}

// Commands are acknowledged, returned and held in random order.
func TestStreamKeepsExactlyWhatWasNotAcknowledged(t *testing.T) {
	t.Parallel()
	seeds := uint64(2)
	if testrun.Check {
		seeds = 20
	}
	for seed := range seeds {
		js := newMain(t)
		dice := rand.New(rand.NewPCG(seed, 1))
		const commands = 1500
		natstest.Check(t, publish.New(js).PublishCommands(natstest.Within(t), "main", outgoing(commands)))
		intake := openIntake(t, js)
		kept := map[uint64]Message{}
		for acked := 0; acked+len(kept) < commands; {
			messages, err := intake.Fetch(natstest.Within(t), renewals, 1+dice.IntN(200))
			natstest.Check(t, err)
			dice.Shuffle(len(messages), func(a, b int) { messages[a], messages[b] = messages[b], messages[a] })
			for _, message := range messages {
				switch roll := dice.IntN(1000); {
				case roll < 3:
					kept[message.StreamSequence] = message
				case roll < 20:
					natstest.Check(t, message.Nak(0))
				default:
					natstest.Check(t, message.Ack())
					acked++
				}
			}
		}
		awaitCount(t, js, len(kept))
		stream, err := js.Stream(natstest.Within(t), queue.CommandsStream("main"))
		natstest.Check(t, err)
		for seq, message := range kept {
			_, err := stream.GetMsg(natstest.Within(t), seq)
			natstest.Check(t, err)
			natstest.Check(t, message.Ack())
		}
		awaitEmpty(t, js, "main")
	}
}

// A delivery may arrive late over a slow connection, after the intake has ended. Other intakes
// get the command.
func TestADeliveryBehindTheEndIsPutBack(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	natstest.Check(t, publish.New(js).Publish(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindOrderCreate, Data: []byte(`{"id":"a"}`)}))
	intake := openIntake(t, js)
	line := intake.lines[orders]
	consumer, err := lineConsumer(natstest.Within(t), js, "main", orders)
	natstest.Check(t, err)
	late, err := consumer.Next()
	natstest.Check(t, err)
	intake.Close()
	ended, end := context.WithCancel(natstest.Within(t))
	end()
	line.take(ended, late)
	if _, err := intake.Fetch(natstest.Within(t), orders, 1); !errors.Is(err, ErrIntakeClosed) {
		t.Errorf("a closed intake: %v", err)
	}
	natstest.Check(t, takeFrom(t, openIntake(t, js), orders, 1)[0].Ack())
}

// The consumer still exists.
func TestAMissedHeartbeatIsNoLostConsumer(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	line := queue.Lines()[0]
	consumer, err := lineConsumer(natstest.Within(t), js, "main", line)
	natstest.Check(t, err)
	if lost(natstest.Within(t), consumer, jetstream.ErrNoHeartbeat) || !lost(natstest.Within(t), consumer, jetstream.ErrConsumerDeleted) {
		t.Error("a busy server's consumer is lost, or a deleted one is not")
	}
	natstest.Check(t, js.DeleteConsumer(natstest.Within(t), queue.CommandsStream("main"), consumer.CachedInfo().Name))
	if !lost(natstest.Within(t), consumer, jetstream.ErrNoHeartbeat) {
		t.Error("a consumer that is gone is waited for")
	}
}
