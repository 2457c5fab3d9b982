package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/tables"
	"perennial/schedules"
	"perennial/schedules/plans"
)

type proxiesView struct {
	Query, Country, Label, Schedule, State string // filters

	Within    string // a duration, such as 24h
	Uncovered bool
	Due       string // a day
	From      string
	Until     string
	ByExpiry  bool
	Wrong     string // error in the filters
	Schedules []string
	States    []string
	Rows      []proxyRow
	Next      string     // address of the next page
	LookedTo  *time.Time // the page ends at this expiry because the scan reached its limit
	Cut       bool       // the list of proxies in no schedule is incomplete
	Made      Made[uncovered]
	Coverage  Made[*plans.Coverage]
	Currency  string

	waits bool // the page lacks a price that is being computed
	form  url.Values
}

func (v *proxiesView) Pending() bool {
	return v.waits || v.Coverage.Pending() || v.Uncovered && v.Made.Pending()
}

func (v *proxiesView) Filtered() bool {
	return v.Query != "" || v.Country != "" || v.Label != "" || v.Schedule != "" || v.State != ""
}

// parts are the query fields that select a section of the list. The fields "after" and "behind"
// select the page within the section.
var parts = []string{"within", "uncovered", "due", "from", "until", "by", "after", "behind"}

// With returns the address of another section of the list with unchanged filters.
func (v *proxiesView) With(field, value string) string {
	form := url.Values{field: {value}}
	for name, values := range v.form {
		if !slices.Contains(parts, name) {
			form[name] = values
		}
	}
	return "?" + form.Encode()
}

// Part returns the query fields that stay in the address when a person submits a filter form.
// The field "uncovered" does not stay, because filters do not apply to that section.
func (v *proxiesView) Part() map[string]string {
	fields := map[string]string{}
	for _, name := range parts[:len(parts)-2] {
		if value := v.form.Get(name); value != "" && name != "uncovered" {
			fields[name] = value
		}
	}
	return fields
}

type proxyRow struct {
	tables.PricedProxy

	State    string // one of plans.ProxyStates
	Schedule string // the schedule that renews the proxy
	Price    plans.Price
}

const (
	proxiesShown = 200
	// proxiesStep and proxiesSteps apply if the ledger cannot apply all filters. proxiesStep is
	// the number of proxies that are read at a time. proxiesSteps limits the reads for one page.
	proxiesStep, proxiesSteps = 500, 10
)

type proxyPages struct {
	*frame
	reveals *rate.Limiter
}

func (s *proxyPages) proxies(q accountRequest) (page, error) {
	ctx, form := q.Context(), q.URL.Query()
	v := proxiesView{
		Query: strings.TrimSpace(form.Get("q")), Country: strings.TrimSpace(form.Get("country")), Label: strings.TrimSpace(form.Get("label")), Schedule: form.Get("schedule"), State: form.Get("state"),
		Within: form.Get("within"), Due: form.Get("due"), From: form.Get("from"), Until: form.Get("until"), ByExpiry: true, form: form,
		Schedules: scheduleNames(q.account), States: plans.ProxyStates, Coverage: s.insight.coverage(ctx, q.account),
	}
	v.Uncovered = !v.Filtered() && form.Has("uncovered")
	v.Currency, _ = q.account.Ledger().Currency(ctx)
	x, err := s.span(v)
	if err == nil && v.State != "" && !slices.Contains(v.States, v.State) {
		err = fmt.Errorf("%q is not a state of a proxy: choose one from the list", v.State)
	}
	switch {
	case err != nil:
		v.Wrong, err = err.Error(), nil
	case v.Uncovered:
		err = s.listUncovered(q, &v)
	case v.Due != "":
		err = s.listDue(q, &v)
	case !v.Filtered() && (form.Get("by") == "id" || form.Has("after")):
		v.ByExpiry = false
		err = s.listByID(q, &v)
	default:
		err = s.list(q, &v, x, func(tables.PricedProxy) bool { return true })
	}
	return page{name: "proxies", title: "Proxies", data: &v}, err
}

// span is a period of expiry times. It includes from and excludes until.
type span struct{ from, until time.Time }

// span returns the period that the filters select. It returns an error for a person if a
// filter is invalid.
func (s *proxyPages) span(v proxiesView) (x span, err error) {
	if v.Within != "" {
		within, err := time.ParseDuration(v.Within)
		if err != nil || within < 0 {
			return x, fmt.Errorf("%q is not a time from now: write hours, such as 72h", v.Within)
		}
		return span{until: s.Clock().Add(within)}, nil
	}
	if _, err := dayOf(v.Due); err != nil {
		return x, err
	}
	if x.from, err = instantOf(v.From); err != nil {
		return x, err
	}
	if x.until, err = instantOf(v.Until); x.until.IsZero() {
		x.until = end
	}
	return x, err
}

// instantOf parses a day in UTC, or a time. It returns the zero time for "".
func instantOf(text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return dayOf(text)
}

// placeAfter returns the last proxy of the previous page. ok is false if the first page is
// requested.
func placeAfter(form url.Values) (p tables.ExpiryPlace, ok bool) {
	at, id, found := strings.Cut(form.Get("behind"), "~")
	var err error
	p.At, err = time.Parse(time.RFC3339Nano, at)
	p.ProxyID = id
	return p, found && err == nil
}

func nextPage(q accountRequest, last tables.ExpiryPlace) string {
	form := q.URL.Query()
	form.Set("behind", last.At.UTC().Format(time.RFC3339Nano)+"~"+last.ProxyID)
	return "?" + form.Encode()
}

func (s *proxyPages) listByID(q accountRequest, v *proxiesView) error {
	all, err := q.account.Ledger().Fleet.Proxies(q.Context(), q.URL.Query().Get("after"), proxiesShown)
	for _, p := range all {
		v.Rows = append(v.Rows, v.row(tables.PricedProxy{Proxy: p}, s.Clock()))
	}
	if len(all) == proxiesShown {
		v.Next = to(q.account.AccountName(), "proxies", "by", "id", "after", all[len(all)-1].ProxyID)
	}
	return err
}

func (v *proxiesView) row(p tables.PricedProxy, now time.Time) proxyRow {
	row := proxyRow{PricedProxy: p}
	if c := v.Coverage.Value; c != nil {
		of, _ := c.Of(p.Proxy)
		row.Schedule, row.State = of.Name, c.State(p, now)
	}
	return row
}

// pricedRow returns a row with the expected price of the next renewal. It reads the price as
// a figure, because finding a price may be slow.
func (s *proxyPages) pricedRow(ctx context.Context, a Account, v *proxiesView, p tables.PricedProxy) proxyRow {
	row, c := v.row(p, s.Clock()), v.Coverage.Value
	if c == nil || row.Schedule == "" || !c.Needs(p.Proxy) {
		return row
	}
	kind := strings.Join([]string{p.CountryCode, p.Region, p.LineName, p.IPType, p.Protocol}, "\x00")
	price := figureOf(ctx, s.insight.figures, figureKey{a.AccountName(), "price " + kind}, kindFresh, func(ctx context.Context) (tables.Paid, error) {
		return a.Ledger().Fleet.LastPaid(ctx, p.Proxy)
	})
	if price.Known() && price.Value.Days == 0 { // the first renewal of a kind may have been paid since
		price = figureOf(ctx, s.insight.figures, figureKey{a.AccountName(), "price " + kind}, time.Second, func(ctx context.Context) (tables.Paid, error) {
			return a.Ledger().Fleet.LastPaid(ctx, p.Proxy)
		})
	}
	if v.waits = v.waits || price.Pending(); price.Known() || p.Paid.Days > 0 {
		of, _ := c.Of(p.Proxy)
		row.Price = plans.PriceOf(p.Paid, price.Value, of.DurationDays)
	}
	return row
}

// kindFresh is the age at which a price is outdated and looked up again.
const kindFresh = 10 * time.Minute

// bySchedule reports whether the requested state depends on schedules.
func (v *proxiesView) bySchedule() bool {
	return v.State == plans.ProxyDue || v.State == plans.ProxyUnscheduled
}

// fits reports whether a row matches the filters that the ledger cannot apply.
func (v *proxiesView) fits(row proxyRow) bool {
	return (v.Schedule == "" || row.Schedule == v.Schedule) && (!v.bySchedule() || row.State == v.State)
}

// query returns the ledger query. ok is false if the filters are invalid. ok is also false if
// the filters need to know the schedule of each proxy and this is not known yet.
func (v *proxiesView) query(x span) (query tables.ProxiesQuery, ok bool) {
	name, value, labelled := strings.Cut(v.Label, "=")
	if v.Label != "" && (!labelled || name == "") {
		v.Wrong = wrongLabel(v.Label)
		return query, false
	}
	query = tables.ProxiesQuery{Until: x.until, ID: v.Query, Country: v.Country, Name: name, Value: value, Limit: proxiesShown + 1}
	if slices.Contains(v.States, v.State) && !v.bySchedule() {
		query.State = v.State
	}
	var behind bool
	if query.After, behind = placeAfter(v.form); !behind {
		query.After = tables.From(x.from)
	}
	if v.bySchedule() || v.Schedule != "" || v.Due != "" {
		query.Limit = proxiesStep
		return query, v.Coverage.Value != nil
	}
	return query, true
}

// list adds a page of proxies. The proxies expire in the span x, match the filters and satisfy
// keep. It adds nothing if v.query returns false.
func (s *proxyPages) list(q accountRequest, v *proxiesView, x span, keep func(tables.PricedProxy) bool) error {
	query, ok := v.query(x)
	if !ok {
		return nil
	}
	waiting, cancel := context.WithTimeout(q.Context(), figureWait) // one limit for all prices of the page together
	defer cancel()
	for range proxiesSteps {
		page, err := q.account.Ledger().Fleet.ProxiesPage(q.Context(), query)
		if err != nil {
			return err
		}
		for _, p := range page.Proxies {
			if len(v.Rows) == proxiesShown {
				v.Next = nextPage(q, tables.PlaceOf(v.Rows[proxiesShown-1].Proxy))
				return nil
			}
			if v.fits(v.row(p, s.Clock())) && keep(p) {
				v.Rows = append(v.Rows, s.pricedRow(waiting, q.account, v, p))
			}
		}
		if query.After = page.Next; query.After == (tables.ExpiryPlace{}) {
			return v.addNamed(q)
		}
		if len(page.Proxies) < query.Limit { // the ledger reached its scan limit
			break
		}
	}
	v.Next, v.LookedTo = nextPage(q, query.After), &query.After.At
	return nil
}

// addNamed adds a proxy that never expires, because lists by expiry do not contain it. It does
// so only if the list is empty and the person searched for the proxy's complete id.
func (v *proxiesView) addNamed(q accountRequest) error {
	others := v.Country + v.Label + v.Schedule + v.State + v.Within + v.Due + v.From + v.Until
	if v.Query == "" || others != "" || len(v.Rows) > 0 {
		return nil
	}
	p, err := q.account.Ledger().Fleet.Proxy(q.Context(), v.Query)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err == nil && p.ExpiresAt == nil {
		v.Rows = append(v.Rows, v.row(tables.PricedProxy{Proxy: p}, p.SeenAt))
	}
	return err
}

func (s *proxyPages) listUncovered(q accountRequest, v *proxiesView) error {
	v.Made = s.insight.uncovered(q.Context(), q.account)
	all := v.Made.Value.Nearest
	v.Cut = int64(len(all)+len(v.Made.Value.Endless)) < v.Made.Value.Count
	if place, behind := placeAfter(q.URL.Query()); behind {
		at, found := slices.BinarySearchFunc(all, place, func(a, b tables.ExpiryPlace) int {
			if n := a.At.Compare(b.At); n != 0 {
				return n
			}
			return strings.Compare(a.ProxyID, b.ProxyID)
		})
		if found {
			at++
		}
		all = all[at:]
	}
	for _, place := range all[:min(len(all), proxiesShown)] {
		p, err := q.account.Ledger().Fleet.Proxy(q.Context(), place.ProxyID)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
		if err == nil {
			v.Rows = append(v.Rows, proxyRow{PricedProxy: tables.PricedProxy{Proxy: p}, State: plans.ProxyUnscheduled})
		}
	}
	if len(all) > proxiesShown {
		v.Next = nextPage(q, all[proxiesShown-1])
	}
	return nil
}

// listDue lists the proxies that become due on a day, according to their expiry and their
// schedule's renew_before.
func (s *proxyPages) listDue(q accountRequest, v *proxiesView) error {
	begin, err := time.Parse(time.DateOnly, v.Due)
	if err != nil {
		return err
	}
	now, after := s.Clock(), begin.AddDate(0, 0, 1)
	x := span{from: end}
	for _, one := range q.account.Schedules() {
		from, until := one.DueOn(begin, after, now)
		if from.Before(x.from) {
			x.from = from
		}
		if until.After(x.until) {
			x.until = until
		}
	}
	return s.list(q, v, x, func(p tables.PricedProxy) bool {
		of, covered := v.Coverage.Value.Of(p.Proxy)
		from, until := of.DueOn(begin, after, now)
		return covered && !p.Retired && !p.LastsUntil().Before(from) && p.LastsUntil().Before(until)
	})
}

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

// why returns whether a proxy will be renewed. If it will not, the result contains the reason.
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

// statusOf returns a schedule's status. If the status is unknown, problem says why.
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

// plan asks the account's leader what a schedule would renew if it ran now. Each page computes
// the plan again, unless the last computation took long. A plan from before the last run is not
// shown, because a run changes why a proxy is skipped.
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

// lastPlanned returns the time of a schedule's last plan. It returns the zero time if that is
// unknown.
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

// reveal responds with a proxy's credentials after the journal has recorded the reader and the
// reason. This process reads the credentials from the provider itself, so they pass over no
// other connection. No cache stores the response, because it answers a POST. To see the
// credentials again, the person must send the form again. The journal records each time.
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
