// The list of operations, with filters and search.

package web

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/jobs/inspect"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

const (
	// listed is the number of operations on a page.
	listed = 50
	// tracedShown limits the search results on a page, and tracedFound the results of one
	// search.
	tracedShown = 20
	tracedFound = 1000
	// traceKept is how long the result of a search by trace id is reused.
	traceKept = time.Minute
)

// operationsView is the list of operations.
type operationsView struct {
	Query     string
	State     fact.State
	Kind      fact.Kind
	Label     string
	Schedule  string
	From      string // From and Until are days, in UTC
	Until     string
	Wrong     string // error in the filters
	All       int64  // number of operations in all states
	Tabs      []stateCount
	Kinds     []fact.Kind
	Schedules []string
	Rows      []operationRow
	Older     string     // address of the next page, with earlier operations; "" at the end
	LookedTo  *time.Time // the page ends at this time because the scan reached its limit
	Currency  string
	Trace     *Made[[]string] // results of a search by trace id; nil if there was no search
	Found     []foundRow      // results on this page
	Skipped   int             // number of results on earlier pages

	form url.Values
}

// foundRow is one search result. Charged and Refunded are in cents. For a command they are sums
// over its operations.
type foundRow struct {
	ID, What, State   string
	Charged, Refunded int64
}

// FoundText describes how many results the search has, and which results the page shows.
func (v *operationsView) FoundText() string {
	all := len(v.Trace.Value)
	count := english.Plural(all, "match", "matches")
	if all >= tracedFound {
		count = fmt.Sprintf("The first %d matches", all)
	}
	if len(v.Found) < all {
		count += fmt.Sprintf(", %d to %d shown", v.Skipped+1, v.Skipped+len(v.Found))
	}
	return count
}

// Further returns the address of the next results, or "".
func (v *operationsView) Further() string {
	next := v.Skipped + len(v.Found)
	if next >= len(v.Trace.Value) {
		return ""
	}
	form := maps.Clone(v.form)
	form.Set("skip", strconv.Itoa(next))
	return "?" + form.Encode()
}

// operationPages serves operations, their reviews, dead letters, and the changes that people
// make.
type operationPages struct{ *frame }

// operationRow is one operation of the list.
type operationRow struct {
	inspect.OperationStatus

	What string // short description, such as: renew 3 proxies
}

// With returns the address of the list with another state and unchanged filters.
func (v *operationsView) With(state fact.State) string {
	form := maps.Clone(v.form)
	form.Del("before")
	if form.Del("state"); state != "" {
		form.Set("state", string(state))
	}
	return "?" + form.Encode()
}

// Pending reports whether a search is in progress.
func (v *operationsView) Pending() bool { return v.Trace != nil && v.Trace.Pending() }

// Filtered reports whether a filter other than the state is set.
func (v *operationsView) Filtered() bool {
	return v.Kind != "" || v.Label != "" || v.Schedule != "" || v.From != "" || v.Until != ""
}

// stateCount is the number of operations in a state.
type stateCount struct {
	State fact.State
	Count int64
}

// count counts all operations, and adds a tab for each state that occurs or is selected.
func (v *operationsView) count(ctx context.Context, l *ledger.Ledger) error {
	counts, err := l.Operations.StateCounts(ctx)
	for _, state := range fact.States {
		v.All += counts[state]
		if n := counts[state]; n > 0 || state == v.State {
			v.Tabs = append(v.Tabs, stateCount{state, n})
		}
	}
	return err
}

func (s *operationPages) operations(q accountRequest) (page, error) {
	ctx, form := q.Context(), q.URL.Query()
	v := operationsView{
		Query: strings.TrimSpace(form.Get("q")), State: fact.State(form.Get("state")), Kind: fact.Kind(form.Get("kind")), Label: strings.TrimSpace(form.Get("label")),
		Schedule: form.Get("schedule"), From: form.Get("from"), Until: form.Get("until"), Kinds: []fact.Kind{fact.KindOrder, fact.KindRenewal}, form: form,
	}
	if strings.Contains(v.Query, "=") && v.Label == "" && found(ctx, q.account, v.Query) == "" {
		http.Redirect(q.to, q.Request, to(q.account.AccountName(), "operations", "label", v.Query), http.StatusSeeOther)
		return page{}, nil
	}
	var err error
	if v.Currency, err = currencyOf(ctx, q.account); err == nil && v.Query != "" {
		return s.search(q, v)
	}
	if err == nil {
		err = errors.Join(v.read(ctx, q.account.Ledger(), form), v.count(ctx, q.account.Ledger()))
	}
	if err != nil {
		return page{}, err
	}
	v.Schedules = scheduleNames(q.account)
	return page{name: "operations", title: "Operations", data: &v}, nil
}

// currencyOf returns an account's currency, or "" before ledger.opened.
func currencyOf(ctx context.Context, a Account) (string, error) {
	currency, err := a.Ledger().Currency(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		err = nil
	}
	return currency, err
}

// read reads one page of the list into the rows. If a filter is invalid, it only sets Wrong.
func (v *operationsView) read(ctx context.Context, l *ledger.Ledger, form url.Values) error {
	name, value, labelled := strings.Cut(v.Label, "=")
	query := tables.OperationsQuery{State: v.State, Kind: v.Kind, Name: name, Value: value, Schedule: v.Schedule, Before: tables.CursorOf(form.Get("before")), Limit: listed}
	from, errFrom := dayOf(v.From)
	until, errUntil := dayOf(v.Until)
	switch err := errors.Join(errFrom, errUntil); {
	case err != nil:
		v.Wrong = err.Error()
	case v.Label != "" && (!labelled || name == ""):
		v.Wrong = wrongLabel(v.Label)
	}
	if v.Wrong != "" {
		return nil
	}
	query.From = from
	if !until.IsZero() {
		query.Until = until.AddDate(0, 0, 1)
	}
	page, err := l.Operations.OperationsPage(ctx, query)
	if err != nil {
		return err
	}
	for _, o := range page.Operations {
		what, err := whatOf(ctx, l, o)
		if err != nil {
			return err
		}
		v.Rows = append(v.Rows, operationRow{inspect.OperationStatusOf(o, v.Currency), what})
	}
	if page.Next != (tables.Cursor{}) {
		next := maps.Clone(form)
		if next.Set("before", page.Next.String()); len(v.Rows) < listed {
			at := page.Next.At()
			v.LookedTo = &at
		}
		v.Older = "?" + next.Encode()
	}
	return nil
}

// offersNamed limits the offers named in an order's description.
const offersNamed = 2

// whatOf describes an operation briefly. If its command was archived, the description has no
// quantities.
func whatOf(ctx context.Context, l *ledger.Ledger, o fact.Operation) (string, error) {
	if o.Kind == fact.KindRenewal {
		n, days, err := l.Operations.CountLines(ctx, o.ID)
		what := english.Plural(int(n), "proxy", "proxies")
		switch {
		case err != nil || n == 0:
			return "renew proxies", err
		case n == 1:
			lines, err := l.Operations.Lines(ctx, o.ID)
			if err != nil || len(lines) != 1 {
				return "renew proxies", err
			}
			what = lines[0].ProxyID
		}
		return fmt.Sprintf("renew %s for %s", what, english.Plural(int(days), "day", "")), nil
	}
	m, err := reconcile.MakerOf(ctx, l, o)
	var all []string
	for _, item := range m.Items[:min(len(m.Items), offersNamed)] {
		all = append(all, fmt.Sprintf("%d × %s", item.Quantity, item.OfferCode))
	}
	if more := len(m.Items) - offersNamed; more > 0 {
		all = append(all, english.Plural(more, "more offer", "more offers"))
	}
	if len(all) == 0 {
		return "buy proxies", err
	}
	return "buy " + strings.Join(all, ", "), err
}

func wrongLabel(label string) string {
	return fmt.Sprintf("The label %q has no name and value: write it as team=shop.", label)
}

// dayOf parses a day from a form. It returns the zero time for "".
func dayOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return at, fmt.Errorf("%q is not a day: write one such as 2026-12-31", text)
	}
	return at, nil
}

// scheduleNames returns the names of the account's configured schedules.
func scheduleNames(a Account) (names []string) {
	for _, x := range a.Schedules() {
		names = append(names, x.Name)
	}
	return names
}

// search redirects to the page of the item with the searched id. If there is no such item,
// it searches the journal for a trace id, in the background, and shows the results.
func (s *operationPages) search(q accountRequest, v operationsView) (page, error) {
	if to := found(q.Context(), q.account, v.Query); to != "" {
		http.Redirect(q.to, q.Request, to, http.StatusSeeOther)
		return page{}, nil
	}
	trace := figureOf(q.Context(), s.insight.figures, figureKey{q.account.AccountName(), "trace " + v.Query}, traceKept, func(ctx context.Context) ([]string, error) {
		ids, err := q.account.Ledger().Operations.Traced(ctx, v.Query, tracedFound)
		if err != nil {
			return nil, err
		}
		return withoutCommands(ctx, q.account.Ledger(), ids)
	})
	v.Trace = &trace
	if len(trace.Value) == 1 {
		http.Redirect(q.to, q.Request, addressOf(q.account, "operation", trace.Value[0]), http.StatusSeeOther)
		return page{}, nil
	}
	skip, _ := strconv.Atoi(q.URL.Query().Get("skip")) // an invalid number means the first page
	v.Skipped = max(0, min(skip, len(trace.Value)))
	for _, id := range trace.Value[v.Skipped:min(v.Skipped+tracedShown, len(trace.Value))] {
		row, err := foundOf(q.Context(), q.account.Ledger(), id)
		if err != nil {
			return page{}, err
		}
		v.Found = append(v.Found, row)
	}
	v.Schedules = scheduleNames(q.account)
	return page{name: "operations", title: "Operations", data: &v}, nil
}

// withoutCommands removes each command from the ids if the ids also contain one of its
// operations.
func withoutCommands(ctx context.Context, l *ledger.Ledger, ids []string) (all []string, err error) {
	of := map[string]bool{}
	for _, id := range ids {
		o, err := l.Operations.Operation(ctx, id)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return nil, err
		}
		if err == nil && o.CommandID != id {
			of[o.CommandID] = true
		}
	}
	return slices.DeleteFunc(ids, func(id string) bool { return of[id] }), nil
}

// foundOf describes an operation or a command.
func foundOf(ctx context.Context, l *ledger.Ledger, id string) (foundRow, error) {
	o, err := l.Operations.Operation(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		of, err := inspect.Brief(ctx, l, id, inspect.AsCommand)
		if errors.Is(err, ledger.ErrNotFound) {
			err = nil // only facts about the id exist
		}
		row := foundRow{ID: id, What: "command", State: of.State}
		for _, o := range of.Operations {
			row.Charged, row.Refunded = row.Charged+o.ChargedCents, row.Refunded+o.RefundedCents
		}
		return row, err
	}
	if err != nil {
		return foundRow{}, err
	}
	what, err := whatOf(ctx, l, o)
	return foundRow{id, what, string(o.State), o.ChargedCents, o.RefundedCents}, err
}

// found returns the address of the command, operation, provider order or proxy with the given
// id, or "".
func found(ctx context.Context, a Account, id string) string {
	l := a.Ledger()
	if status, err := inspect.Brief(ctx, l, id, ""); err == nil {
		if len(status.Operations) == 1 {
			id = status.Operations[0].OperationID
		}
		return addressOf(a, "operation", id)
	}
	if o, err := l.Money.OrderOperation(ctx, id); err == nil {
		return addressOf(a, "operation", o.ID)
	}
	if _, err := l.Fleet.Proxy(ctx, id); err == nil {
		return addressOf(a, "proxy", id)
	}
	if named, err := l.Operations.NamedBefore(ctx, id, fact.Operation{}, 1); err == nil && len(named) > 0 {
		return addressOf(a, "proxy", id)
	}
	return ""
}

// addressOf returns the address of an item's page. It escapes the id, which may contain any
// character.
func addressOf(a Account, page, id string) string {
	return "/a/" + a.AccountName() + "/" + page + "?id=" + url.QueryEscape(id)
}
