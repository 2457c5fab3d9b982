// This file records a decision and takes the next step.

package jobs

import (
	"context"
	"errors"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/sleep"
)

// conclude records a decision, and queues or ends the operation accordingly.
func (a *attempts) conclude(ctx context.Context, j *job, d decide.Decision) error {
	after, err := a.record(ctx, j, d)
	if err != nil {
		return err
	}
	a.markMoney(d)
	if next := a.nextStep(j, after.operation); next != nil {
		a.ready.requeue(next)
		return nil
	}
	a.ready.done(j.op.ID)
	if waits(d) || a.loader.backlog.Load() {
		a.loader.keep(j.cmd)
		a.loader.wakeDueLoop()
	}
	if a.loader.careful(j.cmd) { // operations of a careful command run one at a time, including those of a split chunk
		a.loader.startRest(ctx, j.op.CommandID)
		return nil
	}
	for _, half := range after.halves {
		a.ready.push(a.loader.job(half.Operation, j.cmd, half.ProxyIDs))
	}
	return nil
}

// markMoney sets shortOfMoney when the wallet could not pay, and clears it after a charge.
func (a *attempts) markMoney(d decide.Decision) {
	for _, f := range d.Facts {
		switch f := f.(type) {
		case fact.CommandRejected:
			if f.ShortOfMoney {
				a.shortOfMoney.Store(true)
			}
		case fact.OrderAccepted, fact.RenewalSettled:
			a.shortOfMoney.Store(false)
		}
	}
}

// ShortOfMoney reports whether the wallet could not pay for the last operation of this run
// that tried to charge it.
func (a *attempts) ShortOfMoney() bool { return a.shortOfMoney.Load() }

// recorded is the state of an operation after a decision, and the operations that took over
// the proxies of a refused chunk. It is empty if nothing was recorded, for example after
// ErrStale.
type recorded struct {
	operation fact.Operation
	halves    []decide.Operation
}

// append appends a decision's facts and reads the resulting operations.
func (a *recorded) append(tx *ledger.Tx, op decide.Operation, facts []fact.Fact) (err error) {
	*a = recorded{} // Write may run this function twice
	if a.operation, err = tx.AppendTo(op.ID, op.Version, facts...); err != nil {
		return err
	}
	for _, f := range facts {
		x, _ := f.(fact.CommandRejected)
		for _, p := range x.SplitInto {
			half, err := tx.Operation(p.OperationID)
			if err != nil {
				return err
			}
			if half.State == fact.StateAccepted {
				a.halves = append(a.halves, decide.Operation{ProxyIDs: p.ProxyIDs, Operation: half})
			}
		}
	}
	return nil
}

// waits reports whether the operation comes due again automatically.
func waits(d decide.Decision) bool {
	for _, f := range d.Facts {
		switch f.(type) {
		case fact.OperationWaiting, fact.OperationUnsent, fact.OrderAccepted, fact.OrderProgressed, fact.CommandHeld:
			return true
		}
	}
	return false
}

// startRest queues the accepted operations of a command that have not started. For a careful
// command, it queues only the next operation. If that fails, runDueLoop queues them later.
func (q *loader) startRest(ctx context.Context, commandID string) {
	err := q.queueAccepted(ctx, commandID)
	if err == nil {
		return
	}
	q.miss(err) // also if ctx has ended: it may be the context of an operator's request
	if ctx.Err() == nil {
		q.Log.WithError(err).WithField("command_id", commandID).Error("the operations of a command could not be queued; it is tried again")
	}
}

func (q *loader) queueAccepted(ctx context.Context, commandID string) error {
	all, err := q.Ledger.Operations.OperationsOf(ctx, commandID)
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.State != fact.StateAccepted {
			continue
		}
		c, err := q.command(ctx, commandID)
		if err != nil {
			return err
		}
		if err := q.enqueue(ctx, o); err != nil {
			return err
		}
		if q.careful(c) {
			return nil
		}
	}
	return nil
}

// nextStep returns a poll if the operation is an order that can be read immediately, or nil.
func (a *attempts) nextStep(j *job, now fact.Operation) *job {
	if j.lane == lanePoll || now.State != fact.StateOpen || now.NextAt == nil || now.NextAt.After(a.Clock()) {
		return nil
	}
	op := j.op
	op.Operation = now
	return &job{lane: lanePoll, priority: priorityPoll, at: *now.NextAt, op: op, cmd: j.cmd}
}

// record appends a decision's facts to the version of the operation that the decision used.
// A reply that arrives after an operator or another runner settled the operation is
// recorded as a discrepancy. A failing ledger write is retried until it succeeds. If the
// ledger can never store the facts, the operation is put in review instead (trap 72).
func (a *attempts) record(ctx context.Context, j *job, d decide.Decision) (after recorded, err error) {
	if len(d.Facts) == 0 {
		return after, nil
	}
	retry, instead := sleep.Doubling(decide.BackoffFirst, time.Minute), false // instead: other facts replace the original facts, which cannot be recorded
	write := func(tx *ledger.Tx) error {
		if err := after.append(tx, j.op, d.Facts); err != nil {
			return err
		}
		failpoint.Reached(ctx, "result.inside")
		return forgetExpiries(tx, d.Facts)
	}
	for {
		err := a.Ledger.Write(ctx, write)
		switch {
		case err == nil:
			failpoint.Reached(ctx, "result.committed")
			return after, nil
		case errors.Is(err, ledger.ErrStale):
			late, err := a.tooLate(ctx, j, d)
			if err != nil || len(late) == 0 {
				return recorded{}, err
			}
			after, instead = recorded{}, true
			write = func(tx *ledger.Tx) error { return tx.Append(late...) }
			continue
		case ctx.Err() != nil, ledger.Ended(err):
			return recorded{}, err
		}
		if _, permanent := errors.AsType[*ledger.UnrecordableError](err); permanent {
			if instead {
				return recorded{}, err
			}
			a.Log.WithError(err).WithField("operation_id", j.op.ID).Error("the outcome can never be recorded: the operation is put in review")
			d, instead = decide.Decide(j.op, decide.Unrecordable{Decision: d, Why: err.Error()}), true
			continue
		}
		a.Log.WithError(err).WithField("operation_id", j.op.ID).Error("the ledger cannot be written: the outcome is kept in memory and written when it can be")
		if err := retry.Wait(ctx); err != nil {
			return recorded{}, err
		}
	}
}

// forgetExpiries marks proxies that may have been renewed, so that their known state counts
// as out of date.
func forgetExpiries(tx *ledger.Tx, facts []fact.Fact) error {
	for _, f := range facts {
		var lines []fact.Line
		switch f := f.(type) {
		case fact.RenewalSettled:
			lines = f.Items
		case fact.OperationReview:
			if f.Settlement != nil {
				lines = f.Settlement.Items
			}
		}
		for _, l := range lines {
			if err := tx.Stale(l.ProxyID); err != nil {
				return err
			}
		}
	}
	return nil
}

// tooLate returns the discrepancy for a reply that arrived after an operator or another
// runner settled the operation. For a poll, it returns nothing unless an operator resolved
// the operation: an order may come due again while it is read, and the other read may be
// recorded first.
func (a *attempts) tooLate(ctx context.Context, j *job, d decide.Decision) ([]fact.Fact, error) {
	if now, err := a.Ledger.Operations.Operation(ctx, j.op.ID); err != nil || j.lane == lanePoll && now.State != fact.StateResolved {
		return nil, err
	}
	return decide.Decide(j.op, decide.TooLate{Decision: d}).Facts, nil
}
