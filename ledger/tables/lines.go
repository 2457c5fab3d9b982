package tables

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// RenewalLine is one proxy of a renewal. ChargedCents is before refunds.
type RenewalLine struct {
	ProxyID           string         `json:"proxy_id" doc:"The provider's id of the proxy."`
	State             fact.LineState `json:"state" doc:"The state."`
	ChargedCents      int64          `json:"charged_cents" doc:"The amount charged, before refunds."`
	RefundedCents     int64          `json:"refunded_cents" doc:"The amount refunded."`
	ObservedExpiresAt *time.Time     `json:"observed_expires_at,omitempty" doc:"The expiry that was read before the send."`
	DurationDays      int64          `json:"duration_days" doc:"The duration in days, a multiple of 30."`
}

// Lines lists the lines of a renewal, ordered by proxy ID.
func (l *Operations) Lines(ctx context.Context, operationID string) ([]RenewalLine, error) {
	return LinesOf(l.from(ctx), operationID)
}

// LinesOf is Operations.Lines for any source.
func LinesOf(from sqlite.Source, operationID string) ([]RenewalLine, error) {
	return sqlite.Collect(from.Query(`SELECT proxy_id, state, charged_cents, refunded_cents, observed_expires_at, duration_days
		FROM lines WHERE operation = ? ORDER BY proxy_id`, operationID), sqlite.Into(func(x *RenewalLine) []any {
		return []any{&x.ProxyID, (*string)(&x.State), &x.ChargedCents, &x.RefundedCents, sqlite.NullAt(&x.ObservedExpiresAt), &x.DurationDays}
	}))
}

// DeliveredBy returns the order operation that delivered a proxy. It returns "" if the operation
// is unknown.
func (l *Operations) DeliveredBy(ctx context.Context, proxyID string) (string, error) {
	operation, err := sqlite.Value[string](l.row(ctx, `SELECT operation FROM delivered WHERE proxy_id = ?`, proxyID))
	return operation, sqlite.Optional(err)
}

// Deliverers maps each proxy to the order operation that delivered it. Proxies without a
// known delivery have no entry.
func (l *Operations) Deliverers(ctx context.Context, proxyIDs []string) (map[string]string, error) {
	ids, err := json.Marshal(proxyIDs)
	if err != nil {
		return nil, err
	}
	return sqlite.Pairs[string, string](l.query(ctx, `SELECT proxy_id, operation FROM delivered WHERE proxy_id IN (SELECT value FROM json_each(?))`, string(ids)))
}

// NamedBefore lists up to limit operations that bought a proxy or have a line for the proxy,
// newest first. The operations were accepted before operation o. A zero o starts with the newest
// operation.
func (l *Operations) NamedBefore(ctx context.Context, proxyID string, o fact.Operation, limit int) ([]fact.Operation, error) {
	before := int64(1 << 62)
	if o.ID != "" {
		before = sqlite.Micros(o.AcceptedAt)
	}
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations WHERE (accepted_at, id) < (?2, ?3)`+naming+`
		ORDER BY accepted_at DESC, id DESC LIMIT +?4`, proxyID, before, o.ID, limit), ScanOperation)
}

// NamedAfter is NamedBefore in the other direction: operations accepted after o, oldest
// first.
func (l *Operations) NamedAfter(ctx context.Context, proxyID string, o fact.Operation, limit int) ([]fact.Operation, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations WHERE (accepted_at, id) > (?2, ?3)`+naming+`
		ORDER BY accepted_at, id LIMIT +?4`, proxyID, sqlite.Micros(o.AcceptedAt), o.ID, limit), ScanOperation)
}

// naming is the SQL condition that an operation bought proxy ?1, or has a line for it.
const naming = ` AND id IN (SELECT operation FROM lines WHERE proxy_id = ?1 UNION SELECT operation FROM delivered WHERE proxy_id = ?1)`

// Claimant returns the operation that has reserved the proxy for a renewal. It returns "" if
// there is none.
func (l *Operations) Claimant(ctx context.Context, proxyID string) (string, error) {
	return ClaimantOf(l.from(ctx), proxyID)
}

// ClaimantQuery is the query of ClaimantOf.
const ClaimantQuery = `SELECT operation FROM lines WHERE proxy_id = ? AND claim = 1`

// ClaimantOf is Operations.Claimant for any source.
func ClaimantOf(from sqlite.Source, proxyID string) (string, error) {
	operation, err := sqlite.Value[string](from.QueryRow(ClaimantQuery, proxyID))
	return operation, sqlite.Optional(err)
}

// RenewedAt reports whether a renewal for this expiry of the proxy succeeded. A second
// renewal would pay for the same days again.
func (l *Fleet) RenewedAt(ctx context.Context, proxyID string, expiresAt time.Time) (bool, error) {
	return sqlite.Found(l.row(ctx, `SELECT `+renewedAt+` FROM (SELECT ? AS id, ? AS shown) d`, proxyID, sqlite.Micros(expiresAt)))
}

// IsNoMove completes the SQL condition for fact.SameExpiry, abs(a - b) + IsNoMove.
const IsNoMove = ` < 86400000000 `

// SettledSince reports whether a renewal of the proxy settled at or after an instant. An
// operator's answer about the proxy counts too. Data read before the settlement may show the old
// expiry.
func (l *Operations) SettledSince(ctx context.Context, proxyID string, at time.Time) (bool, error) {
	return sqlite.Found(l.row(ctx, `SELECT count(*) FROM lines WHERE proxy_id = ? AND settled_at >= ?`, proxyID, sqlite.Micros(at)))
}

// atExpiry returns the SQL condition that line x ended at the given expiry of its proxy. It
// compares the expiry that the line recorded. A line that recorded none must have settled after
// the proxy's last success. It must also have settled at most 30 days before the expiry, because
// no extension is shorter.
func atExpiry(expiry string) string {
	const leastMove = `2592000000000` // 30 days in microseconds
	return `CASE WHEN x.observed_expires_at IS NOT NULL THEN abs(x.observed_expires_at - ` + expiry + `)` + IsNoMove + `
		ELSE x.settled_at >= max(` + expiry + ` - ` + leastMove + `, coalesce((SELECT max(y.settled_at) FROM lines y
			WHERE y.proxy_id = x.proxy_id AND y.state IN ('succeeded', 'charged')), 0)) END`
}

// Claimed returns the proxies that are reserved by an operation.
func (l *Operations) Claimed(ctx context.Context) (map[string]bool, error) {
	return sqlite.Pairs[string, bool](l.query(ctx, `SELECT proxy_id, 1 FROM lines WHERE claim = 1`))
}

// ClaimedInReview returns the reserved proxies whose renewal needs review.
func (l *Operations) ClaimedInReview(ctx context.Context) (map[string]bool, error) {
	return sqlite.Pairs[string, bool](l.query(ctx, `SELECT x.proxy_id, 1 FROM lines x CROSS JOIN operations o ON o.id = x.operation
		WHERE x.claim = 1 AND (x.state = 'unresolved' OR o.state = 'review')`))
}

// ClaimedKinds returns one proxy for each combination of country, region, line, type and
// protocol with a renewal that has no outcome yet. The other fields are empty. It leaves out
// renewals that need review or wait after an attempt that may have been executed, because
// their outcome may take hours or need an operator.
func (l *Operations) ClaimedKinds(ctx context.Context) ([]Proxy, error) {
	return sqlite.Collect(l.query(ctx, `SELECT DISTINCT p.country_code, p.region, p.line_name, p.ip_type, p.protocol
		FROM lines x CROSS JOIN operations o ON o.id = x.operation CROSS JOIN proxies p ON p.proxy_id = x.proxy_id
		WHERE x.claim = 1 AND x.state = 'pending' AND o.state <> 'review' AND NOT (o.state = 'waiting' AND o.ambiguous > 0)`), sqlite.Into(func(p *Proxy) []any {
		return []any{&p.CountryCode, &p.Region, &p.LineName, &p.IPType, &p.Protocol}
	}))
}

// CountLines returns the number of proxies in a renewal, and the number of days bought for each.
// Both are 0 for an order or an unknown operation.
func (l *Operations) CountLines(ctx context.Context, operationID string) (n, days int64, err error) {
	err = l.row(ctx, `SELECT count(*), coalesce(max(duration_days), 0) FROM lines WHERE operation = ?`, operationID).Scan(&n, &days)
	return n, days, err
}

// LastFinished reads the last command.finished of a command. It returns nil if an operator
// has reopened the command, and sqlite.ErrNone if it has never finished.
func (l *Operations) LastFinished(ctx context.Context, id string) (*fact.CommandFinished, error) {
	seq, err := sqlite.One(sqlite.Value[int64], l.row(ctx, `SELECT seq FROM finished WHERE command_id = ?`, id))
	if err != nil {
		return nil, err
	}
	if ended, err := l.CommandEnded(ctx, id); err != nil || !ended {
		return nil, err // reopened
	}
	row, err := l.journal.Row(ctx, seq)
	if err != nil {
		return nil, err
	}
	var f fact.CommandFinished
	return &f, json.Unmarshal([]byte(row.Data), &f)
}

// Knows returns sqlite.ErrNone for a command that was neither accepted nor refused.
func (l *Operations) Knows(ctx context.Context, id string) error {
	_, err := l.Command(ctx, id)
	if errors.Is(err, sqlite.ErrNone) {
		_, err = l.Rejection(ctx, id)
	}
	return err
}

// FinishedPage is one page of a finished command's lines; each line is a proxy.
type FinishedPage struct {
	Lines      []fact.FinishedLine `json:"lines"`
	LinesTotal int                 `json:"lines_total" doc:"The number of all lines."`
}

// FinishedLines reads up to limit lines of a command. after is the number of lines to skip.
// command.finished has the same lines. FinishedLines returns sqlite.ErrNone for an unknown
// command.
func (l *Operations) FinishedLines(ctx context.Context, id string, after, limit int) (p FinishedPage, err error) {
	operations, err := l.OperationsOf(ctx, id)
	if err == nil && len(operations) == 0 {
		_, err = l.Rejection(ctx, id)
		return FinishedPage{Lines: []fact.FinishedLine{}}, err
	}
	if err != nil {
		return p, err
	}
	lines, err := LinesOfCommand(l.from(ctx), id, operations, mayHaveLeftOut)
	p.LinesTotal = len(lines.All)
	from := min(max(after, 0), p.LinesTotal)
	p.Lines = append([]fact.FinishedLine{}, lines.All[from:min(from+limit, p.LinesTotal)]...)
	return p, err
}

// mayHaveLeftOut makes LinesOfCommand look for proxies that were skipped on arrival.
const mayHaveLeftOut = true

// CommandLines is the result for each proxy of a command.
type CommandLines struct {
	All     []fact.FinishedLine
	Claimed bool                                 // an operation still has one of the proxies reserved
	States  map[string]map[string]fact.LineState // by operation and proxy
}

// LeftOut counts the proxies whose final result is skipped.
func (c *CommandLines) LeftOut() (n int) {
	for _, line := range c.All {
		if line.State == string(fact.LineSkipped) {
			n++
		}
	}
	return n
}

// LinesOfCommand reads the result for each proxy. For renewals it takes the latest line of
// each proxy and adds up the cost of all its lines. For orders it takes the delivered
// proxies. leftOut says that proxies may have been skipped on arrival.
func LinesOfCommand(from sqlite.Source, id string, operations []fact.Operation, leftOut bool) (c CommandLines, err error) {
	if operations[0].Kind.MakesOrder() {
		for _, o := range operations {
			if o.State == fact.StateDelivered || o.State == fact.StateRefunded || o.State == fact.StateResolved {
				if err := c.addDelivered(from, o.ID); err != nil {
					return c, err
				}
			}
		}
		return c, nil
	}
	if leftOut {
		if err := c.addLeftOut(from, id); err != nil {
			return c, err
		}
	}
	c.States = map[string]map[string]fact.LineState{}
	at := map[string]int{}
	for _, o := range operations {
		lines, err := c.linesOf(from, o)
		if err != nil {
			return c, err
		}
		for _, line := range lines {
			i, before := at[line.ProxyID]
			if !before {
				at[line.ProxyID] = len(c.All)
				c.All = append(c.All, line)
				continue
			}
			*line.ChargedCents += *c.All[i].ChargedCents
			line.RefundedCents += c.All[i].RefundedCents
			c.All[i] = line
		}
	}
	return c, nil
}

// LinesByOperation selects the lines of one renewal; each row fills a FinishedLine.
const LinesByOperation = `SELECT l.state, l.claim, l.proxy_id, coalesce(b.offer_code, ''), coalesce(p.country_code, ''), coalesce(p.region, ''),
	coalesce(p.line_name, ''), coalesce(p.ip_type, ''), coalesce(p.protocol, ''), l.charged_cents, l.refunded_cents, l.observed_expires_at,
	l.duration_days, coalesce(l.settled_at, 0)
	FROM lines l LEFT JOIN proxies p ON p.proxy_id = l.proxy_id LEFT JOIN bought b ON b.proxy_id = l.proxy_id
	WHERE l.operation = ? ORDER BY l.proxy_id`

func (c *CommandLines) linesOf(from sqlite.Source, o fact.Operation) (lines []fact.FinishedLine, err error) {
	states := map[string]fact.LineState{}
	err = sqlite.Each(from.Query(LinesByOperation, o.ID), func(s sqlite.Scanner) error {
		line, claimed, err := scanFinishedLine(s)
		c.Claimed = c.Claimed || claimed
		states[line.ProxyID] = fact.LineState(line.State)
		lines = append(lines, line)
		return err
	})
	c.States[o.ID] = states
	shareAnswer(o, lines)
	if err == nil {
		err = addSkippedExpiries(from, o.ID, lines)
	}
	return lines, err
}

// addSkippedExpiries sets, on skipped lines, the expiry that was read when the proxy was
// skipped.
func addSkippedExpiries(from sqlite.Source, operation string, lines []fact.FinishedLine) error {
	if !slices.ContainsFunc(lines, func(x fact.FinishedLine) bool { return x.State == string(fact.LineSkipped) }) {
		return nil
	}
	read := map[string]*time.Time{}
	err := eachSkipped(from, operation, func(x fact.SkippedProxy) { read[x.ProxyID] = x.ExpiresAt })
	for i := range lines {
		if at := read[lines[i].ProxyID]; at != nil && lines[i].State == string(fact.LineSkipped) {
			lines[i].ExpiresAt, lines[i].PreviousExpiresAt = at, at
		}
	}
	return err
}

// eachSkipped calls yield for every proxy that a command or an operation skipped. It leaves
// out archived facts.
func eachSkipped(from sqlite.Source, id string, yield func(fact.SkippedProxy)) error {
	return sqlite.Each(from.Query(`SELECT data FROM journal WHERE operation = ? AND operation <> '' AND type = 'proxy.skipped'`, id), func(s sqlite.Scanner) error {
		f, err := ScanFact[fact.ProxySkipped](s)
		if err != nil {
			return err
		}
		for _, x := range f.Proxies() {
			yield(x)
		}
		return nil
	})
}

// shareAnswer divides the amount of an operator's answer for several lines among those
// lines. The ledger books such an amount on the operation only.
func shareAnswer(o fact.Operation, lines []fact.FinishedLine) {
	charged, refunded := o.ChargedCents, o.RefundedCents
	var answered []int
	for i, x := range lines {
		charged, refunded = charged-*x.ChargedCents, refunded-x.RefundedCents
		if state := fact.LineState(x.State); state == fact.LineCharged || state == fact.LineNotCharged {
			answered = append(answered, i)
		}
	}
	for n, i := range answered {
		*lines[i].ChargedCents += fact.Share(charged, n, len(answered))
		lines[i].RefundedCents += fact.Share(refunded, n, len(answered))
	}
}

func (c *CommandLines) addLeftOut(from sqlite.Source, id string) error {
	return eachSkipped(from, id, func(x fact.SkippedProxy) {
		c.All = append(c.All, fact.FinishedLine{
			DeliveredProxy: fact.DeliveredProxy{ProxyID: x.ProxyID, ExpiresAt: x.ExpiresAt, ChargedCents: new(int64)},
			State:          string(fact.LineSkipped), PreviousExpiresAt: x.ExpiresAt,
		})
	})
}

func scanFinishedLine(s sqlite.Scanner) (x fact.FinishedLine, claimed bool, err error) {
	var claim, charged, days int64
	var settled time.Time
	err = s.Scan(&x.State, &claim, &x.ProxyID, &x.OfferCode, &x.CountryCode, &x.Region, &x.LineName, &x.IPType, &x.Protocol,
		&charged, &x.RefundedCents, sqlite.NullAt(&x.PreviousExpiresAt), &days, sqlite.At(&settled))
	x.ChargedCents, x.ExpiresAt = &charged, x.PreviousExpiresAt
	switch fact.LineState(x.State) {
	case fact.LineSucceeded:
		x.ExpiresAt = renewedUntil(x.PreviousExpiresAt, settled, days)
	case fact.LineCharged: // the operator's answer contains the cost, but not the new expiry
		x.ExpiresAt = nil
	case fact.LinePending, fact.LineSkipped, fact.LineFailed, fact.LineUnresolved, fact.LineNotCharged:
	}
	return x, claim == 1, err
}

// renewedUntil returns the expiry of a proxy after a renewal. It returns nil if the previous
// expiry is unknown or had passed: the API does not say when the days of an expired proxy
// begin.
func renewedUntil(previous *time.Time, settled time.Time, days int64) *time.Time {
	if previous == nil || previous.Before(settled) {
		return nil
	}
	until := previous.AddDate(0, 0, int(days))
	return &until
}

// addDelivered adds the proxies of an order. It takes them from the last read of the order or
// from an operator's answer. Older versions recorded only IDs. Archived deliveries are not found.
func (c *CommandLines) addDelivered(from sqlite.Source, operation string) error {
	data, err := sqlite.Value[string](from.QueryRow(`SELECT data FROM journal WHERE operation = ? AND operation <> '' AND type IN ('order.delivered', 'order.refunded', 'order.listed', 'operation.review', 'operation.resolved')
		AND data ->> '$.proxy_ids' IS NOT NULL ORDER BY seq DESC LIMIT 1`, operation))
	if err != nil {
		return sqlite.Optional(err)
	}
	var f struct { // the fields that these fact types share
		ProxyIDs []string              `json:"proxy_ids"`
		Proxies  []fact.DeliveredProxy `json:"proxies"`
	}
	if err := json.Unmarshal([]byte(data), &f); err != nil {
		return err
	}
	if len(f.Proxies) == 0 {
		for _, id := range f.ProxyIDs {
			f.Proxies = append(f.Proxies, fact.DeliveredProxy{ProxyID: id})
		}
	}
	for _, p := range f.Proxies {
		c.All = append(c.All, fact.FinishedLine{DeliveredProxy: p, State: string(fact.StateDelivered)})
	}
	return nil
}
