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

// TestAnAddressThatIsNoneReachesNoServer: the client takes one without a host for the server
// of this machine.
func TestAnAddressThatIsNoneReachesNoServer(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"nats://h:4222": true, "tls://h": true, "h:4222": true, "wss://h, nats://i": true, "h": true,
		"nosuch://": false, "nats://": false, "http://h:4222": false, "nats://h,nats://": false, "": false,
	} {
		if areAddresses(address) != ok {
			t.Errorf("%q", address)
		}
	}
	if _, err := Connect(ConnectConfig{URL: "nosuch://", Log: quiet()}); !errors.Is(err, errNoURL) {
		t.Error(err)
	}
}
