package tables

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

const (
	// priceOf is SQL for the price that line x shows. For a line that an operator answered it is
	// the net amount after corrections, because an amount that was taken back was not a price.
	// For a successful line it is the net amount, unless everything was refunded.
	priceOf = `CASE WHEN x.state = 'charged' OR x.state = 'succeeded' AND x.charged_cents > x.refunded_cents THEN x.charged_cents - x.refunded_cents ELSE x.charged_cents END`
	// priced is the SQL condition that line x shows its price. Failed and unresolved lines also
	// show a price.
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

// PaidPerDay returns the price last paid to renew this proxy. It returns the zero Paid if no
// price is known.
func (l *Fleet) PaidPerDay(ctx context.Context, proxyID string) (Paid, error) {
	return paidOrNone(l.row(ctx, `SELECT `+priceOf+`, x.duration_days, x.settled_at FROM lines x
		WHERE x.proxy_id = ? AND `+priced+` ORDER BY x.settled_at DESC LIMIT 1`, proxyID))
}

// LastPaid returns the price last paid for any proxy of the same country, region, line, type and
// protocol, because each combination may have its own price. It returns the zero Paid if the last
// 500,000 facts contain none. In a large account the first few facts suffice. A correction does
// not make an old renewal newer. The condition about corrections refers to the table alias p, so
// that SQLite checks it last.
func (l *Fleet) LastPaid(ctx context.Context, like Proxy) (Paid, error) {
	return paidOrNone(l.row(ctx, `SELECT `+priceOf+`, x.duration_days, x.settled_at
		FROM transfers t CROSS JOIN lines x ON x.operation = t.operation AND x.proxy_id = t.proxy_id CROSS JOIN proxies p ON p.proxy_id = t.proxy_id
		WHERE t.seq > (SELECT max(seq) FROM journal) - 500000 AND t.kind IN ('charge', 'suspense', 'resolution')
		AND coalesce((SELECT type FROM journal WHERE seq = t.seq AND p.proxy_id = t.proxy_id), '') <> 'ledger.recorded'
		AND `+priced+` AND `+likeP+` ORDER BY t.seq DESC LIMIT 1`, like.CountryCode, like.Region, like.LineName, like.IPType, like.Protocol))
}

const likeP = `p.country_code = ? AND p.region = ? AND p.line_name = ? AND p.ip_type = ? AND p.protocol = ?`

func paidOrNone(row sqlite.Scanner) (Paid, error) {
	var p Paid
	err := row.Scan(&p.Cents, &p.Days, sqlite.At(&p.At))
	return p, sqlite.Optional(err)
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

// DearestLine returns the highest charge of a line of the command, before refunds. It returns 0
// if nothing was charged. If like is not nil, it considers only proxies of the same kind.
func (l *Fleet) DearestLine(ctx context.Context, commandID string, like *Proxy) (int64, error) {
	query, args := `SELECT coalesce(max(x.charged_cents), 0) FROM operations o CROSS JOIN lines x ON x.operation = o.id WHERE o.command_id = ?`, []any{commandID}
	if like != nil {
		query += ` AND EXISTS (SELECT 1 FROM proxies p WHERE p.proxy_id = x.proxy_id AND ` + likeP + `)`
		args = append(args, like.CountryCode, like.Region, like.LineName, like.IPType, like.Protocol)
	}
	return sqlite.Value[int64](l.row(ctx, query, args...))
}

const dearestOf = 2000

// Dearest returns the highest price in the latest bookings, in cents, of renewing one proxy
// for the given number of days. If none of these renewals succeeded, it uses the prices of
// failed and unresolved lines. It returns 0 if there are none.
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

// Priced is like Expiring, and adds the price last paid for each proxy.
func (l *Fleet) Priced(ctx context.Context, until time.Time, yield func(p PricedProxy) error) error {
	return sqlite.EachAs(l.query(ctx, `SELECT `+shownColumns+`, `+lastPaidOf+` `+AsShown+` AND lasts_until <= ?1
		UNION ALL SELECT `+proxyColumns+`, `+lastPaidOf+` `+AlreadyRenewed+` AND expires_at <= ?1`+byShownExpiry, sqlite.Micros(until)), scanPriced, yield)
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
	// Expires is when the proxies expire, including what open renewals add. For living proxies,
	// Expires stands for a whole minute: they become due in the minute that ends Lead before
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
		lasts_until + CASE WHEN ` + renewedUnread + ` OR proxy_id IN (SELECT proxy_id FROM lines WHERE claim = 1) THEN ?5 ELSE 0 END AS expires,
		coalesce((SELECT ` + priceOf + ` || ' ' || x.duration_days || ' ' || x.settled_at ` + ofLastPaid + `), '') AS paid
		FROM proxies WHERE +gone = 0 AND expires_at > ?1 AND expires_at <= ?2 AND proxy_id NOT IN (SELECT proxy_id FROM retired))
	GROUP BY 1, 2, 3, 4, 5, 6, 7, 8`

// CountPriced is like Priced, for callers that only need counts. With a million proxies it takes
// a fraction of the time. It leaves out retired proxies.
func (l *Fleet) CountPriced(ctx context.Context, of DuePart, yield func(DueCount) error) error {
	after := int64(math.MinInt64)
	if !of.After.IsZero() {
		after = sqlite.Micros(of.After)
	}
	lead := int64((of.Lead + time.Microsecond - 1) / time.Microsecond)
	paid := map[string]Paid{"": {}}
	return sqlite.Each(l.query(ctx, countPriced, after, sqlite.Micros(of.Until), sqlite.Micros(of.Now), lead, int64(of.Lasts/time.Microsecond)), func(s sqlite.Scanner) error {
		var price string
		var c DueCount
		err := s.Scan(sqlite.At(&c.Expires), &price, &c.Like.CountryCode, &c.Like.Region, &c.Like.LineName, &c.Like.IPType, &c.Like.Protocol, &c.Like.Status, &c.N)
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
		return yield(c)
	})
}

// History says what earlier renewals of a proxy mean for the next renewal, given the expiry
// that the provider shows now.
type History struct {
	// PaidFor and Behind are the results of Fleet.PaidFor.
	PaidFor bool
	Behind  *fact.Renewal
	// InVain says that an expired proxy was paid for so recently that it should still be alive. A
	// second payment might be wasted too. An operator's answer to the review clears InVain until
	// the next renewal.
	InVain bool
	Failed FailedRenewals
	Paid   Paid // the price last paid for this proxy
}

// FailedRenewals summarizes the renewals of a proxy that ended at one expiry without
// extending it.
type FailedRenewals struct {
	All int
	// Counted is the number of failures caused by the proxy since the operator's last answer.
	// LastCounted is when the latest failure caused by the proxy ended, even if it was
	// answered.
	Counted     int
	LastCounted time.Time
	// LastExcused is when the latest failure with another cause ended.
	LastExcused time.Time
	// ShortOfMoney says that the failure at LastExcused was due to the wallet balance.
	ShortOfMoney bool
	// AskedOf is the expiry that an open review is about. It is zero if there is no open review.
	AskedOf time.Time
}

// renewedAt is the SQL condition that a renewal of proxy d.id for its shown expiry d.shown
// succeeded. lastRenewal selects the operation of the proxy's latest successful renewal.
const (
	renewedAt = `EXISTS (SELECT 1 FROM lines WHERE proxy_id = d.id AND abs(observed_expires_at - d.shown)` + IsNoMove + `AND state IN ('succeeded', 'charged'))`

	lastRenewal = `(SELECT operation FROM lines WHERE proxy_id = d.id AND (state = 'succeeded' OR state = 'charged') AND settled_at IS NOT NULL
		ORDER BY settled_at DESC LIMIT 1)`
)

const lookedAt = `(SELECT key AS n, value ->> 0 AS id, value ->> 1 AS shown FROM json_each(?1)) d`

// Histories returns the histories of proxies at the instant now, in the order of proxies.
// Every proxy must have an expiry. Failures with an excused code do not count against a proxy.
// One call for many proxies takes a fifth of the time of single calls.
func (l *Operations) Histories(ctx context.Context, proxies []Proxy, now time.Time, excused ...string) ([]History, error) {
	pairs := make([][2]any, len(proxies))
	for i, p := range proxies {
		pairs[i] = [2]any{p.ProxyID, sqlite.Micros(*p.ExpiresAt)}
	}
	list, err := json.Marshal(pairs)
	if err != nil {
		return nil, err
	}
	codes, err := json.Marshal(append([]string{}, excused...)) // never null
	if err != nil {
		return nil, err
	}
	all := make([]History, len(proxies))
	err = sqlite.Each(l.query(ctx, `SELECT d.n, `+renewedAt+`, EXISTS (SELECT 1 FROM lines WHERE proxy_id = d.id AND (state = 'succeeded' OR state = 'charged')
			AND settled_at > coalesce((SELECT answered_at FROM sweep_reviews WHERE proxy_id = d.id), 0) AND settled_at + duration_days * 86400000000 > ?2),
		r.observed_expires_at, r.duration_days, r.settled_at, `+priceOf+`, x.duration_days, x.settled_at
		FROM `+lookedAt+` LEFT JOIN lines r ON r.proxy_id = d.id AND r.operation = `+lastRenewal+`
		LEFT JOIN lines x ON x.proxy_id = d.id AND x.operation = (SELECT x.operation FROM lines x WHERE x.proxy_id = d.id AND `+priced+` ORDER BY x.settled_at DESC LIMIT 1)
		WHERE EXISTS (SELECT 1 FROM lines WHERE proxy_id = d.id)`, string(list), sqlite.Micros(now)), func(s sqlite.Scanner) error {
		return scanHistory(s, all, proxies, now)
	})
	if err != nil {
		return nil, err
	}
	return all, sqlite.Each(l.query(ctx, endings, string(list), string(codes)), func(s sqlite.Scanner) error { return scanEndings(s, all) })
}

func scanHistory(s sqlite.Scanner, all []History, proxies []Proxy, now time.Time) error {
	var n int
	var h History
	var observed, days, settled, cents, ofDays, at sql.NullInt64
	if err := s.Scan(&n, &h.PaidFor, &h.InVain, &observed, &days, &settled, &cents, &ofDays, &at); err != nil {
		return err
	}
	if ofDays.Valid {
		h.Paid = Paid{cents.Int64, ofDays.Int64, sqlite.FromMicros(at.Int64)}
	}
	last := fact.Renewal{ObservedExpiresAt: sqlite.Instant(observed), DurationDays: days.Int64, SettledAt: sqlite.FromMicros(settled.Int64)}
	if !h.PaidFor && settled.Valid && mayNotShow(last, *proxies[n].ExpiresAt, now) {
		h.PaidFor, h.Behind = true, &last
	}
	all[n] = h
	return nil
}

// endings counts the renewals that ended at the shown expiry without extending it. ?2 is the
// list of excused codes.
var endings = `SELECT d.n, count(*),
	count(*) FILTER (WHERE x.settled_at > coalesce((SELECT answered_at FROM sweep_reviews WHERE proxy_id = d.id), 0) AND NOT ` + isExcused + `),
	max(x.settled_at) FILTER (WHERE NOT ` + isExcused + `), max(x.settled_at) FILTER (WHERE ` + isExcused + `),
	max(x.settled_at) FILTER (WHERE o.code = 'insufficient_wallet_balance'),
	(SELECT expires_at FROM sweep_reviews WHERE proxy_id = d.id AND answered_at IS NULL)
	FROM ` + lookedAt + ` CROSS JOIN lines x ON x.proxy_id = d.id CROSS JOIN operations o ON o.id = x.operation
	WHERE x.state IN ('failed', 'not_charged', 'skipped') AND ` + atExpiry(`d.shown`) + ` GROUP BY d.n`

const isExcused = `o.code IN (SELECT value FROM json_each(?2))`

func scanEndings(s sqlite.Scanner, all []History) error {
	var n int
	var e FailedRenewals
	var counted, pardoned, short, asked *time.Time
	if err := s.Scan(&n, &e.All, &e.Counted, sqlite.NullAt(&counted), sqlite.NullAt(&pardoned), sqlite.NullAt(&short), sqlite.NullAt(&asked)); err != nil {
		return err
	}
	for to, at := range map[*time.Time]*time.Time{&e.LastCounted: counted, &e.LastExcused: pardoned, &e.AskedOf: asked} {
		if at != nil {
			*to = *at
		}
	}
	e.ShortOfMoney = short != nil && pardoned != nil && short.Equal(*pardoned)
	all[n].Failed = e
	return nil
}
