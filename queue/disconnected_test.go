package queue

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestACommandWithoutAConnectionIsNotPublished: a client keeps nothing in memory
// for a server that is away.
func TestACommandWithoutAConnectionIsNotPublished(t *testing.T) {
	server := startServer(t, t.TempDir())
	q, err := Connect(ConnectConfig{URL: server.URL(), Log: quiet()})
	check(t, err)
	t.Cleanup(q.Close)
	check(t, Wanted{Account: "main", Replicas: 1}.Ensure(within(t), q.JetStream()))
	lost := q.nc.StatusChanged(nats.RECONNECTING)
	server.Shutdown()
	receive(t, lost)
	command := Outgoing{Kind: KindOrderCreate, Data: []byte("{}")}
	if err := NewPublisher(q.JetStream()).PublishCommands(within(t), "main", []Outgoing{command, command}); !errors.Is(err, ErrDisconnected) {
		t.Error(err)
	}
	if err := NewPublisher(q.JetStream()).Publish(within(t), "main", command); !errors.Is(err, ErrDisconnected) {
		t.Error(err)
	}
}
