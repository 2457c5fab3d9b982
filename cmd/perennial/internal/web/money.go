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
	"perennial/jobs"
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
	// daysListed limits the days that are listed with their own sum.
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

func (v moneyView) Pending() bool {
	for _, c := range v.Checks {
		if c.Asked && c.Pending() {
			return true
		}
	}
	return v.Days.Pending()
}

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

type proof struct {
	Verified   *ledger.Verified
	Reconciled *reconcile.Reconciliation
	Broken     string // first fault found in a damaged ledger
}

type moneyPages struct{ *frame }

func (s *moneyPages) money(q accountRequest) (page, error) {
	ctx, l, name := q.Context(), q.account.Ledger(), q.account.AccountName()
	p, err := l.Money.Position(ctx, name)
	if err != nil {
		return page{}, err
	}
	v := moneyView{Month: s.Clock().UTC().Format(monthForm)}
	if v.booksView, err = s.insight.books(ctx, q.account, p.WithUnbooked()); err != nil {
		return page{}, err
	}
	before, _ := strconv.ParseInt(q.URL.Query().Get("before"), 10, 64)
	if v.entriesView, err = entries(ctx, q.account, q.URL.Query().Get("kind"), before); err != nil {
		return page{}, err
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
	return page{name: "money", title: "Money", data: v}, nil
}

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

// monthOf returns the start of the month in the address. Without a month in the address, it
// returns the start of the current month. It returns an error if the month has no statement.
func (s *moneyPages) monthOf(q accountRequest) (begin time.Time, err error) {
	now := s.Clock().UTC()
	begin, err = time.Parse(monthForm, cmp.Or(q.URL.Query().Get("month"), now.Format(monthForm)))
	if err != nil || begin.Year() < 2000 || begin.After(now) {
		return begin, &pageError{http.StatusNotFound, "There is no statement of that month: write it as 2026-11, and not one of the future.", nil}
	}
	return begin, nil
}

func (s *moneyPages) statement(q accountRequest) (page, error) {
	begin, err := s.monthOf(q)
	if err != nil {
		return page{}, err
	}
	l, name, month := q.account.Ledger(), q.account.AccountName(), begin.Format(monthForm)
	v := statementView{Month: month, Earlier: begin.AddDate(0, -1, 0).Format(monthForm)}
	if next := begin.AddDate(0, 1, 0); !next.After(s.Clock()) {
		v.Later = next.Format(monthForm)
	}
	v.Made = figureOf(q.Context(), s.insight.figures, figureKey{name, "statement " + month}, bookKept, func(ctx context.Context) (*report.Statement, error) {
		return l.Report().Statement(ctx, name, report.Period{From: begin, To: begin.AddDate(0, 1, 0)})
	})
	return page{name: "statement", title: "Statement of " + begin.Format("January 2006"), data: v}, nil
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
func (s *moneyPages) export(q accountRequest) (page, error) {
	begin, err := s.monthOf(q)
	if err != nil {
		return page{}, err
	}
	name, as := q.account.AccountName(), cmp.Or(q.URL.Query().Get("as"), "csv")
	write := exports(q.Context(), q.account.Ledger(), name, report.Period{From: begin, To: begin.AddDate(0, 1, 0)})[as]
	if write == nil {
		return page{}, &pageError{http.StatusNotFound, "There is no such export: it is csv, jsonl, beancount or statement.csv.", nil}
	}
	h, out := q.to.Header(), &file{ResponseWriter: q.to}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="`+name+"-"+begin.Format(monthForm)+"."+as+`"`)
	if err = write(out); err != nil && out.begun {
		s.Log.WithError(err).WithField("account", name).Error("an export is cut short")
		panic(http.ErrAbortHandler) // the browser then sees that the file is incomplete
	}
	if err != nil {
		h.Del("Content-Disposition")
	}
	return page{}, err
}

// file is a response without a limit on its total time: each write extends the deadline.
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

// prove starts a check in the background, because a check of the ledger or the provider takes
// time. The journal records what a reconciliation finds.
func (s *moneyPages) prove(q accountRequest) (page, error) {
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
		return page{}, &pageError{http.StatusForbidden, "You are signed in as a viewer: an operator may ask for it.", nil}
	case produce == nil:
		return page{}, &pageError{http.StatusNotFound, "There is no such proof.", nil}
	}
	s.Log.WithField("account", name).WithField("by", q.session.Name).WithField("change", what).Info("a proof was asked for on the pages")
	s.insight.figures.start(checkKey(what, name), -1, what == "reconcile", func(ctx context.Context) (any, error) { return produce(ctx) })
	http.Redirect(q.to, q.Request, to(name, "money")+"#proofs", http.StatusSeeOther)
	return page{}, nil
}

// booksView compares the ledger balance with the provider's wallet.
type booksView struct {
	Balance  tables.Balance
	Compared *comparison // nil if unknown; At is zero if the runner has made no reconciliation
	Changed  bool        // money was booked, or a review answered, after the last reconciliation
	Answered bool        // a review was answered after the last reconciliation
	Differed bool        // the last reconciliation found a difference, perhaps before this process started
	Agreed   bool        // the last reconciliation found no difference
	Since    int64       // cents by which the ledger's wallet has changed since LastRead
	LastRead *walletRead // nil if the provider's wallet was never read
}

// walletRead is the last balance that was read from the provider's wallet.
type walletRead struct {
	At    time.Time
	Cents int64
}

// lastRead returns the provider's wallet balance from newest, the newest reconciliation
// since the runner started. If newest has no balance, lastRead takes the balance from the
// last reconciliation in the ledger that agreed. It returns nil if there is neither.
func lastRead(ctx context.Context, l *ledger.Ledger, newest *comparison) (*walletRead, error) {
	if newest != nil && newest.ProviderCents != nil {
		return &walletRead{newest.At, *newest.ProviderCents}, nil
	}
	seq, _, err := l.Head(ctx)
	if err != nil {
		return nil, err
	}
	last, _, err := l.Money.ReconciledAround(ctx, seq+1)
	if last == nil {
		return nil, err
	}
	return &walletRead{last.At, last.ProviderCents}, err
}

type comparison = jobs.LastReconciliation

// books combines a balance with the newest reconciliation.
func (s *insight) books(ctx context.Context, a Account, b tables.Balance) (booksView, error) {
	v := booksView{Balance: b}
	glance, shown := s.glance(ctx, a), askNow(ctx, s.figures, a, verbs.Show, struct{}{})
	v.Compared = s.compared(a, shown)
	var err error
	if v.LastRead, err = lastRead(ctx, a.Ledger(), v.Compared); err != nil {
		return v, err
	}
	var at time.Time
	if glance.problem() == "" {
		books := glance.Value.Books
		v.Differed, v.Agreed = books.Agree != nil && !*books.Agree, books.Agree != nil && *books.Agree
		if books.ComparedAt != nil {
			at = *books.ComparedAt
		}
	}
	if v.Compared != nil && v.Compared.At.After(at) {
		at = v.Compared.At
	}
	if at.IsZero() {
		return v, nil
	}
	last, _, err := a.Ledger().Money.PostingsBefore(ctx, "", 0, 1)
	if err == nil {
		v.Answered, err = a.Ledger().Report().AnsweredAfter(ctx, at)
	}
	v.Changed = v.Answered || len(last) > 0 && last[0].Time.After(at)
	if err != nil || !v.Changed || v.LastRead == nil {
		return v, err
	}
	v.Since, err = a.Ledger().Money.WalletChange(ctx, v.LastRead.At)
	return v, err
}

// compared returns the newer of two reconciliations: the last one of the runner, and the last
// one that these pages requested. It returns nil if neither is known. If the runner has not
// reconciled yet, the result's At is zero.
func (s *insight) compared(a Account, shown Made[verbs.AccountView]) *comparison {
	var newest *comparison
	if shown.problem() == "" {
		newest = &shown.Value.Reconciled
	}
	asked, _ := peek[proof](s.figures, checkKey("reconcile", a.AccountName()))
	x := asked.Value.Reconciled
	if x == nil || newest != nil && !x.At.After(newest.At) {
		return newest
	}
	newest = &comparison{At: x.At, OK: x.OK, Quiet: x.Quiet, Findings: len(x.Findings), ProviderCents: &x.Wallet.ProviderCents}
	if x.OK != nil {
		newest.DifferenceCents = new(x.DifferenceCents())
	}
	return newest
}

// Difference returns by how many cents the provider's wallet, when it was last read, was higher than
// the ledger's wallet. It returns 0 unless a review was answered since, because otherwise an operation
// in progress can explain it.
func (b booksView) Difference() int64 {
	if b.LastRead == nil || !b.Answered {
		return 0
	}
	return b.LastRead.Cents + b.Since - b.Balance.WalletCents
}

// BooksLevel returns the color of the books. It is "ok" only if a reconciliation agreed and
// nothing was booked after it.
func (b booksView) BooksLevel() string {
	switch {
	case b.Balance.WalletCents < 0 || b.Compared != nil && (b.Compared.Findings > 0 && !b.Compared.Agrees() || b.Compared.At.IsZero() && b.Differed):
		return "bad"
	case b.Compared == nil || b.Compared.At.IsZero() || b.Compared.OK == nil || b.Changed:
		return ""
	case b.Balance.SuspenseCents > 0 || b.Balance.Unbooked != nil && b.Balance.Unbooked.Operations > 0:
		return "warn"
	}
	return "ok"
}

// verdictBefore returns the verdict of the last reconciliation before this process started.
func (b booksView) verdictBefore() string {
	switch {
	case b.Differed:
		return "They differed before the runner started"
	case b.Agreed && b.Changed:
		return "Changed since the check"
	case b.Agreed:
		return "They agreed before the runner started"
	}
	return "Not compared yet"
}

// EqualNow reports whether the wallets differed, and the ledger's wallet has become what the provider's
// wallet was.
func (b booksView) EqualNow() bool {
	c := b.Compared
	return c != nil && c.DifferenceCents != nil && *c.DifferenceCents != 0 && b.Changed && b.LastRead != nil && b.LastRead.Cents == b.Balance.WalletCents
}

func (b booksView) changedText() string {
	if b.Changed {
		return "; changed since the check"
	}
	return ""
}

// BooksVerdict says whether the books agree. It calls a difference unconfirmed if an open
// review or a pending operation can explain it, and unexplained otherwise.
func (b booksView) BooksVerdict() string {
	c := b.Compared
	amount := func(cents int64) string { return fact.Amount(max(cents, -cents), b.Balance.Currency) }
	switch {
	case c == nil:
		return "unknown"
	case c.At.IsZero():
		return b.verdictBefore()
	case c.OK == nil:
		return "Not comparable now"
	case !*c.OK && b.EqualNow():
		return "Equal now: compare again"
	case !*c.OK && c.DifferenceCents != nil && *c.DifferenceCents != 0:
		return amount(*c.DifferenceCents) + " unexplained" + b.changedText()
	case !*c.OK && b.Changed:
		return "They differed" + b.changedText()
	case !*c.OK:
		return "They differ"
	case b.Changed:
		return "Changed since the check"
	case c.ProviderCents != nil && *c.ProviderCents != b.Balance.WalletCents:
		return amount(b.Balance.WalletCents-*c.ProviderCents) + " unconfirmed"
	}
	return "They agree"
}

const decisionsListed = 100

type decisionsView struct {
	Rows     []report.Decision
	Currency string
	Older    string // address of the next page; "" at the end
}

func (s *overviewPages) decisions(q accountRequest) (page, error) {
	before, _ := strconv.ParseInt(q.URL.Query().Get("before"), 10, 64)
	rows, next, err := q.account.Ledger().Report().DecisionsBefore(q.Context(), before, decisionsListed)
	if err != nil {
		return page{}, err
	}
	v := decisionsView{Rows: rows}
	if v.Currency, err = q.account.Ledger().Currency(q.Context()); err != nil {
		return page{}, err
	}
	if next > 0 {
		v.Older = to(q.account.AccountName(), "log", "before", strconv.FormatInt(next, 10))
	}
	return page{name: "log", title: "Activity", data: v}, nil
}
