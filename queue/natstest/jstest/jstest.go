// Package jstest connects tests to a server that runs until the end of the test. With it,
// each package under queue can be tested without the others.
package jstest

import (
	"testing"

	"perennial/queue"
	"perennial/queue/natstest"
)

// Connect connects to a server until the test ends.
func Connect(t testing.TB, url string) *queue.JetStream {
	t.Helper()
	q, err := queue.Connect(queue.ConnectConfig{URL: url, Log: natstest.Quiet()})
	natstest.Check(t, err)
	t.Cleanup(q.Close)
	return q.JetStream()
}

// New returns the JetStream of a new server.
func New(t testing.TB) *queue.JetStream {
	t.Helper()
	return Connect(t, natstest.Serve(t, t.TempDir()).URL())
}
