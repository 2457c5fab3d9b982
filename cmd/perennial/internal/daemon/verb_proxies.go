// The verb `proxies`: what the ledger knows of the account's proxies.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/schedules"
)

// proxy says what the ledger knows of a proxy, and whether sweeps renew it.
func (a *account) proxy(ctx context.Context, q verbs.ProxyRequest) (out verbs.ProxyAnswer, err error) {
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
		Plan: func(name string) (*schedules.Plan, string) {
			p, err := a.sweeper.PlanNow(ctx, name)
			if err != nil {
				return nil, err.Error()
			}
			return &p, ""
		},
	}
	if from.Proxy, err = l.Proxy(ctx, q.ProxyID); err == nil {
		from.Listed, out.Proxy = true, new(verbs.Listed(from.Proxy))
		_, gone := l.Listed(ctx, q.ProxyID)
		from.Gone = errors.Is(gone, ledger.ErrNotFound)
	}
	if out.Renewals, err = l.RenewalsOf(ctx, q.ProxyID, verbs.MostRenewals); err != nil {
		return out, err
	}
	if out.BoughtBy, err = l.DeliveredBy(ctx, q.ProxyID); err != nil {
		return out, err
	}
	if !from.Listed && len(out.Renewals) == 0 && out.BoughtBy == "" {
		return out, fmt.Errorf("proxy %.80q: %w", q.ProxyID, ledger.ErrNotFound)
	}
	from.Renewals = out.Renewals
	if from.Paused, err = inspect.PausedRenewals(ctx, l); err != nil {
		return out, err
	}
	if from.Coverage, err = schedules.NewCoverage(a.host.Config.SchedulesOf(a.Name), l, a.host.Config.ReadListFile); err != nil {
		from.NoCoverage = err.Error()
	}
	if out.Currency, err = l.Currency(ctx); err != nil {
		return out, err
	}
	out.Outlook, err = from.Outlook(ctx)
	return out, err
}

func (a *account) proxies(ctx context.Context, q verbs.ProxiesRequest) (verbs.ProxiesAnswer, error) {
	limit := q.Limit
	if limit == 0 || limit > mostLines {
		limit = mostLines
	}
	page := verbs.ProxiesAnswer{Proxies: []verbs.ListedProxy{}}
	known, err := a.Ledger().Proxies(ctx, q.After, limit+1)
	for i, p := range known {
		if i == limit {
			page.Next = known[i-1].ProxyID
			break
		}
		page.Proxies = append(page.Proxies, verbs.Listed(p))
	}
	return page, err
}
