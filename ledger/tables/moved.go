// Proxies whose expiry moved to a later time without a renewal in this ledger.

package tables

import (
	"context"
	"time"

	"perennial/ledger/sqlite"
)

// Moved is a proxy whose expiry moved to a later time without a renewal in this ledger.
type Moved struct {
	ProxyID     string
	Before, Now time.Time     // earliest expiry before such a move, and latest after one
	By          time.Duration // sum of all such moves
	SeenAt      time.Time
}

// movedMost limits how many proxies MovedOutside returns.
const movedMost = 1000

// MovedOutside lists the proxies whose expiry moved to a later time without a renewal in
// this ledger, by ID, until ForgetMoved is called. Any read of a proxy can find a move. A
// read within an hour after a renewal may still show the old expiry and does not count. A
// renewal explains a move if it was paid, or was sent and has no answer yet; a failed,
// skipped or uncharged renewal does not. MovedOutside returns none for a file that was not
// migrated.
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
