// Proxies in order of expiry, page by page, and the results of a proxy's renewals.

package tables

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/sqlite"
)

// ExpiryPlace is a position in the order of expiry; equal expiries are ordered by proxy ID.
type ExpiryPlace struct {
	At      time.Time
	ProxyID string
}

// From returns the position before everything that expires at an instant.
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
}

// States of a proxy that the ledger knows.
const (
	ProxyRenewing = "renewing"
	ProxyInReview = "in review"
	ProxyRetired  = "retired"
)

const (
	ofLastPaid = `FROM lines x WHERE x.proxy_id = proxies.proxy_id AND ` + priced + ` ORDER BY x.settled_at DESC LIMIT 1`
	lastPaidOf = `(SELECT ` + priceOf + ` ` + ofLastPaid + `), (SELECT x.duration_days ` + ofLastPaid + `), (SELECT x.settled_at ` + ofLastPaid + `), ` + renewalOf
	renewalOf  = `ifnull((SELECT CASE WHEN x.state = 'unresolved' OR o.state = 'review' THEN 'in review' ELSE 'renewing' END
		FROM lines x CROSS JOIN operations o ON o.id = x.operation WHERE x.proxy_id = proxies.proxy_id AND x.claim = 1), '')`
)

func scanPriced(s sqlite.Scanner) (p PricedProxy, err error) {
	var cents, days, at sql.NullInt64
	p.Proxy, err = scanProxy(extraColumns{s, []any{&cents, &days, &at, &p.Renewal}})
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
	switch err = l.read.QueryRowContext(ctx, FindBound, after, q.After.ProxyID, until, failpoint.Size(ctx, "list.looked", LookedMost)-1).Scan(&last, &id); {
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

// RenewalsOf lists up to limit renewals that included a proxy: the open one, then the
// others, newest first.
func (l *Fleet) RenewalsOf(ctx context.Context, proxyID string, limit int) ([]ProxyRenewal, error) {
	return sqlite.Collect(l.query(ctx, `SELECT x.operation, o.command_id, x.state, o.state, o.reason, o.accepted_at, x.settled_at, x.observed_expires_at, x.duration_days,
		x.charged_cents, x.refunded_cents, x.claim, x.claim = 1 AND (x.state = 'unresolved' OR o.state = 'review')
		FROM lines x CROSS JOIN operations o ON o.id = x.operation
		WHERE x.proxy_id = ? ORDER BY x.claim DESC, coalesce(x.settled_at, o.accepted_at) DESC, x.operation DESC LIMIT +?`, proxyID, limit), func(s sqlite.Scanner) (x ProxyRenewal, err error) {
		var accepted int64
		var settled, observed sql.NullInt64
		err = s.Scan(&x.OperationID, &x.CommandID, &x.State, &x.Operation, &x.Reason, &accepted, &settled, &observed, &x.DurationDays, &x.ChargedCents, &x.RefundedCents, &x.Open, &x.InReview)
		x.AcceptedAt, x.SettledAt, x.ObservedExpiresAt = sqlite.FromMicros(accepted), sqlite.Instant(settled), sqlite.Instant(observed)
		return x, err
	})
}

// ProxyCost is the total cost of a proxy's renewals.
type ProxyCost struct {
	ChargedCents, RefundedCents int64
	Renewals                    int64 // successful renewals
	Days                        int64 // bought by successful renewals
}

// CostOf sums the renewals of a proxy.
func (l *Fleet) CostOf(ctx context.Context, proxyID string) (c ProxyCost, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT coalesce(sum(charged_cents), 0), coalesce(sum(refunded_cents), 0),
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
