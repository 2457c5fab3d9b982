// `perennial bench --nats`: the same commands through another NATS server or cluster,
// under an account that is made there and removed again.

package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"perennial/cmd/perennial/internal/config"
	"perennial/queue"
)

// outerAccount is the account of the benchmark on another server. It is one name for all
// benchmarks, so that two of them are never measured together.
const outerAccount = "perennial-bench"

// outerReplicas is how many copies the streams have on a cluster that has so many servers.
const outerReplicas = 3

// removeWithin bounds the removal of what the benchmark made.
const removeWithin = 30 * time.Second

// outerResult is what `bench --nats` prints of the run with that server.
type outerResult struct {
	Servers        int     `json:"servers"` // that the connected server names
	Replicas       int     `json:"replicas"`
	PerSecond      float64 `json:"runner_per_second"`
	CPUMicros      float64 `json:"runner_cpu_us_per_command"` // without the servers, which are other processes
	Allocations    float64 `json:"allocations_per_command"`
	P50Millis      float64 `json:"p50_ms"`
	P99Millis      float64 `json:"p99_ms"`
	Groups         int64   `json:"groups"` // atomic batches, one before each COMMIT
	RowsPerGroup   float64 `json:"rows_per_group"`
	PublishMillis  float64 `json:"publish_ms"`    // of a group, until the cluster has it
	PublishShare   float64 `json:"publish_share"` // of the time, 0 to 1
	BetweenMillis  float64 `json:"between_ms"`    // from one group's acknowledgement to the next one's sending
	ProviderMillis float64 `json:"provider_ms"`   // of a request
	LedgerBytes    int64   `json:"ledger_bytes"`  // at the end
	EventsBytes    int64   `json:"events_bytes"`  // of one copy of the stream
	BooksAgree     bool    `json:"books_agree"`
	Rows           int64   `json:"rows"` // of the journal
}

// outerBench is the connection and what to remove at the end.
type outerBench struct {
	target queue.ConnectConfig
	queue  *queue.Queue
	trial  *queue.Trial
	clocks clocks
}

// connectOuter connects, and refuses a server that has the benchmark's account.
func (b *bench) connectOuter(ctx context.Context) error {
	c, err := config.Load(b.app.configFile)
	if err != nil {
		return err
	}
	b.outer.target = queue.ConnectConfig{URL: b.app.natsURL, CredsFile: c.NATS.CredsFile, Name: "perennial-bench", Log: b.app.logger()}
	if b.outer.queue, err = queue.Connect(b.outer.target); err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	b.outer.trial, err = b.outer.queue.NewTrial(ctx, outerAccount)
	if occupied, ok := errors.AsType[*queue.OccupiedError](err); ok {
		err = &exitError{ExitFailed, fmt.Errorf("%w\nanother benchmark works there, or one was killed: then remove these with `nats stream rm`, and run it again", occupied)}
	}
	if err != nil {
		b.outer.queue.Close()
	}
	return err
}

// disconnectOuter removes all that the benchmark made, also behind an interrupt.
func (b *bench) disconnectOuter(ctx context.Context) error {
	defer b.outer.queue.Close()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
	defer cancel()
	return b.outer.trial.End(limited)
}

// runOuter carries the commands out with the other server.
func (b *bench) runOuter(ctx context.Context) (*outerResult, error) {
	out := &outerResult{Servers: b.outer.queue.Servers(), Replicas: outerReplicas}
	if b.outer.queue.CheckReplicas(outerReplicas) != nil {
		out.Replicas = 1
	}
	nats := config.NATS{URL: b.outer.target.URL, CredsFile: b.outer.target.CredsFile}
	got, err := b.runner(ctx, load{
		config: b.configOf([]string{outerAccount}, "outer", nats, out.Replicas), accounts: []string{outerAccount}, part: b.parts() - 1,
		profiled: true, name: "nats.", reached: b.outer.clocks.reached,
	})
	if err != nil {
		return nil, err
	}
	state, err := b.outer.queue.EventsState(ctx, outerAccount)
	if err != nil {
		return nil, err
	}
	out.PerSecond, out.CPUMicros, out.Allocations = got.perSecond, got.cpuMicros, got.allocations
	out.P50Millis, out.P99Millis = got.p50Millis, got.p99Millis
	out.LedgerBytes, out.EventsBytes, out.BooksAgree, out.Rows = got.ledgerBytes, int64(state.Bytes), got.booksAgree, got.rows
	b.outer.clocks.fill(out, got.took)
	return out, nil
}

// clocks take the time between the moments that a runner passes (docs/reliability.md).
type clocks struct {
	mu         sync.Mutex
	groups     int64
	sending    time.Time // when the group under way was begun
	answered   time.Time // when the last group was acknowledged
	publishing time.Duration
	between    time.Duration

	requests atomic.Int64
	provider atomic.Int64 // microseconds from each request to its reply, summed
}

func (c *clocks) reached(point string) {
	switch point {
	case "ledger.publishing":
		c.mu.Lock()
		c.sending = time.Now()
		if !c.answered.IsZero() {
			c.between += c.sending.Sub(c.answered)
		}
		c.mu.Unlock()
	case "ledger.published":
		c.mu.Lock()
		c.answered = time.Now()
		c.groups++
		c.publishing += c.answered.Sub(c.sending)
		c.mu.Unlock()
	case "send.before": // a sum of ends less a sum of begins needs no pairs
		c.provider.Add(-time.Now().UnixMicro())
	case "send.received":
		c.provider.Add(time.Now().UnixMicro())
		c.requests.Add(1)
	}
}

// fill gives the means over the run. The few groups of the runner's start are among them.
func (c *clocks) fill(out *outerResult, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out.Groups = c.groups
	if c.groups == 0 {
		return
	}
	millis := func(d time.Duration, n int64) float64 { return float64(d.Microseconds()) / 1000 / float64(max(n, 1)) }
	out.RowsPerGroup = float64(out.Rows) / float64(c.groups)
	out.PublishMillis, out.BetweenMillis = millis(c.publishing, c.groups), millis(c.between, c.groups-1)
	out.PublishShare = min(1, c.publishing.Seconds()/took.Seconds())
	out.ProviderMillis = float64(c.provider.Load()) / 1000 / float64(max(c.requests.Load(), 1))
}
