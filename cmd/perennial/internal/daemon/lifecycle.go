package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon/life"
	"perennial/cmd/perennial/internal/journal"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/intake"
	"perennial/queue/lease"
	"perennial/queue/letters"
	"perennial/queue/outbox"
	"perennial/queue/service"
	"perennial/queue/streams"
	"perennial/schedules"
	"perennial/upstream"
)

// lifecycle moves an account from phase to phase. Only the run method, and the methods that it
// calls, use the fields.
type lifecycle struct {
	*account

	tenure *tenure // nil while this runner may not lead

	acknowledged uint64 // newest row that this process has seen on the stream
	shorter      bool   // another runner has rows that the stream has lost and this ledger lacks
	refilled     bool   // the refill that `run --refill-events` requests is complete
	lastLogged   string // last logged failure
}

// tenure is the period in which this runner may lead the account. When the tenure ends, ctx ends
// too, and its cause says why.
type tenure struct {
	ctx   context.Context
	lease *lease.Lease // nil on the embedded server, which has no other runner
	end   func()
}

// run serves the account until ctx ends or an operator must act. After any other failure, run
// logs the error, shows the error on /readyz, waits, and continues.
func (a *lifecycle) run(ctx context.Context) error {
	defer a.hasStarted()
	err := phases(ctx, a.do, a.leave)
	a.noteRefused(ctx, err)
	state := "stopped"
	if ctx.Err() == nil {
		state += ": " + err.Error()
	}
	a.setState(state)
	return err
}

// waitFirst and waitMost limit the wait after a failure. After waitMost without a failure, the
// wait starts at waitFirst again.
const (
	waitFirst = 250 * time.Millisecond
	waitMost  = 15 * time.Second
)

// phases runs one phase after another until ctx ends or the phase is life.Stopped. It returns
// the error of the last phase before life.Stopped. It returns nil if ctx ends between phases. It
// calls leave after each phase.
func phases(ctx context.Context, do func(context.Context, life.Phase) error, leave func(life.Arrow, error)) error {
	delay := sleep.Growing(waitFirst, waitMost)
	phase, began := life.Closed, time.Now()
	for ctx.Err() == nil {
		err := do(ctx, phase)
		next := life.After(phase, phaseOutcome(ctx, phase, err))
		leave(next, err)
		if next.To == life.Stopped {
			return err
		}
		if next.Waits {
			if time.Since(began) > waitMost {
				delay.Reset()
			}
			_ = delay.Wait(ctx)
			began = time.Now()
		}
		phase = next.To
	}
	return nil
}

func phaseOutcome(ctx context.Context, p life.Phase, err error) life.Outcome {
	switch {
	case ctx.Err() != nil:
		return life.Stop
	case refused(err):
		return life.Refused
	case errors.Is(err, errHandedOver):
		return life.HandedOver
	case journal.IsLater(err):
		return life.Outdated
	case errors.Is(err, jobs.ErrLost):
		return life.LeaseLost
	case errors.Is(err, errLedgerUnusable), errors.Is(err, journal.ErrLedgerBefore):
		return life.Unusable
	case err == nil && p != life.Leading:
		return life.Done
	}
	return life.Failed
}

// refused reports whether an operator must act before the account is served again. It
// returns true if the provider's account, or the stream's history, does not belong to the
// ledger. It also returns true if another account of this process uses the provider's
// account.
func refused(err error) bool {
	var binding *jobs.BindingError
	var diverged *outbox.DivergedError
	return errors.As(err, &binding) || errors.As(err, &diverged) || errors.Is(err, errTwoNames)
}

func (a *lifecycle) do(ctx context.Context, p life.Phase) error {
	switch p {
	case life.Closed:
		return a.prepare(ctx)
	case life.Following:
		return a.awaitTenure(ctx)
	case life.TakingOver:
		return a.tenure.why(ctx, a.takeOver(a.tenure.ctx))
	case life.Leading:
		return a.tenure.why(ctx, a.serve(a.tenure.ctx, a.tenure.lease))
	case life.Stopped:
	}
	return ctx.Err()
}

// leave ends the tenure unless the next phase also needs the tenure. If the runner waits
// before the next phase, leave logs and shows the reason.
func (a *lifecycle) leave(next life.Arrow, err error) {
	if a.tenure != nil && next.To != life.TakingOver && next.To != life.Leading {
		a.tenure.end()
		a.tenure = nil
	}
	if !next.Waits {
		return
	}
	why := "it ended and is started again"
	if err != nil {
		why = err.Error()
	}
	state := "waits to be started again: " + why
	if a.lastLogged != state {
		a.log.WithError(err).Warn("the account cannot work now; it is started again")
	}
	a.lastLogged = state
	a.report(state)
}

// prepare returns once NATS is reachable, the streams are as required, and the ledger is open.
func (a *lifecycle) prepare(ctx context.Context) error {
	if why := a.host.Queue.Down(); why != "" {
		a.report(why)
	}
	if err := a.js().AwaitConnected(ctx); err != nil {
		return err
	}
	if err := a.host.refuseAnonymous(); err != nil {
		return err
	}
	if most := a.js().MaxPayload(); most < RequiredPayload {
		return fmt.Errorf("max_payload of the NATS server is %s: an event of up to %s could not be published, nor any after it. Set max_payload: 1MB or more", humanize.IBytes(uint64(most)), humanize.IBytes(ledger.MaxFactBytes))
	}
	if err := errors.Join(a.file.reopenReadOnly(ctx), a.ensureStreams(ctx)); err != nil || a.host.Embedded != nil {
		return err
	}
	if err := a.file.rebuild(ctx); err != nil {
		return err
	}
	return a.awaitLongerLedger(ctx)
}

// awaitTenure returns when this runner may lead. On an external NATS, this requires the
// account's lease.
func (a *lifecycle) awaitTenure(ctx context.Context) error {
	if a.host.Embedded != nil {
		a.tenure = &tenure{ctx: ctx, end: func() {}}
		return nil
	}
	lease, err := a.awaitLease(ctx)
	if err == nil {
		a.tenure = a.newTenure(ctx, lease)
	}
	return err
}

// newTenure begins a tenure that ends when the lease is lost, the ledger becomes unusable,
// or the account is handed over.
func (a *lifecycle) newTenure(ctx context.Context, lease *lease.Lease) *tenure {
	held, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-lease.Lost():
			cancel(errLeaseLost)
		case <-held.Done():
		}
	}()
	go a.file.watchLedger(held, cancel)
	a.log.WithField("holder", a.host.holder).Info("this runner has the account's lease")
	a.setHolding(holding{since: time.Now(), giveUp: func() { cancel(errHandedOver) }})
	return &tenure{ctx: held, lease: lease, end: func() {
		lost := errors.Is(context.Cause(held), errLeaseLost)
		release, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer stop()
		if err := lease.Release(release); err != nil && !lost {
			a.log.WithError(err).Warn("the account's lease could not be given back; it expires")
		}
		a.setHolding(holding{})
		cancel(nil)
	}}
}

// why returns the reason why a phase ended with err. If an important cause ended the tenure, the
// reason is that cause. Otherwise the reason is err.
func (t *tenure) why(ctx context.Context, err error) error {
	switch cause := context.Cause(t.ctx); {
	case errors.Is(cause, errLeaseLost), errors.Is(cause, errLedgerUnusable):
		return cause
	case ctx.Err() == nil && errors.Is(cause, errHandedOver) && !refused(err):
		return errHandedOver
	}
	return err
}

// takeOver does the repair that `run --refill-events` requests. On an external NATS, it then
// applies the account's events to the ledger. It returns an error if another runner has a longer
// ledger and must therefore lead.
func (a *lifecycle) takeOver(ctx context.Context) error {
	if a.host.Embedded != nil {
		return a.removeForeign(ctx)
	}
	a.setState("reading the account's events to their end")
	if err := a.removeForeign(ctx); err != nil {
		return err
	}
	err := a.journal().FoldToEnd(ctx)
	a.outdated.note(err)
	if err != nil {
		return err
	}
	return a.yieldToLongest(ctx)
}

// noteRefused records the number of rows that this process has seen on a stream that lost rows
// later. The record is permanent, so the next start refuses the stream too.
func (a *lifecycle) noteRefused(ctx context.Context, err error) {
	diverged, ok := errors.AsType[*outbox.DivergedError](err)
	if !ok || diverged.StreamSeq >= a.acknowledged {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishAtEnd)
	defer cancel()
	const firm = true // recorded as an orderly stop, because no crash explains the loss
	if err := a.Ledger().NotePublished(ctx, int64(a.acknowledged), firm); err != nil {
		a.log.WithError(err).Error("the ledger could not note what the events stream has lost: do not start the account again before the stream is checked")
	}
}

// waitsForLease is the state of a standby.
const waitsForLease = "another runner leads the account, and this one is a standby"

const streamsTimeout = 10 * time.Second

func (a *account) ensureStreams(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, streamsTimeout)
	defer cancel()
	return a.streams().Ensure(ctx, a.js())
}

var errLeaseLost = fmt.Errorf("the account's lease was lost: %w", jobs.ErrLost)

// RequiredPayload is the max_payload that a NATS server needs, in bytes: the largest fact with
// its envelope and headers.
const RequiredPayload = ledger.MaxFactBytes + 16<<10

// bind reads the provider's account, and retries until the provider replies. It returns an error
// only in three cases: the ledger is that of a different provider account, this process uses
// the provider account under another name, or ctx ends.
func (a *lifecycle) bind(ctx context.Context, runner *jobs.Runner) error {
	retry, said := sleep.Doubling(time.Second, time.Minute), ""
	for {
		err := runner.Bind(ctx)
		var mismatch *jobs.BindingError
		a.update(func(x *current) { x.unbound = "" })
		if err == nil || errors.As(err, &mismatch) || errors.Is(err, errTwoNames) || ctx.Err() != nil {
			return err
		}
		a.setState(bindFailure(err))
		pause := retry.Next()
		if !refusedBy(err) {
			pause = min(pause, bindAgain)
		}
		if throttled, ok := errors.AsType[*jobs.ThrottledError](err); ok {
			a.setState(err.Error())
			pause = max(pause, min(time.Until(throttled.Until), longestBindWait))
		} else {
			a.update(func(x *current) { x.unbound = bindFailure(err) })
		}
		a.hasStarted()
		if why := bindFailure(err); why != said {
			a.log.Warn(why + ": nothing is sent before the provider's account can be read; trying again")
			said = why
		}
		if err := waitOrResumed(ctx, runner, pause); err != nil {
			return err
		}
	}
}

// bindFailure returns a message that distinguishes a provider that refuses the key from a
// provider that does not reply.
func bindFailure(err error) string {
	if refusedBy(err) {
		return "the provider refused: " + err.Error() + " (are app_id, the secret and base_url right?)"
	}
	return "the provider does not answer: " + err.Error()
}

func refusedBy(err error) bool {
	refused, ok := errors.AsType[*upstream.Error](err)
	return ok && refused.HTTPStatus/100 == 4
}

// bindAgain limits the pause between two requests to a provider that does not reply at the
// start. It is short, because an operator may start the runner before the network or the
// sandbox.
const bindAgain = 10 * time.Second

// longestBindWait limits the pause between two requests at the start. It applies even if the
// provider's Retry-After is longer.
const longestBindWait = 10 * time.Minute

// waitOrResumed waits for a duration, or until an operator ends the Retry-After in force.
func waitOrResumed(ctx context.Context, runner *jobs.Runner, d time.Duration) error {
	end, held := time.Now().Add(d), runner.Throttled()
	for time.Now().Before(end) && runner.Throttled() == held {
		if err := sleep.For(ctx, min(d, time.Second)); err != nil {
			return err
		}
	}
	return nil
}

// mayHaveLost is the period after a reconnect in which a new leader checks whether the events
// stream has lost rows. It also limits the wait for the other runners' heartbeats.
const mayHaveLost = time.Minute

// yieldToLongest returns nil if this runner may continue from the end of its ledger. It
// returns an error if the events stream has lost rows and another live runner has more of
// these rows. A history continued from the shorter ledger would lack requests that the other
// runner sent. Only the runner with the lease calls yieldToLongest, and its ledger has every
// row of the stream.
func (a *lifecycle) yieldToLongest(ctx context.Context) error {
	last, found, err := a.events().LastRow(ctx)
	if err != nil {
		return err
	}
	head, _, err := a.Ledger().Head(ctx)
	lost, reconnected := uint64(head) > last.StreamSeq, a.host.reconnected()
	heard := a.host.peers.HeardSince(reconnected, time.Now())
	known := reconnected.IsZero() || !heard.IsZero() && time.Since(heard) > mayHaveLost
	if err != nil || a.refills() || !lost && known {
		return err
	}
	if lost && found { // an empty stream is not a loss: the account moves to this server
		a.log.Warnf("the events stream ends with row %d and this ledger with row %d: the stream has lost rows that it had acknowledged, as in a power cut of its servers. "+
			"They are published again from the longest ledger. Commands that were acknowledged just before may be lost too: their publishers have to send them again, under their ids", last.StreamSeq, head)
	}
	a.setState("NATS was away: waiting for the other runners to say how many rows they have")
	if err := a.awaitPeers(ctx); err != nil {
		return err
	}
	name, row := a.host.peers.Longest(a.Name, a.host.name.Get(), time.Now())
	if last, _, err = a.events().LastRow(ctx); err != nil || row <= max(head, int64(last.StreamSeq)) {
		return err
	}
	a.shorter = true
	return fmt.Errorf("the events stream ends with row %d, this ledger with row %d and that of runner %s with row %d: the stream has lost rows, and that runner has to publish them again. Where it cannot, stop it and keep its ledger", last.StreamSeq, head, name, row)
}

// awaitPeers returns when this runner has heard every live runner, at the latest after
// mayHaveLost. First, this runner must prove that NATS delivers heartbeats. It must receive its
// own heartbeats for the longest time that a live runner may be silent. A connection alone
// proves nothing: servers that have just started may accept connections before they store
// messages.
func (a *lifecycle) awaitPeers(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < mayHaveLost; {
		heard := a.host.peers.HeardSince(a.host.reconnected(), time.Now())
		if !heard.IsZero() && time.Since(heard) >= cluster.LateAfter {
			return nil
		}
		if err := sleep.For(ctx, announceDelay); err != nil {
			return err
		}
	}
	a.log.Warnf("bucket %s does not carry what runners say of themselves: the account continues without knowing how many rows the others have", queue.NodesBucket)
	return nil
}

// awaitLongerLedger keeps a runner that yielded to a longer ledger from taking the lease
// again. It returns when the stream has rows that this ledger lacks, or when no other live
// runner has a longer ledger.
func (a *lifecycle) awaitLongerLedger(ctx context.Context) error {
	for a.shorter {
		last, _, err := a.events().LastRow(ctx)
		if err == nil { // after an error, the loop reads the stream again
			head, _, err := a.Ledger().Head(ctx)
			if err != nil {
				return err
			}
			_, row := a.host.peers.Longest(a.Name, a.host.name.Get(), time.Now())
			a.shorter = uint64(head) >= last.StreamSeq && row > head
		}
		if err := sleep.For(ctx, rewatchDelay); err != nil {
			return err
		}
	}
	return nil
}

// removeForeign recreates the events stream if it has foreign messages or lost its first
// events. First it checks that all other messages on the stream are rows of this ledger. The
// outbox then publishes all rows again. If the stream has a row that this ledger lacks, the
// ledger may be outdated: removeForeign changes nothing and returns an error. It does nothing
// without `run --refill-events`.
func (a *lifecycle) removeForeign(ctx context.Context) error {
	if !a.refills() {
		return nil
	}
	foreign, err := a.foreignMessages(ctx)
	if err != nil {
		return err
	}
	lost := a.checkBegin(ctx)
	if _, diverged := errors.AsType[*outbox.DivergedError](lost); lost != nil && !diverged {
		return lost
	}
	if foreign == 0 && lost == nil {
		return nil
	}
	if _, err := a.Ledger().Verify(ctx); err != nil {
		return fmt.Errorf("the events stream is not filled from a ledger that cannot be proved: %w", err)
	}
	if lost != nil {
		a.log.WithError(lost).Warn("the first events are gone from the stream; it is removed and made again, and everything is published again from the ledger. Durable consumers begin again")
	} else {
		a.log.WithField("messages", foreign).Warn("other clients have published on the events stream; it is removed and made again, and everything is published again from the ledger. Durable consumers begin again")
	}
	if err := streams.RemoveEvents(ctx, a.js(), a.Name); err != nil {
		return err
	}
	return a.ensureStreams(ctx)
}

// foreignMessages counts the messages on the events stream that are not journal rows with the
// sequence of the message. It returns an error for a row that this ledger lacks.
func (a *lifecycle) foreignMessages(ctx context.Context) (n int, err error) {
	own := &journal.Source{Ledger: a.Ledger()}
	for e, err := range a.events().History(ctx, 1) {
		if err != nil {
			return n, fmt.Errorf("look for messages of others among the events: %w", err)
		}
		if e.Seq == 0 || e.Hash == "" {
			n++
			continue
		}
		hash, known, err := own.HashAt(ctx, e.Seq)
		if err != nil {
			return n, fmt.Errorf("row %d, which is on the events stream: %w", e.Seq, err)
		}
		if !known || hash != e.Hash {
			return n, &outbox.DivergedError{
				Account: a.Name, StreamSeq: e.StreamSeq, LedgerSeq: e.Seq, StreamHash: e.Hash, LedgerHash: hash,
				Reason: "the stream holds a row that this ledger does not have: nothing was removed from it",
			}
		}
		if e.Seq != e.StreamSeq { // a copy of a row at a wrong sequence; the outbox publishes each row at its own sequence
			n++
		}
	}
	return n, nil
}

// publishAtEnd is the longest time that a stopping account waits for the publication of its
// last events.
const publishAtEnd = 10 * time.Second

// serve binds the account to its provider and works until ctx ends or something fails. It then
// publishes the last facts. lease is nil on the embedded server.
func (a *lifecycle) serve(ctx context.Context, lease *lease.Lease) error {
	commands, err := a.takeCommands(ctx)
	if err != nil {
		return err
	}
	defer commands.Close()
	held, err := a.checkHistory(ctx)
	if err != nil {
		return err
	}
	begin, _, err := a.Ledger().Head(ctx)
	if err != nil {
		return err
	}
	outbox, err := a.newOutbox(ctx, held)
	if err != nil {
		return err
	}
	ctx, end, err := a.lead(ctx, lease, outbox)
	if err != nil {
		return err
	}
	defer end()
	counted := a.meter.newFactCounter(a.Ledger(), a.log)
	runner := a.newRunner(ctx, commands, counted)
	a.setState("reading the provider's account")
	stop, err := a.serveVerbs(ctx, runner)
	if err != nil {
		return err
	}
	// Otherwise checks and metrics would show the state of this time after another runner has the
	// account. The service ends first, because its handlers use the runner.
	defer a.update(func(x *current) { x.runner, x.outbox, x.sweeper = nil, nil, nil })
	defer func() { _ = stop() }()
	if err := a.bind(ctx, runner); err != nil {
		return err
	}
	sweeper, err := a.newSweeper(runner)
	if err != nil {
		return err
	}
	a.update(func(x *current) { x.outbox, x.sweeper = outbox, sweeper })
	a.lastLogged = ""
	a.report("")
	defer counted.start(outbox, begin)()
	return a.workAndPublish(ctx, runner, outbox, sweeper)
}

func (a *lifecycle) newOutbox(ctx context.Context, held outbox.Held) (outbox *outbox.Outbox, err error) {
	outbox = a.journal().Outbox()
	outbox.Held, outbox.Refill, outbox.RefillAdvice = held, a.refills(), journal.RefillAdvice
	outbox.Begins = journal.EventsBegin(a.Ledger())
	outbox.Answered, err = a.answersAfter(ctx)
	return outbox, err
}

// serveVerbs starts the account's service before the provider has replied. An operator can then
// see that a start waits for a Retry-After, and end the wait.
func (a *lifecycle) serveVerbs(ctx context.Context, runner *jobs.Runner) (stop func() error, err error) {
	if err := runner.Load(ctx); err != nil {
		return nil, err
	}
	a.update(func(x *current) { x.runner, x.outbox, x.sweeper = runner, nil, nil })
	served := answers{a.account}.verbs()
	for i, v := range served {
		served[i].Metadata = a.host.metadata[v.Name]
	}
	return service.Serve(ctx, a.js(), service.Service{Account: a.Name, Version: config.Version, Verbs: served, Clock: time.Now})
}

func (a *lifecycle) refills() bool { return a.host.Config.RefillEvents && !a.refilled }

// checkHistory compares the end of the events stream with the ledger before anything is written
// or sent. If the stream has more rows or other rows, another ledger wrote them. That ledger has
// requests that this ledger lacks. If the stream lost data, outbox.Held describes what happens.
func (a *lifecycle) checkHistory(ctx context.Context) (held outbox.Held, err error) {
	last, found, err := a.events().LastRow(ctx)
	if err != nil {
		return held, err
	}
	noted, err := a.Ledger().Published(ctx)
	if err != nil {
		return held, err
	}
	held = journal.HeldFromNote(noted)
	if last.Seq == 0 && a.acknowledged > 0 { // this process has seen rows on the stream
		held.Last, held.Firm = max(held.Last, a.acknowledged), max(held.Firm, a.acknowledged)
	}
	if found && last.Hash == "" {
		return held, journal.ForeignEvent(a.Name, last)
	}
	if missing := held.Missing(last.Seq); missing != "" && !a.refills() {
		return held, &outbox.DivergedError{Account: a.Name, StreamSeq: last.Seq, LedgerSeq: held.Last, Reason: missing + "\n" + journal.RefillAdvice}
	}
	if !found {
		return held, nil
	}
	err = a.journal().Compare(ctx, last)
	if other, ok := errors.AsType[*outbox.DivergedError](err); ok && other.LedgerHash == "" && other.StreamSeq > other.LedgerSeq && a.Ledger().Follows() {
		return held, fmt.Errorf("account %s: row %d arrived on the events stream while the account was taken over: it is applied first", a.Name, last.Seq)
	}
	if err != nil {
		return held, err
	}
	return held, a.checkBegin(ctx)
}

// checkBegin returns an error if the events stream lacks its first events although,
// according to this ledger, they were not archived.
func (a *lifecycle) checkBegin(ctx context.Context) error {
	state, err := a.events().State(ctx)
	if err != nil {
		return err
	}
	latest, err := a.Ledger().EventsBegin(ctx)
	if err != nil {
		return err
	}
	if why := outbox.MissingBefore(state.First, uint64(latest)); why != "" {
		return &outbox.DivergedError{Account: a.Name, StreamSeq: state.First, LedgerSeq: state.Last, Reason: why}
	}
	return nil
}

func (a *lifecycle) workAndPublish(ctx context.Context, runner *jobs.Runner, outbox *outbox.Outbox, sweeper *schedules.Sweeper) error {
	publishing, stopPublishing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPublishing()
	published := make(chan struct{})
	work, workCtx := errgroup.WithContext(ctx)
	workCtx, stopWork := context.WithCancelCause(workCtx)
	defer stopWork(nil)
	go func() {
		err := outbox.Run(publishing)
		if publishing.Err() == nil {
			stopWork(err) // stream and ledger differ, so nothing more is sent
		}
		stopPublishing() // publishRest must not wait for rows that will never be published
		close(published)
	}()
	work.Go(func() error { return runner.Run(workCtx) })
	work.Go(func() error {
		select {
		case <-runner.MayPlan():
			return sweeper.Run(workCtx)
		case <-workCtx.Done():
			return workCtx.Err()
		}
	})
	work.Go(func() error { return a.keepStreams(workCtx) })
	work.Go(func() error { return a.keepConsumers(workCtx) })
	work.Go(func() error { return a.keepNote(workCtx, outbox) })
	work.Go(func() error { a.runWebhooks(workCtx); return nil })
	err := work.Wait()
	if cause := context.Cause(workCtx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if !errors.Is(context.Cause(ctx), jobs.ErrLost) {
		a.publishRest(publishing, outbox)
	}
	stopPublishing()
	<-published
	a.acknowledged = max(a.acknowledged, outbox.Published())
	a.refilled = a.refilled || outbox.Published() >= outbox.Held.Last
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, jobs.ErrLost):
		return cause
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return nil
	}
	return err
}

const streamsEvery = 10 * time.Second

// keepStreams recreates a deleted stream. The outbox decides whether to publish its rows again.
// If another program has changed a stream's settings, /readyz shows this.
func (a *lifecycle) keepStreams(ctx context.Context) error {
	for sleep.For(ctx, streamsEvery) == nil {
		if a.host.Queue.Down() != "" {
			continue // the check of NATS reports this error; the state of the streams is unknown
		}
		err := a.ensureStreams(ctx)
		switch {
		case err == nil:
			a.setState("")
		case ctx.Err() == nil:
			a.setState("its streams are not as they should be: " + err.Error())
			a.log.WithError(err).Warn("the account's streams are not as they should be")
		}
	}
	return ctx.Err()
}

const consumersEvery = time.Minute

// keepConsumers recreates each consumer that lacks a command of the stream and would never
// deliver it.
func (a *lifecycle) keepConsumers(ctx context.Context) error {
	for sleep.For(ctx, consumersEvery) == nil {
		if _, err := intake.RenewConsumers(ctx, a.js(), a.Name); err != nil && ctx.Err() == nil {
			a.log.WithError(err).Warn("the account's consumers could not be compared with its commands")
		}
	}
	return ctx.Err()
}

const noteEvery = time.Minute

// keepNote regularly notes in the ledger which row was published last. It begins after the first
// acknowledgement.
func (a *lifecycle) keepNote(ctx context.Context, outbox *outbox.Outbox) error {
	if err := outbox.Wait(ctx, 1); err != nil {
		return err
	}
	for {
		a.notePublished(ctx, outbox, false)
		if err := sleep.For(ctx, noteEvery); err != nil {
			return err
		}
	}
}

// notePublished notes in the ledger which row was published last. stopped means that the account
// is stopping in an orderly way.
func (a *lifecycle) notePublished(ctx context.Context, outbox *outbox.Outbox, stopped bool) {
	seq := outbox.Published()
	if seq == 0 {
		return
	}
	if err := a.Ledger().NotePublished(ctx, int64(seq), stopped); err != nil && ctx.Err() == nil {
		a.log.WithError(err).Warn("the ledger could not note how far it was published; it is tried again")
	}
}

// publishRest waits until the events stream has the last facts, at most publishAtEnd.
func (a *lifecycle) publishRest(ctx context.Context, outbox *outbox.Outbox) {
	ctx, cancel := context.WithTimeout(ctx, publishAtEnd)
	defer cancel()
	seq, _, err := a.Ledger().Head(ctx)
	if err == nil {
		err = outbox.Wait(ctx, uint64(seq))
	}
	if err != nil {
		a.log.Warn("not every event could be published before the end; the next run publishes them")
	}
	a.notePublished(ctx, outbox, err == nil)
}

// askEvery is the interval at which an idle runner sends a request to the provider.
const askEvery = 5 * time.Second

func (a *lifecycle) newRunner(ctx context.Context, commands *intake.Intake, counted *factCounter) *jobs.Runner {
	address := a.Client.BaseURL()
	if a.host.Config.Embedded {
		address = config.EmbeddedSandbox
	}
	return jobs.NewRunner(jobs.Config{
		Account: a.Name, Ledger: a.Ledger(), Provider: a.Client, Address: address, Commands: commands,
		DeadLetter: a.deadLetter, MayBind: a.mayBind,
		Taken:     counted.take,
		Answer:    inboxes{a.account}.answerInbox,
		AnswerEnd: func(inbox, id string) { inboxes{a.account}.answerEnd(ctx, inbox, id) },
		Clock:     time.Now, Random: rand.Float64, Log: a.log, Version: config.Version, Holder: a.host.holder,
		RatePerSecond: a.config.RatePerSecond, Concurrency: a.config.Concurrency, PollFloor: a.config.PollFloor, CIDRField: a.config.CIDRField,
		DailyLimitCents: a.config.DailyLimitCents, DailyLimitLocation: a.config.Location,
		ReconcileEvery: a.config.ReconcileEvery, AskEvery: askEvery,
	})
}

func (a *lifecycle) deadLetter(ctx context.Context, dead letters.Dead) error {
	err := a.letters().Store(ctx, dead)
	if err == nil {
		a.meter.deadLetters.Inc()
	}
	return err
}
