package bench

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/config"
	"perennial/queue"
)

// outerServer is an external server, as a user would name it with `bench --nats`.
func outerServer(t *testing.T) (url string, js jetstream.JetStream) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	must(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server is not ready")
	}
	nc, err := nats.Connect(s.ClientURL())
	must(t, err)
	t.Cleanup(nc.Close)
	js, err = jetstream.New(nc)
	must(t, err)
	return s.ClientURL(), js
}

func at(t *testing.T, url string) Options {
	t.Helper()
	q, err := queue.Connect(queue.ConnectConfig{URL: url, Name: OuterAccount, Log: quiet()})
	must(t, err)
	t.Cleanup(q.Close)
	o := small()
	o.NATS, o.Queue = &config.NATS{URL: url}, q
	return o
}

func streamsAt(t *testing.T, js jetstream.JetStream) (names []string) {
	t.Helper()
	list := js.StreamNames(t.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	must(t, list.Err())
	slices.Sort(names)
	return names
}

func TestBenchWithAServerMeasuresItAndLeavesNothing(t *testing.T) {
	url, js := outerServer(t)
	out := measured(t, at(t, url))
	o := *out.Outer
	if o.PerSecond <= 0 || o.P99Millis < o.P50Millis || o.P50Millis <= 0 || o.CPUMicros <= 0 || o.Servers != 1 || o.Replicas != 1 {
		t.Errorf("%+v", o)
	}
	if o.Groups < 3 || o.Rows < 60*3 || o.PublishMillis <= 0 || o.PublishShare <= 0 || o.PublishShare > 1 || o.BetweenMillis <= 0 || o.ProviderMillis <= 0 || o.EventsBytes <= 0 {
		t.Errorf("where the time goes: %+v", o)
	}
	if left := streamsAt(t, js); len(left) > 0 {
		t.Errorf("left on the server: %q", left)
	}
}

func TestBenchTouchesNoAccountThatIsThere(t *testing.T) {
	url, js := outerServer(t)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: queue.EventsStream(OuterAccount), Subjects: []string{queue.EventSubject(OuterAccount, ">")}})
	must(t, err)
	_, err = js.Publish(t.Context(), queue.EventSubject(OuterAccount, "order.delivered"), []byte("{}"))
	must(t, err)
	if _, err := Run(t.Context(), at(t, url)); err == nil || !strings.Contains(err.Error(), queue.EventsStream(OuterAccount)) {
		t.Errorf("%v", err)
	}
	if left := streamsAt(t, js); !slices.Equal(left, []string{queue.EventsStream(OuterAccount)}) {
		t.Errorf("streams now: %q", left)
	}
	stream, err := js.Stream(t.Context(), queue.EventsStream(OuterAccount))
	must(t, err)
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d messages", n)
	}
}
