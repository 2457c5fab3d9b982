package ledger

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// Storing many rows with one statement gives the same rows as storing each separately,
// wherever a group of facts ends.
func TestRowsStoredTogetherAreTheRowsStoredSingly(t *testing.T) {
	t.Parallel()
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m := &model{wallet: 9000}
		m.add(opened(9000))
		steps := []func(*rapid.T){m.order, m.orderByPerson, m.renewal, m.renewal, m.renewal, m.person, m.elsewhere}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			rapid.SampledFrom(steps).Draw(rt, "step")(rt)
		}
		facts := m.facts
		if rapid.Bool().Draw(rt, "any") {
			facts = history()
		}
		b := openBook(t, filepath.Join(dir, fmt.Sprintf("%d.db", n)))
		defer func() { _ = b.Close() }()
		for len(facts) > 0 {
			part := facts[:rapid.IntRange(1, len(facts)).Draw(rt, "facts together")]
			finishing := rapid.Bool().Draw(rt, "finishing")
			err := b.Write(t.Context(), func(tx *Tx) error { tx.finishing = finishing; return tx.Append(part...) })
			if err != nil {
				rt.Fatal(err)
			}
			facts = facts[len(part):]
		}
		rows, err := b.Rows(t.Context(), 0, 10_000)
		if err != nil {
			rt.Fatal(err)
		}
		folded := func(name string, singly bool, ends func() bool) string {
			path := filepath.Join(dir, fmt.Sprintf("%d-%s.db", n, name))
			f, err := newFold(t.Context(), path, singly)
			if err != nil {
				rt.Fatal(err)
			}
			grouped := func(yield func(chain.Row, error) bool) {
				for _, r := range rows {
					if !yield(r, nil) {
						return
					}
				}
			}
			if ends == nil {
				_, err = f.replay(grouped)
			} else {
				err = replayInGroups(f, grouped, ends)
			}
			if err := errors.Join(err, f.close()); err != nil {
				rt.Fatalf("%s: %v", name, err)
			}
			return projectionsOf(t, path)
		}
		live, singly := projectionsOf(t, b.path), folded("singly", true, nil)
		groups := folded("groups", false, func() bool { return rapid.IntRange(0, 4).Draw(rt, "ends") == 0 })
		for name, got := range map[string]string{"live": live, "one group": folded("together", false, nil), "groups": groups} {
			if got != singly {
				rt.Fatalf("%s: other tables than with a statement a row", name)
			}
		}
	})
}

// replayInGroups folds rows, and writes what is held back where a group ends.
func replayInGroups(f *fold, rows iter.Seq2[chain.Row, error], ends func() bool) error {
	tx := newTx(f.w, 0)
	if err := f.w.exec(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	for r, err := range rows {
		if err != nil {
			return err
		}
		data, err := factOf(r)
		if err != nil {
			return err
		}
		if err := errors.Join(tx.insert(r), tx.applyAt(r, data)); err != nil {
			return err
		}
		if ends() {
			if err := f.w.writeProjected(); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(f.w.writeHeld(), f.w.flushTotals()); err != nil {
		return err
	}
	return f.w.exec(`COMMIT`)
}

// forgedOf returns a ledger whose chain holds and whose facts no runner would append.
func forgedOf(t *testing.T, facts ...fact.Fact) *book {
	t.Helper()
	forged := newBook(t)
	check(t, forged.Close())
	f, err := newFold(t.Context(), forged.path, false)
	check(t, err)
	tx := newTx(f.w, 0)
	for i, x := range facts {
		data, err := f.w.encode(x)
		check(t, err)
		r := chain.Row{Seq: int64(i + 1), Type: x.FactType(), Time: sqlite.Micros(noon), Operation: x.Subject(), Data: data, PrevHash: f.w.head.Hash}
		_, r.Hash = chain.Hash(nil, r)
		check(t, tx.insert(r))
		f.w.head = r.Head()
	}
	check(t, errors.Join(f.w.writeHeld(), f.close()))
	return openBook(t, forged.path)
}

// Facts that are refused one by one are also refused in a group, and a verification names the
// first of them.
func TestAVerificationNamesTheFactThatIsRefusedAmongMany(t *testing.T) {
	t.Parallel()
	tooMuch := settled("a/0001", "completed", line("px_1", "failed", 300, 400))
	for _, row := range []struct {
		name  string
		seq   int64
		facts []fact.Fact
	}{
		{"a claim of a claimed proxy", 4, []fact.Fact{
			accepted(fact.KindRenewal, "a/0001", "px_1"), sending("a/0001", 1), accepted(fact.KindRenewal, "b/0001", "px_1"),
			settled("a/0001", "completed", line("px_1", "succeeded", 300, 0)),
		}},
		{"an arrow that is not drawn", 3, []fact.Fact{
			accepted(fact.KindRenewal, "a/0001", "px_1"), settled("a/0001", "completed", line("px_1", "succeeded", 300, 0)),
		}},
		{"a refund over its charge", 4, []fact.Fact{accepted(fact.KindRenewal, "a/0001", "px_1"), sending("a/0001", 1), tooMuch}},
		{"a command accepted twice", 3, []fact.Fact{accepted(fact.KindOrder, "a/1"), accepted(fact.KindOrder, "a/2")}},
		{"an operation planned twice", 3, []fact.Fact{
			accepted(fact.KindOrder, "a/1"), resolved("a/1", "", "not_charged", 0, planned("a/1", 2)),
		}},
		{"an operation without its command", 2, []fact.Fact{sending("a/0001", 1)}},
	} {
		facts := append(append([]fact.Fact{opened(1000)}, row.facts...), fact.RunnerStarted{Version: "1"}, accepted(fact.KindOrder, "z/1"))
		b := forgedOf(t, facts...)
		_, err := b.Verify(t.Context())
		broken, ok := errors.AsType[*chain.BrokenError](err)
		if !ok || broken.Check != "fold" || broken.Seq != row.seq {
			t.Errorf("%s: row %d is to be named: %v", row.name, row.seq, err)
		}
		if _, err := b.Rebuild(t.Context(), b.path+".again"); !errors.As(err, &broken) || broken.Seq != row.seq {
			t.Errorf("%s: a rebuild says %v", row.name, err)
		}
	}
}

// The unique index sees claims in the order of their facts, although it sees some late.
func TestClaimsAreArbitratedInTheOrderOfTheirFacts(t *testing.T) {
	t.Parallel()
	first := []fact.Fact{accepted(fact.KindRenewal, "a/0001", "px_1"), sending("a/0001", 1)}
	for name, end := range map[string]fact.Fact{
		"settled":  settled("a/0001", "completed", line("px_1", "succeeded", 300, 0)),
		"rejected": fact.CommandRejected{Ref: ref("a/0001"), Code: "c", Reason: "r"},
		"skipped":  fact.ProxySkipped{Ref: ref("a/0001"), ProxyID: "px_1", Reason: "not due"},
	} {
		for _, written := range []bool{true, false} {
			b := newBook(t)
			b.add(opened(1000))
			facts := []fact.Fact{accepted(fact.KindRenewal, "b/0001", "px_1"), end}
			if written {
				b.add(first...)
			} else {
				facts = append(first[:2:2], facts...)
			}
			if err := b.tryAdd(facts...); !errors.Is(err, ErrClaimed) {
				t.Errorf("%s, first one written %t: %v", name, written, err)
			}
			check(t, b.Close())
		}
	}
}

// An operation that begins and ends in one write takes only allowed transitions.
func TestAHeldBackOperationFollowsTheArrows(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.add(opened(1000))
	err := b.tryAdd(accepted(fact.KindRenewal, "a/0001", "px_1"), settled("a/0001", "completed", line("px_1", "succeeded", 300, 0)))
	if _, ok := errors.AsType[*UnrecordableError](err); !ok || !strings.Contains(err.Error(), "state-machine.md") {
		t.Errorf("%v", err)
	}
}

// A read of one proxy sees the proxy's own held-back rows, and leaves those of others
// unwritten.
func TestAReadOfAProxyWritesOnlyItsOwnLines(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.add(opened(1000))
	check(t, b.Write(t.Context(), func(tx *Tx) error {
		return tx.Observe(0, tables.Proxy{ProxyID: "px_1", ExpiresAt: at(time.Hour), SeenAt: noon}, tables.Proxy{ProxyID: "px_2", ExpiresAt: at(time.Hour), SeenAt: noon})
	}))
	check(t, b.Write(t.Context(), func(tx *Tx) error {
		check(t, tx.Append(accepted(fact.KindRenewal, "a/0001", "px_1"), sending("a/0001", 1)))
		if _, known, err := tx.SeenExpiry("px_2"); err != nil || !known {
			t.Errorf("px_2 is not known: %v", err)
		}
		check(t, tx.Stale("px_2"))
		if holder, err := tx.Claimant("px_2"); err != nil || holder != "" {
			t.Errorf("px_2 is held by %q: %v", holder, err)
		}
		if len(tx.w.held.born) != 1 {
			t.Error("px_1's operation was written for px_2")
		}
		check(t, tx.Append(settled("a/0001", "completed", line("px_1", "succeeded", 300, 0))))
		if _, known, err := tx.SeenExpiry("px_1"); err != nil || known {
			t.Errorf("px_1 was renewed, and its expiry is still known: %v", err)
		}
		return nil
	}))
	b.proves()
}

// A proxy that is renewed and marked as stale in one write gets the expected new expiry.
func TestAnExpiryIsExpectedOfWhatIsHeldBack(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.add(opened(1000))
	expires := noon.Add(24 * time.Hour)
	check(t, b.Write(t.Context(), func(tx *Tx) error {
		check(t, tx.Observe(0, tables.Proxy{ProxyID: "px_1", ExpiresAt: &expires, SeenAt: noon}))
		intent := sending("a/0001", 1)
		intent.Observed = map[string]time.Time{"px_1": expires}
		check(t, tx.Append(accepted(fact.KindRenewal, "a/0001", "px_1"), intent, settled("a/0001", "completed", line("px_1", "succeeded", 300, 0))))
		return tx.Stale("px_1")
	}))
	p, err := b.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	if want := expires.AddDate(0, 0, 30); p.ExpectedExpiresAt == nil || !p.ExpectedExpiresAt.Equal(want) {
		t.Errorf("expected until %v instead of %v", p.ExpectedExpiresAt, want)
	}
}
