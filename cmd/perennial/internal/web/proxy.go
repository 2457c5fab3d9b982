// The page of one proxy: its renewals and costs, and which schedule renews it next, or why
// no schedule does. Reveal: an operator reads one proxy's credentials from the provider,
// once.

package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
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

func (s *proxyPages) proxy(q accountRequest) (page, error) {
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
		return page{}, err
	}
	if !v.Listed && len(v.Renewals) == 0 && v.Order == "" {
		return page{}, &pageError{http.StatusNotFound, "Neither a listing nor an operation has shown a proxy of this id.", nil}
	}
	if v.Cost, err = l.Fleet.CostOf(ctx, id); err != nil {
		return page{}, err
	}
	if v.Cost.Days > 0 {
		v.PerDay = (v.Cost.ChargedCents - v.Cost.RefundedCents) / v.Cost.Days
	}
	v.Currency, _ = l.Currency(ctx)
	v.Coverage = s.insight.coverage(ctx, q.account)
	if v.Why, err = s.insight.why(ctx, q.account, &v); err != nil {
		return page{}, err
	}
	return page{name: "proxy", title: "Proxy " + id, data: v}, nil
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

// The rate limit of reveals, shared by all people. It slows down a script that reveals many
// proxies, until a person notices the entries in the journal.
const (
	revealsInARow = 5
	revealEvery   = 2 * time.Second
	revealWithin  = 15 * time.Second // limits the wait for the provider
)

// revealedView is the data of the page for one reveal. The data is never stored.
type revealedView struct {
	ProxyID string
	Why     string // the reason if nothing is revealed
	Noted   bool   // whether the journal has an entry for the reveal
	Shown   []Credential
}

// Credential is one part of a proxy's connection data. Formatting it prints "[redacted]". Only
// Text returns the value.
type Credential struct {
	Name string
	read func() string // a function, because fmt prints unexported strings
}

// NewCredential returns a credential with a name, such as Password, and its value.
func NewCredential(name, text string) Credential {
	return Credential{name, func() string { return text }}
}

// Text returns the value.
func (c Credential) Text() string { return c.read() }

// Format prints "[redacted]" for every formatting verb.
func (c Credential) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }

// reveal responds with a proxy's credentials after the journal has recorded the reader and
// the reason. This process reads the credentials from the provider, so no other connection
// carries them. The response to a POST is not stored. To see the credentials again, the
// person must send the form again, which the journal records again.
func (s *proxyPages) reveal(q accountRequest) (page, error) {
	name, id, reason := q.account.AccountName(), q.PostFormValue("id"), strings.TrimSpace(q.PostFormValue("reason"))
	refuse := func(code int, why string) (page, error) {
		return s.revealed(q, code, revealedView{ProxyID: id, Why: why})
	}
	switch {
	case !q.session.MayChange(name):
		return page{}, &pageError{http.StatusForbidden, "You are signed in as a viewer: nothing is revealed.", nil}
	case id == "" || reason == "":
		return refuse(http.StatusUnprocessableEntity, "Say which proxy, and why: the reason is kept with your name.")
	case !s.reveals.Allow():
		q.to.Header().Set("Retry-After", strconv.Itoa(int(revealEvery/time.Second)))
		return refuse(http.StatusTooManyRequests, "Too many credentials were revealed in a row: wait a few seconds.")
	}
	noting, cancel := context.WithTimeout(q.Context(), askWithin)
	defer cancel()
	if _, err := ask(noting, q.account, verbs.Reveal, verbs.RevealRequest{ProxyID: id, By: q.session.Name, Reason: reason}); err != nil {
		return refuse(http.StatusUnprocessableEntity, "Nothing is revealed, because the reveal could not be recorded: "+err.Error())
	}
	s.Log.WithField("account", name).WithField("by", q.session.Name).WithField("proxy_id", id).Info("credentials of a proxy were asked for on the pages")
	reading, cancel := context.WithTimeout(q.Context(), revealWithin)
	defer cancel()
	secret, err := q.account.Reveal(reading, id)
	if err != nil {
		return s.revealed(q, http.StatusBadGateway, revealedView{ProxyID: id, Noted: true, Why: "The credentials cannot be read from the provider: " + err.Error()})
	}
	return s.revealed(q, http.StatusOK, revealedView{ProxyID: id, Noted: true, Shown: secret})
}

func (s *proxyPages) revealed(q accountRequest, code int, data revealedView) (page, error) {
	v := s.view(q.session, "Credentials of "+data.ProxyID, "proxies")
	v.Account, v.Data = q.account.AccountName(), data
	v.Command = shell([]string{"perennial", "proxies", "get", data.ProxyID, "--reveal", "--account", v.Account})
	s.page(q.to, q.Request, "revealed", code, v)
	return page{}, nil
}
