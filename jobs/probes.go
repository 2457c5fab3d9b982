// The probes that end pauses.

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

// Probe intervals.
const (
	probeFirst = time.Second
	probeMost  = 5 * time.Minute
	// askAgain is how long a Retry-After is trusted without a probe. A longer one may be
	// a mistake, such as a Unix time (trap 48).
	askAgain = time.Hour
)

// prober ends pauses: timed ones on time, others once a request works again.
type prober struct {
	*Config
	gate   *rateGate
	clock  *clock
	pauses *pauses
	ready  *ready
	holds  *holds
	link   *link
}

// probe ends timed pauses on time, and the others once a request works again. It probes
// at growing intervals.
func (p *prober) probe(ctx context.Context) error {
	probes, next := sleep.Doubling(2*probeFirst, probeMost), p.Clock()
	for {
		timer := time.NewTimer(probeFirst) // timed pauses end on time, whatever else is probed
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		for _, x := range p.pauses.listUnrecorded() {
			_ = p.holds.recordPause(ctx, x) // it is tried again
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

// probeOne ends one pause if possible, and reports whether it made a request.
func (p *prober) probeOne(ctx context.Context, x tables.Pause) bool {
	switch {
	case x.Until != nil && !x.Until.After(p.Clock()):
		p.holds.resume(ctx, x, timePassed)
		return false
	case x.Until != nil:
		p.askThrough(ctx, x)
		return false
	case x.Cause == decide.CausePerson, x.Cause == ledger.CauseRestored, x.Cause == string(upstream.CodeIdempotencyKeyRequired):
		return false // a working request says nothing about this cause
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

// askThrough reads the wallet once an hour during a Retry-After of over an hour, and
// ends the pause if the read works.
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

// mayAsk reports whether an hour has passed since a timed pause began or was last
// probed, and counts this probe.
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
