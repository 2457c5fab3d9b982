package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/report"
)

// charge buys something for this many cents, and ends.
func charge(b *book, id string, cents int64) {
	b.t.Helper()
	state := orderState(id, "completed", cents, 0)
	b.add(accepted(fact.KindOrder, id), sending(id, 1), fact.OrderAccepted{Ref: ref(id), OrderNo: state.OrderNo, NextAt: noon}, fact.OrderDelivered{OrderState: state})
}

// monthsAddUp proves what readers of statements and exports rely on, and returns all of it.
func monthsAddUp(t testing.TB, l *Ledger, now time.Time) string {
	t.Helper()
	var out strings.Builder
	export := func(p report.Period) (all []string) {
		check(t, l.Report().Transfers(t.Context(), p, func(x report.Transfer) error {
			all = append(all, fmt.Sprint(x))
			return nil
		}))
		return all
	}
	balance, err := l.Money.Balance(t.Context(), "main")
	check(t, err)
	postings, err := l.Money.Postings(t.Context(), 0, 1<<30)
	check(t, err)
	whole, parts := export(report.Period{}), []string{}
	var closing int64
	for begin := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC); begin.Before(now.AddDate(0, 2, 0)); begin = begin.AddDate(0, 1, 0) {
		p := report.Period{From: begin, To: begin.AddDate(0, 1, 0)}
		s, err := l.Report().Statement(t.Context(), "main", p)
		check(t, err)
		var replayed, suspense, days int64
		for _, x := range postings {
			if x.Seq <= s.Head.Seq && x.Account == "wallet" {
				replayed += x.AmountCents
			}
			if x.Seq <= s.Head.Seq && x.Account == "suspense" {
				suspense += x.AmountCents
			}
		}
		for _, d := range s.Days {
			days += d.NetCents
			if !strings.HasPrefix(d.Subject, begin.Format("2006-01")) {
				t.Fatalf("%s has the day %s", begin, d.Subject)
			}
		}
		if s.OpeningCents != closing || s.ClosingCents != replayed || s.SuspenseCents != suspense || days != s.Orders.NetCents+s.Renewals.NetCents {
			t.Fatalf("%s begins with %d behind %d and ends with %d; its head %+v gives %d, suspense %d and %d, days %d", begin, s.OpeningCents, closing, s.ClosingCents,
				s.Head, replayed, s.SuspenseCents, suspense, days)
		}
		closing = s.ClosingCents
		parts = append(parts, export(p)...)
		s.Head = chain.Head{} // not every archived month knows its head's hash
		fmt.Fprintf(&out, "%+v\n", s)
	}
	if closing != balance.WalletCents || !slices.Equal(whole, parts) {
		t.Fatalf("the months end with %d of %d; they export %d rows of %d", closing, balance.WalletCents, len(parts), len(whole))
	}
	for i, x := range whole {
		at := transfersAt(t, l, i)
		if cut := slices.Concat(export(report.Period{To: at}), export(report.Period{From: at})); !slices.Equal(cut, whole) {
			t.Fatalf("cut at %s, of %s: %d rows of %d", at, x, len(cut), len(whole))
		}
	}
	return out.String()
}

func transfersAt(t testing.TB, l *Ledger, n int) (at time.Time) {
	t.Helper()
	check(t, l.Report().Transfers(t.Context(), report.Period{}, func(x report.Transfer) error {
		if n--; n == -1 {
			at = x.Time
		}
		return nil
	}))
	return at
}

// A runner whose clock is four minutes fast books in December, and the next runner in
// November. The next runner's charges belong to December, once.
func TestAClockSetBackOpensNoMonthAgain(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	b := bookAt(t, filepath.Join(t.TempDir(), "main.ledger.db"), func() time.Time { return now })
	b.add(opened(100_000))
	n := 0
	buy := func(at time.Time, times int) {
		for now = at; times > 0; times-- {
			n++
			charge(b, fmt.Sprintf("o%d/1", n), 360)
		}
	}
	buy(time.Date(2026, 12, 1, 0, 1, 0, 0, time.UTC), 5)
	buy(time.Date(2026, 11, 30, 23, 57, 0, 0, time.UTC), 30)
	buy(time.Date(2026, 12, 10, 0, 0, 0, 0, time.UTC), 20)
	monthsAddUp(t, b.Ledger, now)
	if s := monthly(t, b.Ledger, 2026, 12); s.OpeningCents != 100_000 || s.Orders.ChargedCents != 55*360 || len(s.Days) != 2 {
		t.Errorf("December begins with %d and has %+v on %+v", s.OpeningCents, s.Orders, s.Days)
	}
	b.verifiedAndRebuilt("a clock set back")
	var table bytes.Buffer
	check(t, b.Report().ExportCSV(t.Context(), &table, report.Period{}))
	if text := table.String(); !strings.Contains(text, "2026-11-30T23:57:00Z") || strings.Count(text, "2026-12-01T00:01:00Z") != 5+35 {
		t.Error("a row says its own time, and when it is booked")
	}
}

// A record made with last month's clock changes no statement of last month, and is reported.
func TestABackdatedRecordIsBookedNowAndNamed(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	b := bookAt(t, filepath.Join(t.TempDir(), "main.ledger.db"), func() time.Time { return now })
	b.add(opened(0))
	for _, days := range []int{-30, 15, -15} {
		now = now.AddDate(0, 0, days)
		b.add(fact.LedgerRecorded{Movement: "top-up", AmountCents: 100, By: "ada", Reason: "card"})
		if s := monthly(t, b.Ledger, 2026, 10); s.ClosingCents != 0 {
			t.Errorf("October ends with %d", s.ClosingCents)
		}
		now = now.AddDate(0, 0, -days)
	}
	v, err := b.Verify(t.Context())
	check(t, err)
	if len(v.Backdated) != 2 || v.Backdated[0].Seq != 2 || v.Backdated[1].Seq != 4 || v.Backdated[0].BookedAt.Month() != 11 || v.Backdated[1].BookedAt.Month() != 12 {
		t.Errorf("%+v", v.Backdated)
	}
	monthsAddUp(t, b.Ledger, now)
}

// An operation that was sent in November and booked in December, or never, is in neither
// month's sums. November's statement lists it, and later its result.
func TestAMonthSaysWhatItLacks(t *testing.T) {
	now := time.Date(2026, 11, 30, 23, 50, 0, 0, time.UTC)
	b := bookAt(t, filepath.Join(t.TempDir(), "main.ledger.db"), func() time.Time { return now })
	send := func(kind fact.Kind, id string, estimate int64, ids ...string) {
		f := sending(id, 1)
		f.SentAt, f.EstimateCents = now, estimate
		b.add(accepted(kind, id, ids...), f)
	}
	b.add(opened(10_000))
	send(fact.KindOrder, "booked/1", 0)
	b.add(fact.OrderAccepted{Ref: ref("booked/1"), OrderNo: "no of booked/1", NextAt: noon}, fact.OrderDelivered{OrderState: orderState("booked/1", "completed", 300, 0)})
	send(fact.KindOrder, "refused/1", 300)
	b.add(fact.CommandRejected{Ref: ref("refused/1"), Code: "x", Reason: "x", Attempt: 1})
	send(fact.KindRenewal, "later/0001", 600, "px_1", "px_2")
	send(fact.KindOrder, "review/1", 0)
	send(fact.KindOrder, "never/1", 900)
	send(fact.KindRenewal, "half/0001", 600, "px_3", "px_4")
	b.add(settled("half/0001", "partial", line("px_3", "unresolved", 300, 0), line("px_4", "unresolved", 300, 0)))
	now = time.Date(2026, 12, 2, 9, 0, 0, 0, time.UTC)
	send(fact.KindOrder, "december/1", 100)
	b.add(settled("later/0001", "partial", line("px_1", "succeeded", 310, 0), line("px_2", "failed", 290, 290)),
		fact.OperationReview{Ref: ref("review/1"), Reason: "odd", Ambiguous: true}, fact.OperationReview{Ref: ref("never/1"), Reason: "odd", Ambiguous: true},
		resolved("never/1", "", "not_charged", 0), resolved("half/0001", "px_3", "charged", 300), resolved("half/0001", "px_4", "not_charged", 0))
	answer, _, err := b.Head(t.Context())
	check(t, err)
	b.add(fact.LedgerRecorded{Ref: ref("half/0001"), Movement: fact.MovementCharge, AmountCents: 300, ProxyID: "px_4", Corrects: answer, By: "ada", Reason: "it was charged after all", ID: "c"})
	for month, want := range map[time.Month]string{
		11: "later/0001 600 6.00 booked on 2026-12-02, never/1 900 not charged, review/1 0 not known yet, ",
		12: "review/1 0 not known yet, december/1 100 not known yet, ",
	} {
		s := monthly(t, b.Ledger, 2026, month)
		var got, md, page, sums strings.Builder
		check(t, errors.Join(s.WriteMarkdown(&md), s.WriteHTML(&page), s.WriteCSV(&sums)))
		for _, x := range s.Outstanding {
			fmt.Fprintf(&got, "%s %d %s, ", x.OperationID, x.ExposureCents, x.Later())
			for _, text := range []string{md.String(), page.String(), sums.String()} {
				if !strings.Contains(text, x.OperationID) || !strings.Contains(text, x.Later()) || !strings.Contains(text, x.SentAt.Format(time.RFC3339)) {
					t.Errorf("%s is not in\n%s", x.OperationID, text)
				}
			}
		}
		if got.String() != want {
			t.Errorf("%s lacks %q and says %q", month, want, got.String())
		}
		sum := s.Suspense()
		if last := len(sum) - 1; last != 4 || sum[0].Cents+sum[1].Cents+sum[2].Cents+sum[3].Cents != sum[4].Cents || !strings.Contains(md.String(), "In suspense, brought forward") {
			t.Errorf("%s: %+v", month, sum)
		}
	}
	if s := monthly(t, b.Ledger, 2026, 12); s.SuspenseOpeningCents != 600 || s.SuspenseResolvedCents != 300 || s.SuspenseReturnedCents != 300 || s.SuspenseCents != 0 {
		t.Errorf("%+v", s)
	}
	for _, x := range transfers(t, b, report.Period{From: now}) {
		if x.SentAt == nil || x.SentAt.Month() != 11 {
			t.Errorf("%+v", x)
		}
	}
}

// November booked a line. In December an operator says that it was not charged, and in January that it
// was. So November's sums were right, and its statement lists nothing as missing.
func TestAMonthListsNothingThatItBooked(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	b := bookAt(t, filepath.Join(t.TempDir(), "main.ledger.db"), func() time.Time { return now })
	f := sending("half/0001", 1)
	f.SentAt = now
	b.add(opened(10_000), accepted(fact.KindRenewal, "half/0001", "px_1", "px_2"), f,
		settled("half/0001", "partial", line("px_1", "unresolved", 300, 0), line("px_2", "unresolved", 300, 0)),
		resolved("half/0001", "px_1", "charged", 300), resolved("half/0001", "px_2", "not_charged", 0))
	answer, _, err := b.Head(t.Context())
	check(t, err)
	record := func(movement, id string, cents, corrects int64) {
		now = now.AddDate(0, 1, 0)
		b.add(fact.LedgerRecorded{Ref: ref("half/0001"), Movement: movement, AmountCents: cents, ProxyID: "px_1", Corrects: corrects, By: "ada", Reason: "looked", ID: id})
	}
	lacks := func(want string) {
		t.Helper()
		got := ""
		for _, x := range monthly(t, b.Ledger, 2026, 11).Outstanding {
			got += x.Later()
		}
		if got != want {
			t.Errorf("November lacks %q and not %q", got, want)
		}
	}
	record(fact.MovementRefund, "a", 300, answer-1)
	lacks("")
	record(fact.MovementCharge, "b", 300, 0)
	lacks("")
	record(fact.MovementCharge, "c", 50, 0)
	lacks("0.50 booked on 2027-01-30")
}

// Labels are distinguished by key and value, and the rows of each key add up to the month.
func TestTheLabelsOfAStatementAddUp(t *testing.T) {
	b := newBook(t)
	b.add(opened(10_000))
	for i, labels := range []map[string]string{{"a=b": "c"}, {"a": "b=c", "team": "x"}, {"team": "y"}, nil} {
		id := fmt.Sprintf("o%d/1", i)
		c, state := accepted(fact.KindOrder, id), orderState(id, "completed", int64(100<<i), 0)
		c.Labels, state.Labels = labels, labels
		b.add(c, sending(id, 1), fact.OrderAccepted{Ref: ref(id), OrderNo: state.OrderNo, NextAt: noon}, fact.OrderDelivered{OrderState: state})
	}
	s := monthly(t, b.Ledger, 2026, 11)
	sums, got := map[string]int64{}, ""
	for _, x := range s.Labels {
		sums[x.Name] += x.NetCents
		got += fmt.Sprintf("%s %d %d, ", x.Subject, x.Count, x.NetCents)
	}
	if want := `a=b=c 1 200, (without a) 3 1300, "a=b"=c 1 100, (without a=b) 3 1400, team=x 1 200, team=y 1 400, (without team) 2 900, `; got != want {
		t.Errorf("%s\nand not\n%s", got, want)
	}
	for name, sum := range sums {
		if sum != s.Orders.NetCents {
			t.Errorf("%s adds up to %d of %d", name, sum, s.Orders.NetCents)
		}
	}
	all, err := b.Money.TotalsBy(t.Context(), "label", 100)
	check(t, err)
	if all[0].Subject != "a=b=c" || all[2].Subject != `"a=b"=c` {
		t.Errorf("%+v", all)
	}
}

// Rows that book nothing may have any clock: they do not move a charge into another year.
func TestAClockFarAheadThatBooksNothingMovesNoMonth(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	b := bookAt(t, filepath.Join(t.TempDir(), "main.ledger.db"), func() time.Time { return now })
	b.add(opened(1000))
	now = now.AddDate(9, 0, 0)
	b.add(fact.RunnerStarted{Version: "test"})
	now = now.AddDate(-9, 0, 0)
	charge(b, "o1/1", 300)
	if s := monthly(t, b.Ledger, 2026, 11); s.Orders.ChargedCents != 300 || s.ClosingCents != 700 {
		t.Errorf("%+v", s)
	}
	b.verifiedAndRebuilt("a clock far ahead")
}

// Clocks jump over ends of months, runners with other clocks take over, rows are archived:
// the months add up, and their statements do not change.
func TestTheMonthsAddUpWhateverTheClocks(t *testing.T) {
	t.Parallel()
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n), "main.ledger.db")
		check(t, os.Mkdir(filepath.Dir(path), 0o700))
		now, skew := time.Date(2026, 10, 31, 23, 50, 0, 0, time.UTC), time.Duration(0)
		clock := func() time.Time { return now.Add(skew) }
		b := bookAt(t, path, clock)
		b.add(opened(10_000))
		m := &model{}
		steps := []func(*rapid.T){m.order, m.renewal, m.person, m.elsewhere, func(*rapid.T) { m.add(fact.RunnerStarted{Version: "test"}) }}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			skew = time.Duration(rapid.IntRange(-300, 300).Draw(rt, "skew")) * time.Second
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 2, 5, 600, 9 * 1440}).Draw(rt, "minutes")) * time.Minute)
			rapid.SampledFrom(steps).Draw(rt, "step")(rt)
			b.add(m.facts...)
			m.facts = nil
		}
		before := monthsAddUp(t, b.Ledger, now)
		b.verifiedAndRebuilt("live")
		var archives []string
		for range rapid.IntRange(1, 2).Draw(rt, "archivings") {
			seq, hash, err := b.Head(t.Context())
			check(t, errors.Join(err, b.Close()))
			x := Archive{Path: path, Before: now.Add(-time.Duration(rapid.IntRange(0, 3000).Draw(rt, "hours")) * time.Hour), Keep: 1,
				Clock: func() time.Time { return now.AddDate(0, 0, 8) }}
			x.Published = chain.Head{Seq: seq, Hash: hash}
			out, err := x.Run(t.Context())
			check(t, err)
			if out.File != "" {
				archives = append(archives, out.File)
			}
			b = bookAt(t, path, clock)
			if after := monthsAddUp(t, b.Ledger, now); after != before {
				rt.Fatalf("an archiving changed\n%s\nto\n%s", before, after)
			}
		}
		check(t, b.Close())
		checkWhole(t, path, archives)
	})
}
