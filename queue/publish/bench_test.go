package publish

import (
	"context"
	"fmt"
	"testing"

	"perennial/queue"
	"perennial/queue/natstest"
)

// BenchmarkPublishCommands publishes atomic batches, synced to disk.
func BenchmarkPublishCommands(b *testing.B) {
	js := newMain(b)
	commands := someCommands(b.N)
	b.ResetTimer()
	natstest.Check(b, New(js).PublishCommands(context.Background(), "main", commands))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

func someCommands(n int) []Outgoing {
	commands := make([]Outgoing, n)
	for i := range commands {
		commands[i] = Outgoing{Kind: queue.KindProxyRenew, Data: fmt.Appendf(nil, `{"id":"bench-%d","proxy_ids":["px_%d"],"duration_days":30}`, i, i)}
	}
	return commands
}
