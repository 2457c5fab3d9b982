package ledger

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
)

func TestAnOpenLedgerKeepsItsPromisesToTheDisk(t *testing.T) {
	b := newBook(t)
	c, err := openWriter(t.Context(), b.path, time.Second)
	check(t, err)
	check(t, assertPragmas(c))
	var synchronous int64
	check(t, c.QueryRow("PRAGMA synchronous").Scan(&synchronous))
	check(t, c.close())
	if synchronous != 2 {
		t.Errorf("synchronous is %d: a commit would not be on the disk", synchronous)
	}
	var readOnly string
	check(t, b.read.QueryRowContext(t.Context(), "PRAGMA query_only").Scan(&readOnly))
	if readOnly != "1" {
		t.Error("the readers' connections can write")
	}
}

func TestAConnectionThatWouldNotSyncIsRefused(t *testing.T) {
	c, err := openConn("file:" + filepath.Join(t.TempDir(), "plain.db") + "?_journal_mode=WAL&_synchronous=NORMAL&_foreign_keys=1&_recursive_triggers=1")
	check(t, err)
	defer func() { check(t, c.close()) }()
	if err := assertPragmas(c); err == nil || !strings.Contains(err.Error(), "synchronous is 1 and must be 2") {
		t.Fatalf("got %v", err)
	}
}

func TestHistoryCannotBeChangedEvenByAnotherTool(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	db := raw(t, b.path)
	for _, statement := range []string{
		`UPDATE journal SET data = '{}' WHERE seq = 1`,
		`UPDATE journal SET seq = 900 WHERE seq = 1`,
		`DELETE FROM journal WHERE seq = 1`,
		`DELETE FROM journal`,
		`UPDATE transfers SET cents = 1`,
		`DELETE FROM transfers`,
	} {
		if _, err := db.Exec(statement); err == nil || !strings.Contains(err.Error(), "never") && !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// Other tools have none of the ledger's pragmas: recursive_triggers is off.
func TestHistoryCannotBeReplacedByAnotherTool(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	db := raw(t, b.path)
	const forged = `SELECT seq, type, time, operation, '{}', prev_hash, hash FROM journal WHERE seq = 3`
	for _, statement := range []string{
		`INSERT OR REPLACE INTO journal ` + forged,
		`REPLACE INTO journal ` + forged,
		`INSERT INTO journal ` + forged + ` ON CONFLICT (seq) DO UPDATE SET data = excluded.data`,
		`INSERT INTO journal SELECT 0 - seq, type, time, operation, '{}', prev_hash, hash FROM journal WHERE seq = 3`,
		`INSERT OR REPLACE INTO transfers SELECT seq, n, kind, debit, credit, 1, operation, order_no, proxy_id, booked_at FROM transfers LIMIT 1`,
		`INSERT INTO transfers SELECT seq, n, kind, debit, credit, 1, operation, order_no, proxy_id, booked_at FROM transfers WHERE true LIMIT 1
			ON CONFLICT (seq, n) DO UPDATE SET cents = 1`,
		`UPDATE OR REPLACE journal SET seq = 3 WHERE seq = 4`,
		`UPDATE OR REPLACE transfers SET n = 1`,
	} {
		if _, err := db.Exec(statement); err == nil || !strings.Contains(err.Error(), "never") && !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if _, err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestHistoryCannotBeReplacedOverTheWritersConnection(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	c, err := openWriter(t.Context(), b.path, time.Second)
	check(t, err)
	defer func() { check(t, c.close()) }()
	for table, statement := range map[string]string{
		"journal":   `INSERT OR REPLACE INTO journal SELECT seq, type, time, operation, data, prev_hash, hash FROM journal LIMIT 1`,
		"transfers": `INSERT OR REPLACE INTO transfers SELECT seq, n, kind, debit, credit, cents, operation, order_no, proxy_id, booked_at FROM transfers LIMIT 1`,
	} {
		if err := c.exec(statement); err == nil {
			t.Errorf("REPLACE into %s went through", table)
		}
	}
}

func TestALedgerReadBesideItsWriterFollowsIt(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000))
	reader, err := Open(t.Context(), Config{Path: b.path, Clock: ticking(), ReadOnly: true})
	check(t, err)
	defer func() { check(t, reader.Close()) }()
	b.add(fact.LedgerRecorded{Movement: "top-up", AmountCents: 500, By: "ada", Reason: "card"})
	got, err := reader.Money.Balance(t.Context(), "main")
	check(t, err)
	if got != b.balance() || got.WalletCents != 1500 {
		t.Fatalf("the reader says %+v and the writer %+v", got, b.balance())
	}
	rows, err := reader.Rows(t.Context(), 0, 10)
	check(t, err)
	if len(rows) != 2 {
		t.Fatalf("%d rows", len(rows))
	}
	if err := reader.Write(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("a write on a reader: %v", err)
	}
	if _, err := reader.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAMissingFileIsNotCreatedByAReader(t *testing.T) {
	_, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "none.db"), Clock: ticking(), ReadOnly: true})
	if err == nil || !strings.Contains(err.Error(), "data directory") {
		t.Fatalf("got %v", err)
	}
}

func TestAPathMayHoldAnyCharacter(t *testing.T) {
	path := filepath.Join(t.TempDir(), fileName)
	b := openBook(t, path)
	b.add(opened(1))
	check(t, b.Close())
	if again := openBook(t, path); again.balance().WalletCents != 1 {
		t.Fatal("the file was not found again")
	}
}

func TestWriteAfterCloseSaysSo(t *testing.T) {
	b := newBook(t)
	check(t, b.Close())
	for range 20 { // the queue has room: the answer must not depend on chance
		if err := b.Write(context.Background(), func(*Tx) error { return nil }); !errors.Is(err, ErrClosed) {
			t.Fatalf("got %v", err)
		}
	}
	_ = b.Close() // a second Close is harmless
}

func TestReopenedTheChainGoesOnWhereItEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	first := openBook(t, path)
	first.add(history()...)
	before := first.balance()
	check(t, first.Close())
	second := openBook(t, path)
	if got := second.balance(); got != before {
		t.Fatalf("%+v became %+v", before, got)
	}
	high, err := second.HighWater(t.Context())
	check(t, err)
	if high.Before(noon) || high.After(noon.Add(time.Hour)) {
		t.Fatalf("high water %s", high)
	}
	second.add(fact.RunnerStarted{Version: "2", Holder: "h"})
	row, err := second.Row(t.Context(), before.Head.Seq+1)
	check(t, err)
	if row.PrevHash != before.Head.Hash {
		t.Fatal("the chain is broken at the restart")
	}
	if _, err := second.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}
