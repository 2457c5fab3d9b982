package sandbox_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// The referee's file cannot be written, because the disk is full. The sandbox then sends no
// replies, because a reply would promise a change that may be lost.
func TestNothingIsAnsweredThatCannotBeKept(t *testing.T) {
	for name, db := range map[string]string{"memory": "", "database": tempFile(t, "sandbox.db")} {
		s, err := sandbox.Start(context.Background(), sandbox.Options{Fixture: fixture(), Charges: fullFile(t), DB: db})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c, err := upstream.New(upstream.Config{BaseURL: s.SandboxURL(), AppID: alphaSandbox, Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Wallet(bg()); err != nil {
			t.Errorf("%s: before anything is charged: %v", name, err)
		}
		if r := c.Post(bg(), renewal("k", "px_1")); !r.Sent || r.HTTPStatus != 0 {
			t.Errorf("%s: answered: %+v", name, r)
		}
		if w, err := c.Wallet(bg()); err == nil {
			t.Errorf("%s: shows a balance that is not kept: %d", name, w.BalanceCents)
		}
		c.Close()
		if err := s.Close(); err == nil || !strings.Contains(err.Error(), "charges") {
			t.Errorf("%s: close: %v", name, err)
		}
	}
}

// fullFile returns the path of a file on a full disk.
func fullFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "charges.jsonl")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Two sandboxes with one file would each serve their own state in memory.
func TestOneDatabaseIsOfOneSandbox(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, inDir(dir, nil))
	s, err := sandbox.Start(context.Background(), sandbox.Options{Fixture: fixture(), DB: filepath.Join(dir, "sandbox.db")})
	if err == nil {
		_ = s.Close()
		t.Fatal("a second sandbox opened the database")
	}
	if !strings.Contains(err.Error(), "sandbox.db") {
		t.Errorf("%v", err)
	}
}

// An older database has no table for nonces.
func TestADatabaseWithoutNoncesOpens(t *testing.T) {
	dir := t.TempDir()
	h := start(t, inDir(dir, nil))
	first := h.client(alphaSandbox).Post(bg(), renewal("k", "px_1"))
	if err := h.s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", filepath.Join(dir, "sandbox.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("DROP TABLE nonces; DELETE FROM state WHERE kind = 'meta' AND id = 'referee'"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	h2 := start(t, inDir(dir, h.clock))
	h2.clock = h.clock
	c := h2.client(alphaSandbox)
	if r := c.Post(bg(), renewal("k", "px_1")); !r.Success || r.TraceID != first.TraceID {
		t.Errorf("%+v", r)
	}
	h2.booksAgree(500000, "sandbox", h2.balance(c))
}
