// The money pages: the books, their entries, monthly statements, and two checks on request.

package web

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/report"
	"perennial/ledger/tables"
)

const (
	// entriesListed limits the journal rows whose entries a page lists.
	entriesListed = 50
	// daysListed limits the days with a sum of their own.
	daysListed = 31
	// bookKept is how long sums over the books are reused.
	bookKept = time.Minute
)

type moneyView struct {
	booksView

	Month  string
	Days   Made[[]tables.BookTotal]
	Checks []askedProof
	entriesView
}

// Pending reports whether a sum or a requested check is still being computed.
func (v moneyView) Pending() bool {
	for _, c := range v.Checks {
		if c.Asked && c.Pending() {
			return true
		}
	}
	return v.Days.Pending()
}

// entriesView is one page of transactions.
type entriesView struct {
	Transactions []transaction
	Kind         string // kind of entries listed; "" for all
	Kinds        []string
	Totals       []tables.KindTotal // totals of this kind
	Older        string             // address of the next page; "" at the end
	Newest       bool               // the page is the first page
	Unsummed     bool               // some wallet balances are missing, because too many entries follow
}

// transaction is the set of entries that one fact booked.
type transaction struct {
	tables.Posting // the first entry, except that the amount is the change of the wallet

	What     string     // kinds of the transaction's entries
	Proxies  []string   // without duplicates
	After    fact.Cents // wallet balance after the transaction
	Moved    int64      // amount that moved between ledger accounts; 0 if the wallet changed
	Postings []tables.Posting
}

// transactions groups postings by the fact that booked them. Postings of one fact must be
// adjacent.
func transactions(all []tables.Posting) (out []transaction) {
	for _, p := range all {
		if len(out) == 0 || out[len(out)-1].Seq != p.Seq {
			out = append(out, transaction{Posting: p, What: p.Kind})
			out[len(out)-1].AmountCents = 0
		}
		t := &out[len(out)-1]
		if t.Postings = append(t.Postings, p); !slices.Contains(strings.Split(t.What, ", "), p.Kind) {
			t.What += ", " + p.Kind
		}
		if p.ProxyID != "" && !slices.Contains(t.Proxies, p.ProxyID) {
			t.Proxies = append(t.Proxies, p.ProxyID)
		}
		if t.Moved += max(p.AmountCents, 0); p.Account == "wallet" {
			t.AmountCents += p.AmountCents
		}
	}
	for i := range out {
		if slices.ContainsFunc(out[i].Postings, func(p tables.Posting) bool { return p.Account == "wallet" }) {
			out[i].Moved = 0
		}
		if out[i].CorrectsSeq > 0 {
			out[i].What += " (correction)"
		}
	}
	return out
}

// askedProof is a check that a person can request, with its result.
type askedProof struct {
	What    string // part of the check's address
	Command string
	Asked   bool
	Made[proof]
}

// proof is the result of a check.
type proof struct {
	Verified   *ledger.Verified
	Reconciled *reconcile.Reconciliation
	Broken     string // first fault found in a damaged ledger
}

// moneyPages serves the books and the statements.
type moneyPages struct {
	*Config
	insight *insight
	frame   *frame
}

func (s *moneyPages) money(q accountRequest) {
	ctx, l, name := q.Context(), q.account.Ledger(), q.account.AccountName()
	p, err := l.Money.Position(ctx, name)
	if err != nil {
		s.frame.broken(q, err)
		return
	}
	v := moneyView{Month: s.Clock().UTC().Format(monthForm)}
	if v.booksView, err = s.insight.books(ctx, q.account, p.WithUnbooked()); err != nil {
		s.frame.broken(q, err)
		return
	}
	before, _ := strconv.ParseInt(q.URL.Query().Get("before"), 10, 64)
	if v.entriesView, err = entries(ctx, q.account, q.URL.Query().Get("kind"), before); err != nil {
		s.frame.broken(q, err)
		return
	}
	v.Days = figureOf(ctx, s.insight.figures, figureKey{name, "days"}, bookKept, func(ctx context.Context) ([]tables.BookTotal, error) {
		days, err := l.Money.TotalsBy(ctx, "day", daysListed)
		slices.SortStableFunc(days, byDay)
		return days, err
	})
	for _, what := range []string{"verify", "reconcile"} {
		made, asked := peek[proof](s.insight.figures, checkKey(what, name))
		v.Checks = append(v.Checks, askedProof{what, "perennial ledger " + what + " --account " + name, asked, made})
	}
	s.frame.show(q, "money", "Money", v)
}

// byDay compares two sums by their day. The sum of the remaining entries comes last.
func byDay(a, b tables.BookTotal) int {
	switch {
	case a.Rest == b.Rest:
		return strings.Compare(a.Subject, b.Subject)
	case a.Rest:
		return 1
	}
	return -1
}

func entries(ctx context.Context, a Account, kind string, before int64) (v entriesView, err error) {
	if !slices.Contains(tables.Kinds, kind) {
		kind = ""
	}
	postings, next, err := a.Ledger().Money.PostingsBefore(ctx, kind, before, entriesListed)
	v = entriesView{Transactions: transactions(postings), Kind: kind, Kinds: tables.Kinds, Newest: before <= 0}
	if next > 0 {
		v.Older = to(a.AccountName(), "money", "kind", kind, "before", strconv.FormatInt(next, 10))
	}
	if err == nil {
		err = v.sumUp(ctx, a.Ledger())
	}
	if err == nil && kind != "" {
		v.Totals, err = a.Ledger().Money.TotalsOf(ctx, kind)
	}
	return v, err
}

// sumUp sets the wallet balance after each transaction.
func (v *entriesView) sumUp(ctx context.Context, l *ledger.Ledger) error {
	seqs := make([]int64, len(v.Transactions))
	for i, t := range v.Transactions {
		seqs[i] = t.Seq
	}
	after, err := l.Money.WalletsAfter(ctx, seqs)
	for i := range v.Transactions {
		cents, known := after[v.Transactions[i].Seq]
		if known {
			v.Transactions[i].After = fact.Known(cents)
		}
		v.Unsummed = v.Unsummed || !known
	}
	return err
}

type statementView struct {
	Made[*report.Statement]
	Month          string
	Earlier, Later string
}

// monthOf returns the start of the month in the address, by default of the current month. If
// the month has no statement, it writes an error page and ok is false.
func (s *moneyPages) monthOf(q accountRequest) (begin time.Time, ok bool) {
	now := s.Clock().UTC()
	begin, err := time.Parse(monthForm, cmp.Or(q.URL.Query().Get("month"), now.Format(monthForm)))
	if err != nil || begin.Year() < 2000 || begin.After(now) {
		s.frame.fail(q.to, q.Request, q.session, http.StatusNotFound, "There is no statement of that month: write it as 2026-11, and not one of the future.", nil)
		return begin, false
	}
	return begin, true
}

func (s *moneyPages) statement(q accountRequest) {
	begin, ok := s.monthOf(q)
	if !ok {
		return
	}
	l, name, month := q.account.Ledger(), q.account.AccountName(), begin.Format(monthForm)
	v := statementView{Month: month, Earlier: begin.AddDate(0, -1, 0).Format(monthForm)}
	if next := begin.AddDate(0, 1, 0); !next.After(s.Clock()) {
		v.Later = next.Format(monthForm)
	}
	v.Made = figureOf(q.Context(), s.insight.figures, figureKey{name, "statement " + month}, bookKept, func(ctx context.Context) (*report.Statement, error) {
		return l.Report().Statement(ctx, name, report.Period{From: begin, To: begin.AddDate(0, 1, 0)})
	})
	s.frame.show(q, "statement", "Statement of "+begin.Format("January 2006"), v)
}

// exports returns, by file extension, the functions that write a period's files.
func exports(ctx context.Context, l *ledger.Ledger, account string, p report.Period) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		"csv":       func(w io.Writer) error { return l.Report().ExportCSV(ctx, w, p) },
		"jsonl":     func(w io.Writer) error { return l.Report().ExportJSON(ctx, w, p) },
		"beancount": func(w io.Writer) error { return l.Report().ExportBeancount(ctx, w, account, p, false) },
		"statement.csv": func(w io.Writer) error {
			of, err := l.Report().Statement(ctx, account, p)
			if err != nil {
				return err
			}
			return of.WriteCSV(w)
		},
	}
}

// export sends a month's file, in the format of `perennial ledger export` or `statement`.
func (s *moneyPages) export(q accountRequest) {
	begin, ok := s.monthOf(q)
	if !ok {
		return
	}
	name, as := q.account.AccountName(), cmp.Or(q.URL.Query().Get("as"), "csv")
	write := exports(q.Context(), q.account.Ledger(), name, report.Period{From: begin, To: begin.AddDate(0, 1, 0)})[as]
	if write == nil {
		s.frame.fail(q.to, q.Request, q.session, http.StatusNotFound, "There is no such export: it is csv, jsonl, beancount or statement.csv.", nil)
		return
	}
	h, out := q.to.Header(), &file{ResponseWriter: q.to}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="`+name+"-"+begin.Format(monthForm)+"."+as+`"`)
	err := write(out)
	switch {
	case err == nil:
	case out.begun:
		s.Log.WithError(err).WithField("account", name).Error("an export is cut short")
		panic(http.ErrAbortHandler) // the browser then sees that the file is incomplete
	default:
		h.Del("Content-Disposition")
		s.frame.broken(q, err)
	}
}

// file is a response without a total time limit, because each write extends the deadline.
type file struct {
	http.ResponseWriter

	begun bool
}

// fileStalls is how long a browser may stop reading a file.
const fileStalls = 30 * time.Second

func (f *file) Write(p []byte) (int, error) {
	f.begun = true
	_ = http.NewResponseController(f.ResponseWriter).SetWriteDeadline(time.Now().Add(fileStalls))
	return f.ResponseWriter.Write(p)
}

func checkKey(what, account string) figureKey { return figureKey{account, "check " + what} }

// prove starts a check in the background, because it takes time here or at the provider. The
// journal records what a reconciliation finds.
func (s *moneyPages) prove(q accountRequest) {
	what, name := q.PathValue("what"), q.account.AccountName()
	produce := map[string]func(context.Context) (proof, error){
		"verify": func(ctx context.Context) (proof, error) {
			v, err := q.account.Ledger().Verify(ctx)
			if broken, ok := errors.AsType[*chain.BrokenError](err); ok {
				return proof{Broken: broken.Error()}, nil
			}
			return proof{Verified: &v}, err
		},
		"reconcile": func(ctx context.Context) (proof, error) {
			found, err := ask(ctx, q.account, verbs.Reconcile, struct{}{})
			s.insight.figures.expire(name) // the reconciliation has changed the runner's answers
			return proof{Reconciled: &found}, err
		},
	}[what]
	switch {
	case !q.session.MayChange(name):
		s.frame.fail(q.to, q.Request, q.session, http.StatusForbidden, "You are signed in as a viewer: an operator may ask for it.", nil)
	case produce == nil:
		s.frame.fail(q.to, q.Request, q.session, http.StatusNotFound, "There is no such proof.", nil)
	default:
		s.Log.WithField("account", name).WithField("by", q.session.Name).WithField("change", what).Info("a proof was asked for on the pages")
		s.insight.figures.start(checkKey(what, name), -1, what == "reconcile", func(ctx context.Context) (any, error) { return produce(ctx) })
		http.Redirect(q.to, q.Request, to(name, "money")+"#proofs", http.StatusSeeOther)
	}
}
