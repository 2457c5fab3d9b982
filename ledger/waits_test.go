package ledger

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

// The writer may be waiting for NATS, or for a read of its caller.
func TestReadsContinueIfTheWriterDoesNotTakeTheirPause(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.add(opened(100))
	ends, ctx := make(chan error, 1), context.WithoutCancel(t.Context())
	to := make(chan []*sql.Conn)
	go b.handReaders(to)
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	go func() {
		ends <- b.Write(limited, func(*Tx) error { // the writer is busy with a caller that reads
			for b.read.Stats().InUse < maxReaders {
				if limited.Err() != nil {
					return limited.Err()
				}
			}
			_, _, err := b.Head(limited)
			return err
		})
	}()
	check(t, <-ends)
	if taken := <-to; taken != nil {
		t.Error("the pause did not end")
	}
}

// This holds however many callers ask for the end at the same time.
func TestACommandThatEndedGetsOneFact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(t.Context(), Config{Path: path, Clock: time.Now})
		check(t, err)
		defer func() { check(t, l.Close()) }()
		check(t, l.Write(t.Context(), func(tx *Tx) error {
			return tx.Append(opened(10_000), fact.CommandRejected{Ref: fact.Ref{CommandID: "old"}, Code: "invalid", Reason: "no"})
		}))
		check(t, l.Write(t.Context(), func(tx *Tx) error { // as of a version without such facts
			clear(tx.w.held.revisions)
			return tx.exec(`DELETE FROM finished WHERE command_id = 'old'`)
		}))
		before, _, err := l.Head(t.Context())
		check(t, err)
		release := make(chan struct{})
		var callers sync.WaitGroup
		callers.Go(func() {
			check(t, l.Write(t.Context(), func(*Tx) error { <-release; return nil }))
		})
		synctest.Wait()
		for range 8 {
			callers.Go(func() {
				if f, err := l.Finished(t.Context(), "old"); err != nil || f == nil {
					t.Errorf("%+v %v", f, err)
				}
			})
		}
		synctest.Wait() // all have found that the fact is missing
		close(release)
		callers.Wait()
		if after, _, err := l.Head(t.Context()); err != nil || after != before+1 {
			t.Errorf("%d facts, %v", after-before, err)
		}
	})
}

// The test also covers a path with brackets.
func TestAnEndedContextIsNoBrokenLedger(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b")
	check(t, os.Mkdir(dir, 0o700))
	l, err := Open(t.Context(), Config{Path: filepath.Join(dir, "main.ledger.db"), Clock: time.Now})
	check(t, err)
	defer func() { check(t, l.Close()) }()
	check(t, l.Write(t.Context(), func(tx *Tx) error { return tx.Append(opened(100)) }))
	if _, err := l.Verify(t.Context()); err != nil {
		t.Errorf("in a directory with a bracket: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	_, err = l.Verify(ended)
	if _, broken := errors.AsType[*chain.BrokenError](err); broken || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// SQLite would apply the rollback journal to the ledger that replaces the file.
func TestARollbackJournalIsMovedAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	for _, suffix := range []string{"", "-wal", "-journal"} {
		check(t, os.WriteFile(path+suffix, []byte("x"), 0o600))
	}
	aside, err := MoveAside(path, noon)
	check(t, err)
	for _, suffix := range []string{"", "-wal", "-journal"} {
		if _, err := os.Stat(path + suffix); err == nil {
			t.Errorf("%s is still there", filepath.Base(path+suffix))
		}
		if _, err := os.Stat(aside + suffix); err != nil {
			t.Error(err)
		}
	}
}
