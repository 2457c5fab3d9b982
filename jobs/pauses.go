package jobs

import (
	"context"
	"sync"
	"time"

	"perennial/ledger"
	"perennial/upstream"
)

// Causes of a pause that are not a code of the provider's.
const (
	causePerson    = "person"
	causeClock     = "clock"
	causeThrottled = "rate_limited"
	causeFirewall  = "not_the_api"
)

// pauses mirrors the ledger's pauses for the workers.
type pauses struct {
	now     func() time.Time
	changed func()

	mu  sync.Mutex
	all map[pauseKey]ledger.Pause
	// closed: nothing new is sent while the wallet is read. It is no pause: it
	// is told to nobody and nothing probes it.
	closed bool
}

type pauseKey struct{ scope, cause string }

func newPauses(now func() time.Time) *pauses {
	return &pauses{now: now, changed: func() {}, all: map[pauseKey]ledger.Pause{}}
}

func (p *pauses) load(ctx context.Context, l *ledger.Ledger) error {
	stored, err := l.Pauses(ctx)
	if err != nil {
		return err
	}
	for _, x := range stored {
		p.put(x)
	}
	return nil
}

func (p *pauses) put(x ledger.Pause) {
	p.mu.Lock()
	p.all[pauseKey{x.Scope, x.Cause}] = x
	p.mu.Unlock()
	p.changed()
}

func (p *pauses) drop(scope, cause string) {
	p.mu.Lock()
	delete(p.all, pauseKey{scope, cause})
	p.mu.Unlock()
	p.changed()
}

// restored is the pause behind a restore, if it is in force.
func (p *pauses) restored() (ledger.Pause, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x, ok := p.all[pauseKey{scopeAccount, ledger.CauseRestored}]
	return x, ok
}

// covers reports whether the pause is in force already, for at least as long.
func (p *pauses) covers(x Pause) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	have, ok := p.all[pauseKey{x.Scope, x.Cause}]
	if !ok {
		return false
	}
	return have.Until == nil || (x.Until != nil && !x.Until.After(*have.Until))
}

// blocked reports whether a lane may not start anything now. Polls are reads:
// only a pause of the whole account stops them.
func (p *pauses) blocked(l lane) bool {
	_, blocked := p.until(l)
	return blocked || (l != lanePoll && p.isClosed())
}

// closeGate keeps new requests that charge back until it is opened again. What
// has its intent committed goes on.
func (p *pauses) closeGate(closed bool) {
	p.mu.Lock()
	p.closed = closed
	p.mu.Unlock()
	p.changed()
}

func (p *pauses) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// until is when a lane's last timed pause ends; zero for one without an end.
func (p *pauses) until(l lane) (end time.Time, blocked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for key, x := range p.all {
		if key.scope != scopeAccount && key.scope != string(l) {
			continue
		}
		if x.Until == nil {
			return time.Time{}, true
		}
		if x.Until.After(now) {
			blocked = true
			if x.Until.After(end) {
				end = *x.Until
			}
		}
	}
	return end, blocked
}

// list copies what is paused.
func (p *pauses) list() []ledger.Pause {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]ledger.Pause, 0, len(p.all))
	for _, x := range p.all {
		out = append(out, x)
	}
	return out
}

// pause stops what the pause covers at once, records it unless it is in force
// already, and says it aloud. When the ledger cannot be written the pause holds
// all the same, until the process ends.
func (r *Runner) pause(ctx context.Context, x Pause) {
	if r.pauses.covers(x) {
		return
	}
	r.pauses.put(ledger.Pause{Scope: x.Scope, Cause: x.Cause, Since: r.Clock(), Until: x.Until, Detail: x.Detail})
	log := r.Log.WithField("scope", x.Scope).WithField("cause", x.Cause).WithField("trace_id", x.TraceID)
	err := r.Ledger.Write(context.WithoutCancel(ctx), func(tx *ledger.Tx) error {
		return tx.Append(ledger.AccountPaused{Scope: x.Scope, Cause: x.Cause, Detail: x.Detail, TraceID: x.TraceID, Until: x.Until})
	})
	if err != nil {
		log = log.WithError(err)
	}
	log.Warn("account paused: " + x.Detail)
}

// resume ends a pause; when the ledger cannot be written it stays in force.
func (r *Runner) resume(ctx context.Context, scope, cause, detail string) {
	r.resumeAs(ctx, ledger.AccountResumed{Scope: scope, Cause: cause, Detail: detail})
}

func (r *Runner) resumeAs(ctx context.Context, f ledger.AccountResumed) {
	if f.Cause == ledger.CauseRestored {
		r.doubt.Lock()
		defer r.doubt.Unlock()
	}
	log := r.Log.WithField("scope", f.Scope).WithField("cause", f.Cause)
	err := r.Ledger.Write(context.WithoutCancel(ctx), func(tx *ledger.Tx) error {
		if f.Cause == ledger.CauseRestored {
			if err := tx.StaleAll(); err != nil {
				return err
			}
		}
		return tx.Append(f)
	})
	if err == nil && f.PresumeSentBy != "" {
		err = r.requeue(ctx)
	}
	if err != nil {
		log.WithError(err).Warn("the account works again, which could not be recorded: it stays paused")
		return
	}
	r.pauses.drop(f.Scope, f.Cause)
	r.knowsAll()
	log.Info("account resumed: " + f.Detail)
	r.kick()
}

// Intervals of probing.
const (
	probeFirst = time.Second
	probeMost  = 5 * time.Minute
)

// probe ends pauses: those with a time when it has come, the others when a
// request works again. It asks at growing intervals.
func (r *Runner) probe(ctx context.Context) error {
	wait, next := probeFirst, r.Clock()
	for {
		timer := time.NewTimer(probeFirst) // timed pauses end on time, whatever else is probed
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		list := r.pauses.list()
		if len(list) == 0 {
			wait, next = probeFirst, r.Clock()
			continue
		}
		due, asked := !r.Clock().Before(next), false
		for _, x := range list {
			if due || x.Until != nil {
				asked = r.probeOne(ctx, x) || asked
			}
		}
		if asked {
			wait = min(2*wait, probeMost)
			next = r.Clock().Add(wait)
		}
	}
}

// probeOne looks at one pause and reports whether a request was spent on it.
func (r *Runner) probeOne(ctx context.Context, x ledger.Pause) bool {
	switch {
	case x.Until != nil:
		if !x.Until.After(r.Clock()) {
			r.resume(ctx, x.Scope, x.Cause, "the time has passed")
		}
		return false
	case x.Cause == causePerson, x.Cause == ledger.CauseRestored, x.Cause == string(upstream.CodeIdempotencyKeyRequired):
		return false // that a request works says nothing about it
	case x.Scope != scopeAccount:
		r.ready.letOne(lane(x.Scope))
		return true
	}
	if r.pauses.throttled() || r.Gate.Pass(ctx, PriorityPoll) != nil {
		return false
	}
	wallet, err := r.Provider.Wallet(ctx)
	r.Read(ctx, wallet.ServerTime, err)
	if err == nil && (x.Cause != causeClock || r.clock.Wrong() == "") {
		r.resume(ctx, x.Scope, x.Cause, "a signed request works again")
	}
	return true
}
