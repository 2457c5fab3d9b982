// The lines of command.finished: the result for each proxy of a command.

package tables

import (
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

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
		data, err := sqlite.Text(s)
		if err != nil {
			return err
		}
		f, err := fact.Decode(fact.ProxySkipped{}.FactType(), []byte(data))
		if err != nil {
			return err
		}
		left, _ := f.(fact.ProxySkipped)
		for _, x := range left.Proxies() {
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

// addLeftOut adds the proxies that another operation had reserved when the command arrived.
func (c *CommandLines) addLeftOut(from sqlite.Source, id string) error {
	return eachSkipped(from, id, func(x fact.SkippedProxy) {
		c.All = append(c.All, fact.FinishedLine{
			DeliveredProxy: fact.DeliveredProxy{ProxyID: x.ProxyID, ExpiresAt: x.ExpiresAt, ChargedCents: new(int64)},
			State:          string(fact.LineSkipped), PreviousExpiresAt: x.ExpiresAt,
		})
	})
}

func scanFinishedLine(s sqlite.Scanner) (x fact.FinishedLine, claimed bool, err error) {
	var claim, charged, days, settled int64
	var observed sql.NullInt64
	err = s.Scan(&x.State, &claim, &x.ProxyID, &x.OfferCode, &x.CountryCode, &x.Region, &x.LineName, &x.IPType, &x.Protocol,
		&charged, &x.RefundedCents, &observed, &days, &settled)
	x.ChargedCents, x.PreviousExpiresAt = &charged, sqlite.Instant(observed)
	x.ExpiresAt = x.PreviousExpiresAt
	switch fact.LineState(x.State) {
	case fact.LineSucceeded:
		x.ExpiresAt = renewedUntil(x.PreviousExpiresAt, sqlite.FromMicros(settled), days)
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

// addDelivered adds the proxies of an order, as last read or as an operator recorded them.
// Versions that stored IDs only recorded fewer fields. Archived deliveries are not found.
func (c *CommandLines) addDelivered(from sqlite.Source, operation string) error {
	var data string
	err := from.QueryRow(`SELECT data FROM journal WHERE operation = ? AND operation <> '' AND type IN ('order.delivered', 'order.refunded', 'order.listed', 'operation.review', 'operation.resolved')
		AND data ->> '$.proxy_ids' IS NOT NULL ORDER BY seq DESC LIMIT 1`, operation).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
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
