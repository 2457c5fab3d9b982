package outbox

import (
	"testing"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
	"perennial/queue/streams"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// newMain returns the JetStream of a server with the streams of "main".
func newMain(t testing.TB) *queue.JetStream {
	t.Helper()
	js := jstest.New(t)
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), js))
	return js
}
