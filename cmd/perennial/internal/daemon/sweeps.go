// The service requests of schedules: list, plan, run, forecast, approve, decline, pause and
// resume.

package daemon

import (
	"context"
	"fmt"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/ledger/fact"
	"perennial/queue/publish"
	"perennial/schedules"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// newSweeper returns the account's sweeper, which publishes commands on the commands stream.
// Its listings pass the account's rate gate after all other requests, except for a share that
// is reserved for listings.
func (a *lifecycle) newSweeper(runner *jobs.Runner) (*schedules.Sweeper, error) {
	return schedules.New(schedules.Config{
		Account: a.Name, Ledger: a.Ledger(), Provider: heardListing{a.Client, runner}, Publisher: publish.New(a.js()), Clock: time.Now, ProviderTime: runner.ProviderTime,
		Pass: runner.PassListing, ListEvery: a.listEvery(),
		Schedules: a.host.Config.SchedulesOf(a.Name), Log: a.log, WarnBefore: a.config.WarnBefore,
		LossPercent: a.config.ListingLossPercent, LossMin: a.config.ListingLossMin,
		DailyLimitCents: a.config.DailyLimitCents, DailyLimitLocation: a.config.Location,
		Wallet: func(ctx context.Context) (int64, error) { return a.walletCents(ctx, runner) },
		Offers: func(ctx context.Context, f upstream.OfferFilter) ([]upstream.Offer, error) {
			return a.offers(ctx, runner, f)
		},
		Proxy: func(ctx context.Context, id string) (upstream.Proxy, error) {
			p, err := a.Client.Proxy(ctx, id)
			runner.Read(ctx, time.Time{}, err)
			return p, err
		},
		ReadFile: a.host.Config.ReadListFile,
	})
}

// walletTimeout limits a plan's wait for the wallet balance. After that, the plan continues
// without the balance.
const walletTimeout = 30 * time.Second

// walletCents reads the wallet balance. The request passes the rate gate as a listing does.
func (a *lifecycle) walletCents(ctx context.Context, runner *jobs.Runner) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, walletTimeout)
	defer cancel()
	if err := runner.PassListing(ctx); err != nil {
		return 0, err
	}
	wallet, err := a.Client.Wallet(ctx)
	runner.Read(ctx, wallet.ServerTime, err)
	return wallet.BalanceCents, err
}

// offers reads all pages of offers that match a filter.
func (a *lifecycle) offers(ctx context.Context, runner *jobs.Runner, f upstream.OfferFilter) (all []upstream.Offer, err error) {
	pages := upstream.Pages[upstream.Offer]{PageRequest: upstream.PageRequest{Size: 200}}
	for more := true; more; {
		if err := runner.PassListing(ctx); err != nil {
			return nil, err
		}
		got, err := a.Client.OffersPage(ctx, f, pages.PageRequest)
		runner.Read(ctx, got.ServerTime, err)
		if pages.Restarts(err) {
			all = nil
			continue
		}
		if err == nil {
			more, err = pages.Follow(got)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, got.Items...)
	}
	return all, nil
}

// heardListing reads listings and passes each reply to the runner, so that a Retry-After
// pauses every request of the account.
type heardListing struct {
	client *upstream.Client
	runner *jobs.Runner
}

// ProxiesPage implements schedules.Provider.
func (l heardListing) ProxiesPage(ctx context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
	page, err := l.client.ProxiesPage(ctx, r)
	l.runner.Read(ctx, page.ServerTime, err)
	return page, err
}

// listEvery returns how often the account's proxies are listed, or 0 to list as often as
// schedules and warnings require. If there are neither, it returns an hour, so that the web
// UI shows which proxies expire.
func (a *account) listEvery() time.Duration {
	if len(a.host.Config.SchedulesOf(a.Name)) == 0 && len(a.config.WarnBefore) == 0 {
		return time.Hour
	}
	return 0
}

// failingSweeps returns why schedules currently renew nothing, with at most one reason per
// schedule.
func (a *account) failingSweeps() []fact.SweepFailed {
	sweeper := a.snapshot().sweeper
	if sweeper == nil {
		return nil
	}
	return sweeper.Failing()
}

func (a answers) sweeps(ctx context.Context, _ struct{}) ([]schedules.Status, error) {
	return a.sweeper.List(ctx)
}

func (a answers) plan(ctx context.Context, q verbs.SweepRequest) (plans.Plan, error) {
	if q.Plan != "" {
		return a.sweeper.HeldPlan(ctx, q.Plan)
	}
	return a.sweeper.PlanNow(ctx, q.Schedule)
}

func (a answers) sweepNow(ctx context.Context, q verbs.SweepRequest) (plans.Plan, error) {
	if err := signed(ctx, &q.By, q.Reason); err != nil {
		return plans.Plan{}, err
	}
	return a.sweeper.RunNow(ctx, q.Schedule, q.By, q.Reason)
}

func (a answers) approve(ctx context.Context, q verbs.SweepRequest) (verbs.Changed, error) {
	return changeOne(ctx, &q.By, q.Reason, func() error { return a.sweeper.Approve(ctx, q.Plan, q.By, q.Reason) })
}

func (a answers) decline(ctx context.Context, q verbs.SweepRequest) (verbs.Changed, error) {
	return changeOne(ctx, &q.By, q.Reason, func() error { return a.sweeper.Decline(ctx, q.Plan, q.By, q.Reason) })
}

func (a answers) pauseSchedule(ctx context.Context, q verbs.SchedulePauseRequest) (verbs.Changed, error) {
	before, err := a.sweeper.PauseOf(ctx, q.Schedule)
	if err != nil {
		return verbs.Changed{}, err
	}
	done, err := changeOne(ctx, &q.By, q.Reason, func() error { return a.sweeper.Pause(ctx, q.Schedule, q.Until, q.By, q.Reason) })
	if err == nil && before != nil {
		done.Warning = fmt.Sprintf("it was paused already since %s, by %s: %s; the new reason and end replace these", before.Since.UTC().Format(time.RFC3339), before.By, before.Reason)
	}
	return done, err
}

func (a answers) resumeSchedule(ctx context.Context, q verbs.SchedulePauseRequest) (verbs.Changed, error) {
	return changeOne(ctx, &q.By, q.Reason, func() error { return a.sweeper.Resume(ctx, q.Schedule, q.By, q.Reason) })
}

func (a answers) forecast(ctx context.Context, q verbs.ForecastRequest) (schedules.Forecast, error) {
	return a.sweeper.Forecast(ctx, q.Schedule, q.Days)
}
