// Proxies whose expiry moved without a renewal in this ledger.

package tables

import (
	"context"
	"time"

	"perennial/ledger/sqlite"
)

// Moved is a proxy whose expiry moved without a renewal in this ledger.
type Moved struct {
	ProxyID     string
	Before, Now time.Time     // of the first such move, and of the last
	By          time.Duration // sum of all moves
	SeenAt      time.Time
}

// movedMost bounds how many are returned at once.
const movedMost = 1000

// MovedOutside lists the proxies whose expiry moved without a renewal in this ledger, by
// id, until ForgetMoved. Every read of a proxy can notice a move. A read less than an hour
// after a renewal may show the old expiry and is no move. A renewal explains a move if it
// paid, or was sent and has no answer yet. A failed, skipped or uncharged renewal explains
// none. A file not yet migrated has no moves.
func (l *Fleet) MovedOutside(ctx context.Context) (all []Moved, err error) {
	err = sqlite.IfMade(ctx, l.read, "moves", func() error {
		all, err = l.movedOutside(ctx)
		return err
	})
	return all, err
}

func (l *Fleet) movedOutside(ctx context.Context) ([]Moved, error) {
	return sqlite.Collect(l.query(ctx, `SELECT proxy_id, min(before), max(now), sum(now - before), max(seen_at) FROM moves m
		WHERE NOT EXISTS (SELECT 1 FROM explained_moves e WHERE e.proxy_id = m.proxy_id AND e.seen_at = m.seen_at)
		GROUP BY proxy_id ORDER BY proxy_id LIMIT +?`, movedMost), func(s sqlite.Scanner) (m Moved, err error) {
		var before, now, by, seen int64
		err = s.Scan(&m.ProxyID, &before, &now, &by, &seen)
		m.Before, m.Now, m.By, m.SeenAt = sqlite.FromMicros(before), sqlite.FromMicros(now), time.Duration(by)*time.Microsecond, sqlite.FromMicros(seen)
		return m, err
	})
}
