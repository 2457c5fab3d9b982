// The direct part of `perennial bench`: the requests of the runner, sent by the frozen
// client of the package reference.

package cli

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"perennial/cmd/perennial/internal/reference"
)

// direct sends the same requests as the runner, as many at once.
func (b *bench) direct(ctx context.Context, out *benchResult) error {
	clients := make([]*reference.Client, 0, b.accounts)
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	for i := range b.accounts {
		client, err := reference.New(b.base, benchAppID(i), benchSecret, b.concurrency)
		if err != nil {
			return err
		}
		clients = append(clients, client)
	}
	var next atomic.Int64
	cpu, begin := cpuMicros(), time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for range b.concurrency * b.accounts {
		group.Go(func() error {
			for {
				n := int(next.Add(1)) - 1
				if n >= b.commands {
					return nil
				}
				if err := b.directOne(ctx, clients[n%b.accounts], n); err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	out.DirectPerSecond = float64(b.commands) / time.Since(begin).Seconds()
	out.DirectCPUMicros = float64(cpuMicros()-cpu) / float64(b.commands)
	return nil
}

func (b *bench) directOne(ctx context.Context, client *reference.Client, n int) error {
	key := "direct-" + strconv.Itoa(n)
	if b.kind == "renew" {
		return client.Renew(ctx, key, proxyName(n%b.accounts, n/b.accounts), 30)
	}
	return client.Order(ctx, key, "off_bench", 30)
}
