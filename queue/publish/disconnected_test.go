package publish

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
	"perennial/queue/streams"
)

// The client buffers nothing for a server that is away.
func TestACommandWithoutAConnectionIsNotPublished(t *testing.T) {
	server := natstest.Serve(t, t.TempDir())
	js := jstest.Connect(t, server.URL())
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1}.Ensure(natstest.Within(t), js))
	lost := js.Conn().StatusChanged(nats.RECONNECTING)
	server.Shutdown()
	natstest.Receive(t, lost)
	command := Outgoing{Kind: queue.KindOrderCreate, Data: []byte("{}")}
	if err := New(js).PublishCommands(natstest.Within(t), "main", []Outgoing{command, command}); !errors.Is(err, queue.ErrDisconnected) {
		t.Error(err)
	}
	if err := New(js).Publish(natstest.Within(t), "main", command); !errors.Is(err, queue.ErrDisconnected) {
		t.Error(err)
	}
}
