// What follows a failed write or sync of the disk.

package ledger

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/mattn/go-sqlite3"
)

// What a failed fsync means: the operating system may have dropped what it could
// not write, and continues showing it to every reader. So a process that opens
// the file afterwards can find commits in the write-ahead log that are gone with
// the power; whatever it appended after them would be gone with them, synced or
// not. The process that saw the failure is safe from that: SQLite has undone the
// commit, and writes the same part of the log again.
//
// Therefore, before anything is appended, all that reads find in the log is
// copied into the database, synced there, and the log restarted:
// - in a file that was opened, since who had it before may have died of a failure;
// - after an I/O error, as a proof that the disk takes writes again.
// Until that succeeds no write does, and reads continue.

// isIOError reports whether the disk failed, whatever SQLite was doing.
func isIOError(err error) bool {
	failure, _ := errors.AsType[sqlite3.Error](err)
	return failure.Code == sqlite3.ErrIoErr
}

// settleLog copies what is in the write-ahead log into the database and syncs it
// there. While a reader is at an older moment of the file only a part of it can
// be copied; that is no error: a reader who has been there all the time has kept
// the index of the log, which ends with the last commit that was synced.
func (c *conn) settleLog() error {
	var busy, frames, moved int64
	if err := c.queryRow(`PRAGMA wal_checkpoint(RESTART)`).Scan(&busy, &frames, &moved); err != nil {
		return fmt.Errorf("sync what was committed before: %w", err)
	}
	return nil
}

// recover makes sure, after an I/O error, that the disk takes writes and that the
// journal ends where the last commit did.
func (w *writer) recover() error {
	if err := w.settleLog(); err != nil {
		return err
	}
	found := head{hash: genesis}
	err := w.queryRow(`SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1`).Scan(&found.seq, &found.hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if found != w.head {
		return fmt.Errorf("the journal ends with row %d after an I/O error, and row %d was committed last: restart, to read it again", found.seq, w.head.seq)
	}
	w.doubtful = false
	return nil
}
