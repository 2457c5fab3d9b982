// Leading an account: the start of the runner, schedules, outbox and service, and their
// orderly stop.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/journal"
	"perennial/jobs"
	"perennial/ledger/sleep"
	"perennial/queue/intake"
	"perennial/queue/lease"
	"perennial/queue/letters"
	"perennial/queue/outbox"
	"perennial/queue/service"
	"perennial/schedules"
)

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

// newOutbox returns the outbox that publishes the journal.
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

// refills reports whether `run --refill-events` requests a refill that is not complete yet.
func (a *lifecycle) refills() bool { return a.host.Config.RefillEvents && !a.refilled }

// checkHistory compares the end of the events stream with the ledger before anything is
// written or sent. If the stream has more rows or other rows, another ledger wrote them.
// That ledger has requests that this ledger lacks. outbox.Held describes what happens to a
// stream that lost data.
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

// streamsEvery is how often the account's streams are checked.
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

// consumersEvery is how often the account's consumers are compared with its commands stream.
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

// noteEvery is the interval at which the ledger records the last published row.
const noteEvery = time.Minute

// keepNote records the last published row in the ledger: after the first acknowledgement,
// and then regularly.
func (a *lifecycle) keepNote(ctx context.Context, outbox *outbox.Outbox) error {
	if err := outbox.Wait(ctx, 1); err != nil {
		return err
	}
	for {
		a.notePublished(ctx, outbox, stillRunning)
		if err := sleep.For(ctx, noteEvery); err != nil {
			return err
		}
	}
}

// stillRunning is the value of notePublished's argument stopped while the account works.
const stillRunning = false

// notePublished records the last published row in the ledger. stopped means that the account
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
		address = embeddedAddress
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

// deadLetter stores an invalid message on the stream of dead letters.
func (a *lifecycle) deadLetter(ctx context.Context, dead letters.Dead) error {
	err := a.letters().Store(ctx, dead)
	if err == nil {
		a.meter.deadLetters.Inc()
	}
	return err
}
