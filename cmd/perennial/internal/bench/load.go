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

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"perennial/cmd/perennial/internal/config"
	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/publish"
)

// loadTask publishes the commands in a closed loop, and takes the time until each one's last
// event.
type loadTask struct {
	Target    config.NATS `json:"target"`
	Accounts  []string    `json:"accounts"` // commands go to them in turn
	Kind      string      `json:"kind"`
	Commands  int         `json:"commands"`
	First     int         `json:"first"`     // the id of the first command
	FromProxy int         `json:"from"`      // which of each account's proxies is renewed first
	InFlight  int         `json:"in_flight"` // commands of an account published and not finished, at most
	Fill      bool        `json:"fill"`      // all are published before it is ready

	queue     *queue.Queue
	rooms     []chan struct{} // of each account: as many places as commands may be in progress
	begin     time.Time
	sent      []atomic.Int64  // nanoseconds after begin, by the command's number, from 0
	latencies []time.Duration // likewise
	finished  atomic.Int64
	stall     *time.Timer
}

const (
	// batchSize is of one atomic batch. Where fewer commands may be in progress, each goes alone.
	batchSize = 512
	// stallAfter is without an event: a runner that works finishes something in it.
	stallAfter = 2 * time.Minute
)

func (t *loadTask) do(ctx context.Context, log *logrus.Logger, ready func(answer) error) (out answer, err error) {
	if t.queue, err = queue.Connect(queue.ConnectConfig{URL: t.Target.URL, CredsFile: t.Target.CredsFile, Name: OuterAccount, Log: log}); err != nil {
		return out, err
	}
	defer t.queue.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if t.Fill {
		t.InFlight = t.Commands
	}
	t.begin, t.sent, t.latencies = time.Now(), make([]atomic.Int64, t.Commands), make([]time.Duration, t.Commands)
	t.stall = time.AfterFunc(stallAfter, func() {
		cancel(fmt.Errorf("no command has finished for %s: %d of %d had", stallAfter, t.finished.Load(), t.Commands))
	})
	t.stall.Stop()
	followed, err := t.follow(ctx, cancel)
	if err != nil {
		return out, err
	}
	if t.Fill {
		if err := t.publish(ctx); err != nil {
			return out, err
		}
	}
	if err := ready(answer{}); err != nil {
		return out, err
	}
	t.stall.Reset(stallAfter)
	defer t.stall.Stop()
	if !t.Fill {
		err = t.publish(ctx)
	}
	if err == nil {
		err = followed()
	}
	if err != nil {
		return out, err
	}
	took := latency(t.latencies)
	return answer{Load: &took}, nil
}

func latency(took []time.Duration) Latency {
	slices.Sort(took)
	millis := func(p int) float64 { return float64(took[len(took)*p/100].Microseconds()) / 1000 }
	return Latency{millis(50), millis(99)}
}

// publish has producers for each account, and no more in progress than may be.
func (t *loadTask) publish(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	producers, size := 1, batchSize
	if t.InFlight < batchSize && !t.Fill {
		producers, size = t.InFlight, 1 // each publishes a command and waits for its end
	}
	for i := range t.Accounts {
		var next atomic.Int64
		for range producers {
			group.Go(func() error {
				for {
					end := int(next.Add(int64(size)))
					if i+(end-size)*len(t.Accounts) >= t.Commands {
						return nil
					}
					if err := t.publishBatch(ctx, i, end-size, end); err != nil {
						return err
					}
				}
			})
		}
	}
	return group.Wait()
}

// publishBatch publishes an account's commands, in its own count, once all may be in progress.
func (t *loadTask) publishBatch(ctx context.Context, account, first, end int) error {
	var batch []publish.Outgoing
	number := func(k int) int { return account + k*len(t.Accounts) }
	for k := first; k < end && number(k) < t.Commands; k++ {
		select {
		case t.rooms[account] <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		batch = append(batch, t.command(account, k, t.First+number(k)))
	}
	now := time.Since(t.begin).Nanoseconds()
	for k := range batch {
		t.sent[number(first+k)].Store(now)
	}
	if len(batch) == 1 {
		return publish.New(t.queue.JetStream()).Publish(ctx, t.Accounts[account], batch[0])
	}
	return publish.New(t.queue.JetStream()).PublishCommands(ctx, t.Accounts[account], batch)
}

// command asks for a renewal of the account's n-th proxy, or for another proxy.
func (t *loadTask) command(account, n, id int) publish.Outgoing {
	if t.Kind == "renew" {
		return publish.Outgoing{Kind: queue.KindProxyRenew, Data: renewal(strconv.Itoa(id), proxyName(account, t.FromProxy+n))}
	}
	return publish.Outgoing{Kind: queue.KindOrderCreate, Data: fmt.Appendf(nil, `{"id":"%d","duration_days":%d,"items":[{"offer_code":"%s","quantity":1}]}`, id, days, offer)}
}

func renewal(id, proxy string) []byte {
	return fmt.Appendf(nil, `{"id":"%s","proxy_ids":["%s"],"duration_days":%d}`, id, proxy, days)
}

// follow hears the events until every command has its last one; a failed one ends ctx.
func (t *loadTask) follow(ctx context.Context, cancel context.CancelCauseFunc) (wait func() error, err error) {
	var group errgroup.Group
	for i, account := range t.Accounts {
		room := make(chan struct{}, t.InFlight)
		t.rooms = append(t.rooms, room)
		live, err := events.Of(t.queue.JetStream(), account).Live(ctx, "renewal.*", "order.delivered", "order.refunded", "command.rejected", "operation.review")
		if err != nil {
			return nil, err
		}
		group.Go(func() error {
			err := t.followOne(live, shareOf(t.Commands, len(t.Accounts), i), room)
			if err != nil {
				cancel(err)
			}
			return err
		})
	}
	return group.Wait, nil
}

func (t *loadTask) followOne(events iter.Seq2[events.Event, error], commands int, room <-chan struct{}) error {
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
		// The measurement shares the cores with the runner: it decodes no whole event.
		_, rest, _ := bytes.Cut(e.Data, []byte(`"command_id":"`))
		id, _, _ := bytes.Cut(rest, []byte(`"`))
		n, err := strconv.Atoi(string(id))
		if n -= t.First; err != nil || n < 0 || n >= len(t.sent) {
			return fmt.Errorf("an event names no command of this run: %q", id)
		}
		t.latencies[n] = time.Since(t.begin) - time.Duration(t.sent[n].Load())
		<-room
		t.finished.Add(1)
		t.stall.Reset(stallAfter)
		if commands--; commands == 0 {
			return nil
		}
	}
	return errors.New("the events ended before the commands did")
}
