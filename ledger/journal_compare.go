// Comparing all projections of two ledger files, inside SQLite.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"perennial/ledger/chain"
	"perennial/ledger/sqlite"
)

// comparison reads one moment of a ledger over one connection, to which a second fold of
// the journal is attached.
type comparison struct {
	conn     *sql.Conn
	tx       *sql.Tx
	attached bool
	byRows   bool // the file predates transfers.booked_at, so the times of rows decide the days
}

// compare starts to read the ledger as it is now.
func (l *Ledger) compare(ctx context.Context) (*comparison, error) {
	c, err := l.read.Conn(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := c.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &comparison{conn: c, tx: tx}, nil
}

func (b *comparison) end() error {
	_ = b.tx.Rollback()
	var err error
	if b.attached {
		_, err = b.conn.ExecContext(context.Background(), `DETACH again`)
	}
	return errors.Join(err, b.conn.Close())
}

// foldAll folds the journal into a new file, from its first row or from its snapshot.
func (b *comparison) foldAll(ctx context.Context, path string, open openFold) (rows int64, h chain.Head, err error) {
	err = makeFile(path, func(singly bool) (err error) {
		f, err := open(ctx, path, singly)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.close()) }()
		if err := f.beginAs(ctx, b.tx); err != nil {
			return err
		}
		rows, err = f.replay(journalOf(ctx, b.tx, 0, math.MaxInt64))
		h = f.at()
		return err
	})
	return rows, h, err
}

// compare attaches a finished fold and compares the given tables and the tables derived
// from them.
func (b *comparison) compare(ctx context.Context, path string, tables []string) error {
	if _, err := b.tx.ExecContext(ctx, `ATTACH ? AS again`, immutable(path)); err != nil {
		return fmt.Errorf("compare with %s: %w", path, err)
	}
	b.attached = true
	booked, err := sqlite.Columns(ctx, b.tx, "transfers")
	if err != nil {
		return err
	}
	b.byRows = !slices.Contains(booked, "booked_at")
	for _, table := range append(slices.Clone(tables), running...) {
		if err := sqlite.IfMade(ctx, b.tx, table, func() error { return b.compareTable(ctx, table) }); err != nil {
			return err
		}
	}
	return nil
}

// immutable returns the URI for attaching a file read-only. No process may write to the
// file.
func immutable(path string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=ro&immutable=1"
}

// compareTable compares a table with the same table rebuilt from the journal: the number of
// rows and every column. If they differ, the error names the first row that differs.
func (b *comparison) compareTable(ctx context.Context, table string) error {
	columns, err := sqlite.Columns(ctx, b.tx, table)
	if err != nil {
		return err
	}
	if b.byRows && table == "net_charges" {
		return nil
	}
	if b.byRows && table == "operations" {
		columns = slices.DeleteFunc(columns, func(name string) bool { return name == "charged_at" })
	}
	key, err := sqlite.Collect(sqlite.Query(ctx, b.tx, `SELECT name FROM pragma_table_info(?, 'again') WHERE pk > 0 ORDER BY pk`, table), sqlite.Text)
	if err != nil {
		return err
	}
	equal := func(names []string) string {
		parts := make([]string, len(names))
		for i, name := range names {
			parts[i] = `b.` + name + ` IS a.` + name // b first: the comparison follows this program's tables
		}
		return strings.Join(parts, ` AND `)
	}
	var have, want, same int64
	err = b.tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM main.`+table+`), count(*), coalesce(sum(`+equal(columns)+`), 0)
		FROM again.`+table+` b LEFT JOIN main.`+table+` a ON `+equal(key)).Scan(&have, &want, &same)
	if err == nil && (have != want || same != want || len(key) == 0) {
		err = b.walk(ctx, table, columns)
	}
	return err
}

// walk returns an error with the first row in which a table and its second fold differ. It
// compares each row as one text of all its columns.
func (b *comparison) walk(ctx context.Context, table string, columns []string) (err error) {
	x, y := sqlite.Query(ctx, b.tx, wholeRows(`main.`+table, columns)), sqlite.Query(ctx, b.tx, wholeRows(`again.`+table, columns))
	defer func() { err = errors.Join(err, x.Close(), y.Close()) }()
	for {
		have, okHave, errHave := nextRow(x)
		want, okWant, errWant := nextRow(y)
		if err := errors.Join(errHave, errWant); err != nil {
			return err
		}
		if have != want {
			return &chain.BrokenError{Check: "projection", Detail: fmt.Sprintf("%s holds (%s) and the journal gives (%s)", table, have, want)}
		}
		if !okHave || !okWant {
			return nil
		}
	}
}

// wholeRows returns the query for a table's rows, each as one text, ordered by the primary
// key.
func wholeRows(table string, columns []string) string {
	parts := make([]string, 0, len(columns))
	for _, c := range columns {
		parts = append(parts, `'`+c+`=' || quote(`+c+`)`)
	}
	return `SELECT ` + strings.Join(parts, ` || ', ' || `) + ` FROM ` + table + ` ORDER BY ` + keyOf(columns)
}

// keyOf returns the columns by which a table's rows are ordered: the first three. They
// include the primary key of every table except command_labels.
func keyOf(columns []string) string { return strings.Join(columns[:min(3, len(columns))], `, `) }

// nextRow reads the next row of a query. ok is false after the last row.
func nextRow(r sqlite.Rows) (text string, ok bool, err error) {
	if !r.Next() {
		return "", false, r.Err()
	}
	err = r.Scan(&text)
	return text, err == nil, err
}
