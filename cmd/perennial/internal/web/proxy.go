// The page of one proxy: its renewals and costs, and which schedule renews it next, or why no
// schedule does.

package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/tables"
	"perennial/schedules"
	"perennial/schedules/plans"
)

type proxyView struct {
	tables.Proxy

	Listed   bool // a listing has shown the proxy
	Gone     bool // the last complete listing lacks the proxy
	Why      schedules.RenewalOutlook
	Order    string // operation that bought the proxy
	Renewals []tables.ProxyRenewal
	Cost     tables.ProxyCost
	PerDay   int64 // net cost per bought day, in cents
	Currency string
	Coverage Made[*plans.Coverage]
	Plan     Made[plans.Plan] // plan of the proxy's schedule
	planned  bool             // the page shows data from Plan
}

// Pending reports whether the page must be reloaded to show its data.
func (v proxyView) Pending() bool { return v.Coverage.Pending() || v.planned && v.Plan.Pending() }

// endingsShown limits the renewals on a proxy's page.
const endingsShown = 100

func (s *proxyPages) proxy(q accountRequest) {
	ctx, l, id := q.Context(), q.account.Ledger(), q.URL.Query().Get("id")
	var v proxyView
	var err error
	if v.Proxy, err = l.Fleet.Proxy(ctx, id); err == nil {
		v.Listed = true
		_, err = l.Sweeps.Listed(ctx, id)
		v.Gone = errors.Is(err, ledger.ErrNotFound)
	}
	v.ProxyID = id
	if errors.Is(err, ledger.ErrNotFound) {
		err = nil
	}
	if err == nil {
		v.Renewals, err = l.Fleet.RenewalsOf(ctx, id, endingsShown)
	}
	if err == nil {
		v.Order, err = l.Operations.DeliveredBy(ctx, id)
	}
	if err != nil {
		s.frame.broken(q, err)
		return
	}
	if !v.Listed && len(v.Renewals) == 0 && v.Order == "" {
		s.frame.fail(q.to, q.Request, q.session, http.StatusNotFound, "Neither a listing nor an operation has shown a proxy of this id.", nil)
		return
	}
	if v.Cost, err = l.Fleet.CostOf(ctx, id); err != nil {
		s.frame.broken(q, err)
		return
	}
	if v.Cost.Days > 0 {
		v.PerDay = (v.Cost.ChargedCents - v.Cost.RefundedCents) / v.Cost.Days
	}
	v.Currency, _ = l.Currency(ctx)
	v.Coverage = s.insight.coverage(ctx, q.account)
	if v.Why, err = s.insight.why(ctx, q.account, &v); err != nil {
		s.frame.broken(q, err)
		return
	}
	s.frame.show(q, "proxy", "Proxy "+id, v)
}

// why says whether a proxy will be renewed, and gives the reason if not.
func (s *insight) why(ctx context.Context, a Account, v *proxyView) (out schedules.RenewalOutlook, err error) {
	from := schedules.RenewalOutlookFrom{
		Proxy: v.Proxy, Listed: v.Listed, Gone: v.Gone, Renewals: v.Renewals, Now: s.Clock(), Coverage: v.Coverage.Value, NoCoverage: v.Coverage.Err,
		Status: func(name string) (schedules.Status, string) { return s.statusOf(ctx, a, name) },
		Plan: func(name string) (*plans.Plan, string) {
			if v.Plan, v.planned = s.plan(ctx, a, name), true; v.Plan.Known() {
				return &v.Plan.Value, v.Plan.Err
			}
			return nil, v.Plan.Err
		},
		LastRun: func(of plans.Schedule) (*schedules.LastRun, error) {
			return schedules.ReadLastRun(ctx, a.Ledger(), of)
		},
	}
	if from.Paused, err = inspect.PausedRenewals(ctx, a.Ledger()); err != nil {
		return out, err
	}
	return from.Outlook(ctx)
}

// statusOf returns a schedule's status, or why the status is unknown.
func (s *insight) statusOf(ctx context.Context, a Account, name string) (status schedules.Status, problem string) {
	n, err := s.needs(ctx, a)
	switch {
	case err != nil:
		return status, err.Error()
	case n.NoRunner != "":
		return status, n.NoRunner
	}
	return schedules.StatusOf(n.Schedules, name)
}

// plan returns what a schedule would renew if it ran now, from the account's leader. Each
// page computes the plan again, unless the last computation took long. A plan from before
// the last run is not shown, because a run changes why a proxy is skipped.
func (s *insight) plan(ctx context.Context, a Account, schedule string) Made[plans.Plan] {
	within := func(fresh time.Duration) Made[plans.Plan] {
		return figureOf(ctx, s.figures, figureKey{a.AccountName(), "plan " + schedule}, fresh, func(ctx context.Context) (plans.Plan, error) {
			return ask(ctx, a, verbs.Plan, verbs.SweepRequest{Schedule: schedule})
		})
	}
	made, ran := within(0), lastPlanned(ctx, a.Ledger(), schedule)
	if made.Known() && made.Began.Before(ran) {
		if made = within(-1); made.Began.Before(ran) {
			made = Made[plans.Plan]{Since: made.Since, Err: made.Err}
		}
	}
	return made
}

// lastPlanned returns when the last run of a schedule was planned, or zero if that is unknown.
func lastPlanned(ctx context.Context, l *ledger.Ledger, schedule string) time.Time {
	last, err := l.Sweeps.LastSlot(ctx, schedule)
	if err != nil {
		return time.Time{}
	}
	row, err := l.Row(ctx, last.Seq)
	if err != nil { // for example, the row was archived
		return time.Time{}
	}
	return row.Instant()
}
