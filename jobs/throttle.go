// A Retry-After holds every sender of the account. Lanes hold operations (pauses.go),
// and passNow holds their prechecks. This file holds the readers.

package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/upstream"
)

// passRead is the gate for reads. No read passes during a Retry-After.
func (r *Runner) passRead(ctx context.Context) error {
	for {
		if err := r.waitOut(ctx); err != nil {
			return err
		}
		// A Retry-After may come while it waits for its turn.
		if err := r.passNow(ctx, priorityListing); !errors.Is(err, errThrottled) {
			return err
		}
	}
}

// errThrottled says that the provider asked to wait during a precheck.
var errThrottled = errors.New("the provider has asked to wait")

// passNow is the gate for a precheck. It does not wait out a Retry-After: earlier reads
// would be stale afterwards, so the precheck starts again.
func (r *Runner) passNow(ctx context.Context, p gatePriority) error {
	if r.pauses.throttled() {
		return errThrottled
	}
	if err := r.gate.Pass(ctx, p); err != nil {
		return err
	}
	if r.pauses.throttled() {
		return errThrottled
	}
	return nil
}

// waitOut returns when no Retry-After is in force. It checks each second, because a
// longer one may come and the clock may be set.
func (r *Runner) waitOut(ctx context.Context) error {
	for {
		until, held := r.pauses.throttledUntil()
		if !held {
			return nil
		}
		if err := sleep.For(ctx, min(time.Second, until.Sub(r.Clock()))); err != nil {
			return err
		}
	}
}

// WaitOut returns when no Retry-After is in force, or an error if it lasts longer than
// most.
func (r *Runner) WaitOut(ctx context.Context, most time.Duration) error {
	if until, held := r.pauses.throttledUntil(); held && until.Sub(r.Clock()) > most {
		return errThrottled
	}
	return r.waitOut(ctx)
}

// throttledUntil returns when the account's Retry-After ends, if one is in force.
func (p *pauses) throttledUntil() (time.Time, bool) {
	x, held := p.throttling()
	if !held {
		return time.Time{}, false
	}
	return *x.Until, true
}

// throttling returns the account's Retry-After, if one is in force.
func (p *pauses) throttling() (ledger.Pause, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x, ok := p.all[pauseKey{decide.ScopeAccount, decide.CauseThrottled}]
	return x, ok && x.Until != nil && x.Until.After(p.now())
}

// Throttled reports whether a Retry-After is in force that no operator has ended.
func (r *Runner) Throttled() bool { return r.pauses.throttled() }

func (p *pauses) throttled() bool {
	_, held := p.throttledUntil()
	return held
}

// ThrottledError says that a Retry-After of this or an earlier run is in force. Nothing
// is sent before Until, not even the reads of a start.
type ThrottledError struct {
	Account string
	Until   time.Time
}

// Error returns until when.
func (e *ThrottledError) Error() string {
	return fmt.Sprintf("account %s: the provider asked to slow down: nothing is sent before %s", e.Account, e.Until.UTC().Format(time.RFC3339))
}

// bindFailed returns the error of a start whose read failed. It records a Retry-After
// for the next start too, once there is a ledger.
func (r *Runner) bindFailed(ctx context.Context, what string, err error) error {
	var failed *upstream.Error
	if !errors.As(err, &failed) || !errors.Is(err, upstream.CodeRateLimited) {
		return fmt.Errorf("%s: %w", what, err)
	}
	until := r.Clock().Add(decide.ThrottleDelay(failed.RetryAfter, 0)).UTC()
	_, unbound := r.Ledger.Binding(ctx)
	if errors.Is(unbound, ledger.ErrNotFound) {
		return &ThrottledError{r.Account, until}
	}
	_ = r.pause(ctx, decide.Pause{Scope: decide.ScopeAccount, Cause: decide.CauseThrottled, Detail: fact.Bounded(err.Error()), TraceID: failed.TraceID, Until: &until})
	return &ThrottledError{r.Account, until}
}

// readShare is the share of an account's rate for background reads: listings and
// reconciliations together.
const readShare = 0.3

// PassListing waits for the turn of a background read: within readShare, and after
// everything else except the gate's guaranteed share of reads.
func (r *Runner) PassListing(ctx context.Context) error {
	if err := r.share.Wait(ctx); err != nil {
		return err
	}
	return r.passRead(ctx)
}
