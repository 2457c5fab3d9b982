// What a plan must know of the earlier renewals of the proxies that it looks at.

package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// History is what earlier renewals of a proxy say about the next one, at the expiry that the
// proxy shows.
type History struct {
	// PaidFor and Behind are those of Fleet.PaidFor.
	PaidFor bool
	Behind  *fact.Renewal
	// InVain says that an expired proxy was paid for so recently that it would still live if
	// the days counted from the payment. Paying again may be in vain too. An operator's answer
	// to its review clears this until the next renewal.
	InVain bool
	Failed FailedRenewals
	Paid   Paid // its own last price
}

// FailedRenewals are renewals of a proxy that ended at one expiry without extending it.
type FailedRenewals struct {
	All int
	// Counted are those that tell something about the proxy, since the operator's last
	// answer. LastCounted is when the last such renewal ended, answered or not.
	Counted     int
	LastCounted time.Time
	// LastExcused is when the last renewal ended that tells nothing about the proxy.
	LastExcused time.Time
	// ShortOfMoney says that the wallet could not pay for the renewal of LastExcused.
	ShortOfMoney bool
	// AskedOf is the expiry of a review that is not answered.
	AskedOf time.Time
}

// Of proxy d.id that shows the expiry d.shown: whether a renewal for it succeeded, and the
// operation of the latest renewal that did.
const (
	renewedAt = `EXISTS (SELECT 1 FROM lines WHERE proxy_id = d.id AND abs(observed_expires_at - d.shown)` + IsNoMove + `AND state IN ('succeeded', 'charged'))`

	lastRenewal = `(SELECT operation FROM lines WHERE proxy_id = d.id AND (state = 'succeeded' OR state = 'charged') AND settled_at IS NOT NULL
		ORDER BY settled_at DESC LIMIT 1)`
)

// lookedAt are the proxies of a query, from a JSON array of pairs.
const lookedAt = `(SELECT key AS n, value ->> 0 AS id, value ->> 1 AS shown FROM json_each(?1)) d`

// Histories returns the histories of proxies, in their order, at the instant now. Renewals
// that ended with an excused code tell nothing about the proxy. One call for many proxies
// takes a fifth of the time of one for each.
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

// endings counts the renewals that ended at the shown expiry without extending it. ?2 are the
// excused codes.
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
