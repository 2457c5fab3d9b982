package ledger

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/report"
)

// monthly returns a month's statement, as the command requests it.
func monthly(t *testing.T, l *Ledger, year int, month time.Month) *report.Statement {
	t.Helper()
	from := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	s, err := l.Report().Statement(t.Context(), "main", report.Period{From: from, To: from.AddDate(0, 1, 0)})
	check(t, err)
	return s
}

// sparse returns a ledger with a movable clock, so that months have no row, one, or many.
func sparse(t *testing.T) (b *book, now *time.Time) {
	t.Helper()
	now = new(time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC))
	b = bookAt(t, filepath.Join(t.TempDir(), "main.ledger.db"), func() time.Time { return *now })
	b.add(opened(5000))
	for _, next := range []time.Time{
		time.Date(2026, 1, 31, 23, 59, 59, 999_999_000, time.UTC), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 5, 3, 0, 0, 0, 0, time.UTC), time.Date(2026, 5, 30, 0, 0, 0, 0, time.UTC), time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC),
	} {
		*now = next
		b.add(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "card"}, fact.RunnerStarted{Version: "test"}) // the last books nothing
	}
	return b, now
}

func TestAStatementsHeadIsTheLastRowBeforeItsEnd(t *testing.T) {
	t.Parallel()
	b, now := sparse(t)
	want := map[time.Month]int64{1: 3, 2: 5, 3: 5, 4: 5, 5: 9, 6: 9, 7: 9, 8: 11}
	heads := map[time.Month]chain.Head{}
	same := func(l *Ledger, after string) {
		t.Helper()
		for month, seq := range want {
			s := monthly(t, l, 2026, month)
			if s.Head.Seq != seq || s.HeadNote != "" || len(s.Head.Hash) != 64 || s.Head.Hash == chain.Genesis || (after != "" && month != 8 && s.Head != heads[month]) {
				t.Errorf("%s the head of month %d is %+v %s", after, month, s.Head, s.HeadNote)
			}
			if after == "" {
				heads[month] = s.Head
			}
		}
		if s := monthly(t, l, 2025, 12); s.Head.Seq != 0 || s.HeadNote == "" {
			t.Errorf("%s a month before the ledger has the head %+v", after, s.Head)
		}
	}
	same(b.Ledger, "")
	for _, before := range []time.Time{time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 5, 15, 0, 0, 0, 0, time.UTC), time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)} {
		path := b.path
		seq, hash, err := b.Head(t.Context())
		check(t, errors.Join(err, b.Close()))
		x := Archive{Path: path, Before: before, Clock: func() time.Time { return now.AddDate(1, 0, 0) }, Keep: 1}
		x.Published.Seq, x.Published.Hash = seq, hash
		out, err := x.Run(t.Context())
		check(t, err)
		if out.File == "" {
			t.Fatalf("nothing was archived: %+v", out)
		}
		b = bookAt(t, path, func() time.Time { return *now })
		same(b.Ledger, before.Format(time.DateOnly))
		_, err = b.Verify(t.Context())
		check(t, err)
	}
}

func TestAnUnfinishedMonthSaysSo(t *testing.T) {
	b, now := sparse(t)
	*now = time.Date(2026, 8, 22, 5, 6, 7, 0, time.UTC)
	var md, page strings.Builder
	s := monthly(t, b.Ledger, 2026, 8)
	check(t, errors.Join(s.WriteMarkdown(&md), s.WriteHTML(&page)))
	for _, text := range []string{md.String(), page.String()} {
		if !strings.Contains(text, "until 2026-08-22T05:06:07Z (UTC), the month is not finished") || strings.Contains(text, "2026-08-31") {
			t.Error(text)
		}
	}
	if s.Finished || s.Until == nil || !s.Until.Equal(*now) {
		t.Errorf("%+v", s)
	}
	if s := monthly(t, b.Ledger, 2026, 7); !s.Finished || s.Until != nil {
		t.Errorf("%+v", s)
	}
}
