package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
)

// outerServer is a server of its own, as a user would name it to `bench --nats`.
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// benchAt runs a small benchmark with the server.
func benchAt(t *testing.T, url string) (out benchResult, stdout, stderr string, code int) {
	t.Helper()
	t.Setenv("PERENNIAL_TEST_EXEC", "1") // its sandbox is this binary: main_test.go
	t.Chdir(t.TempDir())
	var o, e bytes.Buffer
	code = Program{Args: []string{"bench", "--commands", "60", "--concurrency", "4", "--nats", url, "-o", "json"}, Stdin: strings.NewReader(""), Stdout: &o, Stderr: &e}.Main(t.Context())
	if code == ExitDone {
		must(t, json.Unmarshal(o.Bytes(), &out))
	}
	return out, o.String(), e.String(), code
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
	out, stdout, stderr, code := benchAt(t, url)
	if code != ExitDone || out.Outer == nil {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	o := *out.Outer
	if !out.BooksAgree || !o.BooksAgree || o.PerSecond <= 0 || o.P99Millis < o.P50Millis || o.P50Millis <= 0 || o.CPUMicros <= 0 || o.Servers != 1 || o.Replicas != 1 {
		t.Errorf("%s", stdout)
	}
	if o.Groups < 3 || o.Rows < 60*3 || o.PublishMillis <= 0 || o.PublishShare <= 0 || o.PublishShare > 1 || o.ProviderMillis <= 0 || o.EventsBytes <= 0 {
		t.Errorf("where the time goes: %s", stdout)
	}
	if left := streamsAt(t, js); len(left) > 0 {
		t.Errorf("left on the server: %q", left)
	}
}

func TestBenchTouchesNoAccountThatIsThere(t *testing.T) {
	url, js := outerServer(t)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: queue.EventsStream(outerAccount), Subjects: []string{queue.EventSubject(outerAccount, ">")}})
	must(t, err)
	_, err = js.Publish(t.Context(), queue.EventSubject(outerAccount, "order.delivered"), []byte("{}"))
	must(t, err)
	_, stdout, stderr, code := benchAt(t, url)
	if code != ExitFailed || !strings.Contains(stderr, queue.EventsStream(outerAccount)) {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	if left := streamsAt(t, js); !slices.Equal(left, []string{queue.EventsStream(outerAccount)}) {
		t.Errorf("streams now: %q", left)
	}
	stream, err := js.Stream(t.Context(), queue.EventsStream(outerAccount))
	must(t, err)
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d messages", n)
	}
}
