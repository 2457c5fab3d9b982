// The lines of renewals: claims and outcomes.

package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// RenewalLine is one proxy of a renewal operation. Cents are gross.
type RenewalLine struct {
	ProxyID           string         `json:"proxy_id" doc:"The provider's id of the proxy."`
	State             fact.LineState `json:"state" doc:"The state."`
	ChargedCents      int64          `json:"charged_cents" doc:"The amount charged, before refunds."`
	RefundedCents     int64          `json:"refunded_cents" doc:"The amount refunded."`
	ObservedExpiresAt *time.Time     `json:"observed_expires_at,omitempty" doc:"The expiry that was read before the send."`
	DurationDays      int64          `json:"duration_days" doc:"The duration in days, a multiple of 30."`
}

// Lines lists a renewal's lines in the order of their proxy ids.
func (l *Operations) Lines(ctx context.Context, operationID string) ([]RenewalLine, error) {
	return sqlite.Collect(l.query(ctx, RenewalLines, operationID), ScanRenewalLine)
}

// RenewalLines selects the lines of one renewal; ScanRenewalLine reads them.
const RenewalLines = `SELECT proxy_id, state, charged_cents, refunded_cents, observed_expires_at, duration_days
	FROM lines WHERE operation = ? ORDER BY proxy_id`

// ScanRenewalLine reads a row of RenewalLines.
func ScanRenewalLine(s sqlite.Scanner) (x RenewalLine, err error) {
	var observed sql.NullInt64
	var state string
	err = s.Scan(&x.ProxyID, &state, &x.ChargedCents, &x.RefundedCents, &observed, &x.DurationDays)
	x.State, x.ObservedExpiresAt = fact.LineState(state), sqlite.Instant(observed)
	return x, err
}

// DeliveredBy returns the order operation that delivered a proxy, "" if unknown.
func (l *Operations) DeliveredBy(ctx context.Context, proxyID string) (operation string, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT operation FROM delivered WHERE proxy_id = ?`, proxyID).Scan(&operation)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return operation, err
}

// Deliverers returns the order operations that delivered proxies, by proxy. A proxy without
// a known delivery has no entry.
func (l *Operations) Deliverers(ctx context.Context, proxyIDs []string) (map[string]string, error) {
	ids, err := json.Marshal(proxyIDs)
	if err != nil {
		return nil, err
	}
	by := map[string]string{}
	return by, sqlite.Each(l.query(ctx, `SELECT proxy_id, operation FROM delivered WHERE proxy_id IN (SELECT value FROM json_each(?))`, string(ids)), func(s sqlite.Scanner) error {
		var id, operation string
		err := s.Scan(&id, &operation)
		by[id] = operation
		return err
	})
}

// NamedBefore lists up to limit operations that bought a proxy, or were to renew it, and
// were accepted before an operation, the newest first. The zero operation comes after all
// others.
func (l *Operations) NamedBefore(ctx context.Context, proxyID string, o fact.Operation, limit int) ([]fact.Operation, error) {
	before := int64(1 << 62)
	if o.ID != "" {
		before = sqlite.Micros(o.AcceptedAt)
	}
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations WHERE (accepted_at, id) < (?2, ?3)
		AND id IN (SELECT operation FROM lines WHERE proxy_id = ?1 UNION SELECT operation FROM delivered WHERE proxy_id = ?1)
		ORDER BY accepted_at DESC, id DESC LIMIT +?4`, proxyID, before, o.ID, limit), ScanOperation)
}

// NamedAfter is NamedBefore for operations accepted after an operation, the oldest first.
func (l *Operations) NamedAfter(ctx context.Context, proxyID string, o fact.Operation, limit int) ([]fact.Operation, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations WHERE (accepted_at, id) > (?2, ?3)
		AND id IN (SELECT operation FROM lines WHERE proxy_id = ?1 UNION SELECT operation FROM delivered WHERE proxy_id = ?1)
		ORDER BY accepted_at, id LIMIT +?4`, proxyID, sqlite.Micros(o.AcceptedAt), o.ID, limit), ScanOperation)
}

// Claimant is Tx.Claimant for readers.
func (l *Operations) Claimant(ctx context.Context, proxyID string) (string, error) {
	return ScanClaimant(l.read.QueryRowContext(ctx, ClaimantQuery, proxyID))
}

// ClaimantQuery selects the operation that has reserved a proxy; ScanClaimant reads it.
const ClaimantQuery = `SELECT operation FROM lines WHERE proxy_id = ? AND claim = 1`

// ScanClaimant reads the row of ClaimantQuery, "" if there is none.
func ScanClaimant(row sqlite.Scanner) (operation string, err error) {
	err = row.Scan(&operation)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return operation, err
}

// RenewedAt reports whether a renewal of the proxy already succeeded for the observed
// expiry. A second one would pay for the same days again.
func (l *Fleet) RenewedAt(ctx context.Context, proxyID string, expiresAt time.Time) (bool, error) {
	return sqlite.Found(l.read.QueryRowContext(ctx, `SELECT `+renewedAt+` FROM (SELECT ? AS id, ? AS shown) d`, proxyID, sqlite.Micros(expiresAt)))
}

// IsNoMove ends the SQL form of fact.SameExpiry: abs(a - b) + isNoMove.
const IsNoMove = ` < 86400000000 `

// SettledSince reports whether a renewal of the proxy settled, or an operator answered for
// it, at or after an instant. Anything read before may show the old expiry.
func (l *Operations) SettledSince(ctx context.Context, proxyID string, at time.Time) (bool, error) {
	return sqlite.Found(l.read.QueryRowContext(ctx, `SELECT count(*) FROM lines WHERE proxy_id = ? AND settled_at >= ?`, proxyID, sqlite.Micros(at)))
}

// atExpiry is the SQL condition that line x ended at this expiry of its proxy. If the line
// recorded the expiry it pays for, the two are compared. Any other line is judged by its
// time: it settled after the last success and within 30 days of the expiry. A renewal
// extends an expiry by at least that. A schedule's window and the clock skew do not matter.
func atExpiry(expiry string) string {
	const leastMove = `2592000000000` // 30 days in microseconds
	return `CASE WHEN x.observed_expires_at IS NOT NULL THEN abs(x.observed_expires_at - ` + expiry + `)` + IsNoMove + `
		ELSE x.settled_at >= max(` + expiry + ` - ` + leastMove + `, coalesce((SELECT max(y.settled_at) FROM lines y
			WHERE y.proxy_id = x.proxy_id AND y.state IN ('succeeded', 'charged')), 0)) END`
}

// Claimed returns the set of proxies that an operation holds the claim to renew.
func (l *Operations) Claimed(ctx context.Context) (map[string]bool, error) {
	return l.proxySet(ctx, `SELECT proxy_id FROM lines WHERE claim = 1`)
}

func (l *Operations) proxySet(ctx context.Context, query string) (map[string]bool, error) {
	ids, err := sqlite.Collect(l.query(ctx, query), sqlite.Text)
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set, err
}

// ClaimedInReview returns those of Claimed that need review: whether they were renewed is
// unknown.
func (l *Operations) ClaimedInReview(ctx context.Context) (map[string]bool, error) {
	return l.proxySet(ctx, `SELECT x.proxy_id FROM lines x CROSS JOIN operations o ON o.id = x.operation
		WHERE x.claim = 1 AND (x.state = 'unresolved' OR o.state = 'review')`)
}

// ClaimedKinds returns one proxy, with the other fields empty, for each country, region,
// line, type and protocol of which an operation is about to renew one. Attempts that may
// have executed are left out: their outcome may take hours, or a review.
func (l *Operations) ClaimedKinds(ctx context.Context) ([]Proxy, error) {
	return sqlite.Collect(l.query(ctx, `SELECT DISTINCT p.country_code, p.region, p.line_name, p.ip_type, p.protocol
		FROM lines x CROSS JOIN operations o ON o.id = x.operation CROSS JOIN proxies p ON p.proxy_id = x.proxy_id
		WHERE x.claim = 1 AND x.state = 'pending' AND o.state <> 'review' AND NOT (o.state = 'waiting' AND o.ambiguous > 0)`), func(s sqlite.Scanner) (p Proxy, err error) {
		err = s.Scan(&p.CountryCode, &p.Region, &p.LineName, &p.IPType, &p.Protocol)
		return p, err
	})
}

// CountLines returns how many proxies a renewal is for, and for how many days; 0 for an
// archived one.
func (l *Operations) CountLines(ctx context.Context, operationID string) (n, days int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT count(*), coalesce(max(duration_days), 0) FROM lines WHERE operation = ?`, operationID).Scan(&n, &days)
	return n, days, err
}
