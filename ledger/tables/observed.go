// Expiries as last read, and the renewals that paid for them.

package tables

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// SeenExpiry selects the expiry of a proxy as last read. It selects no row if the proxy must
// be read again: a renewal has settled since, the data is marked stale, or the proxy is
// gone, or is unlisted and was not read since.
const SeenExpiry = `SELECT expires_at FROM proxies p WHERE proxy_id = ? AND seen_at > 0 AND gone = 0
	AND (unlisted_at IS NULL OR seen_at > unlisted_at)
	AND NOT EXISTS (SELECT 1 FROM lines l WHERE l.proxy_id = p.proxy_id AND l.settled_at >= p.seen_at
		AND (l.state = 'succeeded' OR l.state = 'charged' OR l.state = 'unresolved'))`

// ScanExpiry reads the row of SeenExpiry. known is false if there is no row.
func ScanExpiry(s sqlite.Scanner) (expires *time.Time, known bool, err error) {
	var at sql.NullInt64
	err = s.Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	return sqlite.Instant(at), err == nil, err
}

// SeenExpiry returns the expiry of a proxy as last read; nil for a proxy that never expires.
// known is false if the proxy must be read again (see the query).
func (l *Fleet) SeenExpiry(ctx context.Context, proxyID string) (expires *time.Time, known bool, err error) {
	return ScanExpiry(l.read.QueryRowContext(ctx, SeenExpiry, proxyID))
}

// LastRenewal returns the latest renewal of a proxy that succeeded or that an operator
// answered as charged, or sqlite.ErrNone.
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

// ShowsWithin is how long after a successful renewal the provider may still show the old
// expiry.
const ShowsWithin = time.Hour

// FreshFor is the maximum age of a listing, or of a read proxy, for planning and paying.
const FreshFor = 10 * time.Minute

// PaidFor reports whether the shown expiry of a proxy has been paid for. A successful
// renewal for this expiry counts; behind is then nil. A renewal that settled less than
// ShowsWithin ago also counts if the shown expiry does not reflect it yet. PaidFor returns
// that renewal as behind.
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

// mayNotShow reports whether a read that shows this expiry may be older than the renewal. It
// may be if the renewal settled less than ShowsWithin ago, and the expiry is not later by
// about the days that were bought.
func mayNotShow(r fact.Renewal, expires, now time.Time) bool {
	if now.Sub(r.SettledAt) >= ShowsWithin {
		return false
	}
	bought := time.Duration(r.DurationDays) * 24 * time.Hour
	before := r.SettledAt // the earliest possible expiry of a proxy that was alive then
	if r.ObservedExpiresAt != nil {
		before = *r.ObservedExpiresAt
	}
	return expires.Before(before.Add(bought - fact.ExpiryTolerance))
}
