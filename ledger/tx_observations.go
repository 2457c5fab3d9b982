// The caches of what the provider shows.

package ledger

import (
	"errors"
	"time"

	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// KeepListing stores the progress of the listing, so that a restarted runner continues
// there.
func (t observations) KeepListing(x tables.Listing) error {
	var finished int64
	if !x.Finished.IsZero() {
		finished = sqlite.Micros(x.Finished)
	}
	return t.w.exec(`INSERT INTO listing (one, pass, began_at, page_size, page_token, finished_at, took, nameless, known, lost) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (one) DO UPDATE SET pass = excluded.pass, began_at = excluded.began_at, page_size = excluded.page_size,
		page_token = excluded.page_token, finished_at = excluded.finished_at, took = excluded.took,
		nameless = excluded.nameless, known = excluded.known, lost = excluded.lost`,
		x.Pass, sqlite.Micros(x.Began), x.Size, x.Token, finished, int64(x.Took/time.Microsecond), x.Nameless, x.Known, x.Lost)
}

// ForgetSeen marks every proxy for reading and listing again, because another runner has
// changed proxies that this one saw.
func (t observations) ForgetSeen() error {
	return errors.Join(t.StaleAll(), t.w.exec(`UPDATE listing SET finished_at = 0, page_size = 0, page_token = ''`))
}

// ForgetMoved treats all changed expiries so far as explained, because an operator has
// recorded spending outside Perennial. A change that a pending renewal may explain stays,
// because it was not shown to the operator.
func (t observations) ForgetMoved() error {
	return t.w.exec(`DELETE FROM moves WHERE NOT EXISTS (
		SELECT 1 FROM explained_moves e WHERE e.proxy_id = moves.proxy_id AND e.seen_at = moves.seen_at AND e.settled = 0)`)
}

// SeenExpiry is Fleet.SeenExpiry within the transaction.
func (t observations) SeenExpiry(proxyID string) (expires *time.Time, known bool, err error) {
	if err := t.w.writeLinesOf(proxyID); err != nil {
		return nil, false, err
	}
	return tables.ScanExpiry(t.w.QueryRow(tables.SeenExpiry, proxyID))
}

// Observe stores what a read of the provider showed. This is a cache: the journal is
// unchanged. pass is the number of the listing pass that saw the proxies. It is 0 for a
// single read, which shows that a proxy exists but not that it is listed.
func (t observations) Observe(pass int64, proxies ...tables.Proxy) error {
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

// ObserveUnreadable stores that a listing pass showed a proxy whose entry could not be
// read, and why. The proxy counts as listed, and its earlier data stays.
func (t observations) ObserveUnreadable(pass int64, id, why string) error {
	return t.execFleet(`INSERT INTO proxies (proxy_id, status, ip_type, protocol, country_code, region, line_name, seen_at, pass, unreadable)
		VALUES (?, '', '', '', '', '', '', 0, ?, ?)
		ON CONFLICT (proxy_id) DO UPDATE SET pass = max(pass, excluded.pass), gone = 0, unlisted_at = NULL, unreadable = excluded.unreadable`, id, pass, why)
}

// FinishPass marks each proxy that a complete pass did not show: as gone if it has expired,
// otherwise as unlisted. Absence proves nothing else about a proxy (trap 66).
func (t observations) FinishPass(pass int64, began time.Time) error {
	return errors.Join(
		t.execFleet(`UPDATE proxies SET gone = 1 WHERE `+notShown+` AND seen_at > 0
			AND proxy_id IN (SELECT proxy_id `+tables.AsShown+` AND lasts_until <= ?3 UNION ALL SELECT proxy_id `+tables.AlreadyRenewed+` AND expires_at <= ?3)`, pass, sqlite.Micros(began), t.now),
		t.execFleet(`UPDATE proxies SET unlisted_at = ?3 WHERE `+notShown+` AND unlisted_at IS NULL`, pass, sqlite.Micros(began), t.now))
}

// FinishCopy marks as gone the proxies that another runner's table does not contain.
func (t observations) FinishCopy(pass int64, began time.Time) error {
	return t.execFleet(`UPDATE proxies SET gone = 1 WHERE `+notShown, pass, sqlite.Micros(began))
}

// CountLost returns how many living proxies are known, and how many of them a complete pass
// did not show or showed unreadably.
func (t observations) CountLost(pass int64, began time.Time) (known, lost int, err error) {
	err = t.w.QueryRow(`SELECT count(*), count(*) FILTER (WHERE unreadable <> '' OR `+notShown+`) FROM proxies
		WHERE gone = 0 AND (expires_at IS NULL OR expires_at > ?3) AND NOT EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = proxies.proxy_id)`,
		pass, sqlite.Micros(began), t.now+int64(lostGrace/time.Microsecond)).Scan(&known, &lost)
	return known, lost, err
}

// Stale marks the data of a proxy as out of date, for example after a renewal: the proxy
// must be read again before it is paid for. If exactly one renewal paid for the expiry that
// was read, and the proxy was alive then, Stale also stores the expected new expiry. It
// expects none for an expired proxy, because the API does not say what a renewal does to it.
func (t observations) Stale(proxyID string) error {
	if err := t.w.writeLinesOf(proxyID); err != nil {
		return err
	}
	return t.execFleet(stale, proxyID)
}

// Most reads show what is stored already. SQLite rewrites an index entry whenever a
// statement assigns its column, even if the value is unchanged. seeSame assigns no such
// column, so that listing an unchanged fleet takes a quarter of the time. It changes no row
// if a value differs; then seeOther must follow.
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

// notShown selects the proxies that a complete listing pass did not show, except those first
// seen after the pass started. Reading an unlisted proxy does not list it.
const notShown = `gone = 0 AND pass < ?1 AND (seen_at < ?2 OR unlisted_at IS NOT NULL)`

// lostGrace is how long before its expiry a missing proxy stops counting as lost. The
// provider's clock may be ahead.
const lostGrace = 10 * time.Minute

const stale = `UPDATE proxies SET last_seen_at = max(last_seen_at, seen_at), seen_at = 0, expected_at = (
		SELECT CASE WHEN count(*) = 1 AND min(l.observed_expires_at) > min(l.settled_at) THEN proxies.expires_at + min(l.duration_days) * 86400000000 END
		FROM lines l WHERE l.proxy_id = proxies.proxy_id AND l.state IN ('succeeded', 'charged') AND abs(l.observed_expires_at - proxies.expires_at)` + tables.IsNoMove + `)
	WHERE proxy_id = ?`
