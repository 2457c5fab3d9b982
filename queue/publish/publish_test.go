package publish

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"perennial/queue"
	"perennial/queue/natstest"
)

// One publisher opens as many batches as the stream allows, and ends none.
func TestCommandsGoOneByOneWhereBatchesAreTaken(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	for n := range 60 {
		m := nats.NewMsg(queue.CommandSubject("main", queue.KindProxyRenew))
		m.Header = nats.Header{queue.HeaderBatchID: {fmt.Sprint("open-", n)}, queue.HeaderBatchSequence: {"1"}}
		if _, err := js.Conn().RequestMsg(m, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	commands := []Outgoing{{Kind: queue.KindProxyRenew, Data: []byte("1")}, {Kind: queue.KindProxyRenew, Data: []byte("2")}, {Kind: queue.KindOrderCreate, Data: []byte("3")}}
	if err := New(js).PublishCommands(natstest.Within(t), "main", commands); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(natstest.Within(t), queue.CommandsStream("main"))
	if err != nil || stream.CachedInfo().State.Msgs != 3 {
		t.Errorf("%+v %v", stream, err)
	}
}

func TestUnconfiguredAccountIsAnsweredAtOnce(t *testing.T) {
	js := newMain(t)
	if err := New(js).Publish(natstest.Within(t), "other", Outgoing{Kind: queue.KindProxyRenew, Data: []byte(`{}`)}); !errors.Is(err, queue.ErrNoAccount) {
		t.Fatal(err)
	}
	if err := New(js).PublishCommands(natstest.Within(t), "other", someCommands(5)); !errors.Is(err, queue.ErrNoAccount) {
		t.Fatal(err)
	}
	_, err := js.Conn().RequestWithContext(natstest.Within(t), "perennial.commands.main.order.cancel", nil)
	if !errors.Is(err, nats.ErrNoResponders) {
		t.Fatalf("a kind that does not exist: %v", err)
	}
	if err := New(js).Publish(natstest.Within(t), "main", Outgoing{Kind: "order.cancel", Data: nil}); err == nil {
		t.Fatal("a kind that does not exist was published")
	}
}

func TestBatchIsStoredWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	natstest.Check(t, New(js).PublishCommands(natstest.Within(t), "main", someCommands(2500)))
	isCount(t, js, 2500)
	// The stream refuses the large command when the batch is committed.
	commands := someCommands(1200)
	commands[1100].Data = []byte(strings.Repeat("x", queue.MaxCommandBytes))
	stream, err := js.Stream(natstest.Within(t), queue.CommandsStream("main"))
	natstest.Check(t, err)
	config := stream.CachedInfo().Config
	config.MaxMsgSize = 1000
	_, err = js.UpdateStream(natstest.Within(t), config)
	natstest.Check(t, err)
	var failed *BatchError
	if err := New(js).PublishCommands(natstest.Within(t), "main", commands); !errors.As(err, &failed) || failed.Batch != 2 || failed.First != 1000 || failed.Last != 1199 {
		t.Fatal(err)
	}
	isCount(t, js, 3500)
	commands[0].Data = make([]byte, queue.MaxCommandBytes+1)
	if err := New(js).PublishCommands(natstest.Within(t), "main", commands); err == nil || errors.As(err, &failed) && failed.First == 0 {
		t.Fatal("an oversize command was sent")
	}
}

func isCount(t *testing.T, js *queue.JetStream, n uint64) {
	t.Helper()
	stream, err := js.Stream(natstest.Within(t), queue.CommandsStream("main"))
	natstest.Check(t, err)
	if have := stream.CachedInfo().State.Msgs; have != n {
		t.Errorf("%d commands are stored, want %d", have, n)
	}
}
