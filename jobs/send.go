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
	"perennial/ledger/sleep"
	"perennial/upstream"
)

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
	throttled int               // consecutive rate-limit replies
	firewalls int               // consecutive 401/403 replies without an envelope
	named     map[string]string // operations by the order number in a reply that is being recorded
}

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
	owner, forget := a.ownerOf(work, reply, j.op.ID)
	defer forget()
	d = a.decideOnReply(j.op, decide.Replied{
		Moment: a.link.moment(), Reply: reply, Elapsed: a.elapsed(j), ReadsWork: a.link.readsWork(work, reply), Unknown: j.unknown, Owner: owner, Observed: j.sending.Observed,
	})
	a.answered(work, j, reply, d)
	return a.conclude(work, j, d)
}

// ownerOf returns another operation that has the order number of a reply, or whose reply with this
// number is being recorded. It returns "" if there is none. After the reply is recorded, forget must
// be called.
func (a *attempts) ownerOf(ctx context.Context, reply upstream.Reply, operationID string) (owner string, forget func()) {
	if reply.Order == nil {
		return "", func() {}
	}
	no := reply.Order.OrderNo
	a.mu.Lock()
	owner, taken := a.named[no]
	if !taken {
		a.named[no] = operationID
	}
	a.mu.Unlock()
	if taken {
		return owner, func() {}
	}
	owner, err := a.Ledger.Operations.OrderOwner(ctx, no, operationID)
	if err != nil {
		a.Log.WithError(err).WithField("operation_id", operationID).Warn("whether another operation has this order number could not be read")
	}
	return owner, func() {
		a.mu.Lock()
		delete(a.named, no)
		a.mu.Unlock()
	}
}

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

func (l *link) noteAnswer(err error, server time.Time) {
	l.pulse.note(l.Clock(), silence(err))
	switch {
	case unserved(err):
		l.pulse.left(anyRequest, "", err.Error(), l.Clock(), 0)
	case silence(err) == nil:
		l.pulse.ended(anyRequest, l.Clock())
	}
	if failed, ok := errors.AsType[*upstream.Error](err); ok {
		server = failed.Timestamp
	}
	l.clock.Hear(server)
}

// decideOnReply decides on a reply. It counts consecutive rate-limit replies and consecutive
// replies that were not from the API. A rate-limit reply that arrives during a Retry-After
// does not count, because its request was sent before the Retry-After was known.
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

// A reply's effect on the account applies before the operation continues. Without this order,
// other operations would get the same refusal.
func (a *attempts) answered(ctx context.Context, j *job, reply upstream.Reply, d decide.Decision) {
	if reply.Envelope {
		a.pulse.note(a.Clock(), nil)
		if reply.Success {
			a.pulse.ended(anyRequest, a.Clock())
		}
	} else {
		a.pulse.note(a.Clock(), errors.New(reply.Failure))
	}
	if d.Pause != nil {
		_ = a.holds.pause(ctx, *d.Pause) // the pause is in force even if it is not recorded
		return
	}
	if why := d.Inconclusive(); why != "" {
		a.pulse.left(string(j.op.Kind), "", why, a.Clock(), a.Clock().Sub(j.sending.SentAt))
	} else {
		a.pulse.ended(string(j.op.Kind), a.Clock())
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
	if d, err := a.due(ctx, j); err != nil || !d.Send {
		return false, a.unless(ctx, j, d, err)
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
	if d, err := a.due(ctx, j); err != nil || !d.Send { // the precheck and the gate may have taken long
		return false, a.unless(ctx, j, d, err)
	}
	if j.op.Ambiguous > 0 && !j.op.Presumed() {
		if err := frozenBody(ctx, a.Ledger, j, &p); err != nil {
			return false, err
		}
	}
	j.unknown = p.unknown
	return a.commitIntent(ctx, j, p)
}

// Decides whether the operation may be sent now, before the precheck and again before the intent.
func (a *attempts) due(ctx context.Context, j *job) (decide.Decision, error) {
	h := decide.Due{
		Moment: a.link.moment(), Elapsed: a.clock.Elapsed(j.op.FirstAmbiguousAt), AppID: a.Provider.AppID(), NotAfter: j.cmd.NotAfter,
		WrongClock: a.clock.Wrong(),
	}
	if j.op.Presumed() {
		h.Renewed, h.ReviewLost = a.pauses.renewedOf(j.op.ProxyIDs)
		all, err := a.Ledger.Operations.OperationsOf(ctx, j.op.CommandID)
		if err != nil {
			return decide.Decision{}, err
		}
		for _, o := range all {
			if o.State == fact.StateReview && (o.Code == string(upstream.CodeIdempotencyKeyConflict) || o.Code == decide.CodeDivided) {
				h.Conflicted = o.ID
			}
		}
	}
	return decide.Decide(j.op, h), nil
}

// unless ends an attempt that may not be sent, unless err says why that could not be decided.
func (a *attempts) unless(ctx context.Context, j *job, d decide.Decision, err error) error {
	if err != nil {
		return err
	}
	return a.stop(ctx, j, d)
}

// Ends an attempt before it is sent. The operation is queued again if the decision has no facts,
// or if it is postponed during a pause.
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

// Appends the facts of the proxies that are left out, then the intent of the next attempt. It
// returns the job to send after the commit.
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
	if j.serial { // including the operations of a split chunk
		a.loader.startRest(ctx, j.op.CommandID)
		return nil
	}
	for _, half := range after.halves {
		a.ready.push(a.loader.job(half.Operation, j.cmd, half.ProxyIDs))
	}
	return nil
}

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

// startRest queues the accepted operations of a command that have not started. If they run one by
// one, it queues only the next operation. If that fails, runDueLoop queues them later.
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
		if q.oneByOne(c) {
			return nil
		}
	}
	return nil
}

// nextStep returns a poll if the operation is an order that can be read immediately. Otherwise it
// returns nil.
func (a *attempts) nextStep(j *job, now fact.Operation) *job {
	if j.lane == lanePoll || now.State != fact.StateOpen || now.NextAt == nil || now.NextAt.After(a.Clock()) {
		return nil
	}
	op := j.op
	op.Operation = now
	return &job{lane: lanePoll, priority: priorityPoll, at: *now.NextAt, op: op, cmd: j.cmd}
}

// Appends a decision's facts if the operation has not changed since the decision. A reply that
// arrives after an operator or another runner settled the operation is recorded as a discrepancy.
// A failing ledger write is retried until it succeeds. If the ledger can never store the facts,
// the operation is put in review instead (trap 72).
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

// tooLate returns the discrepancy for a reply that arrived after an operator or another runner
// settled the operation. A late poll is a discrepancy only if an operator resolved the operation.
// Two polls of one order may overlap, and the result of the later poll may be recorded first.
func (a *attempts) tooLate(ctx context.Context, j *job, d decide.Decision) ([]fact.Fact, error) {
	if now, err := a.Ledger.Operations.Operation(ctx, j.op.ID); err != nil || j.lane == lanePoll && now.State != fact.StateResolved {
		return nil, err
	}
	return decide.Decide(j.op, decide.TooLate{Decision: d}).Facts, nil
}

// workersPerSlot is the number of workers per concurrent request. A worker frees its slot
// when the reply arrives, so that the next request can start while the reply is recorded.
const workersPerSlot = 4

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

// unsendRest records that the committed intents in the queue were never sent, when the runner
// stops. The next run need not treat them as sent.
func (w *workers) unsendRest(ctx context.Context) {
	for _, j := range w.ready.intended() {
		d := decide.Decide(j.op, decide.TurnCame{Moment: w.link.moment(), SignedAt: j.sending.SentAt, Stopping: true})
		if _, err := w.attempts.record(ctx, j, d); err != nil {
			w.Log.WithError(err).WithField("operation_id", j.op.ID).Warn("it could not be recorded that a request was not sent: the next run treats it as one that may have been")
		}
	}
}

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

// Executes the next step of a job. After an error, the operation in the ledger is unchanged, and
// step queues it again.
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

// requeue queues an accepted operation again after an error. It also wakes runDueLoop, which
// queues the operations that are not in the state accepted.
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
