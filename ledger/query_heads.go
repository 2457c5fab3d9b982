// The last row before an instant, archived or not.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/sqlite"
)

// headBefore returns the last row before an instant. The next row has a time at or after
// the instant, or books at or after it, and no later row was booked earlier (firstBooked).
// The sums up to h are therefore those of everything booked before the instant. known is
// false if both rows were archived and the instant does not begin a month, or if the
// archiving version kept no month ends. Then h.Seq is a row with the same sums.
func headBefore(ctx context.Context, q sqlite.Queryer, at time.Time) (h chain.Head, known bool, err error) {
	first, err := firstBooked(ctx, q, at)
	if err != nil {
		return h, false, err
	}
	var next int64
	if err := q.QueryRowContext(ctx, `SELECT coalesce(min(seq), 1 << 62) FROM transfers WHERE seq >= ?`, first).Scan(&next); err != nil {
		return h, false, err
	}
	b, err := baseOf(ctx, q)
	if err != nil {
		return h, false, err
	}
	if b == nil {
		b = &base{Head: chain.Head{Hash: chain.Genesis}}
	} else if first <= b.Seq {
		h, known, err = archivedHead(ctx, q, at, first, next)
		if err != nil || known || next <= b.Seq || b.time >= sqlite.Micros(at) {
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

// archivedHead is headBefore for an instant between two transfers of which the first was
// archived. It ignores a month end that is not between them: an older version misplaced it
// when a row booked nothing.
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
