package ledger

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/ledger/fact"
)

// addCents tries to write one fact.
func (b *book) addCents() error {
	return b.tryAdd(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "card"})
}

// Writes to a file without a name are lost with the process. A file that is put back is the
// same file.
func TestALedgerWhoseFileIsGoneTakesNoMore(t *testing.T) {
	for _, ending := range besideIt {
		b := newBook(t)
		b.add(opened(1))
		file := b.path + ending
		aside := filepath.Join(t.TempDir(), "aside")
		for what, put := range map[string]func() error{
			"removed":  func() error { return nil },
			"replaced": func() error { return os.WriteFile(file, []byte("another"), 0o600) },
		} {
			check(t, os.Rename(file, aside))
			check(t, put())
			err := b.addCents()
			lost, ok := errors.AsType[*LostError](err)
			if !ok || lost.Path != file || !strings.Contains(lost.Error(), "restore --from-events --replace") {
				t.Errorf("%q %s: %v", ending, what, err)
			}
			if lost, ok := errors.AsType[*LostError](b.Unusable()); !ok || lost.Path != file {
				t.Errorf("%q %s: unusable is %v", ending, what, lost)
			}
			check(t, os.Rename(aside, file))
			check(t, b.addCents())
			check(t, b.Unusable())
		}
	}
}

// A connection opened later would read the other file's history.
func TestAReplacedFileIsNotReadBesideTheOpenOne(t *testing.T) {
	b := newBook(t)
	b.add(opened(1))
	other := newBook(t)
	check(t, os.Rename(b.path, b.path+".aside"))
	check(t, os.Rename(other.path, b.path))
	for range maxReaders {
		c, err := b.read.Conn(t.Context())
		if err == nil {
			var rows int64
			err = c.QueryRowContext(t.Context(), `SELECT count(*) FROM journal`).Scan(&rows)
			if err == nil && rows == 0 {
				t.Error("the other file was read")
			}
			t.Cleanup(func() { _ = c.Close() })
		}
		if _, lost := errors.AsType[*LostError](err); err != nil && !lost {
			t.Error(err)
		}
	}
}

// The file is cut short, is checked before a missing page is needed, or a read finds the
// damage.
func TestADamagedLedgerTakesNoMore(t *testing.T) {
	says := func(b *book, err error) {
		t.Helper()
		damaged, ok := errors.AsType[*DamagedError](err)
		if !ok || damaged.Path != b.path || !strings.Contains(damaged.Error(), "restore --from-events --replace") {
			t.Errorf("%v", err)
		}
	}
	filled := func() *book {
		b := newBook(t)
		b.add(opened(1))
		check(t, b.fill(100))
		check(t, b.write.settleLog())
		check(t, b.Unusable())
		return b
	}
	cut := filled()
	check(t, os.Truncate(cut.path, 8192))
	says(cut, cut.Unusable())
	says(cut, cut.addCents())

	read := filled()
	f, err := os.OpenFile(read.path, os.O_WRONLY, 0)
	check(t, err)
	t.Cleanup(func() { _ = f.Close() }) // closed earlier, SQLite would lose its locks
	info, err := f.Stat()
	check(t, err)
	_, err = f.WriteAt(make([]byte, info.Size()-4096), 4096)
	check(t, err)
	if _, err := read.Verify(t.Context()); err == nil {
		t.Error("the damage was not come upon")
	}
	says(read, read.Unusable())
	says(read, read.addCents())
}

// A vacuumed file is shorter, and later commits are in the -wal: nothing is missing.
func TestAVacuumedLedgerIsNotDamaged(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.add(opened(1))
	check(t, b.fill(3000))
	check(t, b.write.settleLog())
	check(t, b.Unusable())
	before := sizeOf(b.path)
	shell, err := sql.Open("sqlite3", "file:"+b.path)
	check(t, err)
	_, err = shell.Exec(`CREATE TABLE room (x); INSERT INTO room SELECT randomblob(4000) FROM journal; PRAGMA wal_checkpoint(TRUNCATE)`)
	check(t, err)
	check(t, b.Unusable())
	_, err = shell.Exec(`DROP TABLE room; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)`)
	check(t, err)
	check(t, shell.Close())
	if sizeOf(b.path) > 2*before {
		t.Fatalf("it was not vacuumed: %d bytes, and %d before", sizeOf(b.path), before)
	}
	check(t, b.fill(50))
	check(t, b.Unusable())
	check(t, b.addCents())
}

func TestADamagedFileSaysWhatToDo(t *testing.T) {
	b := newBook(t)
	b.add(opened(1))
	check(t, b.fill(20))
	check(t, b.Close())
	check(t, os.Truncate(b.path, 8192))
	for _, readOnly := range []bool{true, false} {
		_, err := Open(t.Context(), Config{Path: b.path, Clock: ticking(), ReadOnly: readOnly})
		if _, ok := errors.AsType[*DamagedError](err); !ok {
			t.Errorf("%v", err)
		}
	}
	_, err := Restore{Path: filepath.Join(t.TempDir(), "main.ledger.db"), From: b.path, Clock: ticking()}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--from-events --replace") {
		t.Errorf("%v", err)
	}
}
