package ledger

import (
	"context"
	"database/sql"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"perennial/ledger/fact"
)

// smallLog returns a book whose log is bounded by a few pages.
func smallLog(t *testing.T) *book {
	t.Helper()
	b := newBook(t)
	b.logBound = 1 << 20
	check(t, b.write.exec(`PRAGMA wal_autocheckpoint = 64`)) // there are no writers yet
	var limit int64
	check(t, b.write.QueryRow(`PRAGMA journal_size_limit = 262144`).Scan(&limit))
	b.add(opened(1))
	return b
}

// large is a fact that fills some pages of the log.
func large() fact.Fact {
	return fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: strings.Repeat("x", 100<<10)}
}

// reading repeatedly reads one moment of the ledger until two more facts exist. With
// several such readers some moment is always being read.
func (b *book) reading(ctx context.Context, group *sync.WaitGroup) {
	group.Go(func() {
		for ctx.Err() == nil {
			tx, err := b.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
			if err != nil {
				return
			}
			var seq int64
			if err := tx.QueryRowContext(ctx, `SELECT max(seq) FROM journal`).Scan(&seq); err == nil {
				select {
				case <-b.Changed(seq + 1):
				case <-ctx.Done():
				}
			}
			_ = tx.Rollback()
		}
	})
}

func TestReadersThatOverlapDoNotLetTheLogGrow(t *testing.T) {
	t.Parallel()
	b := smallLog(t)
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range maxReaders {
		b.reading(ctx, &readers)
	}
	// Its size when emptied depends on how soon the readers run.
	emptied, before := 0, int64(0)
	for n := 0; emptied < 5; n++ {
		b.add(large())
		size := sizeOf(b.path + "-wal")
		if size < before && before > b.logBound {
			emptied++
		}
		if before = size; n == 5000 {
			t.Fatalf("after %d commits the log was emptied %d times and has %d bytes; readers should pause at %d", n, emptied, size, b.logBound)
		}
	}
	stop()
	readers.Wait()
	if _, err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// While one reader continues, all other connections for reading are taken.
func TestReadersThatOverlapPauseForALongLog(t *testing.T) {
	b := smallLog(t)
	reader, err := b.read.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	check(t, err)
	var seq int64
	check(t, reader.QueryRowContext(t.Context(), `SELECT max(seq) FROM journal`).Scan(&seq))
	paused := func() bool {
		for range 1000 {
			if b.read.Stats().InUse == maxReaders {
				return true
			}
			runtime.Gosched()
		}
		return false
	}
	for n := 0; !paused(); n++ { // a pause ends automatically, and is retried as the log grows
		if n == 200 {
			t.Fatalf("after %d commits the log has %d bytes; readers should pause at %d", n, sizeOf(b.path+"-wal"), b.logBound)
		}
		b.add(large())
	}
	check(t, reader.Rollback())
	for n := 0; sizeOf(b.path+"-wal") > b.logBound; n++ {
		if n == 200 {
			t.Fatalf("no reader is left, and the log has %d bytes", sizeOf(b.path+"-wal"))
		}
		b.add(large())
	}
}

func TestALogThatAnotherProcessPinsIsSaid(t *testing.T) {
	b := smallLog(t)
	if err := b.Unbounded(); err != nil {
		t.Fatal(err)
	}
	shell := raw(t, b.path)
	tx, err := shell.BeginTx(t.Context(), nil)
	check(t, err)
	var n int
	check(t, tx.QueryRowContext(t.Context(), `SELECT count(*) FROM journal`).Scan(&n))
	for range 40 {
		b.add(large())
	}
	err = b.Unbounded()
	if err == nil || !strings.Contains(err.Error(), "another process") || !strings.Contains(err.Error(), filepath.Base(b.path)) {
		t.Fatalf("%d bytes of log: %v", sizeOf(b.path+"-wal"), err)
	}
	check(t, tx.Rollback())
	for range 5 {
		b.add(large())
	}
	if err := b.Unbounded(); err != nil || sizeOf(b.path+"-wal") > b.logBound {
		t.Errorf("the reader has gone, %d bytes: %v", sizeOf(b.path+"-wal"), err)
	}
}

func TestALedgerClosesWhileItsReadersPause(t *testing.T) {
	b := smallLog(t)
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range maxReaders {
		b.reading(ctx, &readers)
	}
	for range 25 {
		b.add(large())
	}
	stop()
	readers.Wait()
	check(t, b.Close())
}
