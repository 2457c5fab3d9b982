// The list of operations, with its filters and its search.

package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
)

const (
	// listed is how many operations a page of the list shows.
	listed = 50
	// tracedShown is how many operations of one trace id are named.
	tracedShown = 20
	// traceKept is for how long a search by trace id is not made again.
	traceKept = time.Minute
)

// operationsView is the list of operations.
type operationsView struct {
	Query     string
	State     fact.State
	Kind      fact.Kind
	Label     string
	Schedule  string
	From      string // days, UTC
	Until     string
	Wrong     string // of the filters
	States    []fact.State
	Tabs      []stateCount
	Kinds     []fact.Kind
	Schedules []string
	Rows      []inspect.OperationStatus
	Older     string     // the address of what was accepted before; "" at the end
	LookedTo  *time.Time // the page ends there because so many operations were looked through
	Filters   string     // the address without a page
	Currency  string
	Trace     *Made[[]string] // of a search by trace id
}

// Pending reports whether a search is under way.
func (v *operationsView) Pending() bool { return v.Trace != nil && v.Trace.Pending() }

// Filtered reports whether a filter beside the state is set.
func (v *operationsView) Filtered() bool {
	return v.Kind != "" || v.Label != "" || v.Schedule != "" || v.From != "" || v.Until != ""
}

// stateCount is how many operations have a state that the tabs name.
type stateCount struct {
	State fact.State
	Count int64
}

var tabStates = []fact.State{fact.StateAccepted, fact.StateSending, fact.StateWaiting, fact.StateOpen, fact.StateHeld, fact.StateReview}

// count fills the tabs.
func (v *operationsView) count(ctx context.Context, l *ledger.Ledger) error {
	counts, err := l.StateCounts(ctx)
	for _, state := range tabStates {
		if n := counts[state]; n > 0 || state == v.State {
			v.Tabs = append(v.Tabs, stateCount{state, n})
		}
	}
	return err
}

func (s *Server) operations(q accountRequest) {
	ctx, form := q.Context(), q.URL.Query()
	v := operationsView{
		Query: strings.TrimSpace(form.Get("q")), State: fact.State(form.Get("state")), Kind: fact.Kind(form.Get("kind")), Label: strings.TrimSpace(form.Get("label")),
		Schedule: form.Get("schedule"), From: form.Get("from"), Until: form.Get("until"), States: fact.States, Kinds: []fact.Kind{fact.KindOrder, fact.KindRenewal},
	}
	if strings.Contains(v.Query, "=") && v.Label == "" && found(ctx, q.account, v.Query) == "" {
		http.Redirect(q.to, q.Request, to(q.account.AccountName(), "operations", "label", v.Query), http.StatusSeeOther)
		return
	}
	var err error
	if v.Currency, err = currencyOf(ctx, q.account); err == nil && v.Query != "" {
		s.search(q, v)
		return
	}
	if err == nil {
		err = errors.Join(v.read(ctx, q.account.Ledger(), form), v.count(ctx, q.account.Ledger()))
	}
	if err != nil {
		s.broken(q, err)
		return
	}
	v.Schedules = scheduleNames(q.account)
	s.show(q, "operations", "Operations", &v)
}

// currencyOf is the currency of an account's amounts, "" before its ledger is opened.
func currencyOf(ctx context.Context, a Account) (string, error) {
	currency, err := a.Ledger().Currency(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		err = nil
	}
	return currency, err
}

// read fills the rows with a page of the list.
func (v *operationsView) read(ctx context.Context, l *ledger.Ledger, form url.Values) error {
	name, value, labelled := strings.Cut(v.Label, "=")
	query := ledger.OperationsQuery{State: v.State, Kind: v.Kind, Name: name, Value: value, Schedule: v.Schedule, Before: ledger.CursorOf(form.Get("before")), Limit: listed}
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
	page, err := l.OperationsPage(ctx, query)
	if err != nil {
		return err
	}
	for _, o := range page.Operations {
		v.Rows = append(v.Rows, statusOf(o, v.Currency))
	}
	form.Del("before")
	v.Filters = "?" + form.Encode()
	if page.Next != (ledger.Cursor{}) {
		if form.Set("before", page.Next.String()); len(v.Rows) < listed {
			at := page.Next.At()
			v.LookedTo = &at
		}
		v.Older = "?" + form.Encode()
	}
	return nil
}

func wrongLabel(label string) string {
	return fmt.Sprintf("The label %q has no name and value: write it as team=shop.", label)
}

// dayOf reads a day as a form has it; zero for none.
func dayOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return at, fmt.Errorf("%q is no day: write one such as 2026-12-31", text)
	}
	return at, nil
}

// scheduleNames are the account's schedules, by the configuration.
func scheduleNames(a Account) (names []string) {
	for _, x := range a.Schedules() {
		names = append(names, x.Name)
	}
	return names
}

// search goes to what has an id. What has none may be a trace id, which is looked for in
// the background.
func (s *Server) search(q accountRequest, v operationsView) {
	if to := found(q.Context(), q.account, v.Query); to != "" {
		http.Redirect(q.to, q.Request, to, http.StatusSeeOther)
		return
	}
	trace := lately(q.Context(), s.figures, "trace "+q.account.AccountName()+" "+v.Query, traceKept, func(ctx context.Context) ([]string, error) {
		return q.account.Ledger().Traced(ctx, v.Query, tracedShown)
	})
	v.Trace = &trace
	if len(trace.Value) == 1 {
		http.Redirect(q.to, q.Request, addressOf(q.account, "operation", trace.Value[0]), http.StatusSeeOther)
		return
	}
	v.Schedules = scheduleNames(q.account)
	s.show(q, "operations", "Operations", &v)
}

func statusOf(o fact.Operation, currency string) inspect.OperationStatus {
	return inspect.OperationStatus{
		OperationID: o.ID, CommandID: o.CommandID, Kind: o.Kind, State: o.State, Reason: o.Reason, Code: o.Code, Attempts: o.Attempts,
		OrderNo: o.OrderNo, ChargedCents: o.ChargedCents, RefundedCents: o.RefundedCents, Currency: currency, AcceptedAt: o.AcceptedAt, NextAt: o.NextAt,
	}
}

// found is the address of what has an id: a command, an operation, an order of the
// provider's, or a proxy; "" for none.
func found(ctx context.Context, a Account, id string) string {
	l := a.Ledger()
	if status, err := inspect.Brief(ctx, l, id, ""); err == nil {
		if len(status.Operations) == 1 {
			id = status.Operations[0].OperationID
		}
		return addressOf(a, "operation", id)
	}
	if o, err := l.OrderOperation(ctx, id); err == nil {
		return addressOf(a, "operation", o.ID)
	}
	if _, err := l.Proxy(ctx, id); err == nil {
		return addressOf(a, "proxy", id)
	}
	if named, err := l.NamedBefore(ctx, id, fact.Operation{}, 1); err == nil && len(named) > 0 {
		return addressOf(a, "proxy", id)
	}
	return ""
}

// addressOf is the page of something that has an id: ids are the caller's own, and may hold
// any character.
func addressOf(a Account, page, id string) string {
	return "/a/" + a.AccountName() + "/" + page + "?id=" + url.QueryEscape(id)
}
