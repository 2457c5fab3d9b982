// `perennial bench`: the same requests sent by the frozen reference client and by the
// runner, against a sandbox in its own process.

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"perennial/upstream"
)

// benchResult is what `bench` prints. Rates are commands a second, of all accounts
// together.
type benchResult struct {
	Kind              string  `json:"kind"`
	Commands          int     `json:"commands"`
	Concurrency       int     `json:"concurrency"`
	InFlight          int     `json:"in_flight"` // commands published and not finished, at most
	Accounts          int     `json:"accounts"`
	Cores             int     `json:"cores"`
	DirectPerSecond   float64 `json:"direct_per_second"`
	RunnerPerSecond   float64 `json:"runner_per_second"`
	Ratio             float64 `json:"ratio"`
	DirectCPUMicros   float64 `json:"direct_cpu_us_per_command"`
	RunnerCPUMicros   float64 `json:"runner_cpu_us_per_command"`
	RunnerAllocations float64 `json:"allocations_per_command"` // on the heap, of the runner's process
	P50Millis         float64 `json:"p50_ms"`
	P99Millis         float64 `json:"p99_ms"`
	PeakMemoryBytes   int64   `json:"peak_memory_bytes"`
	WalletCents       int64   `json:"wallet_cents"`
	BooksAgree        bool    `json:"books_agree"` // of every part on the embedded server
	LedgerBytes       int64   `json:"ledger_bytes"`
	RowsBefore        int64   `json:"rows_before"` // of each journal, when the measurement began
	SandboxProcesses  int     `json:"sandbox_processes"`

	Drained *drainedResult `json:"drained,omitempty"` // with --drain
	Pages   *pagesResult   `json:"pages,omitempty"`   // with --open-pages
	Outer   *outerResult   `json:"outer,omitempty"`   // with --nats

	ledgerBytesBefore int64
}

// drainedResult is what `bench --drain` prints of the queue that was full when the runner
// came: from the first command that it takes to the last event.
type drainedResult struct {
	PerSecond   float64 `json:"runner_per_second"`
	Ratio       float64 `json:"ratio"` // to direct
	CPUMicros   float64 `json:"runner_cpu_us_per_command"`
	Allocations float64 `json:"allocations_per_command"`
	RowsBefore  int64   `json:"rows_before"`
	BooksAgree  bool    `json:"books_agree"`
}

type bench struct {
	app         *app
	kind        string
	commands    int
	concurrency int
	inFlight    int // 0: the default
	accounts    int
	rows        int64
	drain       bool
	openPages   int
	dir         string
	base        string
	clients     []*upstream.Client // by account
	profile     string             // a file
	profiles    string             // a directory
	outer       *outerBench        // nil without --nats
}

func (a *app) benchCommand() *cobra.Command {
	b := bench{app: a}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: the runner against a bare API client, in one run",
		Long:  benchLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("nats") { // PERENNIAL_NATS alone is where commands go, and not what to put under load
				b.outer = &outerBench{}
			}
			if cmd.Flags().Changed("in-flight") && b.inFlight < 1 {
				return usage("--in-flight must be 1 to %d", mostInFlight)
			}
			if err := b.check(); err != nil {
				return err
			}
			return b.run(cmd.Context())
		},
	}
	f := c.Flags()
	wholeVar(f, &b.commands, "commands", 20000, "how many commands")
	f.StringVar(&b.kind, "kind", "renew", "renew or order")
	wholeVar(f, &b.concurrency, "concurrency", 64, "requests of an account under way at once, as in its configuration")
	wholeVar(f, &b.inFlight, "in-flight", 0, "commands of an account published and not finished, at most (default 16 times the concurrency, and no less than 512)")
	f.BoolVar(&b.drain, "drain", false, "also measure how a queue is drained that was filled before the runner came")
	wholeVar(f, &b.openPages, "open-pages", 0, "also measure the runner while so many people have its pages open")
	wholeVar(f, &b.accounts, "accounts", 1, "accounts on the one runner, among which the commands are spread")
	wholeVar(f, &b.rows, "rows", 0, "rows that each journal has before anything is measured")
	f.StringVar(&b.profile, "cpuprofile", "", "write a CPU profile of the runner's part to this file")
	f.StringVar(&b.profiles, "profile", "", "write profiles of the runner's parts to this directory: CPU, allocations, heap, mutexes")
	return c
}

const benchLong = `Sends the same requests by a client that does not change from version to version and by
the runner, against a sandbox in a process of its own, and checks the books. The producer
of the commands and the follower of the events are a process of their own too.

--in-flight 1 gives the latency of one user who waits, --drain the rate of a queue that
stands full, --open-pages N what it costs that so many people look at the pages of
` + "`run`" + ` meanwhile, each of which is loaded again whenever something has changed (every
0.8 s at most). --accounts N gives the rate of N accounts together, --rows N what a long journal
costs: it needs some 2 kB of the temporary directory for each row, and a while.

With --nats URL the same commands are carried out once more through that NATS server or
cluster, with 3 replicas on a cluster of three and more, and printed beside the embedded
server's figures. It works under an account of its own there, ` + outerAccount + `: it
refuses to begin where that account exists, and removes its streams, consumers and lease
when it ends. It puts load on the server: do not aim it at one that works.`

// mostInFlight is how many commands may be under way at most: of more the follower would
// have to hear more events at once than it has room for.
const mostInFlight = 32768

// mostBenchRequests is how many requests of all accounts may be under way at once: the
// sandbox keeps no more than twice as many connections open.
const mostBenchRequests = 2048

func (b *bench) check() error {
	switch {
	case b.kind != "renew" && b.kind != "order":
		return usage("--kind is %q: use renew or order", b.kind)
	case b.outer != nil && (b.accounts > 1 || b.rows > 0):
		return usage("--nats works with one account of an empty ledger: leave --accounts and --rows out")
	case b.profile != "" && b.profiles != "":
		return usage("--cpuprofile and --profile are given: one of them is enough, --profile has a CPU profile too")
	}
	return b.checkNumbers()
}

func (b *bench) checkNumbers() error {
	switch {
	case b.commands < 1 || b.concurrency < 1 || b.concurrency > 1024:
		return usage("--commands must be at least 1 and --concurrency 1 to 1024")
	case b.accounts > mostBenchRequests/b.concurrency:
		return usage("--accounts times --concurrency must be at most %d requests under way at once", mostBenchRequests)
	case b.inFlight < 0 || b.inFlight > mostInFlight:
		return usage("--in-flight must be 1 to %d", mostInFlight)
	case b.accounts < 1 || b.accounts > b.commands:
		return usage("--accounts must be at least 1, and no more than --commands (%d): each has its part of them", b.commands)
	case b.openPages < 0 || b.openPages > mostOpenPages:
		return usage("--open-pages must be 0 to %d", mostOpenPages)
	case b.rows < 0:
		return usage("--rows must be at least 0")
	}
	return nil
}

// window is how many commands are published ahead: by default enough to keep every worker
// busy, and few enough for latencies to say how busy.
func (b *bench) window() int {
	if b.inFlight > 0 {
		return b.inFlight
	}
	return max(publishAhead, 16*b.concurrency)
}

func (b *bench) run(ctx context.Context) (err error) {
	if b.outer != nil {
		if err := b.connectOuter(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.disconnectOuter(ctx)) }()
	}
	if b.dir, err = os.MkdirTemp("", "perennial-bench-*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	ctx, stop, err := b.startSandbox(ctx)
	if err != nil {
		return err
	}
	defer stop()
	defer b.closeClients()
	if err := b.openClients(); err != nil {
		return err
	}
	out := benchResult{
		Kind: b.kind, Commands: b.commands, Concurrency: b.concurrency, InFlight: b.window(), Accounts: b.accounts,
		Cores: runtime.NumCPU(), SandboxProcesses: 1,
	}
	if err := b.measureParts(ctx, &out); err != nil {
		return because(ctx, err)
	}
	if err := b.app.printBench(out); err != nil {
		return err
	}
	if !out.BooksAgree || out.Outer != nil && !out.Outer.BooksAgree {
		return &exitError{ExitFailed, errors.New("the books do not agree with the provider's wallet")}
	}
	return nil
}

// measureParts measures one part after the other.
func (b *bench) measureParts(ctx context.Context, out *benchResult) (err error) {
	if err := b.direct(ctx, out); err != nil {
		return fmt.Errorf("direct: %w", err)
	}
	if err := b.embedded(ctx, out); err != nil {
		return fmt.Errorf("runner: %w", err)
	}
	if b.drain {
		if err := b.drained(ctx, out); err != nil {
			return fmt.Errorf("runner of a full queue: %w", err)
		}
	}
	if b.openPages > 0 {
		if err := b.watched(ctx, out); err != nil {
			return fmt.Errorf("runner with open pages: %w", err)
		}
	}
	if b.outer != nil {
		if out.Outer, err = b.runOuter(ctx); err != nil {
			return fmt.Errorf("runner with %s: %w", b.outer.queue.URL(), err)
		}
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

// embedded is the runner with a NATS server in its own process.
func (b *bench) embedded(ctx context.Context, out *benchResult) error {
	l := b.embeddedLoad()
	if err := b.fill(ctx, l); err != nil {
		return fmt.Errorf("fill the ledger: %w", err)
	}
	var err error
	if out.ledgerBytesBefore, err = l.ledgerBytes(); err != nil {
		return err
	}
	got, err := b.runner(ctx, l)
	if err != nil {
		return err
	}
	out.RunnerPerSecond, out.RunnerCPUMicros, out.RunnerAllocations = got.perSecond, got.cpuMicros, got.allocations
	out.P50Millis, out.P99Millis, out.RowsBefore = got.p50Millis, got.p99Millis, got.rowsBefore
	out.PeakMemoryBytes, out.WalletCents, out.LedgerBytes, out.BooksAgree = peakMemory(), got.walletCents, got.ledgerBytes, got.booksAgree
	out.Ratio = out.RunnerPerSecond / out.DirectPerSecond
	return nil
}

// drained is the same runner, started again when its queue is full.
func (b *bench) drained(ctx context.Context, out *benchResult) error {
	got, err := b.runner(ctx, b.drainedLoad())
	if err != nil {
		return err
	}
	out.Drained = &drainedResult{
		PerSecond: got.perSecond, Ratio: got.perSecond / out.DirectPerSecond, CPUMicros: got.cpuMicros, Allocations: got.allocations,
		RowsBefore: got.rowsBefore, BooksAgree: got.booksAgree,
	}
	out.WalletCents, out.BooksAgree = got.walletCents, out.BooksAgree && got.booksAgree
	return nil
}
