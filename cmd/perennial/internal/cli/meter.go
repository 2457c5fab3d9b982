// The measurement of `perennial bench`: commands published in a closed loop, and the
// time until each one's last event.

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/queue"
)

// window is how many commands are published ahead: enough to keep every worker
// busy, few enough for latencies to mean something.
func (b *bench) window() int { return max(publishAhead, 16*b.concurrency) }

// measure publishes in a closed loop and takes the time from publish to event.
func (b *bench) measure(ctx context.Context, h *daemon.Host, l load, got *carriedOut) error {
	watch, err := queue.Connect(b.watching(h))
	if err != nil {
		return err
	}
	defer watch.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &meter{first: l.first, sent: make([]time.Time, b.commands), room: make(chan struct{}, b.window())}
	live, err := watch.Live(ctx, l.account, "renewal.*", "order.delivered", "order.refunded", "command.rejected", "operation.review")
	if err != nil {
		return err
	}
	events := make(chan error, 1)
	go func() { events <- m.follow(live, b.commands) }()
	cpu, begin := cpuMicros(), time.Now()
	if err := b.publish(ctx, watch, l, m); err != nil {
		return err
	}
	if err := <-events; err != nil {
		return err
	}
	if err := stored(ctx, h); err != nil {
		return err
	}
	got.took = time.Since(begin)
	got.perSecond = float64(b.commands) / got.took.Seconds()
	got.cpuMicros = float64(cpuMicros()-cpu) / float64(b.commands)
	slices.Sort(m.latencies)
	got.p50Millis = float64(m.latencies[len(m.latencies)/2].Microseconds()) / 1000
	got.p99Millis = float64(m.latencies[len(m.latencies)*99/100].Microseconds()) / 1000
	return nil
}

// meter takes the time of every command.
type meter struct {
	first     int // the id of the first command
	mu        sync.Mutex
	sent      []time.Time
	room      chan struct{}
	latencies []time.Duration
}

// publishAhead is how many commands one atomic batch holds here.
const publishAhead = 512

func (b *bench) publish(ctx context.Context, q *queue.Queue, l load, m *meter) error {
	for n := 0; n < b.commands; {
		batch := make([]queue.Outgoing, 0, publishAhead)
		for len(batch) < publishAhead && n+len(batch) < b.commands {
			select {
			case m.room <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			batch = append(batch, b.command(l.first+n+len(batch)))
		}
		m.mu.Lock()
		now := time.Now()
		for i := range batch {
			m.sent[n+i] = now
		}
		m.mu.Unlock()
		if err := q.PublishCommands(ctx, l.account, batch); err != nil {
			return err
		}
		n += len(batch)
	}
	return nil
}

// command asks for the n-th proxy's renewal, or for another proxy.
func (b *bench) command(n int) queue.Outgoing {
	id := strconv.Itoa(n)
	if b.kind == "renew" {
		return queue.Outgoing{Kind: queue.KindProxyRenew, Data: []byte(`{"id":"` + id + `","proxy_ids":["` + proxyName(n) + `"],"duration_days":30}`)}
	}
	return queue.Outgoing{Kind: queue.KindOrderCreate, Data: []byte(`{"id":"` + id + `","duration_days":30,"items":[{"offer_code":"off_bench","quantity":1}]}`)}
}

// stored waits until the stream has acknowledged every event: on an external server it has
// before anything is recorded.
func stored(ctx context.Context, h *daemon.Host) error {
	if h.Embedded == nil {
		return nil
	}
	account := h.Accounts[0]
	seq, _, err := account.Ledger().Head(ctx)
	if err != nil {
		return err
	}
	return account.Relay.Wait(ctx, uint64(seq))
}

// follow takes the time of each command's last event.
func (m *meter) follow(events iter.Seq2[queue.ReceivedEvent, error], commands int) error {
	for e, err := range events {
		if err != nil {
			return err
		}
		switch e.Type {
		case "renewal.completed", "order.delivered":
		case "command.rejected", "operation.review", "renewal.failed", "order.refunded":
			return fmt.Errorf("a command did not succeed: %s", e.Data)
		default:
			continue
		}
		if err := m.took(e); err != nil {
			return err
		}
		<-m.room
		if len(m.latencies) == commands {
			return nil
		}
	}
	return errors.New("the events ended before the commands did")
}

func (m *meter) took(e queue.ReceivedEvent) error {
	// The measurement shares the cores with the runner: it decodes no whole event.
	_, rest, _ := bytes.Cut(e.Data, []byte(`"command_id":"`))
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	n, err := strconv.Atoi(string(id))
	if err != nil || n < m.first || n-m.first >= len(m.sent) {
		return fmt.Errorf("an event names no command of this run: %q", id)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.latencies = append(m.latencies, time.Since(m.sent[n-m.first]))
	return nil
}
