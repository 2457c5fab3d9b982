package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/failpoint"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/queue/events"
	"perennial/upstream"
)

// part is one part of the benchmark: the runner works with one NATS server. The parts with the
// embedded server share their ledgers.
type part struct {
	what     string // name in errors
	profiles string // prefix of the file names of its profiles
	reached  func(point string)
	taken    <-chan used  // receives when the runner takes its first command; nil unless the queue is filled before the runner starts
	nats     *config.NATS // external server, or nil
	replicas int

	n        int // number of the part; direct is 0
	config   *config.Config
	accounts []string // in the sandbox's order
}

func (b *bench) carryOut(ctx context.Context, p part) (got Carried, err error) {
	b.done++
	p.n = b.done
	b.configure(&p)
	got.ledgerBytesBefore = p.ledgerBytes()
	if err := b.work(ctx, p, &got); err != nil {
		return got, fmt.Errorf("%s: %w", p.what, err)
	}
	got.LedgerBytes = p.ledgerBytes()
	return got, nil
}

func (b *bench) configure(p *part) {
	first, data, nats := "bench", "data", config.NATS{Listen: "127.0.0.1:0"}
	if p.nats != nil {
		first, data, nats = OuterAccount, "outer", *p.nats
	}
	p.config = &config.Config{DataDir: filepath.Join(b.dir, data), NATS: nats, HTTP: config.HTTP{Listen: "127.0.0.1:0"}, Accounts: map[string]*config.Account{}}
	for i := range b.Accounts {
		name := strings.TrimSuffix(first+"-"+ordinal(i), "-")
		p.accounts = append(p.accounts, name)
		p.config.Accounts[name] = &config.Account{
			BaseURL: b.base, AppID: appID(i), Secret: secret, RatePerSecond: 1e6, Concurrency: b.Concurrency, Location: time.UTC, Replicas: max(p.replicas, 1),
		}
	}
	p.config.Defaults()
}

func (p part) ledgerBytes() (bytes int64) {
	for _, name := range p.accounts {
		if info, err := os.Stat(p.config.LedgerPath(name)); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// work runs the runner for one part. It then compares the ledgers with the provider's wallets.
func (b *bench) work(ctx context.Context, p part, got *Carried) error {
	if p.reached != nil {
		ctx = failpoint.With(ctx, p.reached)
	}
	h, err := daemon.Start(ctx, p.config, b.Log)
	if err != nil {
		return err
	}
	defer h.Close()
	running, stop := context.WithCancel(ctx)
	defer stop()
	runner, measured := errgroup.WithContext(ctx)
	run := func() {
		runner.Go(func() error {
			err := h.Run(running)
			if running.Err() == nil {
				err = errors.Join(errors.New("the runner has stopped"), err)
			}
			return err
		})
	}
	err = because(measured, b.workload(measured, p, h, run, got))
	stop()
	if ended := runner.Wait(); !errors.Is(err, ended) { // waits for the runner, because a ledger in use must not be closed
		err = errors.Join(err, ended)
	}
	if err != nil {
		return err
	}
	got.BooksAgree = true
	return p.eachLedger(h, func(i int, book *ledger.Ledger) error {
		balance, err := book.Money.Balance(ctx, p.accounts[i])
		if err != nil {
			return err
		}
		wallet, err := b.clients[i].Wallet(ctx)
		if err != nil {
			return err
		}
		got.walletCents += balance.WalletCents
		got.BooksAgree = got.BooksAgree && balance.WalletCents == wallet.BalanceCents
		return p.count(ctx, book, &got.rows)
	})
}

// workload measures the time until the last event. The time begins at the first publication
// or, for a full queue, when the runner takes its first command.
func (b *bench) workload(ctx context.Context, p part, h *daemon.Host, run func(), got *Carried) error {
	if p.taken == nil {
		run()
		if err := awaitWorking(ctx, h); err != nil {
			return err
		}
	}
	if err := p.eachLedger(h, func(i int, book *ledger.Ledger) error {
		return errors.Join(List(ctx, b.clients[i], book), p.count(ctx, book, &got.RowsBefore))
	}); err != nil {
		return err
	}
	load, err := b.start(ctx, "load")
	if err != nil {
		return err
	}
	defer load.stop()
	t := &LoadTask{
		Target: config.NATS{URL: h.NATSURL()}, Accounts: p.accounts, Kind: b.Kind, Commands: b.Commands,
		First: p.n * b.share(0), InFlight: b.window(), Fill: p.taken != nil,
	}
	if p.nats != nil {
		t.Target = *p.nats
	}
	if err := load.do("Prepare", t, new(bool)); err != nil {
		return err
	}
	if p.taken != nil {
		run()
	}
	return b.profiled(p, func() error {
		begin := usedNow()
		if err := load.do("Measure", true, &got.Latency); err != nil {
			return err
		}
		if err := h.AwaitStored(ctx); err != nil {
			return err
		}
		end := usedNow()
		if p.taken != nil {
			begin = <-p.taken // does not block, because the runner took its first command before the last event
		}
		got.took, got.Used = end.at.Sub(begin.at), end.since(begin, b.Commands)
		return nil
	})
}

// eachLedger calls do with each ledger and its account's index in the sandbox.
func (p part) eachLedger(h *daemon.Host, do func(i int, book *ledger.Ledger) error) error {
	for _, a := range h.Accounts {
		if err := do(slices.Index(p.accounts, a.Name), a.Ledger()); err != nil {
			return fmt.Errorf("account %s: %w", a.Name, err)
		}
	}
	return nil
}

// count adds to rows what this ledger contributes to the average number of rows in a ledger.
func (p part) count(ctx context.Context, book *ledger.Ledger, rows *int64) error {
	seq, _, err := book.Head(ctx)
	*rows += seq / int64(len(p.accounts))
	return err
}

// startWithin is long enough to create a cluster's streams and elect their leaders.
const startWithin = time.Minute

// awaitWorking waits until every ledger is bound and the events streams contain all rows.
func awaitWorking(ctx context.Context, h *daemon.Host) error {
	limited, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for _, a := range h.Accounts {
		for {
			_, err := a.Ledger().Binding(limited)
			if err == nil {
				break
			}
			if !errors.Is(err, ledger.ErrNotFound) {
				return err
			}
			if err := sleep.For(limited, 20*time.Millisecond); err != nil {
				return fmt.Errorf("the runner did not begin within %s: its log says why: %w", startWithin, err)
			}
		}
	}
	return h.AwaitStored(ctx)
}

// List stores all proxies of the provider in the ledger. Without this, the runner would read
// each unknown proxy before paying for it.
func List(ctx context.Context, client *upstream.Client, book *ledger.Ledger) error {
	var listed []tables.Proxy
	for p, err := range client.Proxies(ctx, 200) {
		if err != nil {
			return fmt.Errorf("list the proxies: %w", err)
		}
		listed = append(listed, jobs.Observed(p, time.Now()))
	}
	now := time.Now()
	return book.Write(ctx, func(tx *ledger.Tx) error {
		return errors.Join(tx.Observe(1, listed...), tx.KeepListing(tables.Listing{Pass: 1, Began: now, Finished: now}))
	})
}

type used struct {
	at      time.Time
	cpu     int64 // CPU time, user and system, in nanoseconds
	mallocs uint64
}

func usedNow() used {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r := resources()
	return used{time.Now(), r.Utime.Nano() + r.Stime.Nano(), m.Mallocs}
}

func (u used) since(begin used, commands int) Used {
	n := float64(commands)
	return Used{n / u.at.Sub(begin.at).Seconds(), float64(u.cpu-begin.cpu) / 1000 / n, float64(u.mallocs-begin.mallocs) / n}
}

// resources returns what this process has used. Only systems without getrusage get zeros.
func resources() (r syscall.Rusage) {
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return r
}

// mutexFraction makes the profile record one in a hundred contended locks, which costs almost
// nothing.
const mutexFraction = 100

// profiled calls the function do and writes profiles of the call. It also writes the allocations
// from before the call to a separate file, for go tool pprof -base.
func (b *bench) profiled(p part, do func() error) error {
	if b.Profiles == "" {
		return do()
	}
	write := func(kind string, profile func(w io.Writer) error) error {
		return b.Write(filepath.Join(b.Profiles, p.profiles+kind+".pprof"), profile)
	}
	snapshot := func(name, kind string) error {
		if name != "mutex" {
			runtime.GC() // the profile includes allocations only up to the last collection
		}
		return write(kind, func(w io.Writer) error { return pprof.Lookup(name).WriteTo(w, 0) })
	}
	if err := errors.Join(os.MkdirAll(b.Profiles, 0o700), snapshot("allocs", "allocs-before")); err != nil {
		return err
	}
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(mutexFraction))
	if err := write("cpu", func(w io.Writer) error {
		if err := pprof.StartCPUProfile(w); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		return do()
	}); err != nil {
		return err
	}
	return errors.Join(snapshot("allocs", "allocs"), snapshot("heap", "heap"), snapshot("mutex", "mutex"))
}

const (
	// OuterAccount is the account of every benchmark on an external server. Because they share
	// it, two benchmarks cannot run on one server at the same time.
	OuterAccount = "perennial-bench"
	// outerReplicas is the number of replicas on a cluster that has enough servers.
	outerReplicas = 3
	removeWithin  = 30 * time.Second
)

func (b *bench) measureOuter(ctx context.Context) error {
	var c clocks
	p := part{what: "runner with " + b.Queue.URL(), profiles: "nats.", reached: c.reached, nats: b.NATS, replicas: outerReplicas}
	if b.Queue.CheckReplicas(outerReplicas) != nil {
		p.replicas = 1
	}
	got, err := b.carryOut(ctx, p)
	if err != nil {
		return err
	}
	state, err := events.Of(b.Queue.JetStream(), OuterAccount).State(ctx)
	if err != nil {
		return err
	}
	mean := func(d time.Duration, n int64) float64 { return float64(d.Microseconds()) / 1000 / float64(max(n, 1)) }
	b.out.Outer = &Outer{
		Servers: b.Queue.Servers(), Replicas: p.replicas, Carried: got, EventsBytes: int64(state.Bytes), Rows: got.rows,
		Groups: c.groups, RowsPerGroup: float64(got.rows) / float64(max(c.groups, 1)), // includes a few batches from the start of the runner
		PublishMillis: mean(c.publishing, c.groups), PublishShare: min(1, c.publishing.Seconds()/got.took.Seconds()),
		BetweenMillis: mean(c.between, c.groups-1), ProviderMillis: mean(c.provider, c.requests),
	}
	return nil
}

// clocks measures the time between the failpoints that a runner passes (testdata/faults).
type clocks struct {
	mu                  sync.Mutex
	groups, requests    int64
	begin               time.Time // any fixed time, from which the times in provider are counted
	sending, answered   time.Time // times of the latest batch
	publishing, between time.Duration
	provider            time.Duration // sum of reply times minus sum of request times, so replies need not be matched to requests
}

func (c *clocks) reached(point string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.begin.IsZero() {
		c.begin = now
	}
	switch point {
	case "ledger.publishing":
		if c.sending = now; c.groups > 0 {
			c.between += now.Sub(c.answered)
		}
	case "ledger.published":
		c.answered, c.groups, c.publishing = now, c.groups+1, c.publishing+now.Sub(c.sending)
	case "send.before":
		c.provider -= now.Sub(c.begin)
	case "send.received":
		c.provider, c.requests = c.provider+now.Sub(c.begin), c.requests+1
	}
}
