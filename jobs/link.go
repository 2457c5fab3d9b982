package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/upstream"

	"golang.org/x/time/rate"
)

// link sends reads to the provider, and applies their outcomes to the account, its pauses and
// the clocks. During a Retry-After nothing is sent: passNow fails for prechecks, and passRead
// delays the other reads.
type link struct {
	*Config
	gate   *rateGate
	clock  *clock
	pauses *pauses
	pulse  *pulse
	holds  *holds
	share  *rate.Limiter // limits background reads to a share of the account's rate

	mu    sync.Mutex
	asked time.Time // when a long Retry-After was last probed
}

// passRead waits for a read's turn, and for the end of any Retry-After.
func (l *link) passRead(ctx context.Context) error {
	for {
		if err := l.waitOut(ctx); err != nil {
			return err
		}
		// A Retry-After may arrive while the read waits for its turn.
		if err := l.passNow(ctx, priorityListing); !errors.Is(err, errThrottled) {
			return err
		}
	}
}

var errThrottled = errors.New("the provider has asked to wait")

// passNow waits for a read's turn. During a Retry-After it returns errThrottled instead of
// waiting. The precheck starts again in that case, because its earlier reads would be stale.
func (l *link) passNow(ctx context.Context, p gatePriority) error {
	if l.pauses.throttled() {
		return errThrottled
	}
	if err := l.gate.Pass(ctx, p); err != nil {
		return err
	}
	if l.pauses.throttled() {
		return errThrottled
	}
	return nil
}

// waitOut waits until no Retry-After is in force. It checks every second, because the
// Retry-After may be extended and the clock may be set.
func (l *link) waitOut(ctx context.Context) error {
	for {
		until, held := l.pauses.throttledUntil()
		if !held {
			return nil
		}
		if err := sleep.For(ctx, min(time.Second, until.Sub(l.Clock()))); err != nil {
			return err
		}
	}
}

const answeredEarly = "the provider answers before its Retry-After has ended"

// WaitOut waits until no Retry-After is in force. It returns an error immediately if the
// Retry-After lasts longer than most.
func (l *link) WaitOut(ctx context.Context, most time.Duration) error {
	if until, held := l.pauses.throttledUntil(); held && until.Sub(l.Clock()) > most {
		return errThrottled
	}
	return l.waitOut(ctx)
}

func (p *pauses) throttledUntil() (time.Time, bool) {
	x, held := p.throttling()
	if !held {
		return time.Time{}, false
	}
	return *x.Until, true
}

func (p *pauses) throttling() (tables.Pause, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x, ok := p.all[pauseKey{decide.ScopeAccount, decide.CauseThrottled}]
	return x, ok && x.Until != nil && x.Until.After(p.now())
}

// Throttled reports whether a Retry-After is in force.
func (h *holds) Throttled() bool { return h.pauses.throttled() }

func (p *pauses) throttled() bool {
	_, held := p.throttledUntil()
	return held
}

// ThrottledError says that a Retry-After is in force, from this run or an earlier one.
// Nothing is sent before Until, not even the reads at startup.
type ThrottledError struct {
	Account string
	Until   time.Time
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("account %s: the provider asked to slow down: nothing is sent before %s", e.Account, e.Until.UTC().Format(time.RFC3339))
}

// bindFailed returns the error for a failed read in Bind. If the provider asks to wait and
// the ledger exists, it records a pause, so that the next start waits too.
func (l *link) bindFailed(ctx context.Context, what string, err error) error {
	var failed *upstream.Error
	if !errors.As(err, &failed) || !errors.Is(err, upstream.CodeRateLimited) {
		return fmt.Errorf("%s: %w", what, err)
	}
	until := l.Clock().Add(decide.ThrottleDelay(failed.RetryAfter, 0)).UTC()
	_, unbound := l.Ledger.Binding(ctx)
	if errors.Is(unbound, ledger.ErrNotFound) {
		return &ThrottledError{l.Account, until}
	}
	_ = l.holds.pause(ctx, decide.Pause{Scope: decide.ScopeAccount, Cause: decide.CauseThrottled, Detail: fact.Bounded(err.Error()), TraceID: failed.TraceID, Until: &until})
	return &ThrottledError{l.Account, until}
}

// readShare is the share of an account's rate that all background reads together may use.
// Background reads are listings and reconciliations.
const readShare = 0.3

// PassListing waits for the turn of a background read. Background reads use at most
// readShare of the rate. All other requests go first, except in the turns that the gate
// guarantees to reads (readEvery).
func (l *link) PassListing(ctx context.Context) error {
	if err := l.share.Wait(ctx); err != nil {
		return err
	}
	return l.passRead(ctx)
}

func (l *link) moment() decide.Moment {
	return decide.Moment{Now: l.clock.Now(), Jitter: l.Random()}
}
