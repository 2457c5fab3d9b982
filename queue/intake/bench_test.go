package intake

import (
	"context"
	"fmt"
	"testing"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/publish"
)

// BenchmarkIntakeFetchAndAck takes a backlog of b.N commands, acknowledges
// them, and waits until the stream is empty.
func BenchmarkIntakeFetchAndAck(b *testing.B) {
	js := newMain(b)
	ctx := context.Background()
	natstest.Check(b, publish.New(js).PublishCommands(ctx, "main", outgoing(b.N)))
	intake, err := Open(ctx, js, "main")
	natstest.Check(b, err)
	b.ResetTimer()
	for taken := 0; taken < b.N; {
		messages, err := intake.Fetch(ctx, renewals, 256)
		natstest.Check(b, err)
		for i := range messages {
			natstest.Check(b, messages[i].Ack())
		}
		taken += len(messages)
	}
	fetched := b.Elapsed()
	intake.Close()
	awaitEmpty(b, js, "main")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
	b.ReportMetric(float64(b.N)/fetched.Seconds(), "fetched/s")
}

// awaitEmpty returns when every command was acknowledged.
func awaitEmpty(t testing.TB, js *queue.JetStream, account string) {
	t.Helper()
	ctx := natstest.Within(t)
	for {
		stream, err := js.Stream(ctx, queue.CommandsStream(account))
		natstest.Check(t, err)
		if stream.CachedInfo().State.Msgs == 0 {
			return
		}
	}
}

func outgoing(n int) []publish.Outgoing {
	commands := make([]publish.Outgoing, n)
	for i := range commands {
		commands[i] = publish.Outgoing{Kind: queue.KindProxyRenew, Data: fmt.Appendf(nil, `{"id":"bench-%d","proxy_ids":["px_%d"],"duration_days":30}`, i, i)}
	}
	return commands
}
