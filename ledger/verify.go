package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// BrokenError is the first thing that Verify found wrong.
type BrokenError struct {
	// Check names what does not hold: sqlite, chain, fold, projection, key.
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
		if err := compareTable(ctx, table, snapshot, fold); err != nil {
			return v, err
		}
	}
	return v, checkKeys(ctx, snapshot)
}

// checkKeys looks for an idempotency key that two operations share: the
// provider would take the second for a repetition of the first.
func checkKeys(ctx context.Context, snapshot *sql.Tx) error {
	var key, first, last string
	err := snapshot.QueryRowContext(ctx, `SELECT idempotency_key, min(id), max(id) FROM operations
		GROUP BY idempotency_key HAVING count(*) > 1 LIMIT 1`).Scan(&key, &first, &last)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return &BrokenError{Check: "key", Detail: fmt.Sprintf("operations %s and %s share the idempotency key %s", first, last, key)}
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
type fold struct{ w *writer }

func newFold(ctx context.Context, path string) (*fold, error) {
	c, err := openWriter(ctx, path, time.Second)
	if err != nil {
		return nil, err
	}
	w := emptyWriter(c)
	return &fold{w: w}, w.exec(`PRAGMA synchronous = OFF`) // it is thrown away
}

func (f *fold) close() error { return f.w.close() }

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

// compareTable walks a projection and its second fold side by side. Every
// column becomes one text, so that two rows are equal exactly when theirs are.
func compareTable(ctx context.Context, table string, have *sql.Tx, want *fold) (err error) {
	query, err := wholeRows(ctx, table, have)
	if err != nil {
		return err
	}
	a, err := have.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	b, err := want.w.query(query)
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

// wholeRows is a query of a table's rows, each as one text, in the order of the
// primary key, which is always among the first three columns.
func wholeRows(ctx context.Context, table string, tx *sql.Tx) (string, error) {
	found, err := tx.QueryContext(ctx, `SELECT name FROM pragma_table_info(?) ORDER BY cid`, table)
	if err != nil {
		return "", err
	}
	columns, err := collect(found, scanText)
	if err != nil {
		return "", err
	}
	parts := make([]string, 0, len(columns))
	for _, c := range columns {
		parts = append(parts, `'`+c+`=' || quote(`+c+`)`)
	}
	return `SELECT ` + strings.Join(parts, ` || ', ' || `) + ` FROM ` + table + ` ORDER BY ` + strings.Join(columns[:min(3, len(columns))], `, `), nil
}

// nextRow reads a query's next row; ok is false behind the last.
func nextRow(r rows) (text string, ok bool, err error) {
	if !r.Next() {
		return "", false, r.Err()
	}
	err = r.Scan(&text)
	return text, err == nil, err
}
