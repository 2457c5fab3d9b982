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
	"perennial/schedules"
)

// proxiesView is one page of a list.
type proxiesView struct {
	Within    string // an hour, a day, …
	Uncovered bool
	Due       string // a day
	From      string
	Until     string
	ByExpiry  bool
	Rows      []proxyRow
	Next      string // the address of the next page
	Cut       bool   // not all that no schedule covers can be listed
	Made      Made[uncovered]
	Coverage  Made[*schedules.Coverage]
	Currency  string

	waits bool // for a price
}

// Pending reports whether the page has to be looked at again.
func (v *proxiesView) Pending() bool {
	return v.waits || v.Coverage.Pending() || v.Uncovered && v.Made.Pending()
}

// proxyRow is one proxy of a list.
type proxyRow struct {
	ledger.Proxy

	Schedule string // that renews it
	Covered  bool   // or it needs none
	Price    schedules.Price
}

const proxiesShown = 200

func (s *Server) proxies(q accountRequest) {
	ctx, form := q.Context(), q.URL.Query()
	v := proxiesView{
		Within: form.Get("within"), Uncovered: form.Has("uncovered"), Due: form.Get("due"), From: form.Get("from"), Until: form.Get("until"), ByExpiry: form.Get("by") == "expiry",
		Coverage: s.coverage(ctx, q.account),
	}
	v.Currency, _ = q.account.Ledger().Currency(ctx)
	var err error
	switch span, ok := s.span(v); {
	case v.Uncovered:
		err = s.listUncovered(q, &v)
	case v.Due != "":
		err = s.listDue(q, &v)
	case ok:
		err = s.listSpan(q, &v, span)
	default:
		err = s.listByID(q, &v)
	}
	if err != nil {
		s.broken(q, err)
		return
	}
	s.show(q, "proxies", "Proxies", &v)
}

// span is what a list by expiry is about: from a place on, until before an instant.
type span struct{ from, until time.Time }

func (s *Server) span(v proxiesView) (x span, ok bool) {
	x.until = end
	if within, err := time.ParseDuration(v.Within); err == nil && within >= 0 {
		return span{until: s.Clock().Add(within)}, true
	}
	from, errFrom := instantOf(v.From)
	until, errUntil := instantOf(v.Until)
	if errFrom != nil || errUntil != nil || from.IsZero() && until.IsZero() && !v.ByExpiry {
		return x, false
	}
	x.from = from
	if !until.IsZero() {
		x.until = until
	}
	return x, true
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

// nextPage is the address of the page behind a proxy.
func nextPage(q accountRequest, last ledger.ExpiryPlace) string {
	form := q.URL.Query()
	form.Set("behind", last.At.UTC().Format(time.RFC3339Nano)+"~"+last.ProxyID)
	return "?" + form.Encode()
}

func (s *Server) listByID(q accountRequest, v *proxiesView) error {
	all, err := q.account.Ledger().Proxies(q.Context(), q.URL.Query().Get("after"), proxiesShown)
	for _, p := range all {
		v.Rows = append(v.Rows, v.row(p))
	}
	if len(all) == proxiesShown {
		v.Next = to(q.account.AccountName(), "proxies", "after", all[len(all)-1].ProxyID)
	}
	return err
}

// row adds to a proxy which schedule renews it.
func (v *proxiesView) row(p ledger.Proxy) proxyRow {
	row := proxyRow{Proxy: p}
	if c := v.Coverage.Value; c != nil {
		of, covered := c.Of(p)
		row.Schedule, row.Covered = of.Name, covered || !c.Needs(p)
	}
	return row
}

// pricedRow adds what the next renewal is expected to cost. The price of its kind may take
// long to find: it is a figure.
func (s *Server) pricedRow(ctx context.Context, a Account, v *proxiesView, p ledger.PricedProxy) proxyRow {
	row, c := v.row(p.Proxy), v.Coverage.Value
	if c == nil || row.Schedule == "" || !c.Needs(p.Proxy) {
		return row
	}
	kind := strings.Join([]string{p.CountryCode, p.Region, p.LineName, p.IPType, p.Protocol}, "\x00")
	price := lately(ctx, s.figures, "price:"+a.AccountName()+":"+kind, kindFresh, func(ctx context.Context) (ledger.Paid, error) {
		return a.Ledger().LastPaid(ctx, p.Proxy)
	})
	if v.waits = v.waits || price.Pending(); price.Known() || p.Paid.Days > 0 {
		of, _ := c.Of(p.Proxy)
		row.Price = schedules.PriceOf(p.Paid, price.Value, of.DurationDays)
	}
	return row
}

// kindFresh is how old the price of a kind may be.
const kindFresh = 10 * time.Minute

func (s *Server) listSpan(q accountRequest, v *proxiesView, x span) error {
	v.ByExpiry = true
	place, behind := placeAfter(q.URL.Query())
	if !behind {
		place = ledger.From(x.from)
	}
	waiting, cancel := context.WithTimeout(q.Context(), figureWait) // of all kinds together
	defer cancel()
	page, err := q.account.Ledger().PricedPage(q.Context(), place, x.until, proxiesShown)
	if err != nil {
		return err
	}
	for _, p := range page {
		v.Rows = append(v.Rows, s.pricedRow(waiting, q.account, v, p))
	}
	if len(page) == proxiesShown {
		v.Next = nextPage(q, ledger.PlaceOf(page[len(page)-1].Proxy))
	}
	return nil
}

func (s *Server) listUncovered(q accountRequest, v *proxiesView) error {
	v.ByExpiry, v.Made = true, s.uncovered(q.Context(), q.account)
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
			v.Rows = append(v.Rows, proxyRow{Proxy: p})
		}
	}
	if len(all) > proxiesShown {
		v.Next = nextPage(q, all[proxiesShown-1])
	}
	return nil
}

// dueRead bounds the proxies that a page of what comes due reads.
const dueRead = 1000

// listDue lists what comes due on a day: what its schedule, by the expiry and renew_before,
// takes up then.
func (s *Server) listDue(q accountRequest, v *proxiesView) error {
	v.ByExpiry = true
	begin, err := time.Parse(time.DateOnly, v.Due)
	if err != nil {
		v.Due = ""
		return s.listByID(q, v)
	}
	ctx, now, after := q.Context(), s.Clock(), begin.AddDate(0, 0, 1)
	x := span{from: end}
	for _, one := range q.account.Schedules() {
		from, until := one.DueOn(begin, after, now)
		x.from, x.until = earlier(x.from, from), later(x.until, until)
	}
	place, behind := placeAfter(q.URL.Query())
	if !behind {
		place = ledger.From(x.from)
	}
	waiting, cancel := context.WithTimeout(ctx, figureWait) // of all kinds together
	defer cancel()
	page, err := q.account.Ledger().PricedPage(ctx, place, x.until, dueRead)
	if err != nil || v.Coverage.Value == nil {
		return err
	}
	for n, p := range page {
		if len(v.Rows) == proxiesShown || n == dueRead-1 {
			v.Next = nextPage(q, ledger.PlaceOf(page[max(n-1, 0)].Proxy))
			break
		}
		of, covered := v.Coverage.Value.Of(p.Proxy)
		from, until := of.DueOn(begin, after, now)
		if !covered || p.Retired || p.LastsUntil().Before(from) || !p.LastsUntil().Before(until) {
			continue
		}
		v.Rows = append(v.Rows, s.pricedRow(waiting, q.account, v, p))
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
