package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"perennial/cmd/perennial/internal/config"
	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/publish"
)

// LoadTask publishes commands in a closed loop: it publishes a new command each time a command
// finishes. It measures the time from each command's publication to its last event. Commands are
// distributed over the accounts round-robin.
type LoadTask struct {
	Target   config.NATS
	Accounts []string
	Kind     string
	Commands int
	First    int  // number of each account's first command and first proxy
	InFlight int  // limit of unfinished commands for each account
	Fill     bool // publish all commands before the measurement

	queue    *queue.Queue
	ctx      context.Context
	cancel   context.CancelCauseFunc
	lanes    []*accountLoad
	begin    time.Time
	finished atomic.Int64
	stall    *time.Timer
	follow   errgroup.Group
}

// accountLoad is the load for one account. Its commands are numbered from 0.
type accountLoad struct {
	*LoadTask

	account   int
	room      chan struct{}   // has one element for each unfinished command
	sent      []atomic.Int64  // when each command was published, in nanoseconds after begin
	latencies []time.Duration // by command
}

const (
	// batchSize is the number of commands in an atomic batch. If the limit of unfinished
	// commands is smaller, each command is published alone.
	batchSize = 512
	// stallAfter is how long the measurement waits for a command to finish before it fails.
	stallAfter = 2 * time.Minute
)

// Prepare starts to follow the events. If t.Fill is set, it also publishes all commands.
func (h *helper) Prepare(t *LoadTask, _ *bool) (err error) {
	h.asked.Store(true)
	h.load = t
	if t.queue, err = queue.Connect(queue.ConnectConfig{URL: t.Target.URL, CredsFile: t.Target.CredsFile, Name: OuterAccount, Log: h.log}); err != nil {
		return err
	}
	context.AfterFunc(h.ctx, t.queue.Close)
	t.ctx, t.cancel = context.WithCancelCause(h.ctx)
	if t.Fill {
		t.InFlight = t.Commands
	}
	t.begin = time.Now()
	t.stall = time.AfterFunc(stallAfter, func() {
		t.cancel(fmt.Errorf("no command has finished for %s: %d of %d had", stallAfter, t.finished.Load(), t.Commands))
	})
	t.stall.Stop()
	for i, account := range t.Accounts {
		n := shareOf(t.Commands, len(t.Accounts), i)
		l := &accountLoad{LoadTask: t, account: i, room: make(chan struct{}, t.InFlight), sent: make([]atomic.Int64, n), latencies: make([]time.Duration, n)}
		t.lanes = append(t.lanes, l)
		live, err := events.Of(t.queue.JetStream(), account).Live(t.ctx, "renewal.*", "order.delivered", "order.refunded", "command.rejected", "operation.review")
		if err != nil {
			return err
		}
		t.follow.Go(func() error {
			err := l.follow(live)
			if err != nil {
				t.cancel(err)
			}
			return err
		})
	}
	if t.Fill {
		return because(t.ctx, t.publish())
	}
	return nil
}

// Measure publishes the remaining commands, and waits for every command's last event.
func (h *helper) Measure(_ bool, took *Latency) error {
	t := h.load
	t.stall.Reset(stallAfter)
	defer t.stall.Stop()
	if !t.Fill {
		if err := t.publish(); err != nil {
			return because(t.ctx, err)
		}
	}
	if err := t.follow.Wait(); err != nil {
		return because(t.ctx, err)
	}
	var all []time.Duration
	for _, l := range t.lanes {
		all = append(all, l.latencies...)
	}
	slices.Sort(all)
	millis := func(p int) float64 { return float64(all[len(all)*p/100].Microseconds()) / 1000 }
	*took = Latency{millis(50), millis(99)}
	return nil
}

// publish publishes the commands of all accounts, within the limit of unfinished commands.
func (t *LoadTask) publish() error {
	group, ctx := errgroup.WithContext(t.ctx)
	producers, size := 1, batchSize
	if t.InFlight < batchSize && !t.Fill {
		producers, size = t.InFlight, 1 // each producer publishes one command at a time
	}
	for _, l := range t.lanes {
		var next atomic.Int64
		for range producers {
			group.Go(func() error {
				for {
					end := int(next.Add(int64(size)))
					if end-size >= len(l.sent) {
						return nil
					}
					if err := l.publish(ctx, end-size, min(end, len(l.sent))); err != nil {
						return err
					}
				}
			})
		}
	}
	return group.Wait()
}

// publish publishes the commands with the numbers from first to end-1. It keeps within the limit
// of unfinished commands.
func (l *accountLoad) publish(ctx context.Context, first, end int) error {
	var batch []publish.Outgoing
	for n := first; n < end; n++ {
		select {
		case l.room <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		batch = append(batch, l.command(l.First+n))
	}
	now := time.Since(l.begin).Nanoseconds()
	for n := first; n < end; n++ {
		l.sent[n].Store(now)
	}
	return publish.New(l.queue.JetStream()).PublishCommands(ctx, l.Accounts[l.account], batch)
}

// command returns a renewal of the account's proxy n, or order n.
func (l *accountLoad) command(n int) publish.Outgoing {
	if l.Kind == "renew" {
		return publish.Outgoing{Kind: queue.KindProxyRenew, Data: renewal(strconv.Itoa(n), proxyName(l.account, n))}
	}
	return publish.Outgoing{Kind: queue.KindOrderCreate, Data: fmt.Appendf(nil, `{"id":"%d","duration_days":%d,"items":[{"offer_code":"%s","quantity":1}]}`, n, days, offer)}
}

func renewal(id, proxy string) []byte {
	return fmt.Appendf(nil, `{"id":"%s","proxy_ids":["%s"],"duration_days":%d}`, id, proxy, days)
}

// follow reads events until every command has its last event.
func (l *accountLoad) follow(live iter.Seq2[events.Event, error]) error {
	left := len(l.sent)
	for e, err := range live {
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
		// Decoding the complete event would take CPU time from the runner.
		_, rest, _ := bytes.Cut(e.Data, []byte(`"command_id":"`))
		id, _, _ := bytes.Cut(rest, []byte(`"`))
		n, err := strconv.Atoi(string(id))
		if n -= l.First; err != nil || n < 0 || n >= len(l.sent) {
			return fmt.Errorf("an event names no command of this run: %q", id)
		}
		l.latencies[n] = time.Since(l.begin) - time.Duration(l.sent[n].Load())
		<-l.room
		l.finished.Add(1)
		l.stall.Reset(stallAfter)
		if left--; left == 0 {
			return nil
		}
	}
	return errors.New("the events ended before the commands did")
}
