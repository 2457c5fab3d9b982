package report

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

var exportColumns = []string{"seq", "n", "time", "fact", "kind", "debit", "credit", "amount_cents", "amount", "currency",
	"command_id", "operation_id", "order_no", "proxy_id", "hash", "by", "reason", "labels", "user", "booked_at", "sent_at", "corrects_seq", "refunded_at"}

// ExportCSV writes the ledger entries of a period as CSV with a header row.
func (l Books) ExportCSV(ctx context.Context, out io.Writer, p Period) error {
	b, err := l.Binding(ctx)
	if err != nil {
		return fmt.Errorf("whose book it is: %w", err)
	}
	w := csvWriter{bufio.NewWriter(out)}
	w.heading(exportColumns)
	err = l.Transfers(ctx, p, func(x Transfer) error {
		return w.row(x.Seq, x.N, x.Time, x.Fact, x.Kind, x.Debit, x.Credit, x.Cents, mainUnit(x.Cents), b.Currency, x.CommandID, x.Operation, x.OrderNo, x.ProxyID, x.Hash,
			x.By, x.Reason, x.labels(), x.User, x.BookedAt, stamp(x.SentAt), x.Corrects(), stamp(x.RefundedAt))
	})
	if err != nil {
		return err
	}
	return w.Flush()
}

// csvWriter quotes every text and writes numbers as they are. It puts an apostrophe before
// text that a spreadsheet would read as a formula or a number.
type csvWriter struct{ *bufio.Writer }

type mainUnit int64

func (w csvWriter) heading(columns []string) { fmt.Fprintln(w, strings.Join(columns, ",")) }

func (w csvWriter) row(cells ...any) error {
	for i, cell := range cells {
		if i > 0 {
			_ = w.WriteByte(',') // the end of the row returns the error
		}
		switch x := cell.(type) {
		case nil:
		case mainUnit:
			_, _ = w.WriteString(fact.Decimal(int64(x)))
		case time.Time:
			fmt.Fprintf(w, `"%s"`, x.Format(time.RFC3339Nano))
		case string:
			fmt.Fprintf(w, `"%s"`, strings.ReplaceAll(Neutral(x), `"`, `""`))
		default:
			fmt.Fprint(w, x)
		}
	}
	return w.WriteByte('\n')
}

func stamp(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.Format(time.RFC3339Nano)
}

func (x Transfer) labels() string {
	if len(x.Labels) == 0 {
		return ""
	}
	text, _ := json.Marshal(x.Labels) //nolint:errchkjson // a map of strings is always one
	return string(text)
}

// formula matches the places where a spreadsheet would start to evaluate a cell. Some
// programs trim blanks first or accept full-width signs. Some split lines at semicolons or
// tabs despite quotes, so that a cell starts after each of these.
var formula = regexp.MustCompile(`(^|[;\t\r\n])([\s\v\x{85}\p{Z}]*[=+\-@＝＋－＠])`)

// digits matches an integer that a spreadsheet would round or shorten.
var digits = regexp.MustCompile(`^(0\d+|\d{12,}|\d+[eE]\d+)$`)

// Neutral adds apostrophes to a cell, so that a spreadsheet does not evaluate it, or round
// or shorten a numeric ID. IDs and labels are untrusted text.
func Neutral(cell string) string {
	if digits.MatchString(cell) || strings.TrimLeft(cell, "\t\r\n") != cell {
		cell = "'" + cell
	}
	return formula.ReplaceAllString(cell, "$1'$2")
}

// ExportJSON writes the ledger entries of a period, one JSON object per line.
func (l Books) ExportJSON(ctx context.Context, out io.Writer, p Period) error {
	b, err := l.Binding(ctx)
	if err != nil {
		return fmt.Errorf("whose book it is: %w", err)
	}
	w := bufio.NewWriter(out)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	err = l.Transfers(ctx, p, func(x Transfer) error {
		return e.Encode(struct {
			Transfer
			Currency string `json:"currency"`
		}{x, b.Currency})
	})
	if err != nil {
		return err
	}
	return w.Flush()
}

// ExportBeancount writes a period as a Beancount file: the ledger accounts under
// Perennial:<Account>, their opening balances, and one transaction for each entry. With the final
// balance assertion, bean-check verifies the wallet. Set included if the file is to be included
// after the file of the previous period. Such a file has only the transactions, and the assertion
// if the period ends at midnight.
func (l Books) ExportBeancount(ctx context.Context, out io.Writer, account string, p Period, included bool) error {
	b, err := l.Binding(ctx)
	if err != nil {
		return fmt.Errorf("whose book it is: %w", err)
	}
	if !commodity.MatchString(b.Currency) {
		return fmt.Errorf("currency %q cannot be a Beancount commodity: export CSV or JSON lines", b.Currency)
	}
	w := beancount{Writer: bufio.NewWriter(out), names: beancountNames(account), currency: b.Currency, included: included}
	if err := w.opening(ctx, l, account, p); err != nil {
		return err
	}
	if err := l.Transfers(ctx, p, w.transfer); err != nil {
		return err
	}
	w.closing(p.To)
	return w.Flush()
}

var commodity = regexp.MustCompile(`^[A-Z][A-Z0-9'._-]{0,22}[A-Z0-9]$`)

// beancountNames maps each ledger account to its Beancount name. Each part of a name starts
// with a capital or a digit.
func beancountNames(account string) map[string]string {
	part := strings.Trim(account, "-")
	part = strings.ToUpper(part[:min(1, len(part))]) + part[min(1, len(part)):]
	names := map[string]string{}
	for own, of := range map[string]string{
		"wallet": "Assets:Perennial:%s:Wallet", "suspense": "Assets:Perennial:%s:Suspense", "orders": "Expenses:Perennial:%s:Orders",
		"renewals": "Expenses:Perennial:%s:Renewals", "external": "Expenses:Perennial:%s:External", "funding": "Equity:Perennial:%s:Funding",
	} {
		names[own] = fmt.Sprintf(of, part)
	}
	return names
}

var bookAccounts = []string{"wallet", "suspense", "orders", "renewals", "external", "funding"}

type beancount struct {
	*bufio.Writer
	names    map[string]string
	currency string
	included bool
	wallet   int64
	last     time.Time
}

// Opens the accounts and writes their balances at the start of the period. An included file has
// neither. Without a start, the file contains everything from the first fact on.
func (w *beancount) opening(ctx context.Context, l Books, account string, p Period) error {
	held, first, err := heldBefore(ctx, l.DB, p)
	if err != nil {
		return err
	}
	w.last, w.wallet = first, held["wallet"]
	if w.included {
		return nil
	}
	fmt.Fprintf(w, "option \"title\" %s\noption \"operating_currency\" \"%s\"\n\n", quoted("Perennial "+account), w.currency)
	for _, own := range bookAccounts {
		fmt.Fprintf(w, "%s open %s %s\n", day(first), w.names[own], w.currency)
	}
	if p.From.IsZero() || len(held) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%s * \"Brought forward\"\n", day(first))
	for _, own := range bookAccounts {
		if held[own] != 0 {
			fmt.Fprintf(w, "  %s  %s %s\n", w.names[own], fact.Decimal(held[own]), w.currency)
		}
	}
	return nil
}

// heldBefore returns the balance of each account at the start of a period, and the time when
// the file starts: the start of the period or, if it has none, the first entry.
func heldBefore(ctx context.Context, q sqlite.Queryer, p Period) (held map[string]int64, first time.Time, err error) {
	held = map[string]int64{}
	if p.From.IsZero() {
		err := transfersOf(ctx, q, Period{To: p.To}, func(x Transfer) error {
			first = x.BookedAt
			return sqlite.ErrEnough
		})
		if errors.Is(err, sqlite.ErrEnough) {
			err = nil
		}
		return held, first, err
	}
	before, err := tables.FirstBooked(ctx, q, p.From)
	if err != nil {
		return nil, first, err
	}
	return held, p.From, sqlite.Each(sqlite.Query(ctx, q, `SELECT debit, credit, sum(cents) FROM transfers WHERE seq < ? GROUP BY debit, credit`, before), func(s sqlite.Scanner) error {
		var debit, credit string
		var cents int64
		err := s.Scan(&debit, &credit, &cents)
		held[debit] += cents
		held[credit] -= cents
		return err
	})
}

func (w *beancount) transfer(x Transfer) error {
	w.last = x.BookedAt
	switch "wallet" {
	case x.Debit:
		w.wallet += x.Cents
	case x.Credit:
		w.wallet -= x.Cents
	}
	about, kind := x.Operation, x.Kind
	if x.Fact == "ledger.opened" {
		kind = "opening balance"
	}
	switch {
	case x.OrderNo != "":
		about = "order " + x.OrderNo
	case x.ProxyID != "":
		about = "proxy " + x.ProxyID
	}
	fmt.Fprintf(w, "\n%s * %s %s\n", day(x.BookedAt), quoted(kind), quoted(about))
	for _, meta := range [][2]string{{"seq", strconv.FormatInt(x.Seq, 10)}, {"command", x.CommandID}, {"operation", x.Operation}, {"order", x.OrderNo}, {"proxy", x.ProxyID}, {"hash", x.Hash},
		{"by", x.By}, {"reason", x.Reason}, {"labels", x.labels()}, {"user", x.User}, {"sent", stamp(x.SentAt)}, {"corrects", x.Corrects()}, {"refunded", stamp(x.RefundedAt)}} {
		if meta[1] != "" {
			fmt.Fprintf(w, "  %s: %s\n", meta[0], quoted(meta[1]))
		}
	}
	_, err := fmt.Fprintf(w, "  %s  %s %s\n  %s  %s %s\n", w.names[x.Debit], fact.Decimal(x.Cents), w.currency, w.names[x.Credit], fact.Decimal(-x.Cents), w.currency)
	return err
}

// Writes the balance assertion of the wallet. A Beancount balance applies at the start of a day
// (UTC), so an included file has it only if the period ends at midnight.
func (w *beancount) closing(end time.Time) {
	if w.included && (end.IsZero() || !end.Equal(end.UTC().Truncate(24*time.Hour))) {
		return
	}
	fmt.Fprintf(w, "\n%s balance %s  %s %s\n", day(w.last.AddDate(0, 0, 1)), w.names["wallet"], fact.Decimal(w.wallet), w.currency)
}

func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

var beancountText = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// quoted returns a Beancount string. Line breaks and other control characters become
// blanks.
func quoted(s string) string {
	printed := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return `"` + beancountText.Replace(printed) + `"`
}
