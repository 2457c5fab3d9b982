// Reads of order details, and the effect of a failed read on the account.

package jobs

import (
	"context"
	"errors"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/upstream"
)

// poll reads an order's detail once and records the result.
func (r *Runner) poll(ctx, _ context.Context, j *job) error {
	if err := r.gate.Pass(ctx, priorityRenewal); err != nil { // ready has ordered it among requests that charge
		return err
	}
	if r.pauses.blocked(lanePoll) {
		r.ready.requeue(j)
		return nil
	}
	failpoint.Reached(ctx, "poll.before")
	at := r.clock.Now()
	order, err := r.Provider.Order(ctx, j.op.OrderNo)
	failpoint.Reached(ctx, "poll.received")
	if order.Refund != nil {
		failpoint.Reached(ctx, "poll.refund")
	}
	j.releaseSlot()
	r.noteAnswer(err, order.ServerTime)
	if ctx.Err() != nil {
		return ctx.Err() // a read changes nothing: it is repeated after the restart
	}
	if err != nil {
		d := decide.Decide(j.op, r.readFailed(err))
		if d.Pause != nil {
			_ = r.pause(ctx, *d.Pause) // in force even if not recorded
		} else if silence(err) != nil {
			r.pulse.left(readOrder, "", err.Error(), r.Clock())
		}
		return r.conclude(ctx, j, d)
	}
	r.pulse.ended(readOrder)
	r.noteDelivered(ctx, j.op.ID, at, order)
	return r.conclude(ctx, j, decide.Decide(j.op, decide.OrderRead{Moment: r.moment(), Order: order, PollFloor: r.PollFloor}))
}

// noteDelivered notes the proxies of an order's detail. This is a cache: the next
// listing shows them too.
func (r *Runner) noteDelivered(ctx context.Context, operation string, at time.Time, order upstream.Order) {
	if len(order.Proxies) == 0 {
		return
	}
	if err := r.noteAll(ctx, at, order.Proxies); err != nil {
		r.Log.WithError(err).WithField("operation_id", operation).Warn("the delivered proxies could not be noted")
	}
}

// Read takes in the outcome of a read by another package, such as a listing. It hears
// the time of the reply and applies its effect on the account to every sender.
func (r *Runner) Read(ctx context.Context, server time.Time, err error) {
	if errors.Is(err, upstream.ErrBadID) {
		return // nothing was sent
	}
	r.noteAnswer(err, server)
	if err == nil || r.clock == nil {
		return
	}
	h := r.readFailed(err)
	if x := decide.ReadPause(h, decide.Verdict{TraceID: h.TraceID, Reason: fact.Bounded(h.Reason)}); x != nil {
		_ = r.pause(ctx, *x) // in force even if not recorded
	}
}

// readFailed converts a failed read for Decide.
func (r *Runner) readFailed(err error) decide.OrderReadFailed {
	h := decide.OrderReadFailed{Moment: r.moment(), Reason: err.Error(), Unaskable: errors.Is(err, upstream.ErrBadID)}
	var failed *upstream.Error
	if !errors.As(err, &failed) {
		return h
	}
	h.Code, h.TraceID, h.Garbled = failed.Code, failed.TraceID, failed.Code == "" && failed.HTTPStatus/100 == 2
	if errors.Is(err, upstream.CodeRateLimited) {
		h.Code, h.RetryAfter = upstream.CodeRateLimited, failed.RetryAfter
	}
	return h
}
