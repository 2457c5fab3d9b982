// The fold of a journal into another file: a second fold to compare with, or a restored
// ledger.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"perennial/ledger/files"
)

// fold is a ledger file that is filled from a journal written elsewhere, by the
// same apply: a second fold to compare with, or a ledger that is restored.
type fold struct{ w *writer }

// newFold opens a file, or makes it, to append behind its last row. What it writes is
// not synced: a caller that keeps the file syncs it as a whole.
func newFold(ctx context.Context, path string) (*fold, error) {
	if err := files.Make(path); err != nil {
		return nil, fmt.Errorf("fold into %s: %w", path, err)
	}
	c, err := openWriter(ctx, path, time.Second)
	if err != nil {
		return nil, err
	}
	w := emptyWriter(c)
	err = w.queryRow(`SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1`).Scan(&w.head.seq, &w.head.hash)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	if err := errors.Join(err, w.exec(`PRAGMA synchronous = OFF`)); err != nil {
		return nil, errors.Join(fmt.Errorf("fold into %s: %w", path, err), c.close())
	}
	return &fold{w: w}, nil
}

func (f *fold) close() error { return f.w.close() }

// at is the last row that was folded.
func (f *fold) at() Head { return Head{Seq: f.w.head.seq, Hash: f.w.head.hash} }

// journalOf yields the rows of a journal behind one sequence and up to another,
// in order.
func journalOf(ctx context.Context, source *sql.Tx, after, through int64) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		err := each(queryOf(ctx, source, `SELECT `+rowColumns+` FROM journal WHERE seq > ? AND seq <= ? ORDER BY seq`, after, through), func(s scanner) error {
			r, err := scanRow(s)
			if err == nil && !yield(r, nil) {
				return errEnough
			}
			return err
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(Row{}, err)
		}
	}
}

// errEnough ends a query whose reader wants no more.
var errEnough = errors.New("enough")

// foldBatch is how many rows one transaction of a replay holds.
const foldBatch = 5000

// replay folds rows behind those that are there, checking the chain as it goes,
// and says how many. After an error the file holds a part of them.
func (f *fold) replay(rows iter.Seq2[Row, error]) (n int64, err error) {
	if err := f.w.exec(`BEGIN IMMEDIATE`); err != nil {
		return 0, err
	}
	for r, err := range rows {
		if err == nil {
			err = f.one(r)
		}
		if err != nil {
			return n, errors.Join(err, f.w.exec(`ROLLBACK`))
		}
		n++
		if n%foldBatch == 0 {
			if err := errors.Join(f.w.flushTotals(), f.w.exec(`COMMIT`), f.w.exec(`BEGIN IMMEDIATE`)); err != nil {
				return n, err
			}
		}
	}
	return n, errors.Join(f.w.flushTotals(), f.w.exec(`COMMIT`))
}

// followedBy proves that a row follows the head in the chain.
func (h head) followedBy(r Row, buf []byte) ([]byte, error) {
	if r.Seq != h.seq+1 {
		return buf, &BrokenError{Check: "chain", Seq: r.Seq, Detail: fmt.Sprintf("row %d is missing", h.seq+1)}
	}
	if r.PrevHash != h.hash {
		return buf, &BrokenError{Check: "chain", Seq: r.Seq, Detail: "prev_hash is not the hash of the row before"}
	}
	buf, hash := hashRow(buf, r)
	if hash != r.Hash {
		return buf, &BrokenError{Check: "chain", Seq: r.Seq, Detail: "the row's content does not give its hash: it was changed after it was written"}
	}
	return buf, nil
}

// one folds a row; one that cannot be applied is broken.
func (f *fold) one(r Row) error {
	err := (&Tx{w: f.w}).fold(r)
	if _, broken := errors.AsType[*BrokenError](err); err != nil && !broken {
		err = &BrokenError{Check: "fold", Seq: r.Seq, Detail: err.Error()}
	}
	return err
}
