// The writer's connection: prepared statements without the overhead of database/sql.

package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

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
