package queue

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkIntakeFetchAndAck takes a backlog of b.N commands, acknowledges
// them, and waits until the stream is empty.
func BenchmarkIntakeFetchAndAck(b *testing.B) {
	q := newQueue(b)
	ctx := context.Background()
	check(b, NewPublisher(q.JetStream()).PublishCommands(ctx, "main", outgoing(b.N)))
	intake, err := OpenIntake(ctx, q.JetStream(), "main")
	check(b, err)
	b.ResetTimer()
	for taken := 0; taken < b.N; {
		messages, err := intake.Fetch(ctx, renewals, 256)
		check(b, err)
		for i := range messages {
			check(b, messages[i].Ack())
		}
		taken += len(messages)
	}
	fetched := b.Elapsed()
	intake.Close()
	awaitEmpty(b, q, "main")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
	b.ReportMetric(float64(b.N)/fetched.Seconds(), "fetched/s")
}

// awaitEmpty returns when every command was acknowledged.
func awaitEmpty(t testing.TB, q *Queue, account string) {
	t.Helper()
	ctx := within(t)
	for {
		stream, err := q.js.Stream(ctx, CommandsStream(account))
		check(t, err)
		if stream.CachedInfo().State.Msgs == 0 {
			return
		}
	}
}

func outgoing(n int) []Outgoing {
	commands := make([]Outgoing, n)
	for i := range commands {
		commands[i] = Outgoing{Kind: KindProxyRenew, Data: fmt.Appendf(nil, `{"id":"bench-%d","proxy_ids":["px_%d"],"duration_days":30}`, i, i)}
	}
	return commands
}
