// The last row before an instant, archived or not.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// headBefore is the last row before the first one of an instant or later. known is
// false where both were archived and the instant is no beginning of a month, or was
// archived by a version that kept none.
func headBefore(ctx context.Context, q queryer, at time.Time) (h Head, known bool, err error) {
	from, err := seqFrom(ctx, q, at)
	if err != nil {
		return h, false, err
	}
	b, err := baseOf(ctx, q)
	if err != nil {
		return h, false, err
	}
	if b != nil && b.time >= micros(at) {
		return archivedHead(ctx, q, at)
	}
	err = q.QueryRowContext(ctx, `SELECT seq, hash FROM journal WHERE seq <= coalesce(
			(SELECT seq - 1 FROM journal WHERE seq >= ?1 AND time >= ?2 ORDER BY seq LIMIT 1), (SELECT max(seq) FROM journal))
		ORDER BY seq DESC LIMIT 1`, from, micros(at)).Scan(&h.Seq, &h.Hash)
	switch {
	case !errors.Is(err, sql.ErrNoRows):
		return h, err == nil, err
	case b != nil:
		return b.Head, true, nil
	}
	return Head{Hash: genesis}, true, nil
}

// archivedHead is headBefore of an instant within the archived rows.
func archivedHead(ctx context.Context, q queryer, at time.Time) (h Head, known bool, err error) {
	err = ifMade(ctx, q, "month_ends", func() error {
		err := q.QueryRowContext(ctx, `SELECT seq, hash FROM month_ends WHERE until = ?`, micros(at)).Scan(&h.Seq, &h.Hash)
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
	err = q.QueryRowContext(ctx, `SELECT coalesce((SELECT time FROM archived WHERE seq = (SELECT min(seq) FROM archived)), (SELECT opened_at FROM binding))`).Scan(&opened)
	return Head{Hash: genesis}, micros(at) <= opened, err // the first row books, or opens the ledger
}
