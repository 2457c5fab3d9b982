// Proxies that were replaced by an order.

package tables

import (
	"context"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// Refused lists proxies that expire between two instants and that the provider does not
// renew, nearest expiry first. Either enough renewals failed, or the provider does not know
// the proxy. Retired proxies are left out, and so are reserved ones, including those whose
// renewal is in review.
func (l *Operations) Refused(ctx context.Context, from, until time.Time, failures int) ([]Proxy, error) {
	lines := `FROM lines x JOIN operations o ON o.id = x.operation WHERE x.proxy_id = proxies.proxy_id AND ` + atExpiry(`proxies.expires_at`)
	refused := `AND NOT EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = proxies.proxy_id)
		AND NOT EXISTS (SELECT 1 FROM lines c WHERE c.proxy_id = proxies.proxy_id AND c.claim = 1)
		AND ((SELECT count(*) ` + lines + ` AND x.state = 'failed') >= ?3
			OR EXISTS (SELECT 1 ` + lines + ` AND x.state = 'not_charged' AND o.code = 'proxy_not_found'
				AND (SELECT count(*) FROM lines z WHERE z.operation = o.id) = 1)
			OR (gone = 1 AND EXISTS (SELECT 1 ` + lines + ` AND x.state = 'skipped')))`
	return sqlite.Collect(l.query(ctx, `SELECT `+shownColumns+` `+AsShown+` AND lasts_until > ?1 AND lasts_until <= ?2 `+refused+`
		UNION ALL SELECT `+proxyColumns+` `+AlreadyRenewed+` AND expires_at > ?1 AND expires_at <= ?2 `+refused+`
		UNION ALL SELECT `+proxyColumns+` FROM proxies WHERE gone = 1 AND expires_at > ?1 AND expires_at <= ?2 `+refused+`
		`+byShownExpiry, sqlite.Micros(from), sqlite.Micros(until), failures), scanProxy)
}

// ReplacedSince counts the replacements of a schedule since an instant.
func (l *Operations) ReplacedSince(ctx context.Context, schedule string, since time.Time) (n int, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT count(*) FROM replacements WHERE schedule = ? AND replaced_at >= ?`, schedule, sqlite.Micros(since)).Scan(&n)
	return n, err
}

// UnsentReplacements lists the replacements of a schedule whose order has been neither
// accepted nor refused yet. The order may be missing from the commands stream.
func (l *Operations) UnsentReplacements(ctx context.Context, schedule string) ([]fact.ProxyReplaced, error) {
	return sqlite.Collect(l.query(ctx, `SELECT j.type, j.data FROM replacements x JOIN journal j ON j.seq = x.seq WHERE x.schedule = ?
		AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = x.command_id)
		AND NOT EXISTS (SELECT 1 FROM rejections r WHERE r.id = x.command_id) ORDER BY x.seq`, schedule), func(s sqlite.Scanner) (fact.ProxyReplaced, error) {
		var factType, data string
		if err := s.Scan(&factType, &data); err != nil {
			return fact.ProxyReplaced{}, err
		}
		decoded, err := fact.Decode(factType, []byte(data))
		if err != nil {
			return fact.ProxyReplaced{}, err
		}
		f, ok := decoded.(fact.ProxyReplaced)
		if !ok {
			return f, sqlite.ErrNone
		}
		return f, nil
	})
}
