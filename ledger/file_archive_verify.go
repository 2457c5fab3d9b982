// Verifying a ledger together with its archives.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// checkEnds checks that an archive ends where it was sealed. For a ledger that starts after
// an archive, it checks that a ledger.archived fact has the hash of the snapshot at its
// start. joins compares the start of a file with the end of the previous one.
func checkEnds(ctx context.Context, q sqlite.Queryer, b *tables.Base, h chain.Head) error {
	sealed, err := sealOf(ctx, q)
	if err != nil {
		return err
	}
	if sealed != nil {
		if *sealed != h {
			return &chain.BrokenError{Check: "archive", Seq: h.Seq, Detail: fmt.Sprintf("the archive ends here and was sealed with row %d %s", sealed.Seq, sealed.Hash)}
		}
		return nil
	}
	if b == nil {
		return nil
	}
	var n int
	// Check the fact itself, because the table may come from the snapshot.
	err = q.QueryRowContext(ctx, `SELECT count(*) FROM archives a CROSS JOIN journal j ON j.seq = a.seq AND j.type = 'ledger.archived'
		WHERE j.data ->> '$.last_seq' = ? AND j.data ->> '$.last_hash' = ? AND j.data ->> '$.snapshot_hash' = ?`,
		b.Seq, b.Hash, b.SnapshotHash).Scan(&n)
	if err != nil {
		return err
	}
	if n == 0 {
		return &chain.BrokenError{Check: "archive", Seq: b.Seq + 1, Detail: "no ledger.archived in the journal says that what is before this row went to an archive"}
	}
	return nil
}

// sealOf reads where an archive ends. It returns nil for a ledger that is not an archive.
func sealOf(ctx context.Context, q sqlite.Queryer) (*chain.Head, error) {
	var h chain.Head
	err := q.QueryRowContext(ctx, `SELECT seq, hash FROM seal`).Scan(&h.Seq, &h.Hash)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // most files are not archives
	}
	return &h, err
}

// VerifyWith verifies the ledger together with its archives. Each archive must be sound,
// start where the previous one ends, and have the projections of its last row. The last
// archive must end where the ledger starts. If all archives are given, VerifyWith verifies
// the history from the first row, and Verified.Behind is nil.
func (l *Ledger) VerifyWith(ctx context.Context, files ...string) (v Verified, err error) {
	archives, err := openArchives(ctx, l.clock, files)
	defer func() {
		for _, a := range archives {
			err = errors.Join(err, a.Close())
		}
	}()
	if err != nil {
		return v, err
	}
	for i, a := range archives {
		a.temp = l.temp
		one, err := a.Verify(ctx)
		if err != nil {
			return v, fmt.Errorf("archive %s: %w", a.path, err)
		}
		if i == 0 {
			v.Behind = one.Behind
		}
		v.Rows += one.Rows
		next := l
		if i+1 < len(archives) {
			next = archives[i+1]
		}
		if err := a.joins(ctx, next); err != nil {
			return v, err
		}
	}
	own, err := l.Verify(ctx)
	v.Backdated = own.Backdated
	if v.Rows, v.Head = v.Rows+own.Rows, own.Head; own.Behind == nil {
		v.Rows, v.Behind = own.Rows, nil // it was rebuilt from the events and contains the archived rows
	}
	if len(archives) == 0 {
		v.Behind = own.Behind
	}
	return v, err
}

// openArchives opens archives for reading, ordered by their rows.
func openArchives(ctx context.Context, clock func() time.Time, files []string) (archives []*Ledger, err error) {
	for _, file := range files {
		a, err := Open(ctx, Config{Path: file, Clock: clock, ReadOnly: true, Inspect: true})
		if err != nil {
			return archives, err
		}
		archives = append(archives, a)
		if sealed, err := sealOf(ctx, a.read); err != nil || sealed == nil {
			return archives, errors.Join(fmt.Errorf("%s is not an archive: `perennial ledger archive` writes one", file), err)
		}
	}
	slices.SortFunc(archives, func(a, b *Ledger) int { return int(a.tail.head.Seq - b.tail.head.Seq) })
	for i := range len(archives) - 1 {
		if a, b := archives[i], archives[i+1]; a.tail.head.Seq == b.tail.head.Seq {
			return archives, fmt.Errorf("%s and %s hold the same rows: name each archive once", a.path, b.path)
		}
	}
	return archives, nil
}

// joins checks that the next file starts where this one ends. A ledger that was rebuilt
// from the events contains the archived rows itself, and must agree with the archive.
func (l *Ledger) joins(ctx context.Context, next *Ledger) error {
	seq, hash, err := l.Head(ctx)
	if err != nil {
		return err
	}
	if next.base == nil {
		row, err := next.Row(ctx, seq)
		if err != nil && !errors.Is(err, ErrNotFound) || row.Hash == hash {
			return err
		}
		return &chain.BrokenError{Check: "archive", Seq: seq, Detail: fmt.Sprintf("%s ends with a row that %s does not hold", l.path, next.path)}
	}
	if next.base.Seq != seq || next.base.Hash != hash {
		return &chain.BrokenError{Check: "archive", Seq: seq, Detail: fmt.Sprintf("%s ends here with %s and %s begins after row %d %s: is one missing?",
			l.path, hash, next.path, next.base.Seq, next.base.Hash)}
	}
	return sqlite.Snapshot(ctx, l.read, func(tx *sql.Tx) error {
		for _, left := range []string{leftOfRows, leftWithoutRefunds, leftWithoutIDs, leftWithoutUsers, leftWithoutNames} {
			sum, err := snapshotOf(ctx, tx, left, func(chunk) error { return nil })
			if err != nil || sum == next.base.SnapshotHash {
				return err
			}
		}
		return &chain.BrokenError{Check: "archive", Seq: seq, Detail: fmt.Sprintf("%s ends with other tables than %s begins with", l.path, next.path)}
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
