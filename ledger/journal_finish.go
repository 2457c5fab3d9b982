// command.finished: the ledger appends it with the fact that ends a command's last
// operation, whatever path that fact came by.

package ledger

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"perennial/ledger/fact"
)

// noteEnding remembers the command of a fact that may have ended it. A command that is
// refused at its arrival is over with the refusal: others of its id may come with it.
func (t *Tx) noteEnding(f fact.Fact) error {
	var ref fact.Ref
	switch f := f.(type) {
	case fact.CommandRejected:
		if f.OperationID == "" {
			return t.finishRefused(f)
		}
		ref = f.Ref
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
		return nil
	}
	if !slices.ContainsFunc(t.ended, func(x fact.Ref) bool { return x.CommandID == ref.CommandID }) {
		t.ended = append(t.ended, ref)
	}
	return nil
}

// run runs one caller's function, and finishes the commands that it has ended.
func (t *Tx) run(fn func(*Tx) error) error {
	t.ended, t.finishing = t.ended[:0], true
	if err := fn(t); err != nil || !t.finishing {
		return err
	}
	for _, ref := range t.ended {
		if err := t.finish(ref); err != nil {
			return err
		}
	}
	return nil
}

// finishRefused appends command.finished behind a refusal at arrival.
func (t *Tx) finishRefused(f fact.CommandRejected) error {
	if !t.finishing {
		return nil
	}
	out := emptyFinished(f.Ref)
	out.State, out.Code, out.Reason, out.ReplyTo = string(fact.StateRejected), f.Code, f.Reason, f.ReplyTo
	out.StreamSequence = f.StreamSequence
	err := t.queryRow(`SELECT coalesce((SELECT revision FROM finished WHERE command_id = ?), 0) + 1`, f.CommandID).Scan(&out.Revision)
	if err != nil {
		return err
	}
	return t.appendFinished(out)
}

// finish appends command.finished if the command is over.
func (t *Tx) finish(of fact.Ref) error {
	operations, err := collect(t.query(endedOperations, of.CommandID+"/", of.CommandID+"0", of.CommandID), scanOperation)
	if err != nil || len(operations) == 0 {
		return err
	}
	f := emptyFinished(of)
	leftOut, err := t.address(&f)
	if err != nil {
		return err
	}
	lines, err := linesOfCommand(t, f.CommandID, operations, leftOut)
	if err != nil || lines.claimed {
		return err
	}
	if err := sumUp(t, &f, operations, lines); err != nil {
		return err
	}
	return t.appendFinished(f)
}

// address sets what a command.finished has of its command: revision, inbox and message.
// leftOut says that proxies were left out when the command came.
func (t *Tx) address(f *fact.CommandFinished) (leftOut bool, err error) {
	var sequence int64
	var skipped int
	err = t.queryRow(`SELECT c.reply_to, coalesce(j.data ->> '$.stream_sequence', 0), coalesce(f.revision, 0) + 1,
			EXISTS (SELECT 1 FROM journal s WHERE s.operation = c.id AND s.operation <> '' AND s.type = 'proxy.skipped')
		FROM commands c LEFT JOIN journal j ON j.seq = c.accepted_seq LEFT JOIN finished f ON f.command_id = c.id WHERE c.id = ?`, f.CommandID).
		Scan(&f.ReplyTo, &sequence, &f.Revision, &skipped)
	f.StreamSequence = uint64(sequence)
	return skipped == 1, err
}

func emptyFinished(of fact.Ref) fact.CommandFinished {
	return fact.CommandFinished{
		Ref:   fact.Ref{CommandID: of.CommandID, Labels: of.Labels, Trace: of.Trace},
		Lines: []fact.FinishedLine{}, Operations: []fact.FinishedOperation{},
	}
}

func (t *Tx) appendFinished(f fact.CommandFinished) (err error) {
	if f.Totals.Currency, err = t.currency(f); err != nil {
		return err
	}
	err = t.append(f)
	if errors.Is(err, ErrTooLarge) { // ids and places are the provider's: what ended is recorded without them
		f.Lines, f.Operations = f.Lines[:0], f.Operations[:0]
		err = t.append(f)
	}
	return err
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

// sumUp adds to a command's end what came of it.
func sumUp(from source, f *fact.CommandFinished, operations []fact.Operation, lines commandLines) error {
	if err := addOperations(from, f, operations, lines); err != nil {
		return err
	}
	if lines.leftOut > 0 && f.Code == "" && f.Reason == "" {
		f.Code, f.Reason = "left_out", fmt.Sprintf("%d of %d proxies were left out: other operations held them", lines.leftOut, len(lines.all))
	}
	f.Lines, f.LinesTotal = append(f.Lines, lines.all[:min(len(lines.all), fact.MaxFinishedLines)]...), len(lines.all)
	return nil
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
			if f.Code == codeOfSuccess {
				f.Code = ""
			}
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

// codeOfSuccess is the provider's code of a reply that was a success, as of a renewal
// whose lines pend verification.
const codeOfSuccess = "ok"

// commandLines are the proxies of a command.
type commandLines struct {
	all     []fact.FinishedLine
	leftOut int                                  // of them, those that other operations held when the command came
	claimed bool                                 // one of them is still held by an operation
	states  map[string]map[string]fact.LineState // by operation and proxy
}

// linesOfCommand reads what became of each proxy: of the lines of its renewals the
// latest, with what all of them cost, and what its orders delivered. leftOut says that
// proxies may have been left out when the command came.
func linesOfCommand(from source, id string, operations []fact.Operation, leftOut bool) (c commandLines, err error) {
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
	if leftOut {
		if err := c.addLeftOut(from, id); err != nil {
			return c, err
		}
	}
	c.states = map[string]map[string]fact.LineState{}
	at := map[string]int{}
	for _, o := range operations {
		lines, err := c.linesOf(from, o)
		if err != nil {
			return c, err
		}
		for _, line := range lines {
			i, before := at[line.ProxyID]
			if !before {
				at[line.ProxyID] = len(c.all)
				c.all = append(c.all, line)
				continue
			}
			*line.ChargedCents += *c.all[i].ChargedCents
			line.RefundedCents += c.all[i].RefundedCents
			c.all[i] = line
		}
	}
	return c, nil
}

// linesOf reads the lines of one renewal.
func (c *commandLines) linesOf(from source, o fact.Operation) (lines []fact.FinishedLine, err error) {
	states := map[string]fact.LineState{}
	err = each(from.query(`SELECT l.state, l.claim, l.proxy_id, coalesce(b.offer_code, ''), coalesce(p.country_code, ''), coalesce(p.region, ''),
		coalesce(p.line_name, ''), coalesce(p.ip_type, ''), coalesce(p.protocol, ''), l.charged_cents, l.refunded_cents, l.observed_expires_at,
		l.duration_days, coalesce(l.settled_at, 0)
		FROM lines l LEFT JOIN proxies p ON p.proxy_id = l.proxy_id LEFT JOIN bought b ON b.proxy_id = l.proxy_id
		WHERE l.operation = ? ORDER BY l.proxy_id`, o.ID), func(s scanner) error {
		line, claimed, err := scanFinishedLine(s)
		c.claimed = c.claimed || claimed
		states[line.ProxyID] = fact.LineState(line.State)
		lines = append(lines, line)
		return err
	})
	c.states[o.ID] = states
	shareAnswer(o, lines)
	return lines, err
}

// shareAnswer divides among the answered lines what a person's answer for all of them
// booked: the ledger books such an answer for the operation.
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

// addLeftOut adds the proxies that another operation held when the command came.
func (c *commandLines) addLeftOut(from source, id string) error {
	return each(from.query(`SELECT data FROM journal WHERE operation = ? AND operation <> '' AND type = 'proxy.skipped'`, id), func(s scanner) error {
		data, err := scanText(s)
		if err != nil {
			return err
		}
		f, err := fact.Decode(fact.ProxySkipped{}.FactType(), []byte(data))
		if err != nil {
			return err
		}
		left, _ := f.(fact.ProxySkipped)
		for _, x := range left.Proxies() {
			c.leftOut++
			c.all = append(c.all, fact.FinishedLine{
				DeliveredProxy: fact.DeliveredProxy{ProxyID: x.ProxyID, ExpiresAt: x.ExpiresAt, ChargedCents: new(int64)},
				State:          string(fact.LineSkipped), PreviousExpiresAt: x.ExpiresAt,
			})
		}
		return nil
	})
}

func scanFinishedLine(s scanner) (x fact.FinishedLine, claimed bool, err error) {
	var claim, charged, days, settled int64
	var observed sql.NullInt64
	err = s.Scan(&x.State, &claim, &x.ProxyID, &x.OfferCode, &x.CountryCode, &x.Region, &x.LineName, &x.IPType, &x.Protocol,
		&charged, &x.RefundedCents, &observed, &days, &settled)
	x.ChargedCents, x.PreviousExpiresAt = &charged, instant(observed)
	x.ExpiresAt = x.PreviousExpiresAt
	if renewed := fact.LineState(x.State) == fact.LineSucceeded || fact.LineState(x.State) == fact.LineCharged; renewed && x.ExpiresAt != nil {
		x.ExpiresAt = renewedUntil(*x.PreviousExpiresAt, fromMicros(settled), days)
	}
	return x, claim == 1, err
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
