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

func (a *attempts) poll(ctx, _ context.Context, j *job) error {
	if err := a.gate.Pass(ctx, priorityRenewal); err != nil { // ready has already ordered the poll among the requests that charge
		return err
	}
	if a.pauses.blocked(lanePoll) {
		a.ready.requeue(j)
		return nil
	}
	failpoint.Reached(ctx, "poll.before")
	at := a.clock.Now()
	order, err := a.Provider.Order(ctx, j.op.OrderNo)
	failpoint.Reached(ctx, "poll.received")
	if order.Refund != nil {
		failpoint.Reached(ctx, "poll.refund")
	}
	j.releaseSlot()
	a.link.noteAnswer(err, order.ServerTime)
	if ctx.Err() != nil {
		return ctx.Err() // a read changes nothing, so it is repeated after a restart
	}
	if err != nil {
		d := decide.Decide(j.op, a.link.readFailed(err))
		if d.Pause != nil {
			_ = a.holds.pause(ctx, *d.Pause) // the pause is in force even if it is not recorded
		} else if silence(err) != nil && !errors.Is(err, context.Canceled) {
			a.pulse.left(readOrder, "", err.Error(), a.Clock(), 0)
		}
		return a.conclude(ctx, j, d)
	}
	a.pulse.ended(readOrder, a.Clock())
	a.checker.noteDelivered(ctx, j.op.ID, at, order)
	return a.conclude(ctx, j, decide.Decide(j.op, decide.OrderRead{Moment: a.link.moment(), Order: order, PollFloor: a.PollFloor}))
}

// noteDelivered stores the proxies of an order's details. A failure is only logged, because
// the next listing shows the proxies too.
func (c *checker) noteDelivered(ctx context.Context, operation string, at time.Time, order upstream.Order) {
	if len(order.Proxies) == 0 {
		return
	}
	if err := c.noteAll(ctx, at, order.Proxies); err != nil {
		c.Log.WithError(err).WithField("operation_id", operation).Warn("the delivered proxies could not be noted")
	}
}

// Read applies the outcome of a read, such as a listing by another package. It records the
// provider's time and pauses the account if err requires it.
func (l *link) Read(ctx context.Context, server time.Time, err error) {
	if errors.Is(err, upstream.ErrBadID) {
		return // nothing was sent
	}
	l.noteAnswer(err, server)
	if err == nil {
		return
	}
	h := l.readFailed(err)
	if x := decide.ReadPause(h, decide.Verdict{TraceID: h.TraceID, Reason: fact.Bounded(h.Reason)}); x != nil {
		_ = l.holds.pause(ctx, *x) // the pause is in force even if it is not recorded
	}
}

func (l *link) readFailed(err error) decide.OrderReadFailed {
	h := decide.OrderReadFailed{Moment: l.moment(), Reason: err.Error(), Unaskable: errors.Is(err, upstream.ErrBadID)}
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
