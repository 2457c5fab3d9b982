// The last seen state of each proxy. It is a cache, not a record of facts.

package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"time"

	"perennial/ledger/sqlite"
)

// Proxy is what the provider last showed of a proxy. It contains no credentials.
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
// listed, or unreadable; "" if there is nothing.
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

// Unread reports whether the data is stale, for example because it predates the proxy's last
// renewal, so that the expiry is the old one.
func (p Proxy) Unread() bool { return p.SeenAt.UnixMicro() <= 0 }

// LastsUntil returns the expiry. After a renewal it is the expected expiry until a read
// confirms it.
func (p Proxy) LastsUntil() *time.Time {
	if p.ExpectedExpiresAt != nil {
		return p.ExpectedExpiresAt
	}
	return p.ExpiresAt
}

// Unlisted lists up to limit proxies that complete listings do not show, longest unread
// first.
func (l *Fleet) Unlisted(ctx context.Context, limit int) ([]Proxy, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE gone = 0 AND unlisted_at IS NOT NULL ORDER BY seen_at, proxy_id LIMIT +?`, limit), scanProxy)
}

// CountUnlisted counts the proxies that complete listings do not show, and the proxies
// whose entries could not be read.
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

const (
	proxyColumns  = columnsBefore + `expires_at` + columnsAfter
	columnsBefore = `proxy_id, status, ip_type, protocol, country_code, region, line_name, starts_at, `
	columnsAfter  = `, seen_at,
	EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = proxies.proxy_id),
	CASE WHEN EXISTS (SELECT 1 FROM proxy_labels b WHERE b.proxy_id = proxies.proxy_id)
	THEN (SELECT json_group_object(name, value) FROM proxy_labels b WHERE b.proxy_id = proxies.proxy_id) ELSE '' END, unlisted_at, unreadable, expected_at`
)

// lasts_until equals expires_at unless a later expiry is expected. The index on lasts_until
// therefore gives the order of expires_at for most proxies. A small index has the others.
// Queries that merge both parts end with byShownExpiry.
const (
	shownColumns   = columnsBefore + `lasts_until` + columnsAfter
	AsShown        = `FROM proxies WHERE expires_at IS NOT NULL AND gone = 0 AND expected_at IS NULL`
	AlreadyRenewed = `FROM proxies WHERE expected_at IS NOT NULL AND gone = 0`
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

// Proxy reads the last seen state of a proxy, or sqlite.ErrNone.
func (l *Fleet) Proxy(ctx context.Context, id string) (Proxy, error) {
	return sqlite.One(scanProxy, l.read.QueryRowContext(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE proxy_id = ?`, id))
}

// Proxies lists up to limit proxies that are not gone, ordered by ID, after the given ID;
// "" starts with the first.
func (l *Fleet) Proxies(ctx context.Context, after string, limit int) ([]Proxy, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE proxy_id > ? AND gone = 0 ORDER BY proxy_id LIMIT +?`, after, limit), scanProxy)
}

// Expiring calls yield for every proxy that is not gone and expires no later than an
// instant, nearest expiry first. Proxies that never expire are left out.
func (l *Fleet) Expiring(ctx context.Context, until time.Time, yield func(Proxy) error) error {
	return sqlite.Each(l.query(ctx, `SELECT `+shownColumns+` `+AsShown+` AND lasts_until <= ?1
		UNION ALL SELECT `+proxyColumns+` `+AlreadyRenewed+` AND expires_at <= ?1`+byShownExpiry, sqlite.Micros(until)), func(s sqlite.Scanner) error {
		p, err := scanProxy(s)
		if err != nil {
			return err
		}
		return yield(p)
	})
}
