// Earlier renewals of proxies, as a plan needs them.

package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// History says what earlier renewals of a proxy mean for the next renewal, given the expiry
// that the provider shows now.
type History struct {
	// PaidFor and Behind are the results of Fleet.PaidFor.
	PaidFor bool
	Behind  *fact.Renewal
	// InVain says that an expired proxy was paid for so recently that it should still be
	// alive. Paying again may be wasted too. An operator's answer to the review clears
	// InVain until the next renewal.
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
	// AskedOf is the expiry that an open review is about; zero if there is none.
	AskedOf time.Time
}

// renewedAt is the SQL condition that a renewal of proxy d.id for its shown expiry d.shown
// succeeded. lastRenewal selects the operation of the proxy's latest successful renewal.
const (
	renewedAt = `EXISTS (SELECT 1 FROM lines WHERE proxy_id = d.id AND abs(observed_expires_at - d.shown)` + IsNoMove + `AND state IN ('succeeded', 'charged'))`

	lastRenewal = `(SELECT operation FROM lines WHERE proxy_id = d.id AND (state = 'succeeded' OR state = 'charged') AND settled_at IS NOT NULL
		ORDER BY settled_at DESC LIMIT 1)`
)

// lookedAt turns a JSON array of [ID, expiry] pairs into rows.
const lookedAt = `(SELECT key AS n, value ->> 0 AS id, value ->> 1 AS shown FROM json_each(?1)) d`

// Histories returns the histories of proxies at the instant now, in the order of proxies,
// all of which must expire. Failures with an excused code do not count against a proxy. One
// call for many proxies takes a fifth of the time of single calls.
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
	var counted, pardoned, short, asked sql.NullInt64
	if err := s.Scan(&n, &e.All, &e.Counted, &counted, &pardoned, &short, &asked); err != nil {
		return err
	}
	for to, us := range map[*time.Time]sql.NullInt64{&e.LastCounted: counted, &e.LastExcused: pardoned, &e.AskedOf: asked} {
		if at := sqlite.Instant(us); at != nil {
			*to = *at
		}
	}
	e.ShortOfMoney = short.Valid && short == pardoned
	all[n].Failed = e
	return nil
}
