// This file reads due operations from the ledger and queues them.

package jobs

import (
	"context"
	"errors"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
)

// idle is the longest time that runDueLoop sleeps.
const idle = time.Minute

// runDueLoop queues the ledger's operations when they come due. Waiting operations occupy no
// worker.
func (q *loader) runDueLoop(ctx context.Context) error {
	delays := sleep.Growing(time.Second, idle)
	var again <-chan time.Time // when to queue the missed operations
	for {
		// Both queries use the same instant. Otherwise an operation that comes due between
		// the two queries would be missed.
		now := q.clock.Now()
		if err := q.queueDue(ctx, now); err != nil && ctx.Err() == nil {
			q.Log.WithError(err).Error("the operations that are due could not be read from the ledger; the read is tried again")
		}
		q.deadLetterLog.log(q.Log, q.Clock())
		wait := idle
		if next, err := q.Ledger.Operations.NextAfter(ctx, now); err == nil && next != nil {
			wait = min(idle, max(0, next.Sub(q.clock.Now())))
		}
		if again == nil && q.missed.Load() != nil {
			again = time.After(delays.Next())
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-q.wake:
			timer.Stop()
		case <-timer.C:
		case <-again:
			timer.Stop()
			if again = nil; q.queueMissed(ctx) {
				delays.Reset()
			}
		}
	}
}

// miss makes runDueLoop queue all operations that are neither queued nor due, after err
// prevented that for one of them.
func (q *loader) miss(err error) {
	q.missed.Store(&err)
	q.wakeDueLoop()
}

// queueMissed queues the operations that are neither queued nor due. It returns false if some
// of them still cannot be queued.
func (q *loader) queueMissed(ctx context.Context) bool {
	was := q.missed.Load()
	err := q.takeUpMissed(ctx)
	if err != nil && ctx.Err() == nil {
		q.Log.WithError(err).Error("operations that could not be queued could not be read from the ledger; the read is tried again")
	}
	return err == nil && q.missed.CompareAndSwap(was, nil)
}

// Unqueued returns why operations that could be executed are not queued, or nil.
func (q *loader) Unqueued() error {
	if err := q.missed.Load(); err != nil {
		return *err
	}
	return nil
}

// due selects the due operations of one state and kind. They use the capacity of lane.
type due struct {
	state fact.State
	kind  fact.Kind
	lane  lane
}

// dueQueries lists the queries of the loop, one per state and kind, so that many operations
// of one kind do not hide the others.
var dueQueries = func() (all []due) {
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

func (q *loader) queueDue(ctx context.Context, now time.Time) error {
	q.backlog.Store(false)
	if due, err := q.Ledger.Operations.AnyDue(ctx, now); err != nil || !due {
		return err
	}
	x := q.ready.beginReading()
	defer x.end()
	for _, due := range dueQueries {
		free := q.ready.freeBack(due.lane)
		if free <= 0 {
			q.backlog.Store(true) // the number of due operations is unknown: read again when there is room
			continue
		}
		// The first rows may be operations that are already active, so ask for extra rows.
		records, err := q.Ledger.Operations.Due(ctx, due.state, due.kind, now, free+3*q.ready.capacity)
		if err != nil {
			return err
		}
		for _, record := range records {
			if err := q.queueOne(ctx, x, due.lane, record); err != nil && ctx.Err() == nil {
				q.logNotQueued(record, err)
			}
		}
	}
	return nil
}

// logNotQueued logs that an operation could not be queued, at most once a minute per
// operation.
func (q *loader) logNotQueued(record fact.Operation, err error) {
	if errors.Is(err, ledger.ErrStale) { // changed after the read: the next read returns the new version
		return
	}
	q.mu.Lock()
	now := q.Clock()
	told := now.Sub(q.notQueuedLogged[record.ID]) < time.Minute
	if !told {
		if len(q.notQueuedLogged) >= keptCommands {
			clear(q.notQueuedLogged)
		}
		q.notQueuedLogged[record.ID] = now
	}
	q.mu.Unlock()
	if !told {
		q.Log.WithError(err).WithField("operation_id", record.ID).Error("an operation could not be queued; it is tried again, and the others continue")
	}
}

func (q *loader) queueOne(ctx context.Context, x *reading, l lane, record fact.Operation) error {
	if q.ready.freeBack(l) <= 0 {
		q.backlog.Store(true)
		return nil
	}
	if record.State == fact.StateHeld {
		return q.unhold(ctx, record)
	}
	return q.enqueueRead(ctx, x, fromLedger, record)
}

// unhold records the end of an operation's hold, and queues the operation.
func (q *loader) unhold(ctx context.Context, record fact.Operation) error {
	c, err := q.command(ctx, record.CommandID)
	if err != nil {
		return err
	}
	released := record
	hold := decide.Decide(q.job(record, c, nil).op, decide.HoldEnded{})
	err = q.Ledger.Write(ctx, func(tx *ledger.Tx) (err error) {
		released, err = tx.AppendTo(record.ID, record.Version, hold.Facts...)
		return err
	})
	if err != nil {
		return err
	}
	return q.enqueueTo(ctx, released, q.ready.pushBack) // the version is current, and the operation is no longer due
}

// wakeDueLoop makes runDueLoop read the ledger now.
func (q *loader) wakeDueLoop() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
