// Queries of what renewals have cost, by which the next one is estimated. A line that
// failed and was refunded, or is not resolved, names its price as well as one that was paid.

package ledger

import (
	"cmp"
	"context"
	"time"

	"perennial/ledger/fact"
)

// priced is the SQL condition that line x names its price.
const priced = `x.charged_cents > 0 AND (x.state = 'succeeded' OR x.state = 'charged' OR x.state = 'failed' OR x.state = 'unresolved')`

// PaidPerDay is what a renewal of this proxy last cost, in cents and the days they buy;
// ErrNotFound when no line of it has named a price.
func (l *Ledger) PaidPerDay(ctx context.Context, proxyID string) (cents, days int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT x.charged_cents, x.duration_days FROM lines x
		WHERE x.proxy_id = ? AND `+priced+` ORDER BY x.settled_at DESC LIMIT 1`, proxyID).Scan(&cents, &days)
	return cents, days, notFound(err)
}

// LastPaid is what the last renewal of any proxy of the same country, region, line, type
// and protocol cost (two offers may differ in any of them, and each has its price), in
// cents and the days they buy; ErrNotFound when none has named a price, or not within the
// last 500,000 facts. The newest
// transfers are read first: in a large account the first few give the price.
func (l *Ledger) LastPaid(ctx context.Context, like Proxy) (cents, days int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT x.charged_cents, x.duration_days
		FROM transfers t CROSS JOIN lines x ON x.operation = t.operation AND x.proxy_id = t.proxy_id CROSS JOIN proxies p ON p.proxy_id = t.proxy_id
		WHERE t.seq > (SELECT max(seq) FROM journal) - 500000 AND t.kind IN ('charge', 'suspense', 'resolution')
		AND `+priced+`
		AND p.country_code = ? AND p.region = ? AND p.line_name = ? AND p.ip_type = ? AND p.protocol = ?
		ORDER BY t.seq DESC LIMIT 1`, like.CountryCode, like.Region, like.LineName, like.IPType, like.Protocol).Scan(&cents, &days)
	return cents, days, notFound(err)
}

// dearestOf is how many of the latest bookings Dearest reads.
const dearestOf = 2000

// Dearest is the most that one proxy's renewal for so many days would cost at any price
// that was paid lately, in cents, or where none was, at any that a line has named; 0 when
// none has.
func (l *Ledger) Dearest(ctx context.Context, days int64) (most int64, err error) {
	var named int64
	err = each(l.query(ctx, `SELECT x.charged_cents, x.duration_days, x.state IN ('succeeded', 'charged')
		FROM (SELECT operation, proxy_id FROM transfers ORDER BY seq DESC, n DESC LIMIT ?) t
		CROSS JOIN lines x ON x.operation = t.operation AND x.proxy_id = t.proxy_id
		WHERE `+priced, dearestOf), func(s scanner) error {
		var cents, of int64
		var paid bool
		err := s.Scan(&cents, &of, &paid)
		if named = max(named, fact.ScalePrice(cents, of, days)); paid {
			most = max(most, fact.ScalePrice(cents, of, days))
		}
		return err
	})
	return cmp.Or(most, named), err
}

// Priced is Expiring with what each proxy's own renewal last cost, in cents and the days
// that they buy; 0 and 0 where that is not known.
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
