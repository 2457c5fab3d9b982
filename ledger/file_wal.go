// Limiting the write-ahead log: readers pause until the log can be restarted.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// SQLite restarts its write-ahead log only when no reader uses it. With overlapping readers
// that never happens, and the log grows with every commit, however much of it is copied
// back. When the log has grown too far, the ledger's own readers pause: current reads
// finish, new reads wait, and the writer empties the log. Readers in other processes cannot
// be paused; Unbounded reports them.

const (
	// logPages is the size of the log, in pages, at which commits start to copy it back (64
	// MiB).
	logPages = 16384
	// logBound is the size of the log, in bytes, at which readers pause.
	logBound = 128 << 20
	// readersPause is the longest time for which new reads wait for current ones, and then for
	// the writer.
	readersPause = 2 * time.Second
	// maxReaders is the number of connections for reading.
	maxReaders = 4
)

// Unbounded returns why the write-ahead log grows and cannot be emptied, or nil.
func (l *Ledger) Unbounded() error {
	if why := l.unbounded.Load(); why != nil {
		return *why
	}
	return nil
}

// boundLog checks the size of the log after a commit. After a failed pause it tries again
// when the log has grown by another quarter of logBound.
func (w *writer) boundLog() {
	size := sizeOf(w.l.path + "-wal")
	if size <= w.l.logBound {
		w.l.unbounded.Store(nil)
		w.pauseAt = w.l.logBound
		return
	}
	if size > 2*w.l.logBound {
		err := fmt.Errorf("the write-ahead log of %s has %d MiB and cannot be emptied: another process reads an old moment of the ledger (a backup, an export, an SQLite shell)", w.l.path, size>>20)
		w.l.unbounded.Store(&err)
	}
	if size <= w.pauseAt || w.paused != nil {
		return
	}
	w.pauseAt = size + w.l.logBound/4
	w.paused = make(chan []*sql.Conn)
	go w.l.handReaders(w.paused)
}

// handReaders pauses the readers and hands their connections to the writer. If the writer does
// not take them within readersPause, it lets the reads continue: the writer may be waiting for
// NATS, or for a read of its own caller.
func (l *Ledger) handReaders(to chan<- []*sql.Conn) {
	taken := l.pauseReaders()
	timer := time.NewTimer(readersPause)
	defer timer.Stop()
	select {
	case to <- taken:
	case <-timer.C:
		release(taken)
		to <- nil
	}
}

// pauseReaders takes every read connection out of the pool, so that no read is in progress. It
// returns nil if a read does not end within readersPause.
func (l *Ledger) pauseReaders() []*sql.Conn {
	ctx, cancel := context.WithTimeout(context.Background(), readersPause)
	defer cancel()
	var taken []*sql.Conn
	for range maxReaders {
		c, err := l.read.Conn(ctx)
		if err != nil {
			release(taken)
			return nil
		}
		taken = append(taken, c)
	}
	return taken
}

func release(taken []*sql.Conn) {
	for _, c := range taken {
		_ = c.Close() // returns it to the pool
	}
}

// emptyLog copies the log back and empties it while the ledger's own readers pause. It does
// not wait for readers in other processes.
func (w *writer) emptyLog(taken []*sql.Conn) {
	w.paused = nil
	defer release(taken)
	if taken == nil || w.doubtful {
		return
	}
	var busy, frames, moved int64
	err := errors.Join(
		w.exec(`PRAGMA busy_timeout = 0`),
		w.QueryRow(`PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &moved),
		w.exec(`PRAGMA busy_timeout = `+itoa(w.l.busy.Milliseconds())))
	if err != nil {
		w.doubtful = w.doubtful || isIOError(err)
		return
	}
	if busy == 0 {
		w.boundLog()
	}
}

// Sizes returns the bytes of the ledger file and of its write-ahead log.
func (l *Ledger) Sizes() (file, log int64) { return sizeOf(l.path), sizeOf(l.path + "-wal") }
