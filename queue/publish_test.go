package queue

import (
	"fmt"
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
