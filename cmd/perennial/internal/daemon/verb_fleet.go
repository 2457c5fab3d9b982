package daemon

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/jobs/command"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/queue/publish"
	"perennial/queue/service"
	"perennial/schedules"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// proxy returns what the ledger knows about a proxy and whether a schedule will renew it.
func (a answers) proxy(ctx context.Context, q verbs.ProxyRequest) (out verbs.ProxyAnswer, err error) {
	l := a.Ledger()
	from := schedules.RenewalOutlookFrom{
		Now: time.Now(),
		Status: func(name string) (schedules.Status, string) {
			all, err := a.sweeper.List(ctx)
			if err != nil {
				return schedules.Status{}, err.Error()
			}
			return schedules.StatusOf(all, name)
		},
		Plan: func(name string) (*plans.Plan, string) {
			p, err := a.sweeper.PlanNow(ctx, name)
			if err != nil {
				return nil, err.Error()
			}
			return &p, ""
		},
		LastRun: func(of plans.Schedule) (*schedules.LastRun, error) { return schedules.ReadLastRun(ctx, l, of) },
	}
	if from.Proxy, err = l.Fleet.Proxy(ctx, q.ProxyID); err == nil {
		from.Listed, out.Proxy = true, new(verbs.Listed(from.Proxy))
		_, gone := l.Sweeps.Listed(ctx, q.ProxyID)
		from.Gone = errors.Is(gone, ledger.ErrNotFound)
	}
	if out.Renewals, err = l.Fleet.RenewalsOf(ctx, q.ProxyID, verbs.MostRenewals); err != nil {
		return out, err
	}
	if out.BoughtBy, err = l.Operations.DeliveredBy(ctx, q.ProxyID); err != nil {
		return out, err
	}
	if !from.Listed && len(out.Renewals) == 0 && out.BoughtBy == "" {
		return out, &service.Error{Code: CodeNotFound, Description: fmt.Sprintf("there is no proxy %.80q: no listing, order or renewal of this account names it", q.ProxyID)}
	}
	from.Renewals = out.Renewals
	if from.Paused, err = inspect.PausedRenewals(ctx, l); err != nil {
		return out, err
	}
	if from.Coverage, err = plans.NewCoverage(a.host.Config.SchedulesOf(a.Name), plans.HistoryOf(l.Queries), a.host.Config.ReadListFile); err != nil {
		from.NoCoverage = err.Error()
	}
	if out.Currency, err = l.Currency(ctx); err != nil {
		return out, err
	}
	out.Outlook, err = from.Outlook(ctx)
	return out, err
}

func (a answers) proxies(ctx context.Context, q verbs.ProxiesRequest) (verbs.ProxiesAnswer, error) {
	limit := q.Limit
	if limit == 0 || limit > mostLines {
		limit = mostLines
	}
	page := verbs.ProxiesAnswer{Proxies: []verbs.ListedProxy{}}
	known, err := a.Ledger().Fleet.Proxies(ctx, q.After, limit+1)
	for i, p := range known {
		if i == limit {
			page.Next = known[i-1].ProxyID
			break
		}
		page.Proxies = append(page.Proxies, verbs.Listed(p))
	}
	return page, err
}

// retire retires the given proxies, or reinstates them if q.Undo is set. If it returns an
// error, no proxy has changed. It appends no fact for a proxy that is already in the
// requested state.
func (a answers) retire(ctx context.Context, q verbs.RetireRequest) (verbs.Changed, error) {
	var changed verbs.Changed
	if len(q.ProxyIDs) == 0 || len(q.ProxyIDs) > verbs.MaxRetired {
		return changed, &command.RefusedError{Reason: fmt.Sprintf("%d proxies: name 1 to %d", len(q.ProxyIDs), verbs.MaxRetired)}
	}
	if err := signed(ctx, &q.By, q.Reason); err != nil {
		return changed, err
	}
	err := a.Ledger().Write(ctx, func(tx *ledger.Tx) error {
		changed.Changed = 0 // Write may call this function twice
		for _, id := range q.ProxyIDs {
			done, err := retireOne(ctx, tx, q, id)
			if err != nil {
				return err
			}
			if done {
				changed.Changed++
			}
		}
		return nil
	})
	return changed, err
}

func retireOne(ctx context.Context, tx *ledger.Tx, q verbs.RetireRequest, id string) (changed bool, err error) {
	if err := knowsProxy(tx, id); err != nil {
		return false, err
	}
	retired, err := tx.Retired(id)
	if err != nil || retired != q.Undo {
		return false, err
	}
	if q.Undo {
		return true, tx.Append(fact.ProxyReinstated{ProxyID: id, By: q.By, Reason: q.Reason, User: fact.UserOf(ctx)})
	}
	return true, tx.Append(fact.ProxyRetired{ProxyID: id, By: q.By, Reason: q.Reason, User: fact.UserOf(ctx)})
}

// reveal records who reads a proxy's credentials. It does not return the credentials. The caller
// reads them from the provider, so they never pass over NATS.
func (a answers) reveal(ctx context.Context, q verbs.RevealRequest) (verbs.Changed, error) {
	return changeOne(ctx, &q.By, q.Reason, func() error {
		return a.Ledger().Write(ctx, func(tx *ledger.Tx) error {
			if err := knowsProxy(tx, q.ProxyID); err != nil {
				return err
			}
			return tx.Append(fact.ProxyRevealed{ProxyID: q.ProxyID, By: q.By, Reason: q.Reason, User: fact.UserOf(ctx)})
		})
	})
}

func knowsProxy(tx *ledger.Tx, id string) error {
	known, err := tx.KnowsProxy(id)
	if err != nil || known {
		return err
	}
	return command.RefuseUnknown("proxy %.80q was never listed and no command named it: check the id (`perennial proxies list`)", id)
}

const (
	// listingEvery is the interval at which a runner checks for a new listing to store or
	// load.
	listingEvery = 10 * time.Second
	// listingTimeout limits the transfer of one listing.
	listingTimeout = 10 * time.Minute
	// listingPage is the number of proxies that are read from or written to the ledger at a
	// time.
	listingPage = 1000
	// changesLeast is the shortest interval between two stores of the same listing. The interval
	// is also at least changesShare times as long as the last store took. Storing therefore
	// takes at most a two-hundredth of the time.
	changesLeast = 20 * time.Second
	changesShare = 200
	// listingFormat is the version of the stored format. A listing with another version is not
	// loaded.
	listingFormat = 1
)

// listingHeader is the first line of a stored listing. One line for each proxy follows.
type listingHeader struct {
	Format   int           `json:"format"`
	Finished time.Time     `json:"finished_at"` // when the listing ended
	Took     time.Duration `json:"took"`        // duration of the listing, in nanoseconds
	Known    int           `json:"known,omitempty"`
	Lost     int           `json:"lost,omitempty"` // the number of known proxies that the listing lacks
}

// syncedListing is the listing that was last stored or loaded.
type syncedListing struct {
	finished time.Time     // when the listing ended
	asOf     time.Time     // time of the newest read of a proxy in the listing
	at       time.Time     // when the listing was stored
	took     time.Duration // duration of the store
}

type listingSync struct{ *account }

// syncListing stores listings as the leader, or loads them as a standby, until ctx ends.
func (a listingSync) syncListing(ctx context.Context) {
	var carried syncedListing
	said := ""
	for sleep.For(ctx, listingEvery) == nil {
		limited, cancel := context.WithTimeout(ctx, listingTimeout)
		err := a.syncOnce(limited, &carried)
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, ledger.ErrLeads) {
			said = ""
			continue
		}
		if text := err.Error(); text != said {
			said = text
			a.log.WithError(err).Warn("the last listing of the proxies is not carried from runner to runner now; it is tried again, and no payment depends on it")
		}
	}
}

func (a listingSync) syncOnce(ctx context.Context, carried *syncedListing) error {
	own, err := a.Ledger().Fleet.Listing(ctx)
	if err != nil || a.host.Queue.Down() != "" {
		return err
	}
	switch a.role() {
	case cluster.RoleActive:
		if own.Finished.IsZero() || !carried.due(own.Finished, time.Now()) {
			return nil
		}
		return a.storeListing(ctx, own, carried)
	case cluster.RoleStandby:
		stored, err := a.stored().AsOf(ctx)
		if err != nil || stored.IsZero() || stored.Equal(own.Finished) || stored.Equal(carried.asOf) {
			return err
		}
		if err := a.loadListing(ctx, own.Pass+1); err != nil {
			return err
		}
		*carried = syncedListing{asOf: stored}
	}
	return nil
}

// due reports whether to store the ledger's proxies. It returns true after a new listing. It
// also returns true if the interval since the last store has passed.
func (c *syncedListing) due(finished, now time.Time) bool {
	return !finished.Equal(c.finished) || now.Sub(c.at) >= max(changesLeast, changesShare*c.took)
}

// storeListing stores every proxy of the ledger after a complete listing, unless nothing has
// changed since the last store.
func (a listingSync) storeListing(ctx context.Context, listing tables.Listing, carried *syncedListing) error {
	asOf, err := a.Ledger().Fleet.LastSeen(ctx)
	if err != nil {
		return err
	}
	if asOf.Before(listing.Finished) {
		asOf = listing.Finished
	}
	now := syncedListing{finished: listing.Finished, asOf: asOf, at: time.Now()}
	if now.finished.Equal(carried.finished) && now.asOf.Equal(carried.asOf) {
		carried.at = now.at
		return nil
	}
	out, in := io.Pipe()
	go func() { in.CloseWithError(a.writeListing(ctx, in, listing)) }()
	err = a.stored().Store(ctx, a.config.Replicas, listing.Finished, asOf, out)
	_ = out.Close() // also ends writeListing
	if err == nil {
		now.took = time.Since(now.at)
		*carried = now
	}
	return err
}

func (a listingSync) writeListing(ctx context.Context, w io.Writer, listing tables.Listing) error {
	packed := gzip.NewWriter(w)
	lines := json.NewEncoder(packed)
	if err := lines.Encode(listingHeader{listingFormat, listing.Finished, listing.Took, listing.Known, listing.Lost}); err != nil {
		return err
	}
	for after := ""; ; {
		page, err := a.Ledger().Fleet.Proxies(ctx, after, listingPage)
		if err != nil {
			return err
		}
		for _, p := range page {
			p.Retired, p.Labels = false, nil // not stored, because the journal has these fields
			if err := lines.Encode(p); err != nil {
				return err
			}
			after = p.ProxyID
		}
		if len(page) < listingPage {
			return packed.Close()
		}
	}
}

// loadListing writes the stored listing to the ledger as a separate listing pass, so proxies
// missing from it count as gone. The expiries in the stored listing do not count as read,
// because a later fact may have changed them. A new leader therefore reads a proxy before it
// pays for the proxy. loadListing returns ErrLeads if the runner has become the leader.
func (a listingSync) loadListing(ctx context.Context, pass int64) error {
	content, err := a.stored().Read(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	unpacked, err := gzip.NewReader(content)
	if err != nil {
		return fmt.Errorf("read the stored listing: %w", err)
	}
	lines := json.NewDecoder(unpacked)
	var header listingHeader
	if err := lines.Decode(&header); err != nil {
		return fmt.Errorf("read the stored listing: %w", err)
	}
	if header.Format != listingFormat {
		return fmt.Errorf("the stored listing has format %d, and this version reads %d", header.Format, listingFormat)
	}
	began := time.Now()
	if err := a.Ledger().WhileFollowing(ctx, func(tx *ledger.Tx) error { return tx.StaleAll() }); err != nil {
		return err
	}
	for more := true; more; {
		var page []tables.Proxy
		if page, more, err = listingLines(lines); err != nil {
			return fmt.Errorf("read the stored listing: %w", err)
		}
		if err := a.Ledger().WhileFollowing(ctx, func(tx *ledger.Tx) error { return tx.Observe(pass, page...) }); err != nil {
			return err
		}
	}
	return a.Ledger().WhileFollowing(ctx, func(tx *ledger.Tx) error {
		return errors.Join(tx.FinishCopy(pass, began), tx.KeepListing(tables.Listing{
			Pass: pass, Finished: header.Finished, Took: header.Took, Known: header.Known, Lost: header.Lost,
		}))
	})
}

// listingLines reads a page of proxies. more is false at the end of the listing.
func listingLines(lines *json.Decoder) (page []tables.Proxy, more bool, err error) {
	for len(page) < listingPage {
		var p tables.Proxy
		if err := lines.Decode(&p); errors.Is(err, io.EOF) {
			return page, false, nil
		} else if err != nil {
			return nil, false, err
		}
		p.SeenAt = time.Unix(0, 0)
		page = append(page, p)
	}
	return page, true, nil
}

// newSweeper returns the account's sweeper, which publishes commands on the commands stream. The
// sweeper's listings yield to all other requests of the account, but have a reserved share of
// the account's rate.
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

// walletCents reads the wallet balance. The request yields to other requests in the same way as
// a listing.
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

// listEvery returns how often the account's proxies are listed. It returns 0 if the schedules
// and warnings determine how often. Without schedules and warnings, it returns an hour, so that
// the web UI shows which proxies expire.
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
	return a.sweeper.RunNow(ctx, q.Schedule, q.By, q.Reason, q.After)
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
