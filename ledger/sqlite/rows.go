package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// ErrNone is returned if the file does not contain the requested entry.
var ErrNone = errors.New("not in the ledger")

// NotFound returns ErrNone in place of sql.ErrNoRows.
func NotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNone
	}
	return err
}

// Optional returns nil in place of sql.ErrNoRows and ErrNone, for a row that may be missing.
func Optional(err error) error {
	if errors.Is(err, sql.ErrNoRows) || errors.Is(err, ErrNone) {
		return nil
	}
	return err
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

// Query runs a query. If it fails, Scan and Err of the rows return the error.
func Query(ctx context.Context, q Queryer, query string, args ...any) Rows {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return Failed(err)
	}
	return rows
}

// Failed returns rows for a query that failed: Scan and Err return err.
func Failed(err error) Rows { return failed{err} }

type failed struct{ err error }

func (f failed) Next() bool        { return false }
func (f failed) Scan(...any) error { return f.err }
func (f failed) Err() error        { return f.err }
func (f failed) Close() error      { return nil }

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

// EachAs calls do with the result of scan for every row of a query, and closes the rows.
func EachAs[T any](rows Rows, scan func(Scanner) (T, error), do func(T) error) error {
	return Each(rows, func(s Scanner) error {
		one, err := scan(s)
		if err != nil {
			return err
		}
		return do(one)
	})
}

// Pairs scans all rows of a query that has two columns, a key and its value.
func Pairs[K comparable, V any](rows Rows) (map[K]V, error) {
	all := map[K]V{}
	return all, Each(rows, func(s Scanner) error {
		var key K
		var value V
		err := s.Scan(&key, &value)
		all[key] = value
		return err
	})
}

// One scans the only row of a query. It returns ErrNone if there is no row.
func One[T any](scan func(Scanner) (T, error), row Scanner) (T, error) {
	v, err := scan(row)
	return v, NotFound(err)
}

// Into returns a function that scans a row into the variables of a T, one per column.
func Into[T any](columns func(*T) []any) func(Scanner) (T, error) {
	return func(s Scanner) (v T, err error) {
		err = s.Scan(columns(&v)...)
		return v, err
	}
}

// With returns a row that has further columns at its end. Its Scan stores these columns in more.
func With(s Scanner, more ...any) Scanner { return longer{s, more} }

type longer struct {
	Scanner
	more []any
}

func (l longer) Scan(dest ...any) error { return l.Scanner.Scan(append(dest, l.more...)...) }

// Value scans a row that has a single column.
func Value[T any](s Scanner) (v T, err error) {
	err = s.Scan(&v)
	return v, err
}

// Found reports whether a count, or the result of EXISTS, is above 0.
func Found(row Scanner) (bool, error) {
	n, err := Value[int](row)
	return n > 0, err
}

// Snapshot calls do with a transaction that shows one moment of the file.
func Snapshot(ctx context.Context, db *sql.DB, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	return do(tx)
}

// Columns lists a table's columns in their order. It returns none for a missing table.
func Columns(ctx context.Context, q Queryer, table string) ([]string, error) {
	return Collect(Query(ctx, q, `SELECT name FROM pragma_table_info(?) ORDER BY cid`, table), Value[string])
}

// IfMade calls check if the table exists. A file that predates the table does not have it.
func IfMade(ctx context.Context, q Queryer, table string, check func() error) error {
	made, err := Found(q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?)`, table))
	if err != nil || !made {
		return err
	}
	return check()
}

// Micros returns an instant in its stored form: microseconds since 1970. The time zone of t
// makes no difference.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// FromMicros is the inverse of Micros, in UTC.
func FromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }

// NullInstant returns an instant in its stored form, or NULL (nil) for a missing or zero
// instant.
func NullInstant(at *time.Time) any {
	if at == nil || at.IsZero() {
		return nil
	}
	return Micros(*at)
}

// Instant converts an instant that may be NULL.
func Instant(us sql.NullInt64) *time.Time {
	if !us.Valid {
		return nil
	}
	at := FromMicros(us.Int64)
	return &at
}

// At returns an argument for Scan. Scan converts a stored instant and stores it in t.
func At(t *time.Time) sql.Scanner { return (*instant)(t) }

type instant time.Time

func (t *instant) Scan(column any) error {
	us, ok := column.(int64)
	if !ok {
		return fmt.Errorf("a %T is no instant", column)
	}
	*t = instant(FromMicros(us))
	return nil
}

// NullAt is like At, but for an instant that may be NULL. Scan stores nil for NULL.
func NullAt(t **time.Time) sql.Scanner { return nullInstant{t} }

type nullInstant struct{ t **time.Time }

func (n nullInstant) Scan(column any) error {
	if *n.t = nil; column == nil {
		return nil
	}
	*n.t = new(time.Time)
	return At(*n.t).Scan(column)
}
