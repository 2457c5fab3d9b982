package queue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestCommandsGoOneByOneWhereBatchesAreTaken: one publisher opens as many as the stream
// takes, and ends none.
func TestCommandsGoOneByOneWhereBatchesAreTaken(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	for n := range 60 {
		m := nats.NewMsg(CommandSubject("main", KindProxyRenew))
		m.Header = nats.Header{HeaderBatchID: {fmt.Sprint("open-", n)}, HeaderBatchSequence: {"1"}}
		if _, err := q.nc.RequestMsg(m, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	commands := []Outgoing{{Kind: KindProxyRenew, Data: []byte("1")}, {Kind: KindProxyRenew, Data: []byte("2")}, {Kind: KindOrderCreate, Data: []byte("3")}}
	if err := NewPublisher(q.JetStream()).PublishCommands(within(t), "main", commands); err != nil {
		t.Fatal(err)
	}
	stream, err := q.js.Stream(within(t), CommandsStream("main"))
	if err != nil || stream.CachedInfo().State.Msgs != 3 {
		t.Errorf("%+v %v", stream, err)
	}
}

func TestUnconfiguredAccountIsAnsweredAtOnce(t *testing.T) {
	q := newQueue(t)
	if err := NewPublisher(q.JetStream()).Publish(within(t), "other", Outgoing{Kind: KindProxyRenew, Data: []byte(`{}`)}); !errors.Is(err, ErrNoAccount) {
		t.Fatal(err)
	}
	if err := NewPublisher(q.JetStream()).PublishCommands(within(t), "other", someCommands(5)); !errors.Is(err, ErrNoAccount) {
		t.Fatal(err)
	}
	_, err := q.nc.RequestWithContext(within(t), "perennial.commands.main.order.cancel", nil)
	if !errors.Is(err, nats.ErrNoResponders) {
		t.Fatalf("a kind that does not exist: %v", err)
	}
	if err := NewPublisher(q.JetStream()).Publish(within(t), "main", Outgoing{Kind: "order.cancel", Data: nil}); err == nil {
		t.Fatal("a kind that does not exist was published")
	}
}

func TestBatchIsStoredWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	check(t, NewPublisher(q.JetStream()).PublishCommands(within(t), "main", someCommands(2500)))
	isCount(t, q, 2500)
	// The stream refuses the large one when the batch is committed.
	commands := someCommands(1200)
	commands[1100].Data = []byte(strings.Repeat("x", MaxCommandBytes))
	stream, err := q.js.Stream(within(t), CommandsStream("main"))
	check(t, err)
	config := stream.CachedInfo().Config
	config.MaxMsgSize = 1000
	_, err = q.js.UpdateStream(within(t), config)
	check(t, err)
	var failed *BatchError
	if err := NewPublisher(q.JetStream()).PublishCommands(within(t), "main", commands); !errors.As(err, &failed) || failed.Batch != 2 || failed.First != 1000 || failed.Last != 1199 {
		t.Fatal(err)
	}
	isCount(t, q, 3500)
	commands[0].Data = make([]byte, MaxCommandBytes+1)
	if err := NewPublisher(q.JetStream()).PublishCommands(within(t), "main", commands); err == nil || errors.As(err, &failed) && failed.First == 0 {
		t.Fatal("an oversize command was sent")
	}
}

func isCount(t *testing.T, q *Queue, n uint64) {
	t.Helper()
	stream, err := q.js.Stream(within(t), CommandsStream("main"))
	check(t, err)
	if have := stream.CachedInfo().State.Msgs; have != n {
		t.Errorf("%d commands are stored, want %d", have, n)
	}
}
