package ledger

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"perennial/ledger/fact"
)

// SQLite falls back to reading if a file cannot be opened for writing, and keeps to it.
func TestALedgerThatIsReadOnlySaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	topUp := fact.LedgerRecorded{Movement: fact.MovementTopUp, AmountCents: 1, By: "ada", Reason: "card"}
	l, err := Open(t.Context(), Config{Path: path, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Write(t.Context(), func(tx *Tx) error { return tx.w.exec(`PRAGMA query_only = 1`) }); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(t.Context(), func(tx *Tx) error { return tx.Append(topUp) }); err == nil || !l.ReadOnly() {
		t.Errorf("%v, read-only %t", err, l.ReadOnly())
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if l, err = Open(t.Context(), Config{Path: path, Clock: time.Now}); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(t.Context(), func(tx *Tx) error { return tx.Append(topUp) }); err != nil || l.ReadOnly() {
		t.Errorf("opened again: %v, read-only %t", err, l.ReadOnly())
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// SQLite reads a ledger that was closed only if it can write beside it.
func TestALedgerInADirectoryThatCannotBeWrittenSaysSo(t *testing.T) {
	c := Config{Path: filepath.Join(t.TempDir(), "gone", "main.ledger.db"), ReadOnly: true}
	cannot := sqlite3.Error{Code: sqlite3.ErrCantOpen}
	if err := c.withAdvice(cannot); !errors.Is(err, cannot) || !strings.Contains(err.Error(), "copy the ledger") {
		t.Error(err)
	}
	c.Path = filepath.Join(t.TempDir(), "main.ledger.db")
	if err := c.withAdvice(cannot); err != cannot { //nolint:errorlint // no word was added
		t.Error(err)
	}
}
