// The phases of an account, in the order that package life decides.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"perennial/cmd/perennial/internal/daemon/life"
	"perennial/cmd/perennial/internal/journal"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/sleep"
	"perennial/queue/lease"
	"perennial/queue/outbox"
)

// lifecycle moves an account from phase to phase. Only run and the methods it calls use the
// fields.
type lifecycle struct {
	*account

	tenure *tenure // nil while this runner may not lead

	acknowledged uint64 // newest row that this process has seen on the stream
	shorter      bool   // another runner has rows that the stream has lost and this ledger lacks
	refilled     bool   // the refill that `run --refill-events` requests is complete
	lastLogged   string // last logged failure
}

// tenure is the period in which this runner may lead the account. ctx ends with the tenure,
// and the cause of ctx is the reason.
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

// phases runs one phase after another until ctx ends or the phase is life.Stopped. It
// returns the error of the phase that led to life.Stopped, or nil if ctx ends between
// phases. It calls leave after each phase.
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

// phaseOutcome returns the outcome of a phase that ended with err.
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
	a.setState(state)
	a.hasStarted()
}

// prepare returns once NATS is reachable, the streams are as required, and the ledger is open.
func (a *lifecycle) prepare(ctx context.Context) error {
	if why := a.host.Queue.Down(); why != "" {
		a.setState(why)
		a.hasStarted()
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
	if err := a.ensureStreams(ctx); err != nil || a.host.Embedded != nil {
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

// why returns the reason for the end of a phase that returned err: the cause that ended the
// tenure, or err if the tenure has no such cause.
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
// applies the account's events to the ledger, and returns an error if another runner's
// longer ledger must lead.
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

// noteRefused permanently records how many rows this process saw on a stream that then lost
// them, so that the next start refuses the stream too.
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

// streamsTimeout limits one check of the account's streams.
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
