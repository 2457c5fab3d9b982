// The note of how far the journal was published, and heads that are kept elsewhere. Both
// reveal a rewritten history.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// firmAfter is how long the stream must have stored a row before a power cut can no longer
// explain its loss. NATS syncs at least every two minutes.
const firmAfter = 10 * time.Minute

// Published is the last journal row that is known to be stored on the events stream.
type Published struct {
	chain.Head // acknowledged by the stream; Seq is 0 if nothing was

	// FirmSeq is a row that was acknowledged at least ten minutes before Head, or before a
	// clean stop.
	FirmSeq int64
}

// Published reads the note of how far the journal was published.
func (l *Ledger) Published(ctx context.Context) (p Published, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT seq, hash, firm_seq FROM published`).Scan(&p.Seq, &p.Hash, &p.FirmSeq)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return p, err
}

// NotePublished records that the events stream has acknowledged the journal up to a row.
// stopped means that the runner is stopping cleanly, so that no crash can lose the row. The
// note only moves forward.
func (l *Ledger) NotePublished(ctx context.Context, seq int64, stopped bool) error {
	noted, err := l.Published(ctx)
	if err != nil || seq < noted.Seq || seq == noted.Seq && (!stopped || noted.FirmSeq == seq) {
		return err
	}
	row, err := l.Row(ctx, seq)
	if err != nil {
		return fmt.Errorf("note that row %d was published: %w", seq, err)
	}
	return l.Write(ctx, func(tx *Tx) error {
		return tx.exec(`INSERT INTO published (one, seq, hash, firm_seq, pending_seq, pending_at) VALUES (1, ?1, ?2, CASE WHEN ?5 THEN ?1 ELSE 0 END, ?1, ?3)
			ON CONFLICT (one) DO UPDATE SET seq = excluded.seq, hash = excluded.hash,
			firm_seq = CASE WHEN ?5 THEN excluded.seq WHEN pending_at <= ?4 THEN pending_seq ELSE firm_seq END,
			pending_seq = CASE WHEN ?5 OR pending_at <= ?4 THEN excluded.seq ELSE pending_seq END,
			pending_at = CASE WHEN ?5 OR pending_at <= ?4 THEN excluded.pending_at ELSE pending_at END
			WHERE seq <= excluded.seq`, seq, row.Hash, tx.now, tx.now-int64(firmAfter/time.Microsecond), stopped)
	})
}

// checkNote compares the note with the journal. It detects if rows up to the last published
// row were rewritten or removed.
func checkNote(ctx context.Context, q sqlite.Queryer, b *tables.Base, h chain.Head) error {
	var p, own chain.Head
	err := q.QueryRowContext(ctx, `SELECT p.seq, p.hash, coalesce(j.seq, 0), coalesce(j.hash, '') FROM published p
		LEFT JOIN journal j ON j.seq = p.seq`).Scan(&p.Seq, &p.Hash, &own.Seq, &own.Hash)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if b != nil && p.Seq == b.Seq {
		own = b.Head
	}
	switch {
	case p.Seq > h.Seq:
		return &chain.BrokenError{Check: "published", Seq: p.Seq, Detail: fmt.Sprintf("it was published, and the journal ends with row %d: its end was removed", h.Seq)}
	case own.Seq > 0 && own.Hash != p.Hash:
		return &chain.BrokenError{Check: "published", Seq: p.Seq, Detail: fmt.Sprintf("its hash is %s and it was published with %s: history was rewritten at or before this row", own.Hash, p.Hash)}
	}
	return nil
}

// Expect compares the journal with heads that are kept elsewhere. It returns a
// *chain.BrokenError for a different or missing row. It reads an archived row from one of
// files, or from the archive next to the ledger.
func (l *Ledger) Expect(ctx context.Context, heads []chain.Head, files ...string) (err error) {
	archives, err := openArchives(ctx, l.clock, files)
	defer func() {
		for _, a := range archives {
			err = errors.Join(err, a.Close())
		}
	}()
	if err != nil {
		return err
	}
	for _, h := range heads {
		hash, err := l.hashAt(ctx, h.Seq, archives)
		switch {
		case errors.Is(err, ErrNotFound):
			return &chain.BrokenError{Check: "head", Seq: h.Seq, Detail: "it is expected and the journal ends before it: its end was removed, or the file is an older copy"}
		case err != nil:
			return err
		case hash != h.Hash:
			return &chain.BrokenError{Check: "head", Seq: h.Seq, Detail: fmt.Sprintf("its hash is %s and %s is expected: history was rewritten at or before this row", hash, h.Hash)}
		}
	}
	return nil
}

// hashAt returns the hash of a row in this file or in an archive.
func (l *Ledger) hashAt(ctx context.Context, seq int64, archives []*Ledger) (string, error) {
	if l.base != nil && seq == l.base.Seq {
		return l.base.Hash, nil
	}
	at := l
	for _, a := range archives {
		if l.archived(seq) && !a.archived(seq) && seq <= a.tail.head.Seq {
			at = a
			break
		}
	}
	row, err := at.Row(ctx, seq)
	return row.Hash, err
}
