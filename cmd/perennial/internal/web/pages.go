// The other pages of an account: schedules and proxies.

package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules"
)

type schedulesView struct {
	Rows     []schedules.Status
	NoRunner string
}

func (s *Server) schedules(q accountRequest) {
	var v schedulesView
	ctx, cancel := context.WithTimeout(q.Context(), askWithin)
	defer cancel()
	if err := q.account.Ask(ctx, "sweeps", struct{}{}, &v.Rows); err != nil {
		v.NoRunner = err.Error()
	}
	s.show(q, "schedules", "Schedules", v)
}

// scheduleView is one schedule: its state, its plan as it would be now, and its slots.
type scheduleView struct {
	schedules.Status
	Slots    []ledger.Slot
	Plan     *schedules.Plan
	NoPlan   string
	Shown    int // of the plan's proxies
	Forecast *schedules.Forecast
}

// planWithin bounds a plan: a table of proxies that is old is listed first.
const planWithin = 20 * time.Second

// plannedShown is how many proxies of a plan a page shows.
const plannedShown = 200

func (s *Server) schedule(q accountRequest) {
	name, ctx := q.URL.Query().Get("id"), q.Context()
	var all []schedules.Status
	limited, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if err := q.account.Ask(limited, "sweeps", struct{}{}, &all); err != nil {
		s.fail(q.to, q.Request, q.session, http.StatusServiceUnavailable, "The runner that has the account does not answer: "+err.Error(), err)
		return
	}
	at := slices.IndexFunc(all, func(x schedules.Status) bool { return x.Schedule == name })
	if at < 0 {
		s.fail(q.to, q.Request, q.session, http.StatusNotFound, "No schedule of this account has this name.", nil)
		return
	}
	v := scheduleView{Status: all[at]}
	var err error
	if v.Slots, err = q.account.Ledger().SlotsOf(ctx, name, 20); err != nil {
		s.broken(q, err)
		return
	}
	if q.URL.Query().Has("plan") {
		planning, cancel := context.WithTimeout(ctx, planWithin)
		defer cancel()
		var plan schedules.Plan
		if err := q.account.Ask(planning, "plan", map[string]string{"schedule": name}, &plan); err != nil {
			v.NoPlan = err.Error()
		} else {
			v.Plan, v.Shown = &plan, min(len(plan.Included), plannedShown)
		}
		var forecast schedules.Forecast
		if err := q.account.Ask(planning, "forecast", map[string]any{"schedule": name, "days": 30}, &forecast); err == nil {
			v.Forecast = &forecast
		}
	}
	s.show(q, "schedule", "Schedule "+name, v)
}

type proxiesView struct {
	Within string // an hour, a day, …; "" lists all by id
	Rows   []ledger.Proxy
	Next   string // the id that the next page begins behind
	More   bool
}

const proxiesShown = 200

func (s *Server) proxies(q accountRequest) {
	ctx, l, form := q.Context(), q.account.Ledger(), q.URL.Query()
	v := proxiesView{Within: form.Get("within")}
	var err error
	if within, bad := time.ParseDuration(v.Within); bad == nil && within >= 0 {
		errEnough := errors.New("enough")
		err = l.Expiring(ctx, s.Clock().Add(within), func(p ledger.Proxy) error {
			if len(v.Rows) >= proxiesShown {
				v.More = true
				return errEnough
			}
			v.Rows = append(v.Rows, p)
			return nil
		})
		if errors.Is(err, errEnough) {
			err = nil
		}
	} else {
		v.Within = ""
		if v.Rows, err = l.Proxies(ctx, form.Get("after"), proxiesShown); len(v.Rows) == proxiesShown {
			v.Next = v.Rows[len(v.Rows)-1].ProxyID
		}
	}
	if err != nil {
		s.broken(q, err)
		return
	}
	s.show(q, "proxies", "Proxies", v)
}

// proxyView is one proxy: what the listing showed, and the operations that named it.
type proxyView struct {
	ledger.Proxy
	Listed     bool
	PerDay     int64 // what it was last paid for, over Days
	Days       int64
	Currency   string
	Operations []fact.Ref
}

// endingsShown is how many operations of a proxy its page names.
const endingsShown = 100

func (s *Server) proxy(q accountRequest) {
	ctx, l, id := q.Context(), q.account.Ledger(), q.URL.Query().Get("id")
	var v proxyView
	var err error
	if v.Proxy, err = l.Proxy(ctx, id); err == nil {
		v.Listed = true
	}
	v.ProxyID = id
	if v.Operations, err = l.EndingsOf(ctx, id, endingsShown); err != nil {
		s.broken(q, err)
		return
	}
	if !v.Listed && len(v.Operations) == 0 {
		s.fail(q.to, q.Request, q.session, http.StatusNotFound, "Neither a listing nor an operation has shown a proxy of this id.", nil)
		return
	}
	v.PerDay, v.Days, _ = l.PaidPerDay(ctx, id) // unknown where it was never paid for
	v.Currency, _ = l.Currency(ctx)
	s.show(q, "proxy", "Proxy "+id, v)
}
