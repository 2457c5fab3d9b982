// The measurement of `perennial bench`: commands published in a closed loop, and the
// time until each one's last event.

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"perennial/queue"
)

// publishAhead is how many commands of an account are published at once, in atomic
// batches, where so many may be under way. Where fewer may be, each is published by itself.
const publishAhead = 512

// meter takes the time of every command.
type meter struct {
	plan      loadPlan
	queue     *queue.Queue
	rooms     []chan struct{} // of each account: as many places as commands may be under way
	finished  atomic.Int64
	mu        sync.Mutex
	sent      []time.Time // by the command's number, from 0
	latencies []time.Duration
}

func newMeter(plan loadPlan, q *queue.Queue) *meter {
	if plan.Fill {
		plan.InFlight = plan.Commands
	}
	m := &meter{plan: plan, queue: q, sent: make([]time.Time, plan.Commands), latencies: make([]time.Duration, 0, plan.Commands)}
	for range plan.Accounts {
		m.rooms = append(m.rooms, make(chan struct{}, max(plan.InFlight, 1)))
	}
	return m
}

// publish publishes all commands. Each account has a producer of its own, and no more of
// its commands are under way at once than may be.
func (m *meter) publish(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range m.plan.Accounts {
		if m.plan.InFlight >= publishAhead || m.plan.Fill {
			group.Go(func() error { return m.publishBatches(ctx, i) })
			continue
		}
		// As many users as commands may be under way: each publishes one and waits for its end.
		var next atomic.Int64
		for range m.plan.InFlight {
			group.Go(func() error { return m.publishSingly(ctx, i, &next) })
		}
	}
	return group.Wait()
}

// publishSingly publishes an account's commands one by one, beside others who do.
func (m *meter) publishSingly(ctx context.Context, account int, next *atomic.Int64) error {
	for {
		n := account + len(m.plan.Accounts)*(int(next.Add(1))-1)
		if n >= m.plan.Commands {
			return nil
		}
		if err := m.enter(ctx, n); err != nil {
			return err
		}
		m.sending(n)
		if err := m.queue.PublishOne(ctx, m.account(n), m.command(n)); err != nil {
			return err
		}
	}
}

// publishBatches publishes an account's commands in atomic batches.
func (m *meter) publishBatches(ctx context.Context, account int) error {
	for n := account; n < m.plan.Commands; {
		var numbers []int
		for ; n < m.plan.Commands && len(numbers) < publishAhead; n += len(m.plan.Accounts) {
			if err := m.enter(ctx, n); err != nil {
				return err
			}
			numbers = append(numbers, n)
		}
		var batch []queue.Outgoing
		for _, n := range numbers {
			m.sending(n)
			batch = append(batch, m.command(n))
		}
		if err := m.queue.PublishCommands(ctx, m.plan.Accounts[account], batch); err != nil {
			return err
		}
	}
	return nil
}

// enter waits until another command of the n-th one's account may be published.
func (m *meter) enter(ctx context.Context, n int) error {
	select {
	case m.rooms[n%len(m.rooms)] <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *meter) sending(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent[n] = time.Now()
}

// account is the one that the n-th command is for.
func (m *meter) account(n int) string { return m.plan.Accounts[n%len(m.plan.Accounts)] }

// command asks for a proxy's renewal, or for another proxy.
func (m *meter) command(n int) queue.Outgoing {
	id, accounts := strconv.Itoa(m.plan.First+n), len(m.plan.Accounts)
	if m.plan.Kind == "renew" {
		proxy := proxyName(n%accounts, m.plan.FromProxy+n/accounts)
		return queue.Outgoing{Kind: queue.KindProxyRenew, Data: []byte(`{"id":"` + id + `","proxy_ids":["` + proxy + `"],"duration_days":30}`)}
	}
	return queue.Outgoing{Kind: queue.KindOrderCreate, Data: []byte(`{"id":"` + id + `","duration_days":30,"items":[{"offer_code":"off_bench","quantity":1}]}`)}
}

// follow begins to hear the events. wait returns when every command has had its last one;
// one that does not succeed ends ctx.
func (m *meter) follow(ctx context.Context, cancel context.CancelCauseFunc) (wait func() error, err error) {
	var group errgroup.Group
	for i, account := range m.plan.Accounts {
		live, err := m.queue.Live(ctx, account, "renewal.*", "order.delivered", "order.refunded", "command.rejected", "operation.review")
		if err != nil {
			return nil, err
		}
		accounts := len(m.plan.Accounts)
		commands := (m.plan.Commands - i + accounts - 1) / accounts
		group.Go(func() error {
			err := m.followOne(live, commands, m.rooms[i])
			if err != nil {
				cancel(err)
			}
			return err
		})
	}
	return group.Wait, nil
}

// followOne takes the time of each command's last event.
func (m *meter) followOne(events iter.Seq2[queue.ReceivedEvent, error], commands int, room <-chan struct{}) error {
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
		<-room
		m.finished.Add(1)
		if commands--; commands == 0 {
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
	if err != nil || n < m.plan.First || n-m.plan.First >= len(m.sent) {
		return fmt.Errorf("an event names no command of this run: %q", id)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.latencies = append(m.latencies, time.Since(m.sent[n-m.plan.First]))
	return nil
}
