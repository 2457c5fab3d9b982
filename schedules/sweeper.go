package schedules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/queue/publish"
	"perennial/schedules/listing"
	"perennial/schedules/plans"
	"perennial/upstream"
)

const (
	// remainderEvery is how often the loop checks whether an incomplete run can continue.
	remainderEvery = 10 * time.Second
	// maxConsidered limits the proxies that one plan reads.
	maxConsidered = 100_000
	slotsRead     = 200
)

// Errors of the Sweeper.
var (
	ErrFired      = errors.New("this run was made before")
	errSkew       = errors.New("this machine's clock is more than 5 minutes from the provider's: nothing is swept until it is set")
	ErrNoPlan     = errors.New("no plan with this hash needs approval: see `perennial schedules list`")
	ErrBegun      = errors.New("an approval that was cut off has published a part of it: approve it again, or cancel its commands (`perennial operations list`)")
	ErrOverBudget = errors.New("nothing is published: approve it another day, or raise the budget")
	ErrNoSchedule = errors.New("the account has no schedule")
)

// Publisher publishes commands on an account's stream in atomic batches. [publish.Publisher]
// implements it. Publishing a command twice must be harmless.
type Publisher interface {
	PublishCommands(ctx context.Context, account string, commands []publish.Outgoing) error
}

// Config configures the Sweeper of one account.
type Config struct {
	Account   string
	Ledger    *ledger.Ledger
	Provider  listing.Provider
	Publisher Publisher
	Clock     func() time.Time // required
	// ProviderTime returns the provider's time. Default: Clock.
	ProviderTime func() time.Time
	// Pass is called before each page of a listing and each read of a proxy. It returns when the
	// request may be sent. By default it does not wait.
	Pass      func(ctx context.Context) error
	Schedules []plans.Schedule // the schedules of this account
	// Wallet returns the provider's wallet balance in cents. If it is nil, plans ignore the
	// wallet.
	Wallet func(ctx context.Context) (int64, error)
	// DailyLimitCents is the account's limit per day in DailyLimitLocation. The runner enforces
	// it. If it is 0, there is no limit. The default location is UTC.
	DailyLimitCents    int64
	DailyLimitLocation *time.Location
	// ReadFile reads the id files of schedules. If it is nil, no file can be read.
	ReadFile func(name string) ([]byte, error)
	// Offers lists offers for replacements and list prices. If it is nil, no proxy is replaced,
	// and list prices are unknown.
	Offers func(ctx context.Context, f upstream.OfferFilter) ([]upstream.Offer, error)
	// Proxy reads one proxy, before it is replaced or if listings do not show it. If it is nil,
	// such proxies are neither read nor replaced.
	Proxy func(ctx context.Context, id string) (upstream.Proxy, error)
	// WarnBefore has the times before an expiry at which proxy.expiring is published. The
	// default is a day and an hour. An empty list that is not nil means never.
	WarnBefore []time.Duration
	ListEvery  time.Duration // interval between the starts of two listings; default 5 min
	// A listing is reported if it misses at least LossPercent percent of the live proxies and at
	// least LossMin proxies. The defaults are 20 and 5.
	LossPercent, LossMin int
	Log                  *logrus.Entry // default: discards entries

	considered int // limit on the proxies that one plan reads; default maxConsidered
}

func (c *Config) setDefaults() {
	if c.ProviderTime == nil {
		c.ProviderTime = c.Clock
	}
	if c.Pass == nil {
		c.Pass = func(context.Context) error { return nil }
	}
	if c.WarnBefore == nil {
		c.WarnBefore = defaultWarnBefore
	}
	if c.DailyLimitLocation == nil {
		c.DailyLimitLocation = time.UTC
	}
	if c.considered == 0 {
		c.considered = maxConsidered
	}
	if c.Log == nil {
		quiet := logrus.New()
		quiet.SetOutput(io.Discard)
		c.Log = logrus.NewEntry(quiet)
	}
}

// Sweeper runs the schedules of one account. It is safe for concurrent use, whether Run is
// running or not.
type Sweeper struct {
	Config
	lister  *listing.Lister
	runners []*scheduleRunner
	// counting is held from the time the spending and the wallet are read until the plan is
	// recorded, because schedules share the wallet.
	counting sleep.Lock

	reads    *reader
	offers   *listPrices
	replaces *replacer
	*troubles
	*starts
	*pauses
	*remainders
	*approvals
	*statuses
	*uncovered
	*expiries
	*pacing
	*forecaster
}

type scheduleRunner struct {
	plans.Schedule
	calendar plans.Calendar
	turn     sleep.Lock  // one run of a schedule at a time
	listing  atomic.Bool // the run waits for a listing
	trouble  trouble
	refused  trouble               // the intake refused the run's commands
	unlisted trouble               // due proxies are missing from the last listing
	unstored atomic.Pointer[error] // why the run's commands are not on the stream yet
	rest     atomic.Pointer[remainder]
	// overLimit is the last count of stillOverLimit.
	overLimit atomic.Pointer[overLimit]
	woken     chan struct{} // makes follow check rest and the pause again
}

// New returns a Sweeper. If a schedule is invalid, the error says which schedule and field,
// and what to do.
func New(c Config) (*Sweeper, error) {
	if c.Ledger == nil || c.Provider == nil || c.Publisher == nil || c.Clock == nil {
		return nil, errors.New("a sweeper needs Ledger, Provider, Publisher and Clock")
	}
	c.setDefaults()
	s := &Sweeper{Config: c, counting: sleep.NewLock()}
	own := &s.Config
	s.reads, s.offers, s.replaces, s.uncovered, s.pacing = &reader{Config: own}, &listPrices{Config: own}, &replacer{own}, &uncovered{Config: own}, &pacing{Config: own}
	s.lister = listing.New(listing.Config{
		Account: c.Account, Ledger: c.Ledger, Provider: c.Provider, Clock: c.Clock, Pass: c.Pass, Proxy: c.Proxy, Every: c.ListEvery,
		LossPercent: c.LossPercent, LossMin: c.LossMin, Log: c.Log, Whole: s.countUncovered, Healed: func() {
			for _, r := range s.runners {
				r.unlisted.clear()
			}
		},
	})
	if err := CheckWarnBefore(c.WarnBefore); err != nil {
		return nil, err
	}
	if err := plans.CheckRenames(c.Schedules); err != nil {
		return nil, err
	}
	names, runners := map[string]bool{}, []*scheduleRunner{}
	for _, one := range c.Schedules {
		if err := one.Validate(); err != nil {
			return nil, err
		}
		if one.Account != c.Account {
			return nil, fmt.Errorf("schedule %s: account is %s and must be %s", one.Name, one.Account, c.Account)
		}
		if names[one.Name] {
			return nil, fmt.Errorf("schedule %s: name appears twice: give each schedule of an account its own", one.Name)
		}
		names[one.Name] = true
		calendar, err := one.Calendar()
		if err != nil {
			return nil, err
		}
		runners = append(runners, &scheduleRunner{Schedule: one, calendar: calendar, turn: sleep.NewLock(), woken: make(chan struct{}, 1)})
	}
	s.runners = runners
	s.troubles = &troubles{own, s.lister, runners}
	s.starts, s.pauses, s.remainders = &starts{own, runners}, &pauses{own, runners, s.troubles}, &remainders{own}
	s.approvals = &approvals{Config: own, runners: runners, reads: s.reads, remains: s.remainders, counting: s.counting}
	s.statuses = &statuses{own, runners, s.pauses, s.starts}
	s.expiries = &expiries{own, s.lister.Tried()}
	s.forecaster = &forecaster{own, s.reads, s.offers, runners, newDueCounts()}
	return s, nil
}

// Run lists proxies and makes runs until the context ends, and returns the context's error.
// Other failures are logged and retried.
func (s *Sweeper) Run(ctx context.Context) error {
	if err := s.FinishRemoved(ctx); err != nil {
		s.Log.WithError(err).WithField("account", s.Account).Warn("the plans of removed schedules could not be ended; the next start tries again")
	}
	s.warnOfRemoved(ctx)
	for _, r := range s.runners {
		if late := r.Late(s.Clock()); late != "" {
			s.log(r).Warn(late + "; lengthen renew_before, or run more often")
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.lister.Run(ctx) })
	group.Go(func() error { return s.watchExpiries(ctx) })
	group.Go(func() error { return s.watchRefused(ctx) })
	group.Go(func() error { return s.watchPace(ctx) })
	for _, r := range s.runners {
		group.Go(func() error { return s.follow(ctx, r) })
	}
	return group.Wait()
}

func (c *Config) log(r *scheduleRunner) *logrus.Entry {
	return c.Log.WithFields(logrus.Fields{"account": c.Account, "schedule": r.Name})
}

func (s *Sweeper) follow(ctx context.Context, r *scheduleRunner) error {
	last, err := s.resume(ctx, r)
	if err != nil {
		return err
	}
	retry := sleep.Doubling(time.Second, time.Minute)
	for {
		if err := s.unpaused(ctx, r); err != nil {
			return err
		}
		now := s.Clock()
		slots, more := r.calendar.Between(last, now)
		if len(slots) == 0 {
			if err := s.idle(ctx, r, last, now); err != nil {
				return err
			}
			continue
		}
		slot := slots[len(slots)-1]
		if err := sleep.Until(ctx, s.Clock, r.calendar.Start(slot)); err != nil {
			return err
		}
		if more {
			s.log(r).Warnf("more than %d slots were missed; the oldest are not named", plans.MaxMissed)
		}
		stop := s.watchSlot(ctx, r, slot)
		_, err := s.fire(ctx, r, firing{slot: slot, missed: slots[:len(slots)-1]})
		stop()
		if errors.Is(err, errPaused) {
			continue
		}
		if err != nil && !errors.Is(err, ErrFired) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.failed(ctx, r, slot, err)
			if err := retry.Wait(ctx); err != nil {
				return err
			}
			continue
		}
		last = slot
		retry.Reset()
	}
}

// Publishes the commands that were planned before a restart. It returns the instant after which
// slots are due, and retries until it succeeds or ctx ends.
func (s *Sweeper) resume(ctx context.Context, r *scheduleRunner) (time.Time, error) {
	retry := sleep.Doubling(time.Second, time.Minute)
	for {
		last, err := s.resumePlanned(ctx, r)
		if err == nil {
			return last, nil
		}
		if ctx.Err() != nil {
			return time.Time{}, ctx.Err()
		}
		s.failed(ctx, r, s.Clock().UTC().Truncate(time.Second), fmt.Errorf("an earlier run cannot be finished: %w", err))
		if err := retry.Wait(ctx); err != nil {
			return time.Time{}, err
		}
	}
}

func (s *Sweeper) resumePlanned(ctx context.Context, r *scheduleRunner) (time.Time, error) {
	if err := r.turn.Take(ctx); err != nil {
		return time.Time{}, err
	}
	defer r.turn.Give()
	from, err := s.countsFrom(ctx, r) // first, because it gives the runs of a renamed schedule the new name
	if err != nil {
		return time.Time{}, err
	}
	if err := s.finishPlanned(ctx, r); err != nil {
		return time.Time{}, err
	}
	return from, s.recall(ctx, r)
}

// Waits for the first slot after now. now must be the caller's reading of the clock, because a
// slot between two readings would be missed. While idle waits, it continues an incomplete run as
// soon as possible.
func (s *Sweeper) idle(ctx context.Context, r *scheduleRunner, last, now time.Time) error {
	wake := r.calendar.Next(now)
	if last.After(now) {
		wake = r.calendar.Next(last) // the clock was set back, and no slot may run twice
	}
	if wake.IsZero() || wake.Sub(now) > fact.Day {
		wake = now.Add(fact.Day)
	}
	look := now.Add(remainderEvery)
	if r.rest.Load() == nil || !look.Before(wake) {
		_, err := sleep.UntilOr(ctx, s.Clock, wake, r.woken)
		return err
	}
	if woken, err := sleep.UntilOr(ctx, s.Clock, look, r.woken); err != nil || woken {
		return err
	}
	return s.sweepRemainder(ctx, r)
}
