// Expiries as last seen, and renewals that paid for them.

package tables

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// SeenExpiry selects a proxy's last seen expiry. It finds nothing if a renewal has settled
// since, if the proxy is stale, or if it is unlisted and was not read since.
const SeenExpiry = `SELECT expires_at FROM proxies p WHERE proxy_id = ? AND seen_at > 0 AND gone = 0
	AND (unlisted_at IS NULL OR seen_at > unlisted_at)
	AND NOT EXISTS (SELECT 1 FROM lines l WHERE l.proxy_id = p.proxy_id AND l.settled_at >= p.seen_at
		AND (l.state = 'succeeded' OR l.state = 'charged' OR l.state = 'unresolved'))`

// ScanExpiry reads the row of SeenExpiry. known is false if there is none.
func ScanExpiry(s sqlite.Scanner) (expires *time.Time, known bool, err error) {
	var at sql.NullInt64
	err = s.Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	return sqlite.Instant(at), err == nil, err
}

// SeenExpiry returns a proxy's expiry as the provider last showed it; nil for a proxy that
// never expires. known is false if the proxy must be read again: it was not seen, or a
// renewal has settled since.
func (l *Fleet) SeenExpiry(ctx context.Context, proxyID string) (expires *time.Time, known bool, err error) {
	return ScanExpiry(l.read.QueryRowContext(ctx, SeenExpiry, proxyID))
}

// LastRenewal returns a proxy's latest renewal that succeeded, or that an operator answered
// as charged; sqlite.ErrNone if there is none.
func (l *Fleet) LastRenewal(ctx context.Context, proxyID string) (fact.Renewal, error) {
	return sqlite.One(scanRenewal, l.read.QueryRowContext(ctx, `SELECT r.observed_expires_at, r.duration_days, r.settled_at
		FROM (SELECT ? AS id) d CROSS JOIN lines r ON r.proxy_id = d.id AND r.operation = `+lastRenewal, proxyID))
}

func scanRenewal(s sqlite.Scanner) (r fact.Renewal, err error) {
	var observed sql.NullInt64
	var settled int64
	err = s.Scan(&observed, &r.DurationDays, &settled)
	r.ObservedExpiresAt, r.SettledAt = sqlite.Instant(observed), sqlite.FromMicros(settled)
	return r, err
}

// ShowsWithin is how long the provider's reads may show a proxy as it was before a
// successful renewal.
const ShowsWithin = time.Hour

// FreshFor is how old a listing, or a read of a proxy, may be when it is used to plan or
// pay.
const FreshFor = 10 * time.Minute

// PaidFor reports whether a proxy that shows this expiry has been paid for. A renewal for
// this very expiry always counts, and behind is nil. A renewal that settled within
// ShowsWithin and that the expiry does not show counts too, and is returned as behind.
func (l *Fleet) PaidFor(ctx context.Context, proxyID string, expiresAt, now time.Time) (paid bool, behind *fact.Renewal, err error) {
	if paid, err = l.RenewedAt(ctx, proxyID, expiresAt); err != nil || paid {
		return paid, nil, err
	}
	last, err := l.LastRenewal(ctx, proxyID)
	if errors.Is(err, sqlite.ErrNone) {
		return false, nil, nil
	}
	if err != nil || !mayNotShow(last, expiresAt, now) {
		return false, nil, err
	}
	return true, &last, nil
}

// mayNotShow reports whether a read that shows this expiry may predate the renewal. The
// renewal settled within the time that reads may lag, and the expiry is not later by nearly
// the days paid for.
func mayNotShow(r fact.Renewal, expires, now time.Time) bool {
	if now.Sub(r.SettledAt) >= ShowsWithin {
		return false
	}
	bought := time.Duration(r.DurationDays) * 24 * time.Hour
	before := r.SettledAt // the earliest expiry of a proxy that was alive then
	if r.ObservedExpiresAt != nil {
		before = *r.ObservedExpiresAt
	}
	return expires.Before(before.Add(bought - fact.ExpiryTolerance))
}
