package ledger

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// events is an events stream, and the snapshots stored with it.
type events struct {
	all       [][]byte // from row 1 on
	first     int64    // first event that still exists
	snapshots map[Snapshot][]byte
}

func (e *events) from(first int64) iter.Seq2[[]byte, error] {
	return stream(e.all[min(max(first, e.first)-1, int64(len(e.all))):])
}

// publish brings the stream up to the ledger.
func (e *events) publish(t testing.TB, l *Ledger) {
	t.Helper()
	rows, err := l.Rows(context.Background(), int64(len(e.all)), 1<<30)
	check(t, err)
	for _, r := range rows {
		event, err := r.Event("main")
		check(t, err)
		e.all = append(e.all, event)
	}
}

// bound stores the ledger's first snapshot and removes events up to it, like `ledger
// archive`. held is an event that a consumer needs, 0 for none.
func (e *events) bound(t testing.TB, b *book, held int64) {
	t.Helper()
	s := b.Snapshot()
	if s == nil {
		return
	}
	var content bytes.Buffer
	check(t, b.WriteSnapshot(context.Background(), &content))
	check(t, CheckSnapshot(bytes.NewReader(content.Bytes()), *s))
	first := s.Seq + 1
	if held > 0 {
		first = min(first, held)
	}
	if first <= e.first {
		return
	}
	b.add(fact.LedgerBounded{FirstSeq: first, LastSeq: s.Seq, LastHash: s.Hash, SnapshotHash: s.SnapshotHash, Bucket: "b", Object: "o"})
	e.publish(t, b.Ledger)
	e.snapshots, e.first = map[Snapshot][]byte{*s: content.Bytes()}, first
}

// restoring returns a restore from the stream, with the newest snapshot that it vouches
// for.
func (e *events) restoring(t testing.TB, from string) Restore {
	t.Helper()
	x := Restore{Path: filepath.Join(t.TempDir(), "main.ledger.db"), From: from, Clock: daily(), AppID: "app", Events: e.from}
	vouched, err := VouchedSnapshots(e.from(1))
	check(t, err)
	for _, s := range vouched {
		if content, ok := e.snapshots[s]; ok && e.first > 1 {
			x.Snapshot, x.Content = &s, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
		}
	}
	return x
}

// archivedAndBounded returns a ledger whose first rows were archived and whose events begin
// after them.
func archivedAndBounded(t *testing.T, before, held int64) (*book, *events) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	b := oldBook(t, path, historyOf(7)...)
	e := &events{first: 1}
	e.publish(t, b.Ledger)
	check(t, b.Close())
	_, err := archiveOf(t, path, before).Run(t.Context())
	check(t, err)
	b = openBook(t, path)
	e.publish(t, b.Ledger)
	e.bound(t, b, held)
	return b, e
}

func TestALedgerFromABoundedStreamHasEveryTable(t *testing.T) {
	t.Parallel()
	for held, first := range map[int64]int64{0: 60, 40: 40} {
		b, e := archivedAndBounded(t, 60, held)
		if begin, err := b.EventsBegin(t.Context()); err != nil || begin != first || e.first != first {
			t.Fatalf("the stream begins with %d, by the ledger with %d: %v", e.first, begin, err)
		}
		if a, err := b.VerifyAgainst(t.Context(), e.from(1)); err != nil || a.Removed != first-1 || a.Published != int64(len(e.all))-first+1 || a.Unpublished != 0 {
			t.Errorf("%+v %v", a, err)
		}
		x := e.restoring(t, "")
		fold := filepath.Join(t.TempDir(), "fold.db")
		var out Restored
		check(t, x.foldEvents(t.Context(), fold, false, &out))
		if tablesIn(t, fold) != tablesIn(t, b.path) {
			t.Error("the tables are not those of the ledger that was lost")
		}
		if out.Head != b.balance().Head || !out.Proven || out.Snapshot == nil || out.Snapshot.Seq != 59 {
			t.Errorf("%+v", out)
		}
		_, err := x.Run(t.Context())
		check(t, err)
		restored := openBook(t, x.Path)
		if v, err := restored.Verify(t.Context()); err != nil || v.Behind == nil || v.Behind.Seq != 59 {
			t.Errorf("%+v %v", v, err)
		}
		if a, err := restored.VerifyAgainst(t.Context(), e.from(1)); err != nil || a.Unpublished != 2 {
			t.Errorf("%+v %v", a, err)
		}
		if money(t, restored.Ledger) != money(t, b.Ledger) {
			t.Error("it says other things of money")
		}
	}
}

func TestEventsThatAnotherProgramRemovedAreMissed(t *testing.T) {
	t.Parallel()
	b, e := archivedAndBounded(t, 60, 0)
	e.first = 61
	var broken *chain.BrokenError
	if _, err := b.VerifyAgainst(t.Context(), e.from(1)); !errors.As(err, &broken) || broken.Check != "events" || broken.Seq != 60 {
		t.Errorf("one too many: %v", err)
	}
	if _, err := e.restoring(t, "").Run(t.Context()); !errors.As(err, &broken) || broken.Seq != 61 || !strings.Contains(err.Error(), "another program") {
		t.Errorf("a restore: %v", err)
	}
	older := oldBook(t, filepath.Join(t.TempDir(), "x.db"), historyOf(7)...)
	e.first = 60
	if _, err := older.VerifyAgainst(t.Context(), e.from(1)); !errors.As(err, &broken) || broken.Seq != 1 {
		t.Errorf("an earlier file: %v", err)
	}
}

// The check runs before the existing file is closed.
func TestALedgerOfAnotherAccountIsNotReplaced(t *testing.T) {
	b, e := archivedAndBounded(t, 30, 0)
	bound, err := b.Binding(t.Context())
	check(t, err)
	for name, change := range map[string]func(*fact.Binding){
		"account":     func(x *fact.Binding) { x.AccountID = "acc_other" },
		"environment": func(x *fact.Binding) { x.Environment = "production" },
		"address":     func(x *fact.Binding) { x.BaseURL = "https://other.example" },
		"none":        func(*fact.Binding) {},
	} {
		t.Run(name, func(t *testing.T) {
			x := e.restoring(t, "")
			closed := false
			x.Follows, x.Replace, x.Replaces, x.Replacing = true, true, bound, func() error { closed = true; return nil }
			change(&x.Replaces)
			_, err := x.Run(t.Context())
			if name == "none" {
				if err != nil || !closed {
					t.Errorf("%v, closed %v", err, closed)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "it is left as it is") || closed || exists(x.Path) {
				t.Errorf("%v, closed %v", err, closed)
			}
		})
	}
}

func TestABackupIsContinuedWhereItReachesTheStream(t *testing.T) {
	t.Parallel()
	b, e := archivedAndBounded(t, 60, 0)
	want := money(t, b.Ledger)
	all := historyOf(7)
	for rows, whole := range map[int]bool{58: false, 59: true, 60: true} {
		backup := oldBook(t, filepath.Join(t.TempDir(), "backup.db"), all[:rows]...)
		x := e.restoring(t, backup.path)
		_, err := x.Run(t.Context())
		var broken *chain.BrokenError
		if !whole {
			if !errors.As(err, &broken) || broken.Seq != 60 || !strings.Contains(err.Error(), "--from-events") || !strings.Contains(err.Error(), "row 59 or later") {
				t.Errorf("%d rows: %v", rows, err)
			}
			continue
		}
		check(t, err)
		restored := openBook(t, x.Path)
		if money(t, restored.Ledger) != want {
			t.Errorf("%d rows: it says other things of money", rows)
		}
	}
}

func TestASnapshotThatNoEventVouchesForRestoresNothing(t *testing.T) {
	t.Parallel()
	b, e := archivedAndBounded(t, 60, 0)
	x := e.restoring(t, "")
	var broken *chain.BrokenError
	for name, change := range map[string]func(){
		"a changed one":  func() { x.Snapshot = &Snapshot{Head: b.Snapshot().Head, SnapshotHash: chain.Genesis} },
		"one of no fact": func() { forgeSnapshot(t, b, &x) },
		"none":           func() { x.Snapshot = nil },
	} {
		x = e.restoring(t, "")
		change()
		if _, err := x.Run(t.Context()); !errors.As(err, &broken) {
			t.Errorf("%s: %v", name, err)
		}
		holdsOnly(t, filepath.Dir(x.Path))
	}
}

// forgeSnapshot gives a restore an intact snapshot of another history.
func forgeSnapshot(t *testing.T, b *book, x *Restore) {
	t.Helper()
	var parts []chunk
	var content bytes.Buffer
	check(t, b.WriteSnapshot(t.Context(), &content))
	_, err := readSnapshot(bytes.NewReader(content.Bytes()), *b.Snapshot(), func(c chunk) error {
		c.rows = bytes.ReplaceAll(c.rows, []byte(`"bought in the shop"`), []byte(`"something"`))
		if c.table == "binding" {
			c.rows = bytes.Replace(c.rows, []byte(`USD`), []byte(`EUR`), 1)
		}
		parts = append(parts, c)
		return nil
	})
	check(t, err)
	sum := newSnapshotSum()
	for _, c := range parts {
		sum.add(c)
	}
	x.Snapshot.SnapshotHash = sum.text()
	forged := filepath.Join(t.TempDir(), "forged.db")
	f, err := newFold(t.Context(), forged, false)
	check(t, err)
	check(t, f.begin(func() (*tables.Base, error) {
		for _, c := range parts {
			check(t, f.put(c))
		}
		base := &tables.Base{Head: x.Snapshot.Head, SnapshotHash: sum.text()}
		return base, f.load(base)
	}))
	check(t, f.close())
	l, err := Open(t.Context(), Config{Path: forged, Clock: daily(), ReadOnly: true})
	check(t, err)
	var written bytes.Buffer
	check(t, errors.Join(l.WriteSnapshot(t.Context(), &written), l.Close()))
	x.Content = func() (io.ReadCloser, error) { return io.NopCloser(&written), nil }
}

func TestATornOrChangedSnapshotIsNotReadAsWhole(t *testing.T) {
	b, _ := archivedAndBounded(t, 60, 0)
	var content bytes.Buffer
	check(t, b.WriteSnapshot(t.Context(), &content))
	var broken *chain.BrokenError
	for n := range 40 {
		torn := content.Bytes()[:content.Len()*n/40]
		if err := CheckSnapshot(bytes.NewReader(torn), *b.Snapshot()); !errors.As(err, &broken) || broken.Check != "snapshot" {
			t.Errorf("%d of %d bytes: %v", len(torn), content.Len(), err)
		}
	}
	plain, err := gzip.NewReader(bytes.NewReader(content.Bytes()))
	check(t, err)
	text, err := io.ReadAll(plain)
	check(t, err)
	var changed bytes.Buffer
	packed := gzip.NewWriter(&changed)
	_, err = packed.Write(bytes.Replace(text, []byte(`USD`), []byte(`EUR`), 1))
	check(t, errors.Join(err, packed.Close()))
	if err := CheckSnapshot(&changed, *b.Snapshot()); !errors.As(err, &broken) || !strings.Contains(err.Error(), "changed") {
		t.Errorf("another currency: %v", err)
	}
}

// Whatever happened, whenever it was archived and however far the stream was bounded, the
// stream and its snapshot give the ledger again, table by table.
func TestAnyHistoryBoundedAtAnyTimesIsRestoredUnchanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		path := filepath.Join(dir, strconv.Itoa(n), "main.ledger.db")
		check(t, os.Mkdir(filepath.Dir(path), 0o700))
		clock := daily()
		e := &events{first: 1}
		m := &model{}
		m.add(opened(9000))
		steps := []func(*rapid.T){m.order, m.orderByPerson, m.renewal, m.renewal, m.person, m.person, m.elsewhere}
		for range rapid.IntRange(1, 3).Draw(rt, "archivings") {
			for range rapid.IntRange(0, 6).Draw(rt, "steps") {
				rapid.SampledFrom(steps).Draw(rt, "step")(rt)
			}
			b := bookAt(t, path, clock)
			b.add(m.facts...)
			m.facts = nil
			e.publish(t, b.Ledger)
			seq := b.balance().Head.Seq
			check(t, b.Close())
			if _, err := archiveOf(t, path, rapid.Int64Range(1, seq+1).Draw(rt, "before")).Run(t.Context()); err != nil {
				rt.Fatal(err)
			}
			b = bookAt(t, path, clock)
			e.publish(t, b.Ledger)
			if rapid.Bool().Draw(rt, "bounded") {
				e.bound(t, b, rapid.Int64Range(0, seq).Draw(rt, "held"))
			}
			_, err := b.Verify(t.Context())
			check(t, err)
			if a, err := b.VerifyAgainst(t.Context(), e.from(1)); err != nil || a.Removed != e.first-1 || a.Published != int64(len(e.all))-a.Removed || a.Unpublished != 0 {
				rt.Fatalf("%+v %v", a, err)
			}
			check(t, b.Close())
		}
		x := e.restoring(t, "")
		fold := filepath.Join(t.TempDir(), "fold.db")
		var out Restored
		check(t, x.foldEvents(t.Context(), fold, false, &out))
		if projectionsOf(t, fold) != projectionsOf(t, path) || !out.Proven {
			rt.Fatalf("the stream from %d on and the snapshot give other tables", e.first)
		}
	})
}

// One archiving appends two facts, which no unfinished work keeps. They must not cause another
// archive.
func TestFewRowsMakeNoArchive(t *testing.T) {
	t.Parallel()
	facts := []fact.Fact{opened(1)}
	for range 300 {
		facts = append(facts, fact.ProxyExpired{ProxyID: "px", ExpiresAt: noon})
	}
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	check(t, oldBook(t, path, facts...).Close())
	for _, test := range []struct{ before, last int64 }{{100, 99}, {101, 0}, {102, 101}} {
		x := archiveOf(t, path, test.before)
		x.Keep = 128
		out, err := x.Run(t.Context())
		if err != nil || out.LastSeq != test.last {
			t.Errorf("before row %d: %+v %v", test.before, out, err)
		}
	}
}
