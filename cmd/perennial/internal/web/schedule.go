package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules"
	"perennial/schedules/plans"
)

type schedulesView struct {
	Rows        []schedules.Status
	NoRunner    string
	NothingSent bool // renewals are paused
}

func (s *overviewPages) schedules(q accountRequest) (page, error) {
	n, err := s.insight.needs(q.Context(), q.account)
	if err != nil {
		return page{}, err
	}
	v := schedulesView{Rows: n.Schedules, NoRunner: n.NoRunner, NothingSent: sendsNoRenewals(n.Pauses)}
	return page{name: "schedules", title: "Schedules", data: v}, nil
}

type scheduleView struct {
	schedules.Status

	Rules    []plans.Rule
	Approval *approval // the plan that needs approval
	Next     []nextSlot
	Runs     []*schedules.Run
	Currency string
	Planned  bool // the page was requested with a plan
	Plan     Made[plans.Plan]
	Change   *planChange
	Skipped  *skippedView
	After    string // the latest scheduled time on the page, or neverRan

	NothingSent bool // renewals are paused
}

// skippedView lists the proxies that the last run skipped and that are still due.
type skippedView struct {
	Run  *schedules.LastRun
	Rows []schedules.SkippedProxy // the first skipped proxies; All is the total number
	All  int
}

func (v *scheduleView) Pending() bool { return v.Planned && v.Plan.Pending() }

// approval describes a plan that needs approval.
type approval struct {
	Rows  []plans.Included // the first proxies
	All   int
	Cost  string
	Notes []string // the other proxies that are due in the run, and what happens to them
}

// approvalShown limits the proxies that are listed for a plan's approval or as skipped.
const approvalShown = 200

// nextSlot is a scheduled time in UTC, and as text in the schedule's time zone.
type nextSlot struct {
	At   time.Time
	Here string
}

const (
	// planWithin limits the time for a slow change, such as a run that must first list the
	// proxies.
	planWithin = 20 * time.Second
	nextShown  = 5
	slotsShown = 20
)

func (s *overviewPages) schedule(q accountRequest) (page, error) {
	name, ctx := q.URL.Query().Get("id"), q.Context()
	status, problem := s.insight.statusOf(ctx, q.account, name)
	configured := slices.IndexFunc(q.account.Schedules(), func(x plans.Schedule) bool { return x.Name == name })
	if problem != "" && configured < 0 {
		return page{}, &pageError{http.StatusNotFound, "No schedule of this account has this name, as far as this runner and the one that has the account know: " + problem, nil}
	}
	v := scheduleView{Status: status, Planned: q.URL.Query().Has("plan")}
	if configured >= 0 {
		one := q.account.Schedules()[configured]
		v.fillNext(one, s.Clock())
		if problem != "" {
			v.Status = schedules.Status{Schedule: name, Account: one.Account, Cron: one.Cron, Timezone: one.Timezone, Problem: "not known, because the runner that has the account does not say it: " + problem}
		}
	}
	n, err := s.insight.needs(ctx, q.account)
	if err != nil {
		return page{}, err
	}
	v.NothingSent = sendsNoRenewals(n.Pauses)
	if v.Currency, err = q.account.Ledger().Currency(ctx); err == nil {
		v.Runs, err = schedules.Runs(ctx, q.account.Ledger(), v.Schedule, slotsShown)
	}
	if err == nil && configured >= 0 {
		v.Skipped, err = skippedBy(ctx, q.account, q.account.Schedules()[configured], s.Clock())
	}
	v.After = neverRan
	if len(v.Runs) > 0 {
		v.After = v.Runs[0].Last().At.UTC().Format(time.RFC3339Nano)
	}
	if configured >= 0 {
		v.Rules = q.account.Schedules()[configured].Rules(v.Currency)
	}
	if err == nil && v.Status.Plan != "" {
		v.Approval, err = approvalOf(ctx, q.account.Ledger(), v.Status.Plan)
	}
	if err != nil {
		return page{}, err
	}
	if v.Planned {
		if v.Plan = s.insight.plan(ctx, q.account, name); v.Plan.Known() {
			v.Change = changeOf(ctx, q.account.Ledger(), v.Plan.Value, v.Status.Plan)
		}
	}
	return page{name: "schedule", title: "Schedule " + name, data: &v}, nil
}

const neverRan = "never"

// skippedBy returns the proxies that a schedule's last run skipped. It returns nil if the
// run skipped no proxy, or if a list of proxies cannot be read.
func skippedBy(ctx context.Context, a Account, one plans.Schedule, now time.Time) (*skippedView, error) {
	run, err := schedules.ReadLastRun(ctx, a.Ledger(), one)
	if err != nil || run == nil || run.Result.Skipped == 0 {
		return nil, err
	}
	v := &skippedView{Run: run}
	v.Rows, v.All, err = run.ListSkipped(ctx, a.Ledger(), a.Schedules(), a.ReadList, now, approvalShown)
	if err != nil && ctx.Err() == nil {
		return nil, nil //nolint:nilnil // the sweep says which list cannot be read
	}
	return v, err
}

func (v *scheduleView) fillNext(one plans.Schedule, now time.Time) {
	slots, zone, err := one.Slots(now, nextShown)
	if err != nil {
		return // cannot happen: the configuration was validated
	}
	for _, at := range slots {
		v.Next = append(v.Next, nextSlot{at, at.In(zone).Format("Mon 2006-01-02 15:04:05 MST")})
	}
}

// approvalOf describes a plan that needs approval. The renewals are sorted, nearest expiry
// first. It returns nil if there is no such plan, or if its row no longer exists.
func approvalOf(ctx context.Context, l *ledger.Ledger, plan string) (*approval, error) {
	slots, err := l.Sweeps.HeldSlots(ctx, plan)
	if err != nil || len(slots) == 0 {
		return nil, err
	}
	f, err := l.Sweeps.Plan(ctx, slots[0]) // only the first row of a plan has the commands
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	currency, err := l.Currency(ctx)
	if err != nil {
		return nil, err
	}
	all := plans.PlannedProxies(f)
	v := &approval{All: len(all), Rows: all[:min(len(all), approvalShown)], Cost: costText(all, currency)}
	if f.Of != nil {
		if err := v.addEarlier(ctx, l, f, currency); err != nil {
			return nil, err
		}
	}
	if f.Left != nil {
		if n := f.Left.Unpriced; n > 0 {
			v.Notes = append(v.Notes, english.PluralWord(n, fmt.Sprintf("%d follows", n), fmt.Sprintf("%d follow", n))+" when the price is known; this approval does not cover them.")
		}
		if n := f.Left.Proxies - f.Left.Unpriced; n > 0 {
			v.Notes = append(v.Notes, english.PluralWord(n, fmt.Sprintf("%d follows", n), fmt.Sprintf("%d follow", n))+" in the next part of the run; this approval does not cover them.")
		}
	}
	return v, nil
}

// addEarlier notes how many proxies the run has already renewed. A run can have several parts,
// each with its own plan. This plan belongs to a later part.
func (v *approval) addEarlier(ctx context.Context, l *ledger.Ledger, f fact.SweepPlanned, currency string) error {
	runs, err := schedules.Runs(ctx, l, f.Schedule, slotsShown)
	i := slices.IndexFunc(runs, func(r *schedules.Run) bool { return r.Began.Equal(*f.Of) })
	if err != nil || i < 0 || runs[i].Renewed == 0 {
		return err
	}
	v.Notes = append(v.Notes, fmt.Sprintf("%d renewed already in this run for %s.", runs[i].Renewed, fact.Amount(runs[i].ChargedCents, currency)))
	return nil
}

// Text says what the plan costs, and how many proxies it renews.
func (v *approval) Text() string {
	return v.Cost + " for " + english.Plural(v.All, "proxy", "proxies")
}

// costText formats the expected cost of proxies. It uses list prices for proxies for which
// nothing was paid yet.
func costText(all []plans.Included, currency string) string {
	sum := plans.SumOf(all)
	listed, n := plans.SumListed(all)
	whole := fact.Sum{Cents: sum.Cents + listed, Lacks: sum.Lacks - n}
	switch {
	case listed == 0:
		return whole.Text(currency)
	case whole == fact.Sum{Cents: listed}:
		return fact.Amount(listed, currency) + " (list price)"
	}
	return fmt.Sprintf("%s (%s of it at list price)", whole.Text(currency), fact.Amount(listed, currency))
}

// planChange is the difference between a plan made now and the schedule's plan that needs
// approval.
type planChange struct {
	Added, Gone       []string // the first proxies of each difference
	AddedAll, GoneAll int
	Dearer, Cheaper   int        // proxies that both plans have, at a different price; the earlier price is the average over a command
	By                fact.Cents // increase of the cost; unknown if a price is unknown
}

// changedShown limits the proxies that a difference lists.
const changedShown = 50

// Same reports whether the plans are equal.
func (x *planChange) Same() bool {
	return x.AddedAll+x.GoneAll+x.Dearer+x.Cheaper == 0 && x.By.Known() && x.By.Or(0) == 0
}

// Cost says by how much the cost differs. It returns "" if the cost does not differ or the
// difference is unknown.
func (x *planChange) Cost(currency string) string {
	switch cents := x.By.Or(0); {
	case cents > 0:
		return fact.Amount(cents, currency) + " more"
	case cents < 0:
		return fact.Amount(-cents, currency) + " less"
	}
	return ""
}

// changeOf compares a plan with the plan that needs approval. It returns nil if there is no
// such plan, or if the plan cannot be read.
func changeOf(ctx context.Context, l *ledger.Ledger, plan plans.Plan, held string) *planChange {
	slots, err := l.Sweeps.HeldSlots(ctx, held)
	if err != nil || len(slots) == 0 {
		return nil
	}
	f, err := l.Sweeps.Plan(ctx, slots[0])
	if err != nil {
		return nil // for example, the plan was archived
	}
	x, all, before := &planChange{}, plans.PlannedProxies(f), map[string]int64{}
	if was, now := plans.SumOf(all), plan.Estimate(); now.Lacks+was.Lacks == 0 {
		x.By = fact.Known(now.Cents - was.Cents)
	}
	for _, p := range all {
		before[p.ProxyID] = p.EstimateCents.Or(0)
	}
	x.compare(before, plan)
	return x
}

func (x *planChange) compare(before map[string]int64, plan plans.Plan) {
	for _, p := range plan.Included {
		was, both := before[p.ProxyID]
		delete(before, p.ProxyID)
		switch {
		case !both:
			if x.AddedAll++; len(x.Added) < changedShown {
				x.Added = append(x.Added, p.ProxyID)
			}
		case was > 0 && p.EstimateCents.Or(0) > was:
			x.Dearer++
		case p.EstimateCents.Known() && p.EstimateCents.Or(0) < was:
			x.Cheaper++
		}
	}
	x.GoneAll = len(before)
	for id := range before {
		x.Gone = append(x.Gone, id)
	}
	slices.Sort(x.Gone)
	x.Gone = x.Gone[:min(len(x.Gone), changedShown)]
}
