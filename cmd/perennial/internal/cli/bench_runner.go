// The runner's part of `perennial bench`: its configuration, its start and end, and what
// it used meanwhile.

package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/internal/failpoint"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/sleep"
)

// carriedOut is what one run of the runner came to.
type carriedOut struct {
	perSecond, cpuMicros, allocations, p50Millis, p99Millis float64

	walletCents, ledgerBytes int64
	pages                    *pagesLoaded
	booksAgree               bool
	rows                     int64 // of all journals
	rowsBefore               int64 // of each journal, on average
	took                     time.Duration
}

// load is one run of the runner: where, with which proxies, and when they are asked for.
type load struct {
	config   *config.Config
	accounts []string // their names, in the order of the sandbox's accounts
	part     int      // of the sandbox's proxies, from 0
	full     bool     // the queue is filled before the runner comes
	profiled bool     // by --cpuprofile
	pages    int      // that are open meanwhile
	name     string   // before the names of its profiles
	reached  func(point string)
}

func (b *bench) embeddedLoad() load {
	return load{config: b.config(), accounts: b.accountNames(), part: 1, profiled: b.outer == nil}
}

// drainedLoad is the embedded runner's, on the files that it left.
func (b *bench) drainedLoad() load {
	return load{config: b.config(), accounts: b.accountNames(), part: 2, full: true, name: "drained."}
}

// accountNames are the accounts of the embedded runner.
func (b *bench) accountNames() []string {
	names := []string{"bench"}
	for n := 2; n <= b.accounts; n++ {
		names = append(names, "bench-"+strconv.Itoa(n))
	}
	return names
}

// runner publishes commands to NATS and has them carried out with every
// guarantee on: SQLite FULL, events published.
func (b *bench) runner(ctx context.Context, l load) (got carriedOut, err error) {
	if err := b.work(ctx, l, &got); err != nil {
		return got, err
	}
	got.ledgerBytes, err = l.ledgerBytes()
	return got, err
}

// work is the runner from its start to its end.
func (b *bench) work(ctx context.Context, l load, got *carriedOut) error {
	taken := &firstTaken{at: make(chan consumed, 1)}
	reached := l.reached
	if l.full {
		reached = taken.reached
	}
	if reached != nil {
		ctx = failpoint.With(ctx, reached)
	}
	h, err := daemon.Start(ctx, l.config, b.app.logger())
	if err != nil {
		return err
	}
	defer h.Close()
	measured, end := context.WithCancelCause(ctx)
	defer end(nil)
	var producer *helper
	if l.full {
		if producer, err = b.prepare(measured, h, l, got); err != nil {
			return because(measured, err)
		}
	}
	stop := runHost(ctx, h, end)
	if !l.full {
		producer, err = b.prepare(measured, h, l, got)
	}
	if err == nil {
		err = b.profiledPart(l, func() error { return b.measure(measured, h, l, producer, taken, got) })
		producer.stop()
	}
	err = because(measured, err)
	if err := errors.Join(err, stop()); err != nil { // what works must not be closed
		return err
	}
	return b.checkBooks(ctx, h, l, got)
}

// runHost runs the accounts until stop is called; where they stop by themselves, ended
// hears why.
func runHost(ctx context.Context, h *daemon.Host, ended context.CancelCauseFunc) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		err := h.Run(ctx)
		if ctx.Err() == nil {
			ended(errors.Join(errors.New("the runner has stopped"), err))
		}
		done <- err
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// prepare tells the runner what there is and starts the producer and follower, which has
// published all commands where the queue is to be full. Elsewhere it waits first until the
// runner works and has published what its ledger held.
func (b *bench) prepare(ctx context.Context, h *daemon.Host, l load, got *carriedOut) (*helper, error) {
	if !l.full {
		if err := awaitBound(ctx, h); err != nil {
			return nil, err
		}
		if err := h.AwaitStored(ctx); err != nil {
			return nil, err
		}
	}
	if err := b.list(ctx, h, l); err != nil {
		return nil, err
	}
	rows, err := rowsOf(ctx, h)
	if err != nil {
		return nil, err
	}
	got.rowsBefore = rows / int64(len(l.accounts))
	producer, err := b.startHelper(ctx, "the producer and follower", nil, loadName)
	if err != nil {
		return nil, err
	}
	plan := b.loadPlan(h, l)
	if plan.Logins, err = logins(h, l.pages); err != nil {
		producer.stop()
		return nil, err
	}
	producer.order(plan)
	var a loadAnswer
	err = producer.answer(ctx, &a)
	if err == nil && !a.Ready {
		err = errors.New(a.Error)
	}
	if err != nil {
		producer.stop()
		return nil, err
	}
	return producer, nil
}

func (b *bench) loadPlan(h *daemon.Host, l load) loadPlan {
	plan := loadPlan{
		URL: h.NATSURL(), Accounts: l.accounts, Kind: b.kind, Commands: b.commands,
		First: l.part * b.commands, FromProxy: l.part * b.share(), InFlight: b.window(), Fill: l.full,
	}
	if h.Embedded == nil {
		plan.URL, plan.CredsFile = b.outer.target.URL, b.outer.target.CredsFile
	}
	return plan
}

// measure takes the time from the first publication, or from the first command that is
// taken from a full queue, to the last event.
func (b *bench) measure(ctx context.Context, h *daemon.Host, l load, producer *helper, taken *firstTaken, got *carriedOut) error {
	begin := usedNow()
	producer.order("go")
	var a loadAnswer
	if err := producer.answer(ctx, &a); err != nil {
		return err
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	if err := h.AwaitStored(ctx); err != nil {
		return err
	}
	end := usedNow()
	if l.full {
		begin = <-taken.at // it was there before the last event
	}
	commands := float64(b.commands)
	got.took = end.at.Sub(begin.at)
	got.perSecond = commands / got.took.Seconds()
	got.cpuMicros = float64(end.cpuMicros-begin.cpuMicros) / commands
	got.allocations = float64(end.mallocs-begin.mallocs) / commands
	got.p50Millis, got.p99Millis, got.pages = a.P50Millis, a.P99Millis, a.Pages
	return nil
}

// startWithin is how long the runner may take until it works: on a cluster, streams and
// their leaders are made first.
const startWithin = time.Minute

// awaitBound waits until the runner has the accounts and the provider's wallets are in
// their ledgers.
func awaitBound(ctx context.Context, h *daemon.Host) error {
	limited, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for n := 0; n < len(h.Accounts); {
		_, err := h.Accounts[n].Ledger().Binding(limited)
		switch {
		case err == nil:
			n++
			continue
		case !errors.Is(err, ledger.ErrNotFound):
			return err
		}
		if err := sleep.For(limited, 20*time.Millisecond); err != nil {
			return fmt.Errorf("the runner did not begin within %s: its log says why: %w", startWithin, err)
		}
	}
	return nil
}

// config is that of the runner which is measured.
func (b *bench) config() *config.Config {
	return b.configOf(b.accountNames(), "data", config.NATS{Listen: "127.0.0.1:0"}, 1)
}

func (b *bench) configOf(accounts []string, data string, nats config.NATS, replicas int) *config.Config {
	c := &config.Config{
		DataDir: filepath.Join(b.dir, data), NATS: nats, HTTP: config.HTTP{Listen: "127.0.0.1:0"},
		Accounts: map[string]*config.Account{},
	}
	for i, name := range accounts {
		c.Accounts[name] = &config.Account{
			BaseURL: b.base, AppID: benchAppID(i), Secret: benchSecret, RatePerSecond: 1e6, Concurrency: b.concurrency, Location: time.UTC, Replicas: replicas,
		}
	}
	c.Defaults()
	return c
}

// list fills the ledgers' tables of proxies, as a listing pass does: a proxy that was
// never seen is read before it is paid for. No pass runs beside what is measured.
func (b *bench) list(ctx context.Context, h *daemon.Host, l load) error {
	return eachLedger(h, l, func(i int, book *ledger.Ledger) error {
		var listed []ledger.Proxy
		for p, err := range b.clients[i].Proxies(ctx, 200) {
			if err != nil {
				return fmt.Errorf("list the proxies: %w", err)
			}
			listed = append(listed, jobs.Observed(p, time.Now()))
		}
		now := time.Now()
		return book.Write(ctx, func(tx *ledger.Tx) error {
			return errors.Join(tx.Observe(1, listed...), tx.KeepListing(ledger.Listing{Pass: 1, Began: now, Finished: now}))
		})
	})
}
