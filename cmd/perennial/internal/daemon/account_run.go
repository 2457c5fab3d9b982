// How an account is served again after a failure, and which failures are final.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/sleep"
	"perennial/queue/lease"
	"perennial/queue/outbox"
)

// run serves the account until ctx ends or a final failure. Any other failure is logged,
// shown on /readyz, and followed by another turn.
func (a *account) run(ctx context.Context) error {
	defer a.hasStarted()
	err := turns(ctx, a.turn, a.notWorking)
	a.noteRefused(ctx, err)
	state := "stopped"
	if ctx.Err() == nil {
		state += ": " + err.Error()
	}
	a.setState(state)
	return err
}

// noteRefused makes the note of rows seen on a stream that lost them firm: the next
// start must refuse that stream too.
func (a *account) noteRefused(ctx context.Context, err error) {
	diverged, ok := errors.AsType[*outbox.DivergedError](err)
	if !ok || diverged.StreamSeq >= a.acknowledged {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishAtEnd)
	defer cancel()
	const firm = true // as after an orderly stop: no crash explains the loss
	if err := a.Ledger().NotePublished(ctx, int64(a.acknowledged), firm); err != nil {
		a.log.WithError(err).Error("the ledger could not note what the events stream has lost: do not start the account again before the stream is checked")
	}
}

// turns runs one turn after another until ctx ends or a turn ends for good. The wait
// after a failed turn grows up to 15 s.
func turns(ctx context.Context, turn func(context.Context) error, notWorking func(error)) error {
	delay := sleep.Growing(turnFirst, turnMost)
	for ctx.Err() == nil {
		began := time.Now()
		err := turn(ctx)
		if ctx.Err() != nil || final(err) {
			return err
		}
		if time.Since(began) > turnMost {
			delay.Reset()
		}
		notWorking(err)
		_ = delay.Wait(ctx)
	}
	return nil
}

// turnFirst and turnMost bound the wait after a failed turn.
const (
	turnFirst = 250 * time.Millisecond
	turnMost  = 15 * time.Second
)

// final reports whether an operator must act before the account is served again: the
// provider's account, or the stream's history, does not belong to its ledger.
func final(err error) bool {
	var binding *jobs.BindingError
	var diverged *outbox.DivergedError
	return errors.As(err, &binding) || errors.As(err, &diverged) || errors.Is(err, errTwoNames)
}

// notWorking notes why the account does not work.
func (a *account) notWorking(err error) {
	why := "it ended and is started again"
	if err != nil {
		why = err.Error()
	}
	state := "waits to be started again: " + why
	if a.backSaid != state {
		a.log.WithError(err).Warn("the account cannot work now; it is started again")
	}
	a.backSaid = state
	a.setState(state)
	a.hasStarted()
}

// turn serves the account once NATS is reachable and its streams are as required. On an
// external NATS only the lease holder works, and losing the lease ends the turn.
func (a *account) turn(ctx context.Context) error {
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
	if err := a.ensureStreams(ctx); err != nil {
		return err
	}
	if a.host.Embedded != nil {
		if err := a.removeForeign(ctx); err != nil {
			return err
		}
		return a.serve(ctx, nil)
	}
	if err := a.makeLedger(ctx); err != nil {
		return err
	}
	if err := a.awaitLongest(ctx); err != nil {
		return err
	}
	for {
		lease, err := a.awaitLease(ctx)
		if err != nil {
			return err
		}
		if err := a.serveUnder(ctx, lease); !errors.Is(err, errHandedOver) && !isLater(err) {
			return err
		}
	}
}

// waitsForLease is the state of a standby.
const waitsForLease = "another runner leads the account, and this one is a standby"

// streamsTimeout bounds one check of the account's streams.
const streamsTimeout = 10 * time.Second

func (a *account) ensureStreams(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, streamsTimeout)
	defer cancel()
	return a.streams().Ensure(ctx, a.js())
}

var errLeaseLost = fmt.Errorf("the account's lease was lost: %w", jobs.ErrLost)

func (a *account) serveUnder(ctx context.Context, lease *lease.Lease) error {
	held, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-lease.Lost():
			cancel(errLeaseLost)
		case <-done:
		}
	}()
	go a.watchLedger(held, cancel)
	a.log.WithField("holder", a.host.holder).Info("this runner has the account's lease")
	a.setHolding(holding{since: time.Now(), giveUp: func() { cancel(errHandedOver) }})
	defer a.setHolding(holding{})
	err := a.takeOver(held)
	if err == nil {
		err = a.serve(held, lease)
	}
	lost := errors.Is(context.Cause(held), errLeaseLost)
	release, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	if releaseErr := lease.Release(release); releaseErr != nil && !lost {
		a.log.WithError(releaseErr).Warn("the account's lease could not be given back; it expires")
	}
	switch {
	case lost:
		return errLeaseLost
	case errors.Is(context.Cause(held), errLedgerUnusable):
		return context.Cause(held)
	case ctx.Err() == nil && errors.Is(context.Cause(held), errHandedOver) && !final(err):
		return errHandedOver
	}
	return err
}

// RequiredPayload is the max_payload that a NATS server needs, in bytes: the largest
// fact with its envelope and headers.
const RequiredPayload = ledger.MaxFactBytes + 16<<10
