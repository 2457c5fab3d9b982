package ledger

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/report"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// spentSince sums the transfers themselves: a charge at its booking time, a refund at its
// operation's first charge. Instants count by their quarter of an hour.
func spentSince(t testing.TB, l *Ledger, since time.Time) (cents int64) {
	t.Helper()
	first := map[string]time.Time{}
	check(t, l.Report().Transfers(context.Background(), report.Period{}, func(x report.Transfer) error {
		if _, ok := first[x.Operation]; !ok {
			first[x.Operation] = x.BookedAt
		}
		switch {
		case x.Kind == "refund" && !first[x.Operation].Before(since.Truncate(15*time.Minute)):
			cents -= x.Cents
		case (x.Kind == "charge" || x.Kind == "suspense") && !x.BookedAt.Before(since.Truncate(15*time.Minute)):
			cents += x.Cents
		}
		return nil
	}))
	return max(cents, 0)
}

// edges returns instants around quarters of an hour, midnights, and an instant.
func edges(at time.Time) (all []time.Time) {
	for _, name := range []string{"UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham", "Africa/Monrovia"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			panic(err)
		}
		year, month, day := at.In(zone).Date()
		all = append(all, time.Date(year, month, day, 0, 0, 0, 0, zone))
	}
	quarter := at.Truncate(15 * time.Minute)
	for _, begin := range []time.Time{at, quarter, quarter.Add(15 * time.Minute)} {
		all = append(all, begin.Add(-time.Microsecond), begin, begin.Add(time.Microsecond))
	}
	return append(all, time.Time{}, time.Unix(-1, 0), at.AddDate(-1, 0, 0), at.AddDate(1, 0, 0))
}

// Even if a runner's clock is set back and forth, the spending since an instant equals the
// bookings of the rows from that instant on.
func TestWhatWasSpentSinceAnInstantIsExact(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		now := noon
		b := bookAt(t, filepath.Join(dir, fmt.Sprintf("%d.db", n)), func() time.Time { return now })
		defer func() { _ = b.Close() }()
		b.add(opened(1000))
		var instants []time.Time
		for i := range rapid.IntRange(1, 25).Draw(rt, "orders") {
			now = now.Add(time.Duration(rapid.Int64Range(-40*60, 60*60).Draw(rt, "seconds")) * time.Second)
			instants = append(instants, now)
			id := fmt.Sprintf("o%d/1", i)
			charged := rapid.Int64Range(0, 500).Draw(rt, "cents")
			check(t, b.tryAdd(accepted(fact.KindOrder, id), sending(id, 1), fact.OrderAccepted{Ref: ref(id), OrderNo: "no of " + id, NextAt: now},
				fact.OrderProgressed{OrderState: orderState(id, "procuring", charged, 0), NextAt: now}))
			now = now.Add(time.Duration(rapid.Int64Range(-1000, 1000).Draw(rt, "microseconds")) * time.Microsecond)
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 25}).Draw(rt, "hours")) * time.Hour)
			check(t, b.tryAdd(fact.OrderRefunded{OrderState: orderState(id, "refunded", 0, charged/2), RefundedAt: now},
				fact.LedgerRecorded{Movement: "external", AmountCents: 3, By: "ada", Reason: "shop"}))
		}
		for _, at := range edges(rapid.SampledFrom(instants).Draw(rt, "since")) {
			got, err := b.Money.Committed(t.Context(), at, "")
			check(t, err)
			if want := spentSince(t, b.Ledger, at); got != want {
				rt.Fatalf("since %s: %d instead of %d", at, got, want)
			}
		}
	})
}

// Today's refunds of yesterday's charges make no room under today's limit, however they
// come back. Neither day's sum goes below zero.
func TestTrap61ARefundBelongsToTheDayOfItsCharge(t *testing.T) {
	now := noon
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	b := bookAt(t, path, func() time.Time { return now })
	b.add(opened(100_000),
		accepted(fact.KindRenewal, "r1/1", "px_1", "px_2"), sending("r1/1", 1),
		settled("r1/1", "partial", line("px_1", "unresolved", 300, 0), line("px_2", "failed", 200, 200)),
		accepted(fact.KindRenewal, "r2/1", "px_3", "px_4"), sending("r2/1", 1),
		fact.OperationReview{Ref: ref("r2/1"), Attempt: 1, Code: "x", Reason: "x",
			Settlement: new(lines(line("px_3", "unresolved", 300, 0), line("px_4", "unresolved", 300, 0)))},
		accepted(fact.KindOrder, "o1/1"), sending("o1/1", 1), fact.OrderAccepted{Ref: ref("o1/1"), OrderNo: "no of o1/1", NextAt: noon},
		fact.OrderProgressed{OrderState: orderState("o1/1", "procuring", 900, 0), NextAt: noon},
		accepted(fact.KindOrder, "o2/1"), sending("o2/1", 1), fact.OrderAccepted{Ref: ref("o2/1"), OrderNo: "no of o2/1", NextAt: noon},
		fact.OrderProgressed{OrderState: orderState("o2/1", "procuring", 500, 0), NextAt: noon},
		fact.OperationReview{Ref: ref("o2/1"), Attempt: 1, Code: "x", Reason: "x"})
	yesterday := now
	spent := func(l *Ledger, since time.Time) int64 {
		cents, err := l.Money.Committed(t.Context(), since, "")
		check(t, err)
		return cents
	}
	if got := spent(b.Ledger, yesterday); got != 300+600+900+500 {
		t.Errorf("%d was spent on the first day", got)
	}
	now = now.Add(25 * time.Hour)
	b.add(resolved("r1/1", "px_1", "not_charged", 0), resolved("r2/1", "", "not_charged", 0), resolved("o2/1", "", "not_charged", 0),
		fact.OrderRefunded{OrderState: orderState("o1/1", "refunded", 0, 900), RefundStatus: "done", RefundedAt: now})
	b.add(accepted(fact.KindOrder, "o3/1"), sending("o3/1", 1), fact.OrderAccepted{Ref: ref("o3/1"), OrderNo: "no of o3/1", NextAt: noon},
		fact.OrderProgressed{OrderState: orderState("o3/1", "procuring", 700, 0), NextAt: noon})
	today := now.Add(-time.Hour)
	if got := spent(b.Ledger, today); got != 700 {
		t.Errorf("%d is spent today instead of 700", got)
	}
	if got := spent(b.Ledger, yesterday); got != 700 {
		t.Errorf("%d is spent on both days instead of 700", got)
	}
	sameTotals(t, "refunded a day later", b.Ledger)
	b.verifiedAndRebuilt("refunded a day later")
}

// A failed transaction, alone or with its group, spends nothing.
func TestWhatFailedSpentNothing(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	before, err := b.Money.Committed(t.Context(), time.Time{}, "")
	check(t, err)
	refused := errors.New("no")
	err = b.Write(t.Context(), func(tx *Tx) error {
		if err := tx.Append(accepted(fact.KindOrder, "o99/1"), sending("o99/1", 1), fact.OrderAccepted{Ref: ref("o99/1"), OrderNo: "x", NextAt: noon},
			fact.OrderDelivered{OrderState: orderState("o99/1", "completed", 12345, 0)}); err != nil {
			return err
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
	b.add(fact.LedgerRecorded{Movement: "external", AmountCents: 3, By: "ada", Reason: "shop"})
	after, err := b.Money.Committed(t.Context(), time.Time{}, "")
	check(t, err)
	if before != after {
		t.Errorf("%d became %d", before, after)
	}
	if _, err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// counted returns the operations by state, counted one by one.
func counted(t *testing.T, l *Ledger) map[fact.State]int64 {
	t.Helper()
	rows, err := l.read.QueryContext(t.Context(), `SELECT state FROM operations`)
	check(t, err)
	counts := map[fact.State]int64{}
	check(t, sqlite.Each(rows, func(s sqlite.Scanner) error {
		var state fact.State
		err := s.Scan(&state)
		counts[state]++
		return err
	}))
	return counts
}

func sameTotals(t *testing.T, what string, l *Ledger) {
	t.Helper()
	counts, err := l.Operations.StateCounts(t.Context())
	check(t, err)
	if want := counted(t, l); fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("%s: counts are %v instead of %v", what, counts, want)
	}
	rows, err := l.read.QueryContext(t.Context(), `SELECT quarter FROM net_charges`)
	check(t, err)
	check(t, sqlite.Each(rows, func(s sqlite.Scanner) error {
		var quarter int64
		if err := s.Scan(&quarter); err != nil {
			return err
		}
		for _, d := range []int64{0, 1, tables.QuarterMicros / 2} {
			at := sqlite.FromMicros(quarter*tables.QuarterMicros + d)
			spent, err := l.Money.Committed(t.Context(), at, "")
			if err != nil {
				return err
			}
			open, err := l.Money.Committed(t.Context(), at.AddDate(100, 0, 0), "")
			if want := spentSince(t, l, at); err == nil && spent-open != want {
				t.Errorf("%s: since %s %d was spent instead of %d", what, at, spent-open, want)
			}
		}
		return err
	}))
}

func TestRunningTotalsSurviveMigrationRebuildAndArchive(t *testing.T) {
	t.Parallel()
	for version := int64(1); version < 4; version++ {
		sameTotals(t, "migrated", openBook(t, atVersion(t, version, historyOf(version)...)).Ledger)
	}
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	b := oldBook(t, path, append(history(), over()...)...)
	sameTotals(t, "live", b.Ledger)
	rebuilt := filepath.Join(t.TempDir(), "rebuilt.db")
	_, err := b.Rebuild(t.Context(), rebuilt)
	check(t, err)
	sameTotals(t, "rebuilt", openBook(t, rebuilt).Ledger)
	check(t, b.Close())
	out, err := archiveOf(t, path, 25).Run(t.Context())
	check(t, err)
	if out.File == "" {
		t.Fatal("nothing was archived")
	}
	sameTotals(t, "archived", openBook(t, path).Ledger)
}

func TestTamperedRunningTotalsDoNotVerify(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{
		`UPDATE net_charges SET cents = cents + 1`, `DELETE FROM net_charges`, `UPDATE operations SET charged_at = charged_at - 1`, `UPDATE state_counts SET n = n + 1`,
	} {
		l := openBook(t, tampered(t, statement))
		_, err := l.Verify(t.Context())
		var broken *chain.BrokenError
		if !errors.As(err, &broken) || broken.Check != "projection" {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// A day's charges are a sum of quarters of an hour, so the sum since a midnight reads no
// transfer.
func TestTheLimitOfADayReadsNoTransferOfIt(t *testing.T) {
	b, r := recorded(t)
	_, err := b.Money.Committed(t.Context(), noon, "")
	check(t, err)
	for query := range r.seen {
		plan := strings.Join(steps(t, b.write, query), "\n")
		if !strings.Contains(plan, "SEARCH net_charges USING INTEGER PRIMARY KEY") || strings.Contains(plan, "transfers") {
			t.Error(plan)
		}
	}
}

// Reconciling one renewal uses indexes, whatever else the journal holds.
func TestTheSumsOfOneRenewalReadItsOwnRows(t *testing.T) {
	b, r := recorded(t)
	_, err := b.Money.RenewalSums(t.Context(), "r8/0001")
	check(t, err)
	for query := range r.seen {
		for _, step := range steps(t, b.write, query) {
			if strings.HasPrefix(step, "SCAN") || strings.HasPrefix(step, "SEARCH j ") && !strings.Contains(step, "journal_operation (operation=?)") {
				t.Error(step)
			}
		}
	}
}
