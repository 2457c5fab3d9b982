// The last seen state of each proxy: a cache, not facts.

package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// Proxy is what the provider last showed of one proxy. It holds no credentials.
type Proxy struct {
	ProxyID     string     `json:"proxy_id" doc:"The provider's id of the proxy."`
	Status      string     `json:"status" doc:"The status, in the provider's words."`
	IPType      string     `json:"ip_type" doc:"The IP type, such as residential or data centre, in the provider's words."`
	Protocol    string     `json:"protocol" doc:"The protocol, in the provider's words."`
	CountryCode string     `json:"country_code" doc:"The country of the address, as the provider says."`
	Region      string     `json:"region" doc:"The region of the address, as the provider says."`
	LineName    string     `json:"line_name" doc:"The product line, in the provider's words."`
	StartsAt    *time.Time `json:"starts_at,omitempty" doc:"When the proxy's time began."`
	ExpiresAt   *time.Time `json:"expires_at,omitempty" doc:"When the proxy expires; null if it is never due."`
	SeenAt      time.Time  `json:"seen_at"`
	UnlistedAt  *time.Time `json:"unlisted_at,omitempty" doc:"'unlisted_at' is since when complete listings lack the proxy; null if the last listing had it."`
	Unreadable  string     `json:"unreadable,omitempty" doc:"'unreadable' says why the proxy's entry in the last listing could not be read, \"\" if it could."`
	// ExpectedExpiresAt is the old expiry plus the days that a renewal bought.
	ExpectedExpiresAt *time.Time        `json:"expected_expires_at,omitempty" doc:"The expiry according to a renewal that was paid since 'expires_at' was read; omitted once the provider shows the new expiry."`
	Retired           bool              `json:"retired,omitempty" doc:"'retired' says that no schedule renews the proxy. 'labels' are those of the order that bought it. Both come from the journal, not from a listing."`
	Labels            map[string]string `json:"labels,omitempty" doc:"The labels of the command, as given by its producer."`
}

// Remarks returns what an operator should know besides the status: retired, no longer
// listed, or unreadable; "" if nothing.
func (p Proxy) Remarks() string {
	var all []string
	if p.Retired {
		all = append(all, "retired")
	}
	if p.UnlistedAt != nil {
		all = append(all, "not listed since "+p.UnlistedAt.UTC().Format("2006-01-02 15:04"))
	}
	if p.Unreadable != "" {
		all = append(all, "unreadable: "+p.Unreadable)
	}
	return strings.Join(all, ", ")
}

// Unread reports whether the stored proxy became stale with its last renewal, so that its
// expiry is the earlier one.
func (p Proxy) Unread() bool { return p.SeenAt.UnixMicro() <= 0 }

// LastsUntil returns the expiry: after a renewal the expected one, until a read confirms
// it.
func (p Proxy) LastsUntil() *time.Time {
	if p.ExpectedExpiresAt != nil {
		return p.ExpectedExpiresAt
	}
	return p.ExpiresAt
}

// Observe stores what a read of the provider showed. It is a cache, not a fact: the journal
// is unchanged. pass numbers the listing pass that saw the proxies. It is 0 for a single
// read, which shows that a proxy exists but not that it is listed.
func (t observations) Observe(pass int64, proxies ...Proxy) error {
	for _, p := range proxies {
		values := []any{
			p.ProxyID, p.Status, p.IPType, p.Protocol, p.CountryCode, p.Region, p.LineName,
			sqlite.NullInstant(p.StartsAt), sqlite.NullInstant(p.ExpiresAt), sqlite.Micros(p.SeenAt), pass, sqlite.NullInstant(p.UnlistedAt), p.Unreadable, sqlite.NullInstant(p.ExpectedExpiresAt),
		}
		same, err := t.w.changed(seeSame, values)
		if err == nil && same == 0 {
			err = t.execFleet(seeOther, values...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Most reads show what is stored. SQLite writes an entry of an index again if the statement
// names its column, whatever the value. seeSame names none: a listing of the same fleet takes a
// quarter of the time. It changes no row where seeOther must follow.
const (
	seeSame = `UPDATE proxies SET seen_at = ?10, pass = max(pass, ?11) WHERE proxy_id = ?1 AND status = ?2 AND ip_type = ?3 AND protocol = ?4
		AND country_code = ?5 AND region = ?6 AND line_name = ?7 AND starts_at IS ?8 AND expires_at IS ?9 AND (seen_at > 0) = (?10 > 0) AND gone = 0
		AND (?11 <= 0 OR unlisted_at IS ?12) AND unreadable = ?13 AND expected_at IS ?14`
	seeOther = `INSERT INTO proxies (proxy_id, status, ip_type, protocol, country_code, region, line_name, starts_at, expires_at, seen_at, pass,
		unlisted_at, unreadable, expected_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (proxy_id) DO UPDATE SET status = excluded.status, ip_type = excluded.ip_type, protocol = excluded.protocol,
		country_code = excluded.country_code, region = excluded.region, line_name = excluded.line_name, starts_at = excluded.starts_at,
		expires_at = excluded.expires_at, seen_at = excluded.seen_at, pass = max(pass, excluded.pass), gone = 0,
		unlisted_at = CASE WHEN excluded.pass > 0 THEN excluded.unlisted_at ELSE unlisted_at END, unreadable = excluded.unreadable,
		expected_at = excluded.expected_at`
)

// ObserveUnreadable stores that a pass showed a proxy whose entry could not be read, and
// why. The proxy is listed, and its earlier data stays.
func (t observations) ObserveUnreadable(pass int64, id, why string) error {
	return t.execFleet(`INSERT INTO proxies (proxy_id, status, ip_type, protocol, country_code, region, line_name, seen_at, pass, unreadable)
		VALUES (?, '', '', '', '', '', '', 0, ?, ?)
		ON CONFLICT (proxy_id) DO UPDATE SET pass = max(pass, excluded.pass), gone = 0, unlisted_at = NULL, unreadable = excluded.unreadable`, id, pass, why)
}

// notShown is the condition of proxies that a complete listing pass did not show, except
// those first seen since it began. Reading an unlisted proxy does not list it.
const notShown = `gone = 0 AND pass < ?1 AND (seen_at < ?2 OR unlisted_at IS NOT NULL)`

// FinishPass marks as unlisted each proxy that a complete pass did not show, or as gone if
// it has expired. Absence proves nothing else about a proxy (trap 66).
func (t observations) FinishPass(pass int64, began time.Time) error {
	return errors.Join(
		t.execFleet(`UPDATE proxies SET gone = 1 WHERE `+notShown+` AND seen_at > 0
			AND proxy_id IN (SELECT proxy_id `+asShown+` AND lasts_until <= ?3 UNION ALL SELECT proxy_id `+alreadyRenewed+` AND expires_at <= ?3)`, pass, sqlite.Micros(began), t.now),
		t.execFleet(`UPDATE proxies SET unlisted_at = ?3 WHERE `+notShown+` AND unlisted_at IS NULL`, pass, sqlite.Micros(began), t.now))
}

// FinishCopy marks as gone the proxies that another runner's table lacks.
func (t observations) FinishCopy(pass int64, began time.Time) error {
	return t.execFleet(`UPDATE proxies SET gone = 1 WHERE `+notShown, pass, sqlite.Micros(began))
}

// lostGrace is how long before its expiry a proxy that is not shown stops counting as lost:
// the provider's clock may be ahead.
const lostGrace = 10 * time.Minute

// CountLost counts the living proxies, and those of them that a complete pass did not show
// readably.
func (t observations) CountLost(pass int64, began time.Time) (known, lost int, err error) {
	err = t.w.queryRow(`SELECT count(*), count(*) FILTER (WHERE unreadable <> '' OR `+notShown+`) FROM proxies
		WHERE gone = 0 AND (expires_at IS NULL OR expires_at > ?3) AND NOT EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = proxies.proxy_id)`,
		pass, sqlite.Micros(began), t.now+int64(lostGrace/time.Microsecond)).Scan(&known, &lost)
	return known, lost, err
}

// Gone marks a proxy as gone: reading it showed that the provider does not know it. For a
// proxy that had not expired it also appends a fact, because no proxy.expired follows.
func (t *Tx) Gone(proxyID string) error {
	var expires sql.NullInt64
	err := t.w.queryRow(`SELECT expires_at FROM proxies WHERE proxy_id = ? AND gone = 0`, proxyID).Scan(&expires)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := t.execFleet(`UPDATE proxies SET gone = 1 WHERE proxy_id = ?`, proxyID); err != nil {
		return err
	}
	if expires.Valid && expires.Int64 <= t.now {
		return nil
	}
	return t.Append(fact.ProxyGone{ProxyID: proxyID, ExpiresAt: sqlite.Instant(expires)})
}

// Unlisted lists up to limit proxies that complete listings do not show, the longest unread
// first.
func (l *Fleet) Unlisted(ctx context.Context, limit int) ([]Proxy, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE gone = 0 AND unlisted_at IS NOT NULL ORDER BY seen_at, proxy_id LIMIT +?`, limit), scanProxy)
}

// CountUnlisted counts the proxies that complete listings do not show, and those whose
// entries could not be read.
func (l *Fleet) CountUnlisted(ctx context.Context) (unlisted, unreadable int, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM proxies WHERE gone = 0 AND unlisted_at IS NOT NULL),
		(SELECT count(*) FROM proxies WHERE gone = 0 AND unreadable <> '')`).Scan(&unlisted, &unreadable)
	return unlisted, unreadable, err
}

// UnreadableProxies lists up to limit proxies whose entries in the last listing could not
// be read.
func (l *Fleet) UnreadableProxies(ctx context.Context, limit int) ([]Proxy, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE gone = 0 AND unreadable <> '' ORDER BY proxy_id LIMIT +?`, limit), scanProxy)
}

// Stale marks the stored proxy as out of date, for example after a renewal: it must be read
// again before it is paid for. If exactly one renewal paid for the expiry that was read,
// and the proxy was alive then, the new expiry is expected. The API does not say what a
// renewal does to an expired proxy.
func (t observations) Stale(proxyID string) error {
	if err := t.w.writeLinesOf(proxyID); err != nil {
		return err
	}
	return t.execFleet(stale, proxyID)
}

const stale = `UPDATE proxies SET last_seen_at = max(last_seen_at, seen_at), seen_at = 0, expected_at = (
		SELECT CASE WHEN count(*) = 1 AND min(l.observed_expires_at) > min(l.settled_at) THEN proxies.expires_at + min(l.duration_days) * 86400000000 END
		FROM lines l WHERE l.proxy_id = proxies.proxy_id AND l.state IN ('succeeded', 'charged') AND abs(l.observed_expires_at - proxies.expires_at)` + isNoMove + `)
	WHERE proxy_id = ?`

const (
	proxyColumns  = columnsBefore + `expires_at` + columnsAfter
	columnsBefore = `proxy_id, status, ip_type, protocol, country_code, region, line_name, starts_at, `
	columnsAfter  = `, seen_at,
	EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = proxies.proxy_id),
	CASE WHEN EXISTS (SELECT 1 FROM proxy_labels b WHERE b.proxy_id = proxies.proxy_id)
	THEN (SELECT json_group_object(name, value) FROM proxy_labels b WHERE b.proxy_id = proxies.proxy_id) ELSE '' END, unlisted_at, unreadable, expected_at`
)

// Where no later expiry is expected, lasts_until is expires_at. So the index of lasts_until also
// gives the order of expires_at, merged with a small index of the others. A query of both parts
// ends in byShownExpiry.
const (
	shownColumns   = columnsBefore + `lasts_until` + columnsAfter
	asShown        = `FROM proxies WHERE expires_at IS NOT NULL AND gone = 0 AND expected_at IS NULL`
	alreadyRenewed = `FROM proxies WHERE expected_at IS NOT NULL AND gone = 0`
	byShownExpiry  = ` ORDER BY 9, 1`
)

func scanProxy(s sqlite.Scanner) (Proxy, error) {
	var p Proxy
	var starts, expires, unlisted, expected sql.NullInt64
	var seen, retired int64
	var labels string
	err := s.Scan(&p.ProxyID, &p.Status, &p.IPType, &p.Protocol, &p.CountryCode, &p.Region, &p.LineName, &starts, &expires, &seen, &retired, &labels, &unlisted, &p.Unreadable, &expected)
	p.StartsAt, p.ExpiresAt, p.SeenAt, p.Retired = sqlite.Instant(starts), sqlite.Instant(expires), sqlite.FromMicros(seen), retired == 1
	p.UnlistedAt, p.ExpectedExpiresAt = sqlite.Instant(unlisted), sqlite.Instant(expected)
	if err == nil && labels != "" {
		err = json.Unmarshal([]byte(labels), &p.Labels)
	}
	return p, err
}

// Proxy reads the last seen state of a proxy; ErrNotFound if it was never seen.
func (l *Fleet) Proxy(ctx context.Context, id string) (Proxy, error) {
	return sqlite.One(scanProxy, l.read.QueryRowContext(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE proxy_id = ?`, id))
}

// Proxies lists up to limit proxies that are not gone, by id, after an id; "" begins with
// the first.
func (l *Fleet) Proxies(ctx context.Context, after string, limit int) ([]Proxy, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE proxy_id > ? AND gone = 0 ORDER BY proxy_id LIMIT +?`, after, limit), scanProxy)
}

// Expiring calls yield for every proxy that is not gone and expires at or before the
// instant, the nearest first. A null expiry is never due.
func (l *Fleet) Expiring(ctx context.Context, until time.Time, yield func(Proxy) error) error {
	return sqlite.Each(l.query(ctx, `SELECT `+shownColumns+` `+asShown+` AND lasts_until <= ?1
		UNION ALL SELECT `+proxyColumns+` `+alreadyRenewed+` AND expires_at <= ?1`+byShownExpiry, sqlite.Micros(until)), func(s sqlite.Scanner) error {
		p, err := scanProxy(s)
		if err != nil {
			return err
		}
		return yield(p)
	})
}
