// `perennial bench`: the same requests sent by the bare client and by the runner,
// against a sandbox in its own process.

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/files"
	"perennial/ledger/sleep"
	"perennial/upstream"
)

// benchResult is what `bench` prints. Rates are commands a second.
type benchResult struct {
	Kind             string  `json:"kind"`
	Commands         int     `json:"commands"`
	Concurrency      int     `json:"concurrency"`
	Cores            int     `json:"cores"`
	DirectPerSecond  float64 `json:"direct_per_second"`
	RunnerPerSecond  float64 `json:"runner_per_second"`
	Ratio            float64 `json:"ratio"`
	DirectCPUMicros  float64 `json:"direct_cpu_us_per_command"`
	RunnerCPUMicros  float64 `json:"runner_cpu_us_per_command"`
	P50Millis        float64 `json:"p50_ms"`
	P99Millis        float64 `json:"p99_ms"`
	PeakMemoryBytes  int64   `json:"peak_memory_bytes"`
	WalletCents      int64   `json:"wallet_cents"`
	BooksAgree       bool    `json:"books_agree"`
	LedgerBytes      int64   `json:"ledger_bytes"`
	SandboxProcesses int     `json:"sandbox_processes"`

	Outer *outerResult `json:"outer,omitempty"` // with --nats
}

// carriedOut is what one run of the runner came to.
type carriedOut struct {
	perSecond, cpuMicros, p50Millis, p99Millis float64

	walletCents, ledgerBytes int64
	booksAgree               bool
	rows                     int64 // of the journal
	took                     time.Duration
}

type bench struct {
	app         *app
	kind        string
	commands    int
	concurrency int
	dir         string
	base        string
	client      *upstream.Client
	profile     string
	outer       *outerBench // nil without --nats
}

func (a *app) benchCommand() *cobra.Command {
	b := bench{app: a}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: the runner against the bare API client, in one run",
		Long:  benchLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("nats") { // PERENNIAL_NATS alone is where commands go, and not what to put under load
				b.outer = &outerBench{}
			}
			if b.kind != "renew" && b.kind != "order" {
				return usage("--kind is %q: use renew or order", b.kind)
			}
			if b.commands < 1 || b.concurrency < 1 || b.concurrency > 1024 {
				return usage("--commands must be at least 1 and --concurrency 1 to 1024")
			}
			return b.run(cmd.Context())
		},
	}
	wholeVar(c.Flags(), &b.commands, "commands", 20000, "how many commands")
	c.Flags().StringVar(&b.kind, "kind", "renew", "renew or order")
	wholeVar(c.Flags(), &b.concurrency, "concurrency", 64, "requests under way at once")
	c.Flags().StringVar(&b.profile, "cpuprofile", "", "write a CPU profile of the runner's part to this file")
	return c
}

const benchLong = `Sends the same requests by the bare client and by the runner, against a sandbox in a
process of its own, and checks the books.

With --nats URL the same commands are carried out once more through that NATS server or
cluster, with 3 replicas on a cluster of three and more, and printed beside the embedded
server's figures. It works under an account of its own there, ` + outerAccount + `: it
refuses to begin where that account exists, and removes its streams, consumers and lease
when it ends. It puts load on the server: do not aim it at one that works.`

const (
	benchAppID  = "sbx_app_bench"
	benchSecret = "a-benchmark-needs-no-secret"
)

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
	stop, err := b.startSandbox(ctx)
	if err != nil {
		return err
	}
	defer stop()
	b.client, err = benchClient(b.base)
	if err != nil {
		return err
	}
	defer b.client.Close()
	out := benchResult{Kind: b.kind, Commands: b.commands, Concurrency: b.concurrency, Cores: runtime.NumCPU(), SandboxProcesses: 1}
	if err := b.direct(ctx, &out); err != nil {
		return fmt.Errorf("direct: %w", err)
	}
	if err := b.embedded(ctx, &out); err != nil {
		return fmt.Errorf("runner: %w", err)
	}
	out.Ratio = out.RunnerPerSecond / out.DirectPerSecond
	if b.outer != nil {
		if out.Outer, err = b.runOuter(ctx); err != nil {
			return fmt.Errorf("runner with %s: %w", b.outer.queue.URL(), err)
		}
	}
	if err := b.app.printBench(out); err != nil {
		return err
	}
	if !out.BooksAgree || out.Outer != nil && !out.Outer.BooksAgree {
		return &exitError{ExitFailed, errors.New("the books do not agree with the provider's wallet")}
	}
	return nil
}

func benchClient(base string) (*upstream.Client, error) {
	return upstream.New(upstream.Config{BaseURL: base, AppID: benchAppID, Secret: benchSecret, Clock: time.Now})
}

// embedded is the runner with a NATS server in its own process.
func (b *bench) embedded(ctx context.Context, out *benchResult) error {
	got, err := b.runner(ctx, embeddedLoad(b))
	if err != nil {
		return err
	}
	out.RunnerPerSecond, out.RunnerCPUMicros, out.P50Millis, out.P99Millis = got.perSecond, got.cpuMicros, got.p50Millis, got.p99Millis
	out.PeakMemoryBytes, out.WalletCents, out.LedgerBytes, out.BooksAgree = peakMemory(), got.walletCents, got.ledgerBytes, got.booksAgree
	return nil
}

// load is one run of the runner: where, and with which proxies.
type load struct {
	config   *config.Config
	account  string
	first    int  // of the sandbox's proxies, from 0
	profiled bool // by --cpuprofile
	reached  func(point string)
}

func embeddedLoad(b *bench) load {
	return load{config: b.config(), account: "bench", first: b.commands, profiled: b.outer == nil}
}

// runner publishes commands to NATS and has them carried out with every
// guarantee on: SQLite FULL, events published.
func (b *bench) runner(ctx context.Context, l load) (got carriedOut, err error) {
	if err := b.work(ctx, l, &got); err != nil {
		return got, err
	}
	info, err := os.Stat(l.config.LedgerPath(l.account)) // which is closed: its log is in it
	if err != nil {
		return got, err
	}
	got.ledgerBytes = info.Size()
	return got, nil
}

// work is the runner from its start to its end.
func (b *bench) work(ctx context.Context, l load, got *carriedOut) error {
	h, err := daemon.Start(ctx, l.config, b.app.logger(), l.reached)
	if err != nil {
		return err
	}
	defer h.Close()
	hostCtx, stopHost := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- h.Run(hostCtx) }()
	err = awaitBound(ctx, h)
	if err == nil {
		err = b.list(ctx, h)
	}
	if err == nil {
		err = b.profiled(l, func() error { return b.measure(ctx, h, l, got) })
	}
	stopHost()
	if err := errors.Join(err, <-done); err != nil { // what works must not be closed
		return err
	}
	return b.checkBooks(ctx, h, l.account, got)
}

// startWithin is how long the runner may take until it works: on a cluster, streams and
// their leaders are made first.
const startWithin = time.Minute

// awaitBound waits until the runner has the account and the provider's wallet is in its
// ledger.
func awaitBound(ctx context.Context, h *daemon.Host) error {
	limited, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		_, err := h.Accounts[0].Ledger().Binding(limited)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
		if err := sleep.For(limited, 20*time.Millisecond); err != nil {
			return fmt.Errorf("the runner did not begin within %s: its log says why: %w", startWithin, err)
		}
	}
}

// config is that of the runner which is measured.
func (b *bench) config() *config.Config {
	return b.configOf("bench", "data", config.NATS{Listen: "127.0.0.1:0"}, 1)
}

func (b *bench) configOf(account, data string, nats config.NATS, replicas int) *config.Config {
	c := &config.Config{
		DataDir: filepath.Join(b.dir, data), NATS: nats, HTTP: config.HTTP{Listen: "127.0.0.1:0"},
		Accounts: map[string]*config.Account{account: {
			BaseURL: b.base, AppID: benchAppID, Secret: benchSecret, RatePerSecond: 1e6, Concurrency: b.concurrency, Location: time.UTC, Replicas: replicas,
		}},
	}
	c.Defaults()
	return c
}

// list fills the ledger's table of proxies, as the listing passes of an account
// with schedules do: a proxy that was never seen is read before it is paid for.
func (b *bench) list(ctx context.Context, h *daemon.Host) error {
	if b.kind != "renew" {
		return nil
	}
	var listed []ledger.Proxy
	for p, err := range b.client.Proxies(ctx, 200) {
		if err != nil {
			return fmt.Errorf("list the proxies: %w", err)
		}
		listed = append(listed, jobs.Observed(p, time.Now()))
	}
	return h.Accounts[0].Ledger().Write(ctx, func(tx *ledger.Tx) error { return tx.Observe(1, listed...) })
}

// profiled runs do under the CPU profiler when a profile of this load is asked for.
func (b *bench) profiled(l load, do func() error) error {
	if b.profile == "" || !l.profiled {
		return do()
	}
	return files.Write(b.profile, 0o600, func(w io.Writer) error {
		if err := pprof.StartCPUProfile(w); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		return do()
	})
}

// checkBooks compares the ledger with the provider's wallet.
func (b *bench) checkBooks(ctx context.Context, h *daemon.Host, account string, got *carriedOut) error {
	book, err := h.Accounts[0].Ledger().Balance(ctx, account)
	if err != nil {
		return err
	}
	wallet, err := b.client.Wallet(ctx)
	if err != nil {
		return err
	}
	if got.rows, _, err = h.Accounts[0].Ledger().Head(ctx); err != nil {
		return err
	}
	got.walletCents, got.booksAgree = book.WalletCents, book.WalletCents == wallet.BalanceCents
	return nil
}

// resources is what this process has used so far; zero where the system does not say.
func resources() (used syscall.Rusage) {
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used
}

// cpuMicros is the CPU time of this process, user and system.
func cpuMicros() int64 {
	used := resources()
	return used.Utime.Nano()/1000 + used.Stime.Nano()/1000
}

// peakMemory is the largest resident size of this process, in bytes.
func peakMemory() int64 { return resources().Maxrss << 10 }
