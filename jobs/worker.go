// This file has the workers, which execute the queued jobs.

package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
)

// workersPerSlot is the number of workers per concurrent request. A worker frees its slot
// when the reply arrives, so that the next request can start while the reply is recorded.
const workersPerSlot = 4

// workers execute the queued jobs.
type workers struct {
	*Config
	ready    *ready
	link     *link
	loader   *loader
	attempts *attempts
}

// dispatch executes jobs until ctx ends, with at most Concurrency concurrent requests.
// Requests in progress use the work context, which outlives ctx by the drain time.
func (w *workers) dispatch(ctx, work context.Context) error {
	stop := w.ready.wakeAll(ctx)
	defer stop()
	var under sync.WaitGroup
	slots := make(chan struct{}, w.Concurrency)
	for range workersPerSlot * w.Concurrency {
		under.Go(func() { w.work(ctx, work, slots) })
	}
	under.Wait()
	return ctx.Err()
}

// unsendRest records that the committed intents in the queue were never sent, when the
// runner stops. The next run then need not treat them as sent.
func (w *workers) unsendRest(ctx context.Context) {
	for _, j := range w.ready.intended() {
		d := decide.Decide(j.op, decide.TurnCame{Moment: w.link.moment(), SignedAt: j.sending.SentAt, Stopping: true})
		if _, err := w.attempts.record(ctx, j, d); err != nil {
			w.Log.WithError(err).WithField("operation_id", j.op.ID).Warn("it could not be recorded that a request was not sent: the next run treats it as one that may have been")
		}
	}
}

// work executes one job after another, each with a request slot.
func (w *workers) work(ctx, work context.Context, slots chan struct{}) {
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		release := sync.OnceFunc(func() { <-slots })
		j, err := w.ready.pop(ctx)
		if err != nil {
			release()
			return
		}
		j.releaseSlot = release
		w.step(ctx, work, j)
		release()
	}
}

// step executes the next step of a job. After an error, the operation in the ledger is
// unchanged, and step queues it again.
func (w *workers) step(ctx, work context.Context, j *job) {
	step := w.attempts.send
	if j.lane == lanePoll {
		step = w.attempts.poll
	}
	err := step(ctx, work, j)
	if err == nil || ctx.Err() != nil {
		return
	}
	log := w.Log.WithError(err).WithField("operation_id", j.op.ID)
	if errors.Is(err, ledger.ErrStale) { // an operator cancelled, retried or released the operation
		log.Debug("an operation was changed while it waited for its turn; it is queued as it is now")
	} else {
		log.Error("an operation could not be continued; it is queued again")
		j.releaseSlot()
		if sleep.For(ctx, time.Second) != nil {
			return
		}
	}
	w.ready.done(j.op.ID)
	w.loader.requeue(ctx, j.op.ID)
}

// requeue queues an accepted operation again after an error. It wakes runDueLoop, which
// queues operations in other states.
func (q *loader) requeue(ctx context.Context, id string) {
	record, err := q.Ledger.Operations.Operation(ctx, id)
	if err == nil && record.State == fact.StateAccepted {
		err = q.enqueue(ctx, record)
	}
	if err != nil && ctx.Err() == nil {
		record.ID = id
		q.logNotQueued(record, err)
		q.miss(err)
	}
	q.wakeDueLoop()
}
