package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

// Failed returns rows for a query that failed: Scan and Err return err.
func Failed(err error) Rows { return failed{err} }

type failed struct{ err error }

func (f failed) Next() bool        { return false }
func (f failed) Scan(...any) error { return f.err }
func (f failed) Err() error        { return f.err }
func (f failed) Close() error      { return nil }

// ErrNone is returned if the file does not contain what was asked for.
var ErrNone = errors.New("not in the ledger")

// Columns lists a table's columns in their order; none for a missing table.
func Columns(ctx context.Context, q Queryer, table string) ([]string, error) {
	found, err := q.QueryContext(ctx, `SELECT name FROM pragma_table_info(?) ORDER BY cid`, table)
	if err != nil {
		return nil, err
	}
	return Collect(found, Text)
}

// ErrEnough is returned by a callback that needs no more rows. Each returns it to its
// caller.
var ErrEnough = errors.New("enough")

// Scanner is a row.
type Scanner interface{ Scan(dest ...any) error }

// Rows is the common interface of sql.Rows and the writer's rows.
type Rows interface {
	Scanner
	Next() bool
	Err() error
	Close() error
}

// NotFound returns ErrNone in place of sql.ErrNoRows.
func NotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNone
	}
	return err
}

// IfMade calls check if the table exists. A file that predates the table does not have it.
func IfMade(ctx context.Context, q Queryer, table string, check func() error) error {
	var there bool
	err := q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?)`, table).Scan(&there)
	if err != nil || !there {
		return err
	}
	return check()
}

// Collect scans all rows of a query and closes them. If a row fails, it returns none.
func Collect[T any](rows Rows, scan func(Scanner) (T, error)) (all []T, err error) {
	err = Each(rows, func(s Scanner) error {
		one, err := scan(s)
		all = append(all, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Each calls do for every row of a query, until do returns an error, and closes the rows.
func Each(rows Rows, do func(Scanner) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Query runs a query. If it fails, Scan and Err of the rows return the error.
func Query(ctx context.Context, q Queryer, query string, args ...any) Rows {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return Failed(err)
	}
	return rows
}

// One scans the only row of a query. It returns ErrNone if there is no row.
func One[T any](scan func(Scanner) (T, error), row Scanner) (T, error) {
	v, err := scan(row)
	return v, NotFound(err)
}

// Found reports whether a count is above 0.
func Found(row Scanner) (bool, error) {
	var n int
	err := row.Scan(&n)
	return n > 0, err
}

// Text reads a row that has a single column, a text.
func Text(s Scanner) (text string, err error) {
	err = s.Scan(&text)
	return text, err
}

// Source runs queries, inside or outside a transaction.
type Source interface {
	Query(query string, args ...any) Rows
	QueryRow(query string, args ...any) Scanner
}

// Queryer is the common interface of sql.DB and sql.Tx.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}
