// The loop that reads from the ledger which operations are due, and queues them again.

package jobs

import (
	"context"
	"errors"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// idle is how long runDueLoop sleeps when the ledger names no time.
const idle = time.Minute

// runDueLoop queues what waits in the ledger when its time has come. No worker is
// held while an operation waits.
func (r *Runner) runDueLoop(ctx context.Context) error {
	for {
		// One instant for both questions: what comes due between two would be in
		// neither answer.
		now := r.clock.Now()
		if err := r.queueDue(ctx, now); err != nil && ctx.Err() == nil {
			r.Log.WithError(err).Error("the operations that are due could not be read from the ledger; the read is tried again")
		}
		r.deadLine.log(r.Log, r.Clock())
		wait := idle
		if next, err := r.Ledger.NextAfter(ctx, now); err == nil && next != nil {
			wait = min(idle, max(0, next.Sub(r.clock.Now())))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-r.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// due is what of one state and kind comes due in the ledger, and the lane that it
// takes room in.
type due struct {
	state fact.State
	kind  fact.Kind
	lane  lane
}

// comesBack lists what the loop asks the ledger for: each state and kind apart, so that
// a full one does not hide the others.
var comesBack = func() (all []due) {
	for _, state := range []fact.State{fact.StateHeld, fact.StateWaiting} {
		for _, k := range kindsByPriority() {
			all = append(all, due{state, k, kinds[k].lane})
		}
	}
	for _, k := range kindsByPriority() {
		if kinds[k].polled {
			all = append(all, due{fact.StateOpen, k, lanePoll})
		}
	}
	return all
}()

func (r *Runner) queueDue(ctx context.Context, now time.Time) error {
	r.backlog.Store(false)
	if due, err := r.Ledger.AnyDue(ctx, now); err != nil || !due {
		return err
	}
	x := r.ready.beginReading()
	defer x.end()
	for _, due := range comesBack {
		free := r.ready.freeBack(due.lane)
		if free <= 0 {
			r.backlog.Store(true) // not known: read again when there is room
			continue
		}
		// What is active may be among the first rows: ask for that many more.
		records, err := r.Ledger.Due(ctx, due.state, due.kind, now, free+3*r.ready.capacity)
		if err != nil {
			return err
		}
		for _, record := range records {
			if err := r.queueOne(ctx, x, due.lane, record); err != nil && ctx.Err() == nil {
				r.cannotGoOn(record, err)
			}
		}
	}
	return nil
}

// cannotGoOn logs, once a minute, that an operation could not be queued. The others are
// not held up by it.
func (r *Runner) cannotGoOn(record fact.Operation, err error) {
	if errors.Is(err, ledger.ErrStale) { // it was changed since it was read: the next read shows it
		return
	}
	r.mu.Lock()
	now := r.Clock()
	told := now.Sub(r.toldBroken[record.ID]) < time.Minute
	if !told {
		r.toldBroken[record.ID] = now
	}
	r.mu.Unlock()
	if !told {
		r.Log.WithError(err).WithField("operation_id", record.ID).Error("an operation could not be queued; it is tried again, and the others continue")
	}
}

func (r *Runner) queueOne(ctx context.Context, x *reading, l lane, record fact.Operation) error {
	if r.ready.freeBack(l) <= 0 {
		r.backlog.Store(true)
		return nil
	}
	if record.State == fact.StateHeld {
		return r.unhold(ctx, record)
	}
	return r.enqueueRead(ctx, x, fromLedger, record)
}

// unhold decides again on an operation whose hold has ended, and queues it.
func (r *Runner) unhold(ctx context.Context, record fact.Operation) error {
	c, err := r.command(ctx, record.CommandID)
	if err != nil {
		return err
	}
	released := record
	hold := decide.Decide(r.job(record, c, nil).op, decide.HoldEnded{})
	err = r.Ledger.Write(ctx, func(tx *ledger.Tx) (err error) {
		released, err = tx.AppendTo(record.ID, record.Version, hold.Facts...)
		return err
	})
	if err != nil {
		return err
	}
	return r.enqueueTo(ctx, released, r.ready.pushBack) // it is as it is now, and comes due no more
}
