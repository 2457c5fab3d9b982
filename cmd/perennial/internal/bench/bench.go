// Package bench implements `perennial bench`, which measures this machine. First, the frozen
// client of package reference sends the requests without the runner ("direct"). Then the runner
// executes commands with all guarantees. It does so once for each requested part of the
// benchmark, such as the part with a full queue. Each part renews its own proxies.
//
// Everything except the runner works in separate processes (process.go): the sandbox, the
// producer of commands, the consumer of events, and the filling of a long ledger. The CPU
// time, allocations and memory of this process are therefore the runner's.
//
// The package prints nothing, and mentions flags only in errors. It removes its files and
// processes, and leaves nothing on a NATS server.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/reference"
	"perennial/queue"
	"perennial/queue/trial"
	"perennial/upstream"
)

// Options select what to measure. docs/cli.md describes the corresponding flags.
type Options struct {
	Kind        string // renew or order
	Commands    int
	Concurrency int // requests in progress for each account
	InFlight    int // limit of unfinished commands for each account; 0 means the default
	Accounts    int
	Rows        int64 // rows of each journal before the measurement
	Drain       bool
	Profiles    string // path of a directory

	// NATS is an external server that is also measured. It is nil if only the embedded server is
	// measured. Queue is a connection to the external server. The caller opens and closes the
	// connection.
	NATS  *config.NATS
	Queue *queue.Queue

	Log    *logrus.Logger
	Stderr io.Writer                                              // receives the error output of the started processes
	Write  func(path string, write func(w io.Writer) error) error // function that writes a profile to a file
}

const (
	// mostInFlight limits the unfinished commands. The reader of the events can buffer this many
	// events.
	mostInFlight = 32768
	// mostRequests limits the concurrent requests of all accounts. The sandbox allows twice as
	// many connections.
	mostRequests = 2048
)

// Check returns an error for invalid options. The error names the flags.
func (o Options) Check() error {
	for _, one := range []struct {
		wrong bool
		why   string
	}{
		{o.Kind != "renew" && o.Kind != "order", fmt.Sprintf("--kind is %q: use renew or order", o.Kind)},
		{o.NATS != nil && (o.Accounts > 1 || o.Rows > 0), "--nats works with one account of an empty ledger: leave --accounts and --rows out"},
		{o.Commands < 1 || o.Concurrency < 1 || o.Concurrency > 1024, "--commands must be at least 1 and --concurrency 1 to 1024"},
		{o.Accounts > mostRequests/max(o.Concurrency, 1), fmt.Sprintf("--accounts times --concurrency must be at most %d concurrent requests", mostRequests)},
		{o.InFlight < 0 || o.InFlight > mostInFlight, fmt.Sprintf("--in-flight must be 1 to %d", mostInFlight)},
		{o.Accounts < 1 || o.Accounts > o.Commands, fmt.Sprintf("--accounts must be at least 1, and no more than --commands (%d): each has its part of them", o.Commands)},
		{o.Rows < 0, "--rows must be at least 0"},
	} {
		if one.wrong {
			return errors.New(one.why)
		}
	}
	return nil
}

// window returns the limit of unfinished commands for each account. The default keeps every
// worker busy, yet is small enough for meaningful latencies.
func (o Options) window() int {
	if o.InFlight > 0 {
		return o.InFlight
	}
	return max(batchSize, 16*o.Concurrency)
}

// shareOf returns how many commands belong to account i, round-robin.
func shareOf(commands, accounts, i int) int { return (commands - i + accounts - 1) / accounts }

func (o Options) share(i int) int { return shareOf(o.Commands, o.Accounts, i) }

type bench struct {
	Options

	dir     string
	base    string             // the sandbox's address
	clients []*upstream.Client // clients that list proxies and read wallets, one for each account
	done    int                // number of finished parts
	out     Result
}

// Run measures, and then returns the result. It returns a result even if the books disagree
// ([Result.Agree]). It stops when ctx ends or one of its processes ends.
func Run(ctx context.Context, o Options) (out Result, err error) {
	b := &bench{Options: o, out: Result{
		Kind: o.Kind, Commands: o.Commands, Concurrency: o.Concurrency, InFlight: o.window(), Accounts: o.Accounts,
		Cores: runtime.NumCPU(), SandboxProcesses: 1,
	}}
	if b.dir, err = os.MkdirTemp("", "perennial-bench-*"); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if o.NATS != nil {
		alone, err := trial.Begin(ctx, o.Queue.JetStream(), OuterAccount)
		if occupied, ok := errors.AsType[*trial.OccupiedError](err); ok {
			return out, fmt.Errorf("%w\nanother benchmark works there, or one was killed: then remove these with `nats stream rm`, and run it again", occupied)
		}
		if err != nil {
			return out, err
		}
		defer func() { // closed even after an interrupt
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
			defer cancel()
			err = errors.Join(err, alone.End(limited))
		}()
	}
	box, err := b.start(ctx, "sandbox")
	if err != nil {
		return out, fmt.Errorf("start the sandbox: %w", err)
	}
	defer box.stop()
	if err := box.do("Sandbox", b.provider(), &b.base); err != nil {
		return out, fmt.Errorf("start the sandbox: %w", err)
	}
	defer func() { closeAll(b.clients) }()
	for i := range o.Accounts {
		client, err := upstream.New(upstream.Config{BaseURL: b.base, AppID: appID(i), Secret: secret, Clock: time.Now})
		if err != nil {
			return out, err
		}
		b.clients = append(b.clients, client)
	}
	err = because(box.ctx, b.measure(box.ctx))
	return b.out, err
}

func closeAll[C interface{ Close() }](clients []C) {
	for _, c := range clients {
		c.Close()
	}
}

func (b *bench) measure(ctx context.Context) error {
	if err := b.direct(ctx); err != nil {
		return fmt.Errorf("direct: %w", err)
	}
	got, err := b.carryOut(ctx, part{what: "runner"})
	if err != nil {
		return err
	}
	b.out.Carried, b.out.Ratio, b.out.PeakMemoryBytes = got, got.PerSecond/b.out.DirectPerSecond, resources().Maxrss<<10
	if b.Drain {
		taken := make(chan used, 1)
		first := sync.OnceFunc(func() { taken <- usedNow() })
		got, err := b.carryOut(ctx, part{what: "runner of a full queue", profiles: "drained.", taken: taken, reached: func(point string) {
			if point == "intake.delivered" {
				first()
			}
		}})
		if err != nil {
			return err
		}
		b.out.Drained = &Drained{got, got.PerSecond / b.out.DirectPerSecond}
		b.out.walletCents, b.out.BooksAgree = got.walletCents, b.out.BooksAgree && got.BooksAgree
	}
	b.out.WalletCents = b.out.walletCents
	if b.NATS != nil {
		return b.measureOuter(ctx)
	}
	return nil
}

// because returns err, wrapped with the cause that ended ctx. If err already contains the cause,
// it returns err unchanged.
func because(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w (%w)", cause, err)
}

// direct measures the frozen client. The client sends the same requests as the runner, with the
// same concurrency.
func (b *bench) direct(ctx context.Context) error {
	var clients []*reference.Client
	defer func() { closeAll(clients) }()
	for i := range b.Accounts {
		client, err := reference.New(b.base, appID(i), secret, b.Concurrency)
		if err != nil {
			return err
		}
		clients = append(clients, client)
	}
	var next atomic.Int64
	begin := usedNow()
	group, ctx := errgroup.WithContext(ctx)
	for range b.Concurrency * b.Accounts {
		group.Go(func() (err error) {
			for n := int(next.Add(1)) - 1; n < b.Commands && err == nil; n = int(next.Add(1)) - 1 {
				client, key := clients[n%b.Accounts], "direct-"+strconv.Itoa(n)
				if b.Kind == "renew" {
					err = client.Renew(ctx, key, proxyName(n%b.Accounts, n/b.Accounts), days)
				} else {
					err = client.Order(ctx, key, offer, days)
				}
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	used := usedNow().since(begin, b.Commands)
	b.out.DirectPerSecond, b.out.DirectCPUMicros = used.PerSecond, used.CPUMicros
	return nil
}

// Used contains the rate of all accounts together, and what the runner used for each command.
type Used struct {
	PerSecond   float64 `json:"runner_per_second"`
	CPUMicros   float64 `json:"runner_cpu_us_per_command"`
	Allocations float64 `json:"allocations_per_command"` // number of heap allocations
}

// Latency is the time from a command's publication to its last event.
type Latency struct {
	P50Millis float64 `json:"p50_ms"`
	P99Millis float64 `json:"p99_ms"`
}

// Carried is the measurement of one part of the benchmark.
type Carried struct {
	Used
	Latency
	LedgerBytes int64 `json:"ledger_bytes"` // size of the ledgers after the part
	RowsBefore  int64 `json:"rows_before"`  // average rows of a journal before the measurement
	BooksAgree  bool  `json:"books_agree"`

	ledgerBytesBefore, rows, walletCents int64
	took                                 time.Duration
}

// Result is the measurement of a benchmark.
type Result struct {
	Kind             string  `json:"kind"`
	Commands         int     `json:"commands"`
	Concurrency      int     `json:"concurrency"`
	InFlight         int     `json:"in_flight"` // limit of unfinished commands
	Accounts         int     `json:"accounts"`
	Cores            int     `json:"cores"`
	DirectPerSecond  float64 `json:"direct_per_second"`
	Ratio            float64 `json:"ratio"` // the runner's rate divided by the direct rate
	DirectCPUMicros  float64 `json:"direct_cpu_us_per_command"`
	Carried                  // BooksAgree is true if the books agree after every part on the embedded server
	PeakMemoryBytes  int64   `json:"peak_memory_bytes"`
	WalletCents      int64   `json:"wallet_cents"`
	SandboxProcesses int     `json:"sandbox_processes"`

	Drained *Drained `json:"drained,omitempty"` // nil without --drain
	Outer   *Outer   `json:"outer,omitempty"`   // nil without --nats
}

// Drained measures a full queue, from the first command to the last event.
type Drained struct {
	Carried
	Ratio float64 `json:"ratio"` // rate divided by the direct rate
}

// Outer measures the runner with an external NATS server or cluster. It does not include
// what the servers' processes used.
type Outer struct {
	Servers  int `json:"servers"` // number of servers that the connected server lists
	Replicas int `json:"replicas"`
	Carried
	Groups         int64   `json:"groups"` // number of atomic batches; the writer publishes one before each COMMIT
	RowsPerGroup   float64 `json:"rows_per_group"`
	PublishMillis  float64 `json:"publish_ms"`    // mean time from sending a batch to the cluster's acknowledgement
	PublishShare   float64 `json:"publish_share"` // share of the total time spent publishing, from 0 to 1
	BetweenMillis  float64 `json:"between_ms"`    // mean time from a batch's acknowledgement to the sending of the next batch
	ProviderMillis float64 `json:"provider_ms"`   // mean time of one request
	EventsBytes    int64   `json:"events_bytes"`  // size of one replica of the events stream
	Rows           int64   `json:"rows"`          // rows of the journal
}

// Agree reports whether the books of every part agree with the provider's wallet.
func (r *Result) Agree() bool { return r.BooksAgree && (r.Outer == nil || r.Outer.BooksAgree) }

// Table returns the result as rows, each with a name and a value.
func (r *Result) Table() (rows [][]string) {
	add := func(name, format string, args ...any) {
		rows = append(rows, []string{name, fmt.Sprintf(format, args...)})
	}
	add("commands", "%s", r.what())
	add("direct", "%.0f/s, %.0f us of CPU each", r.DirectPerSecond, r.DirectCPUMicros)
	add("runner", "%.0f/s, %.0f us of CPU and %.0f allocations each", r.PerSecond, r.CPUMicros, r.Allocations)
	add("ratio", "%.2f", r.Ratio)
	add("publish to event", "p50 %.1f ms, p99 %.1f ms, %d in flight", r.P50Millis, r.P99Millis, r.InFlight)
	if d := r.Drained; d != nil {
		add("full queue", "%.0f/s (ratio %.2f), %.0f us of CPU and %.0f allocations each", d.PerSecond, d.Ratio, d.CPUMicros, d.Allocations)
	}
	add("peak memory", "%.0f MiB", float64(r.PeakMemoryBytes)/(1<<20))
	add("ledger", "%.0f bytes a command", float64(r.LedgerBytes-r.ledgerBytesBefore)/float64(r.Commands))
	add("books agree", "%t", r.BooksAgree)
	o := r.Outer
	if o == nil {
		return rows
	}
	where := "one server"
	if o.Servers > 1 {
		where = fmt.Sprintf("%d servers", o.Servers)
	}
	add("", "")
	add("with --nats", "%s, %d replicas", where, o.Replicas)
	add("runner", "%.0f/s, %.0f us of CPU each (embedded: %.0f/s, %.0f us)", o.PerSecond, o.CPUMicros, r.PerSecond, r.CPUMicros)
	add("publish to event", "p50 %.1f ms, p99 %.1f ms (embedded: %.1f, %.1f)", o.P50Millis, o.P99Millis, r.P50Millis, r.P99Millis)
	add("events stream", "%d groups of %.1f rows, %.2f ms each: %.0f%% of the time", o.Groups, o.RowsPerGroup, o.PublishMillis, 100*o.PublishShare)
	add("all else of the writer", "%.2f ms between two groups: gathering, SQLite, the commit", o.BetweenMillis)
	add("provider", "%.2f ms a request", o.ProviderMillis)
	add("disk", "ledger %.0f, events %.0f bytes a command", float64(o.LedgerBytes)/float64(r.Commands), float64(o.EventsBytes)/float64(r.Commands))
	add("books agree", "%t", o.BooksAgree)
	return rows
}

func (r *Result) what() string {
	text := fmt.Sprintf("%d at concurrency %d on %d cores", r.Commands, r.Concurrency, r.Cores)
	if r.Accounts > 1 {
		text += fmt.Sprintf(" each, for %d accounts", r.Accounts)
	}
	if r.ledgerBytesBefore > 0 {
		text += fmt.Sprintf(", behind %d rows (%.0f MiB)", r.RowsBefore, float64(r.ledgerBytesBefore)/(1<<20))
	}
	return text
}
