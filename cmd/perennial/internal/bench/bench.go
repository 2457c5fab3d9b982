// Package bench measures this machine: `perennial bench`. The same commands are carried out
// by the frozen client of package reference (direct), and then by the runner with every
// guarantee on, once for each part that was asked for. Each part renews proxies of its own.
//
// What is not the runner works in processes of its own (process.go), so that CPU,
// allocations and memory are the runner's: the sandbox, the producer of commands with the
// follower of events, and the filling of a long ledger.
//
// The package knows flags by their names alone, and prints nothing. It leaves neither a file, a process nor
// anything on a NATS server.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
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

// Options are what to measure. The flags of the same names describe them (docs/cli.md).
type Options struct {
	Kind        string // renew or order
	Commands    int
	Concurrency int // requests of each account in progress at once
	InFlight    int // commands of each account published and not finished, at most; 0: the default
	Accounts    int
	Rows        int64 // that each journal has before
	Drain       bool
	Profiles    string // a directory

	// NATS is another server to measure too; Queue, to it, remains the caller's.
	NATS  *config.NATS
	Queue *queue.Queue

	Log    *logrus.Logger
	Stderr io.Writer                                              // of the processes
	Write  func(path string, write func(w io.Writer) error) error // writes a profile
}

const (
	// mostInFlight is what the follower has room for, in events at once.
	mostInFlight = 32768
	// mostRequests is of all accounts: the sandbox keeps twice as many connections open.
	mostRequests = 2048
)

// Check returns why the options cannot be measured, in the words of their flags.
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

// window keeps every worker busy by default, and is small enough for latencies to mean it.
func (o Options) window() int {
	if o.InFlight > 0 {
		return o.InFlight
	}
	return max(batchSize, 16*o.Concurrency)
}

// shareOf is how many of the commands are the i-th account's: they go to the accounts in turn.
func shareOf(commands, accounts, i int) int { return (commands - i + accounts - 1) / accounts }

func (o Options) share() int { return shareOf(o.Commands, o.Accounts, 0) }

// parts counts the direct client, the runner, and the runner of each further part.
func (o Options) parts() int {
	asked := map[bool]int{true: 1}
	return 2 + asked[o.Drain] + asked[o.NATS != nil]
}

type bench struct {
	Options

	dir     string
	base    string             // the sandbox's address
	clients []*upstream.Client // by account: for lists, and to check the books
	done    int                // parts
	out     Result
}

// Run returns the result also where the books do not agree ([Result.Agree]). It ends with
// ctx, and with any of its processes.
func Run(ctx context.Context, o Options) (out Result, err error) {
	b := &bench{Options: o, out: Result{
		Kind: o.Kind, Commands: o.Commands, Concurrency: o.Concurrency, InFlight: o.window(), Accounts: o.Accounts,
		Cores: runtime.NumCPU(), SandboxProcesses: 1, BooksAgree: true,
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
		defer func() { err = errors.Join(err, endTrial(ctx, alone)) }()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	box, ready, err := b.start(ctx, "sandbox", b.provider(), cancel)
	if err != nil {
		return out, fmt.Errorf("start the sandbox: %w", err)
	}
	defer box.stop()
	b.base = ready.Base
	defer func() {
		for _, c := range b.clients {
			c.Close()
		}
	}()
	for i := range o.Accounts {
		client, err := upstream.New(upstream.Config{BaseURL: b.base, AppID: appID(i), Secret: secret, Clock: time.Now})
		if err != nil {
			return out, err
		}
		b.clients = append(b.clients, client)
	}
	err = because(ctx, b.measure(ctx))
	return b.out, err
}

func (b *bench) measure(ctx context.Context) error {
	if err := b.direct(ctx); err != nil {
		return fmt.Errorf("direct: %w", err)
	}
	got, err := b.carryOut(ctx, part{what: "runner"})
	if err != nil {
		return err
	}
	b.out.Used, b.out.Latency, b.out.Ratio = got.Used, got.Latency, got.PerSecond/b.out.DirectPerSecond
	b.out.RowsBefore, b.out.LedgerBytes, b.out.PeakMemoryBytes = got.rowsBefore, got.ledgerBytes, resources().Maxrss<<10
	if b.Drain {
		taken := &firstTaken{at: make(chan used, 1)}
		got, err := b.carryOut(ctx, part{what: "runner of a full queue", profiles: "drained.", full: taken, reached: taken.reached})
		if err != nil {
			return err
		}
		b.out.Drained = &Drained{Used: got.Used, Ratio: got.PerSecond / b.out.DirectPerSecond, RowsBefore: got.rowsBefore, BooksAgree: got.booksAgree}
	}
	if b.NATS != nil {
		return b.measureOuter(ctx)
	}
	return nil
}

// because is err, with why ctx ended where it did and err does not say.
func because(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w (%w)", cause, err)
}

// direct sends the runner's requests with the frozen client, as many at once.
func (b *bench) direct(ctx context.Context) error {
	var clients []*reference.Client
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
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
