// The list of schedules, and the page of one with its next and past runs and its plan.

package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules"
	"perennial/schedules/plans"
)

// schedulesView is the list of schedules.
type schedulesView struct {
	Rows     []schedules.Status
	NoRunner string
}

func (s *Server) schedules(q accountRequest) {
	n, err := s.needs(q.Context(), q.account)
	if err != nil {
		s.broken(q, err)
		return
	}
	v := schedulesView{Rows: n.Schedules, NoRunner: n.NoRunner}
	s.show(q, "schedules", "Schedules", v)
}

// scheduleView is one schedule.
type scheduleView struct {
	schedules.Status

	Rules    []plans.Rule
	Approval *approval // the plan that needs approval
	Next     []nextSlot
	Runs     []*schedules.Run
	Currency string
	Planned  bool // the page asked for a plan
	Plan     Made[plans.Plan]
	Change   *planChange
	Skipped  *skippedView
}

// skippedView lists the proxies that the last run skipped and that are still due.
type skippedView struct {
	Run  *schedules.LastRun
	Rows []ledger.Proxy // the first of them
	All  int
}

// Pending reports whether the page must be reloaded for its data.
func (v *scheduleView) Pending() bool { return v.Planned && v.Plan.Pending() }

// approval is what a plan that needs approval renews.
type approval struct {
	Rows []plans.Included // the first of them
	All  int
	Cost string
}

// approvalShown limits the proxies listed of a plan that needs approval.
const approvalShown = 200

// nextSlot is a scheduled time in the schedule's zone and in UTC.
type nextSlot struct {
	At   time.Time
	Here string
}

const (
	// planWithin limits a change that plans. An outdated table of proxies is listed first.
	planWithin = 20 * time.Second
	nextShown  = 5
	slotsShown = 20
)

func (s *Server) schedule(q accountRequest) {
	name, ctx := q.URL.Query().Get("id"), q.Context()
	status, problem := s.statusOf(ctx, q.account, name)
	configured := slices.IndexFunc(q.account.Schedules(), func(x plans.Schedule) bool { return x.Name == name })
	if problem != "" && configured < 0 {
		s.fail(q.to, q.Request, q.session, http.StatusNotFound, "No schedule of this account has this name, as far as this runner and the one that has the account know: "+problem, nil)
		return
	}
	v := scheduleView{Status: status, Planned: q.URL.Query().Has("plan")}
	if configured >= 0 {
		one := q.account.Schedules()[configured]
		v.fillNext(one, s.Clock())
		if problem != "" {
			v.Status = schedules.Status{Schedule: name, Account: one.Account, Cron: one.Cron, Timezone: one.Timezone, Problem: "not known, because the runner that has the account does not say it: " + problem}
		}
	}
	var err error
	if v.Currency, err = q.account.Ledger().Currency(ctx); err == nil {
		v.Runs, err = schedules.Runs(ctx, q.account.Ledger(), v.Schedule, slotsShown)
	}
	if err == nil && configured >= 0 {
		v.Skipped, err = skippedBy(ctx, q.account, q.account.Schedules()[configured])
	}
	if configured >= 0 {
		v.Rules = q.account.Schedules()[configured].Rules(v.Currency)
	}
	if err == nil && v.Status.Plan != "" {
		v.Approval, err = approvalOf(ctx, q.account.Ledger(), v.Status.Plan)
	}
	if err != nil {
		s.broken(q, err)
		return
	}
	if v.Planned {
		if v.Plan = s.plan(ctx, q.account, name); v.Plan.Known() {
			v.Change = changeOf(ctx, q.account.Ledger(), v.Plan.Value)
		}
	}
	s.show(q, "schedule", "Schedule "+name, &v)
}

// skippedBy returns the proxies that a schedule's last run skipped, or nil for none.
func skippedBy(ctx context.Context, a Account, one plans.Schedule) (*skippedView, error) {
	run, err := schedules.ReadLastRun(ctx, a.Ledger(), one)
	if err != nil || run == nil || run.Result.Skipped == 0 {
		return nil, err
	}
	coverage, err := plans.NewCoverage(a.Schedules(), a.Ledger(), a.ReadList)
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // the sweep says which list cannot be read
	}
	v := &skippedView{Run: run}
	err = run.EachSkipped(ctx, a.Ledger(), coverage, func(p ledger.Proxy) error {
		if v.All++; len(v.Rows) < approvalShown {
			v.Rows = append(v.Rows, p)
		}
		return nil
	})
	return v, err
}

func (v *scheduleView) fillNext(one plans.Schedule, now time.Time) {
	slots, zone, err := one.Slots(now, nextShown)
	if err != nil {
		return // configurations are validated when read
	}
	for _, at := range slots {
		v.Next = append(v.Next, nextSlot{at, at.In(zone).Format("Mon 2006-01-02 15:04:05 MST")})
	}
}

// approvalOf returns the proxies of a plan, the first to expire first. It returns nil if
// the plan's row is gone.
func approvalOf(ctx context.Context, l *ledger.Ledger, plan string) (*approval, error) {
	slots, err := l.HeldSlots(ctx, plan)
	if err != nil || len(slots) == 0 {
		return nil, err
	}
	f, err := l.Plan(ctx, slots[0]) // the first row holds the commands
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none
	}
	all := plans.PlannedProxies(f)
	currency, errCurrency := l.Currency(ctx)
	return &approval{All: len(all), Rows: all[:min(len(all), approvalShown)], Cost: plans.EstimateText(all, currency)}, cmp.Or(err, errCurrency)
}

// planChange is the difference between a plan and its schedule's last one.
type planChange struct {
	Since             time.Time // scheduled time of the last plan
	Added, Gone       []string  // the first proxies of each
	AddedAll, GoneAll int
	Dearer, Cheaper   int // proxies in both, compared with their command's average expected cost
	Before            fact.Sum
	By                fact.Cents // cost increase; unknown if a price is unknown
}

// changedShown limits the proxies named in a difference.
const changedShown = 50

// changeOf compares a plan with the last one that has a row, or returns nil.
func changeOf(ctx context.Context, l *ledger.Ledger, plan plans.Plan) *planChange {
	slots, err := l.SlotsOf(ctx, plan.Schedule, slotsShown)
	if err != nil {
		return nil
	}
	for _, slot := range slots {
		last, err := l.Plan(ctx, slot)
		if err != nil {
			continue // missed, or archived
		}
		x := &planChange{Since: slot.At, Before: plans.SumOf(plans.PlannedProxies(last))}
		if now := plan.Estimate(); now.Lacks+x.Before.Lacks == 0 {
			x.By = fact.Known(now.Cents - x.Before.Cents)
		}
		before := map[string]int64{}
		for _, p := range plans.PlannedProxies(last) {
			before[p.ProxyID] = p.EstimateCents.Or(0)
		}
		x.compare(before, plan)
		return x
	}
	return nil
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
