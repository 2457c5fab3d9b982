// Proxies whose expiry moved without a renewal in this ledger.

package ledger

import (
	"context"
	"time"
)

// Moved is a proxy whose expiry moved without a renewal in this ledger.
type Moved struct {
	ProxyID     string
	Before, Now time.Time     // of the first such move, and of the last
	By          time.Duration // of all of them together
	SeenAt      time.Time
}

// movedMost bounds how many are returned at once.
const movedMost = 1000

// MovedOutside lists the proxies whose expiry moved without a renewal in this ledger, by
// their ids, until ForgetMoved. Every read of a proxy notices such a move; a read that
// lags behind a renewal by less than an hour is no move. A renewal explains a
// move when it paid, or was sent and has no answer yet: one that failed, was
// skipped or was answered as not charged explains none. A file that is read before it is
// migrated has none.
func (l *Fleet) MovedOutside(ctx context.Context) (all []Moved, err error) {
	err = ifMade(ctx, l.read, "moves", func() error {
		all, err = l.movedOutside(ctx)
		return err
	})
	return all, err
}

func (l *Fleet) movedOutside(ctx context.Context) ([]Moved, error) {
	return collect(l.query(ctx, `SELECT proxy_id, min(before), max(now), sum(now - before), max(seen_at) FROM moves m
		WHERE NOT EXISTS (SELECT 1 FROM explained_moves e WHERE e.proxy_id = m.proxy_id AND e.seen_at = m.seen_at)
		GROUP BY proxy_id ORDER BY proxy_id LIMIT +?`, movedMost), func(s scanner) (m Moved, err error) {
		var before, now, by, seen int64
		err = s.Scan(&m.ProxyID, &before, &now, &by, &seen)
		m.Before, m.Now, m.By, m.SeenAt = fromMicros(before), fromMicros(now), time.Duration(by)*time.Microsecond, fromMicros(seen)
		return m, err
	})
}

// ForgetMoved takes what has moved up to now for explained: a person has recorded
// what was spent elsewhere. A move that a renewal in progress may explain stays: it
// was not among those that the person was shown.
func (t *Tx) ForgetMoved() error {
	return t.exec(`DELETE FROM moves WHERE NOT EXISTS (
		SELECT 1 FROM explained_moves e WHERE e.proxy_id = moves.proxy_id AND e.seen_at = moves.seen_at AND e.settled = 0)`)
}
