// Operations: the list with its filters, and one operation in full.

package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
)

const (
	// listed is how many operations a page of the list shows.
	listed = 50
	// scanned bounds the commands that one page of a filtered list reads.
	scanned  = 20_000
	scanStep = 500
	// unfinishedListed is how many operations that have not ended a page shows.
	unfinishedListed = 500
)

// operationsView is the list of operations.
type operationsView struct {
	Query    string
	State    fact.State
	Kind     fact.Kind
	Label    string
	States   []fact.State
	Kinds    []fact.Kind
	Rows     []inspect.OperationStatus
	Older    string // the address of what was accepted before; "" at the end
	First    bool   // the page shows the first accepted ones of more
	Scanned  bool   // the page ends because so many commands were read
	Currency string
}

func (s *Server) operations(q accountRequest) {
	ctx, form := q.Context(), q.URL.Query()
	v := operationsView{
		Query: strings.TrimSpace(form.Get("q")), State: fact.State(form.Get("state")), Kind: fact.Kind(form.Get("kind")), Label: strings.TrimSpace(form.Get("label")),
		States: fact.States, Kinds: []fact.Kind{fact.KindOrder, fact.KindRenewal},
	}
	if v.Query != "" {
		if to := found(ctx, q.account, v.Query); to != "" {
			http.Redirect(q.to, q.Request, to, http.StatusSeeOther)
			return
		}
		s.show(q, "operations", "Operations", v)
		return
	}
	before, _ := strconv.ParseInt(form.Get("before"), 10, 64)
	last, err := v.read(ctx, q.account.Ledger(), before)
	if err != nil {
		s.broken(q, err)
		return
	}
	if last > 0 {
		form.Set("before", strconv.FormatInt(last, 10))
		v.Older = "?" + form.Encode()
	}
	s.show(q, "operations", "Operations", v)
}

// read fills the rows with operations of commands that were accepted before a journal
// sequence, the last first; last is where the next page goes on, 0 at the end.
func (v *operationsView) read(ctx context.Context, l *ledger.Ledger, before int64) (last int64, err error) {
	if v.Currency, err = l.Currency(ctx); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return 0, err
	}
	if v.State != "" && !v.State.Ended() && v.Kind == "" && v.Label == "" {
		return 0, v.readUnfinished(ctx, l)
	}
	for read := 0; read < scanned; {
		commands, err := l.AcceptedBefore(ctx, before, scanStep)
		if err != nil {
			return 0, err
		}
		for _, c := range commands {
			before = c.Seq
			read++
			if err := v.take(ctx, l, c); err != nil {
				return 0, err
			}
			if len(v.Rows) >= listed {
				return before, nil
			}
		}
		if len(commands) < scanStep {
			return 0, nil
		}
	}
	v.Scanned = true
	return before, nil
}

// take adds the operations of a command that are asked for.
func (v *operationsView) take(ctx context.Context, l *ledger.Ledger, c ledger.Accepted) error {
	if !v.fits(c) {
		return nil
	}
	records, err := l.OperationsOf(ctx, c.CommandID)
	for _, o := range records {
		if v.State == "" || o.State == v.State {
			v.Rows = append(v.Rows, statusOf(o, v.Currency))
		}
	}
	return err
}

// readUnfinished fills the rows with what has not ended: few, and found by an index.
func (v *operationsView) readUnfinished(ctx context.Context, l *ledger.Ledger) error {
	records, err := l.OperationsIn(ctx, v.State, unfinishedListed)
	for _, o := range records {
		v.Rows = append(v.Rows, statusOf(o, v.Currency))
	}
	v.First = len(records) == unfinishedListed
	return err
}

// fits reports whether operations of a command may be listed.
func (v *operationsView) fits(c ledger.Accepted) bool {
	if v.Kind != "" && c.Kind != v.Kind {
		return false
	}
	name, value, _ := strings.Cut(v.Label, "=")
	have, ok := c.Labels[name]
	return v.Label == "" || ok && have == value
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
	if status, err := inspect.Status(ctx, l, id); err == nil {
		if len(status.Operations) > 0 {
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
	if ends, err := l.EndingsOf(ctx, id, 1); err == nil && len(ends) > 0 {
		return addressOf(a, "proxy", id)
	}
	return ""
}

// addressOf is the page of something that has an id: ids are the caller's own, and may hold
// any character.
func addressOf(a Account, page, id string) string {
	return "/a/" + a.AccountName() + "/" + page + "?id=" + url.QueryEscape(id)
}

// operationView is one operation in full.
type operationView struct {
	inspect.Evidence
	Command inspect.CommandStatus
	Review  bool
	Facts   []factRow
}

// factRow is a fact of an operation's command, as its event has it.
type factRow struct {
	ledger.Row
	Pretty string
}

func (s *Server) operation(q accountRequest) {
	ctx, id := q.Context(), q.URL.Query().Get("id")
	l := q.account.Ledger()
	command, err := inspect.Status(ctx, l, id)
	if errors.Is(err, ledger.ErrNotFound) {
		s.fail(q.to, q.Request, q.session, http.StatusNotFound, "No command or operation has this id.", nil)
		return
	}
	if err != nil {
		s.broken(q, err)
		return
	}
	v := operationView{Command: command}
	if len(command.Operations) > 0 {
		which := command.Operations[0].OperationID
		for _, o := range command.Operations {
			if o.OperationID == id {
				which = id
			}
		}
		if v.Evidence, err = s.evidence(ctx, q.account, which); err != nil {
			s.broken(q, err)
			return
		}
		v.Review = v.State == fact.StateReview || len(v.Answers) > 0
		rows, err := l.RowsOf(ctx, which)
		if _, archived := errors.AsType[*ledger.ArchivedError](err); err != nil && !archived {
			s.broken(q, err)
			return
		}
		for _, row := range rows {
			v.Facts = append(v.Facts, factRow{row, pretty(row.Data)})
		}
	}
	s.show(q, "operation", "Operation "+v.OperationID, v)
}

// evidence is what the runner collects, which asks the provider too, or without one what
// the ledger alone knows.
func (s *Server) evidence(ctx context.Context, a Account, id string) (e inspect.Evidence, err error) {
	o, err := a.Ledger().Operation(ctx, id)
	if err == nil && o.State == fact.StateReview {
		limited, cancel := context.WithTimeout(ctx, evidenceWithin)
		defer cancel()
		if err := a.Ask(limited, "evidence", map[string]string{"id": id}, &e); err == nil {
			return e, nil
		}
	}
	e, err = inspect.CollectEvidence(ctx, a.Ledger(), nil, id)
	if err == nil && o.State == fact.StateReview {
		e.Notes = append(e.Notes, "No runner answered: this is what the ledger alone knows.")
	}
	return e, err
}

// evidenceWithin is how long a page waits for what the provider is asked for.
const evidenceWithin = 3 * askWithin

// pretty is JSON for a reader.
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
