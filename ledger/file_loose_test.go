package ledger

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"perennial/ledger/fact"
	"perennial/ledger/files"
)

// A chmod of the ledger does not change the -wal and the -shm.
func TestWhatIsBesideALedgerIsClosedToOthers(t *testing.T) {
	t.Parallel()
	b := newBook(t) // like a shell that has it open: SQLite keeps the files
	b.add(accepted(fact.KindOrder, "c/1"))
	for ending, mode := range map[string]fs.FileMode{"": 0o644, "-wal": 0o666, "-shm": 0o666} {
		check(t, os.Chmod(b.path+ending, mode))
	}
	openBook(t, b.path)
	for _, ending := range besideIt {
		if info, err := os.Stat(b.path + ending); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%q: %v %v", ending, info, err)
		}
	}
}

// A named pipe is refused as a ledger, as a backup, and in place of SQLite's files.
func TestANamedPipeIsNoLedger(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	check(t, syscall.Mkfifo(pipe, 0o600))
	for _, readOnly := range []bool{false, true} {
		if _, err := Open(t.Context(), Config{Path: pipe, Clock: ticking(), ReadOnly: readOnly}); !errors.Is(err, files.ErrNotRegular) {
			t.Error(readOnly, err)
		}
	}
	if _, err := b.Backup(t.Context(), pipe, true); !errors.Is(err, files.ErrNotRegular) {
		t.Error(err)
	}
	x := Restore{Path: filepath.Join(dir, "a.db"), From: pipe, Clock: ticking(), AppID: "sbx_app_demo"}
	if _, err := x.Run(t.Context()); !errors.Is(err, files.ErrNotRegular) {
		t.Error(err)
	}
	check(t, os.Symlink(pipe, filepath.Join(dir, "b.db-wal")))
	if _, err := Open(t.Context(), Config{Path: filepath.Join(dir, "b.db"), Clock: ticking()}); !errors.Is(err, files.ErrNotRegular) {
		t.Error(err)
	}
}
