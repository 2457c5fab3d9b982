package ledger

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// journalStream stands in for the replicated events stream: it only takes rows after its
// last one.
type journalStream struct {
	mu     sync.Mutex
	rows   []chain.Row
	groups []int                  // rows per publication
	fails  error                  // error of the next publication
	keeps  bool                   // whether failed rows are stored anyway
	hears  func(rows []chain.Row) // called before rows are stored
	hangs  chan struct{}          // publications wait for it, or for their context
	starts chan<- struct{}        // receives at each publication
}

var errForeign = errors.New("another row is there")

func (s *journalStream) publish(ctx context.Context, rows []chain.Row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.starts != nil {
		s.starts <- struct{}{}
	}
	if s.hangs != nil {
		select {
		case <-s.hangs:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if s.hears != nil {
		s.hears(rows)
	}
	err := s.fails
	s.fails = nil
	if err != nil && !s.keeps {
		return err
	}
	if rows[0].Seq != int64(len(s.rows))+1 {
		return errForeign
	}
	s.rows, s.groups = append(s.rows, rows...), append(s.groups, len(rows))
	return err
}

// follower is a ledger whose journal is a stream.
func follower(t testing.TB) *book {
	t.Helper()
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	return followerAt(t, path)
}

func followerAt(t testing.TB, path string) *book {
	t.Helper()
	l, err := Open(context.Background(), Config{Path: path, Clock: ticking(), Follows: true})
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return &book{Ledger: l, t: t, path: path}
}

// leader is a follower that leads.
func leader(t testing.TB, s *journalStream) (*book, *Leadership) {
	t.Helper()
	b := follower(t)
	x, err := b.Lead(s.publish)
	check(t, err)
	return b, x
}

func (b *book) head() chain.Head {
	b.t.Helper()
	seq, hash, err := b.Head(context.Background())
	check(b.t, err)
	return chain.Head{Seq: seq, Hash: hash}
}

// While a row is being published, no reader of the file sees it. Afterwards the file has it as
// published.
func TestTrap59RowsAreOnTheStreamBeforeTheyAreCommitted(t *testing.T) {
	s := &journalStream{}
	b, _ := leader(t, s)
	s.hears = func(rows []chain.Row) {
		if h := b.head(); h.Seq >= rows[0].Seq {
			t.Errorf("row %d is committed before it is published: the ledger ends with %d", rows[0].Seq, h.Seq)
		}
	}
	b.add(opened(100), topUp(50))
	rows, err := b.Rows(t.Context(), 0, 10)
	check(t, err)
	if !slices.Equal(rows, s.rows) || len(rows) != 2 {
		t.Errorf("the ledger holds %v and the stream %v", rows, s.rows)
	}
}

// A failed publication fails the write, ends the leadership and leaves the file unchanged,
// whether the stream has the row or not.
func TestTrap59WhatWasNotAcknowledgedIsNotCommitted(t *testing.T) {
	for _, stored := range []bool{false, true} {
		s := &journalStream{}
		b, x := leader(t, s)
		b.add(opened(100))
		s.fails, s.keeps = errors.New("no answer"), stored
		err := b.tryAdd(topUp(50))
		unpublished, ok := errors.AsType[*UnpublishedError](err)
		if !ok || unpublished.First != 2 || unpublished.Last != 2 {
			t.Fatalf("stored=%v: %v", stored, err)
		}
		if h := b.head(); h.Seq != 1 || b.balance().WalletCents != 100 {
			t.Errorf("stored=%v: the ledger ends with %d and holds %d cents", stored, h.Seq, b.balance().WalletCents)
		}
		soon(t, "the leadership ends", x.Over())
		if x.Err() == nil {
			t.Error("the leadership does not say why it ended")
		}
		if err := b.tryAdd(topUp(1)); !errors.Is(err, ErrNotLeading) {
			t.Errorf("stored=%v: a write behind the end of the leadership: %v", stored, err)
		}
		if b.Failing() != nil {
			t.Errorf("the file is blamed: %v", b.Failing())
		}
		check(t, b.Fold(t.Context(), s.rows[1:])) // the next leader
		if got, want := b.balance().WalletCents, map[bool]int64{false: 100, true: 150}[stored]; got != want {
			t.Errorf("stored=%v: %d cents behind the fold, want %d", stored, got, want)
		}
		if x, err = b.Lead(s.publish); err != nil {
			t.Fatal(err)
		}
		b.add(topUp(7))
		x.End()
		check(t, second(b.VerifyWith(t.Context())))
	}
}

// A follower that folds a leader's rows has the same rows and tables, for a history with
// every type of fact.
func TestAStandbyIsTheLeadersLedger(t *testing.T) {
	s := &journalStream{}
	b, _ := leader(t, s)
	b.add(history()...)
	standby := follower(t)
	for n := 0; n < len(s.rows); {
		more := min(1+n%7, len(s.rows)-n)
		check(t, standby.Fold(t.Context(), s.rows[n:n+more]))
		n += more
	}
	check(t, second(standby.VerifyWith(t.Context())))
	check(t, b.Close())
	check(t, standby.Close())
	sameTables(t, "the standby's tables", tablesOf(t, b.path), tablesOf(t, standby.path))
}

// Without leadership the ledger writes no facts, but it writes other data.
func TestAStandbyAppendsNothing(t *testing.T) {
	s := &journalStream{}
	l, _ := leader(t, s)
	l.add(opened(100))
	b := follower(t)
	check(t, b.Fold(t.Context(), s.rows))
	if err := b.tryAdd(topUp(1)); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a fact on a standby: %v", err)
	}
	check(t, b.Write(t.Context(), func(tx *Tx) error {
		return tx.Observe(0, tables.Proxy{ProxyID: "px_1", Status: "active", SeenAt: noon})
	}))
	if err := l.Fold(t.Context(), s.rows); !errors.Is(err, ErrLeads) {
		t.Errorf("a fold into the leader: %v", err)
	}
	if _, err := l.Lead(s.publish); !errors.Is(err, ErrLeads) {
		t.Errorf("a second leadership: %v", err)
	}
	if _, err := newBook(t).Lead(s.publish); err == nil {
		t.Error("a ledger whose own file is its journal leads a stream")
	}
	if err := newBook(t).Fold(t.Context(), s.rows); err == nil {
		t.Error("a ledger whose own file is its journal folds a stream")
	}
}

// A gap, a changed row, another history and a fact of a later version are refused, and
// nothing of their group is kept.
func TestAFoldRefusesWhatDoesNotFollow(t *testing.T) {
	s := &journalStream{}
	l, _ := leader(t, s)
	l.add(opened(100), topUp(1), topUp(2))
	changed := slices.Clone(s.rows)
	changed[1].Data = `{"movement":"top-up","amount_cents":99,"by":"ada","reason":"card"}`
	other := &journalStream{}
	elsewhere, _ := leader(t, other)
	elsewhere.add(opened(100), topUp(9))
	later := slices.Clone(s.rows)
	later[1].Type = "proxy.frozen"
	_, later[1].Hash = chain.Hash(nil, later[1])
	wider := slices.Clone(s.rows)
	wider[1].Data = strings.Replace(wider[1].Data, "{", `{"fee_cents":5,`, 1)
	_, wider[1].Hash = chain.Hash(nil, wider[1])
	published, err := wider[1].Event("main")
	check(t, err)
	if back, err := ReadEvent(published); err != nil || back != wider[1] { // the hash covers the bytes, whatever they mean
		t.Errorf("%+v, %v", back, err)
	}
	for name, c := range map[string]struct {
		rows  []chain.Row
		check string
	}{
		"a gap":                      {[]chain.Row{s.rows[0], s.rows[2]}, "chain"},
		"a changed row":              {changed[:2], "chain"},
		"another history":            {[]chain.Row{s.rows[0], other.rows[1], s.rows[2]}, "chain"},
		"a fact of a later version":  {later[:2], "fold"},
		"a field of a later version": {wider[:2], "fold"},
	} {
		b := follower(t)
		err := b.Fold(t.Context(), c.rows)
		if broken, ok := errors.AsType[*chain.BrokenError](err); !ok || broken.Check != c.check {
			t.Errorf("%s: %v", name, err)
		}
		if _, unknown := errors.AsType[*fact.UnknownError](err); unknown != (c.check == "fold") {
			t.Errorf("%s, of a later version %v: %v", name, unknown, err)
		}
		if h := b.head(); h.Seq != 0 {
			t.Errorf("%s: row %d was kept", name, h.Seq)
		}
		check(t, b.Fold(t.Context(), s.rows))
	}
}

// A publication without a reply blocks the writer until the leadership ends. Then its write
// fails and folding continues.
func TestTheEndOfALeadershipFreesTheWriter(t *testing.T) {
	starts := make(chan struct{}, 1)
	s := &journalStream{hangs: make(chan struct{}), starts: starts}
	b, x := leader(t, s)
	t.Cleanup(func() { close(s.hangs) }) // otherwise a failed test would not end
	failed := make(chan error, 1)
	go func() { failed <- b.tryAdd(opened(100)) }()
	<-starts
	if x.Waiting().IsZero() {
		t.Error("it does not say that rows wait for their acknowledgement")
	}
	ended := make(chan struct{})
	go func() { defer close(ended); x.End() }()
	soon(t, "the end of the leadership", ended)
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the write that waited: %v", err)
	}
	if x.Err() != nil {
		t.Errorf("an end that was asked for has the reason %v", x.Err())
	}
	check(t, b.Fold(t.Context(), nil))
}

// soon fails a test if its signal does not come.
func soon(t *testing.T, what string, signal <-chan struct{}) {
	t.Helper()
	late := time.NewTimer(10 * time.Second)
	defer late.Stop()
	select {
	case <-signal:
	case <-late.C:
		t.Fatalf("never happened: %s", what)
	}
}

// After these errors every later write fails, too.
func TestWhatEndsALedgerIsNotTriedAgain(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&UnpublishedError{First: 1, Last: 2, Err: context.Canceled}, true},
		{fmt.Errorf("commit: %w", &UnpublishedError{Err: errForeign}), true},
		{fmt.Errorf("append: %w", ErrNotLeading), true}, {ErrClosed, true},
		{ErrStale, false}, {context.Canceled, false}, {errors.New("disk I/O error"), false}, {nil, false},
	} {
		if got := Ended(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// Close ends a publication that has no reply.
func TestAClosingLedgerDoesNotWaitForItsStream(t *testing.T) {
	starts := make(chan struct{}, 1)
	s := &journalStream{hangs: make(chan struct{}), starts: starts}
	b, _ := leader(t, s)
	failed := make(chan error, 1)
	go func() { failed <- b.tryAdd(opened(100)) }()
	<-starts
	check(t, b.Close())
	if err := <-failed; err == nil {
		t.Error("a write without an acknowledgement succeeded")
	}
}

// Writers that share a commit share a publication of at most PublishMost rows. One caller's
// larger group is published in parts.
func TestAGroupIsPublishedInPartsThatTheStreamTakes(t *testing.T) {
	s := &journalStream{}
	b, _ := leader(t, s)
	b.add(opened(100))
	many := func(n int) []fact.Fact {
		facts := make([]fact.Fact, n)
		for i := range facts {
			facts[i] = topUp(1)
		}
		return facts
	}
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			if err := b.tryAdd(many(400)...); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	check(t, b.tryAdd(many(2*PublishMost+1)...))
	if got, want := len(s.rows), 1+8*400+2*PublishMost+1; got != want {
		t.Errorf("%d rows are on the stream, want %d", got, want)
	}
	if most := slices.Max(s.groups); most > PublishMost {
		t.Errorf("%d rows were published at once", most)
	}
	if got := b.balance().WalletCents; got != 100+int64(len(s.rows))-1 {
		t.Errorf("the wallet holds %d cents for %d rows", got, len(s.rows))
	}
	check(t, second(b.VerifyWith(t.Context())))
}

// If one write of a group is refused, the others' rows are published once.
func TestARefusedWriteIsPublishedByNone(t *testing.T) {
	s := &journalStream{}
	b, _ := leader(t, s)
	b.add(opened(100))
	refused := errors.New("no")
	var writers sync.WaitGroup
	for n := range 20 {
		writers.Go(func() {
			err := b.Write(context.Background(), func(tx *Tx) error {
				if err := tx.Append(topUp(1)); err != nil || n%2 == 0 {
					return err
				}
				return refused
			})
			if n%2 == 1 != errors.Is(err, refused) {
				t.Errorf("write %d: %v", n, err)
			}
		})
	}
	writers.Wait()
	if len(s.rows) != 11 || b.head().Seq != 11 {
		t.Errorf("%d rows on the stream and %d in the ledger, want 11", len(s.rows), b.head().Seq)
	}
}

// Every runner other than the last one started before an attempt inherits it, even after
// later starts.
func TestWhoSentAnAttemptIsInTheJournal(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), fact.RunnerStarted{Version: "1", Holder: "a"}, accepted(fact.KindOrder, "o1/1"), sending("o1/1", 1))
	ask := func(holder string, want, begun bool) {
		t.Helper()
		since, inherited, err := b.Sweeps.Inherited(t.Context(), "o1/1", holder)
		check(t, err)
		if inherited != want || begun == since.IsZero() {
			t.Errorf("for %s: inherited %v since %s", holder, inherited, since)
		}
	}
	ask("a", false, false)
	ask("b", true, false)
	b.add(fact.RunnerStarted{Version: "1", Holder: "b"}, fact.RunnerStarted{Version: "1", Holder: "b"})
	ask("a", false, false)
	ask("b", true, true)
	first, _, err := b.Sweeps.Inherited(t.Context(), "o1/1", "b")
	check(t, err)
	if row, err := b.Row(t.Context(), 5); err != nil || !row.Instant().Equal(first) {
		t.Errorf("inherited since %s, the first start behind it was at %s: %v", first, row.Instant(), err)
	}
	b.add(fact.OperationWaiting{Ref: ref("o1/1"), Attempt: 1, Reason: "crash", Ambiguous: true, NextAt: noon}, sending("o1/1", 2))
	ask("b", false, false)
	ask("a", true, false)
	if holder, err := b.Sweeps.LastHolder(t.Context()); err != nil || holder != "b" {
		t.Errorf("the last holder is %q: %v", holder, err)
	}
}

// Verified against a longer stream, a ledger that follows it is complete; one that does not
// has lost its end.
func TestRowsBehindAFollowerAreNotMissing(t *testing.T) {
	s := &journalStream{}
	l, _ := leader(t, s)
	l.add(opened(100), topUp(1), topUp(2), topUp(3))
	events := published(t, l.Ledger)
	b := follower(t)
	check(t, b.Fold(t.Context(), s.rows[:2]))
	against, err := b.VerifyAgainst(t.Context(), stream(events))
	check(t, err)
	if against.Published != 2 || against.NotHere != 2 || against.Unpublished != 0 {
		t.Errorf("%+v", against)
	}
	if _, err := b.VerifyAgainst(t.Context(), stream(slices.Concat(events[:2], events[3:]))); err == nil {
		t.Error("a gap behind the ledger's end is not noticed")
	}
	check(t, b.Close())
	own, err := Open(t.Context(), Config{Path: b.path, Clock: ticking()})
	check(t, err)
	defer func() { _ = own.Close() }()
	if _, err := own.VerifyAgainst(t.Context(), stream(events)); err == nil {
		t.Error("a ledger that has lost its end is not noticed")
	}
}
