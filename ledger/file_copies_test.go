package ledger

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// tables dumps every projection and the journal of a ledger file.
func tablesIn(t *testing.T, path string) string {
	t.Helper()
	db := raw(t, path)
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(t.Context(), nil)
	check(t, err)
	defer func() { _ = tx.Rollback() }()
	var out strings.Builder
	for _, table := range append([]string{"journal"}, projections...) {
		columns, err := sqlite.Columns(t.Context(), tx, table)
		check(t, err)
		rows, err := tx.QueryContext(t.Context(), wholeRows(table, columns))
		check(t, err)
		all, err := sqlite.Collect(rows, sqlite.Value[string])
		check(t, err)
		out.WriteString(table + "\n" + strings.Join(all, "\n") + "\n")
	}
	return out.String()
}

// holdsOnly checks that a directory holds exactly these files.
func holdsOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	check(t, err)
	var have []string
	for _, f := range files {
		have = append(have, f.Name())
	}
	if strings.Join(have, " ") != strings.Join(want, " ") {
		t.Errorf("%s holds %v and should hold %v", dir, have, want)
	}
}

func TestARebuiltLedgerHasEveryTableAsItWas(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	out := filepath.Join(t.TempDir(), "rebuilt.db")
	v, err := b.Rebuild(t.Context(), out)
	check(t, err)
	if v.Rows != int64(len(history())) || v.Head != b.balance().Head {
		t.Errorf("%+v", v)
	}
	if tablesIn(t, out) != tablesIn(t, b.path) {
		t.Error("the rebuilt tables are not those of the ledger")
	}
	holdsOnly(t, filepath.Dir(out), "rebuilt.db")
	if _, err := b.Rebuild(t.Context(), out); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an existing file: %v", err)
	}
	if _, err := openBook(t, out).Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestARebuildNamesTamperingAndKeepsTheJournal(t *testing.T) {
	path := tampered(t, `UPDATE operations SET charged_cents = charged_cents + 1 WHERE id = 'o1/1'`)
	out := filepath.Join(t.TempDir(), "rebuilt.db")
	_, err := openBook(t, path).Rebuild(t.Context(), out)
	var broken *chain.BrokenError
	if !errors.As(err, &broken) || broken.Check != "projection" || !strings.Contains(broken.Detail, "o1/1") {
		t.Fatalf("got %v", err)
	}
	if o := openBook(t, out).operation("o1/1"); o.ChargedCents != 900 {
		t.Errorf("the rebuilt file says %d", o.ChargedCents)
	}
}

func TestARebuildFromABrokenChainLeavesNoFile(t *testing.T) {
	path := tampered(t, openJournal+`UPDATE journal SET time = time + 1 WHERE seq = 5`)
	out := filepath.Join(t.TempDir(), "rebuilt.db")
	l, err := Open(t.Context(), Config{Path: path, Clock: ticking(), ReadOnly: true, Inspect: true})
	check(t, err)
	defer func() { _ = l.Close() }()
	_, err = l.Rebuild(t.Context(), out)
	var broken *chain.BrokenError
	if !errors.As(err, &broken) || broken.Seq != 5 {
		t.Fatalf("got %v", err)
	}
	holdsOnly(t, filepath.Dir(out))
}

// A backup taken while the writer works is one complete moment of the ledger.
func TestABackupBesideAWriterIsOneMomentOfIt(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	ctx, stop := context.WithCancel(t.Context())
	wrote := make(chan int, 1)
	begun := make(chan struct{})
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			if b.tryAdd(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "card"}) != nil {
				break
			}
			if n == 20 {
				close(begun)
			}
		}
		wrote <- n
	}()
	<-begun
	out := filepath.Join(t.TempDir(), "main.backup.db")
	reader, err := Open(t.Context(), Config{Path: b.path, Clock: ticking(), ReadOnly: true})
	check(t, err)
	v, err := reader.Backup(t.Context(), out, false)
	check(t, err)
	check(t, reader.Close())
	stop()
	<-wrote
	holdsOnly(t, filepath.Dir(out), "main.backup.db")
	row, err := b.Row(t.Context(), v.Head.Seq)
	check(t, err)
	if v.Head.Hash != row.Hash || v.Rows <= int64(len(history())) {
		t.Errorf("the backup ends with %+v", v)
	}
	info, err := os.Stat(out)
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has mode %v", info.Mode())
	}
	if got, err := openBook(t, out).Verify(t.Context()); err != nil || got.Head != v.Head {
		t.Errorf("%+v %v", got, err)
	}
}

func TestABackupNeverReplacesAFileUnasked(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000))
	out := filepath.Join(t.TempDir(), "b.db")
	check(t, os.WriteFile(out, []byte("the only copy of something"), 0o600))
	if _, err := b.Backup(t.Context(), out, false); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("got %v", err)
	}
	if text, err := os.ReadFile(out); err != nil || string(text) != "the only copy of something" {
		t.Fatalf("%q %v", text, err)
	}
	if _, err := b.Backup(t.Context(), out, true); err != nil {
		t.Fatal(err)
	}
	if got, err := openBook(t, out).Verify(t.Context()); err != nil || got.Rows != 1 {
		t.Errorf("%+v %v", got, err)
	}
}

// A broken ledger gives no backup, and the previous one stays.
func TestABackupThatDoesNotVerifyLeavesTheLastOne(t *testing.T) {
	path := tampered(t, `UPDATE totals SET cents = cents + 1`)
	out := filepath.Join(t.TempDir(), "b.db")
	check(t, os.WriteFile(out, []byte("yesterday's"), 0o600))
	var broken *chain.BrokenError
	if _, err := openBook(t, path).Backup(t.Context(), out, true); !errors.As(err, &broken) {
		t.Fatalf("got %v", err)
	}
	holdsOnly(t, filepath.Dir(out), "b.db")
	if text, _ := os.ReadFile(out); string(text) != "yesterday's" {
		t.Errorf("it was replaced by %d bytes", len(text))
	}
}

func TestABackupOfAHeadTakenAwayMeanwhileIsRefused(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	l, err := Open(t.Context(), Config{Path: b.path, Clock: ticking(), ReadOnly: true})
	check(t, err)
	defer func() { _ = l.Close() }()
	other := newBook(t)
	other.add(opened(1))
	l.path = other.path // what is copied differs from what was opened
	if _, err := l.Backup(t.Context(), filepath.Join(t.TempDir(), "b.db"), false); err == nil || !strings.Contains(err.Error(), "does not hold") {
		t.Errorf("got %v", err)
	}
}

// A killed copy leaves a partial file in its own directory. The next copy of the same kind
// removes it, but does not remove the directory of a running copy.
func TestWhatAKilledCopyLeftIsRemovedByTheNext(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	dir := t.TempDir()
	left, works, theirs := filepath.Join(dir, ".perennial-backup-1"), filepath.Join(dir, ".perennial-backup-2"), filepath.Join(dir, "backup-3")
	for _, d := range []string{left, works, theirs} {
		check(t, os.Mkdir(d, 0o700))
		check(t, os.WriteFile(filepath.Join(d, "ledger.db"), []byte("half of one"), 0o600))
	}
	unlock, alone := lockRoom(works)
	if !alone {
		t.Fatal("a free lock is not given")
	}
	_, err := b.Backup(t.Context(), filepath.Join(dir, "a.db"), false)
	check(t, err)
	holdsOnly(t, dir, ".perennial-backup-2", "a.db", "backup-3")
	check(t, unlock())
	_, err = b.Backup(t.Context(), filepath.Join(dir, "b.db"), false)
	check(t, err)
	holdsOnly(t, dir, "a.db", "b.db", "backup-3")
}

func TestABackupIsOneFileAndStaysSoWhenRead(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	out := filepath.Join(t.TempDir(), "backup.db")
	_, err := b.Backup(t.Context(), out, false)
	check(t, err)
	l, err := Open(t.Context(), Config{Path: out, Clock: b.clock, ReadOnly: true})
	check(t, err)
	_, err = l.Verify(t.Context())
	check(t, err)
	check(t, l.Close())
	holdsOnly(t, filepath.Dir(out), "backup.db")
}

// The note is next to the ledger, and anything else in its place is an error.
func TestABackupIsNoted(t *testing.T) {
	b := newBook(t)
	if at, err := b.LastBackup(); err != nil || !at.At.IsZero() {
		t.Errorf("before the first one: %+v, %v", at, err)
	}
	out := filepath.Join(t.TempDir(), "backup.db")
	for range 2 {
		v, err := b.Backup(t.Context(), out, true)
		check(t, err)
		check(t, b.NoteBackup(v, out))
		if at, err := b.LastBackup(); err != nil || at.At.IsZero() || at.Head != v.Head || at.File != out {
			t.Errorf("noted: %+v, %v", at, err)
		}
	}
	check(t, os.WriteFile(backedUpPath(b.path), []byte("not JSON"), 0o600))
	if at, err := b.LastBackup(); err == nil {
		t.Errorf("of what is no note: %+v", at)
	}
}
