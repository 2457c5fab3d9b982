// Leader and standby of an account on an external NATS: a runner follows the account's
// events until it gets the lease, and leads while it holds it.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/journal"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/sleep"
	"perennial/queue/lease"
	"perennial/queue/outbox"
)

func (a *account) journal() journal.Journal { return a.journalOf(a.Ledger()) }

func (a *account) journalOf(l *ledger.Ledger) journal.Journal {
	return journal.Journal{Account: a.Name, Queue: a.host.Queue, Ledger: l}
}

// lookAgain is how often a runner checks whether it may ask for a lease.
const lookAgain = time.Second

// awaitLease follows the account's events until the runner has its lease. It does not
// ask for the lease while it cannot fold an event of a later version, or cannot use the
// provider and another runner can. It returns journal.ErrLedgerBefore or errLedgerUnusable if
// the ledger must be rebuilt first.
func (a *lifecycle) awaitLease(ctx context.Context) (*lease.Lease, error) {
	ctx, end := context.WithCancelCause(ctx)
	var follower sync.WaitGroup
	follower.Go(func() {
		if err := a.follow(ctx); errors.Is(err, journal.ErrLedgerBefore) {
			end(err)
		}
	})
	follower.Go(func() { a.file.watchLedger(ctx, end) })
	defer func() { end(nil); follower.Wait() }()
	for ctx.Err() == nil {
		why, changed := a.outdated.look()
		if why == "" && !(prover{a.account}).defers() {
			lease, err := a.ask(ctx, changed)
			if now, _ := a.outdated.look(); err == nil || ctx.Err() == nil && now == "" && !(prover{a.account}).defers() {
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

// ask waits for the account's lease until changed is closed, or this runner defers.
func (a *lifecycle) ask(ctx context.Context, changed <-chan struct{}) (*lease.Lease, error) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	go func() {
		for ctx.Err() == nil && !(prover{a.account}).defers() {
			if woken, _ := sleep.OrWoken(ctx, lookAgain, changed); woken {
				break
			}
		}
		giveUp()
	}()
	return a.host.leases.Acquire(ctx, a.Name, a.host.holder, cluster.LeaseTTL, lease.Turn{
		Yields: func() bool { return a.host.peers.Leaves(a.host.standing(), a.Name, time.Now()) },
		Waits: func() {
			a.setState(waitsForLease)
			a.hasStarted()
		},
	})
}

// followFirst and followMost bound the wait after a failed attempt to follow. An attempt
// that lasted followMost resets the wait.
const (
	followFirst = 250 * time.Millisecond
	followMost  = 15 * time.Second
)

// follow folds the account's events until ctx ends, or returns journal.ErrLedgerBefore if rows
// that it needs are no longer on the stream. /readyz shows why it cannot follow.
func (a *lifecycle) follow(ctx context.Context) error {
	delay := sleep.Growing(followFirst, followMost)
	for ctx.Err() == nil {
		good := time.AfterFunc(followMost, func() { a.setUnfollowed(nil) })
		err := a.journal().Follow(ctx, func() { a.outdated.note(nil); a.setUnfollowed(nil); delay.Reset() })
		good.Stop()
		if ctx.Err() != nil {
			break
		}
		a.outdated.note(err)
		if errors.Is(err, journal.ErrLedgerBefore) {
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

// lead publishes the runner's rows before they are committed, until end is called. The
// returned context ends with cause jobs.ErrLost when the lease or the right to append is
// lost. lease is nil on the embedded server, which needs none.
func (a *lifecycle) lead(ctx context.Context, lease *lease.Lease, outbox *outbox.Outbox) (context.Context, func(), error) {
	if lease == nil {
		return ctx, func() {}, nil
	}
	leadership, err := a.journal().Lead(ctx, outbox)
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
		case <-lease.Lost(): // also while a stop waits for work in progress
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

// leading is the right to append to the account's history, and its publisher.
type leading struct {
	*ledger.Leadership
	outbox *outbox.Outbox
}

// setLeading notes that the runner leads; nil: another runner publishes from now on.
func (a *account) setLeading(x *leading) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leading, a.outbox = x, nil
	a.host.announce()
}

// unacknowledged says that facts wait too long for the events stream, "" if they do not.
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

// slowAfter is how long facts may wait for the events stream before /readyz reports it.
const slowAfter = 4 * time.Second

// answersAgain is how many of the stream's last rows have their answers sent again by a
// new leader. The previous one may have died after publishing them.
const answersAgain = 2048

// answered returns the row after which answers to inboxes are sent.
func (a *lifecycle) answered(ctx context.Context) (uint64, error) {
	noted, err := a.Ledger().Published(ctx)
	if err != nil {
		return 0, err
	}
	head, _, err := a.Ledger().Head(ctx)
	return uint64(max(noted.Seq, head-answersAgain, 0)), err
}
