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
	"perennial/ledger/failpoint"
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

// Unread reports whether the data is stale. For example, the data may predate the proxy's last
// renewal and still show the old expiry.
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
	err = l.row(ctx, `SELECT (SELECT count(*) FROM proxies WHERE gone = 0 AND unlisted_at IS NOT NULL),
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
// therefore gives the order of expires_at for most proxies. A small index covers the proxies for
// which a later expiry is expected. Queries that merge both parts end with byShownExpiry.
const (
	shownColumns   = columnsBefore + `lasts_until` + columnsAfter
	AsShown        = `FROM proxies WHERE expires_at IS NOT NULL AND gone = 0 AND expected_at IS NULL`
	AlreadyRenewed = `FROM proxies WHERE expected_at IS NOT NULL AND gone = 0`
	byShownExpiry  = ` ORDER BY 9, 1`
)

func scanProxy(s sqlite.Scanner) (Proxy, error) {
	var p Proxy
	var labels string
	err := s.Scan(&p.ProxyID, &p.Status, &p.IPType, &p.Protocol, &p.CountryCode, &p.Region, &p.LineName, sqlite.NullAt(&p.StartsAt), sqlite.NullAt(&p.ExpiresAt),
		sqlite.At(&p.SeenAt), &p.Retired, &labels, sqlite.NullAt(&p.UnlistedAt), &p.Unreadable, sqlite.NullAt(&p.ExpectedExpiresAt))
	if err == nil && labels != "" {
		err = json.Unmarshal([]byte(labels), &p.Labels)
	}
	return p, err
}

// Proxy returns the last seen state of a proxy. It returns sqlite.ErrNone for an unknown id.
func (l *Fleet) Proxy(ctx context.Context, id string) (Proxy, error) {
	return sqlite.One(scanProxy, l.row(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE proxy_id = ?`, id))
}

// Proxies lists up to limit proxies that are not gone, ordered by ID, after the given ID;
// "" starts with the first.
func (l *Fleet) Proxies(ctx context.Context, after string, limit int) ([]Proxy, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE proxy_id > ? AND gone = 0 ORDER BY proxy_id LIMIT +?`, after, limit), scanProxy)
}

// Expiring calls yield for every proxy that is not gone and expires no later than an
// instant, nearest expiry first. Proxies that never expire are left out.
func (l *Fleet) Expiring(ctx context.Context, until time.Time, yield func(Proxy) error) error {
	return sqlite.EachAs(l.query(ctx, `SELECT `+shownColumns+` `+AsShown+` AND lasts_until <= ?1
		UNION ALL SELECT `+proxyColumns+` `+AlreadyRenewed+` AND expires_at <= ?1`+byShownExpiry, sqlite.Micros(until)), scanProxy, yield)
}

// Retired reports whether an operator or a replacement excluded the proxy from all
// schedules.
func (l *Fleet) Retired(ctx context.Context, proxyID string) (bool, error) {
	return sqlite.Found(l.row(ctx, `SELECT count(*) FROM retired WHERE proxy_id = ?`, proxyID))
}

// NeverListed returns the given proxy IDs that no listing or read has shown. The result is
// sorted and has at most limit IDs.
func (l *Fleet) NeverListed(ctx context.Context, ids []string, limit int) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	return sqlite.Collect(l.query(ctx, `SELECT DISTINCT e.value FROM json_each(?) e
		WHERE NOT EXISTS (SELECT 1 FROM proxies p WHERE p.proxy_id = e.value) ORDER BY 1 LIMIT +?`, string(list), limit), sqlite.Value[string])
}

// WithoutExpiry calls yield, by id, for every listed proxy whose expiry is not known: the provider
// gives none, or its entry cannot be read. It leaves out retired proxies. No schedule renews them.
func (l *Fleet) WithoutExpiry(ctx context.Context, yield func(Proxy) error) error {
	return sqlite.EachAs(l.query(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE gone = 0 AND expires_at IS NULL AND unlisted_at IS NULL AND pass > 0
		AND NOT EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = proxies.proxy_id) ORDER BY proxy_id`), scanProxy, yield)
}

const staying = `FROM proxies WHERE gone = 0 AND unlisted_at IS NULL AND (expires_at IS NULL AND unreadable = '' OR expires_at > ?)
	AND NOT EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = proxies.proxy_id)`

// Staying calls yield, in no particular order, for every listed proxy that expires after an
// instant or never expires. It leaves out retired proxies and proxies without a readable expiry.
func (l *Fleet) Staying(ctx context.Context, after time.Time, yield func(Proxy) error) error {
	return sqlite.EachAs(l.query(ctx, `SELECT `+proxyColumns+` `+staying, sqlite.Micros(after)), scanProxy, yield)
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

// LastUncovered returns the latest listing.uncovered fact and its time. Both are zero if there is
// no such fact.
func (l *Fleet) LastUncovered(ctx context.Context) (f fact.ListingUncovered, at time.Time, err error) {
	var data []byte
	err = l.row(ctx, `SELECT time, data FROM journal INDEXED BY journal_uncovered WHERE type = 'listing.uncovered' AND seq > 0 ORDER BY seq DESC LIMIT 1`).Scan(sqlite.At(&at), &data)
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	return f, at, sqlite.Optional(err)
}

// Unwarned lists up to limit proxies that expire after one instant and no later than another,
// nearest expiry first. It leaves out proxies that were announced at this threshold or at a
// threshold nearer to the expiry. It also leaves out retired proxies, and renewed proxies that
// have not been read since.
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

// ExpiryPlace is a position in the order of expiry; equal expiries are ordered by proxy ID.
type ExpiryPlace struct {
	At      time.Time
	ProxyID string
}

// From returns the position just before the first proxy that expires at or after an instant.
func From(at time.Time) ExpiryPlace { return ExpiryPlace{At: at} }

// ByExpiry selects one page of proxies that are not gone, ordered by expiry and then by
// proxy ID.
const ByExpiry = `FROM proxies WHERE expires_at IS NOT NULL AND gone = 0 AND (lasts_until, proxy_id) > (?, ?) AND lasts_until < ? ORDER BY lasts_until, proxy_id LIMIT +?`

// ExpiringPage lists up to limit proxies that expire after a position and before an instant,
// nearest expiry first. It leaves out proxies that are gone. An expected expiry counts (see
// Proxy.LastsUntil).
func (l *Fleet) ExpiringPage(ctx context.Context, after ExpiryPlace, before time.Time, limit int) ([]Proxy, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+proxyColumns+` `+ByExpiry, sqlite.Micros(after.At), after.ProxyID, sqlite.Micros(before), limit), scanProxy)
}

// expiringStep is how many proxies EachExpiring reads with one query. A single query over
// all proxies would hold the write-ahead log open too long.
const expiringStep = 2000

// EachExpiring calls yield for every proxy that ExpiringPage would list between two
// instants. from is inclusive.
func (l *Fleet) EachExpiring(ctx context.Context, from, until time.Time, yield func(Proxy) error) error {
	for place := From(from); ; {
		page, err := l.ExpiringPage(ctx, place, until, expiringStep)
		if err != nil {
			return err
		}
		for _, p := range page {
			if err := yield(p); err != nil {
				return err
			}
			place = PlaceOf(p)
		}
		if len(page) < expiringStep {
			return nil
		}
	}
}

// PlaceOf returns the position of a proxy. It panics if the proxy never expires.
func PlaceOf(p Proxy) ExpiryPlace { return ExpiryPlace{At: *p.LastsUntil(), ProxyID: p.ProxyID} }

// PricedProxy is a proxy with the price last paid to renew it and the state of its open
// renewal.
type PricedProxy struct {
	Proxy

	Paid    Paid
	Renewal string // ProxyRenewing or ProxyInReview; "" if no renewal is open
	// Renewed is true if a renewal of the expiry that was last read succeeded, and the new expiry is
	// neither read nor expected.
	Renewed bool
}

// States of a proxy that the ledger knows.
const (
	ProxyRenewing = "renewing"
	ProxyInReview = "in review"
	ProxyRetired  = "retired"
)

const (
	ofLastPaid = `FROM lines x WHERE x.proxy_id = proxies.proxy_id AND ` + priced + ` ORDER BY x.settled_at DESC LIMIT 1`
	lastPaidOf = `(SELECT ` + priceOf + ` ` + ofLastPaid + `), (SELECT x.duration_days ` + ofLastPaid + `), (SELECT x.settled_at ` + ofLastPaid + `), ` + renewalOf + `, ` + renewedUnread
	renewalOf  = `ifnull((SELECT CASE WHEN x.state = 'unresolved' OR o.state = 'review' THEN 'in review' ELSE 'renewing' END
		FROM lines x CROSS JOIN operations o ON o.id = x.operation WHERE x.proxy_id = proxies.proxy_id AND x.claim = 1), '')`
	// A renewal that failed also leaves its proxy unread, without an expected expiry.
	renewedUnread = `seen_at <= 0 AND expected_at IS NULL AND EXISTS (SELECT 1 FROM lines x WHERE x.proxy_id = proxies.proxy_id
		AND x.state IN ('succeeded', 'charged') AND abs(x.observed_expires_at - proxies.expires_at)` + IsNoMove + `)`
)

func scanPriced(s sqlite.Scanner) (p PricedProxy, err error) {
	var cents, days, at sql.NullInt64
	p.Proxy, err = scanProxy(sqlite.With(s, &cents, &days, &at, &p.Renewal, &p.Renewed))
	if days.Valid {
		p.Paid = Paid{cents.Int64, days.Int64, sqlite.FromMicros(at.Int64)}
	}
	return p, err
}

// PricedPage is ExpiringPage with the price last paid for each proxy.
func (l *Fleet) PricedPage(ctx context.Context, after ExpiryPlace, before time.Time, limit int) ([]PricedProxy, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+proxyColumns+`, `+lastPaidOf+` `+ByExpiry, sqlite.Micros(after.At), after.ProxyID, sqlite.Micros(before), limit), scanPriced)
}

// ProxiesQuery selects proxies that expire. Until and Limit must be set. Other empty fields
// do not filter.
type ProxiesQuery struct {
	After       ExpiryPlace
	Until       time.Time // only proxies that expire before this instant
	ID          string    // part of the proxy ID, case-insensitive
	Country     string    // country code, case-insensitive
	Name, Value string    // a label's name and value
	State       string    // ProxyRenewing, ProxyInReview or ProxyRetired
	Limit       int
}

// ProxiesPage is one page of a list. Next is zero after the last page. A page with a Next
// may contain few proxies or none, because the query looks through a limited number.
type ProxiesPage struct {
	Proxies []PricedProxy
	Next    ExpiryPlace
}

// Queries of a page. ?1 and ?2 are the position before the page, and ?3 is the end of the
// list. In FindBound, ?4 is the number of proxies to skip. In FindPage, ?4 and ?5 are the
// last position that the page looks at.
const (
	FindBound = `SELECT lasts_until, proxy_id FROM proxies WHERE expires_at IS NOT NULL AND gone = 0 AND (lasts_until, proxy_id) > (?1, ?2) AND lasts_until < ?3
		ORDER BY lasts_until, proxy_id LIMIT 1 OFFSET ?4`
	FindPage = `SELECT ` + proxyColumns + `, ` + lastPaidOf + ` FROM proxies WHERE expires_at IS NOT NULL AND gone = 0
		AND (lasts_until, proxy_id) > (?1, ?2) AND lasts_until < ?3 AND (lasts_until, proxy_id) <= (?4, ?5)
		AND (?6 = '' OR instr(lower(proxy_id), lower(?6)) > 0) AND (?7 = '' OR country_code = ?7 COLLATE NOCASE)
		AND (?8 = '' OR EXISTS (SELECT 1 FROM proxy_labels b WHERE b.proxy_id = proxies.proxy_id AND b.name = ?8 AND b.value = ?9))
		AND CASE ?10 WHEN '' THEN 1 WHEN 'retired' THEN EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = proxies.proxy_id) ELSE ` + renewalOf + ` = ?10 END
		ORDER BY lasts_until, proxy_id LIMIT +?11`
)

// ProxiesPage lists the proxies that match a query, nearest expiry first. It looks through
// at most LookedMost proxies.
func (l *Fleet) ProxiesPage(ctx context.Context, q ProxiesQuery) (p ProxiesPage, err error) {
	after, until := sqlite.Micros(q.After.At), sqlite.Micros(q.Until)
	last, id, more := int64(1<<62), "", true
	switch err = l.row(ctx, FindBound, after, q.After.ProxyID, until, failpoint.Size(ctx, "list.looked", LookedMost)-1).Scan(&last, &id); {
	case errors.Is(err, sql.ErrNoRows):
		more = false
	case err != nil:
		return p, err
	}
	p.Proxies, err = sqlite.Collect(l.query(ctx, FindPage, after, q.After.ProxyID, until, last, id, q.ID, q.Country, q.Name, q.Value, q.State, q.Limit+1), scanPriced)
	switch {
	case len(p.Proxies) > q.Limit:
		p.Proxies = p.Proxies[:q.Limit]
		p.Next = PlaceOf(p.Proxies[q.Limit-1].Proxy)
	case more:
		p.Next = ExpiryPlace{sqlite.FromMicros(last), id}
	}
	return p, err
}

// ProxyRenewal is the result of one operation for one proxy. ChargedCents is before refunds.
type ProxyRenewal struct {
	OperationID       string         `json:"operation_id" doc:"The operation that renewed the proxy, or tried to."`
	CommandID         string         `json:"command_id" doc:"The command of the operation."`
	State             fact.LineState `json:"state" doc:"The result for this proxy."`
	Operation         fact.State     `json:"operation_state" doc:"The state of the operation."`
	Reason            string         `json:"reason,omitempty" doc:"The reason of the operation's state."`
	AcceptedAt        time.Time      `json:"accepted_at" doc:"When the operation was accepted."`
	SettledAt         *time.Time     `json:"settled_at,omitempty" doc:"When the renewal of this proxy ended; omitted before."`
	ObservedExpiresAt *time.Time     `json:"observed_expires_at,omitempty" doc:"The expiry that the renewal paid for, if known."`
	DurationDays      int64          `json:"duration_days" doc:"The number of days that the renewal adds."`
	ChargedCents      int64          `json:"charged_cents" doc:"The amount charged for this proxy."`
	RefundedCents     int64          `json:"refunded_cents" doc:"The amount refunded for this proxy."`
	Open              bool           `json:"open,omitempty" doc:"Whether the renewal is open; until it ends, no other renewal of the proxy begins."`
	InReview          bool           `json:"in_review,omitempty" doc:"Whether it is unknown if the proxy was charged."`
}

// ReasonText returns the reason. The provider gives none for a line that it reports as failed.
func (x ProxyRenewal) ReasonText() string {
	if x.Reason == "" && x.State == fact.LineFailed {
		return "the provider reports it as failed"
	}
	return x.Reason
}

// RenewalsOf lists up to limit renewals that included a proxy: the open one, then the
// others, newest first.
func (l *Fleet) RenewalsOf(ctx context.Context, proxyID string, limit int) ([]ProxyRenewal, error) {
	// If an operator corrected the answer, the correction's reason is shown.
	return sqlite.Collect(l.query(ctx, `SELECT x.operation, o.command_id, x.state, o.state,
		coalesce((SELECT 'its answer was corrected by ' || (j.data ->> '$.by') || ': ' || (j.data ->> '$.reason') FROM journal j
			WHERE j.operation = x.operation AND j.type = 'ledger.recorded' AND j.data ->> '$.corrects_seq' > 0
			AND coalesce(j.data ->> '$.proxy_id', x.proxy_id) = x.proxy_id ORDER BY j.seq DESC LIMIT 1), o.reason), o.accepted_at, x.settled_at, x.observed_expires_at, x.duration_days,
		x.charged_cents, x.refunded_cents, x.claim, x.claim = 1 AND (x.state = 'unresolved' OR o.state = 'review')
		FROM lines x CROSS JOIN operations o ON o.id = x.operation
		WHERE x.proxy_id = ? ORDER BY x.claim DESC, coalesce(x.settled_at, o.accepted_at) DESC, x.operation DESC LIMIT +?`, proxyID, limit), sqlite.Into(func(x *ProxyRenewal) []any {
		return []any{
			&x.OperationID, &x.CommandID, &x.State, &x.Operation, &x.Reason, sqlite.At(&x.AcceptedAt), sqlite.NullAt(&x.SettledAt), sqlite.NullAt(&x.ObservedExpiresAt),
			&x.DurationDays, &x.ChargedCents, &x.RefundedCents, &x.Open, &x.InReview,
		}
	}))
}

// ProxyCost is the total cost of a proxy's renewals.
type ProxyCost struct {
	ChargedCents, RefundedCents int64
	Renewals                    int64 // successful renewals
	Days                        int64 // bought by successful renewals
}

// CostOf sums the renewals of a proxy.
func (l *Fleet) CostOf(ctx context.Context, proxyID string) (c ProxyCost, err error) {
	err = l.row(ctx, `SELECT coalesce(sum(charged_cents), 0), coalesce(sum(refunded_cents), 0),
		count(*) FILTER (WHERE state IN ('succeeded', 'charged')), coalesce(sum(duration_days) FILTER (WHERE state IN ('succeeded', 'charged')), 0)
		FROM lines WHERE proxy_id = ?`, proxyID).Scan(&c.ChargedCents, &c.RefundedCents, &c.Renewals, &c.Days)
	return c, err
}

// NewExpiry returns the expiry after the renewal: the earlier expiry plus the days bought.
// It returns nil if the renewal did not succeed, or if the earlier expiry is unknown.
func (x ProxyRenewal) NewExpiry() *time.Time {
	if x.ObservedExpiresAt == nil || x.State != fact.LineSucceeded && x.State != fact.LineCharged {
		return nil
	}
	at := x.ObservedExpiresAt.AddDate(0, 0, int(x.DurationDays))
	return &at
}

// SeenExpiry selects the expiry of a proxy as last read. It selects no row if the proxy must
// be read again: after a later renewal, if the data is stale, if the proxy is gone, or if it
// was last read before listings stopped showing it.
const SeenExpiry = `SELECT expires_at FROM proxies p WHERE proxy_id = ? AND seen_at > 0 AND gone = 0
	AND (unlisted_at IS NULL OR seen_at > unlisted_at)
	AND NOT EXISTS (SELECT 1 FROM lines l WHERE l.proxy_id = p.proxy_id AND l.settled_at >= p.seen_at
		AND (l.state = 'succeeded' OR l.state = 'charged' OR l.state = 'unresolved'))`

// SeenExpiry returns the expiry of a proxy as last read. It is nil for a proxy that never
// expires. known is false if the proxy must be read again (see the query).
func (l *Fleet) SeenExpiry(ctx context.Context, proxyID string) (expires *time.Time, known bool, err error) {
	return ExpiryOf(l.from(ctx), proxyID)
}

// ExpiryOf is Fleet.SeenExpiry for any source.
func ExpiryOf(from sqlite.Source, proxyID string) (expires *time.Time, known bool, err error) {
	err = from.QueryRow(SeenExpiry, proxyID).Scan(sqlite.NullAt(&expires))
	return expires, err == nil, sqlite.Optional(err)
}

// LastRenewal returns the latest renewal of a proxy that succeeded or that an operator answered
// as charged. It returns sqlite.ErrNone if there is none.
func (l *Fleet) LastRenewal(ctx context.Context, proxyID string) (fact.Renewal, error) {
	return sqlite.One(scanRenewal, l.row(ctx, `SELECT r.observed_expires_at, r.duration_days, r.settled_at
		FROM (SELECT ? AS id) d CROSS JOIN lines r ON r.proxy_id = d.id AND r.operation = `+lastRenewal, proxyID))
}

var scanRenewal = sqlite.Into(func(r *fact.Renewal) []any {
	return []any{sqlite.NullAt(&r.ObservedExpiresAt), &r.DurationDays, sqlite.At(&r.SettledAt)}
})

// ShowsWithin is how long after a successful renewal the provider may still show the old
// expiry.
const ShowsWithin = time.Hour

// FreshFor is the maximum age of a listing, or of a read proxy, for planning and paying.
const FreshFor = 10 * time.Minute

// PaidFor reports whether the shown expiry of a proxy has been paid for. A successful renewal for
// this expiry counts. A renewal that settled less than ShowsWithin ago also counts if the shown
// expiry does not reflect it yet. PaidFor returns such a recent renewal as behind. Otherwise
// behind is nil.
func (l *Fleet) PaidFor(ctx context.Context, proxyID string, expiresAt, now time.Time) (paid bool, behind *fact.Renewal, err error) {
	if paid, err = l.RenewedAt(ctx, proxyID, expiresAt); err != nil || paid {
		return paid, nil, err
	}
	last, err := l.LastRenewal(ctx, proxyID)
	if errors.Is(err, sqlite.ErrNone) {
		return false, nil, nil
	}
	if err != nil || !mayNotShow(last, expiresAt, now) {
		return false, nil, err
	}
	return true, &last, nil
}

// mayNotShow reports whether a read that shows this expiry may be older than the renewal. The
// read may be older if the renewal settled less than ShowsWithin ago, and if the expiry is not
// later by about the days that were bought.
func mayNotShow(r fact.Renewal, expires, now time.Time) bool {
	if now.Sub(r.SettledAt) >= ShowsWithin {
		return false
	}
	bought := time.Duration(r.DurationDays) * 24 * time.Hour
	before := r.SettledAt // the earliest possible expiry of a proxy that was alive then
	if r.ObservedExpiresAt != nil {
		before = *r.ObservedExpiresAt
	}
	return expires.Before(before.Add(bought - fact.ExpiryTolerance))
}

// Moved is a proxy whose expiry moved to a later time without a renewal in this ledger.
type Moved struct {
	ProxyID     string
	Before, Now time.Time     // earliest expiry before such a move, and latest after one
	By          time.Duration // sum of all such moves
	SeenAt      time.Time
}

const movedMost = 1000

// MovedOutside lists the proxies whose expiry moved to a later time without a renewal in this
// ledger, ordered by ID. It lists a proxy until ForgetMoved is called. A read within an hour
// after a renewal does not count, because it may still show the old expiry. A renewal explains a
// move if it was paid, or was sent and has no answer yet; a failed, skipped or uncharged renewal
// does not. For a file that was not migrated, the list is empty.
func (l *Fleet) MovedOutside(ctx context.Context) (all []Moved, err error) {
	err = sqlite.IfMade(ctx, l.read, "moves", func() error {
		all, err = l.movedOutside(ctx)
		return err
	})
	return all, err
}

func (l *Fleet) movedOutside(ctx context.Context) ([]Moved, error) {
	return sqlite.Collect(l.query(ctx, `SELECT proxy_id, min(before), max(now), sum(now - before), max(seen_at) FROM moves m
		WHERE NOT EXISTS (SELECT 1 FROM explained_moves e WHERE e.proxy_id = m.proxy_id AND e.seen_at = m.seen_at)
		GROUP BY proxy_id ORDER BY proxy_id LIMIT +?`, movedMost), func(s sqlite.Scanner) (m Moved, err error) {
		var by int64
		err = s.Scan(&m.ProxyID, sqlite.At(&m.Before), sqlite.At(&m.Now), &by, sqlite.At(&m.SeenAt))
		m.By = time.Duration(by) * time.Microsecond
		return m, err
	})
}

// Listing is the progress of the listing of proxies. Like the proxies it is a cache: a
// rebuilt ledger starts a new pass.
type Listing struct {
	Pass     int64     // number of the last pass that was started
	Began    time.Time // start of a pass in progress
	Size     int       // page size; 0: no pass in progress
	Token    string    // token of the next page; "": the first page
	Finished time.Time // end of the last complete pass; zero: none yet
	Took     time.Duration

	Nameless int // entries of the current pass whose ID cannot be read
	// Known is the number of living proxies before the last complete pass. Lost is how many of
	// them the pass did not show, or showed with an unreadable entry. Retired proxies and proxies
	// about to expire are not counted.
	Known, Lost int
}

// Listing reads the progress of the listing. It returns the zero Listing before the first pass.
func (l *Fleet) Listing(ctx context.Context) (x Listing, err error) {
	var began, finished, took int64
	err = l.row(ctx, `SELECT pass, began_at, page_size, page_token, finished_at, took, nameless, known, lost FROM listing`).
		Scan(&x.Pass, &began, &x.Size, &x.Token, &finished, &took, &x.Nameless, &x.Known, &x.Lost)
	x.Took = time.Duration(took) * time.Microsecond
	if x.Size > 0 {
		x.Began = sqlite.FromMicros(began)
	}
	if finished > 0 {
		x.Finished = sqlite.FromMicros(finished)
	}
	return x, sqlite.Optional(err)
}

// LastSeen returns the time of the latest read or listing of any proxy. Stale data does not
// count. The time is zero if there is no other data. LastSeen scans all proxies.
func (l *Fleet) LastSeen(ctx context.Context) (time.Time, error) {
	at, err := sqlite.Value[int64](l.row(ctx, `SELECT coalesce(max(seen_at), 0) FROM proxies`))
	if err != nil || at <= 0 {
		return time.Time{}, err
	}
	return sqlite.FromMicros(at), nil
}
