// Folding a journal into another file: a second fold to compare with, or a restored ledger.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/files"
	"perennial/ledger/sqlite"
)

// fold is a ledger file filled from another journal by the same apply: a second fold to
// compare with, or a restored ledger. It cannot be rolled back: after an error it must be
// discarded.
type fold struct {
	w       *writer
	scratch bool     // compared and discarded: no journal, and only the indexes that the fold reads
	dropped []string // statements that recreate what was dropped for the filling
}

// makeFile makes a file by a fold. If a row of several is refused, it makes the file again
// with every row stored singly, whose error names the fact.
func makeFile(path string, fold func(singly bool) error) error {
	err := fold(false)
	if !errors.Is(err, errTogether) {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return fold(true)
}

// newFold opens or creates a file, to append after its last row. Its writes are not synced:
// a caller that keeps the file syncs it as a whole.
func newFold(ctx context.Context, path string, singly bool) (*fold, error) {
	if err := files.Make(path); err != nil {
		return nil, fmt.Errorf("fold into %s: %w", path, err)
	}
	c, err := openWriter(ctx, path, time.Second)
	if err != nil {
		return nil, err
	}
	f := &fold{w: emptyWriter(c)}
	f.w.singly = singly
	if err := f.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("fold into %s: %w", path, err), c.close())
	}
	return f, nil
}

// openFold is newFold or newScratch.
type openFold func(ctx context.Context, path string, singly bool) (*fold, error)

// newScratch creates a file for a second fold.
func newScratch(ctx context.Context, path string, singly bool) (*fold, error) {
	f, err := newFold(ctx, path, singly)
	if err == nil {
		f.scratch = true
	}
	return f, err
}

// prepare finds the last row, and sets the connection up for one long write, without copies
// of pages for a rollback. A file without rows loses the indexes and triggers that no fold
// needs, until it is closed. Creating them after the last row costs a fifth as much.
func (f *fold) prepare() error {
	err := f.w.QueryRow(`SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1`).Scan(&f.w.head.Seq, &f.w.head.Hash)
	empty := errors.Is(err, sql.ErrNoRows)
	if empty {
		err = nil
	}
	for _, pragma := range []string{`journal_mode = DELETE`, `journal_mode = OFF`, `locking_mode = EXCLUSIVE`} {
		var mode string
		err = errors.Join(err, f.w.QueryRow(`PRAGMA `+pragma).Scan(&mode))
	}
	err = errors.Join(err, f.w.exec(`PRAGMA synchronous = OFF`), f.w.exec(`PRAGMA cache_size = `+itoa(-foldCache>>10)))
	if err != nil || !empty {
		return err
	}
	return f.drop()
}

// foldCache is how many bytes of pages a fold keeps in memory.
const foldCache = 64 << 20

// drop removes what no fold reads. The unique index on open lines stays, because it
// arbitrates, and so does the trigger that checks the arrows. The journal's indexes of a few
// types stay too: each would read the whole journal to hold a few rows. The chain proves
// what the journal's triggers enforce; primary keys replace the trigger on transfers.
func (f *fold) drop() error {
	type made struct{ kind, name, text string }
	all, err := sqlite.Collect(f.w.Query(`SELECT type, name, sql FROM sqlite_schema WHERE
		type = 'index' AND (tbl_name IN ('operations', 'lines', 'transfers') OR name = 'journal_operation') AND sql IS NOT NULL AND sql NOT LIKE 'CREATE UNIQUE %'
		OR type = 'trigger' AND name IN ('journal_only_grows', 'transfers_no_replace', 'operation_counted', 'operation_counted_anew')`),
		func(s sqlite.Scanner) (m made, err error) { return m, s.Scan(&m.kind, &m.name, &m.text) })
	for _, m := range all {
		err = errors.Join(err, f.w.exec(`DROP `+m.kind+` `+m.name))
		f.dropped = append(f.dropped, m.text)
	}
	return err
}

// countStates does what the triggers on operations do.
const countStates = `UPDATE state_counts SET n = (SELECT count(*) FROM operations o WHERE o.state = state_counts.state)`

// finish recreates tables, indexes and triggers after the last row.
func (f *fold) finish() error {
	if f.dropped == nil {
		return nil
	}
	err := f.w.exec(countStates)
	for _, text := range f.dropped {
		if !f.scratch {
			err = errors.Join(err, f.make(text))
		}
	}
	f.dropped = nil
	return err
}

// make recreates an index or a trigger. It sorts what exceeds the cache in temporary files,
// or in memory if they have no room.
func (f *fold) make(text string) error {
	if f.w.exec(text) == nil {
		return nil
	}
	return errors.Join(f.w.exec(`PRAGMA temp_store = MEMORY`), f.w.exec(text))
}

func (f *fold) close() error { return errors.Join(f.finish(), f.w.close()) }

// at returns the last folded row.
func (f *fold) at() chain.Head { return f.w.head }

// journalOf yields a journal's rows after one sequence, up to and including another, in
// order.
func journalOf(ctx context.Context, source *sql.Tx, after, through int64) iter.Seq2[chain.Row, error] {
	return func(yield func(chain.Row, error) bool) {
		err := sqlite.Each(sqlite.Query(ctx, source, `SELECT `+chain.Columns+` FROM journal WHERE seq > ? AND seq <= ? ORDER BY seq`, after, through), func(s sqlite.Scanner) error {
			r, err := chain.Scan(s)
			if err == nil && !yield(r, nil) {
				return sqlite.ErrEnough
			}
			return err
		})
		if err != nil && !errors.Is(err, sqlite.ErrEnough) {
			yield(chain.Row{}, err)
		}
	}
}

// replay appends rows to the fold, checks the chain and returns how many it folded. After
// an error the file is useless.
func (f *fold) replay(rows iter.Seq2[chain.Row, error]) (n int64, err error) {
	if err := f.w.exec(`BEGIN IMMEDIATE`); err != nil {
		return 0, err
	}
	tx := newTx(f.w, 0)
	err = readAhead(f.w.head, rows, func(r chain.Row, fa fact.Fact) error {
		if !f.scratch {
			if err := tx.insert(r); err != nil {
				return err
			}
		}
		if err := tx.applyAt(r, fa); err != nil {
			if errors.Is(err, errTogether) {
				return err
			}
			return &chain.BrokenError{Check: "fold", Seq: r.Seq, Detail: err.Error()}
		}
		n++
		return nil
	})
	if held := f.w.writeHeld(); err == nil || errors.Is(held, errTogether) { // a refused row is before the row of err
		err = held
	}
	if err == nil {
		err = f.w.flushTotals()
	}
	if err != nil {
		f.dropped = nil
		f.w.forgetHeld()
		return n, errors.Join(err, f.w.exec(`ROLLBACK`))
	}
	return n, f.w.exec(`COMMIT`)
}
