// Queries of what was paid for renewals, by which the next one is estimated.

package ledger

import (
	"context"
	"time"

	"perennial/ledger/fact"
)

// PaidPerDay is what the ledger last paid to renew this proxy, in cents and
// the days they bought; ErrNotFound when it never paid for one.
func (l *Ledger) PaidPerDay(ctx context.Context, proxyID string) (cents, days int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT charged_cents, duration_days FROM lines
		WHERE proxy_id = ? AND state IN ('succeeded', 'charged') AND charged_cents > 0 ORDER BY settled_at DESC LIMIT 1`, proxyID).Scan(&cents, &days)
	return cents, days, notFound(err)
}

// LastPaid is what the ledger last paid for any renewal of a proxy of the same
// country, region, line, type and protocol (two offers may differ in any of them,
// and each has its price), in cents and the days they bought; ErrNotFound when
// it never paid for one, or not within its last 500,000 facts. The newest
// transfers are read first: in a large account the first few give the price.
func (l *Ledger) LastPaid(ctx context.Context, like Proxy) (cents, days int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT x.charged_cents, x.duration_days
		FROM transfers t CROSS JOIN lines x ON x.operation = t.operation AND x.proxy_id = t.proxy_id CROSS JOIN proxies p ON p.proxy_id = t.proxy_id
		WHERE t.seq > (SELECT max(seq) FROM journal) - 500000 AND t.kind IN ('charge', 'resolution')
		AND x.state IN ('succeeded', 'charged') AND x.charged_cents > 0
		AND p.country_code = ? AND p.region = ? AND p.line_name = ? AND p.ip_type = ? AND p.protocol = ?
		ORDER BY t.seq DESC LIMIT 1`, like.CountryCode, like.Region, like.LineName, like.IPType, like.Protocol).Scan(&cents, &days)
	return cents, days, notFound(err)
}

// dearestOf is how many of the latest bookings Dearest reads.
const dearestOf = 2000

// Dearest is the most that one proxy's renewal for so many days would cost at any
// price that was paid lately, in cents; 0 when none was paid.
func (l *Ledger) Dearest(ctx context.Context, days int64) (most int64, err error) {
	err = each(l.query(ctx, `SELECT x.charged_cents, x.duration_days
		FROM (SELECT operation, proxy_id FROM transfers ORDER BY seq DESC, n DESC LIMIT ?) t
		CROSS JOIN lines x ON x.operation = t.operation AND x.proxy_id = t.proxy_id
		WHERE x.charged_cents > 0 AND (x.state = 'succeeded' OR x.state = 'charged')`, dearestOf), func(s scanner) error {
		var cents, paid int64
		err := s.Scan(&cents, &paid)
		most = max(most, fact.ScalePrice(cents, paid, days))
		return err
	})
	return most, err
}

// Priced is Expiring with what was last paid to renew each proxy itself, in
// cents and the days that they bought; 0 and 0 where nothing ever was.
func (l *Ledger) Priced(ctx context.Context, until time.Time, yield func(p Proxy, cents, days int64) error) error {
	return each(l.query(ctx, `SELECT `+proxyColumns+`,
		coalesce((SELECT x.charged_cents `+lastPaidOf+`), 0), coalesce((SELECT x.duration_days `+lastPaidOf+`), 0)
		FROM proxies WHERE expires_at IS NOT NULL AND gone = 0 AND expires_at <= ? ORDER BY expires_at, proxy_id`, micros(until)), func(s scanner) error {
		var cents, days int64
		p, err := scanProxy(extraColumns{s, []any{&cents, &days}})
		if err != nil {
			return err
		}
		return yield(p, cents, days)
	})
}

// extraColumns scans more columns behind those that are asked for.
type extraColumns struct {
	scanner
	more []any
}

// Scan implements scanner.
func (a extraColumns) Scan(dest ...any) error { return a.scanner.Scan(append(dest, a.more...)...) }
