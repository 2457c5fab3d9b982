// The service requests `proxies`, `proxy`, `retire` and `reveal`.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/command"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules"
	"perennial/schedules/plans"
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
		return out, fmt.Errorf("proxy %.80q: %w", q.ProxyID, ledger.ErrNotFound)
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

// reveal records who reads a proxy's credentials, but does not return them. The caller reads
// them from the provider, so they never pass over NATS.
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

// knowsProxy returns an error if the ledger does not know a proxy.
func knowsProxy(tx *ledger.Tx, id string) error {
	known, err := tx.KnowsProxy(id)
	if err != nil || known {
		return err
	}
	return command.RefuseUnknown("proxy %.80q was never listed and no command named it: check the id (`perennial proxies list`)", id)
}
