package queue

import (
	"context"
	"flag"
	"io"
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

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
