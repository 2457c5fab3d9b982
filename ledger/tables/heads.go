// The last row before an instant, archived or not.

package tables

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/sqlite"
)

// HeadBefore returns the last row before an instant. The row after h was stored at or after
// the instant, or books at or after it (see FirstBooked). Therefore the sums up to h contain
// exactly what was booked before the instant. known is false if the rows around the instant
// were archived and the archive keeps no head for it. Then h.Seq is a row with the same
// sums, without a hash.
func HeadBefore(ctx context.Context, q sqlite.Queryer, at time.Time) (h chain.Head, known bool, err error) {
	first, err := FirstBooked(ctx, q, at)
	if err != nil {
		return h, false, err
	}
	var next int64
	if err := q.QueryRowContext(ctx, `SELECT coalesce(min(seq), 1 << 62) FROM transfers WHERE seq >= ?`, first).Scan(&next); err != nil {
		return h, false, err
	}
	b, err := BaseOf(ctx, q)
	if err != nil {
		return h, false, err
	}
	if b == nil {
		b = &Base{Head: chain.Head{Hash: chain.Genesis}}
	} else if first <= b.Seq {
		h, known, err = archivedHead(ctx, q, at, first, next)
		if err != nil || known || next <= b.Seq || b.Time >= sqlite.Micros(at) {
			return h, known, err
		}
	}
	err = q.QueryRowContext(ctx, `SELECT seq, hash FROM journal WHERE seq < coalesce(
			(SELECT seq FROM journal WHERE seq >= max(?1, ?2 + 1) AND seq < ?3 AND time >= ?4 ORDER BY seq LIMIT 1), ?3)
		ORDER BY seq DESC LIMIT 1`, first, b.Seq, next, sqlite.Micros(at)).Scan(&h.Seq, &h.Hash)
	if errors.Is(err, sql.ErrNoRows) {
		return b.Head, true, nil
	}
	return h, err == nil, err
}

// archivedHead is HeadBefore for an instant between two transfers of which the first was
// archived. It ignores a stored month end outside these two: an earlier version stored it
// wrongly when a row booked nothing.
func archivedHead(ctx context.Context, q sqlite.Queryer, at time.Time, first, next int64) (h chain.Head, known bool, err error) {
	err = sqlite.IfMade(ctx, q, "month_ends", func() error {
		err := q.QueryRowContext(ctx, `SELECT seq, hash FROM month_ends WHERE until = ? AND seq >= ? AND seq < ?`, sqlite.Micros(at), first-1, next).Scan(&h.Seq, &h.Hash)
		known = err == nil
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil || known {
		return h, known, err
	}
	var opened int64
	err = q.QueryRowContext(ctx, `SELECT coalesce((SELECT opened_at FROM binding), 0)`).Scan(&opened)
	if sqlite.Micros(at) <= opened {
		return chain.Head{Hash: chain.Genesis}, true, err
	}
	return chain.Head{Seq: max(first-1, 0)}, false, err
}

// Base is the last archived row: the file's journal starts after it.
type Base struct {
	chain.Head

	Time         int64
	SnapshotHash string
}

// BaseOf reads the file's base. It returns nil if the journal starts with the first row.
func BaseOf(ctx context.Context, q sqlite.Queryer) (*Base, error) {
	var b Base
	err := q.QueryRowContext(ctx, `SELECT seq, hash, time, snapshot_hash FROM base`).Scan(&b.Seq, &b.Hash, &b.Time, &b.SnapshotHash)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // most ledgers start with their first row
	}
	return &b, err
}

// SeqAt returns the sequence of the last row before an instant, or of an earlier row with
// the same sums.
func SeqAt(ctx context.Context, q sqlite.Queryer, at time.Time) (int64, error) {
	h, _, err := HeadBefore(ctx, q, at)
	return h.Seq, err
}

// ErrOldBook is returned for a read-only file that this version has not migrated.
var ErrOldBook = errors.New("the ledger is of an older version, and does not say when its entries are booked: `perennial run` of this version migrates it")

// FirstBooked returns the first sequence after the transfers that were booked before an
// instant. Booking times never decrease from one transfer to the next.
func FirstBooked(ctx context.Context, q sqlite.Queryer, at time.Time) (int64, error) {
	columns, err := sqlite.Columns(ctx, q, "transfers")
	if err == nil && !slices.Contains(columns, "booked_at") {
		err = ErrOldBook
	}
	if err != nil {
		return 0, err
	}
	var last sql.NullInt64
	if err := q.QueryRowContext(ctx, `SELECT max(seq) FROM transfers`).Scan(&last); err != nil {
		return 0, err
	}
	first, end := int64(0), last.Int64+1
	for first < end {
		middle := (first + end) / 2
		var booked int64
		err := q.QueryRowContext(ctx, `SELECT booked_at FROM transfers WHERE seq >= ? ORDER BY seq LIMIT 1`, middle).Scan(&booked)
		switch {
		case err != nil && !errors.Is(err, sql.ErrNoRows):
			return 0, fmt.Errorf("find %s in the book: %w", at.UTC().Format(time.RFC3339), err)
		case err == nil && booked < sqlite.Micros(at):
			first = middle + 1
		default:
			end = middle
		}
	}
	return first, nil
}
