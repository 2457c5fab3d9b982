// One attempt, from its last check and its intent to the reply.

package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/upstream"
)

// send makes one attempt, from its last check to its recorded reply.
func (r *Runner) send(ctx, work context.Context, j *job) error {
	if j.sending == nil {
		goOn, err := r.prepare(ctx, j)
		if err != nil || !goOn {
			return err
		}
	}
	_, paused := r.pauses.until(j.lane)
	d := decide.Decide(j.op, decide.TurnCame{Moment: r.moment(), SignedAt: j.sending.SentAt, Paused: paused && !r.isProbe(j)})
	if !d.Send {
		return r.conclude(work, j, d)
	}
	failpoint.Reached(ctx, "send.before")
	reply := r.Provider.Post(work, upstream.Write{
		Kind: rowOf(j.op.Kind).write, Key: j.op.Key, Body: []byte(j.sending.Body), Timestamp: j.sending.SentAt, Scenario: j.cmd.Scenario,
	})
	failpoint.Reached(ctx, "send.received")
	if j.op.Ambiguous == 0 {
		r.clock.HearReply(reply.ServerTime)
	}
	j.releaseSlot()
	d = r.decideOnReply(j.op, decide.Replied{
		Moment: r.moment(), Reply: reply, Elapsed: r.elapsed(j), ReadsWork: r.readsWork(work, reply), Unknown: j.unknown, Observed: j.sending.Observed,
	})
	r.answered(work, j, reply, d)
	return r.conclude(work, j, d)
}

// errNoAnswer says that no reply came, or one that is not the API's.
var errNoAnswer = errors.New("no answer of the API's came")

// isProbe reports whether the job tests a paused lane.
func (r *Runner) isProbe(j *job) bool {
	if r.pauses.isClosed() {
		return false
	}
	for _, x := range r.pauses.list() {
		if x.Scope == decide.ScopeAccount && (x.Until == nil || x.Until.After(r.Clock())) {
			return false
		}
	}
	return j.probe
}

// elapsed returns the time since the first attempt that may have executed, or since this
// one.
func (r *Runner) elapsed(j *job) time.Duration {
	since := j.op.FirstAmbiguousAt
	if since == nil {
		since = &j.sending.SentAt
	}
	return r.clock.Elapsed(since)
}

// noteAnswer records the provider's time and its answer from a read.
func (r *Runner) noteAnswer(err error, server time.Time) {
	r.pulse.note(r.Clock(), silence(err))
	if failed, ok := errors.AsType[*upstream.Error](err); ok {
		server = failed.Timestamp
	}
	r.clock.Hear(server)
}

// decideOnReply decides on a reply. It counts consecutive rate-limit replies and those
// that were not the API's. Concurrent requests are rate limited together, which counts
// once.
func (r *Runner) decideOnReply(op decide.Operation, h decide.Replied) decide.Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	together := r.throttled > 0 && r.pauses.throttled()
	if h.Throttled = r.throttled; together {
		h.Throttled--
	}
	h.Firewalls = r.firewalls
	d := decide.Decide(op, h)
	if r.firewalls++; !d.Firewall {
		r.firewalls = 0
	}
	switch {
	case !d.Throttled:
		r.throttled = 0
	case !together:
		r.throttled++
	}
	return d
}

// readsWork reports whether a signed read succeeds. The key is then valid, but may not
// write.
func (r *Runner) readsWork(ctx context.Context, reply upstream.Reply) bool {
	if reply.Code != upstream.CodeInvalidSignature || r.pauses.throttled() || r.gate.Pass(ctx, priorityPoll) != nil {
		return false
	}
	wallet, err := r.Provider.Wallet(ctx)
	r.Read(ctx, wallet.ServerTime, err)
	return err == nil
}

// answered applies a reply's effect on the account before the operation continues, so
// that other operations do not get the same refusal.
func (r *Runner) answered(ctx context.Context, j *job, reply upstream.Reply, d decide.Decision) {
	if reply.Envelope {
		r.pulse.note(r.Clock(), nil)
	} else {
		r.pulse.note(r.Clock(), errNoAnswer)
	}
	if d.Pause != nil {
		_ = r.pause(ctx, *d.Pause) // in force even if not recorded
		return
	}
	if why := d.Inconclusive(); why != "" {
		r.pulse.left(string(j.op.Kind), "", why, r.Clock())
	} else {
		r.pulse.ended(string(j.op.Kind))
	}
	if !reply.Envelope {
		return
	}
	for _, x := range r.pauses.list() {
		if x.Scope == string(j.lane) && x.Until == nil && x.Cause != decide.CausePerson {
			r.resume(ctx, x, "a request of this kind works again")
		}
	}
}

// prepare does the precheck, passes the gate and commits the intent. goOn is false if
// the operation stops here.
func (r *Runner) prepare(ctx context.Context, j *job) (goOn bool, err error) {
	if d := r.due(j); !d.Send {
		return false, r.stop(ctx, j, d)
	}
	p := checked{ids: j.op.ProxyIDs}
	if j.op.Ambiguous == 0 || j.op.Presumed() {
		d, err := r.precheck(ctx, j, &p)
		if err != nil {
			return false, r.postpone(ctx, j, err)
		}
		if !d.Send {
			return false, r.stop(ctx, j, d)
		}
	}
	if err := r.gate.Pass(ctx, j.turn()); err != nil {
		return false, err
	}
	if r.pauses.blocked(j.lane) && !r.isProbe(j) {
		r.ready.requeue(j) // paused while it waited for its turn
		return false, nil
	}
	if d := r.due(j); !d.Send { // the precheck and the gate took their time
		return false, r.stop(ctx, j, d)
	}
	if j.op.Ambiguous > 0 && !j.op.Presumed() {
		if err := frozenBody(ctx, r.Ledger, j, &p); err != nil {
			return false, err
		}
	}
	j.unknown = p.unknown
	return r.commitIntent(ctx, j, p)
}

// due decides whether the operation may be sent now.
func (r *Runner) due(j *job) decide.Decision {
	return decide.Decide(j.op, decide.Due{
		Moment: r.moment(), Elapsed: r.clock.Elapsed(j.op.FirstAmbiguousAt), AppID: r.Provider.AppID(), NotAfter: j.cmd.NotAfter,
		WrongClock: r.clock.Wrong(),
	})
}

// stop cancels an attempt before it is sent. If it has no fact, or is postponed under a
// pause, the operation is queued again.
func (r *Runner) stop(ctx context.Context, j *job, d decide.Decision) error {
	if d.Pause != nil {
		_ = r.pause(ctx, *d.Pause) // in force even if not recorded
	}
	if len(d.Facts) == 0 || d.Postponed && r.pauses.blocked(j.lane) {
		r.ready.requeue(j)
		return nil
	}
	return r.conclude(ctx, j, d)
}

// commitIntent commits the intent. Under a daily limit one job at a time reads the
// spending and adds its own: two at once could both find room for one.
func (r *Runner) commitIntent(ctx context.Context, j *job, p checked) (goOn bool, err error) {
	if r.DailyLimitCents > 0 && j.op.Ambiguous == 0 {
		r.budget.Lock()
		defer r.budget.Unlock()
		d, err := r.pricing.again(ctx, j, &p)
		if err != nil {
			return false, err
		}
		if !d.Send {
			return false, r.stop(ctx, j, d)
		}
	}
	var intended *job
	err = r.Ledger.Write(ctx, func(tx *ledger.Tx) (err error) {
		intended, err = r.intend(tx, j, p)
		failpoint.Reached(ctx, "intent.inside")
		return err
	})
	if err != nil {
		return false, err
	}
	failpoint.Reached(ctx, "intent.committed")
	*j = *intended
	return true, nil
}

// intend appends one fact for the proxies left out and one for the intent of the next
// attempt. It returns the job to send once the transaction is committed.
func (r *Runner) intend(tx *ledger.Tx, j *job, p checked) (*job, error) {
	sending, err := r.intent(j, p, tx.Now())
	if err != nil {
		return nil, err
	}
	intended := *j
	intended.op.ProxyIDs, intended.sending = p.ids, &sending
	intended.op.Operation, err = tx.AppendTo(j.op.ID, j.op.Version, slices.Concat(p.leftOut, []fact.Fact{sending})...)
	return &intended, err
}

// frozenBody reads the body of the first attempt that may have executed.
func frozenBody(ctx context.Context, l *ledger.Ledger, j *job, p *checked) error {
	sent, err := l.Sent(ctx, j.op.BodySeq)
	if err != nil {
		return fmt.Errorf("operation %s: read its frozen body: %w", j.op.ID, err)
	}
	p.body = []byte(sent.Body)
	return nil
}

// intent returns the fact that an attempt is about to be made, with everything it sends.
// X-API-Timestamp is this moment: a delayed request becomes stale instead of charging
// late.
func (r *Runner) intent(j *job, p checked, now time.Time) (fact.OperationSending, error) {
	body := p.body
	if body == nil {
		var err error
		if body, err = r.body(j.cmd, p.ids); err != nil {
			return fact.OperationSending{}, err
		}
	}
	observed := p.observed
	if j.op.Presumed() { // current reads may show the effect of this very request
		observed = nil
	}
	return fact.OperationSending{
		Ref: j.op.Ref(""), Attempt: j.op.Attempts + 1, Key: j.op.Key, Body: string(body), SentAt: now,
		AppID: r.Provider.AppID(), Observed: observed, EstimateCents: p.estimate.Or(0),
	}, nil
}

// body makes the bytes of a request.
func (r *Runner) body(c command.Command, ids []string) ([]byte, error) {
	return rowOf(c.Kind).body(c, ids, r.CIDRField)
}
