// command.finished: the ledger appends it with the fact that ends a command's last
// operation, whatever path that fact came by.

package ledger

import (
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"perennial/ledger/fact"
)

// ending is a command that may be over, and the inbox that a refusal at its arrival names.
type ending struct {
	fact.Ref

	replyTo string
}

// noteEnding remembers the command of a fact that may have ended it.
func (t *Tx) noteEnding(f fact.Fact) {
	var ref fact.Ref
	var replyTo string
	switch f := f.(type) {
	case fact.CommandRejected:
		ref, replyTo = f.Ref, f.ReplyTo
	case fact.CommandCancelled:
		ref = f.Ref
	case fact.OperationResolved:
		ref = f.Ref
	case fact.OrderDelivered:
		ref = f.Ref
	case fact.OrderRefunded:
		ref = f.Ref
	case fact.RenewalSettled:
		ref = f.Ref
	default:
		return
	}
	if !slices.ContainsFunc(t.ended, func(x ending) bool { return x.CommandID == ref.CommandID }) {
		t.ended = append(t.ended, ending{ref, replyTo})
	}
}

// run runs one caller's function, and finishes the commands that it has ended.
func (t *Tx) run(fn func(*Tx) error) error {
	t.ended = t.ended[:0]
	if err := fn(t); err != nil {
		return err
	}
	for _, x := range t.ended {
		if err := t.finish(x.Ref, x.replyTo); err != nil {
			return err
		}
	}
	return nil
}

// finish appends command.finished if the command is over.
func (t *Tx) finish(of fact.Ref, replyTo string) error {
	f, over, err := finished(t, of.CommandID, of.OperationID == "")
	if err != nil || !over {
		return err
	}
	f.Labels, f.Trace = of.Labels, of.Trace
	if f.Totals.Currency, err = t.currency(f); err != nil {
		return err
	}
	err = t.queryRow(`SELECT coalesce((SELECT revision FROM finished WHERE command_id = ?1), 0) + 1,
		coalesce((SELECT reply_to FROM commands WHERE id = ?1), ?2)`, of.CommandID, replyTo).Scan(&f.Revision, &f.ReplyTo)
	if err != nil {
		return err
	}
	return t.append(f)
}

// source is what finished reads from: a transaction of the writer, or a reader.
type source interface {
	query(query string, args ...any) rows
	queryRow(query string, args ...any) scanner
}

// endedOperations lists a command's operations as operationsOfCommand does, and none while
// one of them has not ended: a large command has many that end one by one.
const endedOperations = `SELECT ` + operationColumns + ` FROM operations WHERE id > ?1 AND id < ?2 AND command_id = ?3
	AND NOT EXISTS (SELECT 1 FROM operations l WHERE l.id > ?1 AND l.id < ?2 AND l.command_id = ?3 AND l.live = 1)
	ORDER BY accepted_at, chunk, generation`

// finished sums a command up, without labels, revision and currency; over is false while
// something of it is under way, or waits for a person. atArrival: it may be one that was
// refused before it had an operation.
func finished(from source, id string, atArrival bool) (f fact.CommandFinished, over bool, err error) {
	f = fact.CommandFinished{Ref: fact.Ref{CommandID: id}, Lines: []fact.FinishedLine{}, Operations: []fact.FinishedOperation{}}
	operations, err := collect(from.query(endedOperations, id+"/", id+"0", id), scanOperation)
	switch {
	case err != nil:
		return f, false, err
	case len(operations) == 0 && atArrival:
		return refusedAtOnce(from, f)
	case len(operations) == 0:
		return f, false, nil
	}
	lines, err := linesOfCommand(from, f.CommandID, operations)
	if err != nil || lines.claimed {
		return f, false, err
	}
	if err := addOperations(from, &f, operations, lines); err != nil {
		return f, false, err
	}
	f.Lines, f.LinesTotal = append(f.Lines, lines.all[:min(len(lines.all), fact.MaxFinishedLines)]...), len(lines.all)
	return f, true, nil
}

// refusedAtOnce sums up a command that was refused before it was accepted.
func refusedAtOnce(from source, f fact.CommandFinished) (fact.CommandFinished, bool, error) {
	err := from.queryRow(`SELECT code, reason FROM rejections WHERE id = ?`, f.CommandID).Scan(&f.Code, &f.Reason)
	if errors.Is(err, sql.ErrNoRows) {
		return f, false, nil
	}
	f.State = string(fact.StateRejected)
	return f, err == nil, err
}

// addOperations adds a command's operations, its state and its sums.
func addOperations(from source, f *fact.CommandFinished, operations []fact.Operation, lines commandLines) (err error) {
	f.State, err = fact.CommandState(operations, func(id string) (map[string]fact.LineState, error) { return lines.states[id], nil })
	if err != nil {
		return err
	}
	latest, reviewed := fact.LatestOf(operations), false
	for _, o := range operations {
		f.Totals.ChargedCents += o.ChargedCents
		f.Totals.RefundedCents += o.RefundedCents
		f.Attempts += o.Attempts
		reviewed = reviewed || o.Version > unreviewedVersions
		if len(f.Operations) < fact.MaxFinishedOperations {
			f.Operations = append(f.Operations, fact.FinishedOperation{OperationID: o.ID, State: o.State, OrderNo: o.OrderNo})
		}
		if f.Reason == "" && !latest.Superseded(o) {
			f.Code, f.Reason = o.Code, o.Reason
		}
	}
	f.OperationsTotal = len(operations)
	if !reviewed {
		return nil
	}
	return from.queryRow(`SELECT count(*) FROM journal WHERE operation > ? AND operation < ? AND operation <> '' AND type = 'operation.review'`,
		f.CommandID+"/", f.CommandID+"0").Scan(&f.Reviews)
}

// unreviewedVersions is the latest version of an operation that no person was asked
// about: it was made, sent, and settled.
const unreviewedVersions = 3

// commandLines are the proxies of a command.
type commandLines struct {
	all     []fact.FinishedLine
	claimed bool                                 // one of them is still held by an operation
	states  map[string]map[string]fact.LineState // by operation and proxy
}

// linesOfCommand reads what became of each proxy: of the lines of its renewals the
// latest, with what all of them cost, and what its orders delivered.
func linesOfCommand(from source, id string, operations []fact.Operation) (c commandLines, err error) {
	if operations[0].Kind.MakesOrder() {
		for _, o := range operations {
			if o.State == fact.StateDelivered {
				if err := c.addDelivered(from, o.ID); err != nil {
					return c, err
				}
			}
		}
		return c, nil
	}
	if err := c.addLeftOut(from, id); err != nil {
		return c, err
	}
	c.states = map[string]map[string]fact.LineState{}
	at := map[string]int{}
	err = each(from.query(`SELECT l.operation, l.state, l.claim, l.proxy_id, coalesce(b.offer_code, ''), coalesce(p.country_code, ''), coalesce(p.region, ''),
		coalesce(p.line_name, ''), coalesce(p.ip_type, ''), coalesce(p.protocol, ''), l.charged_cents, l.refunded_cents, l.observed_expires_at,
		l.duration_days, coalesce(l.settled_at, 0)
		FROM operations o JOIN lines l ON l.operation = o.id LEFT JOIN proxies p ON p.proxy_id = l.proxy_id LEFT JOIN bought b ON b.proxy_id = l.proxy_id
		WHERE o.id > ? AND o.id < ? AND o.command_id = ? ORDER BY o.accepted_at, o.generation, l.proxy_id`, id+"/", id+"0", id), func(s scanner) error {
		operation, line, claimed, err := scanFinishedLine(s)
		if err != nil {
			return err
		}
		c.claimed = c.claimed || claimed
		if c.states[operation] == nil {
			c.states[operation] = map[string]fact.LineState{}
		}
		c.states[operation][line.ProxyID] = fact.LineState(line.State)
		i, before := at[line.ProxyID]
		if !before {
			at[line.ProxyID] = len(c.all)
			c.all = append(c.all, line)
			return nil
		}
		*line.ChargedCents += *c.all[i].ChargedCents
		line.RefundedCents += c.all[i].RefundedCents
		c.all[i] = line
		return nil
	})
	return c, err
}

// addLeftOut adds the proxies that another operation held when the command came.
func (c *commandLines) addLeftOut(from source, id string) error {
	return each(from.query(`SELECT data FROM journal WHERE operation = ? AND operation <> '' AND type = 'proxy.skipped'`, id), func(s scanner) error {
		data, err := scanText(s)
		if err != nil {
			return err
		}
		var f fact.ProxySkipped
		if err := json.Unmarshal([]byte(data), &f); err != nil {
			return err
		}
		for _, x := range f.Proxies() {
			c.all = append(c.all, fact.FinishedLine{
				DeliveredProxy: fact.DeliveredProxy{ProxyID: x.ProxyID}, State: string(fact.LineSkipped),
			})
		}
		return nil
	})
}

func scanFinishedLine(s scanner) (operation string, x fact.FinishedLine, claimed bool, err error) {
	var claim, charged, days, settled int64
	var observed sql.NullInt64
	err = s.Scan(&operation, &x.State, &claim, &x.ProxyID, &x.OfferCode, &x.CountryCode, &x.Region, &x.LineName, &x.IPType, &x.Protocol,
		&charged, &x.RefundedCents, &observed, &days, &settled)
	x.ChargedCents, x.PreviousExpiresAt = &charged, instant(observed)
	x.ExpiresAt = x.PreviousExpiresAt
	if renewed := fact.LineState(x.State) == fact.LineSucceeded || fact.LineState(x.State) == fact.LineCharged; renewed && x.ExpiresAt != nil {
		x.ExpiresAt = renewedUntil(*x.PreviousExpiresAt, fromMicros(settled), days)
	}
	return operation, x, claim == 1, err
}

// renewedUntil is when a proxy expires that was renewed for some days; nil where it had
// expired before: from when the days then count is not given.
func renewedUntil(previous, settled time.Time, days int64) *time.Time {
	if previous.Before(settled) {
		return nil
	}
	until := previous.AddDate(0, 0, int(days))
	return &until
}

// addDelivered adds the proxies of an order. What was archived, or delivered before
// facts named more than ids, is less.
func (c *commandLines) addDelivered(from source, operation string) error {
	var data string
	err := from.queryRow(`SELECT data FROM journal WHERE operation = ? AND operation <> '' AND type = 'order.delivered' ORDER BY seq DESC LIMIT 1`, operation).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	var f fact.OrderDelivered
	if err := json.Unmarshal([]byte(data), &f); err != nil {
		return err
	}
	if len(f.Proxies) == 0 {
		for _, id := range f.ProxyIDs {
			f.Proxies = append(f.Proxies, fact.DeliveredProxy{ProxyID: id})
		}
	}
	for _, p := range f.Proxies {
		c.all = append(c.all, fact.FinishedLine{DeliveredProxy: p, State: string(fact.StateDelivered)})
	}
	return nil
}
