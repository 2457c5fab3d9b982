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

// fold fills a ledger file from another journal, applying rows as a write does. It cannot be
// rolled back: after an error the file must be discarded.
type fold struct {
	w       *writer
	scratch bool     // for comparison only: no journal, and only the indexes that the fold reads
	dropped []string // statements that recreate what was dropped for filling
}

// makeFile makes a file with fold. If a statement with several rows is refused, makeFile
// starts again and stores every row singly, so that the error names the fact.
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

// newFold opens or creates a file, to append after its last row. Its writes are not synced;
// a caller that keeps the file must sync it.
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

func fillFile(ctx context.Context, path string, scratch bool, fill func(*fold) error) error {
	return makeFile(path, func(singly bool) (err error) {
		f, err := newFold(ctx, path, singly)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.close()) }()
		f.scratch = scratch
		return fill(f)
	})
}

// prepare reads the last row and sets the connection up for one long write without rollback.
// A file without rows also loses the indexes and triggers that no fold needs. Creating them
// again after the last row takes a fifth of the time that maintaining them would.
func (f *fold) prepare() error {
	err := f.w.readHead()
	for _, pragma := range []string{`journal_mode = DELETE`, `journal_mode = OFF`, `locking_mode = EXCLUSIVE`} {
		var mode string
		err = errors.Join(err, f.w.QueryRow(`PRAGMA `+pragma).Scan(&mode))
	}
	err = errors.Join(err, f.w.exec(`PRAGMA synchronous = OFF`), f.w.exec(`PRAGMA cache_size = `+itoa(-foldCache>>10)))
	if err != nil || f.at().Seq > 0 {
		return err
	}
	return f.drop()
}

// foldCache is the size of a fold's page cache, in bytes.
const foldCache = 64 << 20

// Removes what no fold reads. It keeps the trigger that checks state transitions, and the unique
// index on open lines. The index decides between two renewals of one proxy. drop also keeps the
// journal's indexes on a few types, because recreating each would read the whole journal for a
// few rows. The hash chain replaces the journal's triggers, and primary keys replace the trigger
// on transfers.
func (f *fold) drop() error {
	type made struct{ kind, name, text string }
	all, err := sqlite.Collect(f.w.Query(`SELECT type, name, sql FROM sqlite_schema WHERE
		type = 'index' AND (tbl_name IN ('operations', 'lines', 'transfers') OR name = 'journal_operation') AND sql IS NOT NULL AND sql NOT LIKE 'CREATE UNIQUE %'
		OR type = 'trigger' AND name IN ('journal_only_grows', 'transfers_no_replace', 'operation_counted', 'operation_counted_anew')`),
		sqlite.Into(func(m *made) []any { return []any{&m.kind, &m.name, &m.text} }))
	for _, m := range all {
		err = errors.Join(err, f.w.exec(`DROP `+m.kind+` `+m.name))
		f.dropped = append(f.dropped, m.text)
	}
	return err
}

// countStates does what the triggers on operations do.
const countStates = `UPDATE state_counts SET n = (SELECT count(*) FROM operations o WHERE o.state = state_counts.state)`

// Recreates, after the last row, the indexes and triggers that the method drop removed. A scratch
// file needs no indexes.
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

// Recreates an index or a trigger. It sorts in temporary files, or in memory if that fails, for
// example on a full disk.
func (f *fold) make(text string) error {
	if f.w.exec(text) == nil {
		return nil
	}
	return errors.Join(f.w.exec(`PRAGMA temp_store = MEMORY`), f.w.exec(text))
}

func (f *fold) close() error { return errors.Join(f.finish(), f.w.close()) }

func (f *fold) at() chain.Head { return f.w.head }

// journalOf yields the rows of a journal after the sequence after, up to and including the
// sequence through.
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

// replay checks rows against the hash chain, appends them to the fold and returns how many
// it folded. After an error the file must be discarded.
func (f *fold) replay(rows iter.Seq2[chain.Row, error]) (n int64, err error) {
	err = f.w.inTransaction(func() error {
		tx := newTx(f.w, 0)
		err := readAhead(f.w.head, rows, func(r chain.Row, fa fact.Fact) error {
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
		if held := f.w.writeHeld(); err == nil || errors.Is(held, errTogether) { // a refused row comes before the row of err
			err = held
		}
		if err == nil {
			err = f.w.flushTotals()
		}
		if err != nil {
			f.dropped = nil
			f.w.forgetHeld()
		}
		return err
	})
	return n, err
}

type part struct {
	after chain.Head
	rows  []chain.Row
	facts []fact.Fact   // of the rows before the first broken row
	err   error         // of the first broken row
	done  chan struct{} // closed when facts and err are set
}

// aheadRows is the number of rows in a batch. aheadParts is the number of batches that may wait
// for the fold.
const (
	aheadRows  = 256
	aheadParts = 4
)

// readAhead calls the function do with the rows after a head, in order. It stops at the first row
// that cannot be read, and at the first error of do. All rows before an unreadable row are still
// passed to do. Other goroutines read and decode the next rows meanwhile.
func readAhead(h chain.Head, rows iter.Seq2[chain.Row, error], do func(chain.Row, fact.Fact) error) (err error) {
	parts, stop, ended := make(chan *part, aheadParts), make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(parts)
		ended <- passOn(h, rows, parts, stop)
	}()
	for p := range parts {
		if err != nil {
			continue
		}
		if err = p.each(do); err != nil {
			close(stop)
		}
	}
	if failed := <-ended; err == nil {
		err = failed
	}
	return err
}

func (p *part) each(do func(chain.Row, fact.Fact) error) error {
	<-p.done
	for i, f := range p.facts {
		if err := do(p.rows[i], f); err != nil {
			return err
		}
	}
	return p.err
}

// passOn cuts rows into parts and passes them on. If reading fails, it still passes on the
// rows that it has read.
func passOn(h chain.Head, rows iter.Seq2[chain.Row, error], parts chan<- *part, stop <-chan struct{}) (err error) {
	p := newPart(h)
	hand := func() (goOn bool) {
		go p.decode()
		select {
		case parts <- p:
			last := p.rows[len(p.rows)-1]
			p = newPart(last.Head())
			return true
		case <-stop:
			return false
		}
	}
	for r, failed := range rows {
		if err = failed; err != nil {
			break
		}
		if p.rows = append(p.rows, r); len(p.rows) == aheadRows && !hand() {
			return nil
		}
	}
	if len(p.rows) > 0 {
		hand()
	}
	return err
}

func newPart(after chain.Head) *part {
	return &part{after: after, rows: make([]chain.Row, 0, aheadRows), done: make(chan struct{})}
}

func (p *part) decode() {
	defer close(p.done)
	var buf []byte
	h := p.after
	p.facts = make([]fact.Fact, 0, len(p.rows))
	for _, r := range p.rows {
		if buf, p.err = h.FollowedBy(r, buf); p.err != nil {
			return
		}
		h = r.Head()
		f, err := factOf(r)
		if p.err = err; err != nil {
			return
		}
		p.facts = append(p.facts, f)
	}
}
