package queue

import (
	"context"
	"flag"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"perennial/ledger/testrun"
	"perennial/queue/natstest"

	"github.com/sirupsen/logrus"
)

// patience bounds a test's waiting.
var patience = 2 * time.Minute

func TestMain(m *testing.M) {
	flag.DurationVar(&patience, "patience", patience, "bounds every waiting")
	_ = flag.Set("test.parallel", "8") // a default: these tests wait more than they compute
	testrun.Main(m)
}

// quiet is a log whose lines are discarded.
func quiet() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// within bounds a test's waiting.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// receive is what the channel gives, and ends the test where nothing comes.
func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case x := <-c:
		return x
	case <-within(t).Done():
		t.Fatal("nothing came")
		panic("not reached")
	}
}

// startServer runs a server with JetStream until the test ends, or it is shut down.
func startServer(t testing.TB, dir string) *natstest.Server { return natstest.Serve(t, dir) }

// connect is a connection to a server that counts as the embedded one.
func connect(t testing.TB, server *natstest.Server) *Queue {
	t.Helper()
	q, err := Connect(ConnectConfig{URL: server.URL(), Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

// newQueue is a connection to a fresh server with the streams of "main".
func newQueue(t testing.TB) *Queue {
	t.Helper()
	q := connect(t, startServer(t, t.TempDir()))
	if err := (Wanted{Account: "main", Replicas: 1, Embedded: true}).Ensure(within(t), q.JetStream()); err != nil {
		t.Fatal(err)
	}
	return q
}

// journal is a ledger in memory.
type journal struct {
	mu      sync.Mutex
	rows    []Event
	changed chan struct{}
}

func newJournal(name string, rows int) *journal {
	j := &journal{changed: make(chan struct{})}
	j.append(name, rows)
	return j
}

// append adds rows whose hashes carry name.
func (j *journal) append(name string, rows int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for range rows {
		seq := uint64(len(j.rows) + 1)
		j.rows = append(j.rows, Event{Seq: seq, Hash: fmt.Sprintf("%s-%d", name, seq), Type: "order.delivered",
			Payload: fmt.Appendf(nil, `{"specversion":"1.0","id":"main/1/%d"}`, seq)})
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

// answer adds a row that is answered at an inbox.
func (j *journal) answer(name, inbox, reply string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	seq := uint64(len(j.rows) + 1)
	j.rows = append(j.rows, Event{Seq: seq, Hash: fmt.Sprintf("%s-%d", name, seq), Type: "command.finished",
		Payload: fmt.Appendf(nil, `{"specversion":"1.0","id":"main/1/%d"}`, seq), ReplyTo: inbox, Reply: []byte(reply)})
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *journal) Events(_ context.Context, after uint64, limit int) ([]Event, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	rows := j.rows[min(after, uint64(len(j.rows))):]
	return rows[:min(limit, len(rows))], nil
}

func (j *journal) Changed(after uint64) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if uint64(len(j.rows)) > after {
		ready := make(chan struct{})
		close(ready)
		return ready
	}
	return j.changed
}

func (j *journal) HashAt(_ context.Context, seq uint64) (string, bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seq < 1 || seq > uint64(len(j.rows)) {
		return "", false, nil
	}
	return j.rows[seq-1].Hash, true, nil
}

// startOutbox runs an outbox until the test ends; its error arrives on the channel.
func startOutbox(t testing.TB, q *Queue, source Source) (*Outbox, <-chan error) {
	t.Helper()
	outbox := NewOutbox(q.JetStream(), "main", source)
	return outbox, runOutbox(t, outbox)
}

// runOutbox is startOutbox of one that is made already.
func runOutbox(t testing.TB, outbox *Outbox) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result, done := make(chan error, 1), make(chan struct{})
	go func() {
		result <- outbox.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return result
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func connectTo(t testing.TB, url string) *Queue {
	t.Helper()
	q, err := Connect(ConnectConfig{URL: url, Log: quiet()})
	check(t, err)
	t.Cleanup(q.Close)
	return q
}
