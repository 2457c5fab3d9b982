// This file makes attempts, each from its last check and its intent to the reply.

package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/upstream"
)

// attempts sends requests and polls orders, and records their outcomes.
type attempts struct {
	*Config
	gate    *rateGate
	clock   *clock
	pauses  *pauses
	pulse   *pulse
	ready   *ready
	pricing *pricing
	holds   *holds
	link    *link
	loader  *loader
	checker *checker

	budget       sync.Mutex // held from the check of the daily limit to the intent
	shortOfMoney atomic.Bool

	mu        sync.Mutex
	throttled int // consecutive rate-limit replies
	firewalls int // consecutive 401/403 replies without an envelope
}

// send makes one attempt, from its last check to its recorded reply.
func (a *attempts) send(ctx, work context.Context, j *job) error {
	if j.sending == nil {
		goOn, err := a.prepare(ctx, j)
		if err != nil || !goOn {
			return err
		}
	}
	_, paused := a.pauses.until(j.lane)
	d := decide.Decide(j.op, decide.TurnCame{Moment: a.link.moment(), SignedAt: j.sending.SentAt, Paused: paused && !a.isProbe(j)})
	if !d.Send {
		return a.conclude(work, j, d)
	}
	failpoint.Reached(ctx, "send.before")
	reply := a.Provider.Post(work, upstream.Write{
		Kind: rowOf(j.op.Kind).write, Key: j.op.Key, Body: []byte(j.sending.Body), Timestamp: j.sending.SentAt, Scenario: j.cmd.Scenario,
	})
	failpoint.Reached(ctx, "send.received")
	if j.op.Ambiguous == 0 {
		a.clock.HearReply(reply.ServerTime)
	}
	j.releaseSlot()
	d = a.decideOnReply(j.op, decide.Replied{
		Moment: a.link.moment(), Reply: reply, Elapsed: a.elapsed(j), ReadsWork: a.link.readsWork(work, reply), Unknown: j.unknown, Observed: j.sending.Observed,
	})
	a.answered(work, j, reply, d)
	return a.conclude(work, j, d)
}

// errNoAnswer says that no reply arrived, or a reply that is not from the API.
var errNoAnswer = errors.New("no answer of the API's came")

// isProbe reports whether the job may pass its paused lane to test it.
func (a *attempts) isProbe(j *job) bool {
	if a.pauses.isClosed() {
		return false
	}
	for _, x := range a.pauses.list() {
		if x.Scope == decide.ScopeAccount && (x.Until == nil || x.Until.After(a.Clock())) {
			return false
		}
	}
	return j.probe
}

// elapsed returns the time since the first attempt that may have executed, or since this
// attempt if there is none.
func (a *attempts) elapsed(j *job) time.Duration {
	since := j.op.FirstAmbiguousAt
	if since == nil {
		since = &j.sending.SentAt
	}
	return a.clock.Elapsed(since)
}

// noteAnswer records the provider's time from a read, and whether the API replied.
func (l *link) noteAnswer(err error, server time.Time) {
	l.pulse.note(l.Clock(), silence(err))
	if failed, ok := errors.AsType[*upstream.Error](err); ok {
		server = failed.Timestamp
	}
	l.clock.Hear(server)
}

// decideOnReply decides on a reply. It counts consecutive rate-limit replies and consecutive
// replies that were not from the API. Concurrent requests that are rate limited together
// count once.
func (a *attempts) decideOnReply(op decide.Operation, h decide.Replied) decide.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	together := a.throttled > 0 && a.pauses.throttled()
	if h.Throttled = a.throttled; together {
		h.Throttled--
	}
	h.Firewalls = a.firewalls
	d := decide.Decide(op, h)
	if a.firewalls++; !d.Firewall {
		a.firewalls = 0
	}
	switch {
	case !d.Throttled:
		a.throttled = 0
	case !together:
		a.throttled++
	}
	return d
}

// readsWork reports whether a signed read succeeds after a POST was refused for its
// signature. If it does, the key is valid but may not write.
func (l *link) readsWork(ctx context.Context, reply upstream.Reply) bool {
	if reply.Code != upstream.CodeInvalidSignature || l.pauses.throttled() || l.gate.Pass(ctx, priorityPoll) != nil {
		return false
	}
	wallet, err := l.Provider.Wallet(ctx)
	l.Read(ctx, wallet.ServerTime, err)
	return err == nil
}

// answered applies a reply's effect on the account before the operation continues, so that
// other operations do not run into the same refusal.
func (a *attempts) answered(ctx context.Context, j *job, reply upstream.Reply, d decide.Decision) {
	if reply.Envelope {
		a.pulse.note(a.Clock(), nil)
	} else {
		a.pulse.note(a.Clock(), errNoAnswer)
	}
	if d.Pause != nil {
		_ = a.holds.pause(ctx, *d.Pause) // the pause is in force even if it is not recorded
		return
	}
	if why := d.Inconclusive(); why != "" {
		a.pulse.left(string(j.op.Kind), "", why, a.Clock())
	} else {
		a.pulse.ended(string(j.op.Kind))
	}
	if !reply.Envelope {
		return
	}
	for _, x := range a.pauses.list() {
		if x.Scope == string(j.lane) && x.Until == nil && x.Cause != decide.CausePerson {
			a.holds.resume(ctx, x, "a request of this kind works again")
		}
	}
}

// prepare does the precheck, waits at the gate and commits the intent. goOn is false if the
// operation is not sent now.
func (a *attempts) prepare(ctx context.Context, j *job) (goOn bool, err error) {
	if d := a.due(j); !d.Send {
		return false, a.stop(ctx, j, d)
	}
	p := checked{ids: j.op.ProxyIDs}
	if j.op.Ambiguous == 0 || j.op.Presumed() {
		d, err := a.checker.precheck(ctx, j, &p)
		if err != nil {
			return false, a.postpone(ctx, j, err)
		}
		if !d.Send {
			return false, a.stop(ctx, j, d)
		}
	}
	if err := a.gate.Pass(ctx, j.turn()); err != nil {
		return false, err
	}
	if a.pauses.blocked(j.lane) && !a.isProbe(j) {
		a.ready.requeue(j) // paused while the job waited for its turn
		return false, nil
	}
	if d := a.due(j); !d.Send { // the precheck and the gate may have taken long
		return false, a.stop(ctx, j, d)
	}
	if j.op.Ambiguous > 0 && !j.op.Presumed() {
		if err := frozenBody(ctx, a.Ledger, j, &p); err != nil {
			return false, err
		}
	}
	j.unknown = p.unknown
	return a.commitIntent(ctx, j, p)
}

// due decides whether the operation may be sent now, before the precheck and again before
// the intent.
func (a *attempts) due(j *job) decide.Decision {
	return decide.Decide(j.op, decide.Due{
		Moment: a.link.moment(), Elapsed: a.clock.Elapsed(j.op.FirstAmbiguousAt), AppID: a.Provider.AppID(), NotAfter: j.cmd.NotAfter,
		WrongClock: a.clock.Wrong(),
	})
}

// stop ends an attempt before it is sent. The operation is queued again if the decision has
// no facts, or if it is postponed during a pause.
func (a *attempts) stop(ctx context.Context, j *job, d decide.Decision) error {
	if d.Pause != nil {
		_ = a.holds.pause(ctx, *d.Pause) // the pause is in force even if it is not recorded
	}
	if len(d.Facts) == 0 || d.Postponed && a.pauses.blocked(j.lane) {
		a.ready.requeue(j)
		return nil
	}
	return a.conclude(ctx, j, d)
}

// commitIntent commits the intent. Under a daily limit, only one job at a time reads the
// spending and adds its own. Otherwise two jobs could both use the same remainder of the
// limit.
func (a *attempts) commitIntent(ctx context.Context, j *job, p checked) (goOn bool, err error) {
	if a.DailyLimitCents > 0 && (j.op.Ambiguous == 0 || j.op.Presumed()) {
		a.budget.Lock()
		defer a.budget.Unlock()
		d, err := a.pricing.again(ctx, j, &p)
		if err != nil {
			return false, err
		}
		if !d.Send {
			return false, a.stop(ctx, j, d)
		}
	}
	var intended *job
	err = a.Ledger.Write(ctx, func(tx *ledger.Tx) (err error) {
		intended, err = a.intend(tx, j, p)
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

// intend appends the facts of the proxies that are left out, then the intent of the next
// attempt. It returns the job to send after the commit.
func (a *attempts) intend(tx *ledger.Tx, j *job, p checked) (*job, error) {
	sending, err := a.intent(j, p, tx.Now())
	if err != nil {
		return nil, err
	}
	intended := *j
	intended.op.ProxyIDs, intended.sending = p.ids, &sending
	intended.op.Operation, err = tx.AppendTo(j.op.ID, j.op.Version, slices.Concat(p.leftOut, []fact.Fact{sending})...)
	return &intended, err
}

// frozenBody sets p.body to the body of the first attempt that may have executed.
func frozenBody(ctx context.Context, l *ledger.Ledger, j *job, p *checked) error {
	sent, err := l.Operations.Sent(ctx, j.op.BodySeq)
	if err != nil {
		return fmt.Errorf("operation %s: read its frozen body: %w", j.op.ID, err)
	}
	p.body = []byte(sent.Body)
	return nil
}

// intent returns the fact of the next attempt, including everything that the request sends.
// X-API-Timestamp is now, so that the provider refuses a request that is delayed too long.
func (a *attempts) intent(j *job, p checked, now time.Time) (fact.OperationSending, error) {
	body := p.body
	if body == nil {
		var err error
		if body, err = a.body(j.cmd, p.ids); err != nil {
			return fact.OperationSending{}, err
		}
	}
	observed := p.observed
	if j.op.Presumed() { // a current read may already show the effect of this request
		observed = nil
	}
	return fact.OperationSending{
		Ref: j.op.Ref(""), Attempt: j.op.Attempts + 1, Key: j.op.Key, Body: string(body), SentAt: now,
		AppID: a.Provider.AppID(), Observed: observed, EstimateCents: p.estimate.Or(0),
	}, nil
}

func (a *attempts) body(c command.Command, ids []string) ([]byte, error) {
	return rowOf(c.Kind).body(c, ids, a.CIDRField)
}
