package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// BrokenError is the first thing that Verify found wrong.
type BrokenError struct {
	// Check names what does not hold: sqlite, chain, fold, projection, balance.
	Check string
	// Seq is the first journal row concerned, 0 where there is none.
	Seq    int64
	Detail string
}

// Error says what is broken and where.
func (e *BrokenError) Error() string {
	if e.Seq == 0 {
		return fmt.Sprintf("ledger is broken (%s): %s", e.Check, e.Detail)
	}
	return fmt.Sprintf("ledger is broken (%s) at journal row %d: %s", e.Check, e.Seq, e.Detail)
}

// Verified is what a sound ledger was found to hold.
type Verified struct {
	Rows int64 `json:"rows"`
	Head Head  `json:"head"`
}

// projections are the tables that apply writes, in an order that a comparison
// can be read in. The proxies table is a cache of the provider and not among them.
var projections = []string{"binding", "commands", "rejections", "operations", "lines", "transfers", "totals", "pauses", "slots"}

// Verify checks SQLite's own structures, the hash chain, that every fact can be
// folded, and that folding all of them again gives the same projections and the
// same balances. The first thing that does not hold is a *BrokenError.
func (l *Ledger) Verify(ctx context.Context) (v Verified, err error) {
	if err := l.checkFile(ctx); err != nil {
		return v, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(l.path), ".verify-*")
	if err != nil {
		return v, fmt.Errorf("make room for a second fold beside %s: %w", l.path, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	snapshot, err := l.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return v, err
	}
	defer func() { _ = snapshot.Rollback() }()
	fold, err := newFold(ctx, filepath.Join(dir, "fold.db"))
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, fold.close()) }()
	if v, err = fold.replay(ctx, snapshot); err != nil {
		return v, err
	}
	for _, table := range projections {
		if err := compareTable(ctx, table, snapshot, fold.w.conn); err != nil {
			return v, err
		}
	}
	return v, nil
}

// checkFile asks SQLite whether its pages, indexes and foreign keys are sound.
func (l *Ledger) checkFile(ctx context.Context) error {
	var answer string
	if err := l.read.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&answer); err != nil {
		return &BrokenError{Check: "sqlite", Detail: err.Error()}
	}
	if answer != "ok" {
		return &BrokenError{Check: "sqlite", Detail: answer}
	}
	var table string
	var rowid, parent, fk sql.NullString
	err := l.read.QueryRowContext(ctx, `PRAGMA foreign_key_check`).Scan(&table, &rowid, &parent, &fk)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return &BrokenError{Check: "sqlite", Detail: err.Error()}
	}
	return &BrokenError{Check: "sqlite", Detail: "a row of " + table + " refers to a missing row of " + parent.String}
}

// fold is a second ledger file, filled from a journal by the same apply.
type fold struct {
	db *sql.DB
	w  *writer
}

func newFold(ctx context.Context, path string) (*fold, error) {
	db, err := openWriter(ctx, path)
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	w := &writer{conn: conn, stmts: map[string]*sql.Stmt{}, head: head{hash: genesis}, totals: map[total]int64{}}
	return &fold{db: db, w: w}, w.exec(`PRAGMA synchronous = OFF`)
}

func (f *fold) close() error {
	f.w.close()
	return f.db.Close()
}

// foldBatch is how many rows one transaction of a replay holds.
const foldBatch = 5000

// replay folds the whole journal of source, checking the chain as it goes.
func (f *fold) replay(ctx context.Context, source *sql.Tx) (v Verified, err error) {
	rows, err := source.QueryContext(ctx, `SELECT seq, type, time, operation, data, prev_hash, hash FROM journal ORDER BY seq`)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if err := f.w.exec(`BEGIN IMMEDIATE`); err != nil {
		return v, err
	}
	for rows.Next() {
		r, err := scanRow(rows)
		if err != nil {
			return v, err
		}
		if err := f.one(r); err != nil {
			return v, errors.Join(err, f.w.exec(`ROLLBACK`))
		}
		v.Rows++
		if v.Rows%foldBatch == 0 {
			if err := errors.Join(f.w.flushTotals(), f.w.exec(`COMMIT`), f.w.exec(`BEGIN IMMEDIATE`)); err != nil {
				return v, err
			}
		}
	}
	v.Head = Head{Seq: f.w.head.seq, Hash: f.w.head.hash}
	return v, errors.Join(rows.Err(), f.w.flushTotals(), f.w.exec(`COMMIT`))
}

// one checks a row against the chain and folds it.
func (f *fold) one(r Row) error {
	if r.Seq != f.w.head.seq+1 {
		return &BrokenError{Check: "chain", Seq: r.Seq, Detail: fmt.Sprintf("row %d is missing", f.w.head.seq+1)}
	}
	if r.PrevHash != f.w.head.hash {
		return &BrokenError{Check: "chain", Seq: r.Seq, Detail: "prev_hash is not the hash of the row before"}
	}
	var hash string
	if f.w.buf, hash = hashRow(f.w.buf, r); hash != r.Hash {
		return &BrokenError{Check: "chain", Seq: r.Seq, Detail: "the row's content does not give its hash: it was changed after it was written"}
	}
	fact, err := DecodeFact(r.Type, []byte(r.Data))
	if err != nil {
		return &BrokenError{Check: "fold", Seq: r.Seq, Detail: err.Error()}
	}
	tx := &Tx{w: f.w, now: r.Time}
	if err := errors.Join(tx.insert(r), tx.apply(r, fact)); err != nil {
		return &BrokenError{Check: "fold", Seq: r.Seq, Detail: err.Error()}
	}
	f.w.head = head{seq: r.Seq, hash: r.Hash}
	return nil
}

// querier is what a transaction and a database have in common here.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// compareTable walks a projection and its second fold side by side.
func compareTable(ctx context.Context, table string, have, want querier) (err error) {
	query := `SELECT * FROM ` + table + ` ORDER BY 1, 2, 3`
	a, err := have.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	b, err := want.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for {
		x, okX, errX := nextRow(a)
		y, okY, errY := nextRow(b)
		if err := errors.Join(errX, errY); err != nil {
			return err
		}
		if x != y {
			return &BrokenError{Check: "projection", Detail: fmt.Sprintf("%s holds (%s) and the journal gives (%s)", table, x, y)}
		}
		if !okX || !okY {
			return nil
		}
	}
}

// nextRow renders a query's next row as text; two rows are equal exactly when
// their texts are, because STRICT columns have one type.
func nextRow(rows *sql.Rows) (text string, ok bool, err error) {
	if !rows.Next() {
		return "", false, rows.Err()
	}
	columns, err := rows.Columns()
	if err != nil {
		return "", false, err
	}
	values := make([]sql.NullString, len(columns))
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		return "", false, err
	}
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(columns[i] + "=")
		if v.Valid {
			fmt.Fprintf(&b, "%q", v.String)
		} else {
			b.WriteString("null")
		}
	}
	return b.String(), true, nil
}
