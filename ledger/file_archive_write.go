// Writing the two files of archiving: the archive, and the ledger that starts after it.

package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// writeArchive writes the rows to archive into a file. The file gets its final name after
// it is sealed, synced and verified from the disk. If an earlier run finished the file, it
// is verified again and used. sound returns what is wrong with the ledger's own file.
func (x Archive) writeArchive(ctx context.Context, l *Ledger, last int64, sound func() error, out *Archived) error {
	out.FirstSeq, out.LastSeq = 1, last
	if l.base != nil {
		out.FirstSeq = l.base.Seq + 1
	}
	name := fmt.Sprintf("%s.%d-%d.archive.db", strings.TrimSuffix(filepath.Base(x.Path), ".db"), out.FirstSeq, last)
	out.File = filepath.Join(x.Dir, name)
	row, err := l.Row(ctx, last)
	if err != nil {
		return err
	}
	ends := chain.Head{Seq: last, Hash: row.Hash}
	if exists(out.File) {
		if err := sound(); err != nil {
			return err
		}
		if err := x.verifyArchive(ctx, out.File, ends); err != nil {
			return fmt.Errorf("%s exists and is not what would be written: move it away: %w", out.File, err)
		}
		return errors.Join(syncFile(out.File), syncFile(x.Dir))
	}
	return writeBeside(out.File, x.leftover(ctx, l), func(path string) error {
		err := l.foldArchive(ctx, path, last)
		if err := cmp.Or(sound(), err); err != nil { // damage may have caused err, so it is reported first
			return err
		}
		failpoint.Reached(ctx, "archive.folded")
		if err := errors.Join(syncFile(path), x.verifyArchive(ctx, path, ends)); err != nil {
			return fmt.Errorf("the archive is not sound and was thrown away: %w", err)
		}
		return keep(path, out.File)
	})
}

// foldArchive builds the tables of the archive with the usual fold, so that they equal the
// ledger's tables after the last archived row.
func (l *Ledger) foldArchive(ctx context.Context, path string, last int64) (err error) {
	tx, err := l.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	return makeFile(path, func(singly bool) (err error) {
		f, err := newFold(ctx, path, singly)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.close()) }()
		if err := f.beginAs(ctx, tx); err != nil {
			return err
		}
		if _, err := f.replay(journalOf(ctx, tx, 0, last)); err != nil {
			return err
		}
		if at := f.at(); at.Seq != last {
			return &chain.BrokenError{Check: "chain", Seq: at.Seq + 1, Detail: "the journal ends before it"}
		}
		return f.w.exec(`INSERT INTO seal (one, seq, hash) VALUES (1, ?, ?)`, f.at().Seq, f.at().Hash)
	})
}

// verifyArchive reads a finished archive and checks SQLite's structures, the hash chain and
// the seal. A second fold is not needed, because the next ledger is folded from these tables
// and compared with the present one.
func (x Archive) verifyArchive(ctx context.Context, path string, ends chain.Head) (err error) {
	a, err := Open(ctx, Config{Path: path, Clock: x.Clock, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	checked := make(chan error, 1)
	go func() { checked <- a.checkFile(ctx) }()
	err = a.endsAs(ctx, ends)
	if first := <-checked; first != nil {
		return first
	}
	return err
}

// endsAs checks an archive's hash chain, and that the chain and the seal end with ends.
func (l *Ledger) endsAs(ctx context.Context, ends chain.Head) error {
	tx, err := l.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	h := chain.Head{Hash: chain.Genesis}
	if l.base != nil {
		h = l.base.Head
	}
	var buf []byte
	for r, err := range journalOf(ctx, tx, 0, math.MaxInt64) {
		if err != nil {
			return err
		}
		if buf, err = h.FollowedBy(r, buf); err != nil {
			return err
		}
		h = r.Head()
	}
	sealed, err := sealOf(ctx, tx)
	if err == nil && (sealed == nil || *sealed != ends || h.Seq != ends.Seq || h.Hash != ends.Hash) {
		err = fmt.Errorf("it ends with row %d %s instead of %d %s", h.Seq, h.Hash, ends.Seq, ends.Hash)
	}
	return err
}

// writeLedger builds the ledger that starts after the archive, compares every table with
// the present ledger, appends ledger.archived and verifies the result.
func (x Archive) writeLedger(ctx context.Context, l *Ledger, path string, out *Archived) (err error) {
	a, err := Open(ctx, Config{Path: out.File, Clock: x.Clock, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	b, err := l.foldBehind(ctx, a, path)
	if err != nil {
		return err
	}
	next, err := Open(ctx, Config{Path: path, Clock: x.Clock})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, next.Close()) }()
	book, err := a.Money.Balance(ctx, "")
	if err != nil {
		return err
	}
	ends, err := l.monthEnds(ctx, out.LastSeq)
	if err != nil {
		return err
	}
	err = next.Write(ctx, func(tx *Tx) error {
		return tx.Append(fact.LedgerArchived{
			Before: x.Before.UTC(), FirstSeq: out.FirstSeq, LastSeq: b.Seq, LastHash: b.Hash, LastTime: sqlite.FromMicros(b.Time),
			SnapshotHash: b.SnapshotHash, File: filepath.Base(out.File), Currency: book.Currency, WalletCents: book.WalletCents,
			ChargedCents: book.ChargedCents, RefundedCents: book.RefundedCents, SuspenseCents: book.SuspenseCents,
			FundingCents: book.FundingCents, ExternalCents: book.ExternalCents, MonthEnds: ends,
		})
	})
	if err != nil {
		return err
	}
	failpoint.Reached(ctx, "archive.ledger_folded")
	if _, err := next.Verify(ctx); err != nil {
		return fmt.Errorf("the new ledger is not sound and was thrown away: %w", err)
	}
	was, err := l.Money.Balance(ctx, "")
	if err != nil {
		return err
	}
	is, err := next.Money.Balance(ctx, "")
	out.Head, was.Head = is.Head, is.Head
	if err == nil && was != is {
		err = fmt.Errorf("the new ledger was thrown away: its balance is %+v instead of %+v", is, was)
	}
	return err
}

// foldBehind folds the rows after an archive, starting with its snapshot, and compares
// every table with the present ones.
func (l *Ledger) foldBehind(ctx context.Context, a *Ledger, path string) (b *tables.Base, err error) {
	begin, err := a.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = begin.Rollback() }()
	with, err := l.compare(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, with.end()) }()
	if b, err = with.foldBehind(ctx, begin, a.path, path); err != nil {
		return nil, err
	}
	return b, with.compare(ctx, path, projections)
}

// foldBehind folds the rows after the end of another file and copies the caches.
func (b *comparison) foldBehind(ctx context.Context, begin *sql.Tx, archive, path string) (at *tables.Base, err error) {
	err = makeFile(path, func(singly bool) (err error) {
		f, err := newFold(ctx, path, singly)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.close()) }()
		if at, err = f.beginBehind(ctx, begin, archive); err != nil {
			return err
		}
		if _, err := f.replay(journalOf(ctx, b.tx, at.Seq, math.MaxInt64)); err != nil {
			return err
		}
		return f.takeCaches(ctx, b.tx)
	})
	return at, err
}

// takeCaches copies tables that no fact fills: the provider's proxies, their moves, and the
// note of published rows. The listing starts again.
func (f *fold) takeCaches(ctx context.Context, q sqlite.Queryer) error {
	if err := f.w.exec(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	for _, table := range []string{"proxies", "moves", "published"} {
		query, columns, err := snapshotQuery(ctx, q, table)
		if err == nil {
			err = cut(ctx, q, query, chunk{table: table, columns: columns}, f.fill)
		}
		if err != nil {
			return errors.Join(err, f.w.exec(`ROLLBACK`))
		}
	}
	return f.w.exec(`COMMIT`)
}
