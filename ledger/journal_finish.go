package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// noteEnding remembers the command of a fact if the fact may have ended the command. A
// command that is refused on arrival finishes immediately, because other commands with its
// ID may follow in the same write.
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
	case fact.OrderListed:
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

// finishRefused appends command.finished after a refusal on arrival.
func (t *Tx) finishRefused(f fact.CommandRejected) error {
	if !t.finishing {
		return nil
	}
	out := emptyFinished(f.Ref)
	out.State, out.Code, out.Reason, out.ReplyTo = string(fact.StateRejected), f.Code, f.Reason, f.ReplyTo
	out.StreamSequence = f.StreamSequence
	var err error
	if out.Revision, err = t.nextRevision(f.CommandID); err != nil {
		return err
	}
	return t.appendFinished(out)
}

func (t *Tx) finish(of fact.Ref) error {
	f := emptyFinished(of)
	operations, leftOut, err := t.endedBy(&f)
	if err != nil || len(operations) == 0 {
		return err
	}
	if slices.ContainsFunc(operations, func(o fact.Operation) bool { return t.w.held.byID[o.ID] != nil }) {
		if err := t.w.writeProjected(); err != nil {
			return err
		}
	}
	lines, err := tables.LinesOfCommand(t.w, f.CommandID, operations, leftOut)
	if err != nil || lines.Claimed {
		return err
	}
	if err := sumUp(t.w, &f, operations, lines); err != nil {
		return err
	}
	return t.appendFinished(f)
}

// endedBy returns the operations of a command. It returns none if one of the operations has not
// ended. It sets Revision, ReplyTo and StreamSequence of f. leftOut reports whether proxies were
// skipped on arrival.
func (t *Tx) endedBy(f *fact.CommandFinished) (operations []fact.Operation, leftOut bool, err error) {
	if c, ok := t.w.known.commands[f.CommandID]; ok {
		o := t.w.known.operations[c.operation]
		if o != nil && (o.State == fact.StateCompleted || o.State == fact.StatePartial || o.State == fact.StateFailed) {
			f.ReplyTo, f.StreamSequence = c.replyTo, c.streamSequence
			f.Revision, err = t.nextRevision(f.CommandID)
			return []fact.Operation{o.Operation}, false, err
		}
	}
	operations, err = sqlite.Collect(t.query(endedOperations, f.CommandID+"/", f.CommandID+"0", f.CommandID), tables.ScanOperation)
	if err != nil || len(operations) == 0 {
		return nil, false, err
	}
	leftOut, err = t.address(f)
	return operations, leftOut, err
}

func (t *Tx) nextRevision(commandID string) (n int64, err error) {
	if last := t.w.held.revisions[commandID]; last > 0 {
		return last + 1, nil
	}
	err = t.queryRow(revisionOf, commandID).Scan(&n)
	return n, err
}

const revisionOf = `SELECT coalesce((SELECT revision FROM finished WHERE command_id = ?), 0) + 1`

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
	if errors.Is(err, ErrTooLarge) { // too many IDs and regions: record the end without them
		f.Lines, f.Operations = f.Lines[:0], f.Operations[:0]
		err = t.append(f)
	}
	return err
}

// endedOperations lists a command's operations like tables.OperationsOfCommand, but selects
// no row if one of them has not ended. Otherwise each end of an operation would read all
// operations of a large command.
const endedOperations = `SELECT ` + tables.OperationColumns + ` FROM operations WHERE id > ?1 AND id < ?2 AND command_id = ?3
	AND NOT EXISTS (SELECT 1 FROM operations l WHERE l.id > ?1 AND l.id < ?2 AND l.command_id = ?3 AND l.live = 1)
	ORDER BY accepted_at, chunk, generation`

func sumUp(from sqlite.Source, f *fact.CommandFinished, operations []fact.Operation, lines tables.CommandLines) error {
	if err := addOperations(from, f, operations, lines); err != nil {
		return err
	}
	if n := lines.LeftOut(); n > 0 && f.Code == "" && f.Reason == "" {
		f.Code, f.Reason = "left_out", fmt.Sprintf("%d of %d proxies were left out: proxy.skipped says why", n, len(lines.All))
	}
	f.Lines, f.LinesTotal = append(f.Lines, lines.All[:min(len(lines.All), fact.MaxFinishedLines)]...), len(lines.All)
	return nil
}

func addOperations(from sqlite.Source, f *fact.CommandFinished, operations []fact.Operation, lines tables.CommandLines) (err error) {
	f.State, err = fact.CommandState(operations, func(id string) (map[string]fact.LineState, error) { return lines.States[id], nil })
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
			ended := fact.FinishedOperation{OperationID: o.ID, State: o.State, OrderNo: o.OrderNo}
			if o.DeliveredCount < o.ExpectedCount {
				ended.ExpectedCount, ended.DeliveredCount = o.ExpectedCount, o.DeliveredCount
			}
			f.Operations = append(f.Operations, ended)
		}
		if f.Reason == "" && !latest.Superseded(o) {
			f.Code, f.Reason = whyEnded(o)
		}
	}
	f.OperationsTotal = len(operations)
	if !reviewed {
		return nil
	}
	return from.QueryRow(`SELECT count(*) FROM journal WHERE operation > ? AND operation < ? AND operation <> '' AND type = 'operation.review'`,
		f.CommandID+"/", f.CommandID+"0").Scan(&f.Reviews)
}

// whyEnded returns the code and reason with which an operation ended, if any. An operation
// that an operator resolved has no code, because no reply decided its outcome.
func whyEnded(o fact.Operation) (code, reason string) {
	switch {
	case o.State == fact.StateCompleted:
		return "", ""
	case o.State == fact.StateDelivered, o.State == fact.StateResolved, o.Code == codeOfSuccess:
		return "", o.Reason
	}
	return o.Code, o.Reason
}

// unreviewedVersions is the highest version of an operation that was never reviewed:
// accepted, sent, settled.
const unreviewedVersions = 3

// codeOfSuccess is the provider's code of a successful reply, including renewals that are
// pending verification.
const codeOfSuccess = "ok"

// Finished returns the last command.finished fact of a command. It returns nil while the
// command is in progress or needs review. For a command that ended before this fact type
// existed, it appends one. The error is ErrNotFound for an unknown ID.
func (l *Ledger) Finished(ctx context.Context, id string) (*fact.CommandFinished, error) {
	f, err := l.Operations.LastFinished(ctx, id)
	if !errors.Is(err, ErrNotFound) {
		return f, err
	}
	if ended, err := l.Operations.CommandEnded(ctx, id); err != nil || !ended {
		return nil, errors.Join(err, l.Operations.Knows(ctx, id))
	}
	accepted, err := l.Operations.Acceptance(ctx, id) // neither an acceptance nor a rejection changes
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	rejected, rejectedErr := l.Operations.Rejection(ctx, id)
	if rejectedErr != nil && !errors.Is(rejectedErr, ErrNotFound) {
		return nil, rejectedErr
	}
	err = l.Write(ctx, func(tx *Tx) error {
		if next, err := tx.nextRevision(id); err != nil || next > 1 { // another caller has appended it
			return err
		}
		if accepted.CommandID == "" && rejectedErr == nil {
			return tx.finishRefused(fact.CommandRejected{Ref: fact.Ref{CommandID: id}, Code: rejected.Code, Reason: rejected.Reason})
		}
		return tx.finish(fact.Ref{CommandID: id, Labels: accepted.Labels, Trace: accepted.Trace})
	})
	if err != nil {
		return nil, err
	}
	return l.Operations.LastFinished(ctx, id)
}

// Booking is one ledger entry that an answer would make.
type Booking struct {
	Kind        string `json:"kind" doc:"The kind of the booking."`
	Debit       string `json:"debit" doc:"The ledger account that receives the amount."`
	Credit      string `json:"credit" doc:"The ledger account that the amount comes from."`
	AmountCents int64  `json:"amount_cents" doc:"The amount."`
}

// WouldBook returns what an operator's answer would book, given the operation's present state. It
// returns ErrNotFound for an unknown operation. It books nothing.
func (l *Ledger) WouldBook(ctx context.Context, f fact.OperationResolved) ([]Booking, error) {
	transfers, _, _, err := resolution(func(query string, args ...any) sqlite.Scanner { return l.read.QueryRowContext(ctx, query, args...) }, f)
	if err != nil {
		return nil, err
	}
	bookings := []Booking{}
	for _, m := range transfers {
		if m.cents > 0 {
			bookings = append(bookings, Booking{m.kind, m.debit, m.credit, m.cents})
		}
	}
	return bookings, nil
}
