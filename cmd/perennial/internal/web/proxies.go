// Proxies: by id, by expiry, those that come due on a day, and those that no schedule
// covers.

package web

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"perennial/ledger"
	"perennial/schedules/plans"
)

// proxiesView is one page of a list.
type proxiesView struct {
	Query, Country, Label, Schedule, State string // filters

	Within    string // an hour, a day, …
	Uncovered bool
	Due       string // a day
	From      string
	Until     string
	ByExpiry  bool
	Wrong     string // of the filters
	Schedules []string
	States    []string
	Rows      []proxyRow
	Next      string     // the address of the next page
	LookedTo  *time.Time // the page ends there because so many were looked through
	Cut       bool       // not all that no schedule covers can be listed
	Made      Made[uncovered]
	Coverage  Made[*plans.Coverage]
	Currency  string

	waits bool // for a price
	form  url.Values
}

// Pending reports whether the page has to be looked at again.
func (v *proxiesView) Pending() bool {
	return v.waits || v.Coverage.Pending() || v.Uncovered && v.Made.Pending()
}

// Filtered reports whether a filter is set.
func (v *proxiesView) Filtered() bool {
	return v.Query != "" || v.Country != "" || v.Label != "" || v.Schedule != "" || v.State != ""
}

// parts are the fields that say which part of the list is shown, and a page of it.
var parts = []string{"within", "uncovered", "due", "from", "until", "by", "after", "behind"}

// With is the address of another part of the list, with the filters of this one.
func (v *proxiesView) With(field, value string) string {
	form := url.Values{field: {value}}
	for name, values := range v.form {
		if !slices.Contains(parts, name) {
			form[name] = values
		}
	}
	return "?" + form.Encode()
}

// Part are the fields of the part of the list that is shown.
func (v *proxiesView) Part() map[string]string {
	fields := map[string]string{}
	for _, name := range parts[:len(parts)-2] {
		if value := v.form.Get(name); value != "" && name != "uncovered" {
			fields[name] = value
		}
	}
	return fields
}

// proxyRow is one proxy of a list.
type proxyRow struct {
	ledger.PricedProxy

	State    string // one of plans.ProxyStates
	Schedule string // that renews it
	Price    plans.Price
}

const (
	proxiesShown = 200
	// proxiesStep is how many are read at a time where the program itself filters, and
	// proxiesSteps how often for one page.
	proxiesStep, proxiesSteps = 500, 10
)

func (s *Server) proxies(q accountRequest) {
	ctx, form := q.Context(), q.URL.Query()
	v := proxiesView{
		Query: strings.TrimSpace(form.Get("q")), Country: strings.TrimSpace(form.Get("country")), Label: strings.TrimSpace(form.Get("label")), Schedule: form.Get("schedule"), State: form.Get("state"),
		Within: form.Get("within"), Due: form.Get("due"), From: form.Get("from"), Until: form.Get("until"), ByExpiry: true, form: form,
		Schedules: scheduleNames(q.account), States: plans.ProxyStates, Coverage: s.coverage(ctx, q.account),
	}
	v.Uncovered = !v.Filtered() && form.Has("uncovered")
	v.Currency, _ = q.account.Ledger().Currency(ctx)
	var err error
	switch {
	case v.Uncovered:
		err = s.listUncovered(q, &v)
	case v.Due != "":
		err = s.listDue(q, &v)
	case !v.Filtered() && (form.Get("by") == "id" || form.Has("after")):
		v.ByExpiry = false
		err = s.listByID(q, &v)
	default:
		err = s.list(q, &v, s.span(v), func(ledger.PricedProxy) bool { return true })
	}
	if err != nil {
		s.broken(q, err)
		return
	}
	s.show(q, "proxies", "Proxies", &v)
}

// span is what a list by expiry is about: from a place on, until before an instant.
type span struct{ from, until time.Time }

func (s *Server) span(v proxiesView) span {
	if within, err := time.ParseDuration(v.Within); err == nil && within >= 0 {
		return span{until: s.Clock().Add(within)}
	}
	from, errFrom := instantOf(v.From)
	until, errUntil := instantOf(v.Until)
	if errFrom != nil || errUntil != nil {
		return span{until: end}
	}
	if until.IsZero() {
		until = end
	}
	return span{from, until}
}

// instantOf reads a day in UTC, or an instant; the zero time for "".
func instantOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		return at, nil
	}
	return time.Parse(time.RFC3339, text)
}

// placeAfter is where the page that was asked for begins; ok is false for the first one.
func placeAfter(form url.Values) (p ledger.ExpiryPlace, ok bool) {
	at, id, found := strings.Cut(form.Get("behind"), "~")
	var err error
	p.At, err = time.Parse(time.RFC3339Nano, at)
	p.ProxyID = id
	return p, found && err == nil
}

// nextPage is the address of the page after a proxy.
func nextPage(q accountRequest, last ledger.ExpiryPlace) string {
	form := q.URL.Query()
	form.Set("behind", last.At.UTC().Format(time.RFC3339Nano)+"~"+last.ProxyID)
	return "?" + form.Encode()
}

func (s *Server) listByID(q accountRequest, v *proxiesView) error {
	all, err := q.account.Ledger().Proxies(q.Context(), q.URL.Query().Get("after"), proxiesShown)
	for _, p := range all {
		v.Rows = append(v.Rows, v.row(ledger.PricedProxy{Proxy: p}, s.Clock()))
	}
	if len(all) == proxiesShown {
		v.Next = to(q.account.AccountName(), "proxies", "by", "id", "after", all[len(all)-1].ProxyID)
	}
	return err
}

// row adds to a proxy which schedule renews it, and its state.
func (v *proxiesView) row(p ledger.PricedProxy, now time.Time) proxyRow {
	row := proxyRow{PricedProxy: p}
	if c := v.Coverage.Value; c != nil {
		of, _ := c.Of(p.Proxy)
		row.Schedule, row.State = of.Name, c.State(p, now)
	}
	return row
}

// pricedRow adds what the next renewal is expected to cost. The price of its kind may take
// long to find: it is a figure.
func (s *Server) pricedRow(ctx context.Context, a Account, v *proxiesView, p ledger.PricedProxy) proxyRow {
	row, c := v.row(p, s.Clock()), v.Coverage.Value
	if c == nil || row.Schedule == "" || !c.Needs(p.Proxy) {
		return row
	}
	kind := strings.Join([]string{p.CountryCode, p.Region, p.LineName, p.IPType, p.Protocol}, "\x00")
	price := figureOf(ctx, s.figures, "price:"+a.AccountName()+":"+kind, kindFresh, func(ctx context.Context) (ledger.Paid, error) {
		return a.Ledger().LastPaid(ctx, p.Proxy)
	})
	if v.waits = v.waits || price.Pending(); price.Known() || p.Paid.Days > 0 {
		of, _ := c.Of(p.Proxy)
		row.Price = plans.PriceOf(p.Paid, price.Value, of.DurationDays)
	}
	return row
}

// kindFresh is how old the price of a kind may be.
const kindFresh = 10 * time.Minute

// bySchedule reports whether the state that is asked for is decided by schedules.
func (v *proxiesView) bySchedule() bool {
	return v.State == plans.ProxyDue || v.State == plans.ProxyUnscheduled
}

// fits reports whether a row fits the filters that the ledger does not know.
func (v *proxiesView) fits(row proxyRow) bool {
	return (v.Schedule == "" || row.Schedule == v.Schedule) && (!v.bySchedule() || row.State == v.State)
}

// query is what is asked of the ledger; ok is false where nothing can be listed, or not yet.
func (v *proxiesView) query(x span) (query ledger.ProxiesQuery, ok bool) {
	name, value, labelled := strings.Cut(v.Label, "=")
	if v.Label != "" && (!labelled || name == "") {
		v.Wrong = wrongLabel(v.Label)
		return query, false
	}
	query = ledger.ProxiesQuery{Until: x.until, ID: v.Query, Country: v.Country, Name: name, Value: value, Limit: proxiesShown + 1}
	if slices.Contains(v.States, v.State) && !v.bySchedule() {
		query.State = v.State
	}
	var behind bool
	if query.After, behind = placeAfter(v.form); !behind {
		query.After = ledger.From(x.from)
	}
	if v.bySchedule() || v.Schedule != "" || v.Due != "" {
		query.Limit = proxiesStep
		return query, v.Coverage.Value != nil
	}
	return query, true
}

// list lists what expires in a span, fits the filters, and is to be kept. What schedules
// decide is not known before their coverage is.
func (s *Server) list(q accountRequest, v *proxiesView, x span, keep func(ledger.PricedProxy) bool) error {
	query, ok := v.query(x)
	if !ok {
		return nil
	}
	waiting, cancel := context.WithTimeout(q.Context(), figureWait) // of all kinds together
	defer cancel()
	for range proxiesSteps {
		page, err := q.account.Ledger().ProxiesPage(q.Context(), query)
		if err != nil {
			return err
		}
		for _, p := range page.Proxies {
			if len(v.Rows) == proxiesShown {
				v.Next = nextPage(q, ledger.PlaceOf(v.Rows[proxiesShown-1].Proxy))
				return nil
			}
			if v.fits(v.row(p, s.Clock())) && keep(p) {
				v.Rows = append(v.Rows, s.pricedRow(waiting, q.account, v, p))
			}
		}
		if query.After = page.Next; query.After == (ledger.ExpiryPlace{}) {
			return v.addNamed(q)
		}
		if len(page.Proxies) < query.Limit { // it looked through as many as one may
			break
		}
	}
	v.Next, v.LookedTo = nextPage(q, query.After), &query.After.At
	return nil
}

// addNamed adds the proxy that the search has the whole id of: one that never expires is in
// no list by expiry.
func (v *proxiesView) addNamed(q accountRequest) error {
	if v.Query == "" || len(v.Rows) > 0 {
		return nil
	}
	p, err := q.account.Ledger().Proxy(q.Context(), v.Query)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err == nil && p.ExpiresAt == nil {
		v.Rows = append(v.Rows, v.row(ledger.PricedProxy{Proxy: p}, p.SeenAt))
	}
	return err
}

func (s *Server) listUncovered(q accountRequest, v *proxiesView) error {
	v.Made = s.uncovered(q.Context(), q.account)
	all := v.Made.Value.Nearest
	v.Cut = int64(len(all)) < v.Made.Value.Count
	if place, behind := placeAfter(q.URL.Query()); behind {
		at, found := slices.BinarySearchFunc(all, place, func(a, b ledger.ExpiryPlace) int {
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
		p, err := q.account.Ledger().Proxy(q.Context(), place.ProxyID)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
		if err == nil {
			v.Rows = append(v.Rows, proxyRow{PricedProxy: ledger.PricedProxy{Proxy: p}, State: plans.ProxyUnscheduled})
		}
	}
	if len(all) > proxiesShown {
		v.Next = nextPage(q, all[proxiesShown-1])
	}
	return nil
}

// listDue lists what comes due on a day: what its schedule, by the expiry and renew_before,
// takes up then.
func (s *Server) listDue(q accountRequest, v *proxiesView) error {
	begin, err := time.Parse(time.DateOnly, v.Due)
	if err != nil {
		v.Due = ""
		return s.list(q, v, s.span(*v), func(ledger.PricedProxy) bool { return true })
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
	return s.list(q, v, x, func(p ledger.PricedProxy) bool {
		of, covered := v.Coverage.Value.Of(p.Proxy)
		from, until := of.DueOn(begin, after, now)
		return covered && !p.Retired && !p.LastsUntil().Before(from) && p.LastsUntil().Before(until)
	})
}
