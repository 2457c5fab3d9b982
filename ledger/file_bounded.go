// Snapshots that replace removed events: writing, reading and checking them.

package ledger

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// An events stream may start after an archived row. A ledger that is rebuilt from it then
// starts with the snapshot of the state at that row. A copy of the snapshot is stored with
// the stream (docs/decisions/0011).

// Snapshot identifies the state of all projections after an archived row.
type Snapshot struct {
	chain.Head // the last row that the snapshot includes

	SnapshotHash string // the hash in ledger.archived
}

// Snapshot returns the snapshot after which the file's journal starts, or nil if the journal
// starts with the first row.
func (l *Ledger) Snapshot() *Snapshot {
	if l.base == nil {
		return nil
	}
	return &Snapshot{Head: l.base.Head, SnapshotHash: l.base.SnapshotHash}
}

// EventsBegin returns the sequence of the first row that the events stream must still have,
// or 1 if no event was removed.
func (l *Ledger) EventsBegin(ctx context.Context) (seq int64, err error) {
	columns, err := sqlite.Columns(ctx, l.read, "archives")
	if err != nil || !slices.Contains(columns, "events_begin") {
		return 1, err // the file predates the removal of events
	}
	err = l.read.QueryRowContext(ctx, `SELECT max(1, coalesce(max(events_begin), 1)) FROM archives`).Scan(&seq)
	return seq, err
}

// VouchedSnapshots lists the snapshots in published ledger.archived events, newest last.
func VouchedSnapshots(events iter.Seq2[[]byte, error]) (all []Snapshot, err error) {
	for r, err := range rowsOf(events) {
		if err != nil {
			return nil, err
		}
		f, err := fact.Decode(r.Type, []byte(r.Data))
		if err != nil {
			return nil, err
		}
		if f, ok := f.(fact.LedgerArchived); ok {
			all = append(all, Snapshot{Head: chain.Head{Seq: f.LastSeq, Hash: f.LastHash}, SnapshotHash: f.SnapshotHash})
		}
	}
	return all, nil
}

// A written snapshot is compressed with gzip. It starts with a line of JSON that identifies
// it. For each part of a table a line of JSON follows, then the part's rows as a JSON array
// of arrays, then a newline.
const snapshotFormat = "perennial snapshot 1"

type snapshotLine struct {
	Format       string `json:"format"`
	Seq          int64  `json:"seq"`
	Hash         string `json:"hash"`
	Time         int64  `json:"time"` // of that row, in microseconds since 1970 UTC
	SnapshotHash string `json:"snapshot_hash"`
}

type partLine struct {
	Table   string `json:"table"`
	N       int64  `json:"n"`
	Columns string `json:"columns"`
	Bytes   int    `json:"bytes"` // length of the rows
}

// mostPart limits the declared size of a part, in bytes.
const mostPart = 256 << 20

// WriteSnapshot writes the snapshot after which the file's journal starts. A ledger can be
// built from this snapshot and the rows after it.
func (l *Ledger) WriteSnapshot(ctx context.Context, to io.Writer) error {
	if l.base == nil {
		return errors.New("the ledger begins with its first row: there is no snapshot to write")
	}
	packed := gzip.NewWriter(to)
	lines := json.NewEncoder(packed)
	err := lines.Encode(snapshotLine{Format: snapshotFormat, Seq: l.base.Seq, Hash: l.base.Hash, Time: l.base.Time, SnapshotHash: l.base.SnapshotHash})
	if err != nil {
		return err
	}
	for _, table := range snapshotted {
		err := sqlite.Each(l.query(ctx, `SELECT n, columns, rows FROM snapshot WHERE tbl = ? ORDER BY n`, table), func(s sqlite.Scanner) error {
			c := chunk{table: table}
			if err := s.Scan(&c.n, &c.columns, &c.rows); err != nil {
				return err
			}
			if c.rows, err = io.ReadAll(flate.NewReader(bytes.NewReader(c.rows))); err != nil {
				return &chain.BrokenError{Check: "snapshot", Detail: fmt.Sprintf("%s, part %d: %v", table, c.n, err)}
			}
			err := lines.Encode(partLine{Table: c.table, N: c.n, Columns: c.columns, Bytes: len(c.rows)})
			_, writeErr := packed.Write(append(c.rows, '\n'))
			return errors.Join(err, writeErr)
		})
		if err != nil {
			return fmt.Errorf("write the snapshot of %s: %w", table, err)
		}
	}
	return packed.Close()
}

// CheckSnapshot reads a written snapshot to its end and checks that it is the wanted one.
func CheckSnapshot(from io.Reader, want Snapshot) error {
	_, err := readSnapshot(from, want, func(chunk) error { return nil })
	return err
}

// readSnapshot yields the parts of a written snapshot. At the end it checks that they match
// their hash and that the snapshot is the wanted one.
func readSnapshot(from io.Reader, want Snapshot, yield func(chunk) error) (*tables.Base, error) {
	broken := func(err error) error {
		return &chain.BrokenError{Check: "snapshot", Seq: want.Seq, Detail: err.Error()}
	}
	packed, err := gzip.NewReader(from)
	if err != nil {
		return nil, broken(err)
	}
	in := bufio.NewReader(packed)
	var first snapshotLine
	if err := readLine(in, &first); err != nil {
		return nil, broken(err)
	}
	if first.Format != snapshotFormat {
		return nil, broken(fmt.Errorf("its format is %q and this program knows %q", first.Format, snapshotFormat))
	}
	sum := newSnapshotSum()
	for {
		c, err := readPart(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, broken(err)
		}
		sum.add(c)
		if err := yield(c); err != nil {
			return nil, err
		}
	}
	b := &tables.Base{Head: chain.Head{Seq: first.Seq, Hash: first.Hash}, Time: first.Time, SnapshotHash: sum.text()}
	if got := (Snapshot{Head: b.Head, SnapshotHash: b.SnapshotHash}); got != want {
		return nil, broken(fmt.Errorf("it is %+v and %+v is wanted: it was changed", got, want))
	}
	return b, nil
}

// readPart reads the next part of a written snapshot. It returns io.EOF after the last part.
func readPart(in *bufio.Reader) (c chunk, err error) {
	var line partLine
	if err := readLine(in, &line); err != nil {
		return c, err
	}
	if line.Bytes < 0 || line.Bytes > mostPart {
		return c, fmt.Errorf("a part of %s is said to have %d bytes", line.Table, line.Bytes)
	}
	c = chunk{table: line.Table, n: line.N, columns: line.Columns, rows: make([]byte, line.Bytes+1)}
	if _, err := io.ReadFull(in, c.rows); err != nil {
		return c, fmt.Errorf("a part of %s ends early: %w", line.Table, io.ErrUnexpectedEOF)
	}
	c.rows = c.rows[:line.Bytes]
	return c, nil
}

func readLine(in *bufio.Reader, into any) error {
	text, err := in.ReadBytes('\n')
	if err != nil {
		if len(text) > 0 {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	return json.Unmarshal(text, into)
}

// beginFrom starts the fold with a written snapshot. It checks the hash before any part
// becomes a table.
func (f *fold) beginFrom(from io.Reader, want Snapshot) error {
	return f.begin(func() (*tables.Base, error) {
		b, err := readSnapshot(from, want, f.put)
		if err != nil {
			return nil, err
		}
		return b, f.load(b)
	})
}
