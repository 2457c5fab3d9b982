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

// loadTask publishes commands in a closed loop, and measures the time to each one's last
// event.
type loadTask struct {
	Target    config.NATS `json:"target"`
	Accounts  []string    `json:"accounts"` // commands go to them in turn
	Kind      string      `json:"kind"`
	Commands  int         `json:"commands"`
	First     int         `json:"first"`     // id of the first command
	FromProxy int         `json:"from"`      // each account's first proxy to renew
	InFlight  int         `json:"in_flight"` // most unfinished commands of an account
	Fill      bool        `json:"fill"`      // publish everything before reporting ready

	queue     *queue.Queue
	rooms     []chan struct{} // per account: one place for each unfinished command
	begin     time.Time
	sent      []atomic.Int64  // nanoseconds after begin, by command number from 0
	latencies []time.Duration // likewise
	finished  atomic.Int64
	stall     *time.Timer
}

const (
	// batchSize is the size of an atomic batch. With a smaller limit of unfinished
	// commands each command is sent alone.
	batchSize = 512
	// stallAfter is the longest time without an event before the runner counts as stalled.
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

// publish publishes each account's commands, within the limit of unfinished ones.
func (t *loadTask) publish(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	producers, size := 1, batchSize
	if t.InFlight < batchSize && !t.Fill {
		producers, size = t.InFlight, 1 // each producer publishes a command and waits for its end
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

// publishBatch publishes an account's commands from first to end, once there is room for
// all of them.
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

// command returns a renewal of the account's n-th proxy, or an order.
func (t *loadTask) command(account, n, id int) publish.Outgoing {
	if t.Kind == "renew" {
		return publish.Outgoing{Kind: queue.KindProxyRenew, Data: renewal(strconv.Itoa(id), proxyName(account, t.FromProxy+n))}
	}
	return publish.Outgoing{Kind: queue.KindOrderCreate, Data: fmt.Appendf(nil, `{"id":"%d","duration_days":%d,"items":[{"offer_code":"%s","quantity":1}]}`, id, days, offer)}
}

func renewal(id, proxy string) []byte {
	return fmt.Appendf(nil, `{"id":"%s","proxy_ids":["%s"],"duration_days":%d}`, id, proxy, days)
}

// follow reads events until every command has its last one. A failed command cancels ctx.
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
		// The measurement shares the cores with the runner, and does not decode whole
		// events.
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
