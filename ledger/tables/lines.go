// The lines of renewals: which proxies are reserved, and the outcomes.

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

// RenewalLine is one proxy of a renewal. ChargedCents is before refunds.
type RenewalLine struct {
	ProxyID           string         `json:"proxy_id" doc:"The provider's id of the proxy."`
	State             fact.LineState `json:"state" doc:"The state."`
	ChargedCents      int64          `json:"charged_cents" doc:"The amount charged, before refunds."`
	RefundedCents     int64          `json:"refunded_cents" doc:"The amount refunded."`
	ObservedExpiresAt *time.Time     `json:"observed_expires_at,omitempty" doc:"The expiry that was read before the send."`
	DurationDays      int64          `json:"duration_days" doc:"The duration in days, a multiple of 30."`
}

// Lines lists the lines of a renewal, ordered by proxy ID.
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

// DeliveredBy returns the order operation that delivered a proxy, or "" if it is unknown.
func (l *Operations) DeliveredBy(ctx context.Context, proxyID string) (operation string, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT operation FROM delivered WHERE proxy_id = ?`, proxyID).Scan(&operation)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return operation, err
}

// Deliverers maps each proxy to the order operation that delivered it. Proxies without a
// known delivery have no entry.
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

// NamedBefore lists up to limit operations that bought or renewed a proxy (or were to renew
// it) and were accepted before operation o, newest first. A zero o starts with the newest
// operation.
func (l *Operations) NamedBefore(ctx context.Context, proxyID string, o fact.Operation, limit int) ([]fact.Operation, error) {
	before := int64(1 << 62)
	if o.ID != "" {
		before = sqlite.Micros(o.AcceptedAt)
	}
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations WHERE (accepted_at, id) < (?2, ?3)
		AND id IN (SELECT operation FROM lines WHERE proxy_id = ?1 UNION SELECT operation FROM delivered WHERE proxy_id = ?1)
		ORDER BY accepted_at DESC, id DESC LIMIT +?4`, proxyID, before, o.ID, limit), ScanOperation)
}

// NamedAfter is NamedBefore in the other direction: operations accepted after o, oldest
// first.
func (l *Operations) NamedAfter(ctx context.Context, proxyID string, o fact.Operation, limit int) ([]fact.Operation, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations WHERE (accepted_at, id) > (?2, ?3)
		AND id IN (SELECT operation FROM lines WHERE proxy_id = ?1 UNION SELECT operation FROM delivered WHERE proxy_id = ?1)
		ORDER BY accepted_at, id LIMIT +?4`, proxyID, sqlite.Micros(o.AcceptedAt), o.ID, limit), ScanOperation)
}

// Claimant returns the operation that has reserved the proxy for a renewal, or "".
func (l *Operations) Claimant(ctx context.Context, proxyID string) (string, error) {
	return ScanClaimant(l.read.QueryRowContext(ctx, ClaimantQuery, proxyID))
}

// ClaimantQuery selects the operation that has reserved a proxy; ScanClaimant reads the
// row.
const ClaimantQuery = `SELECT operation FROM lines WHERE proxy_id = ? AND claim = 1`

// ScanClaimant reads the row of ClaimantQuery; "" if there is no row.
func ScanClaimant(row sqlite.Scanner) (operation string, err error) {
	err = row.Scan(&operation)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return operation, err
}

// RenewedAt reports whether a renewal for this expiry of the proxy succeeded. A second
// renewal would pay for the same days again.
func (l *Fleet) RenewedAt(ctx context.Context, proxyID string, expiresAt time.Time) (bool, error) {
	return sqlite.Found(l.read.QueryRowContext(ctx, `SELECT `+renewedAt+` FROM (SELECT ? AS id, ? AS shown) d`, proxyID, sqlite.Micros(expiresAt)))
}

// IsNoMove is the end of the SQL condition for fact.SameExpiry: abs(a - b) + IsNoMove.
const IsNoMove = ` < 86400000000 `

// SettledSince reports whether a renewal of the proxy settled, or an operator answered for
// it, at or after an instant. Data read before the settlement may show the old expiry.
func (l *Operations) SettledSince(ctx context.Context, proxyID string, at time.Time) (bool, error) {
	return sqlite.Found(l.read.QueryRowContext(ctx, `SELECT count(*) FROM lines WHERE proxy_id = ? AND settled_at >= ?`, proxyID, sqlite.Micros(at)))
}

// atExpiry returns the SQL condition that line x ended at the given expiry of its proxy. If
// the line recorded the expiry that it pays for, that expiry is compared. Otherwise the
// line's time decides: it settled no earlier than the last success, and no earlier than 30
// days, the shortest extension, before the expiry. The schedule's window and clock skew play
// no part.
func atExpiry(expiry string) string {
	const leastMove = `2592000000000` // 30 days in microseconds
	return `CASE WHEN x.observed_expires_at IS NOT NULL THEN abs(x.observed_expires_at - ` + expiry + `)` + IsNoMove + `
		ELSE x.settled_at >= max(` + expiry + ` - ` + leastMove + `, coalesce((SELECT max(y.settled_at) FROM lines y
			WHERE y.proxy_id = x.proxy_id AND y.state IN ('succeeded', 'charged')), 0)) END`
}

// Claimed returns the proxies that are reserved by an operation.
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

// ClaimedInReview returns the reserved proxies whose renewal needs review.
func (l *Operations) ClaimedInReview(ctx context.Context) (map[string]bool, error) {
	return l.proxySet(ctx, `SELECT x.proxy_id FROM lines x CROSS JOIN operations o ON o.id = x.operation
		WHERE x.claim = 1 AND (x.state = 'unresolved' OR o.state = 'review')`)
}

// ClaimedKinds returns one proxy for each combination of country, region, line, type and
// protocol with a renewal that has no outcome yet. The other fields are empty. It leaves out
// renewals that need review or wait after an attempt that may have been executed, because
// their outcome may take hours or need an operator.
func (l *Operations) ClaimedKinds(ctx context.Context) ([]Proxy, error) {
	return sqlite.Collect(l.query(ctx, `SELECT DISTINCT p.country_code, p.region, p.line_name, p.ip_type, p.protocol
		FROM lines x CROSS JOIN operations o ON o.id = x.operation CROSS JOIN proxies p ON p.proxy_id = x.proxy_id
		WHERE x.claim = 1 AND x.state = 'pending' AND o.state <> 'review' AND NOT (o.state = 'waiting' AND o.ambiguous > 0)`), func(s sqlite.Scanner) (p Proxy, err error) {
		err = s.Scan(&p.CountryCode, &p.Region, &p.LineName, &p.IPType, &p.Protocol)
		return p, err
	})
}

// CountLines returns the number of proxies of a renewal and the days it buys. Both are 0 for
// an order or an unknown operation.
func (l *Operations) CountLines(ctx context.Context, operationID string) (n, days int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT count(*), coalesce(max(duration_days), 0) FROM lines WHERE operation = ?`, operationID).Scan(&n, &days)
	return n, days, err
}
