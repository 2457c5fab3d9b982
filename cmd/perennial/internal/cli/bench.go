// `perennial bench`: the same requests sent by the bare client and by the runner,
// against a sandbox in its own process.

package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/files"
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
}

func (a *app) benchCommand() *cobra.Command {
	b := bench{app: a}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: the runner against the bare API client, in one run",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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

const (
	benchAppID  = "sbx_app_bench"
	benchSecret = "a-benchmark-needs-no-secret"
)

func (b *bench) run(ctx context.Context) (err error) {
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
	if err := b.runner(ctx, &out); err != nil {
		return fmt.Errorf("runner: %w", err)
	}
	out.Ratio = out.RunnerPerSecond / out.DirectPerSecond
	if err := b.app.printBench(out); err != nil {
		return err
	}
	if !out.BooksAgree {
		return &exitError{ExitFailed, errors.New("the books do not agree with the provider's wallet")}
	}
	return nil
}

func benchClient(base string) (*upstream.Client, error) {
	return upstream.New(upstream.Config{BaseURL: base, AppID: benchAppID, Secret: benchSecret, Clock: time.Now})
}

// startSandbox runs the sandbox as its own process, in memory, as the referee
// of both runs.
func (b *bench) startSandbox(ctx context.Context) (stop func(), err error) {
	fixture := map[string]any{
		"accounts": []any{map[string]any{
			"account_id": "acc_bench", "email": "bench@example.com",
			"wallet": map[string]any{"currency": "USD", "sandbox_cents": int64(b.commands) * 2 * 300},
			"keys":   []any{map[string]any{"app_id": benchAppID, "secret": benchSecret}},
		}},
		"offers": []any{map[string]any{
			"offer_code": "off_bench", "name": "bench", "country_code": "US", "country_name": "United States", "region": "Dallas",
			"line_name": "premium", "ip_type": "isp", "protocol": "socks5", "unit_price_cents": 300, "base_duration_days": 30,
			"duration_days": []int{30}, "max_quantity": 500, "cidrs": []string{"198.51.100.0/24"}, "stock": 4 * b.commands,
		}},
		"proxies": []any{map[string]any{
			"count": 2 * b.commands, "prefix": "px_", "account_id": "acc_bench", "environment": "sandbox", "offer_code": "off_bench", "expires_in": "24h..240h",
		}},
	}
	text, err := json.Marshal(fixture)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.dir, "fixture.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "sandbox", "--json", "--fixture", file, "--charges", filepath.Join(b.dir, "charges.jsonl"), "--charges-nosync")
	cmd.Stderr = b.app.stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	var line SandboxReadyLine
	if err := json.NewDecoder(bufio.NewReader(pipe)).Decode(&line); err != nil {
		stop()
		return nil, fmt.Errorf("the sandbox did not start: %w", err)
	}
	b.base = line.Sandbox
	return stop, nil
}

// proxyName is the sandbox fixture's name of its n-th proxy, from 0.
func proxyName(n int) string { return "px_" + strconv.Itoa(n+1) }

// direct sends the same requests as the runner with the bare client.
func (b *bench) direct(ctx context.Context, out *benchResult) error {
	var next atomic.Int64
	cpu, begin := cpuMicros(), time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for range b.concurrency {
		group.Go(func() error {
			for {
				n := int(next.Add(1)) - 1
				if n >= b.commands {
					return nil
				}
				if err := b.directOne(ctx, n); err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	out.DirectPerSecond = float64(b.commands) / time.Since(begin).Seconds()
	out.DirectCPUMicros = float64(cpuMicros()-cpu) / float64(b.commands)
	return nil
}

func (b *bench) directOne(ctx context.Context, n int) error {
	key := "direct-" + strconv.Itoa(n)
	if b.kind == "renew" {
		_, err := b.client.Renew(ctx, key, upstream.RenewRequest{ProxyIDs: []string{proxyName(n)}, DurationDays: 30})
		return err
	}
	created, err := b.client.CreateOrder(ctx, key, upstream.OrderRequest{DurationDays: 30, Items: []upstream.OrderItem{{OfferCode: "off_bench", Quantity: 1}}})
	if err != nil {
		return err
	}
	_, err = b.client.Order(ctx, created.OrderNo)
	return err
}

// runner publishes commands to NATS and has them carried out with every
// guarantee on: SQLite FULL, events published.
func (b *bench) runner(ctx context.Context, out *benchResult) error {
	h, err := daemon.Start(ctx, b.config(), b.app.logger(), nil)
	if err != nil {
		return err
	}
	defer h.Close()
	hostCtx, stopHost := context.WithCancel(ctx)
	defer stopHost()
	done := make(chan error, 1)
	go func() { done <- h.Run(hostCtx) }()
	if err := b.list(ctx, h); err != nil {
		return err
	}
	if err := b.profiled(func() error { return b.measure(ctx, h, out) }); err != nil {
		return err
	}
	stopHost()
	if err := <-done; err != nil {
		return err
	}
	return b.checkBooks(ctx, h, out)
}

// config is that of the runner which is measured.
func (b *bench) config() *config.Config {
	c := &config.Config{
		DataDir: filepath.Join(b.dir, "data"), NATS: config.NATS{Listen: "127.0.0.1:0"}, HTTP: config.HTTP{Listen: "127.0.0.1:0"},
		Accounts: map[string]*config.Account{"bench": {
			BaseURL: b.base, AppID: benchAppID, Secret: benchSecret, RatePerSecond: 1e6, Concurrency: b.concurrency, Location: time.UTC,
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
	return h.Accounts[0].Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Observe(1, listed...) })
}

// profiled runs do under the CPU profiler when a profile is asked for.
func (b *bench) profiled(do func() error) error {
	if b.profile == "" {
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
func (b *bench) checkBooks(ctx context.Context, h *daemon.Host, out *benchResult) error {
	book, err := h.Accounts[0].Ledger.Balance(ctx, "bench")
	if err != nil {
		return err
	}
	wallet, err := b.client.Wallet(ctx)
	if err != nil {
		return err
	}
	if info, err := os.Stat(h.Config.LedgerPath("bench")); err == nil {
		out.LedgerBytes = info.Size()
	}
	out.WalletCents, out.BooksAgree = book.WalletCents, book.WalletCents == wallet.BalanceCents
	return nil
}

func (a *app) printBench(r benchResult) error {
	if a.output == "json" {
		return printJSON(a.stdout, r)
	}
	return a.table([]string{"BENCH", r.Kind}, [][]string{
		{"commands", fmt.Sprintf("%d at concurrency %d on %d cores", r.Commands, r.Concurrency, r.Cores)},
		{"direct", fmt.Sprintf("%.0f/s, %.0f us of CPU each", r.DirectPerSecond, r.DirectCPUMicros)},
		{"runner", fmt.Sprintf("%.0f/s, %.0f us of CPU each", r.RunnerPerSecond, r.RunnerCPUMicros)},
		{"ratio", fmt.Sprintf("%.2f", r.Ratio)},
		{"publish to event", fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", r.P50Millis, r.P99Millis)},
		{"peak memory", fmt.Sprintf("%.0f MiB", float64(r.PeakMemoryBytes)/(1<<20))},
		{"ledger", fmt.Sprintf("%.0f bytes a command", float64(r.LedgerBytes)/float64(r.Commands))},
		{"books agree", strconv.FormatBool(r.BooksAgree)},
	})
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
