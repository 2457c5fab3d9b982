// The bound of the write-ahead log: readers pause until it can be restarted.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// SQLite restarts its write-ahead log only at a moment in which no reader
// uses it. Readers that overlap leave no such moment, and the log grows with
// every commit, whatever is copied back. So when it has grown, the ledger's own
// readers pause: those that read end, new ones wait, and the writer empties the
// log. Readers of other processes cannot be asked; Unbounded names them.

const (
	// logPages is at how many pages (64 MiB) commits begin to copy the log back.
	logPages = 16384
	// logBound is at how many bytes the readers pause.
	logBound = 128 << 20
	// readersPause is for how long at most new readers wait for those that read.
	readersPause = 2 * time.Second
	// maxReaders is how many connections read at once.
	maxReaders = 4
)

// Unbounded is why the write-ahead log grows and cannot be emptied, nil while it
// is bounded.
func (l *Ledger) Unbounded() error {
	if why := l.unbounded.Load(); why != nil {
		return *why
	}
	return nil
}

// boundLog checks the log's size after a commit. A pause of the readers is tried again
// when the log has grown by another quarter.
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

// pauseReaders takes every connection for reading, so that no reader is left; or
// none, when a reader continues for longer than others may wait.
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
		_ = c.Close() // back to the pool
	}
}

// emptyLog copies the log back and empties it, while the ledger's own readers
// pause. It does not wait for those of other processes.
func (w *writer) emptyLog(taken []*sql.Conn) {
	w.paused = nil
	defer release(taken)
	if taken == nil || w.doubtful {
		return
	}
	var busy, frames, moved int64
	err := errors.Join(
		w.exec(`PRAGMA busy_timeout = 0`),
		w.queryRow(`PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &moved),
		w.exec(`PRAGMA busy_timeout = `+itoa(w.l.busy.Milliseconds())))
	if err != nil {
		w.doubtful = w.doubtful || isIOError(err)
		return
	}
	if busy == 0 {
		w.boundLog()
	}
}
