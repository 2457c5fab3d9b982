package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"perennial/jobs/command"
	"perennial/jobs/desk"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/intake"
	"perennial/queue/letters"
	"perennial/upstream"
)

// Provider is the part of the customer API that the runner uses.
type Provider interface {
	AppID() string
	BaseURL() string
	Environment() upstream.Environment
	Post(ctx context.Context, w upstream.Write) upstream.Reply
	Account(ctx context.Context) (upstream.Account, error)
	Wallet(ctx context.Context) (upstream.Wallet, error)
	Order(ctx context.Context, orderNo string) (upstream.Order, error)
	Proxy(ctx context.Context, proxyID string) (upstream.Proxy, error)
	Lists
}

// Lists reads the provider's lists page by page.
type Lists interface {
	OffersPage(ctx context.Context, f upstream.OfferFilter, p upstream.PageRequest) (upstream.Page[upstream.Offer], error)
	OrdersPage(ctx context.Context, p upstream.PageRequest) (upstream.Page[upstream.OrderSummary], error)
	ProxiesPage(ctx context.Context, p upstream.PageRequest) (upstream.Page[upstream.Proxy], error)
}

// Commands is the part of the commands stream that the runner uses. Each line is fetched
// separately. Rest returns a line's prefetched messages to the stream, and stops their
// delivery until the line's next Fetch.
type Commands interface {
	Fetch(ctx context.Context, line queue.Line, limit int) ([]intake.Message, error)
	Rest(line queue.Line)
}

// Config configures a Runner. Fields without a stated default are required.
type Config struct {
	Account    string
	Ledger     *ledger.Ledger
	Provider   Provider
	Address    string // the base URL that the ledger is bound to; default Provider.BaseURL()
	Commands   Commands
	DeadLetter func(ctx context.Context, dead letters.Dead) error
	// Answer sends data to the inbox of a command that gets no command.finished event.
	// AnswerEnd sends the outcome of a command that was accepted earlier. By default
	// nothing is sent.
	Answer    func(inbox string, data []byte)
	AnswerEnd func(inbox, commandID string)
	// MayBind returns an error if the account may not use the provider account in the binding.
	// Bind calls it before it binds the ledger, and returns its error. By default every
	// provider account is allowed.
	MayBind func(context.Context, fact.Binding) error
	// Taken is called for each new command, with the time at which the stream stored it. By
	// default nothing is called.
	Taken   func(commandID string, kind fact.Kind, published time.Time)
	Clock   func() time.Time
	Random  func() float64 // in [0, 1)
	Log     *logrus.Entry
	Version string
	Holder  string // name of this process in runner.started

	RatePerSecond      float64        // default 5
	Concurrency        int            // concurrent requests; default 8
	PollFloor          time.Duration  // shortest delay of a poll; default 1s. A poll may be later than the provider asks for, never earlier.
	CIDRField          string         // name of the API field for an item's CIDRs; default: none
	DailyLimitCents    int64          // default 0: no limit
	DailyLimitLocation *time.Location // default UTC
	DrainTimeout       time.Duration  // how long requests in progress may take after ctx ends; default 30s
	ReconcileEvery     time.Duration  // interval of reconciliations; default 0: only on request
	AskEvery           time.Duration  // interval of wallet reads while no other request is made; default 0: no reads
	SettleTimeout      time.Duration  // how long a requested reconciliation waits for requests in progress; default 10s

}

func (c Config) withDefaults() Config {
	if c.RatePerSecond <= 0 {
		c.RatePerSecond = 5
	}
	if c.Concurrency <= 0 {
		c.Concurrency = 8
	}
	if c.PollFloor < time.Second {
		c.PollFloor = time.Second
	}
	if c.Address == "" {
		c.Address = c.Provider.BaseURL()
	}
	if c.DailyLimitLocation == nil {
		c.DailyLimitLocation = time.UTC
	}
	if c.DrainTimeout <= 0 {
		c.DrainTimeout = 30 * time.Second
	}
	if c.SettleTimeout <= 0 {
		c.SettleTimeout = 10 * time.Second
	}
	if c.Answer == nil {
		c.Answer = func(string, []byte) {}
	}
	if c.MayBind == nil {
		c.MayBind = func(context.Context, fact.Binding) error { return nil }
	}
	if c.Taken == nil {
		c.Taken = func(string, fact.Kind, time.Time) {}
	}
	if c.AnswerEnd == nil {
		c.AnswerEnd = func(string, string) {}
	}
	return c
}

// Runner executes the commands of one account. It composes parts, each with one
// responsibility. Operators' requests use the exported methods of the parts.
type Runner struct {
	Config
	*desk.Desk // changes by operators
	*books     // reconciliation with the provider
	*holds     // pauses
	*link      // reads, and the effect of their outcomes
	*prober    // probes that end pauses
	*loader    // queues operations from the ledger
	*checker   // reads before a charge
	*attempts  // sends requests and polls orders
	*workers   // goroutines that execute the queued jobs
	*intaker   // accepts commands from the stream
	*recovery  // continues what earlier runs left unfinished

	gate    *rateGate
	clock   *clock
	pricing *pricing
	ready   *ready
	pauses  *pauses
	pulse   *pulse
	bound   atomic.Pointer[fact.Binding]     // service requests read it while Bind writes it
	account atomic.Pointer[upstream.Account] // the account that Bind read
	loaded  bool
}

// NewRunner returns a runner. Call Bind, then Run.
func NewRunner(c Config) *Runner {
	c = c.withDefaults()
	r := &Runner{Config: c, gate: newRateGate(c.RatePerSecond), clock: newClock(c.Clock), pauses: newPauses(c.Clock), pulse: &pulse{}}
	config := &r.Config
	r.ready = newReady(capacity(c), r.pauses)
	r.holds = &holds{Config: config, pauses: r.pauses}
	r.link = &link{Config: config, gate: r.gate, clock: r.clock, pauses: r.pauses, pulse: r.pulse, holds: r.holds, share: rate.NewLimiter(rate.Limit(c.RatePerSecond*readShare), 1)}
	r.prober = &prober{Config: config, gate: r.gate, clock: r.clock, pauses: r.pauses, ready: r.ready, holds: r.holds, link: r.link}
	dead := &deadLetterLog{}
	r.loader = &loader{Config: config, clock: r.clock, pauses: r.pauses, ready: r.ready, binding: r.Binding, deadLetterLog: dead, wake: make(chan struct{}, 1), kept: map[string]command.Command{}, notQueuedLogged: map[string]time.Time{}}
	r.books = &books{Config: config, clock: r.clock, pauses: r.pauses, link: r.link, binding: r.Binding, wake: r.wakeDueLoop, turn: make(chan struct{}, 1), answered: make(chan struct{}, 1)}
	r.pricing = &pricing{Config: config, clock: r.clock, link: r.link, found: map[string]upstream.OfferFilter{}}
	r.checker = &checker{Config: config, clock: r.clock, pulse: r.pulse, pricing: r.pricing, link: r.link, readable: r.books.readable}
	r.attempts = &attempts{
		Config: config, gate: r.gate, clock: r.clock, pauses: r.pauses, pulse: r.pulse, ready: r.ready, pricing: r.pricing,
		holds: r.holds, link: r.link, loader: r.loader, checker: r.checker, named: map[string]string{},
	}
	r.workers = &workers{Config: config, ready: r.ready, link: r.link, loader: r.loader, attempts: r.attempts}
	r.intaker = &intaker{Config: config, gate: r.gate, pauses: r.pauses, ready: r.ready, binding: r.Binding, deadLetterLog: dead, loader: r.loader, checker: r.checker, attempts: r.attempts}
	r.recovery = &recovery{
		Config: config, clock: r.clock, pauses: r.pauses, ready: r.ready, binding: r.Binding, mayPlan: make(chan struct{}),
		holds: r.holds, link: r.link, loader: r.loader, attempts: r.attempts, takingUp: sleep.NewLock(),
	}
	r.loader.takeUpMissed = r.recovery.takeUpMissed
	r.presumed, r.ended = r.requeueAccepted, func() { r.letPlan(); r.wakeDueLoop() }
	r.Desk = desk.New(desk.Config{
		Ledger: c.Ledger, Binding: r.Binding, Now: r.clock.Now, Readable: r.books.readable, Evidence: r.Evidence,
		Order: r.ReadOrder, Delivered: r.noteDelivered, MaySendAgain: r.refuseEarly, Presumed: r.pauses.presumed, MayRepeat: r.pauses.mayRepeat, Start: r.startRest, Answered: func() { r.answers.Add(1); r.CompareAnswer() },
	})
	return r
}

// capacity returns how many operations a place of the queue may contain: at least 4 and at
// most 16 per concurrent request. Between these bounds it is the number of requests that the
// rate allows in a second.
func capacity(c Config) int {
	return max(4*c.Concurrency, min(16*c.Concurrency, int(c.RatePerSecond)))
}

// BindingError says that the provider's account does not belong to the ledger, or that the wallet
// and the App ID belong to different environments. Nothing was charged.
type BindingError struct{ Account, Reason string }

func (e *BindingError) Error() string {
	return fmt.Sprintf("account %s: %s", e.Account, e.Reason)
}

// Bind reads the provider's account and wallet before any POST. It binds an empty ledger to
// them. If a ledger is bound to another account, Bind returns a BindingError. If a read
// fails, Bind returns an upstream error or a ThrottledError, and can be retried.
func (r *Runner) Bind(ctx context.Context) error {
	if err := r.Load(ctx); err != nil {
		return err
	}
	if x, held := r.pauses.throttling(); held && !r.mayAsk(x) {
		return &ThrottledError{r.Account, *x.Until}
	}
	account, err := r.Provider.Account(ctx)
	if err != nil {
		return r.bindFailed(ctx, "read the provider's account", err)
	}
	wallet, err := r.Provider.Wallet(ctx)
	if err != nil {
		return r.bindFailed(ctx, "read the wallet", err)
	}
	environment := r.Provider.Environment()
	if wallet.Environment != environment || wallet.CashValue != (environment == upstream.Production) {
		return &BindingError{r.Account, fmt.Sprintf("App ID %s is for %s and the wallet says environment %s, cash value %t: check base_url and app_id",
			r.Provider.AppID(), environment, wallet.Environment, wallet.CashValue)}
	}
	want := fact.Binding{
		AccountID: account.AccountID, Environment: string(environment), BaseURL: r.Address, Currency: wallet.Currency,
	}
	if err := r.MayBind(ctx, want); err != nil {
		return err
	}
	have, err := r.Ledger.Binding(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		have, err = r.open(ctx, want, wallet.BalanceCents)
	}
	if err != nil {
		return err
	}
	r.bound.Store(&have)
	if want.Epoch = have.Epoch; want != have {
		return &BindingError{r.Account, fmt.Sprintf("the ledger belongs to %s of %s at %s (%s), the provider says %s of %s at %s (%s): use another data_dir or the old credentials",
			have.AccountID, have.Environment, have.BaseURL, have.Currency,
			want.AccountID, want.Environment, want.BaseURL, want.Currency)}
	}
	if x, held := r.pauses.throttling(); held {
		r.resume(ctx, x, answeredEarly)
	}
	r.clock.Hear(wallet.ServerTime)
	r.pulse.note(r.Clock(), nil)
	r.account.Store(&account)
	if account.Status != "active" {
		r.Log.WithField("status", fact.Bounded(account.Status)).Info("the provider gives the account this status; the API document does not say what it means")
	}
	return nil
}

// ProviderAccount returns the provider's account that Bind read. Before Bind it returns the zero
// value.
func (r *Runner) ProviderAccount() upstream.Account {
	if a := r.account.Load(); a != nil {
		return *a
	}
	return upstream.Account{}
}

// Load reads the state that an earlier run left in the ledger: pauses, binding and the time
// of the latest fact. After Load, an operator can inspect the account and end a pause, even
// if the provider has not replied yet. Bind calls Load too; a second call does nothing.
func (r *Runner) Load(ctx context.Context) error {
	if r.loaded {
		return nil
	}
	if err := r.pauses.load(ctx, r.Ledger); err != nil {
		return err
	}
	binding, err := r.Ledger.Binding(ctx)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	highWater, err := r.Ledger.HighWater(ctx)
	if err != nil {
		return err
	}
	if r.Ledger.Follows() {
		highWater = highWater.Add(-clocksApart)
	}
	r.clock.since(highWater)
	r.bound.Store(&binding)
	r.loaded = true
	return nil
}

// Appends the first fact, with the ledger's account and the wallet's opening balance.
func (r *Runner) open(ctx context.Context, b fact.Binding, opening int64) (fact.Binding, error) {
	b.Epoch = fmt.Sprintf("%x", r.Clock().UnixMicro())
	err := r.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerOpened{
			AccountID: b.AccountID, Environment: b.Environment, BaseURL: b.BaseURL, Currency: b.Currency,
			OpeningCents: opening, Epoch: b.Epoch,
		})
	})
	if err != nil {
		return b, fmt.Errorf("open the ledger: %w", err)
	}
	return b, nil
}

// Binding returns the provider account that the ledger belongs to. It returns the zero value
// while the account is unknown.
func (r *Runner) Binding() fact.Binding {
	if b := r.bound.Load(); b != nil {
		return *b
	}
	return fact.Binding{}
}

// ProviderTime returns the provider's current time, derived from its last reply.
func (r *Runner) ProviderTime() time.Time { return r.clock.Provider() }

// ClockSkew returns this machine's time minus the provider's, as measured at the last reply.
// heard is false before the first reply.
func (r *Runner) ClockSkew() (skew time.Duration, heard bool) { return r.clock.Skew() }

// ErrLost is the cause with which a caller cancels Run's context if another runner may have taken over
// the account. Run then abandons work in progress immediately.
var ErrLost = errors.New("another runner may have the account")

// Run executes commands until ctx ends. After that, it starts no more work, waits up to
// DrainTimeout for requests in progress, and returns nil. If a request has no recorded reply, the
// next run repeats it under the same idempotency key.
func (r *Runner) Run(ctx context.Context) error {
	err := r.beginRun(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("account %s: recover: %w", r.Account, err)
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrLost) {
			cancel() // a reply that arrives later could not be recorded
			return
		}
		failpoint.Reached(ctx, "drain.begun")
		timer := time.AfterFunc(r.DrainTimeout, cancel)
		context.AfterFunc(work, func() { timer.Stop() })
	})
	defer stop()
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := r.takeUp(running, r.until); err != nil {
			return fmt.Errorf("account %s: recover: %w", r.Account, err)
		}
		if err := r.verifyAfterRestore(running); err != nil { // after takeUp, so that the earlier run's operations are queued before the pause ends
			return err
		}
		return r.endDoubt(running)
	})
	group.Go(func() error { return r.dispatch(running, work) })
	group.Go(func() error { return r.runIntake(running) })
	group.Go(func() error { return r.runDueLoop(running) })
	group.Go(func() error { return r.probe(running) })
	group.Go(func() error { return r.keepReconciling(running) })
	group.Go(func() error { return r.keepAsking(running) })
	err = group.Wait()
	r.loader.deadLetterLog.log(r.Log, r.Clock().Add(deadLetterLogEvery)) // the dead letters of the last minute
	r.unsendRest(work)                                                   // after the intake has ended, because the intake may commit intents
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
