// This file makes the probes that end pauses.

package jobs

import (
	"context"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/upstream"
)

const (
	probeFirst = time.Second
	probeMost  = 5 * time.Minute
	// askAgain is how long a Retry-After is obeyed without a probe. A longer Retry-After may be
	// a mistake, such as a Unix time (trap 48).
	askAgain = time.Hour
)

// prober ends pauses: timed pauses when their time has passed, others when a request
// succeeds.
type prober struct {
	*Config
	gate   *rateGate
	clock  *clock
	pauses *pauses
	ready  *ready
	holds  *holds
	link   *link
}

// probe ends pauses until ctx ends. The interval between probes grows.
func (p *prober) probe(ctx context.Context) error {
	probes, next := sleep.Doubling(2*probeFirst, probeMost), p.Clock()
	for {
		timer := time.NewTimer(probeFirst) // timed pauses are checked each second, independent of the probe interval
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		for _, x := range p.pauses.listUnrecorded() {
			_ = p.holds.recordPause(ctx, x) // a failure is tried again
		}
		list := p.pauses.list()
		if len(list) == 0 {
			probes.Reset()
			next = p.Clock()
			continue
		}
		due, asked := !p.Clock().Before(next), false
		for _, x := range list {
			if due || x.Until != nil {
				asked = p.probeOne(ctx, x) || asked
			}
		}
		if asked {
			next = p.Clock().Add(probes.Next())
		}
	}
}

// probeOne ends a pause if possible, and reports whether it tested a pause without an end.
func (p *prober) probeOne(ctx context.Context, x tables.Pause) bool {
	switch {
	case x.Until != nil && !x.Until.After(p.Clock()):
		p.holds.resume(ctx, x, timePassed)
		return false
	case x.Until != nil:
		p.askThrough(ctx, x)
		return false
	case x.Cause == decide.CausePerson, x.Cause == ledger.CauseRestored, x.Cause == string(upstream.CodeIdempotencyKeyRequired):
		return false // a request that succeeds does not end these causes
	case x.Scope != decide.ScopeAccount:
		p.ready.probe(lane(x.Scope))
		return true
	}
	if p.pauses.throttled() || p.gate.Pass(ctx, priorityPoll) != nil {
		return false
	}
	wallet, err := p.Provider.Wallet(ctx)
	p.link.Read(ctx, wallet.ServerTime, err)
	if err == nil && (x.Cause != decide.CauseClock || p.clock.Wrong() == "") {
		p.holds.resume(ctx, x, "a signed request works again")
	}
	return true
}

// askThrough reads the wallet during a long Retry-After, once every askAgain, and ends the
// pause if the read succeeds.
func (p *prober) askThrough(ctx context.Context, x tables.Pause) {
	if !p.link.mayAsk(x) || p.gate.Pass(ctx, priorityPoll) != nil {
		return
	}
	wallet, err := p.Provider.Wallet(ctx)
	p.link.Read(ctx, wallet.ServerTime, err)
	if err == nil {
		p.holds.resume(ctx, x, answeredEarly)
	}
}

// mayAsk reports whether the pause may be probed: it is a Retry-After, and askAgain has
// passed since it began or was last probed. If so, mayAsk records this probe.
func (l *link) mayAsk(x tables.Pause) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := x.Since
	if l.asked.After(last) {
		last = l.asked
	}
	if now := l.Clock(); x.Cause == decide.CauseThrottled && now.Sub(last) >= askAgain {
		l.asked = now
		return true
	}
	return false
}
