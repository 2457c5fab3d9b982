package ledger

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
)

func refusal(id, hash string) fact.CommandRejected {
	return fact.CommandRejected{Ref: fact.Ref{CommandID: id}, ContentHash: hash, Code: fact.RejectedInvalid, Reason: "no"}
}

// isRefused queries like the intake.
func (b *book) isRefused(id, hash string) (before bool, contents int64) {
	b.t.Helper()
	check(b.t, b.Write(b.t.Context(), func(tx *Tx) (err error) { before, contents, err = tx.RefusedContent(id, hash); return err }))
	again, err := b.RefusedContent(b.t.Context(), id, hash)
	check(b.t, err)
	if again != before {
		b.t.Errorf("%s of %s is refused: %v inside a write and %v outside", hash, id, before, again)
	}
	return before, contents
}

func TestRefusedContentsAreKnownAgain(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), accepted(fact.KindOrder, "o/1"), fact.CommandConflict{Ref: fact.Ref{CommandID: "o"}, ContentHash: "x"})
	for i := range MaxRefusals + 8 {
		b.add(refusal("a", fmt.Sprint(i)))
	}
	for _, c := range []struct {
		id, hash string
		before   bool
		contents int64
	}{{"a", "0", true, MaxRefusals}, {"a", "39", true, MaxRefusals}, {"a", "40", false, MaxRefusals}, {"o", "x", true, 1}, {"o", "0", false, 1}, {"b", "0", false, 0}} {
		if before, contents := b.isRefused(c.id, c.hash); before != c.before || contents != c.contents {
			t.Errorf("%s of %s: %v, %d contents", c.hash, c.id, before, contents)
		}
	}
}

func TestWhatWasRefusedInAnArchivedYearIsKnownAgain(t *testing.T) {
	facts := append([]fact.Fact{opened(1000), refusal("bad", "h1"), refusal("bad", "h2")}, renewals()[:3]...)
	facts = append(facts, fact.CommandConflict{Ref: fact.Ref{CommandID: "r1"}, ContentHash: "other"})
	for range 200 {
		facts = append(facts, fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "card"})
	}
	b := oldBook(t, filepath.Join(t.TempDir(), "main.ledger.db"), facts...)
	check(t, b.Close())
	_, err := archiveOf(t, b.path, 100).Run(t.Context())
	check(t, err)
	after := openBook(t, b.path)
	var left int
	check(t, after.read.QueryRowContext(t.Context(), `SELECT count(*) FROM journal WHERE type = 'command.conflict' OR type = 'command.rejected'`).Scan(&left))
	if left != 0 {
		t.Fatalf("%d of the refusals were not archived", left)
	}
	for hash, id := range map[string]string{"h1": "bad", "h2": "bad", "other": "r1"} {
		if before, _ := after.isRefused(id, hash); !before {
			t.Errorf("content %s of %s is forgotten", hash, id)
		}
	}
}

func TestOneFactNamesABoundedNumberOfReasons(t *testing.T) {
	one := fact.SkippedProxy{ProxyID: "px", Reason: "it was retired", ExpiresAt: at(time.Hour)}
	if f := fact.Skipped(ref("r/1"), []fact.SkippedProxy{one}, "x"); len(f) != 1 || f[0].(fact.ProxySkipped).ProxyID != "px" || f[0].(fact.ProxySkipped).Skipped != nil {
		t.Errorf("%+v", f)
	}
	if f := fact.Skipped(ref("r/1"), nil, "x"); f != nil {
		t.Errorf("%+v", f)
	}
	for size, named := range map[int]int{10: 16, 300: 3} {
		var left []fact.SkippedProxy
		for i := range 200 {
			left = append(left, fact.SkippedProxy{ProxyID: fmt.Sprint("px_", i), Reason: fmt.Sprintf("%0*d", size, i%50), ExpiresAt: at(time.Duration(i) * time.Hour)})
		}
		f, _ := fact.Skipped(ref("r/1"), left, "another")[0].(fact.ProxySkipped)
		if len(f.Skipped) != named+1 || f.Skipped[named].Reason != "another" || len(f.Skipped[0].ProxyIDs) != 4 {
			t.Errorf("%d reasons of %d bytes are named: %+v", len(f.Skipped), size, f.Skipped)
		}
		all := f.Proxies()
		slices.SortFunc(all, func(a, b fact.SkippedProxy) int { return a.ExpiresAt.Compare(*b.ExpiresAt) })
		for i, x := range all {
			if x.ProxyID != left[i].ProxyID || !x.ExpiresAt.Equal(*left[i].ExpiresAt) || x.Reason != left[i].Reason && x.Reason != "another" {
				t.Fatalf("%+v was %+v", x, left[i])
			}
		}
		if len(all) != len(left) || strings.Count(fmt.Sprint(f), "another") != 1 {
			t.Errorf("%d of %d proxies", len(all), len(left))
		}
	}
}

func TestSeveralProxiesAreLeftOutByOneFact(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), accepted(fact.KindRenewal, "r/0001", "px_1", "px_2", "px_3", "px_4"))
	b.add(fact.Skipped(ref("r/0001"), []fact.SkippedProxy{{ProxyID: "px_1", Reason: "a"}, {ProxyID: "px_3", Reason: "b", ExpiresAt: at(time.Hour)}, {ProxyID: "px_4", Reason: "a"}}, "x")...)
	lines, err := b.Operations.Lines(t.Context(), "r/0001")
	check(t, err)
	for _, l := range lines {
		if want := map[bool]string{true: "pending", false: "skipped"}[l.ProxyID == "px_2"]; string(l.State) != want {
			t.Errorf("%s is %s", l.ProxyID, l.State)
		}
	}
	b.add(accepted(fact.KindRenewal, "s/0001", "px_1", "px_3", "px_4")) // free again
}
