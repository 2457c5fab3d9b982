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
	"time"

	"github.com/mattn/go-sqlite3"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// conn is the writer's connection. It does not use database/sql, because its statements are
// the hottest path (a fifth of the writer's time, measured). It has one user and lives as
// long as the ledger. Each statement is prepared once. Statements are never cancelled: a
// commit completes or is rolled back whole.
type conn struct {
	raw    driver.Conn
	stmts  map[string]*prepared
	args   []driver.NamedValue
	ran    int64                 // number of statements so far
	before func(*prepared) error // called before each statement; may be nil
}

type prepared struct {
	*sqlite3.SQLiteStmt

	readsJournal, readsHeld bool

	rows connRows // result of the last execution; a statement has only one execution at a time
}

func openConn(dsn string) (*conn, error) {
	raw, err := (&sqlite3.SQLiteDriver{}).Open(dsn)
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, stmts: map[string]*prepared{}}, nil
}

func (c *conn) close() error {
	for _, s := range c.stmts {
		_ = s.Close()
	}
	return c.raw.Close()
}

func (c *conn) stmt(query string) (*prepared, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	made, err := c.raw.Prepare(query)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", query, err)
	}
	raw, ok := made.(*sqlite3.SQLiteStmt)
	if !ok {
		return nil, fmt.Errorf("prepare %q: the driver gave a %T", query, made)
	}
	s := &prepared{SQLiteStmt: raw, readsJournal: readsJournal(query), readsHeld: readsHeld(query)}
	c.stmts[query] = s
	return s, nil
}

func (c *conn) ready(query string) (*prepared, error) {
	s, err := c.stmt(query)
	if err == nil && c.before != nil {
		err = c.before(s)
	}
	return s, err
}

// Converts arguments to the driver's types, in a buffer that the next call reuses.
func (c *conn) values(args []any) ([]driver.NamedValue, error) {
	c.ran++
	c.args = c.args[:0]
	for i, a := range args {
		value := driver.NamedValue{Ordinal: i + 1, Value: a}
		switch v := a.(type) {
		case int64, string, bool, []byte, nil:
		case int:
			value.Value = int64(v)
		default:
			return nil, fmt.Errorf("%T is not stored in a ledger", a)
		}
		c.args = append(c.args, value)
	}
	return c.args, nil
}

func (c *conn) run(query string, args []any) (driver.Result, error) {
	s, err := c.ready(query)
	if err != nil {
		return nil, err
	}
	values, err := c.values(args)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(context.Background(), values)
}

func (c *conn) exec(query string, args ...any) error {
	_, err := c.run(query, args)
	return err
}

// execOne runs a statement that must change exactly one row. If it does not, execOne returns
// ErrNotFound.
func (c *conn) execOne(query string, args ...any) error {
	n, err := c.changed(query, args)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows changed instead of one: %w", n, ErrNotFound)
	}
	return err
}

func (c *conn) changed(query string, args []any) (int64, error) {
	result, err := c.run(query, args)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query runs a query. If it fails, Scan and Err of the rows return the error.
func (c *conn) Query(query string, args ...any) sqlite.Rows {
	rows, err := c.start(query, args)
	if err != nil {
		return sqlite.Failed(err)
	}
	return rows
}

func (c *conn) start(query string, args []any) (*connRows, error) {
	s, err := c.ready(query)
	if err != nil {
		return nil, err
	}
	values, err := c.values(args)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(context.Background(), values)
	if err != nil {
		return nil, err
	}
	if s.rows.values == nil {
		s.rows.values = make([]driver.Value, len(rows.Columns()))
	}
	s.rows.rows, s.rows.err = rows, nil
	return &s.rows, nil
}

// QueryRow runs a query for one row. Like database/sql it returns every error from Scan; a
// missing row is sql.ErrNoRows.
func (c *conn) QueryRow(query string, args ...any) sqlite.Scanner {
	rows, err := c.start(query, args)
	if err != nil {
		return sqlite.Failed(err)
	}
	return (*oneRow)(rows)
}

type oneRow connRows

func (r *oneRow) Scan(dest ...any) error {
	rows := (*connRows)(r)
	defer func() { _ = rows.Close() }()
	switch {
	case rows.Next():
		return rows.Scan(dest...)
	case rows.Err() != nil:
		return rows.Err()
	}
	return sql.ErrNoRows
}

type connRows struct {
	rows   driver.Rows
	values []driver.Value
	err    error
}

func (r *connRows) Next() bool {
	err := r.rows.Next(r.values)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return err == nil
}

func (r *connRows) Err() error   { return r.err }
func (r *connRows) Close() error { return r.rows.Close() }

func (r *connRows) Scan(dest ...any) error {
	if len(dest) != len(r.values) {
		return fmt.Errorf("%d columns for %d variables", len(r.values), len(dest))
	}
	for i, d := range dest {
		if err := assign(d, r.values[i]); err != nil {
			return fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return nil
}

// assign stores a column in a variable of the same type. Tables are STRICT, so no
// conversion is needed.
func assign(dest any, value driver.Value) error {
	number, isNumber := value.(int64)
	text, isText := value.(string)
	switch d := dest.(type) {
	case sql.Scanner:
		return d.Scan(value)
	case *int64:
		*d = number
	case *int:
		*d = int(number)
	case *string:
		*d, isNumber = text, isText
	case *fact.Kind:
		*d, isNumber = fact.Kind(text), isText
	case *fact.State:
		*d, isNumber = fact.State(text), isText
	default:
		return fmt.Errorf("%T cannot be read from a ledger", dest)
	}
	if !isNumber {
		return fmt.Errorf("a %T does not fit into %T", value, dest)
	}
	return nil
}

// SQLite restarts its write-ahead log only when no reader uses it. While reads overlap, it never
// restarts, and the log grows with every commit, even if most of it is copied back. When the log
// has grown too far, the ledger's own readers pause: current reads finish, new reads wait, and
// the writer empties the log. Readers in other processes cannot be paused; Unbounded reports
// them.

const (
	// logPages is the size of the log, in pages, at which commits start to copy it back (64
	// MiB).
	logPages = 16384
	// logBound is the size of the log, in bytes, at which readers pause.
	logBound = 128 << 20
	// readersPause is the longest time for which new reads wait for current reads. It is also the
	// longest time for which they wait for the writer.
	readersPause = 2 * time.Second
	maxReaders   = 4
)

// Unbounded returns why the write-ahead log grows and cannot be emptied. It returns nil if the
// log is not too large.
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

// SQLite continues to use a file that was renamed, removed or replaced by another file, and
// its commits are lost when the process ends. It also continues if only some pages are
// damaged. An open ledger therefore remembers which files it has opened and whether SQLite
// reported damage. Once a file is replaced or damaged, nothing more is written. Nothing is
// sent either, because each request needs a written intent.

// LostError reports that a ledger file was removed or replaced while it was open.
type LostError struct{ Path string }

func (e *LostError) Error() string {
	return fmt.Sprintf("the ledger file %s was removed, or another file was put in its place, while the program was running, and nothing more is written: "+
		"put the original file back; or stop the runner, which first publishes what it has, and rebuild the ledger with `perennial backup restore --from-events --replace`", e.Path)
}

// DamagedError reports that SQLite found a ledger file damaged.
type DamagedError struct {
	Path string
	Err  error
	Copy bool // the file is a backup or an archive
}

func (e *DamagedError) Error() string {
	if e.Copy {
		return fmt.Sprintf("%s is damaged (%v): use another copy of it. This says nothing about the account's ledger, which is another file", e.Path, e.Err)
	}
	return fmt.Sprintf("the ledger file %s is damaged (%v): stop the runner if there is one, keep a copy of the file, and rebuild the ledger "+
		"with `perennial backup restore --from-events --replace`, or with `perennial backup restore --from BACKUP --replace`", e.Path, e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

func (c Config) asDamaged(err error) error {
	if _, known := errors.AsType[*DamagedError](err); known || !ofDamage(err) {
		return err
	}
	return &DamagedError{Path: c.Path, Err: err, Copy: c.Copy}
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
		g.damaged = &DamagedError{Path: g.path, Err: err}
	}
	return err
}

// check returns why the files cannot be used any more. It returns nil if they can be used.
// shorter says that the ledger file is smaller than at an earlier check.
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
		l.guard.damaged = &DamagedError{Path: l.path, Err: fmt.Errorf("it has %d bytes of %d", size, max(bytes, l.guard.size))}
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

func (c *connector) Driver() driver.Driver { return c.driver }

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

type guardedConn struct {
	*sqlite3.SQLiteConn
	guard *guard
}

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

func (r *guardedRows) Next(dest []driver.Value) error { return r.guard.notice(r.Rows.Next(dest)) }

// After a failed fsync the operating system may have dropped data that it could not write, and
// may still show that data to readers. A process that opens the file later can read commits in
// the write-ahead log that a power cut would lose. The later commits of that process would be
// lost too, even if they are synced. The process that saw the failure is safe: SQLite has undone
// the commit and writes the same part of the log again.
//
// Therefore, before anything is appended, everything readable in the log is copied into the
// database and synced there, and the log is restarted:
//   - when a file is opened, because its previous process may have ended after a failure;
//   - after an I/O error, to show that the disk accepts writes again. Until that succeeds, writes
//     fail and reads continue.

func isIOError(err error) bool {
	failure, _ := errors.AsType[sqlite3.Error](err)
	return failure.Code == sqlite3.ErrIoErr
}

// settleLog copies the write-ahead log into the database and syncs it there. If a reader still
// uses an older state of the file, only part of the log can be copied. A partial copy is not an
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
