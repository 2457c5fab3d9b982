package ledger

import (
	"context"
	"time"
)

// Moved is a proxy whose expiry moved without a renewal of ours.
type Moved struct {
	ProxyID     string
	Before, Now time.Time
	SeenAt      time.Time
}

// movedMost bounds how many are returned at once.
const movedMost = 1000

// MovedOutside lists the proxies whose expiry moved without a renewal of ours, by
// their ids, until ForgetMoved. Whatever reads a proxy notices it; a read that
// lags behind a renewal by less than an hour is no move.
func (l *Ledger) MovedOutside(ctx context.Context) ([]Moved, error) {
	rows, err := l.read.QueryContext(ctx, `SELECT proxy_id, before, now, seen_at FROM moved ORDER BY proxy_id LIMIT ?`, movedMost)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(s scanner) (m Moved, err error) {
		var before, now, seen int64
		err = s.Scan(&m.ProxyID, &before, &now, &seen)
		m.Before, m.Now, m.SeenAt = fromMicros(before), fromMicros(now), fromMicros(seen)
		return m, err
	})
}

// ForgetMoved takes what has moved up to now for explained: a person has recorded
// what was spent elsewhere.
func (t *Tx) ForgetMoved() error { return t.exec(`DELETE FROM moved`) }
