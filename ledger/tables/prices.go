// Prices of past renewals, from which the next one is estimated. A failed and refunded
// line, or an unresolved one, shows a price just as a paid line does.

package tables

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

const (
	// priceOf is the price that line x shows, in SQL. For a line that an operator answered it
	// is the net amount after corrections, because an amount that was taken back was not a
	// price. For a successful line it is the net amount, unless everything was refunded.
	priceOf = `CASE WHEN x.state = 'charged' OR x.state = 'succeeded' AND x.charged_cents > x.refunded_cents THEN x.charged_cents - x.refunded_cents ELSE x.charged_cents END`
	// priced is the SQL condition that line x shows its price.
	priced = priceOf + ` > 0 AND (x.state = 'succeeded' OR x.state = 'charged' OR x.state = 'failed' OR x.state = 'unresolved')`
)

// Paid is the price of a renewal in cents, the days it bought, and when it settled. The
// zero value means that no price is known.
type Paid struct {
	Cents, Days int64
	At          time.Time
}

// For returns the price of another number of days at the same rate. It is unknown for a zero
// Paid.
func (p Paid) For(days int64) fact.Cents {
	if p.Days == 0 {
		return fact.Cents{}
	}
	return fact.Known(fact.ScalePrice(p.Cents, p.Days, days))
}

// Newest returns the later of two prices. The later one is used for all proxies of a kind,
// because a price increase applies to all of them.
func (p Paid) Newest(o Paid) Paid {
	if o.At.After(p.At) {
		return o
	}
	return p
}

func scanPaid(s sqlite.Scanner) (p Paid, err error) {
	var at int64
	err = s.Scan(&p.Cents, &p.Days, &at)
	p.At = sqlite.FromMicros(at)
	return p, err
}

// PaidPerDay returns the price last paid to renew this proxy, or the zero Paid.
func (l *Fleet) PaidPerDay(ctx context.Context, proxyID string) (Paid, error) {
	return paidOrNone(l.read.QueryRowContext(ctx, `SELECT `+priceOf+`, x.duration_days, x.settled_at FROM lines x
		WHERE x.proxy_id = ? AND `+priced+` ORDER BY x.settled_at DESC LIMIT 1`, proxyID))
}

// LastPaid returns the price last paid for any proxy of the same country, region, line, type
// and protocol, because each combination may have its own price. It returns the zero Paid if
// the last 500,000 facts contain none; in a large account the first few suffice. A
// correction does not make an old renewal newer. The condition for this refers to p, so that
// SQLite checks it last.
func (l *Fleet) LastPaid(ctx context.Context, like Proxy) (Paid, error) {
	return paidOrNone(l.read.QueryRowContext(ctx, `SELECT `+priceOf+`, x.duration_days, x.settled_at
		FROM transfers t CROSS JOIN lines x ON x.operation = t.operation AND x.proxy_id = t.proxy_id CROSS JOIN proxies p ON p.proxy_id = t.proxy_id
		WHERE t.seq > (SELECT max(seq) FROM journal) - 500000 AND t.kind IN ('charge', 'suspense', 'resolution')
		AND coalesce((SELECT type FROM journal WHERE seq = t.seq AND p.proxy_id = t.proxy_id), '') <> 'ledger.recorded'
		AND `+priced+` AND `+likeP+` ORDER BY t.seq DESC LIMIT 1`, like.CountryCode, like.Region, like.LineName, like.IPType, like.Protocol))
}

// likeP is the SQL condition that proxy p is of a given kind.
const likeP = `p.country_code = ? AND p.region = ? AND p.line_name = ? AND p.ip_type = ? AND p.protocol = ?`

func paidOrNone(row sqlite.Scanner) (Paid, error) {
	p, err := scanPaid(row)
	if errors.Is(err, sql.ErrNoRows) {
		return Paid{}, nil
	}
	return p, err
}

// LastPrice returns the newer of the prices last paid for this proxy and for its kind.
func (l *Fleet) LastPrice(ctx context.Context, proxyID string) (Paid, error) {
	own, err := l.PaidPerDay(ctx, proxyID)
	if err != nil {
		return own, err
	}
	like, err := l.Proxy(ctx, proxyID)
	if errors.Is(err, sqlite.ErrNone) {
		return own, nil
	}
	if err != nil {
		return own, err
	}
	kind, err := l.LastPaid(ctx, like)
	return own.Newest(kind), err
}

// DearestLine returns the highest charge of a line of the command, before refunds, or 0. If
// like is not nil, it considers only proxies of the same kind.
func (l *Fleet) DearestLine(ctx context.Context, commandID string, like *Proxy) (most int64, err error) {
	query, args := `SELECT coalesce(max(x.charged_cents), 0) FROM operations o CROSS JOIN lines x ON x.operation = o.id WHERE o.command_id = ?`, []any{commandID}
	if like != nil {
		query += ` AND EXISTS (SELECT 1 FROM proxies p WHERE p.proxy_id = x.proxy_id AND ` + likeP + `)`
		args = append(args, like.CountryCode, like.Region, like.LineName, like.IPType, like.Protocol)
	}
	err = l.read.QueryRowContext(ctx, query, args...).Scan(&most)
	return most, err
}

// dearestOf is how many of the latest bookings Dearest reads.
const dearestOf = 2000

// Dearest returns the highest price in the latest bookings, in cents, of renewing one proxy
// for the given number of days. If none of these renewals succeeded, it uses the prices that
// their lines have shown. It returns 0 if there are none.
func (l *Money) Dearest(ctx context.Context, days int64) (most int64, err error) {
	var named int64
	err = sqlite.Each(l.query(ctx, `SELECT `+priceOf+`, x.duration_days, x.state IN ('succeeded', 'charged')
		FROM (SELECT operation, proxy_id FROM transfers ORDER BY seq DESC, n DESC LIMIT +?) t
		CROSS JOIN lines x ON x.operation = t.operation AND x.proxy_id = t.proxy_id
		WHERE `+priced, dearestOf), func(s sqlite.Scanner) error {
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

// Priced is Expiring with the price last paid for each proxy.
func (l *Fleet) Priced(ctx context.Context, until time.Time, yield func(p PricedProxy) error) error {
	return sqlite.Each(l.query(ctx, `SELECT `+shownColumns+`, `+lastPaidOf+` `+AsShown+` AND lasts_until <= ?1
		UNION ALL SELECT `+proxyColumns+`, `+lastPaidOf+` `+AlreadyRenewed+` AND expires_at <= ?1`+byShownExpiry, sqlite.Micros(until)), func(s sqlite.Scanner) error {
		p, err := scanPriced(s)
		if err != nil {
			return err
		}
		return yield(p)
	})
}

// DuePart selects proxies by their shown expiry, and sets how CountPriced groups them by
// time.
type DuePart struct {
	After, Until time.Time // bounds of the shown expiry: After is exclusive and may be zero, Until is inclusive
	Now          time.Time
	Lead         time.Duration // time from being due to expiry
	Lasts        time.Duration // what an open renewal adds to an expiry
}

// DueCount is the number of proxies of one kind, status and price that become due within
// the same minute, or that expired at the same instant.
type DueCount struct {
	Like Proxy // kind and status; other fields are empty
	Paid Paid
	// Expires is when the proxies expire, including what open renewals add. For living proxies
	// it stands for a whole minute: they become due in the minute that ends Lead before
	// Expires.
	Expires time.Time
	N       int
}

// countPriced scans the table, because the index would find each of a million rows on
// another page; the unary plus disables the index. ?1 and ?2 are the bounds of the shown
// expiry, ?3 is now, ?4 Lead and ?5 Lasts.
const countPriced = `SELECT CASE WHEN expires < ?3 THEN expires ELSE ((expires - ?4) / 1000000 + 59) / 60 * 60000000 + ?4 END,
	paid, country_code, region, line_name, ip_type, protocol, status, count(*)
	FROM (SELECT country_code, region, line_name, ip_type, protocol, status,
		lasts_until + CASE WHEN seen_at <= 0 AND expected_at IS NULL OR proxy_id IN (SELECT proxy_id FROM lines WHERE claim = 1) THEN ?5 ELSE 0 END AS expires,
		coalesce((SELECT ` + priceOf + ` || ' ' || x.duration_days || ' ' || x.settled_at ` + ofLastPaid + `), '') AS paid
		FROM proxies WHERE +gone = 0 AND expires_at > ?1 AND expires_at <= ?2 AND proxy_id NOT IN (SELECT proxy_id FROM retired))
	GROUP BY 1, 2, 3, 4, 5, 6, 7, 8`

// CountPriced is Priced for callers that only need counts; with a million proxies it takes
// a fraction of the time. It leaves out retired proxies.
func (l *Fleet) CountPriced(ctx context.Context, of DuePart, yield func(DueCount) error) error {
	after := int64(math.MinInt64)
	if !of.After.IsZero() {
		after = sqlite.Micros(of.After)
	}
	lead := int64((of.Lead + time.Microsecond - 1) / time.Microsecond)
	paid := map[string]Paid{"": {}}
	return sqlite.Each(l.query(ctx, countPriced, after, sqlite.Micros(of.Until), sqlite.Micros(of.Now), lead, int64(of.Lasts/time.Microsecond)), func(s sqlite.Scanner) error {
		var expires int64
		var price string
		var c DueCount
		err := s.Scan(&expires, &price, &c.Like.CountryCode, &c.Like.Region, &c.Like.LineName, &c.Like.IPType, &c.Like.Protocol, &c.Like.Status, &c.N)
		if err != nil {
			return err
		}
		var known bool
		if c.Paid, known = paid[price]; !known {
			var at int64
			if _, err := fmt.Sscan(price, &c.Paid.Cents, &c.Paid.Days, &at); err != nil {
				return fmt.Errorf("read the price %q: %w", price, err)
			}
			c.Paid.At = sqlite.FromMicros(at)
			paid[price] = c.Paid
		}
		c.Expires = sqlite.FromMicros(expires)
		return yield(c)
	})
}

// extraColumns scans further columns after those that the caller asks for.
type extraColumns struct {
	sqlite.Scanner
	more []any
}

// Scan implements sqlite.Scanner.
func (a extraColumns) Scan(dest ...any) error { return a.Scanner.Scan(append(dest, a.more...)...) }
