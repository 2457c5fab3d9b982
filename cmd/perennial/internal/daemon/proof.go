// Whether a runner can use the provider: the key, the clock and the way there are of each
// machine. A runner that follows proves it, and one that holds an account and cannot leaves
// it to one that can.

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
	// proveEvery is how often a runner that follows reads the provider's account.
	proveEvery = 10 * time.Second
	// proveTimeout bounds one such read.
	proveTimeout = 5 * time.Second
	// unservedFor is how long a holder may be without the provider before it leaves the
	// account: by then every runner that follows has asked the provider again.
	unservedFor = 20 * time.Second
)

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

// prove reads the provider's account and compares it with the ledger's. It returns why
// this runner could not run the account, "" where it could, and whether an answer says so.
func (a *account) prove(ctx context.Context) (why string, refused bool) {
	ctx, cancel := context.WithTimeout(ctx, proveTimeout)
	defer cancel()
	account, err := a.Client.Account(ctx)
	if failed, ok := errors.AsType[*upstream.Error](err); ok {
		if failed.Code == upstream.CodeRateLimited {
			return "", false // which it says to a key that it knows
		}
		return notBound(err), failed.HTTPStatus/100 == 4
	}
	if err != nil {
		return notBound(err), false
	}
	b, err := a.Ledger().Binding(ctx)
	if err != nil { // none yet; that a ledger cannot be read is the matter of a check
		return "", false
	}
	if b.AccountID != account.AccountID || b.Environment != string(a.Client.Environment()) || b.BaseURL != a.Client.BaseURL() {
		return fmt.Sprintf("the account belongs to %s of %s at %s, and this runner's key is of %s of %s at %s: give it the base_url, app_id and secret of the other runners",
			b.AccountID, b.Environment, b.BaseURL, account.AccountID, a.Client.Environment(), a.Client.BaseURL()), true
	}
	return "", false
}

// keepProof keeps the proof of the account up to date until ctx ends.
func (a *account) keepProof(ctx context.Context) {
	var proved time.Time
	for {
		now := time.Now()
		switch {
		case a.holds():
			a.proof.note(a.unserved(), false, now)
			proved = time.Time{}
		case now.Sub(proved) >= proveEvery:
			if why, refused := a.prove(ctx); ctx.Err() == nil && !a.holds() {
				a.proof.note(why, refused, now)
			}
			proved = now
		}
		if sleep.For(ctx, time.Second) != nil {
			return
		}
	}
}

// unserved is why the holder of the account cannot use the provider, "" while it can.
func (a *account) unserved() string {
	a.mu.Lock()
	unbound, runner := a.unbound, a.runner
	a.mu.Unlock()
	if unbound != "" || runner == nil {
		return unbound
	}
	if why := runner.Silent(); why != "" {
		return why
	}
	for _, x := range runner.Paused() {
		if x.Scope == decide.ScopeAccount && decide.OfThisMachine(x.Cause) {
			return x.Detail
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
	return why != "" && now.Sub(since) >= unservedFor
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
