// The writer's connection: prepared statements without the overhead of database/sql, and
// the limit of the write-ahead log, for which readers pause until the log can be
// restarted.

package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mattn/go-sqlite3"

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

// prepared is a statement of the connection.
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

// ready returns the statement, after the before hook has run.
func (c *conn) ready(query string) (*prepared, error) {
	s, err := c.stmt(query)
	if err == nil && c.before != nil {
		err = c.before(s)
	}
	return s, err
}

// values converts arguments to the driver's types, in a buffer that the next call reuses.
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

// execOne runs a statement that must change exactly one row, or returns ErrNotFound.
func (c *conn) execOne(query string, args ...any) error {
	n, err := c.changed(query, args)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows changed instead of one: %w", n, ErrNotFound)
	}
	return err
}

// changed runs a statement and returns the number of changed rows.
func (c *conn) changed(query string, args []any) (int64, error) {
	result, err := c.run(query, args)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query runs a query. An error is returned by the rows.
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

// connRows implements sqlite.Rows.
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
