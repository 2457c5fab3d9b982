// Bounding the write-ahead log: readers pause until it can be restarted.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// SQLite restarts its write-ahead log only while no reader uses it. Overlapping readers
// leave no such moment, and the log grows with every commit, however much is copied back.
// When it has grown, the ledger's own readers therefore pause: current reads end, new ones
// wait, and the writer empties the log. Readers in other processes cannot be paused;
// Unbounded names them.

const (
	// logPages is the log size in pages (64 MiB) at which commits begin to copy it back.
	logPages = 16384
	// logBound is the log size in bytes at which readers pause.
	logBound = 128 << 20
	// readersPause is how long new readers wait at most for current ones.
	readersPause = 2 * time.Second
	// maxReaders is how many connections read at once.
	maxReaders = 4
)

// Unbounded returns why the write-ahead log grows and cannot be emptied; nil while it is
// bounded.
func (l *Ledger) Unbounded() error {
	if why := l.unbounded.Load(); why != nil {
		return *why
	}
	return nil
}

// boundLog checks the log's size after a commit. It retries a pause of the readers when the
// log has grown by another quarter.
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
	w.paused = make(chan []*sql.Conn, 1)
	go func(paused chan<- []*sql.Conn) { paused <- w.l.pauseReaders() }(w.paused)
}

// pauseReaders takes every connection for reading, so that no reader is left. It takes none
// if a reader lasts longer than others may wait.
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

// emptyLog copies the log back and empties it, while the ledger's own readers pause. It
// does not wait for readers in other processes.
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
