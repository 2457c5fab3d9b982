package ledger

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

// projectionsOf dumps every projection of a ledger file.
func projectionsOf(t *testing.T, path string) string {
	t.Helper()
	_, all, _ := strings.Cut(tablesIn(t, path), "\nbinding\n")
	return all
}

// Whatever happened, and whenever it was archived, the ledger's sums are unchanged. Its
// tables equal a fold of all events, and the chain holds from the first row.
func TestAnyHistoryArchivedAtAnyTimesIsUnchanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		path := filepath.Join(dir, strconv.Itoa(n), "main.ledger.db")
		check(t, os.Mkdir(filepath.Dir(path), 0o700))
		clock := daily()
		m := &model{}
		m.add(opened(9000))
		steps := []func(*rapid.T){m.order, m.orderByPerson, m.renewal, m.renewal, m.person, m.person, m.elsewhere}
		var archives []string
		for range rapid.IntRange(1, 2).Draw(rt, "archivings") {
			for range rapid.IntRange(0, 6).Draw(rt, "steps") {
				rapid.SampledFrom(steps).Draw(rt, "step")(rt)
			}
			b := bookAt(t, path, clock)
			b.add(m.facts...)
			m.facts = nil
			before := money(t, b.Ledger)
			seq := b.balance().Head.Seq
			check(t, b.Close())
			out, err := archiveOf(t, path, rapid.Int64Range(1, seq+1).Draw(rt, "before")).Run(t.Context())
			if err != nil {
				rt.Fatal(err)
			}
			if out.File != "" {
				archives = append(archives, out.File)
			}
			b = bookAt(t, path, clock)
			if after := money(t, b.Ledger); after != before {
				rt.Fatalf("it said\n%s\nand says\n%s", before, after)
			}
			check(t, b.Close())
		}
		checkWhole(t, path, archives)
	})
}

// checkWhole proves an archived ledger, with its archives, against itself and against the
// events, which survive a lost disk.
func checkWhole(t *testing.T, path string, archives []string) {
	t.Helper()
	b := bookAt(t, path, ticking())
	defer func() { check(t, b.Close()) }()
	v, err := b.VerifyWith(t.Context(), archives...)
	check(t, err)
	if v.Behind != nil || v.Rows != b.balance().Head.Seq {
		t.Fatalf("%+v of %+v", v, b.balance().Head)
	}
	events := everyEvent(t, b)
	if a, err := b.VerifyAgainst(t.Context(), stream(events)); err != nil || a.Published != v.Head.Seq || a.Unpublished != 0 {
		t.Fatalf("%+v %v", a, err)
	}
	x := restore(t, "", events)
	fold := filepath.Join(t.TempDir(), "fold.db")
	check(t, x.foldEvents(t.Context(), fold, false, &Restored{}))
	if projectionsOf(t, fold) != projectionsOf(t, path) {
		t.Fatal("a fold of all events gives other tables")
	}
}

// everyEvent returns all events of a ledger whose archives are next to it.
func everyEvent(t *testing.T, b *book) (events [][]byte) {
	t.Helper()
	for head := b.balance().Head.Seq; int64(len(events)) < head; {
		rows, err := b.Rows(t.Context(), int64(len(events)), 1000)
		check(t, err)
		for _, r := range rows {
			event, err := r.Event("main")
			check(t, err)
			events = append(events, event)
		}
	}
	return events
}

// A ledger rebuilt from the events holds all rows, and may be archived again.
func TestALedgerFromEventsCanBeArchivedAgain(t *testing.T) {
	t.Parallel()
	path, archives := archivedTwice(t)
	b := openBook(t, path)
	events := everyEvent(t, b)
	before := money(t, b.Ledger)
	x := restore(t, "", events)
	_, err := x.Run(t.Context())
	check(t, err)
	restored := openBook(t, x.Path)
	if begins, _ := restored.Begins(); begins != nil {
		t.Errorf("it begins behind %+v", begins)
	}
	if money(t, restored.Ledger) != before {
		t.Error("it says other things of money")
	}
	if v, err := restored.VerifyWith(t.Context(), archives...); err != nil || v.Behind != nil {
		t.Errorf("with the archives of the one before: %+v %v", v, err)
	}
	restored.add(fact.AccountResumed{Scope: "account", Cause: CauseRestored})
	check(t, restored.Close())
	out, err := archiveOf(t, x.Path, 60).Run(t.Context())
	if err != nil || out.FirstSeq != 1 || out.LastSeq != 59 {
		t.Fatalf("%+v %v", out, err)
	}
	checkWhole(t, x.Path, []string{out.File})
}

// A backup of an archived ledger, or one from before the archiving, is restored with later
// events.
func TestABackupAroundAnArchivingIsRestoredWithEvents(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	b := oldBook(t, path, append(history(), over()...)...)
	older := filepath.Join(t.TempDir(), "older.db")
	_, err := b.Backup(t.Context(), older, false)
	check(t, errors.Join(err, b.Close()))
	_, err = archiveOf(t, path, 60).Run(t.Context())
	check(t, err)
	b = openBook(t, path)
	newer := filepath.Join(t.TempDir(), "newer.db")
	_, err = b.Backup(t.Context(), newer, false)
	check(t, err)
	b.add(fact.LedgerRecorded{Movement: "top-up", AmountCents: 5, By: "ada", Reason: "card"})
	want := money(t, b.Ledger)
	rows, err := b.Rows(t.Context(), 59, 1000)
	check(t, err)
	for _, from := range []string{older, newer} {
		x := restore(t, from, nil)
		x.Events = func(first int64) iter.Seq2[[]byte, error] {
			return func(yield func([]byte, error) bool) {
				for _, r := range rows[first-60:] {
					if event, err := r.Event("main"); !yield(event, err) {
						return
					}
				}
			}
		}
		out, err := x.Run(t.Context())
		check(t, err)
		restored := openBook(t, x.Path)
		if !out.Proven || money(t, restored.Ledger) != want {
			t.Errorf("from %s: %+v", filepath.Base(from), out)
		}
		if _, err := restored.Verify(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// The events form one chain and prove archived rows without the archive.
func TestEventsOfArchivedRowsAreComparedWithoutTheArchive(t *testing.T) {
	t.Parallel()
	path, archives := archivedTwice(t)
	b := openBook(t, path)
	events := everyEvent(t, b)
	check(t, b.Close())
	for _, a := range archives {
		check(t, os.Remove(a))
	}
	b = openBook(t, path)
	if a, err := b.VerifyAgainst(t.Context(), stream(events)); err != nil || a.Published != int64(len(events)) {
		t.Errorf("%+v %v", a, err)
	}
	other := published(t, oldBook(t, filepath.Join(t.TempDir(), "x.db"), append([]fact.Fact{opened(7)}, history()[1:]...)...).Ledger)
	var broken *chain.BrokenError
	for name, told := range map[string][][]byte{
		"another history":             other[:59],
		"another from the middle on":  append(slices.Clone(events[:20]), other[20:]...),
		"one that ends in the middle": events[:30],
		"one event missing":           append(slices.Clone(events[:10]), events[11:]...),
	} {
		if _, err := b.VerifyAgainst(t.Context(), stream(told)); !errors.As(err, &broken) || broken.Check != "events" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
