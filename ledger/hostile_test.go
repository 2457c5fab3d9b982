package ledger

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"perennial/ledger/fact"
	"perennial/ledger/report"
	"perennial/testdata/hostile"
)

// bookOf returns a short history in which untrusted fields are this text: a command's id if
// valid, labels, an order number, a proxy's id.
func bookOf(t testing.TB, text string) *book {
	b := newBook(t)
	id := text
	if id == "" || len(id) > 128 || strings.ContainsAny(id, "/~") || fact.Unprintable(id) != "" {
		id = "id" // jobs admits no such id
	}
	own := func(r *fact.Ref) { r.Labels = map[string]string{text: text} }
	buy, keep := accepted(fact.KindOrder, id+"/1"), accepted(fact.KindRenewal, "keep/0001", "px_"+text)
	own(&buy.Ref)
	own(&keep.Ref)
	state := orderState(id+"/1", text, 300, 0)
	state.OrderNo = text + "1"
	own(&state.Ref)
	renewed := settled("keep/0001", "completed", line("px_"+text, "succeeded", 300, 0))
	own(&renewed.Ref)
	b.add(opened(5000), buy, sending(id+"/1", 1), fact.OrderAccepted{Ref: ref(id + "/1"), OrderNo: text + "1", NextAt: noon}, fact.OrderDelivered{OrderState: state},
		keep, sending("keep/0001", 1), renewed, fact.LedgerRecorded{Movement: "external", AmountCents: 7, By: text + ".", Reason: text + "."})
	return b
}

// written returns a book in every output format.
func written(t testing.TB, b *book) map[string]string {
	s, err := b.Report().Statement(t.Context(), "main", report.Period{From: noon.Truncate(24 * time.Hour), To: noon.Truncate(24*time.Hour).AddDate(0, 1, 0)})
	check(t, err)
	out := map[string]string{}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"csv":   func(w *bytes.Buffer) error { return b.Report().ExportCSV(t.Context(), w, report.Period{}) },
		"jsonl": func(w *bytes.Buffer) error { return b.Report().ExportJSON(t.Context(), w, report.Period{}) },
		"beancount": func(w *bytes.Buffer) error {
			return b.Report().ExportBeancount(t.Context(), w, "main", report.Period{}, false)
		},
		"markdown": func(w *bytes.Buffer) error { return s.WriteMarkdown(w) },
		"html":     func(w *bytes.Buffer) error { return s.WriteHTML(w) },
		"sums":     func(w *bytes.Buffer) error { return s.WriteCSV(w) },
	} {
		var text bytes.Buffer
		check(t, write(&text))
		out[name] = text.String()
	}
	return out
}

// Whatever ids, labels and order numbers are, a spreadsheet evaluates no cell, a page gets
// no tag, and no line or entry is added.
func FuzzHostileTextInExports(f *testing.F) {
	plain := written(f, bookOf(f, "plain"))
	hostile.Fuzz(f, func(t *testing.T, text string) {
		if len(text) > 200 {
			return
		}
		out := written(t, bookOf(t, text))
		for name, rows := range map[string]int{"csv": 5, "sums": 15} {
			noFormula(t, out[name], rows)
		}
		for _, name := range []string{"jsonl", "beancount", "markdown"} {
			if got, want := strings.Count(out[name], "\n"), strings.Count(plain[name], "\n"); got != want {
				t.Errorf("%q makes %d lines of %d in %s:\n%s", text, got, want, name, out[name])
			}
		}
		for _, name := range []string{"markdown", "html"} {
			if got, want := strings.Count(out[name], "<"), strings.Count(plain[name], "<"); got != want {
				t.Errorf("%q makes tags in %s:\n%s", text, name, out[name])
			}
		}
		for line := range strings.Lines(out["jsonl"]) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%q spoils a line: %s", text, line)
			}
		}
	})
}

func noFormula(t *testing.T, text string, n int) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	check(t, err)
	if len(rows) != n {
		t.Errorf("%d rows: %s", len(rows), text)
	}
	for _, row := range rows[1:] {
		for _, cell := range row {
			if _, err := strconv.ParseFloat(cell, 64); err == nil {
				continue // a number of ours
			}
			if first, size := utf8.DecodeRuneInString(strings.TrimSpace(cell)); size > 0 && strings.ContainsRune("=+-@＝＋－＠", first) {
				t.Errorf("a spreadsheet may run %q", cell)
			}
		}
	}
}
