// Whether a runner can use the provider: each machine has its own key, clock and network
// path. A standby proves it, and a leader that cannot use the provider yields to one
// that can.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger/sleep"
	"perennial/upstream"
)

const (
	// proveEvery is how often a standby reads the provider's account, if there are few.
	proveEvery = 10 * time.Second
	// proveShare is the share of the account's rate for all standbys together.
	proveShare = 0.05
	// proveTimeout bounds one read.
	proveTimeout = 5 * time.Second
)

// provesEvery returns how often each standby of an account reads the provider's account.
// rate is the account's requests per second, 0 for no limit.
func provesEvery(followers int, rate float64) time.Duration {
	if rate <= 0 {
		return proveEvery
	}
	return max(proveEvery, time.Duration(float64(followers)/(rate*proveShare)*float64(time.Second)))
}

// unservedFor is how long a leader may be without the provider before it leaves the
// account. By then every standby has asked the provider again.
func unservedFor(every time.Duration) time.Duration { return 2 * every }

// proof says whether this runner can use the provider. The zero value is unknown.
type proof struct {
	mu      sync.Mutex
	good    bool
	why     string // why not; "" while unknown or usable
	refused bool   // by a reply, not by silence
	since   time.Time
}

// note notes why the provider cannot be used, "" if it can. refused says that a reply
// says so.
func (p *proof) note(why string, refused bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why == "" {
		p.since = now
	}
	p.good, p.why, p.refused = why == "", why, refused
}

func (p *proof) isGood() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.good
}

// failing returns why the provider cannot be used, and since when; "" if it can or this
// is unknown.
func (p *proof) failing() (why string, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why, p.since
}

// refusal returns the provider's reply that refuses this runner.
func (p *proof) refusal() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.refused {
		return ""
	}
	return "another runner holds the account, and this one could not run it: " + p.why
}

// proven is the result of one read of the provider's account.
type proven struct {
	why     string        // why this runner could not lead the account; "" if it could
	refused bool          // a reply of the API says so
	rest    time.Duration // until then the provider must not be asked
}

// prover proves whether this runner can use an account's provider.
type prover struct{ *account }

// prove reads the provider's account and compares it with the ledger's.
func (a prover) prove(ctx context.Context) proven {
	ctx, cancel := context.WithTimeout(ctx, proveTimeout)
	defer cancel()
	account, err := a.Client.Account(ctx)
	failed, answered := errors.AsType[*upstream.Error](err)
	switch {
	case errors.Is(err, upstream.CodeRateLimited) && failed.Code == "": // from something in front of the API
		return proven{why: notBound(err), rest: decide.ThrottleDelay(failed.RetryAfter, 0)}
	case errors.Is(err, upstream.CodeRateLimited): // only a known key gets this reply
		return proven{rest: decide.ThrottleDelay(failed.RetryAfter, 0)}
	case answered:
		return proven{why: notBound(err), refused: failed.Code != "" && failed.HTTPStatus/100 == 4}
	case err != nil:
		return proven{why: notBound(err)}
	}
	b, err := a.Ledger().Binding(ctx)
	if err != nil { // no binding yet; a check reports an unreadable ledger
		return proven{}
	}
	if b.AccountID != account.AccountID || b.Environment != string(a.Client.Environment()) || b.BaseURL != a.Client.BaseURL() {
		return proven{refused: true, why: fmt.Sprintf("the account belongs to %s of %s at %s, and this runner's key is of %s of %s at %s: give it the base_url, app_id and secret of the other runners",
			b.AccountID, b.Environment, b.BaseURL, account.AccountID, a.Client.Environment(), a.Client.BaseURL())}
	}
	return proven{}
}

// resting returns how long the account's Retry-After in the journal still lasts.
func (a prover) resting(ctx context.Context, now time.Time) time.Duration {
	pauses, err := a.Ledger().Operations.Pauses(ctx)
	if err != nil {
		return 0 // a check reports an unreadable ledger
	}
	for _, x := range pauses {
		if x.Scope == decide.ScopeAccount && x.Cause == decide.CauseThrottled && x.Until != nil {
			return x.Until.Sub(now)
		}
	}
	return 0
}

// provesEvery returns how often this runner, as a standby, reads the provider's account.
func (a prover) provesEvery(now time.Time) time.Duration {
	return provesEvery(a.host.peers.Followers(a.Name, a.host.name.Get(), now), a.config.RatePerSecond)
}

// keepProof updates the account's proof until ctx ends. It waits out a Retry-After, its
// own or the journal's; meanwhile the last proof holds.
func (a prover) keepProof(ctx context.Context) {
	var next time.Time
	for {
		now := time.Now()
		switch {
		case a.holds():
			a.proof.note(a.unserved(), false, now)
			next = time.Time{}
		case now.Before(next):
		case a.resting(ctx, now) > 0: // an operator may end it
		default:
			found := a.prove(ctx)
			if ctx.Err() == nil && !a.holds() {
				a.proof.note(found.why, found.refused, now)
			}
			next = now.Add(max(a.provesEvery(now), found.rest))
		}
		if sleep.For(ctx, time.Second) != nil {
			return
		}
	}
}

// unserved returns why the account's leader cannot use the provider, "" if it can.
func (a prover) unserved() string {
	x := a.snapshot()
	if x.unbound != "" || x.runner == nil {
		return x.unbound
	}
	if why := x.runner.Silent(); why != "" {
		return why
	}
	for _, p := range x.runner.Paused() {
		if p.Scope == decide.ScopeAccount && decide.OfThisMachine(p.Cause) {
			return p.Detail
		}
	}
	return ""
}

func (a *account) setUnbound(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unbound = why
}

// leaves reports whether the leader could not use the provider for so long that a
// capable standby should take over.
func (a prover) leaves(now time.Time) bool {
	why, since := a.proof.failing()
	return why != "" && now.Sub(since) >= unservedFor(a.provesEvery(now))
}

// defers reports whether this runner cannot use the provider but another standby can. It
// then does not ask for the lease.
func (a prover) defers() bool {
	why, _ := a.proof.failing()
	return why != "" && a.host.peers.Ready(a.Name, a.host.name.Get(), time.Now())
}
