// Package bench implements `perennial bench`, which measures this machine. First, the frozen
// client of package reference sends the requests without the runner ("direct"). Then the
// runner executes commands with all guarantees, once for each requested part. Each part
// renews its own proxies.
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

	// NATS is an external server that is also measured, or nil. Queue is a connection to it,
	// which the caller opens and closes.
	NATS  *config.NATS
	Queue *queue.Queue

	Log    *logrus.Logger
	Stderr io.Writer                                              // receives the error output of the started processes
	Write  func(path string, write func(w io.Writer) error) error // function that writes a profile to a file
}

const (
	// mostInFlight limits the unfinished commands. The follower can buffer this many events.
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

// shareOf returns how many of the commands belong to account i. The commands are distributed
// round-robin.
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

// Run measures and returns the result, even if the books disagree ([Result.Agree]). It stops
// when ctx ends or one of its processes ends.
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

// because adds the cause of ctx's end to err, unless err already contains it. It returns nil if
// err is nil.
func because(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w (%w)", cause, err)
}

// direct sends the runner's requests with the frozen client, at the runner's concurrency.
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
