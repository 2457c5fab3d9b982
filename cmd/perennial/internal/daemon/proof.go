// Whether a runner can use the provider: the key, the clock and the way there are of each
// machine. A runner that follows proves it, and one that holds an account and cannot leaves
// it to one that can.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger/sleep"
	"perennial/upstream"
)

const (
	// proveEvery is how often a runner that follows reads the provider's account, where
	// few follow.
	proveEvery = 10 * time.Second
	// proveShare is the part of the account's rate that all of them together may take.
	proveShare = 0.05
	// proveTimeout bounds one such read.
	proveTimeout = 5 * time.Second
)

// provesEvery is how often each of the runners that follow an account reads the
// provider's account, rate being the account's requests a second, 0 for no limit.
func provesEvery(followers int, rate float64) time.Duration {
	if rate <= 0 {
		return proveEvery
	}
	return max(proveEvery, time.Duration(float64(followers)/(rate*proveShare)*float64(time.Second)))
}

// unservedFor is how long a holder may be without the provider before it leaves the
// account: by then every runner that follows has asked the provider again.
func unservedFor(every time.Duration) time.Duration { return 2 * every }

// proof is whether the provider can be used from here. The zero value is not known.
type proof struct {
	mu      sync.Mutex
	good    bool
	why     string // it cannot be used; "" while that is not known
	refused bool   // by an answer, and not by silence
	since   time.Time
}

// note notes why the provider cannot be used, "" where it can. refused says that it has
// answered so.
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

// failing is why the provider cannot be used, and since when; "" while it can, or that is
// not known.
func (p *proof) failing() (why string, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why, p.since
}

// refusal is the provider's answer that it does not let this runner in.
func (p *proof) refusal() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.refused {
		return ""
	}
	return "another runner holds the account, and this one could not run it: " + p.why
}

// proven is what one read of the provider's account came to.
type proven struct {
	why     string        // this runner could not run the account; "" where it could
	refused bool          // an answer of the API says so
	rest    time.Duration // the provider is not to be asked again before
}

// prove reads the provider's account and compares it with the ledger's.
func (a *account) prove(ctx context.Context) proven {
	ctx, cancel := context.WithTimeout(ctx, proveTimeout)
	defer cancel()
	account, err := a.Client.Account(ctx)
	failed, answered := errors.AsType[*upstream.Error](err)
	switch {
	case errors.Is(err, upstream.CodeRateLimited) && failed.Code == "": // of whatever stands before the API
		return proven{why: notBound(err), rest: decide.ThrottleDelay(failed.RetryAfter, 0)}
	case errors.Is(err, upstream.CodeRateLimited): // which it says to a key that it knows
		return proven{rest: decide.ThrottleDelay(failed.RetryAfter, 0)}
	case answered:
		return proven{why: notBound(err), refused: failed.Code != "" && failed.HTTPStatus/100 == 4}
	case err != nil:
		return proven{why: notBound(err)}
	}
	b, err := a.Ledger().Binding(ctx)
	if err != nil { // none yet; that a ledger cannot be read is the matter of a check
		return proven{}
	}
	if b.AccountID != account.AccountID || b.Environment != string(a.Client.Environment()) || b.BaseURL != a.Client.BaseURL() {
		return proven{refused: true, why: fmt.Sprintf("the account belongs to %s of %s at %s, and this runner's key is of %s of %s at %s: give it the base_url, app_id and secret of the other runners",
			b.AccountID, b.Environment, b.BaseURL, account.AccountID, a.Client.Environment(), a.Client.BaseURL())}
	}
	return proven{}
}

// resting is for how long the provider has asked the account's runners not to ask, as the
// journal says.
func (a *account) resting(ctx context.Context, now time.Time) time.Duration {
	pauses, err := a.Ledger().Pauses(ctx)
	if err != nil {
		return 0 // that a ledger cannot be read is the matter of a check
	}
	for _, x := range pauses {
		if x.Scope == decide.ScopeAccount && x.Cause == decide.CauseThrottled && x.Until != nil {
			return x.Until.Sub(now)
		}
	}
	return 0
}

// provesEvery is how often this runner, where it follows, reads the provider's account.
func (a *account) provesEvery(now time.Time) time.Duration {
	return provesEvery(a.host.peers.followers(a.Name, a.host.name.get(), now), a.config.RatePerSecond)
}

// keepProof keeps the proof of the account up to date until ctx ends. A Retry-After, one of
// its own or one in the journal, is waited out; meanwhile what was proved holds.
func (a *account) keepProof(ctx context.Context) {
	var next time.Time
	for {
		now := time.Now()
		switch {
		case a.holds():
			a.proof.note(a.unserved(), false, now)
			next = time.Time{}
		case now.Before(next):
		case a.resting(ctx, now) > 0: // a person may end it
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

// unserved is why the holder of the account cannot use the provider, "" while it can.
func (a *account) unserved() string {
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

// leaves reports whether the holder of the account cannot use the provider for so long
// that a runner that can should have it.
func (a *account) leaves(now time.Time) bool {
	why, since := a.proof.failing()
	return why != "" && now.Sub(since) >= unservedFor(a.provesEvery(now))
}

// defers reports whether this runner cannot use the provider, and another one that follows
// the account can: then this one does not ask for the lease.
func (a *account) defers() bool {
	why, _ := a.proof.failing()
	return why != "" && a.host.peers.ready(a.Name, a.host.name.get(), time.Now())
}

// ready reports whether a living runner beside self follows the account and could run it.
func (p *peers) ready(account, self string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, n := range p.heard {
		if name == self || !n.lives(now) {
			continue
		}
		for _, x := range n.Accounts {
			if x.Account == account && x.Ready {
				return true
			}
		}
	}
	return false
}

// followers is how many living runners follow an account beside its holder, self
// counted; 1 at least.
func (p *peers) followers(account, self string, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	others := 0 // as many as follow: self follows where another holds it
	for name, n := range p.heard {
		if name != self && n.lives(now) && slices.ContainsFunc(n.Accounts, func(x NodeAccount) bool { return x.Account == account && !x.Borrows }) {
			others++
		}
	}
	return max(others, 1)
}
