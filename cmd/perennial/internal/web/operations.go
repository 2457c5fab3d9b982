package web

import (
	"context"
	"encoding/json"
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

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/command"
	"perennial/jobs/inspect"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/chain"
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

// foundRow is one search result. Charged and Refunded are in cents. For a command, they are the
// sums of all its operations.
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

// Further returns the address of the next results. It returns "" if there are no more.
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

func (v *operationsView) Pending() bool { return v.Trace != nil && v.Trace.Pending() }

// Filtered reports whether a filter other than the state is set.
func (v *operationsView) Filtered() bool {
	return v.Kind != "" || v.Label != "" || v.Schedule != "" || v.From != "" || v.Until != ""
}

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

// currencyOf returns an account's currency. It returns "" if the ledger has no fact
// ledger.opened yet.
func currencyOf(ctx context.Context, a Account) (string, error) {
	currency, err := a.Ledger().Currency(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		err = nil
	}
	return currency, err
}

// read adds one page of the list to the rows. If a filter is invalid, it only sets Wrong.
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
		one, err := inspect.ListedStatus(ctx, l, o, v.Currency)
		if err != nil {
			return err
		}
		v.Rows = append(v.Rows, operationRow{one, what})
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

// found returns the address of an item's page. The item is the command, operation, provider
// order or proxy with this id. It returns "" if there is none.
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

const (
	// siblingsShown limits how many other operations of the same command the page shows.
	siblingsShown = 100
	// linesShown limits for how many proxies of the operation the page shows earlier and later
	// operations. An operation has at most this many proxies.
	linesShown = 100
	// bookedShown limits the ledger entries on the page.
	bookedShown = 40
	// factsShown limits the facts on the page. If there are more, the page shows the first half
	// and the last half of this number.
	factsShown = 200
)

type operationView struct {
	inspect.Evidence
	Command  inspect.CommandStatus
	SameID   string // first operation of another command, whose id equals this operation's id
	Siblings int    // number of the command's operations that the page omits
	Review   bool
	Happens  string // what the runner will do next
	Steps    []step
	Facts    []factRow
	LeftOut  int // number of omitted facts
	Booked   []tables.Posting
	Bookings int // total number of entries; Booked has only the first
	Way      []proxyHistory
	What     string         // short description
	Choices  []choice       // possible answers to the review
	Given    []bookedAnswer // earlier answers
	Typed    answerForm

	asking bool // the provider is being asked
}

// choice is a possible answer for one proxy, or for the whole operation if ProxyID is "".
type choice struct {
	ProxyID  string
	Charges  bool // "charged" is a possible answer
	Expected fact.Cents
	OrderNo  string
	Again    bool // "send again" is a possible answer
}

// bookedAnswer is an answer to a review, with its journal row and the sum of its corrections.
type bookedAnswer struct {
	fact.OperationResolved

	Seq       int64
	Corrected int64 // cents charged by corrections, minus cents that corrections took back
}

// Titles of the forms that correct an answer.
const (
	takeBack    = "Correct: less or nothing was charged"
	chargeAgain = "Correct: it was charged after all"
	chargeMore  = "Correct: more was charged"
)

type correction struct {
	Title, Text, Label, Kind string
	Row                      int64  // journal row that the form corrects
	Amount                   string // initial value of the amount
	Required                 bool
	Typed                    *answerForm // submitted values; nil if the form was not submitted
}

// Corrections returns the forms that correct an answer. One form takes back a charge, and is
// included only if there is a charge. The other form books a further charge.
func (v *operationView) Corrections(g bookedAnswer) (all []correction) {
	net := g.ChargedCents + g.Corrected
	if net > 0 {
		all = append(all, correction{Title: takeBack, Text: "Corrects the ledger with a new entry. Nothing is deleted, and nothing is sent to the provider.", Label: "Amount to take back (empty: all of it, " + fact.Amount(net, v.Currency) + ")", Kind: fact.MovementRefund, Row: g.Seq})
	}
	again := correction{Title: chargeMore, Text: "Corrects the ledger with a new entry. Nothing is sent to the provider.", Label: "Additional amount (" + fact.Amount(net, v.Currency) + " is booked)", Kind: fact.MovementCharge, Row: g.Seq, Required: true}
	if g.Corrected < 0 {
		again.Title, again.Amount = chargeAgain, fact.Decimal(-g.Corrected)
		again.Text = fact.Amount(-g.Corrected, v.Currency) + " was taken back. This corrects the ledger with a new entry. Nothing is sent to the provider."
	}
	all = append(all, again)
	for i := range all {
		if x := &all[i]; v.Typed.Seq == strconv.FormatInt(x.Row, 10) && v.Typed.Kind == x.Kind {
			x.Typed = &v.Typed
		}
	}
	return all
}

// Unplaced returns why a correction was not accepted. It returns "" if no correction was
// submitted, or if the page has a form that shows the reason.
func (v *operationView) Unplaced() string {
	if v.Typed.Seq == "" {
		return ""
	}
	for _, g := range v.Given {
		if slices.ContainsFunc(v.Corrections(g), func(x correction) bool { return x.Typed != nil }) {
			return ""
		}
	}
	return v.Typed.Wrong
}

// addCorrection adds a correction to its answer. The correction may refer to the answer
// directly or to an earlier correction. roots maps the row of each correction to the row of
// its answer.
func (v *operationView) addCorrection(seq int64, f fact.LedgerRecorded, roots map[int64]int64) {
	root := f.Corrects
	if of, known := roots[root]; known {
		root = of
	}
	i := slices.IndexFunc(v.Given, func(g bookedAnswer) bool { return g.Seq == root })
	if i < 0 {
		return
	}
	roots[seq] = root
	switch f.Movement {
	case fact.MovementCharge:
		v.Given[i].Corrected += f.AmountCents
	case fact.MovementRefund:
		v.Given[i].Corrected -= f.AmountCents
	}
}

// answerForm is a submitted form, with the reason why the answer was not accepted. Seq and Kind
// are set only for a correction.
type answerForm struct{ Answer, Amount, Order, Line, Reason, Wrong, Seq, Kind string }

func (v *operationView) Pending() bool { return v.asking }

type step struct {
	inspect.HistoryEntry
	After time.Duration // time between the previous entry and this entry
}

// factRow is a fact about an operation or its command, as its event shows it.
type factRow struct {
	chain.Row
	EventID string
	Pretty  string
}

// proxyHistory is one proxy of a renewal. Before and After are the previous and the next
// operation for the same proxy.
type proxyHistory struct {
	tables.RenewalLine
	Claimed       bool
	Before, After string
}

func (s *operationPages) operation(q accountRequest) (page, error) {
	return s.showOperation(q, q.URL.Query().Get("id"), http.StatusOK, answerForm{})
}

// showOperation returns an operation's page. The page's form contains the typed values.
func (s *operationPages) showOperation(q accountRequest, id string, code int, typed answerForm) (page, error) {
	ctx := q.Context()
	command, same, err := briefOf(ctx, q.account.Ledger(), id)
	if errors.Is(err, ledger.ErrNotFound) {
		if seq, found := letterWith(ctx, q.account, id); found {
			http.Redirect(q.to, q.Request, to(q.account.AccountName(), "dead", "seq", strconv.FormatUint(seq, 10)), http.StatusSeeOther)
			return page{}, nil
		}
		return page{}, &pageError{http.StatusNotFound, "No command or operation has this id, and none of the first dead letters.", nil}
	}
	v := operationView{Command: command, SameID: same, Typed: typed}
	if err == nil && len(command.Operations) > 0 {
		which := command.Operations[0].OperationID
		if slices.ContainsFunc(command.Operations, func(o inspect.OperationStatus) bool { return o.OperationID == id }) {
			which = id
		}
		err = s.readOperation(ctx, q.account, which, &v)
	}
	if err != nil {
		return page{}, err
	}
	v.Siblings = max(0, len(command.Operations)-siblingsShown)
	v.Command.Operations = command.Operations[:min(len(command.Operations), siblingsShown)]
	title := "Operation " + v.OperationID
	if v.OperationID == "" {
		title = "Command " + command.CommandID
	}
	return page{name: "operation", title: title, code: code, data: &v}, nil
}

// briefOf returns the command of the operation with the given id. If there is no such
// operation, it returns the command with this id. If both exist, same is the first operation
// of the command with this id.
func briefOf(ctx context.Context, l *ledger.Ledger, id string) (of inspect.CommandStatus, same string, err error) {
	of, err = inspect.Brief(ctx, l, id, inspect.AsOperation)
	if errors.Is(err, ledger.ErrNotFound) {
		of, err = inspect.Brief(ctx, l, id, inspect.AsCommand)
		return of, "", err
	}
	if err != nil || !command.MayNameOperation(of.CommandID) && !command.MayNameOperation(id) {
		return of, "", err
	}
	other, err := inspect.Brief(ctx, l, id, inspect.AsCommand)
	if errors.Is(err, ledger.ErrNotFound) {
		return of, "", nil
	}
	if len(other.Operations) > 0 {
		same = other.Operations[0].OperationID
	}
	return of, same, err
}

func (s *operationPages) readOperation(ctx context.Context, a Account, id string, v *operationView) (err error) {
	l := a.Ledger()
	o, err := l.Operations.Operation(ctx, id)
	if err != nil {
		return err
	}
	if v.Evidence, v.asking, err = s.insight.evidence(ctx, a, o); err != nil {
		return err
	}
	if o.Kind.MakesOrder() && v.ProxyIDs == nil {
		if whole, err := inspect.Status(ctx, l, id); err == nil && len(whole.Operations) > 0 {
			v.ProxyIDs = whole.Operations[0].ProxyIDs
		}
	}
	v.choose()
	if v.What = "Order"; len(v.Lines) > 0 {
		v.What = "Renewal of " + english.Plural(len(v.Lines), "proxy", "proxies")
	}
	v.Review, v.Happens = v.State == fact.StateReview || len(v.Answers) > 0, happensNext(o, v.Command.WaitsFor)
	for i, h := range v.History {
		one := step{HistoryEntry: h}
		if i > 0 {
			one.After = h.Time.Sub(v.History[i-1].Time)
		}
		v.Steps = append(v.Steps, one)
	}
	if err := v.readFacts(ctx, a, id); err != nil {
		return err
	}
	return v.readHistories(ctx, l, o)
}

func (v *operationView) readFacts(ctx context.Context, a Account, id string) error {
	l := a.Ledger()
	rows, err := l.RowsOf(ctx, id)
	if _, archived := errors.AsType[*ledger.ArchivedError](err); err != nil && !archived {
		return err
	}
	seqs, roots := make([]int64, 0, len(rows)), map[int64]int64{}
	for i, row := range rows {
		seqs = append(seqs, row.Seq)
		if f, err := fact.Decode(row.Type, []byte(row.Data)); err == nil {
			switch f := f.(type) {
			case fact.OperationResolved:
				v.Given = append(v.Given, bookedAnswer{OperationResolved: f, Seq: row.Seq})
			case fact.LedgerRecorded:
				v.addCorrection(row.Seq, f, roots)
			}
		}
		if i < factsShown/2 || i >= len(rows)-factsShown/2 {
			v.Facts = append(v.Facts, factRow{row, a.AccountName() + "/" + row.Hash[:16] + "/" + strconv.FormatInt(row.Seq, 10), pretty(row.Data)})
		}
	}
	v.LeftOut = len(rows) - len(v.Facts)
	if v.Booked, err = l.Money.PostingsOf(ctx, seqs); err != nil {
		return err
	}
	v.Bookings = len(v.Booked)
	v.Booked = v.Booked[:min(v.Bookings, bookedShown)]
	return nil
}

// choose groups the possible answers by proxy. Answers about the whole operation form one group.
func (v *operationView) choose() {
	for _, a := range v.Answers {
		i := slices.IndexFunc(v.Choices, func(c choice) bool { return c.ProxyID == a.ProxyID })
		if i < 0 {
			i = len(v.Choices)
			v.Choices = append(v.Choices, choice{ProxyID: a.ProxyID})
			if a.ProxyID == "" && v.Verdict != nil {
				v.Choices[i].Expected, v.Choices[i].OrderNo = v.Verdict.ExpectedCents, v.Verdict.OrderNo
				if gap := v.ChargedByWallet(); gap > 0 && !v.Verdict.ExpectedCents.Known() {
					v.Choices[i].Expected = fact.Known(gap)
				}
			}
		}
		c := &v.Choices[i]
		c.Charges, c.Again = c.Charges || strings.HasPrefix(a.Say, "--charged"), c.Again || strings.Contains(a.Say, "--send-again")
	}
	for _, x := range v.Lines {
		if i := slices.IndexFunc(v.Choices, func(c choice) bool { return c.ProxyID == x.ProxyID }); i >= 0 {
			v.Choices[i].Expected = fact.Estimated(x.ChargedCents - x.RefundedCents)
		}
	}
}

// readHistories finds the previous and the next operation of each line's proxy, and whether
// this operation has reserved the proxy.
func (v *operationView) readHistories(ctx context.Context, l *ledger.Ledger, o fact.Operation) error {
	for _, line := range v.Lines[:min(len(v.Lines), linesShown)] {
		one := proxyHistory{RenewalLine: line}
		before, err := l.Operations.NamedBefore(ctx, line.ProxyID, o, 1)
		if err != nil {
			return err
		}
		after, err := l.Operations.NamedAfter(ctx, line.ProxyID, o, 1)
		if err != nil {
			return err
		}
		if len(before) > 0 {
			one.Before = before[0].ID
		}
		if len(after) > 0 {
			one.After = after[0].ID
		}
		holder, err := l.Operations.Claimant(ctx, line.ProxyID)
		if err != nil {
			return err
		}
		one.Claimed = holder == o.ID
		v.Way = append(v.Way, one)
	}
	return nil
}

func happensNext(o fact.Operation, waitsFor string) string {
	at := ""
	if o.NextAt != nil {
		at = ", not before " + o.NextAt.UTC().Format("2006-01-02 15:04:05") + " UTC"
	}
	switch o.State {
	case fact.StateAccepted:
		if waitsFor != "" {
			return waitsFor
		}
		return "It is sent as soon as a sender is free" + at + "."
	case fact.StateSending:
		return "The provider's reply is awaited. Where none comes, the same bytes go again under the same key."
	case fact.StateWaiting:
		if waitsFor != "" && !strings.HasPrefix(waitsFor, "it is sent again at ") { // a pause prevents the retry
			return waitsFor
		}
		return "The same bytes go again under the same key" + at + "."
	case fact.StateOpen:
		return "The order is read again" + at + ", until it is delivered or refunded."
	case fact.StateHeld:
		return waitsFor
	case fact.StateReview:
		return "Resolve the review: nothing is sent before."
	case fact.StateRejected:
		return "Nothing: it was refused, or cancelled, and nothing was charged."
	case fact.StatePartial, fact.StateFailed:
		return "Nothing: it has ended. A schedule tries the proxies that failed again, with a new command."
	case fact.StateDelivered, fact.StateRefunded, fact.StateCompleted, fact.StateResolved:
	}
	return "Nothing: it has ended."
}

// evidence returns what the ledger knows about an operation. For an operation in review, it
// returns the runner's evidence, which includes what the provider shows. asking means that the
// runner has not answered yet.
func (s *insight) evidence(ctx context.Context, a Account, o fact.Operation) (e inspect.Evidence, asking bool, err error) {
	if e, err = inspect.CollectEvidence(ctx, a.Ledger(), nil, o.ID); err != nil {
		return e, false, err
	}
	e.Notes = slices.DeleteFunc(e.Notes, func(note string) bool { return strings.HasPrefix(note, "no `perennial run` answers") })
	if o.State != fact.StateReview {
		return e, false, nil
	}
	key := figureKey{a.AccountName(), fmt.Sprintf("evidence %s %d", o.ID, o.Version)}
	asked := figureOf(ctx, s.figures, key, evidenceKept, func(ctx context.Context) (inspect.Evidence, error) {
		ctx, cancel := context.WithTimeout(ctx, evidenceWithin)
		defer cancel()
		return ask(ctx, a, verbs.Evidence, verbs.OperatorRequest{ID: o.ID})
	})
	if asked.Known() {
		return asked.Value, false, nil
	}
	if asked.Err != "" {
		e.Notes = append(e.Notes, "No runner answered: this is what the ledger alone knows.")
	}
	return e, asked.Pending(), nil
}

const (
	// evidenceWithin limits the wait for the runner's evidence.
	evidenceWithin = 3 * askWithin
	// evidenceKept is how long evidence is reused.
	evidenceKept = 15 * time.Second
)

// pretty indents JSON. It returns other text unchanged.
func pretty(data string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(data))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return data
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return data
	}
	return string(text)
}
