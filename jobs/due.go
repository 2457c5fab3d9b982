// The loop that reads due operations from the ledger and queues them.

package jobs

import (
	"context"
	"errors"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// idle is how long runDueLoop sleeps if the ledger names no time.
const idle = time.Minute

// runDueLoop queues operations of the ledger as they come due. A waiting operation
// occupies no worker.
func (r *Runner) runDueLoop(ctx context.Context) error {
	for {
		// Both queries use one instant. Otherwise an operation that comes due between
		// them would be missed.
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

// due is a set of operations that come due in the ledger, by state and kind, and the
// lane whose room they take.
type due struct {
	state fact.State
	kind  fact.Kind
	lane  lane
}

// comesBack lists the queries of the loop. Each state and kind is separate, so that a
// full one does not hide the others.
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
			r.backlog.Store(true) // unknown: read again when there is room
			continue
		}
		// The first rows may be active already: ask for that many more.
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

// cannotGoOn logs, at most once a minute, that an operation could not be queued. The
// others continue.
func (r *Runner) cannotGoOn(record fact.Operation, err error) {
	if errors.Is(err, ledger.ErrStale) { // changed since it was read: the next read shows it
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

// unhold decides on an operation whose hold has expired, and queues it.
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
	return r.enqueueTo(ctx, released, r.ready.pushBack) // current as read, and no longer due
}
