// What a runner does with an account on an external NATS: it follows the account's
// events until it gets the lease, and leads them while it has it.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/sleep"
	"perennial/queue/lease"
	"perennial/queue/outbox"
)

func (a *account) journal() journal { return a.journalOf(a.Ledger()) }

func (a *account) journalOf(l *ledger.Ledger) journal {
	return journal{account: a.Name, queue: a.host.Queue, ledger: l, log: a.log}
}

// lookAgain is how often a runner looks whether it may ask for a lease.
const lookAgain = time.Second

// awaitLease follows the account's events until the runner has its lease. While it cannot fold
// an event of a later version, or cannot use the provider and another one can, it does not
// ask for the lease: a runner that can work must not wait for it. It ends with
// errLedgerBefore or errLedgerUnusable when the ledger has to be made again first.
func (a *account) awaitLease(ctx context.Context) (*lease.Lease, error) {
	ctx, end := context.WithCancelCause(ctx)
	var follower sync.WaitGroup
	follower.Go(func() {
		if err := a.follow(ctx); errors.Is(err, errLedgerBefore) {
			end(err)
		}
	})
	follower.Go(func() { a.watchLedger(ctx, end) })
	defer func() { end(nil); follower.Wait() }()
	for ctx.Err() == nil {
		why, changed := a.outdated.look()
		if why == "" && !a.defers() {
			lease, err := a.ask(ctx, changed)
			if now, _ := a.outdated.look(); err == nil || ctx.Err() == nil && now == "" && !a.defers() {
				return lease, err
			}
			continue
		}
		a.setState(waitsForLease)
		a.hasStarted()
		_, _ = sleep.OrWoken(ctx, lookAgain, changed)
	}
	return nil, context.Cause(ctx)
}

// ask waits for the account's lease in turn, until changed is closed, or this runner defers.
func (a *account) ask(ctx context.Context, changed <-chan struct{}) (*lease.Lease, error) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	go func() {
		for ctx.Err() == nil && !a.defers() {
			if woken, _ := sleep.OrWoken(ctx, lookAgain, changed); woken {
				break
			}
		}
		giveUp()
	}()
	return a.host.leases.Acquire(ctx, a.Name, a.host.holder, LeaseTTL, lease.Turn{
		Yields: func() bool { return a.host.peers.leaves(a.host.standing(), a.Name, time.Now()) },
		Waits: func() {
			a.setState(waitsForLease)
			a.hasStarted()
		},
	})
}

// followFirst and followMost bound the wait behind a failed attempt to follow; an
// attempt that has lasted followMost counts as good.
const (
	followFirst = 250 * time.Millisecond
	followMost  = 15 * time.Second
)

// follow folds the account's events until ctx ends, or until rows that it needs are no
// longer on the stream, which is errLedgerBefore. Why it cannot is shown on /readyz.
func (a *account) follow(ctx context.Context) error {
	delay := sleep.Growing(followFirst, followMost)
	for ctx.Err() == nil {
		good := time.AfterFunc(followMost, func() { a.setUnfollowed(nil) })
		err := a.journal().follow(ctx, func() { a.outdated.note(nil); a.setUnfollowed(nil); delay.Reset() })
		good.Stop()
		if ctx.Err() != nil {
			break
		}
		a.outdated.note(err)
		if errors.Is(err, errLedgerBefore) {
			a.setUnfollowed(nil)
			return err
		}
		a.setUnfollowed(err)
		a.log.WithError(err).Warn("the account's events cannot be followed now; it is tried again")
		_ = delay.Wait(ctx)
	}
	a.setUnfollowed(nil)
	return ctx.Err()
}

func (a *account) setUnfollowed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unfollowed = ""
	if err != nil {
		a.unfollowed = "another runner holds the account, and this one cannot follow its events: " + err.Error()
	}
}

// takeOver brings the ledger to the end of the account's events. Only the holder of the
// lease calls it.
func (a *account) takeOver(ctx context.Context) error {
	a.setState("reading the account's events to their end")
	if err := a.removeForeign(ctx); err != nil {
		return err
	}
	err := a.journal().foldToEnd(ctx)
	a.outdated.note(err)
	if err != nil {
		return err
	}
	return a.yieldToLongest(ctx)
}

// lead has what the runner appends published before it is committed, until end. The
// context that it returns ends, with jobs.ErrLost as its cause, when the lease or the
// right to append is lost. lease is nil on the embedded server, where none is needed.
func (a *account) lead(ctx context.Context, lease *lease.Lease, outbox *outbox.Outbox) (context.Context, func(), error) {
	if lease == nil {
		return ctx, func() {}, nil
	}
	leadership, err := a.journal().lead(ctx, outbox)
	if err != nil {
		return nil, nil, err
	}
	a.setLeading(&leading{leadership, outbox})
	leadingCtx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-leadership.Over():
			cancel(errors.Join(jobs.ErrLost, leadership.Err()))
		case <-lease.Lost(): // also while a stop waits for what is under way
			cancel(errLeaseLost)
			leadership.End()
		}
	})
	return leadingCtx, func() {
		a.setLeading(nil)
		leadership.End()
		cancel(nil)
		watch.Wait()
	}, nil
}

// leading is the right to append to the account's history, and what publishes it.
type leading struct {
	*ledger.Leadership
	outbox *outbox.Outbox
}

// setLeading notes that the runner leads; nil: it leads no longer, and another one
// publishes from here on.
func (a *account) setLeading(x *leading) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leading, a.outbox = x, nil
	a.host.announce()
}

// unacknowledged says that facts wait for the events stream, "" when they do not wait
// long.
func (a *account) unacknowledged() string {
	leading := a.snapshot().leading
	if leading == nil {
		return ""
	}
	since := leading.Waiting()
	if since.IsZero() || time.Since(since) < slowAfter {
		return ""
	}
	text := fmt.Sprintf("the events stream has acknowledged nothing since %s, so nothing is sent", since.UTC().Format(time.RFC3339))
	if err := leading.outbox.Failing(); err != nil {
		text += ": " + err.Error()
	}
	return text
}

// slowAfter is how long the events stream may take for facts before /readyz says so.
const slowAfter = 4 * time.Second

// answersAgain is how many rows, before the end of the stream, have their answers sent
// again by a runner that begins: the one before may have died after the publication.
const answersAgain = 2048

// answered is the row after which answers to inboxes are sent.
func (a *account) answered(ctx context.Context) (uint64, error) {
	noted, err := a.Ledger().Published(ctx)
	if err != nil {
		return 0, err
	}
	head, _, err := a.Ledger().Head(ctx)
	return uint64(max(noted.Seq, head-answersAgain, 0)), err
}
