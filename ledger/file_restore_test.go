package ledger

import (
	"bytes"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

// fromEvents yields events from a sequence on, like a stream.
func fromEvents(events [][]byte) func(int64) iter.Seq2[[]byte, error] {
	return func(first int64) iter.Seq2[[]byte, error] {
		return stream(events[min(int(first)-1, len(events)):])
	}
}

// lived returns a ledger, a backup of its first part, and its published events.
func lived(t *testing.T) (b *book, backup string, events [][]byte) {
	t.Helper()
	b = newBook(t)
	all := history()
	b.add(all[:40]...)
	backup = filepath.Join(t.TempDir(), "backup.db")
	_, err := b.Backup(t.Context(), backup, false)
	check(t, err)
	b.add(all[40:]...)
	return b, backup, published(t, b.Ledger)
}

func restore(t *testing.T, from string, events [][]byte) Restore {
	t.Helper()
	x := Restore{Path: filepath.Join(t.TempDir(), "main.ledger.db"), From: from, Clock: func() time.Time { return noon.Add(time.Hour) }, AppID: "sbx_app_demo"}
	if events != nil {
		x.Events = fromEvents(events)
	}
	return x
}

func TestTrap13ALedgerFromEventsHasEveryTableAndTheHead(t *testing.T) {
	t.Parallel()
	b, backup, events := lived(t)
	for name, from := range map[string]string{"events alone": "", "a backup and events": backup} {
		t.Run(name, func(t *testing.T) {
			x := restore(t, from, events)
			var out Restored
			path := filepath.Join(t.TempDir(), "fold.db") // before it is marked as restored
			check(t, x.copyBackup(t.Context(), path, &out))
			check(t, x.foldEvents(t.Context(), path, false, &out))
			if tablesIn(t, path) != tablesIn(t, b.path) {
				t.Error("the tables are not those of the ledger that was lost")
			}
			if out.Head != b.balance().Head || !out.Proven || out.Rows+out.Events != out.Head.Seq {
				t.Errorf("%+v, was %+v", out, b.balance().Head)
			}
			out, err := x.Run(t.Context())
			check(t, err)
			restored := openBook(t, x.Path)
			if v, err := restored.Verify(t.Context()); err != nil || v.Head != out.Head || v.Rows != b.balance().Head.Seq+2 {
				t.Errorf("%+v %v", v, err)
			}
			if a, err := restored.VerifyAgainst(t.Context(), stream(events)); err != nil || a.Unpublished != 2 {
				t.Errorf("%+v %v", a, err)
			}
			holdsOnly(t, filepath.Dir(x.Path), "main.ledger.db", "main.ledger.db-shm", "main.ledger.db-wal")
		})
	}
}

func TestTrap13ARestoredLedgerBeginsAnEpochAndIsPaused(t *testing.T) {
	t.Parallel()
	_, backup, events := lived(t)
	x := restore(t, backup, nil)
	out, err := x.Run(t.Context())
	check(t, err)
	b := openBook(t, x.Path)
	binding, err := b.Binding(t.Context())
	check(t, err)
	if binding.Epoch == "e1" || binding.Epoch != out.Epoch || binding.AccountID != "acc_1" {
		t.Errorf("binding %+v", binding)
	}
	pauses, err := b.Operations.Pauses(t.Context())
	check(t, err)
	if len(pauses) != 1 || pauses[0].Cause != CauseRestored || pauses[0].Scope != "account" || pauses[0].Until != nil {
		t.Errorf("pauses %+v", pauses)
	}
	last, err := ReadEvent(events[39])
	check(t, err)
	since, err := b.Operations.Forgotten(t.Context())
	check(t, err)
	if since == nil || !since.Equal(last.Instant()) || out.Proven {
		t.Errorf("forgotten since %v, the backup ends %v; proven %t", since, last.Instant(), out.Proven)
	}
	b.add(fact.AccountResumed{Scope: "account", Cause: CauseRestored})
	if since, err = b.Operations.Forgotten(t.Context()); since != nil || err != nil {
		t.Errorf("after it was accounted for: %v %v", since, err)
	}
	if _, err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// Unfinished operations may have been sent since, at the earliest lost moment. An operation
// known as ambiguous before keeps its own moment.
func TestTrap13WhatHadNotEndedMayHaveBeenSentSince(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000),
		accepted(fact.KindOrder, "a/1"),
		accepted(fact.KindOrder, "h/1"), fact.CommandHeld{Ref: ref("h/1"), Reason: "limit"},
		accepted(fact.KindOrder, "w/1"), sending("w/1", 1), fact.OperationWaiting{Ref: ref("w/1"), Attempt: 1, Reason: "slow down", NextAt: noon},
		accepted(fact.KindOrder, "k/1"), sending("k/1", 1), fact.OperationWaiting{Ref: ref("k/1"), Attempt: 1, Reason: "reset", Ambiguous: true, NextAt: noon},
		accepted(fact.KindOrder, "s/1"), sending("s/1", 1),
		accepted(fact.KindOrder, "o/1"), sending("o/1", 1), fact.OrderAccepted{Ref: ref("o/1"), Attempt: 1, OrderNo: "no", NextAt: noon},
		accepted(fact.KindOrder, "r/1"), fact.CommandRejected{Ref: ref("r/1"), Code: "x", Reason: "x"})
	known := b.operation("k/1").FirstAmbiguousAt
	x := restore(t, "", published(t, b.Ledger))
	_, err := x.Run(t.Context())
	check(t, err)
	since, err := openBook(t, x.Path).Operations.Forgotten(t.Context())
	check(t, err)
	after := openBook(t, x.Path)
	for _, id := range []string{"a/1", "h/1", "w/1"} {
		o := after.operation(id)
		if o.Ambiguous != 1 || o.FirstAmbiguousAt == nil || !o.FirstAmbiguousAt.Equal(*since) || o.AppID != "sbx_app_demo" {
			t.Errorf("%s: %d ambiguous since %v under %q", id, o.Ambiguous, o.FirstAmbiguousAt, o.AppID)
		}
	}
	if o := after.operation("k/1"); o.Ambiguous != 1 || !o.FirstAmbiguousAt.Equal(*known) {
		t.Errorf("k/1: %d since %v, was %v", o.Ambiguous, o.FirstAmbiguousAt, known)
	}
	for _, id := range []string{"s/1", "o/1", "r/1"} {
		if o := after.operation(id); o.Ambiguous != 0 || o.Version != b.operation(id).Version {
			t.Errorf("%s was changed: %+v", id, o)
		}
	}
	after.add(accepted(fact.KindOrder, "new/1"), fact.AccountResumed{Scope: "account", Cause: CauseRestored, PresumeSentBy: "sbx_app_demo"}, accepted(fact.KindOrder, "later/1"))
	if o := after.operation("new/1"); o.Ambiguous != 1 || !o.FirstAmbiguousAt.Equal(*since) {
		t.Errorf("accepted while the gap was not explained: %+v", o)
	}
	if o := after.operation("later/1"); o.Ambiguous != 0 {
		t.Errorf("accepted after a person had let it go: %+v", o)
	}
	if _, err := after.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTrap13ADamagedOrForeignStreamMakesNoLedger(t *testing.T) {
	t.Parallel()
	_, backup, events := lived(t)
	other := newBook(t)
	other.add(opened(77))
	for len(other.tail.rows) < 60 {
		other.add(fact.ProxyExpired{ProxyID: "px", ExpiresAt: noon})
	}
	for name, test := range map[string]struct {
		from   string
		events [][]byte
		seq    int64
	}{
		"a gap":                  {"", slices.Delete(slices.Clone(events), 30, 31), 32},
		"a gap behind":           {backup, slices.Delete(slices.Clone(events), 45, 46), 47},
		"no beginning":           {"", events[1:], 2},
		"a changed event":        {"", slices.Replace(slices.Clone(events), 3, 4, bytes.Replace(events[3], []byte(`:700,`), []byte(`:701,`), 1)), 4},
		"a stream of an account": {backup, published(t, other.Ledger), 40},
	} {
		t.Run(name, func(t *testing.T) {
			x := restore(t, test.from, test.events)
			_, err := x.Run(t.Context())
			var broken *chain.BrokenError
			if !errors.As(err, &broken) || broken.Seq != test.seq {
				t.Errorf("got %v, want row %d", err, test.seq)
			}
			holdsOnly(t, filepath.Dir(x.Path))
		})
	}
	x := restore(t, "", [][]byte{})
	if _, err := x.Run(t.Context()); !errors.Is(err, errNothingPublished) {
		t.Errorf("an empty stream: %v", err)
	}
}

// A stream that lost its end is before the backup's head: nothing is added, and it is
// unknown whether that head was the last published row.
func TestTrap13AStreamThatIsBehindTheBackupProvesNothing(t *testing.T) {
	_, backup, events := lived(t)
	x := restore(t, backup, events[:20])
	out, err := x.Run(t.Context())
	check(t, err)
	if out.Proven || out.Events != 0 || out.Rows != 40 {
		t.Errorf("%+v", out)
	}
}

func TestARestoreNeverOverwritesALedger(t *testing.T) {
	t.Parallel()
	_, backup, events := lived(t)
	x := restore(t, backup, events)
	present := openBook(t, x.Path)
	present.add(opened(4242), fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "card"})
	if _, err := x.Run(t.Context()); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("got %v", err)
	}
	if present.balance().FundingCents != 4243 {
		t.Fatal("the present ledger was touched")
	}
	// Its newest part is in the WAL, as after a crash, and must be restored too.
	crashed := filepath.Join(t.TempDir(), "main.ledger.db")
	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(x.Path + suffix)
		check(t, err)
		check(t, os.WriteFile(crashed+suffix, text, 0o600))
	}
	x.Path, x.Replace = crashed, true
	out, err := x.Run(t.Context())
	check(t, err)
	if !strings.HasPrefix(out.Replaced, crashed+".replaced-") {
		t.Fatalf("%+v", out)
	}
	if got := openBook(t, out.Replaced).balance().FundingCents; got != 4243 {
		t.Errorf("the ledger that was moved aside holds %d", got)
	}
	if got := openBook(t, crashed).balance(); got.Head != out.Head {
		t.Errorf("the restored one ends with %+v and not %+v", got.Head, out.Head)
	}
}

// After a killed restore, no runner starts with an empty ledger. It would not know what was sent.
func TestTrap13AnInterruptedRestoreIsFinishedFirst(t *testing.T) {
	t.Parallel()
	_, backup, _ := lived(t)
	x := restore(t, backup, nil)
	left := filepath.Join(filepath.Dir(x.Path), strings.Replace(x.leftover(), "*", "123", 1))
	check(t, os.Mkdir(left, 0o700))
	opens := func(path string) error {
		l, err := Open(t.Context(), Config{Path: path, Clock: x.Clock})
		if err != nil {
			return err
		}
		return l.Close()
	}
	err := opens(x.Path)
	if err == nil || !strings.Contains(err.Error(), "`perennial backup restore` again") || !strings.Contains(err.Error(), left) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(x.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a ledger was made: %v", err)
	}
	check(t, opens(filepath.Join(filepath.Dir(x.Path), "other.db"))) // another account's
	_, err = x.Run(t.Context())
	check(t, err)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", left, err)
	}
	check(t, opens(x.Path))
}

// A file that cannot even be opened is kept with all that belongs to it.
func TestAFileThatIsNoDatabaseIsMovedAside(t *testing.T) {
	t.Parallel()
	_, backup, _ := lived(t)
	x := restore(t, backup, nil)
	x.Replace = true
	for _, suffix := range []string{"", "-wal"} {
		check(t, os.WriteFile(x.Path+suffix, []byte(strings.Repeat("torn"+suffix, 1000)), 0o600))
	}
	out, err := x.Run(t.Context())
	check(t, err)
	for _, suffix := range []string{"", "-wal"} {
		if text, err := os.ReadFile(out.Replaced + suffix); err != nil || string(text) != strings.Repeat("torn"+suffix, 1000) {
			t.Errorf("%q: %d bytes, %v", suffix, len(text), err)
		}
	}
	if _, err := openBook(t, x.Path).Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestABrokenBackupOrOtherFileIsNotRestored(t *testing.T) {
	x := restore(t, tampered(t, `UPDATE totals SET cents = cents + 1`), nil)
	var broken *chain.BrokenError
	if _, err := x.Run(t.Context()); !errors.As(err, &broken) {
		t.Errorf("a broken backup: %v", err)
	}
	empty := newBook(t)
	check(t, empty.Close())
	x.From = empty.path
	if _, err := x.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no journal") {
		t.Errorf("an empty file: %v", err)
	}
	x.From = filepath.Join(t.TempDir(), "nothing")
	if _, err := x.Run(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	holdsOnly(t, filepath.Dir(x.Path))
}
