// Detecting, before a write, that the open ledger file was removed, replaced or damaged,
// and recovery from a failed write or sync of the disk.

package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/mattn/go-sqlite3"

	"perennial/ledger/chain"
)

// SQLite continues to use a file that was renamed, removed or replaced by another file, and
// its commits are lost when the process ends. It also continues if only some pages are
// damaged. An open ledger therefore remembers which files it has opened and whether SQLite
// reported damage. Once a file is replaced or damaged, nothing more is written. Nothing is
// sent either, because each request needs a written intent.

// LostError reports that a ledger file was removed or replaced while it was open.
type LostError struct{ Path string }

func (e *LostError) Error() string {
	return fmt.Sprintf("the ledger file %s was removed, or another file was put in its place, under the running program, and nothing more is written: "+
		"put the very file back; or stop the runner, which publishes what it has first, and make the ledger again with `perennial ledger restore --from-events --replace`", e.Path)
}

// DamagedError reports that SQLite found a ledger file damaged.
type DamagedError struct {
	Path string
	Err  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the ledger file %s is damaged (%v): stop the runner where one works, keep a copy of the file, and make the ledger again "+
		"with `perennial ledger restore --from-events --replace`, or with `perennial ledger restore --from BACKUP --replace`", e.Path, e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// asDamaged turns SQLite's error about a damaged file into a *DamagedError.
func asDamaged(path string, err error) error {
	if _, known := errors.AsType[*DamagedError](err); known || !ofDamage(err) {
		return err
	}
	return &DamagedError{Path: path, Err: err}
}

func ofDamage(err error) bool {
	failure, _ := errors.AsType[sqlite3.Error](err)
	return failure.Code == sqlite3.ErrCorrupt || failure.Code == sqlite3.ErrNotADB
}

// guard detects changes to an open ledger's files. A nil guard detects none.
type guard struct {
	path string
	held func() error // returns why the directory lock was lost; may be nil

	mu      sync.Mutex
	open    map[string]os.FileInfo // by file name suffix
	size    int64                  // the largest size of the file so far
	damaged error
}

func newGuard(path string) *guard { return &guard{path: path, open: map[string]os.FileInfo{}} }

func (g *guard) notice(err error) error {
	if g == nil || !ofDamage(err) {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.damaged == nil {
		g.damaged = asDamaged(g.path, err)
	}
	return err
}

// check returns why the files cannot be used any more, or nil. shorter says that the ledger
// file is smaller than at an earlier check.
func (g *guard) check() (shorter bool, err error) {
	if g == nil {
		return false, nil
	}
	if g.held != nil {
		if err := g.held(); err != nil {
			return false, err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, ending := range besideIt {
		now, err := os.Stat(g.path + ending)
		was := g.open[ending]
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist): // the disk does not answer, which proves nothing
		case was != nil && (err != nil || !os.SameFile(was, now)):
			return false, &LostError{g.path + ending}
		case err == nil && was == nil:
			g.open[ending] = now
		}
		if err == nil && ending == "" {
			shorter = now.Size() < g.size
			g.size = max(g.size, now.Size())
		}
	}
	return shorter, g.damaged
}

// Unusable returns why nothing is written to the ledger until the file is put back or the
// program restarts: a *LostError, a *DamagedError or the error of Config.Held. It returns
// nil while the ledger is usable.
func (l *Ledger) Unusable() error {
	shorter, err := l.guard.check()
	if err != nil || !shorter {
		return err
	}
	return l.cutShort()
}

// cutShort returns a *DamagedError if the file is smaller than its header says. Pages in the
// WAL do not count. A file that an operator vacuumed passes the check.
func (l *Ledger) cutShort() error {
	bytes, err := bytesInHeader(l.path)
	l.guard.mu.Lock()
	defer l.guard.mu.Unlock()
	if l.guard.damaged != nil || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return l.guard.damaged
	}
	size := sizeOf(l.path)
	if err != nil || size < bytes {
		l.guard.damaged = &DamagedError{l.path, fmt.Errorf("it has %d bytes of %d", size, max(bytes, l.guard.size))}
		return l.guard.damaged
	}
	l.guard.size = size
	return nil
}

// keptOpen keeps open the files that bytesInHeader has opened. Closing such a file would
// drop SQLite's locks on it in this process.
var keptOpen struct {
	sync.Mutex
	files []*os.File
}

// bytesInHeader returns the size of a database file in bytes, according to its header
// (https://www.sqlite.org/fileformat.html, 1.3).
func bytesInHeader(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	keptOpen.Lock()
	keptOpen.files = append(keptOpen.files, f)
	keptOpen.Unlock()
	header := make([]byte, 100)
	if _, err := io.ReadFull(f, header); err != nil {
		return 0, err
	}
	page := int64(binary.BigEndian.Uint16(header[16:]))
	if page == 1 {
		page = 65536
	}
	return page * int64(binary.BigEndian.Uint32(header[28:])), nil
}

// connector opens guarded connections for reading. It opens none if the file was removed or
// replaced, because another file would contain another history.
type connector struct {
	driver *sqlite3.SQLiteDriver
	dsn    string
	guard  *guard
}

func openGuarded(dsn string, g *guard) *sql.DB {
	return sql.OpenDB(&connector{driver: &sqlite3.SQLiteDriver{}, dsn: dsn, guard: g})
}

// Driver returns SQLite's driver.
func (c *connector) Driver() driver.Driver { return c.driver }

// Connect opens a connection.
func (c *connector) Connect(context.Context) (driver.Conn, error) {
	if _, err := c.guard.check(); err != nil {
		if _, lost := errors.AsType[*LostError](err); lost {
			return nil, err
		}
	}
	opened, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, c.guard.notice(err)
	}
	conn, ok := opened.(*sqlite3.SQLiteConn)
	if !ok {
		return nil, fmt.Errorf("the driver gave a %T", opened)
	}
	return &guardedConn{conn, c.guard}, nil
}

// guardedConn reports SQLite's errors about the file to the guard.
type guardedConn struct {
	*sqlite3.SQLiteConn
	guard *guard
}

// QueryContext runs the driver's query.
func (c *guardedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.SQLiteConn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, c.guard.notice(err)
	}
	return &guardedRows{rows, c.guard}, nil
}

type guardedRows struct {
	driver.Rows
	guard *guard
}

// Next reads the driver's next row.
func (r *guardedRows) Next(dest []driver.Value) error { return r.guard.notice(r.Rows.Next(dest)) }

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
	found, err := chain.LastRow(w.QueryRow(chain.LastRowQuery))
	if err != nil {
		return err
	}
	if found != w.head {
		return fmt.Errorf("the journal ends with row %d after an I/O error, and row %d was committed last: restart, to read it again", found.Seq, w.head.Seq)
	}
	w.doubtful = false
	return nil
}
