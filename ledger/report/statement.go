package report

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"html"
	htmltemplate "html/template"
	"io"
	"math"
	"strings"
	"text/template"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

var scanSubject = sqlite.Into(func(x *tables.SubjectTotal) []any {
	return []any{&x.Subject, &x.Name, &x.Count, &x.ChargedCents, &x.RefundedCents, &x.NetCents}
})

// Statement is one account's books over a period, in cents: the opening balance, the
// movements by day and by label, and the closing balance. OpeningCents plus the wallet's
// movements equals ClosingCents.
type Statement struct {
	Account      string    `json:"account"`
	AccountID    string    `json:"account_id"`
	Environment  string    `json:"environment"`
	Currency     string    `json:"currency"`
	From         time.Time `json:"from"`
	To           time.Time `json:"to"`
	OpeningCents int64     `json:"opening_cents"`
	ClosingCents int64     `json:"closing_cents"`
	// FundingCents is all money that was put into the wallet. OpenedCents is the part of it that
	// was in the wallet when the ledger was opened.
	FundingCents  int64               `json:"funding_cents"`
	OpenedCents   int64               `json:"opened_cents"`
	OutsideCents  int64               `json:"external_cents"`
	Orders        tables.SubjectTotal `json:"orders"`
	Renewals      tables.SubjectTotal `json:"renewals"`
	SuspenseCents int64               `json:"suspense_cents"` // charged and unresolved at the end of the period
	// Movements of suspense: SuspenseOpeningCents + SuspenseChargedCents -
	// SuspenseResolvedCents - SuspenseReturnedCents = SuspenseCents.
	SuspenseOpeningCents  int64 `json:"suspense_opening_cents"`
	SuspenseChargedCents  int64 `json:"suspense_charged_cents"`
	SuspenseResolvedCents int64 `json:"suspense_resolved_cents"`
	SuspenseReturnedCents int64 `json:"suspense_returned_cents"`
	// Corrections is the part of the sums above that takes back or corrects earlier entries. It
	// is nil if there are no corrections.
	Corrections *Corrections          `json:"corrections,omitempty"`
	Days        []tables.SubjectTotal `json:"days"`
	Labels      []tables.SubjectTotal `json:"labels"`
	// Outstanding lists operations that are not in the sums above. Each was charged, or may have
	// been charged, by the end of the period without being booked in the period.
	// OutstandingFurther is how many more there are.
	Outstanding        []Outstanding `json:"outstanding"`
	OutstandingFurther int64         `json:"outstanding_further,omitempty"`
	// Head is the last row before the end of the period. If Head is unknown, HeadNote says why.
	Head     chain.Head `json:"head"`
	HeadNote string     `json:"head_note,omitempty"`
	// Finished says that nothing more can be booked in the period. The period has ended even by
	// the slowest clock that the provider would accept. If Finished is false, Until is the time
	// up to which the statement was summed.
	Finished bool       `json:"finished"`
	Until    *time.Time `json:"until,omitempty"`
}

// Corrections sums operators' entries that take back or correct an earlier entry.
type Corrections struct {
	Count         int64 `json:"count"`
	ChargedCents  int64 `json:"charged_cents"`
	RefundedCents int64 `json:"refunded_cents"`
	FundingCents  int64 `json:"funding_cents"`
	OutsideCents  int64 `json:"external_cents"`
}

// Text returns the number of corrections and the sums that are not 0.
func (c Corrections) Text(currency string) string {
	parts := []string{english.Plural(int(c.Count), "correction", "") + " in these sums"}
	for _, x := range []Movement{{"charged", c.ChargedCents, false}, {"refunded", c.RefundedCents, false}, {"top-ups", c.FundingCents, false}, {"spent outside Perennial", c.OutsideCents, false}} {
		if x.Cents != 0 {
			parts = append(parts, x.Name+" "+fact.Amount(x.Cents, currency))
		}
	}
	return strings.Join(parts, ", ")
}

// Corrections sums all corrections in the books.
func (l Books) Corrections(ctx context.Context) (Corrections, error) {
	return corrections(ctx, l.DB, 0, math.MaxInt64)
}

func corrections(ctx context.Context, q sqlite.Queryer, from, to int64) (c Corrections, err error) {
	err = q.QueryRowContext(ctx, `SELECT count(DISTINCT t.seq), coalesce(sum(t.cents) FILTER (WHERE t.kind = 'charge'), 0), coalesce(sum(t.cents) FILTER (WHERE t.kind = 'refund'), 0),
		`+tables.FundingCents+`, `+tables.OutsideCents+`
		FROM (SELECT seq FROM journal WHERE type = 'ledger.recorded' AND seq >= ?1 AND seq < ?2 AND data ->> '$.corrects_seq' > 0
			UNION ALL SELECT seq FROM archived WHERE type = 'ledger.recorded' AND seq >= ?1 AND seq < ?2 AND data ->> '$.corrects_seq' > 0) r
		CROSS JOIN transfers t ON t.seq = r.seq`, from, to).Scan(&c.Count, &c.ChargedCents, &c.RefundedCents, &c.FundingCents, &c.OutsideCents)
	if err != nil {
		err = fmt.Errorf("sum the corrections: %w", err)
	}
	return c, err
}

// Statement returns the statement of a period, from one snapshot of the books.
func (l Books) Statement(ctx context.Context, account string, p Period) (*Statement, error) {
	snapshot, err := l.DB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = snapshot.Rollback() }()
	s := &Statement{Account: account, From: p.From, To: p.To, Finished: true}
	if now := l.Clock().UTC().Truncate(time.Second); now.Before(p.To.Add(fact.ClockTolerance)) {
		if now.After(p.To) {
			now = p.To
		}
		s.Finished, s.Until = false, &now
	}
	err = snapshot.QueryRowContext(ctx, `SELECT account_id, environment, currency FROM binding`).Scan(&s.AccountID, &s.Environment, &s.Currency)
	if err != nil {
		return nil, fmt.Errorf("whose book it is: %w", sqlite.NotFound(err))
	}
	from, to, err := p.bounds(ctx, snapshot)
	if err != nil {
		return nil, err
	}
	c, err := corrections(ctx, snapshot, from, to)
	if c.Count > 0 {
		s.Corrections = &c
	}
	return s, errors.Join(err, s.sumUp(ctx, snapshot, from, to), s.subjects(ctx, snapshot, from, to), s.unbooked(ctx, snapshot, to))
}

// inPeriod selects the transfers of the period: from sequence ?1 up to, but not including,
// ?2.
const inPeriod = ` FROM transfers t WHERE t.seq >= ?1 AND t.seq < ?2`

// sumUp works back from the present sums, so that it reads only the entries in and after
// the period.
func (s *Statement) sumUp(ctx context.Context, q sqlite.Queryer, from, to int64) error {
	const change = `coalesce(sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents END), 0),
		coalesce(sum(CASE WHEN debit = 'suspense' THEN cents WHEN credit = 'suspense' THEN -cents END), 0)`
	var wallet, suspense, walletSince, suspenseSince, walletIn int64
	if err := q.QueryRowContext(ctx, `SELECT `+change+` FROM totals`).Scan(&wallet, &suspense); err != nil {
		return fmt.Errorf("sum the book: %w", err)
	}
	if err := q.QueryRowContext(ctx, `SELECT `+change+inPeriod, to, int64(math.MaxInt64)).Scan(&walletSince, &suspenseSince); err != nil {
		return fmt.Errorf("sum what came after: %w", err)
	}
	err := q.QueryRowContext(ctx, `SELECT coalesce(sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents END), 0),
		`+tables.FundingCents+`, `+tables.OutsideCents+`,
		coalesce(sum(cents) FILTER (WHERE debit = 'suspense'), 0), coalesce(sum(cents) FILTER (WHERE credit = 'suspense' AND debit <> 'wallet'), 0),
		coalesce(sum(cents) FILTER (WHERE credit = 'suspense' AND debit = 'wallet'), 0)`+inPeriod, from, to).
		Scan(&walletIn, &s.FundingCents, &s.OutsideCents, &s.SuspenseChargedCents, &s.SuspenseResolvedCents, &s.SuspenseReturnedCents)
	if err != nil {
		return fmt.Errorf("sum the period: %w", err)
	}
	err = q.QueryRowContext(ctx, `SELECT coalesce(sum(t.cents), 0) FROM transfers t LEFT JOIN journal j ON j.seq = t.seq LEFT JOIN archived a ON a.seq = t.seq
		WHERE t.kind = 'funding' AND t.kind <> 'charge' AND t.seq >= ?1 AND t.seq < ?2 AND coalesce(j.type, a.type) = 'ledger.opened'`, from, to).Scan(&s.OpenedCents)
	if err != nil {
		return fmt.Errorf("find the opening balance: %w", err)
	}
	s.ClosingCents = wallet - walletSince
	s.OpeningCents = s.ClosingCents - walletIn
	s.SuspenseCents = suspense - suspenseSince
	s.SuspenseOpeningCents = s.SuspenseCents - s.SuspenseChargedCents + s.SuspenseResolvedCents + s.SuspenseReturnedCents
	head, known, err := tables.HeadBefore(ctx, q, s.To)
	if known {
		s.Head = head
	}
	switch {
	case !known:
		s.HeadNote = "the last row of the period is in an archive, and it was archived by a version that kept no heads of months"
	case head.Seq == 0:
		s.HeadNote = "the journal begins after the period"
	}
	return err
}

const charges = `count(*) FILTER (WHERE t.kind = 'charge' OR t.kind = 'suspense'),
	coalesce(sum(t.cents) FILTER (WHERE t.kind = 'charge' OR t.kind = 'suspense'), 0),
	coalesce(sum(t.cents) FILTER (WHERE t.kind = 'refund'), 0),
	coalesce(sum(CASE WHEN t.kind = 'charge' OR t.kind = 'suspense' THEN t.cents WHEN t.kind = 'refund' THEN -t.cents END), 0)`

func (s *Statement) subjects(ctx context.Context, q sqlite.Queryer, from, to int64) error {
	sum := func(query string) ([]tables.SubjectTotal, error) {
		return sqlite.Collect(sqlite.Query(ctx, q, query, from, to), scanSubject)
	}
	kinds, err := sum(`SELECT CASE WHEN t.debit = 'orders' OR t.credit = 'orders' THEN 'orders' ELSE 'renewals' END, '', ` + charges + inPeriod + ` AND t.operation <> '' GROUP BY 1`)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		if k.Subject == "orders" {
			s.Orders = k
		} else {
			s.Renewals = k
		}
	}
	if s.Days, err = sum(`SELECT date(t.booked_at / 1000000, 'unixepoch'), '', ` + charges + inPeriod + ` AND t.operation <> '' GROUP BY 1 ORDER BY 1`); err != nil {
		return err
	}
	labels, err := sum(`SELECT ` + tables.LabelText + `, e.key, ` + charges + ` FROM transfers t JOIN operations o ON o.id = t.operation JOIN commands c ON c.id = o.command_id
		LEFT JOIN journal cj ON cj.seq = c.accepted_seq LEFT JOIN archived ca ON ca.seq = c.accepted_seq
		JOIN json_each(coalesce(cj.data, ca.data, '{}'), '$.labels') e
		WHERE t.seq >= ?1 AND t.seq < ?2 GROUP BY e.key, e.value ORDER BY e.key, e.value`)
	s.Labels = s.withoutLabels(labels)
	return err
}

// withoutLabels adds, for each label name, a row with the charges that do not have this label.
// With these rows, the rows of each name add up to all orders and renewals.
func (s *Statement) withoutLabels(labels []tables.SubjectTotal) (all []tables.SubjectTotal) {
	without := s.Orders
	without.Add(s.Renewals, 1)
	rest := without
	for i, x := range labels {
		all = append(all, x)
		rest.Add(x, -1)
		if i+1 < len(labels) && labels[i+1].Name == x.Name {
			continue
		}
		rest.Subject, rest.Name, rest.Rest = "(without "+x.Name+")", x.Name, true
		if rest.Count != 0 || rest.ChargedCents != 0 || rest.RefundedCents != 0 {
			all = append(all, rest)
		}
		rest = without
	}
	return all
}

// Outstanding is an operation that was charged, or may have been charged, by the end of a
// period without being booked in it.
type Outstanding struct {
	OperationID string     `json:"operation_id"`
	OrderNo     string     `json:"order_no,omitempty"`
	SentAt      time.Time  `json:"sent_at"`
	State       fact.State `json:"state"` // the present state
	// ExposureCents is the estimated cost. It is 0 if ExposureUnknown is set.
	ExposureCents   int64 `json:"exposure_cents"`
	ExposureUnknown bool  `json:"exposure_unknown,omitempty"`
	// BookedAt is the time of the first charge booked after the period. BookedCents is the sum of
	// the charges booked after the period. BookedAt is nil while no charge is booked, or if the
	// operation turned out not to be charged (Ended).
	BookedAt    *time.Time `json:"booked_at,omitempty"`
	BookedCents int64      `json:"booked_cents,omitempty"`
	Ended       bool       `json:"ended,omitempty"`
}

// Later says in words how the operation ended after the period.
func (x Outstanding) Later() string {
	switch {
	case x.BookedAt != nil:
		return fact.Decimal(x.BookedCents) + " booked on " + day(*x.BookedAt)
	case x.Ended:
		return "not charged"
	}
	return "not known yet"
}

// Exposure returns ExposureCents as text. It returns "unknown" if the cost is unknown.
func (x Outstanding) Exposure() string {
	if x.ExposureUnknown {
		return "unknown"
	}
	return fact.Amount(x.ExposureCents, "")
}

const outstandingMost = 1000

// outstandingQuery has three parameters: the first sequence after the period, the end of the
// period and a limit. It leaves out waiting operations without an attempt that may have been
// executed, because they were not charged. It also leaves out later corrections of what the
// period booked (own), and charges that such a correction has taken out of the books.
const outstandingQuery = `WITH own AS MATERIALIZED (
		SELECT r.seq FROM (` + tables.RecordRows + `) r WHERE r.seq >= ?1 AND r.data ->> '$.corrects_seq' > 0 AND EXISTS (
			SELECT 1 FROM (SELECT seq FROM journal WHERE operation = r.operation AND operation <> ''
				UNION ALL SELECT seq FROM archived WHERE operation = r.operation AND operation <> '') f CROSS JOIN transfers e ON e.seq = f.seq
			WHERE f.seq < ?1 AND e.proxy_id = coalesce(r.data ->> '$.proxy_id', '') AND (e.kind = 'charge' OR e.kind = 'suspense'))),
	corrected AS (SELECT operation, proxy_id, sum(CASE kind WHEN 'refund' THEN -cents ELSE cents END) AS cents
		FROM own CROSS JOIN transfers USING (seq) GROUP BY operation, proxy_id),
	charged AS (SELECT operation, proxy_id, min(booked_at) AS at, sum(cents) AS cents FROM transfers
		WHERE seq >= ?1 AND operation <> '' AND (kind = 'charge' OR kind = 'suspense') AND seq NOT IN (SELECT seq FROM own)
		GROUP BY operation, proxy_id),
	since AS (SELECT operation, min(at) AS at, sum(charged.cents + min(coalesce(c.cents, 0), 0)) AS cents FROM charged LEFT JOIN corrected c USING (operation, proxy_id)
		WHERE charged.cents + coalesce(c.cents, 0) > 0 GROUP BY operation),
	unpriced AS (SELECT DISTINCT operation FROM lines WHERE claim = 1 AND state = 'unresolved' AND charged_cents = 0)
	SELECT o.id, o.order_no, o.first_sent_at, o.state, o.estimate_cents, s.at, coalesce(s.cents, 0), o.live = 0 AND u.operation IS NULL, count(*) OVER ()
	FROM operations o LEFT JOIN since s ON s.operation = o.id LEFT JOIN unpriced u ON u.operation = o.id
	WHERE o.first_sent_at < ?2 AND (s.operation IS NOT NULL OR u.operation IS NOT NULL
		OR o.charged_at IS NULL AND (o.live = 0 AND o.updated_at >= ?2
			OR o.live = 1 AND (o.state IN ('sending', 'open', 'review') OR o.state = 'waiting' AND o.ambiguous > 0)))
	ORDER BY o.first_sent_at, o.id LIMIT +?3`

// unbooked fills s.Outstanding with operations that the statement does not book. to is the
// first sequence after the period.
func (s *Statement) unbooked(ctx context.Context, q sqlite.Queryer, to int64) (err error) {
	var all int64
	s.Outstanding, err = sqlite.Collect(sqlite.Query(ctx, q, outstandingQuery, to, sqlite.Micros(s.To), outstandingMost), func(r sqlite.Scanner) (x Outstanding, err error) {
		err = r.Scan(&x.OperationID, &x.OrderNo, sqlite.At(&x.SentAt), &x.State, &x.ExposureCents, sqlite.NullAt(&x.BookedAt), &x.BookedCents, &x.Ended, &all)
		x.Ended, x.ExposureUnknown = x.Ended && x.BookedAt == nil, x.ExposureCents == 0
		return x, err
	})
	s.OutstandingFurther = max(all-outstandingMost, 0)
	return err
}

//go:embed templates/statement.html
var statementHTML string

//go:embed templates/statement.md
var statementMarkdown string

// WriteHTML writes the statement as one self-contained page.
func (s *Statement) WriteHTML(w io.Writer) error {
	return htmlStatement.Execute(w, s)
}

// WriteMarkdown writes the statement as Markdown.
func (s *Statement) WriteMarkdown(w io.Writer) error {
	return markdownStatement.Execute(w, s)
}

var statementColumns = []string{"account", "from", "to", "section", "name", "entries", "charged_cents", "refunded_cents", "amount_cents", "amount", "currency",
	"order_no", "sent_at", "note"}

// namesInCSV maps names that people read to names that scripts look for.
var namesInCSV = map[string]string{"Top-ups": "Funding"}

// WriteCSV writes the statement as CSV with a header row. The amount of a kind, day or label is
// net of refunds. The amount of an outstanding operation is its exposure. It is empty if the
// exposure is unknown. For an unfinished period, the column "to" has Until.
func (s *Statement) WriteCSV(out io.Writer) error {
	w, to := csvWriter{bufio.NewWriter(out)}, s.To
	if s.Until != nil {
		to = *s.Until
	}
	w.heading(statementColumns)
	row := func(section, name string, cells ...any) {
		_ = w.row(append([]any{s.Account, s.From, to, section, name}, cells...)...) // Flush returns the error
	}
	for _, m := range s.Movements() {
		row("Wallet", cmp.Or(namesInCSV[m.Name], m.Name), nil, nil, nil, m.Cents, mainUnit(m.Cents), s.Currency, "", "", "")
	}
	for _, m := range s.Suspense() {
		row("Suspense", m.Name, nil, nil, nil, m.Cents, mainUnit(m.Cents), s.Currency, "", "", "")
	}
	if c := s.Corrections; c != nil {
		net := c.ChargedCents - c.RefundedCents
		row("Corrections in these sums", "operations", c.Count, c.ChargedCents, c.RefundedCents, net, mainUnit(net), s.Currency, "", "", "")
		for _, m := range []Movement{{"top-ups", c.FundingCents, false}, {"external", c.OutsideCents, false}} {
			if m.Cents != 0 {
				row("Corrections in these sums", m.Name, nil, nil, nil, m.Cents, mainUnit(m.Cents), s.Currency, "", "", "")
			}
		}
	}
	for _, x := range s.Outstanding {
		var cents, amount any
		if !x.ExposureUnknown {
			cents, amount = x.ExposureCents, mainUnit(x.ExposureCents)
		}
		row("Not in these sums", x.OperationID, nil, nil, nil, cents, amount, s.Currency, x.OrderNo, x.SentAt, x.Later())
	}
	if s.OutstandingFurther > 0 {
		row("Not in these sums", "further operations", s.OutstandingFurther, nil, nil, nil, nil, s.Currency, "", "", "they are not listed")
	}
	for _, t := range s.Tables() {
		for _, x := range t.Rows {
			row(t.Title, x.Subject, x.Count, x.ChargedCents, x.RefundedCents, x.NetCents, mainUnit(x.NetCents), s.Currency, "", "", "")
		}
	}
	head := s.Head.String()
	if s.HeadNote != "" {
		head = ""
	}
	row("Journal", head, nil, nil, nil, nil, nil, "", "", "", s.HeadNote)
	return w.Flush()
}

var words = map[string]any{
	"money":   func(cents int64) string { return fact.Amount(cents, "") },
	"day":     day,
	"lastDay": func(end time.Time) string { return day(end.Add(-time.Nanosecond)) },
	"instant": func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
	"cell":    markdownCell,
}

var (
	htmlStatement     = htmltemplate.Must(htmltemplate.New("statement").Funcs(words).Parse(statementHTML))
	markdownStatement = template.Must(template.New("statement").Funcs(words).Parse(statementMarkdown))
)

// markdownCell escapes untrusted text, so that it stays in its cell and is not read as
// markup.
func markdownCell(text string) string {
	return strings.NewReplacer(`\`, `\\`, "~", `\~`, "|", `\|`, "\n", " ", "\r", " ", "`", "'", "[", `\[`, "*", `\*`, "_", `\_`).Replace(html.EscapeString(text))
}

// Movement is the opening balance, the closing balance, or one line between them. Sum marks the
// two balances.
type Movement struct {
	Name  string
	Cents int64
	Sum   bool
}

// Movements returns the opening balance, the movements of the wallet and the closing
// balance, which is the sum of the others.
func (s *Statement) Movements() []Movement {
	all := []Movement{{"Balance brought forward", s.OpeningCents, true}}
	if s.OpenedCents != 0 {
		all = append(all, Movement{"Opening balance", s.OpenedCents, false})
	}
	return append(all, []Movement{
		{"Top-ups", s.FundingCents - s.OpenedCents, false},
		{"Spent outside Perennial", -s.OutsideCents, false},
		{"Orders", -s.Orders.ChargedCents, false},
		{"Orders refunded", s.Orders.RefundedCents, false},
		{"Renewals", -s.Renewals.ChargedCents, false},
		{"Renewals refunded", s.Renewals.RefundedCents, false},
		{"Balance carried forward", s.ClosingCents, true},
	}...)
}

// Suspense returns the opening amount in suspense, the movements and the closing amount,
// which is the sum of the others. It returns nil if nothing was in suspense.
func (s *Statement) Suspense() []Movement {
	if s.SuspenseOpeningCents == 0 && s.SuspenseChargedCents == 0 {
		return nil
	}
	return []Movement{
		{"In suspense, brought forward", s.SuspenseOpeningCents, true},
		{"Charged, outcome not known", s.SuspenseChargedCents, false},
		{"Resolved as charged", -s.SuspenseResolvedCents, false},
		{"Resolved as not charged, returned", -s.SuspenseReturnedCents, false},
		{"In suspense, carried forward", s.SuspenseCents, true},
	}
}

// StatementTable is one table of totals.
type StatementTable struct {
	Title, Head string
	Rows        []tables.SubjectTotal
}

// Tables returns the totals of the period by kind, by day and by label. It leaves out empty
// tables.
func (s *Statement) Tables() (all []StatementTable) {
	orders, renewals := s.Orders, s.Renewals
	orders.Subject, renewals.Subject = "Orders", "Renewals"
	for _, t := range []StatementTable{
		{"By kind", "Kind", []tables.SubjectTotal{orders, renewals}}, {"By day", "Day (UTC)", s.Days}, {"By label", "Label", s.Labels},
	} {
		if len(t.Rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}
