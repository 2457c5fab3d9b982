package ledger

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
)

// fill writes until the file cannot grow, and returns the error.
func (b *book) fill(n int) error {
	for i := range n {
		err := b.tryAdd(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: fmt.Sprintf("%0900d", i)})
		if err != nil {
			return err
		}
	}
	return nil
}

// pages bounds the file like a full disk: SQLite answers SQLITE_FULL.
func (b *book) pages(n int64) {
	b.t.Helper()
	check(b.t, b.Write(context.Background(), func(tx *Tx) error { return tx.exec(fmt.Sprintf("PRAGMA max_page_count = %d", n)) }))
}

func TestAFullDiskLosesNothingAndEndsWithTheSpace(t *testing.T) {
	b := newBook(t)
	b.add(opened(1))
	b.pages(1) // its present size
	err := b.fill(500)
	if err == nil {
		t.Fatal("the file was not full")
	}
	if b.Failing() == nil {
		t.Errorf("the failure is not reported: %v", err)
	}
	before := b.balance()
	if rows, err := b.Rows(t.Context(), 0, 10_000); err != nil || int64(len(rows)) != before.Head.Seq {
		t.Errorf("%d rows and head %d: %v", len(rows), before.Head.Seq, err)
	}
	b.pages(1 << 30)
	check(t, b.fill(10))
	if b.Failing() != nil || b.balance().Head.Seq != before.Head.Seq+10 {
		t.Errorf("%v, head %+v after %+v", b.Failing(), b.balance().Head, before.Head)
	}
	if _, err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// The lock is an operator's BEGIN IMMEDIATE in a SQLite shell.
func TestAShellThatHoldsTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	l, err := Open(t.Context(), Config{Path: path, Clock: ticking(), BusyTimeout: 10 * time.Millisecond})
	check(t, err)
	b := &book{Ledger: l, t: t, path: path}
	t.Cleanup(func() { _ = l.Close() })
	b.add(opened(100))
	shell := raw(t, path)
	shell.SetMaxOpenConns(1)
	_, err = shell.Exec("BEGIN IMMEDIATE")
	check(t, err)
	if err := b.tryAdd(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "card"}); err == nil || b.Failing() == nil {
		t.Errorf("%v, failing %v", err, b.Failing())
	}
	if b.balance().WalletCents != 100 {
		t.Error("reads do not go on")
	}
	_, err = shell.Exec("ROLLBACK")
	check(t, err)
	b.add(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "card"})
	if b.balance().WalletCents != 101 || b.Failing() != nil {
		t.Errorf("%+v, failing %v", b.balance(), b.Failing())
	}
}

// A changed byte in any part of the file is either found or in an unused place.
func TestAFlippedByteIsFound(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.add(history()...)
	for range 40 { // enough rows for the file not to be mostly empty
		b.add(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: strings.Repeat("card ", 40)})
	}
	want := b.balance()
	check(t, b.Close())
	whole, err := os.ReadFile(b.path)
	check(t, err)
	found := 0
	for at := 100; at < len(whole); at += len(whole) / 30 {
		bad := append([]byte(nil), whole...)
		bad[at] ^= 0x20
		path := filepath.Join(t.TempDir(), "flipped.ledger.db")
		check(t, os.WriteFile(path, bad, 0o600))
		l, err := Open(t.Context(), Config{Path: path, Clock: ticking(), ReadOnly: true})
		if err != nil {
			found++
			continue
		}
		_, err = l.Verify(t.Context())
		got, balanceErr := l.Money.Balance(t.Context(), "main")
		check(t, l.Close())
		if err != nil {
			found++
			continue
		}
		if balanceErr != nil || got != want {
			t.Errorf("byte %d: verified and %+v (%v)", at, got, balanceErr)
		}
	}
	if found < 5 {
		t.Errorf("only %d of some 30 flipped bytes were found", found)
	}
	t.Logf("%d found", found)
}

// The outbox reads only committed rows.
func TestACommitThatFailsShowsNothing(t *testing.T) {
	b := newBook(t)
	b.add(opened(1))
	before := b.balance().Head.Seq
	changed := b.Changed(before)
	err := b.Write(t.Context(), func(tx *Tx) error {
		check(t, tx.Append(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "it never was"}))
		// Only COMMIT checks this reference.
		check(t, tx.exec(`PRAGMA defer_foreign_keys = ON`))
		return tx.exec(`INSERT INTO lines (operation, proxy_id, state, claim, duration_days) VALUES ('none', 'px', 'skipped', 0, 30)`)
	})
	if err == nil {
		t.Fatal("the commit did not fail")
	}
	select {
	case <-changed:
		t.Error("the journal is said to have grown")
	default:
	}
	if rows, err := b.Rows(t.Context(), before, 10); err != nil || len(rows) > 0 {
		t.Errorf("%v %v", rows, err)
	}
	check(t, b.fill(1))
	if rows, err := b.Rows(t.Context(), before, 10); err != nil || len(rows) != 1 {
		t.Errorf("behind it: %v %v", rows, err)
	}
}
