package ledger

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

func TestASoundLedgerVerifiesAndLeavesNothingBehind(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	v, err := b.Verify(t.Context())
	check(t, err)
	if v.Rows != int64(len(history())) || v.Head != b.balance().Head {
		t.Fatalf("%+v", v)
	}
	files, err := os.ReadDir(filepath.Dir(b.path))
	check(t, err)
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".verify") {
			t.Errorf("%s was left behind", f.Name())
		}
	}
}

func TestAnEmptyLedgerIsSound(t *testing.T) {
	if _, err := newBook(t).Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const openJournal = `DROP TRIGGER journal_no_update; DROP TRIGGER journal_no_delete;`

func TestTamperingIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		statements string
		check      string
		seq        int64
	}{
		"an amount in a journal row": {openJournal + `UPDATE journal SET data = replace(data, '100000', '200000') WHERE seq = 1`, "chain", 1},
		"a time in a journal row":    {openJournal + `UPDATE journal SET time = time + 1 WHERE seq = 5`, "chain", 5},
		"a row's own hash":           {openJournal + `UPDATE journal SET hash = replace(hash, substr(hash, 1, 1), 'g') WHERE seq = 9`, "chain", 9},
		"a row taken out":            {openJournal + `DELETE FROM journal WHERE seq = 6`, "chain", 7},
		"the first row taken out":    {`PRAGMA foreign_keys = OFF; ` + openJournal + `DELETE FROM journal WHERE seq = 1`, "", 0},
		"an operation's state":       {`DROP TRIGGER operation_follows_the_arrows; UPDATE operations SET state = 'delivered' WHERE id = 'o6/1'`, "projection", 0},
		"an operation's charge":      {`UPDATE operations SET charged_cents = charged_cents + 1 WHERE id = 'o1/1'`, "projection", 0},
		"a line's claim":             {`UPDATE lines SET claim = 0, state = 'succeeded' WHERE proxy_id = 'px_8b'`, "projection", 0},
		"a command forgotten":        {`PRAGMA foreign_keys = OFF; DELETE FROM commands WHERE id = 'o1'`, "", 0},
		"a refusal":                  {`UPDATE rejections SET reason = 'x'`, "projection", 0},
		"a refused content":          {`DELETE FROM refused_contents WHERE content_hash = 'other'`, "projection", 0},
		"a transfer's amount":        {`DROP TRIGGER transfers_no_update; UPDATE transfers SET cents = cents + 1 WHERE seq = 1`, "projection", 0},
		"a transfer added":           {`INSERT INTO transfers SELECT seq, n + 10, kind, debit, credit, cents, operation, order_no, proxy_id, booked_at FROM transfers LIMIT 1`, "projection", 0},
		"a total":                    {`UPDATE totals SET cents = cents + 1`, "projection", 0},
		"a pause lifted":             {`DELETE FROM pauses`, "projection", 0},
		"a slot fired again":         {`DELETE FROM slots WHERE slot_at = (SELECT max(slot_at) FROM slots)`, "projection", 0},
		"who the file belongs to":    {`UPDATE binding SET account_id = 'acc_other'`, "projection", 0},
		"an index":                   {`PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'WHERE live = 1', 'WHERE live = 0') WHERE name = 'operations_live'`, "sqlite", 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := tampered(t, test.statements)
			l, err := Open(t.Context(), Config{Path: path, Clock: ticking(), ReadOnly: true, Inspect: true})
			check(t, err)
			defer func() { _ = l.Close() }()
			_, err = l.Verify(t.Context())
			var broken *chain.BrokenError
			if !errors.As(err, &broken) {
				t.Fatalf("not found: %v", err)
			}
			if test.check != "" && broken.Check != test.check || broken.Seq != test.seq && test.seq != 0 {
				t.Fatalf("got %v", broken)
			}
		})
	}
}

// tampered returns a closed ledger file that was changed by hand.
func tampered(t *testing.T, statements string) string {
	t.Helper()
	b := newBook(t)
	b.add(history()...)
	check(t, b.Close())
	tamper(t, b.path, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(context.Background(), statements)
		return err
	})
	return b.path
}

func tamper(t *testing.T, path string, do func(*sql.Conn) error) {
	t.Helper()
	db := raw(t, path)
	conn, err := db.Conn(t.Context())
	check(t, err)
	check(t, do(conn))
	check(t, conn.Close())
	check(t, db.Close())
}

func TestAFactThatThisVersionDoesNotKnowIsFound(t *testing.T) {
	b := newBook(t)
	b.add(opened(1))
	check(t, b.Close())
	tamper(t, b.path, func(conn *sql.Conn) error {
		r := chain.Row{Seq: 2, Type: "order.teleported", Time: sqlite.Micros(noon), Data: "{}"}
		if err := conn.QueryRowContext(t.Context(), `SELECT hash FROM journal`).Scan(&r.PrevHash); err != nil {
			return err
		}
		_, r.Hash = chain.Hash(nil, r)
		_, err := conn.ExecContext(t.Context(), `INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?)`, r.Seq, r.Type, r.Time, r.Operation, r.Data, r.PrevHash, r.Hash)
		return err
	})
	_, err := openBook(t, b.path).Verify(t.Context())
	var broken *chain.BrokenError
	if !errors.As(err, &broken) || broken.Check != "fold" || broken.Seq != 2 {
		t.Fatalf("got %v", err)
	}
}

// A file whose last rows were forged together with their hashes, and whose projections were
// rebuilt, is sound in itself. Only an auditor with a kept head, as every event carries,
// can tell.
func TestAForgedEndIsFoundOnlyByAKeptHead(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), fact.LedgerRecorded{Movement: "external", AmountCents: 300, By: "ada", Reason: "shop"})
	kept := b.balance().Head
	check(t, b.Close())
	forged := newBook(t)
	forged.add(opened(1000), fact.LedgerRecorded{Movement: "external", AmountCents: 100, By: "ada", Reason: "shop"})
	v, err := forged.Verify(t.Context())
	check(t, err)
	if v.Head.Seq != kept.Seq {
		t.Fatal("the forgery is not of the same length")
	}
	if v.Head.Hash == kept.Hash {
		t.Fatal("a forged end has the hash that was published")
	}
	if sum, err := hex.DecodeString(kept.Hash); err != nil || len(sum) != 32 {
		t.Fatalf("a head is %q", kept.Hash)
	}
}
