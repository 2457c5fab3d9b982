// `perennial ledger export` and `ledger statement`, and the period that they cover.

package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"perennial/ledger"
	"perennial/ledger/report"
)

func (a ledgerCommands) ledgerExport() *cobra.Command {
	var from, to, format, file string
	var included bool
	c := &cobra.Command{
		Use: "export", Short: "Export the entries of a period: CSV, JSON lines, Beancount", Args: cobra.NoArgs,
		RunE: a.withLedger(func(ctx context.Context, l *ledger.Ledger, account string) error {
			p, err := period(from, to)
			if err != nil {
				return err
			}
			if included && format != "beancount" {
				return usage("--included is of --format beancount alone")
			}
			return a.writeAs(file, format, "csv, jsonl or beancount", map[string]func(io.Writer) error{
				"csv":       func(w io.Writer) error { return l.Report().ExportCSV(ctx, w, p) },
				"jsonl":     func(w io.Writer) error { return l.Report().ExportJSON(ctx, w, p) },
				"beancount": func(w io.Writer) error { return l.Report().ExportBeancount(ctx, w, account, p, included) },
			})
		}),
	}
	f := c.Flags()
	f.StringVar(&from, "from", "", "first day, such as 2026-11-01, or a time (default: the first entry)")
	f.StringVar(&to, "to", "", "end of the period, exclusive: a day or a time (default: after the last entry)")
	f.StringVar(&format, "format", "csv", "csv, jsonl or beancount")
	f.StringVar(&file, "out", "-", "file to write; - is the standard output")
	f.BoolVar(&included, "included", false, "beancount: omit account openings and opening balances, for a book that also includes the files of the adjoining periods")
	return c
}

func (a ledgerCommands) ledgerStatement() *cobra.Command {
	var month, format, file string
	c := &cobra.Command{
		Use: "statement", Short: "Print a month's statement, by day and by label", Args: cobra.NoArgs,
		RunE: a.withLedger(func(ctx context.Context, l *ledger.Ledger, account string) error {
			begin := time.Now().UTC()
			if month != "" {
				var err error
				if begin, err = time.Parse("2006-01", month); err != nil {
					return usage("--month is %q: write it as 2026-11", month)
				}
			}
			begin = time.Date(begin.Year(), begin.Month(), 1, 0, 0, 0, 0, time.UTC)
			if begin.After(time.Now()) {
				return usage("--month is %s, which has not begun", month)
			}
			s, err := l.Report().Statement(ctx, account, report.Period{From: begin, To: begin.AddDate(0, 1, 0)})
			if err != nil {
				return err
			}
			if a.output == "json" {
				format = "json"
			}
			return a.writeAs(file, format, "markdown, html or csv", map[string]func(io.Writer) error{
				"markdown": s.WriteMarkdown, "html": s.WriteHTML, "csv": s.WriteCSV, "json": func(w io.Writer) error { return printJSON(w, s) },
			})
		}),
	}
	f := c.Flags()
	f.StringVar(&month, "month", "", "the month (UTC), such as 2026-11 (default: this month)")
	f.StringVar(&format, "format", "markdown", "markdown, html or csv")
	f.StringVar(&file, "out", "-", "file to write; - is the standard output")
	return c
}

// period parses the start and end of a period: days or times, in UTC.
func period(from, to string) (p report.Period, err error) {
	if p.From, err = dayOrInstant("--from", from); err != nil {
		return p, err
	}
	if p.To, err = dayOrInstant("--to", to); err != nil {
		return p, err
	}
	if !p.To.IsZero() && !p.From.Before(p.To) {
		return p, usage("--from %s is not before --to %s", from, to)
	}
	return p, nil
}

func dayOrInstant(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339Nano} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, usage("%s is %q: write a day as 2026-11-01 or an instant as 2026-11-01T00:00:00Z", flag, text)
}

// writeAs writes the chosen format atomically to a file, or to standard output for "-".
func (a ledgerCommands) writeAs(file, format, known string, formats map[string]func(io.Writer) error) error {
	write := formats[format]
	if write == nil {
		return usage("--format is %q: use %s", format, known)
	}
	if file == "-" {
		return write(a.stdout)
	}
	return a.outputs().write(file, 0o600, write)
}
