// The money: the book, its entries, statements by month, and the two proofs that a person
// can ask for.

package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/reconcile"
	"perennial/ledger"
)

const (
	// entriesListed is how many rows that booked something a page shows.
	entriesListed = 50
	// daysListed is how many days are summed one by one.
	daysListed = 31
	// bookKept is for how long sums over the book are shown before they are made again.
	bookKept = time.Minute
)

// moneyView is the book.
type moneyView struct {
	booksView

	Month  string
	Days   Made[[]ledger.BookTotal]
	Checks []askedProof
	entriesView
}

// Pending reports whether a sum or a proof is still to come.
func (v moneyView) Pending() bool {
	for _, c := range v.Checks {
		if c.Asked && c.Pending() {
			return true
		}
	}
	return v.Days.Pending()
}

// entriesView is a page of the entries.
type entriesView struct {
	Postings []ledger.Posting
	Kind     string // of the entries; "" for all
	Kinds    []string
	Totals   []ledger.KindTotal // of the kind
	Older    string             // the address of the next page; "" at the end
	Newest   bool               // the page is the first one
}

// askedProof is a proof that a person asked for.
type askedProof struct {
	What    string // of its address
	Command string
	Asked   bool
	Made[proof]
}

// proof is what a proof came to.
type proof struct {
	Verified   *ledger.Verified
	Reconciled *reconcile.Reconciliation
	Broken     string // the ledger is; the first thing that does not hold
}

func (s *Server) money(q accountRequest) {
	ctx, l, name := q.Context(), q.account.Ledger(), q.account.AccountName()
	p, err := l.Position(ctx, name)
	if err != nil {
		s.broken(q, err)
		return
	}
	v := moneyView{booksView: booksOf(p.WithUnbooked(), s.glance(ctx, q.account), askNow(ctx, s, q.account, verbs.Show)), Month: s.Clock().UTC().Format(monthForm)}
	before, _ := strconv.ParseInt(q.URL.Query().Get("before"), 10, 64)
	if v.entriesView, err = entries(ctx, q.account, q.URL.Query().Get("kind"), before); err != nil {
		s.broken(q, err)
		return
	}
	v.Days = lately(ctx, s.figures, "days "+name, bookKept, func(ctx context.Context) ([]ledger.BookTotal, error) {
		days, err := l.TotalsBy(ctx, "day", daysListed)
		slices.SortStableFunc(days, byDay)
		return days, err
	})
	for _, what := range []string{"verify", "reconcile"} {
		made, asked := peek[proof](s.figures, checkName(what, name))
		v.Checks = append(v.Checks, askedProof{what, "perennial ledger " + what + " --account " + name, asked, made})
	}
	s.show(q, "money", "Money", v)
}

// byDay has the days in their order, and what is in none of them behind.
func byDay(a, b ledger.BookTotal) int {
	switch {
	case a.Rest == b.Rest:
		return strings.Compare(a.Subject, b.Subject)
	case a.Rest:
		return 1
	}
	return -1
}

func entries(ctx context.Context, a Account, kind string, before int64) (v entriesView, err error) {
	if !slices.Contains(ledger.Kinds, kind) {
		kind = ""
	}
	postings, next, err := a.Ledger().PostingsBefore(ctx, kind, before, entriesListed)
	v = entriesView{Postings: postings, Kind: kind, Kinds: ledger.Kinds, Newest: before <= 0}
	if next > 0 {
		v.Older = to(a.AccountName(), "money", "kind", kind, "before", strconv.FormatInt(next, 10))
	}
	if err == nil && kind != "" {
		v.Totals, err = a.Ledger().TotalsOf(ctx, kind)
	}
	return v, err
}

// statementView is the statement of a month.
type statementView struct {
	Made[*ledger.Statement]
	Month          string
	Earlier, Later string
}

func (s *Server) statement(q accountRequest) {
	l, name, now := q.account.Ledger(), q.account.AccountName(), s.Clock().UTC()
	month := q.URL.Query().Get("month")
	if month == "" {
		month = now.Format(monthForm)
	}
	begin, err := time.Parse(monthForm, month)
	if err != nil || begin.Year() < 2000 || begin.After(now) {
		s.fail(q.to, q.Request, q.session, http.StatusNotFound, "There is no statement of that month: write it as 2026-11, and not one of the future.", nil)
		return
	}
	v := statementView{Month: month, Earlier: begin.AddDate(0, -1, 0).Format(monthForm)}
	if next := begin.AddDate(0, 1, 0); !next.After(now) {
		v.Later = next.Format(monthForm)
	}
	v.Made = lately(q.Context(), s.figures, "statement "+name+" "+month, bookKept, func(ctx context.Context) (*ledger.Statement, error) {
		return l.Statement(ctx, name, ledger.Period{From: begin, To: begin.AddDate(0, 1, 0)})
	})
	s.show(q, "statement", "Statement of "+begin.Format("January 2006"), v)
}

func checkName(what, account string) string { return "check " + what + " " + account }

// prove begins a proof: it changes nothing, and takes the machine, or the provider, some
// time.
func (s *Server) prove(q accountRequest) {
	what, name := q.PathValue("what"), q.account.AccountName()
	produce := map[string]func(context.Context) (proof, error){
		"verify": func(ctx context.Context) (proof, error) {
			v, err := q.account.Ledger().Verify(ctx)
			if broken, ok := errors.AsType[*ledger.BrokenError](err); ok {
				return proof{Broken: broken.Error()}, nil
			}
			return proof{Verified: &v}, err
		},
		"reconcile": func(ctx context.Context) (proof, error) {
			found, err := ask(ctx, q.account, verbs.Reconcile, struct{}{})
			return proof{Reconciled: &found}, err
		},
	}[what]
	switch {
	case !q.session.MayChange(name):
		s.fail(q.to, q.Request, q.session, http.StatusForbidden, "You are signed in as a viewer: an operator may ask for it.", nil)
	case produce == nil:
		s.fail(q.to, q.Request, q.session, http.StatusNotFound, "There is no such proof.", nil)
	default:
		s.Log.WithField("account", name).WithField("by", q.session.Name).WithField("change", what).Info("a proof was asked for on the pages")
		s.figures.ask(checkName(what, name), -1, func(ctx context.Context) (any, error) { return produce(ctx) })
		http.Redirect(q.to, q.Request, to(name, "money")+"#proofs", http.StatusSeeOther)
	}
}
