// Expiries as they were last seen, and renewals that paid for them.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"perennial/ledger/fact"
)

// seenExpiry finds what was last seen of a proxy's expiry, unless a renewal has
// settled since, it was marked as out of date, or it is unlisted and not read since.
const seenExpiry = `SELECT expires_at FROM proxies p WHERE proxy_id = ? AND seen_at > 0 AND gone = 0
	AND (unlisted_at IS NULL OR seen_at > unlisted_at)
	AND NOT EXISTS (SELECT 1 FROM lines l WHERE l.proxy_id = p.proxy_id AND l.settled_at >= p.seen_at
		AND (l.state = 'succeeded' OR l.state = 'charged' OR l.state = 'unresolved'))`

func scanExpiry(s scanner) (expires *time.Time, known bool, err error) {
	var at sql.NullInt64
	err = s.Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	return instant(at), err == nil, err
}

// SeenExpiry is a proxy's expiry as the provider last showed it; nil for a proxy
// that never expires. known is false when it was not seen, or when a renewal has
// settled since, so that it has to be read again.
func (l *Fleet) SeenExpiry(ctx context.Context, proxyID string) (expires *time.Time, known bool, err error) {
	return scanExpiry(l.read.QueryRowContext(ctx, seenExpiry, proxyID))
}

// SeenExpiry is Ledger.SeenExpiry inside the transaction.
func (t *Tx) SeenExpiry(proxyID string) (expires *time.Time, known bool, err error) {
	return scanExpiry(t.queryRow(seenExpiry, proxyID))
}

// LastRenewal is the latest renewal of a proxy that succeeded, or that a person
// said was charged; ErrNotFound when there is none.
func (l *Fleet) LastRenewal(ctx context.Context, proxyID string) (r fact.Renewal, err error) {
	var observed sql.NullInt64
	var settled int64
	err = l.read.QueryRowContext(ctx, `SELECT observed_expires_at, duration_days, settled_at FROM lines
		WHERE proxy_id = ? AND (state = 'succeeded' OR state = 'charged') AND settled_at IS NOT NULL ORDER BY settled_at DESC LIMIT 1`, proxyID).
		Scan(&observed, &r.DurationDays, &settled)
	r.ObservedExpiresAt, r.SettledAt = instant(observed), fromMicros(settled)
	return r, notFound(err)
}

// RenewedInVain reports whether a proxy that has expired was paid for so lately that it
// would live, had the renewal extended it from then: paying again may be in vain too. A
// person's answer to its review counts until the next renewal.
func (l *Fleet) RenewedInVain(ctx context.Context, proxyID string, now time.Time) (bool, error) {
	return found(l.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM lines WHERE proxy_id = ?1 AND (state = 'succeeded' OR state = 'charged')
		AND settled_at > coalesce((SELECT answered_at FROM sweep_reviews WHERE proxy_id = ?1), 0) AND settled_at + duration_days * 86400000000 > ?2)`,
		proxyID, micros(now)))
}

// ShowsWithin is how long a read of the provider's may show a proxy as it was
// before a renewal that succeeded.
const ShowsWithin = time.Hour

// FreshFor is how old a listing, or what was read of a proxy, may be to be planned
// or paid from.
const FreshFor = 10 * time.Minute

// PaidFor reports whether a proxy that shows this expiry has been paid for. A
// renewal for this very expiry counts for good. One that settled within
// ShowsWithin, and that the expiry does not show, counts too: after is that one,
// and nil for the former.
func (l *Fleet) PaidFor(ctx context.Context, proxyID string, expiresAt, now time.Time) (paid bool, behind *fact.Renewal, err error) {
	if paid, err = l.RenewedAt(ctx, proxyID, expiresAt); err != nil || paid {
		return paid, nil, err
	}
	last, err := l.LastRenewal(ctx, proxyID)
	if errors.Is(err, ErrNotFound) {
		return false, nil, nil
	}
	if err != nil || !mayNotShow(last, expiresAt, now) {
		return false, nil, err
	}
	return true, &last, nil
}

// mayNotShow reports whether a read that shows this expiry may be from before the
// renewal: it settled within the time that reads may lag, and the expiry is not
// later by nearly what was paid for.
func mayNotShow(r fact.Renewal, expires, now time.Time) bool {
	if now.Sub(r.SettledAt) >= ShowsWithin {
		return false
	}
	bought := time.Duration(r.DurationDays) * 24 * time.Hour
	before := r.SettledAt // of a proxy that lived then, at the earliest
	if r.ObservedExpiresAt != nil {
		before = *r.ObservedExpiresAt
	}
	return expires.Before(before.Add(bought - fact.ExpiryTolerance))
}
