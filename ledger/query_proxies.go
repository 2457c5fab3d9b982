// What was last seen of each proxy: a cache, and no fact.

package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

// Proxy is what the provider last said of one proxy. It holds no credentials.
type Proxy struct {
	ProxyID     string     `json:"proxy_id"`
	Status      string     `json:"status"`
	IPType      string     `json:"ip_type"`
	Protocol    string     `json:"protocol"`
	CountryCode string     `json:"country_code"`
	Region      string     `json:"region"`
	LineName    string     `json:"line_name"`
	StartsAt    *time.Time `json:"starts_at,omitempty"`  // when its time began
	ExpiresAt   *time.Time `json:"expires_at,omitempty"` // nil: never due
	SeenAt      time.Time  `json:"seen_at"`
	// Retired: no sweep renews it. Labels are those of the order that bought it.
	// Both come from the journal; what is observed does not set them.
	Retired bool              `json:"retired,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// Unread reports whether what is stored of the proxy became out of date with its last
// renewal: its expiry is that of before.
func (p Proxy) Unread() bool { return p.SeenAt.UnixMicro() <= 0 }

// Observe stores what a read of the provider showed. It is a cache and no fact:
// nothing is appended to the journal. Pass numbers the listing pass that saw
// the proxies, 0 for a single read.
func (t *Tx) Observe(pass int64, proxies ...Proxy) error {
	for _, p := range proxies {
		err := t.exec(`INSERT INTO proxies (proxy_id, status, ip_type, protocol, country_code, region, line_name, starts_at, expires_at, seen_at, pass)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (proxy_id) DO UPDATE SET status = excluded.status, ip_type = excluded.ip_type, protocol = excluded.protocol,
			country_code = excluded.country_code, region = excluded.region, line_name = excluded.line_name, starts_at = excluded.starts_at,
			expires_at = excluded.expires_at, seen_at = excluded.seen_at, pass = max(pass, excluded.pass), gone = 0`,
			p.ProxyID, p.Status, p.IPType, p.Protocol, p.CountryCode, p.Region, p.LineName,
			nullInstant(p.StartsAt), nullInstant(p.ExpiresAt), micros(p.SeenAt), pass)
		if err != nil {
			return err
		}
	}
	return nil
}

// FinishPass marks as gone what a complete listing pass did not show and what
// was not seen since the pass began. Only a complete pass proves an absence.
func (t *Tx) FinishPass(pass int64, began time.Time) error {
	return t.exec(`UPDATE proxies SET gone = 1 WHERE gone = 0 AND pass < ? AND seen_at < ?`, pass, micros(began))
}

// Stale marks what is stored of the proxy as out of date, as after a renewal: it must be
// read again before it is paid for.
func (t *Tx) Stale(proxyID string) error {
	return t.exec(`UPDATE proxies SET last_seen_at = max(last_seen_at, seen_at), seen_at = 0 WHERE proxy_id = ?`, proxyID)
}

const proxyColumns = `proxy_id, status, ip_type, protocol, country_code, region, line_name, starts_at, expires_at, seen_at,
	EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = proxies.proxy_id),
	CASE WHEN EXISTS (SELECT 1 FROM proxy_labels b WHERE b.proxy_id = proxies.proxy_id)
	THEN (SELECT json_group_object(name, value) FROM proxy_labels b WHERE b.proxy_id = proxies.proxy_id) ELSE '' END`

func scanProxy(s scanner) (Proxy, error) {
	var p Proxy
	var starts, expires sql.NullInt64
	var seen, retired int64
	var labels string
	err := s.Scan(&p.ProxyID, &p.Status, &p.IPType, &p.Protocol, &p.CountryCode, &p.Region, &p.LineName, &starts, &expires, &seen, &retired, &labels)
	p.StartsAt, p.ExpiresAt, p.SeenAt, p.Retired = instant(starts), instant(expires), fromMicros(seen), retired == 1
	if err == nil && labels != "" {
		err = json.Unmarshal([]byte(labels), &p.Labels)
	}
	return p, err
}

// Proxy reads what was last seen of a proxy; ErrNotFound when it never was.
func (l *Ledger) Proxy(ctx context.Context, id string) (Proxy, error) {
	return one(scanProxy, l.read.QueryRowContext(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE proxy_id = ?`, id))
}

// Proxies lists at most limit proxies that are not gone, behind one of them in the order of
// their ids; after "" from the first one on.
func (l *Ledger) Proxies(ctx context.Context, after string, limit int) ([]Proxy, error) {
	return collect(l.query(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE proxy_id > ? AND gone = 0 ORDER BY proxy_id LIMIT ?`, after, limit), scanProxy)
}

// Expiring calls yield for every proxy that is not gone and whose expiry is not
// after the instant, the nearest first. A null expiry is never due.
func (l *Ledger) Expiring(ctx context.Context, until time.Time, yield func(Proxy) error) error {
	return each(l.query(ctx, `SELECT `+proxyColumns+` FROM proxies
		WHERE expires_at IS NOT NULL AND gone = 0 AND expires_at <= ? ORDER BY expires_at, proxy_id`, micros(until)), func(s scanner) error {
		p, err := scanProxy(s)
		if err != nil {
			return err
		}
		return yield(p)
	})
}
