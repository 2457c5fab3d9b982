package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/report"
	"perennial/ledger/tables"
)

// daily returns a clock on which facts are one day apart: the n-th fact of a ledger has the
// time nthDay(n).
func daily() func() time.Time {
	var n atomic.Int64
	return func() time.Time { return nthDay(n.Add(1)) }
}

func nthDay(n int64) time.Time { return noon.Add(time.Duration(n) * 24 * time.Hour) }

// oldBook is a ledger of facts that are one day apart.
func oldBook(t testing.TB, path string, facts ...fact.Fact) *book {
	t.Helper()
	b := bookAt(t, path, daily())
	b.add(facts...)
	return b
}

func bookAt(t testing.TB, path string, clock func() time.Time) *book {
	t.Helper()
	l, err := Open(context.Background(), Config{Path: path, Clock: clock})
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return &book{Ledger: l, t: t, path: path}
}

// over ends the operations that history leaves unfinished.
func over() []fact.Fact {
	return []fact.Fact{
		fact.OrderAccepted{Ref: ref("o6/1"), Attempt: 1, OrderNo: "no of o6/1", NextAt: noon},
		fact.OrderDelivered{OrderState: orderState("o6/1", "completed", 200, 0), ProxyIDs: []string{}},
		fact.CommandRejected{Ref: ref("r4/0001~2"), Code: "proxy_not_found", Reason: "unknown", Attempt: 1},
		resolved("r8/0001", "px_8b", "charged", 310),
		fact.SweepFinished{Schedule: "keep", Slot: noon.Add(2 * time.Hour), Plan: "p3", Published: 1},
	}
}

// archiveOf returns an archiving of the facts before the n-th of a closed book.
func archiveOf(t testing.TB, path string, n int64) Archive {
	t.Helper()
	l, err := Open(context.Background(), Config{Path: path, Clock: daily(), ReadOnly: true})
	check(t, err)
	x := Archive{Path: path, Before: nthDay(n), Clock: func() time.Time { return nthDay(5000) }, Keep: 1}
	x.Published.Seq, x.Published.Hash, err = l.Head(context.Background())
	check(t, errors.Join(err, l.Close()))
	return x
}

// money returns everything that a ledger says about money and accepted commands.
func money(t testing.TB, l *Ledger) string {
	t.Helper()
	ctx := context.Background()
	var out strings.Builder
	balance, err := l.Money.Balance(ctx, "main")
	check(t, err)
	balance.Head = chain.Head{}
	fmt.Fprintf(&out, "%+v\n", balance)
	for _, by := range []string{"order", "renewal", "ip", "label", "day"} {
		totals, err := l.Money.TotalsBy(ctx, by, 10_000)
		check(t, err)
		fmt.Fprintf(&out, "%s %+v\n", by, totals)
	}
	labelled, err := l.Operations.OperationsPage(ctx, tables.OperationsQuery{Name: "ticket", Value: "OPS-7", Limit: 10_000})
	check(t, err)
	for _, o := range labelled.Operations {
		fmt.Fprintf(&out, "labelled %s\n", o.ID)
	}
	entries, err := l.Money.Postings(ctx, 0, 100_000)
	check(t, err)
	fmt.Fprintf(&out, "%+v\n", entries)
	check(t, errors.Join(l.Report().ExportCSV(ctx, &out, report.Period{}), l.Report().ExportJSON(ctx, &out, report.Period{From: nthDay(3), To: nthDay(40)})))
	for month := range 6 {
		from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).AddDate(0, month, 0)
		s, err := l.Report().Statement(ctx, "main", report.Period{From: from, To: from.AddDate(0, 1, 0)})
		check(t, err)
		s.Finished, s.Until = false, nil // depends on the present clock
		if s.To.After(entries[len(entries)-1].Time) {
			s.Head = chain.Head{} // an archiving, and a runner's start, add a row
		}
		fmt.Fprintf(&out, "%+v\n", *s)
	}
	ids, err := l.Money.RenewalsAfter(ctx, "", 10_000)
	check(t, err)
	for _, id := range ids {
		sums, err := l.Money.RenewalSums(ctx, id)
		check(t, err)
		fmt.Fprintf(&out, "%s %d %d differ by %d\n", id, sums.BookedChargedCents, sums.BookedRefundedCents, sums.Differ())
	}
	return out.String()
}

func TestArchivingChangesNoReportOfMoneyOrCommands(t *testing.T) {
	t.Parallel()
	b := oldBook(t, filepath.Join(t.TempDir(), "main.ledger.db"), append(history(), over()...)...)
	check(t, b.Write(t.Context(), func(tx *Tx) error {
		return tx.Observe(1, tables.Proxy{ProxyID: "px_1a", ExpiresAt: at(time.Hour), SeenAt: noon})
	}))
	before, head := money(t, b.Ledger), b.balance().Head
	acceptance, err := b.Operations.Acceptance(t.Context(), "o1")
	check(t, err)
	rows, err := b.Rows(t.Context(), 0, 1000)
	check(t, err)
	check(t, b.Close())

	out, err := archiveOf(t, b.path, 60).Run(t.Context())
	check(t, err)
	if out.FirstSeq != 1 || out.LastSeq != 59 || out.HeldBy != "" || filepath.Base(out.File) != "main.ledger.1-59.archive.db" {
		t.Errorf("%+v", out)
	}
	holdsOnly(t, filepath.Dir(b.path), "main.ledger.1-59.archive.db", "main.ledger.db")
	after := openBook(t, b.path)
	if got := money(t, after.Ledger); got != before {
		t.Errorf("it said\n%s\nand says\n%s", before, got)
	}
	if got := after.balance().Head; got.Seq != head.Seq+1 || got != out.Head {
		t.Errorf("head %+v after %+v", got, head)
	}
	if got, err := after.Operations.Acceptance(t.Context(), "o1"); err != nil || string(got.Content) != string(acceptance.Content) || got.ContentHash != acceptance.ContentHash {
		t.Errorf("%+v %v", got, err)
	}
	var again []chain.Row
	for len(again) < len(rows) {
		page, err := after.Rows(t.Context(), int64(len(again)), 7)
		check(t, err)
		again = append(again, page...)
	}
	if !slices.Equal(again[:len(rows)], rows) {
		t.Error("the rows of archive and ledger are not those that were")
	}
	if _, err := after.Fleet.Proxy(t.Context(), "px_1a"); err != nil {
		t.Errorf("what was seen of the proxies: %v", err)
	}
	var kept, stubs int
	check(t, after.read.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM journal), (SELECT count(*) FROM archived)`).Scan(&kept, &stubs))
	if kept != len(rows)-59+1 || stubs < 20 || stubs > 40 {
		t.Errorf("%d rows are in the journal, of %d something is left", kept, stubs)
	}
}

// A repeated command from an archived year is the same command: it is neither accepted nor
// planned, and its key is not reused.
func TestACommandOfAnArchivedYearIsNeverAcceptedAgain(t *testing.T) {
	b := oldBook(t, filepath.Join(t.TempDir(), "main.ledger.db"), append(history(), over()...)...)
	check(t, b.Close())
	_, err := archiveOf(t, b.path, 60).Run(t.Context())
	check(t, err)
	after := openBook(t, b.path)
	for _, id := range []string{"o1", "o2", "r1", "r2"} {
		var k tables.Known
		check(t, after.Write(t.Context(), func(tx *Tx) (err error) { k, err = tx.Known(id); return err }))
		if k.AcceptedHash == "" {
			t.Errorf("%s is not known any more", id)
		}
	}
	for _, f := range []fact.Fact{accepted(fact.KindOrder, "o1/1"), accepted(fact.KindRenewal, "r1/0001", "px_1a")} {
		if err := after.tryAdd(f); err == nil {
			t.Errorf("%s was accepted again", f.Subject())
		}
	}
	if o := after.operation("o1/1"); o.Key != "key of o1/1" || !o.State.Ended() {
		t.Errorf("%+v", o)
	}
	if renewed, err := after.Fleet.RenewedAt(t.Context(), "px_6a", noon.Add(time.Hour)); err != nil || !renewed {
		t.Errorf("that px_6a was renewed is forgotten: %v %v", renewed, err)
	}
}

func TestWhatHasNotEndedStaysAndIsNamed(t *testing.T) {
	b := oldBook(t, filepath.Join(t.TempDir(), "main.ledger.db"), history()...)
	check(t, b.Close())
	out, err := archiveOf(t, b.path, 80).Run(t.Context())
	check(t, err)
	if out.LastSeq != 35 || out.HeldBy != "operation o6/1" {
		t.Fatalf("%+v", out)
	}
	after := openBook(t, b.path)
	if first, _, err := firstUnfinished(t.Context(), after.read); err != nil || first != 36 {
		t.Errorf("%d %v", first, err)
	}
	after.add(over()...)
	if _, err := after.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// A schedule's last slot can be approved without the archive. Earlier held plans that were
// not repeated do not keep rows.
func TestAPlanThatWaitsForAnApprovalStays(t *testing.T) {
	held := func(slot time.Duration, plan string) []fact.Fact {
		return []fact.Fact{fact.SweepPlanned{Schedule: "nightly", Slot: *at(slot), Plan: plan}, fact.SweepHeld{Schedule: "nightly", Slot: *at(slot), Plan: plan, Reason: "approval"}}
	}
	facts := slices.Concat([]fact.Fact{opened(1)}, held(0, "old"), held(time.Hour, "new"), held(2*time.Hour, "new"))
	b := oldBook(t, filepath.Join(t.TempDir(), "main.ledger.db"), facts...)
	check(t, b.Close())
	out, err := archiveOf(t, b.path, 7).Run(t.Context())
	check(t, err)
	if out.LastSeq != 3 || out.HeldBy != "a sweep of nightly" {
		t.Fatalf("%+v, and the plan that waits is in row 4", out)
	}
}

func TestYoungOrUnpublishedRowsStay(t *testing.T) {
	b := oldBook(t, filepath.Join(t.TempDir(), "main.ledger.db"), append(history(), over()...)...)
	row, err := b.Row(t.Context(), 30)
	check(t, errors.Join(err, b.Close()))
	x := archiveOf(t, b.path, 60)
	x.Clock = func() time.Time { return nthDay(60).Add(time.Hour) }
	if _, err := x.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "7 days") {
		t.Errorf("rows of yesterday: %v", err)
	}
	x = archiveOf(t, b.path, 60)
	x.Published.Hash = chain.Genesis
	if _, err := x.Run(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Errorf("a stream that tells another story: %v", err)
	}
	x.Published, x.Keep = chain.Head{Seq: row.Seq, Hash: row.Hash}, 40
	if out, err := x.Run(t.Context()); err != nil || out.File != "" {
		t.Errorf("fewer are published than stay: %+v %v", out, err)
	}
	x.Keep = 10
	out, err := x.Run(t.Context())
	if err != nil || out.LastSeq != 20 {
		t.Fatalf("%+v %v", out, err)
	}
	if out, err = x.Run(t.Context()); err != nil || out.File != "" {
		t.Errorf("once more: %+v %v", out, err)
	}
	holdsOnly(t, filepath.Dir(b.path), "main.ledger.1-20.archive.db", "main.ledger.db")
}

func TestAnOpenLedgerIsNotArchived(t *testing.T) {
	t.Parallel()
	b := oldBook(t, filepath.Join(t.TempDir(), "main.ledger.db"), append(history(), over()...)...)
	shell := raw(t, b.path)
	shell.SetMaxOpenConns(1)
	_, err := shell.Exec(`BEGIN IMMEDIATE`)
	check(t, err)
	check(t, b.Close())
	x := archiveOf(t, b.path, 60)
	var used *InUseError
	if _, err := x.Run(t.Context()); !errors.As(err, &used) || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("another process writes: %v", err)
	}
	_, err = shell.Exec(`ROLLBACK`)
	check(t, err)
	reads := failpoint.With(t.Context(), func(step string) {
		if step == "archive.ledger_verified" { // another process reads it meanwhile
			_, err := shell.Exec(`SELECT count(*) FROM journal`)
			check(t, err)
		}
	})
	if _, err := x.Run(reads); !errors.As(err, &used) {
		t.Errorf("another process reads: %v", err)
	}
	check(t, shell.Close())
	if _, err := x.Run(t.Context()); err != nil {
		t.Error(err)
	}
	holdsOnly(t, filepath.Dir(b.path), "main.ledger.1-59.archive.db", "main.ledger.db")
	if _, err := openBook(t, b.path).Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAnArchiveIsNeverWrittenTo(t *testing.T) {
	b := oldBook(t, filepath.Join(t.TempDir(), "main.ledger.db"), append(history(), over()...)...)
	check(t, b.Close())
	out, err := archiveOf(t, b.path, 60).Run(t.Context())
	check(t, err)
	if _, err := Open(t.Context(), Config{Path: out.File, Clock: ticking()}); !errors.Is(err, ErrSealed) {
		t.Errorf("got %v", err)
	}
	x := restore(t, out.File, nil)
	if _, err := x.Run(t.Context()); !errors.Is(err, ErrSealed) {
		t.Errorf("it is no backup: %v", err)
	}
	info, err := os.Stat(out.File)
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the archive has mode %v", info.Mode())
	}
}

// Without the archive all sums are complete, and an error names the file to provide.
func TestWithoutTheArchiveOnlyItsRowsContentIsMissing(t *testing.T) {
	t.Parallel()
	path, archives := archivedTwice(t)
	before := money(t, openBook(t, path).Ledger)
	check(t, errors.Join(os.Remove(archives[0]), os.Rename(archives[1], archives[0])))
	b := openBook(t, path)
	if money(t, b.Ledger) != before {
		t.Error("something of money is missing")
	}
	var missing *ArchivedError
	for what, read := range map[string]func() error{
		"a row":          func() error { _, err := b.Row(t.Context(), 40); return err },
		"rows":           func() error { _, err := b.Rows(t.Context(), 0, 10); return err },
		"an operation's": func() error { _, err := b.RowsOf(t.Context(), "o1/1"); return err },
		"what was asked": func() error { _, err := b.Operations.Acceptance(t.Context(), "o1"); return err },
	} {
		if err := read(); !errors.As(err, &missing) || strings.Count(missing.Error(), "\n") != 2 || !strings.Contains(err.Error(), missing.File) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := b.Row(t.Context(), 10); !errors.As(err, &missing) || missing.Why == nil {
		t.Errorf("another file under its name: %v", err)
	}
	if rows, err := b.RowsOf(t.Context(), "r8/0001"); err != nil || len(rows) != 3 {
		t.Errorf("what stayed: %d %v", len(rows), err)
	}
}
