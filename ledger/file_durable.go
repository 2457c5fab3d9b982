// Recovery from a failed write or sync of the disk.

package ledger

import (
	"database/sql"
	"errors"
	"fmt"

	"perennial/ledger/chain"

	"github.com/mattn/go-sqlite3"
)

// After a failed fsync the operating system may have dropped data that it could not write,
// and may still show that data to readers. A process that opens the file later can then
// read commits in the write-ahead log that a power cut would lose. Whatever it appends
// after these commits would be lost too, synced or not. The process that saw the failure is
// safe: SQLite has undone the commit and writes the same part of the log again.
//
// Therefore, before anything is appended, everything readable in the log is copied into the
// database and synced there, and the log is restarted:
//   - when a file is opened, because its previous process may have ended after a failure;
//   - after an I/O error, to show that the disk accepts writes again. Until that succeeds,
//     writes fail and reads continue.

// isIOError reports whether err is one of SQLite's I/O errors.
func isIOError(err error) bool {
	failure, _ := errors.AsType[sqlite3.Error](err)
	return failure.Code == sqlite3.ErrIoErr
}

// settleLog copies the write-ahead log into the database and syncs it there. If a reader
// still uses an older state of the file, only part of the log can be copied. That is not an
// error: the reader has kept the index of the log, which ends with the last synced commit.
func (c *conn) settleLog() error {
	var busy, frames, moved int64
	if err := c.QueryRow(`PRAGMA wal_checkpoint(RESTART)`).Scan(&busy, &frames, &moved); err != nil {
		return fmt.Errorf("sync what was committed before: %w", err)
	}
	return nil
}

// recover checks, after an I/O error, that the disk accepts writes and that the journal
// ends with the last commit.
func (w *writer) recover() error {
	if err := w.settleLog(); err != nil {
		return err
	}
	found := chain.Head{Hash: chain.Genesis}
	err := w.QueryRow(`SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1`).Scan(&found.Seq, &found.Hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if found != w.head {
		return fmt.Errorf("the journal ends with row %d after an I/O error, and row %d was committed last: restart, to read it again", found.Seq, w.head.Seq)
	}
	w.doubtful = false
	return nil
}
