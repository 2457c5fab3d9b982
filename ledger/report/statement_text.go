// Statements as HTML, Markdown and CSV.

package report

import (
	"bufio"
	"cmp"
	_ "embed"
	"html"
	htmltemplate "html/template"
	"io"
	"strings"
	"text/template"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

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

// WriteCSV writes the statement as CSV with a header row. The amount of a kind, day or label
// is net of refunds. The amount of an outstanding operation is its exposure, empty if
// unknown. For an unfinished period, the column "to" has Until.
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

// Movement is one line between the opening and the closing balance, inclusive. Sum marks
// these two balances.
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
