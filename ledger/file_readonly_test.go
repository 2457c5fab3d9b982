package ledger

import (
	"path/filepath"
	"testing"
	"time"

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
