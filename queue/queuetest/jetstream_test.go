// JetStream as tested by the suite.

package queuetest

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/intake"
	"perennial/queue/publish"
	"perennial/queue/streams"
)

func TestTheSimulatedStream(t *testing.T) { Suite(t, Simulated) }

func TestJetStream(t *testing.T) { Suite(t, openJetStream) }

// jetStream adapts the real stream to the suite.
type jetStream struct {
	queue  *queue.Queue
	intake *intake.Intake
	js     jetstream.JetStream
	line   queue.Line
}

func openJetStream(t *testing.T) Commands {
	t.Helper()
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	check(t, err)
	t.Cleanup(server.Shutdown)
	s := &jetStream{}
	s.queue, err = queue.Connect(queue.ConnectConfig{Embedded: server})
	check(t, err)
	t.Cleanup(s.queue.Close)
	check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(t.Context(), s.queue.JetStream()))
	nc, err := nats.Connect(server.URL())
	check(t, err)
	t.Cleanup(nc.Close)
	s.js, err = jetstream.New(nc)
	check(t, err)
	s.intake, err = intake.Open(t.Context(), s.queue.JetStream(), "main")
	check(t, err)
	t.Cleanup(func() { s.intake.Close() })
	return s
}

func (s *jetStream) Publish(t *testing.T, kind queue.Kind, data []byte) {
	t.Helper()
	s.line = queue.Line{Kind: kind} // the suite publishes one kind at a time
	check(t, publish.New(s.queue.JetStream()).Publish(t.Context(), "main", publish.Outgoing{Kind: kind, Data: data}))
}

func (s *jetStream) Reopen(t *testing.T) {
	t.Helper()
	s.intake.Close()
	var err error
	s.intake, err = intake.Open(t.Context(), s.queue.JetStream(), "main")
	check(t, err)
}

func (s *jetStream) Take(t *testing.T, n int) []intake.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all []intake.Message
	for len(all) < n {
		messages, err := s.intake.Fetch(ctx, s.line, n-len(all))
		check(t, err)
		all = append(all, messages...)
	}
	return all
}

func (s *jetStream) AwaitLeft(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		stream, err := s.js.Stream(ctx, queue.CommandsStream("main"))
		check(t, err)
		if stream.CachedInfo().State.Msgs == uint64(n) {
			return
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
