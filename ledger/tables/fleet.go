// Queries over all proxies: which stay, which are retired, and which expire without having
// been announced.

package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// Retired reports whether an operator or a replacement excluded the proxy from all
// schedules.
func (l *Fleet) Retired(ctx context.Context, proxyID string) (bool, error) {
	return sqlite.Found(l.read.QueryRowContext(ctx, `SELECT count(*) FROM retired WHERE proxy_id = ?`, proxyID))
}

// NeverListed returns, ordered by ID and up to limit, those of the given proxy IDs that no
// listing or read has shown.
func (l *Fleet) NeverListed(ctx context.Context, ids []string, limit int) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	return sqlite.Collect(l.query(ctx, `SELECT DISTINCT e.value FROM json_each(?) e
		WHERE NOT EXISTS (SELECT 1 FROM proxies p WHERE p.proxy_id = e.value) ORDER BY 1 LIMIT +?`, string(list), limit), sqlite.Text)
}

const staying = `FROM proxies WHERE gone = 0 AND unlisted_at IS NULL AND (expires_at IS NULL AND unreadable = '' OR expires_at > ?)
	AND NOT EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = proxies.proxy_id)`

// Staying calls yield, in no particular order, for every listed proxy that expires after an
// instant or never expires. It leaves out retired proxies and those without a readable
// expiry.
func (l *Fleet) Staying(ctx context.Context, after time.Time, yield func(Proxy) error) error {
	return sqlite.Each(l.query(ctx, `SELECT `+proxyColumns+` `+staying, sqlite.Micros(after)), func(s sqlite.Scanner) error {
		p, err := scanProxy(s)
		if err != nil {
			return err
		}
		return yield(p)
	})
}

// KindColumns are the columns that CountStaying can count by.
var KindColumns = []string{"country_code", "region", "line_name", "ip_type", "protocol", "status"}

// CountStaying is Staying for callers that only need counts; with a million proxies it takes
// a fraction of the time. It calls yield with the number of proxies for each combination of
// the given columns (see KindColumns). The other fields of like are empty.
func (l *Fleet) CountStaying(ctx context.Context, after time.Time, columns []string, yield func(like Proxy, n int) error) error {
	var chosen, groups []string
	for _, c := range KindColumns {
		if slices.Contains(columns, c) {
			chosen, groups = append(chosen, c), append(groups, c)
		} else {
			chosen = append(chosen, `''`)
		}
	}
	query := `SELECT ` + strings.Join(chosen, `, `) + `, count(*) ` + staying
	if len(groups) > 0 {
		query += ` GROUP BY ` + strings.Join(groups, `, `)
	}
	return sqlite.Each(l.query(ctx, query, sqlite.Micros(after)), func(s sqlite.Scanner) error {
		var p Proxy
		var n int
		if err := s.Scan(&p.CountryCode, &p.Region, &p.LineName, &p.IPType, &p.Protocol, &p.Status, &n); err != nil {
			return err
		}
		return yield(p, n)
	})
}

// LastUncovered returns the latest listing.uncovered fact and its time, or zero values.
func (l *Fleet) LastUncovered(ctx context.Context) (f fact.ListingUncovered, at time.Time, err error) {
	var us int64
	var data string
	err = l.read.QueryRowContext(ctx, `SELECT time, data FROM journal INDEXED BY journal_uncovered WHERE type = 'listing.uncovered' AND seq > 0 ORDER BY seq DESC LIMIT 1`).Scan(&us, &data)
	if errors.Is(err, sql.ErrNoRows) {
		return f, at, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(data), &f)
	}
	return f, sqlite.FromMicros(us), err
}

// Unwarned lists up to limit proxies that expire after one instant and no later than
// another, nearest expiry first. It leaves out proxies that were announced at this threshold
// or a nearer one. It also leaves out retired proxies, and renewed proxies that have not
// been read since.
func (l *Fleet) Unwarned(ctx context.Context, after, until time.Time, threshold time.Duration, limit int) ([]Proxy, error) {
	const untold = `AND seen_at > 0
		AND NOT EXISTS (SELECT 1 FROM warned w WHERE w.proxy_id = proxies.proxy_id AND abs(w.expires_at - proxies.expires_at)` + IsNoMove + `AND w.threshold_seconds <= ?3)
		AND NOT EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = proxies.proxy_id)`
	return sqlite.Collect(l.query(ctx, `SELECT `+shownColumns+` `+AsShown+` AND lasts_until > ?1 AND lasts_until <= ?2 `+untold+`
		UNION ALL SELECT `+proxyColumns+` `+AlreadyRenewed+` AND expires_at > ?1 AND expires_at <= ?2 `+untold+byShownExpiry+` LIMIT +?4`,
		sqlite.Micros(after), sqlite.Micros(until), int64(threshold/time.Second), limit), scanProxy)
}

// UnreportedExpired lists up to limit proxies that expired between two instants and have no
// proxy.expired fact for that expiry, earliest first. The provider may no longer list these
// proxies.
func (l *Fleet) UnreportedExpired(ctx context.Context, after, until time.Time, limit int) ([]Proxy, error) {
	const untold = `seen_at > 0 AND NOT EXISTS (SELECT 1 FROM warned w WHERE w.proxy_id = proxies.proxy_id
		AND abs(w.expires_at - proxies.expires_at)` + IsNoMove + `AND w.threshold_seconds = 0)`
	return sqlite.Collect(l.query(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE proxy_id IN (
			SELECT proxy_id `+AsShown+` AND lasts_until > ?1 AND lasts_until <= ?2 AND `+untold+`
			UNION ALL
			SELECT proxy_id `+AlreadyRenewed+` AND expires_at > ?1 AND expires_at <= ?2 AND `+untold+`
			UNION ALL
			SELECT proxy_id FROM proxies WHERE expires_at IS NOT NULL AND gone = 1 AND expires_at > ?1 AND expires_at <= ?2 AND `+untold+`)
		ORDER BY expires_at, proxy_id LIMIT +?3`, sqlite.Micros(after), sqlite.Micros(until), limit), scanProxy)
}
