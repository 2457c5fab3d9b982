package ledger

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"perennial/ledger/fact"
	"perennial/ledger/report"
	"perennial/ledger/tables"
)

// keptBook holds one day of everything: the ticking clock keeps it within minutes.
func keptBook(t *testing.T) *book {
	t.Helper()
	b := newBook(t)
	b.add(history()...)
	b.add(fact.LedgerRecorded{Movement: "top-up", AmountCents: 5000, By: "ada", Reason: "card"}, fact.LedgerRecorded{Movement: "external", AmountCents: 120, By: "ada", Reason: "bought by hand"})
	return b
}

func transfers(t *testing.T, b *book, p report.Period) (all []report.Transfer) {
	t.Helper()
	check(t, b.Report().Transfers(t.Context(), p, func(x report.Transfer) error { all = append(all, x); return nil }))
	return all
}

func TestAPeriodHoldsEveryEntryOnceAndPeriodsAddUp(t *testing.T) {
	b := keptBook(t)
	all := transfers(t, b, report.Period{})
	if len(all) < 10 {
		t.Fatalf("only %d entries", len(all))
	}
	for _, cut := range []int{1, len(all) / 2, len(all) - 1} {
		at := all[cut].Time
		before, after := transfers(t, b, report.Period{To: at}), transfers(t, b, report.Period{From: at})
		if got := slices.Concat(before, after); fmt.Sprint(got) != fmt.Sprint(all) {
			t.Errorf("cut at %s: %d and %d entries of %d", at, len(before), len(after), len(all))
		}
	}
}

// The sparse index must not miss the beginning.
func TestAPeriodIsFoundInALongJournal(t *testing.T) {
	b := newBook(t)
	b.add(opened(1))
	for range 3 * 256 {
		b.add(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "card"})
	}
	all := transfers(t, b, report.Period{})
	for _, n := range []int{0, 1, 254, 255, 256, 257, 511, 512, 700, len(all) - 1} {
		if got := transfers(t, b, report.Period{From: all[n].Time}); len(got) != len(all)-n {
			t.Errorf("from entry %d: %d entries, want %d", n, len(got), len(all)-n)
		}
	}
}

func TestAStatementAddsUpToTheBook(t *testing.T) {
	b := keptBook(t)
	all := transfers(t, b, report.Period{})
	for n := range all {
		p := report.Period{From: all[n].Time, To: all[len(all)-1].Time.Add(time.Hour)}
		s, err := b.Report().Statement(t.Context(), "main", p)
		check(t, err)
		var moved int64
		for _, m := range s.Movements() {
			if !m.Sum {
				moved += m.Cents
			}
		}
		if s.OpeningCents+moved != s.ClosingCents || s.ClosingCents != b.balance().WalletCents {
			t.Errorf("from entry %d: %d + %d is not %d", n, s.OpeningCents, moved, s.ClosingCents)
		}
		if s.SuspenseCents != b.balance().SuspenseCents || s.Head.Hash != b.balance().Head.Hash {
			t.Errorf("from entry %d: suspense %d, head %+v", n, s.SuspenseCents, s.Head)
		}
		var days, kinds int64
		for _, d := range s.Days {
			days += d.NetCents
		}
		if kinds = s.Orders.NetCents + s.Renewals.NetCents; days != kinds {
			t.Errorf("from entry %d: %d by day and %d by kind", n, days, kinds)
		}
	}
}

func TestACostIsTheSameHoweverItIsSummed(t *testing.T) {
	b := keptBook(t)
	want := b.balance()
	sums := map[string]int64{}
	for _, what := range []string{"order", "renewal", "ip", "label", "day"} {
		all, err := b.Money.TotalsBy(t.Context(), what, 1000)
		check(t, err)
		for _, x := range all {
			sums[what] += x.NetCents
			if x.NetCents != x.ChargedCents-x.RefundedCents+x.RecordedCents {
				t.Errorf("%s %+v", what, x)
			}
		}
	}
	net := want.ChargedCents - want.RefundedCents + want.ExternalCents
	for what, sum := range sums {
		if sum != net {
			t.Errorf("%s: %d, the book says %d", what, sum, net)
		}
	}
	if _, err := b.Money.TotalsBy(t.Context(), "colour", 1); err == nil || !strings.Contains(err.Error(), "order, renewal, ip, label or day") {
		t.Errorf("an unknown question: %v", err)
	}
}

func TestTheCSVExportHoldsEveryEntryAndNoFormula(t *testing.T) {
	b := newBook(t)
	b.add(opened(5000), accepted(fact.KindOrder, "=1+1/1"), sending("=1+1/1", 1),
		fact.OrderAccepted{Ref: ref("=1+1/1"), OrderNo: "@evil", NextAt: noon})
	state := orderState("=1+1/1", "completed", 300, 0)
	state.OrderNo = "@evil"
	b.add(fact.OrderDelivered{OrderState: state})
	var out bytes.Buffer
	check(t, b.Report().ExportCSV(t.Context(), &out, report.Period{}))
	rows, err := csv.NewReader(&out).ReadAll()
	check(t, err)
	if len(rows) != 3 {
		t.Fatalf("%v", rows)
	}
	for _, row := range rows[1:] {
		for _, cell := range row {
			if cell != "" && strings.ContainsAny(cell[:1], "=+-@") {
				t.Errorf("a spreadsheet would run %q", cell)
			}
		}
	}
	last := rows[2]
	if last[7] != "300" || last[8] != "3.00" || last[9] != "USD" || last[11] != "'=1+1/1" || last[12] != "'@evil" {
		t.Errorf("%v", last)
	}
}

func TestTheJSONExportHoldsEveryEntry(t *testing.T) {
	b := keptBook(t)
	var out bytes.Buffer
	check(t, b.Report().ExportJSON(t.Context(), &out, report.Period{}))
	var got []report.Transfer
	for line := range strings.Lines(out.String()) {
		var x report.Transfer
		check(t, json.Unmarshal([]byte(line), &x))
		got = append(got, x)
	}
	if fmt.Sprint(got) != fmt.Sprint(transfers(t, b, report.Period{})) {
		t.Errorf("%v", got)
	}
}

var (
	beanOpen    = regexp.MustCompile(`^\d{4}-\d\d-\d\d open ((?:Assets|Expenses|Equity)(?::[A-Z0-9][A-Za-z0-9-]*)+) ([A-Z]+)$`)
	beanEntry   = regexp.MustCompile(`^\d{4}-\d\d-\d\d \* "(?:[^"\\]|\\.)*"(?: "(?:[^"\\]|\\.)*")?$`)
	beanMeta    = regexp.MustCompile(`^  [a-z][a-z0-9-]*: "(?:[^"\\]|\\.)*"$`)
	beanPosting = regexp.MustCompile(`^  (\S+)  (-?\d+\.\d\d) ([A-Z]+)$`)
	beanBalance = regexp.MustCompile(`^\d{4}-\d\d-\d\d balance (\S+)  (-?\d+\.\d\d) ([A-Z]+)$`)
)

// readBeancount strictly reads the part of the language that an export uses: every
// transaction sums to zero, every account is open, every balance holds.
func readBeancount(t *testing.T, text string) (sums map[string]decimal.Decimal) {
	t.Helper()
	sums = map[string]decimal.Decimal{}
	open, entry := map[string]bool{}, decimal.Zero
	asserted := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "":
			if !entry.IsZero() {
				t.Errorf("a transaction sums to %s", entry)
			}
			entry = decimal.Zero
		case strings.HasPrefix(line, "option "), beanEntry.MatchString(line), beanMeta.MatchString(line):
		case beanOpen.MatchString(line):
			open[beanOpen.FindStringSubmatch(line)[1]] = true
		case beanPosting.MatchString(line):
			m := beanPosting.FindStringSubmatch(line)
			cents := decimal.RequireFromString(m[2])
			entry, sums[m[1]] = entry.Add(cents), sums[m[1]].Add(cents)
			if !open[m[1]] {
				t.Errorf("%s is not open", m[1])
			}
		case beanBalance.MatchString(line):
			m := beanBalance.FindStringSubmatch(line)
			asserted++
			if !sums[m[1]].Equal(decimal.RequireFromString(m[2])) {
				t.Errorf("%s holds %s: %s", m[1], sums[m[1]], line)
			}
		default:
			t.Errorf("not Beancount: %q", line)
		}
	}
	if asserted == 0 {
		t.Error("nothing is asserted")
	}
	return sums
}

// exportDir keeps a test's exports for another tool: .ci/run makes bean-check read them.
var exportDir = flag.String("export.dir", "", "directory in which the Beancount exports of a test are kept")

func TestTheBeancountExportBalances(t *testing.T) {
	b := keptBook(t)
	all := transfers(t, b, report.Period{})
	for name, p := range map[string]report.Period{"whole": {}, "half": {From: all[len(all)/2].Time}, "first half": {To: all[len(all)/2].Time}} {
		var out bytes.Buffer
		check(t, b.Report().ExportBeancount(t.Context(), &out, "main", p, false))
		if *exportDir != "" {
			check(t, os.WriteFile(filepath.Join(*exportDir, name+".beancount"), out.Bytes(), 0o600))
		}
		sums := readBeancount(t, out.String())
		if name == "first half" {
			continue
		}
		got := b.balance()
		for account, cents := range map[string]int64{
			"Assets:Perennial:Main:Wallet": got.WalletCents, "Assets:Perennial:Main:Suspense": got.SuspenseCents,
			"Expenses:Perennial:Main:External": got.ExternalCents, "Equity:Perennial:Main:Funding": -got.FundingCents,
		} {
			if !sums[account].Equal(decimal.New(cents, -2)) {
				t.Errorf("%s: %s holds %s, the book %d\n%s", name, account, sums[account], cents, out.String())
			}
		}
	}
}

// The files of adjoining months, all but the first as included files, are one book.
func TestBeancountFilesOfMonthsAreOneBook(t *testing.T) {
	now := time.Date(2026, 9, 30, 22, 0, 0, 0, time.UTC)
	b := bookAt(t, filepath.Join(t.TempDir(), "main.ledger.db"), func() time.Time { now = now.Add(37 * time.Hour); return now })
	b.add(history()...)
	var book, part bytes.Buffer
	month := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	check(t, b.Report().ExportBeancount(t.Context(), &book, "main", report.Period{To: month}, false))
	for ; month.Before(now); month = month.AddDate(0, 1, 0) {
		part.Reset()
		check(t, b.Report().ExportBeancount(t.Context(), &part, "main", report.Period{From: month, To: month.AddDate(0, 1, 0)}, true))
		for _, not := range []string{"open ", "option ", "Brought forward"} {
			if strings.Contains(part.String(), not) {
				t.Errorf("%q is in\n%s", not, part.String())
			}
		}
		book.Write(part.Bytes())
	}
	if *exportDir != "" {
		check(t, os.WriteFile(filepath.Join(*exportDir, "months.beancount"), book.Bytes(), 0o600))
	}
	if got := readBeancount(t, book.String())["Assets:Perennial:Main:Wallet"]; !got.Equal(decimal.New(b.balance().WalletCents, -2)) {
		t.Errorf("the wallet holds %s of %d", got, b.balance().WalletCents)
	}
	if !strings.Contains(book.String(), `"opening balance"`) || strings.Count(book.String(), " balance Assets") < 3 {
		t.Error(book.String())
	}
	check(t, b.Report().ExportBeancount(t.Context(), &part, "main", report.Period{From: month.Add(time.Hour), To: month.Add(2 * time.Hour)}, true))
}

// Text that a spreadsheet would evaluate stays text, even if it splits cells at semicolons
// or tabs, and an id of digits stays an id.
func TestASpreadsheetRunsAndChangesNoCell(t *testing.T) {
	for cell, want := range map[string]string{
		"=1+1": "'=1+1", " \u3000@x": "' \u3000@x", "a;=1+1": "a;'=1+1", "a\t -1": "a\t' -1", "\tx": "'\tx", "a-b": "a-b", "a;b": "a;b", "１＋１": "１＋１",
		"123456789012345678": "'123456789012345678", "12345": "12345", "007": "'007", "1e5": "'1e5", "ord_1": "ord_1", "2026-11-21T12:00:00Z": "2026-11-21T12:00:00Z",
	} {
		if got := report.Neutral(cell); got != want {
			t.Errorf("%q becomes %q and not %q", cell, got, want)
		}
	}
	b := keptBook(t)
	var out bytes.Buffer
	check(t, b.Report().ExportCSV(t.Context(), &out, report.Period{}))
	s, err := b.Report().Statement(t.Context(), "main", report.Period{From: noon.Truncate(24 * time.Hour), To: noon.Truncate(24*time.Hour).AddDate(0, 1, 0)})
	check(t, err)
	var sums bytes.Buffer
	check(t, s.WriteCSV(&sums))
	if !strings.Contains(sums.String(), `"Wallet","Funding"`) {
		t.Errorf("the name that scripts look for is gone: %s", sums.String())
	}
	texts := regexp.MustCompile(`^("[^"]*",){5}(-?\d*,){4}(-?\d+\.\d\d)?(,"[^"]*"){4}$`)
	for i, line := range strings.Split(strings.TrimSpace(sums.String()), "\n") {
		if i > 0 && !texts.MatchString(line) {
			t.Errorf("a text is not quoted: %s", line)
		}
	}
	quoted := regexp.MustCompile(`^\d+,\d+,("([^"]|"")*",){5}\d+,\d+\.\d\d(,"([^"]|"")*"){14}$`)
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		if i > 0 && !quoted.MatchString(line) {
			t.Errorf("a text is not quoted: %s", line)
		}
	}
}

// A list of entries ends between two facts, and says which fact comes next.
func TestAListOfEntriesEndsBetweenFacts(t *testing.T) {
	b := keptBook(t)
	whole, err := b.Money.Postings(t.Context(), 0, 1_000_000)
	check(t, err)
	for limit := range 9 {
		var all []tables.Posting
		for from := int64(0); ; {
			sum, n := int64(0), 0
			next, err := b.Money.EachPosting(t.Context(), from, limit, func(p tables.Posting) error {
				all, sum, n = append(all, p), sum+p.AmountCents, n+1
				return nil
			})
			check(t, err)
			if sum != 0 || next != 0 && n == 0 {
				t.Fatalf("of %d, from %d: %d entries sum to %d", limit, from, n, sum)
			}
			if from = next; from == 0 {
				break
			}
		}
		if fmt.Sprint(all) != fmt.Sprint(whole) {
			t.Errorf("pages of %d hold %d entries of %d", limit, len(all), len(whole))
		}
	}
}

func TestTheWalletThatALedgerBeganWithIsItsOpeningBalance(t *testing.T) {
	b := keptBook(t)
	s := monthly(t, b.Ledger, 2026, 11)
	if m := s.Movements(); m[0].Cents != 0 || m[1] != (report.Movement{Name: "Opening balance", Cents: 100_000}) || m[2] != (report.Movement{Name: "Top-ups", Cents: 10_000}) || s.FundingCents != 110_000 {
		t.Errorf("%+v", m)
	}
	if m := monthly(t, b.Ledger, 2026, 12).Movements(); m[1].Name != "Top-ups" || m[1].Cents != 0 {
		t.Errorf("%+v", m)
	}
}

func TestAStatementCanBeReadByAPerson(t *testing.T) {
	b := keptBook(t)
	b.add(accepted(fact.KindOrder, "x/1"))
	s, err := b.Report().Statement(t.Context(), "main", report.Period{From: noon.Truncate(24 * time.Hour), To: noon.Truncate(24*time.Hour).AddDate(0, 1, 0)})
	check(t, err)
	s.Labels = append(s.Labels, tables.SubjectTotal{Subject: "a|b=<script>alert(1)</script>"})
	var md, page bytes.Buffer
	check(t, s.WriteMarkdown(&md))
	check(t, s.WriteHTML(&page))
	for _, text := range []string{md.String(), page.String()} {
		for _, want := range []string{"Statement of main", "2026-11-21", fact.Amount(s.ClosingCents, ""), "Balance carried forward", s.Head.Hash, "ticket=OPS-7"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
		if strings.Contains(text, "<script>") {
			t.Error("a label can run")
		}
	}
	for line := range strings.Lines(md.String()) {
		if n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); strings.HasPrefix(line, "|") && n != 3 && n != 6 {
			t.Errorf("a label breaks the table: %s", line)
		}
	}
}
