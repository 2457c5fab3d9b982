// Whether this runner can use the provider. Each machine has its own key, clock and network
// path, so runners may differ. A standby tests its access regularly. A leader without access
// yields to a runner that has access.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger/sleep"
	"perennial/upstream"
)

const (
	// accessEvery is the shortest interval at which a standby reads the provider's account.
	accessEvery = 10 * time.Second
	// accessShare is the share of the account's rate that all standbys together may use.
	accessShare = 0.05
	// accessTimeout limits one read.
	accessTimeout = 5 * time.Second
)

// accessInterval returns the interval at which each standby of an account reads the provider's
// account. rate is the account's limit in requests per second, or 0 for no limit.
func accessInterval(followers int, rate float64) time.Duration {
	if rate <= 0 {
		return accessEvery
	}
	return max(accessEvery, time.Duration(float64(followers)/(rate*accessShare)*float64(time.Second)))
}

// leaveAfter returns how long a leader may be without access to the provider before it yields.
// By then, every standby has tested its own access again.
func leaveAfter(every time.Duration) time.Duration { return 2 * every }

// access records whether this runner can use the provider. The zero value means unknown.
type access struct {
	usable  bool
	why     string    // why not; "" if unknown or usable
	refused bool      // the provider replied, and its reply was a refusal
	since   time.Time // when the provider became unusable
}

// note records why the provider cannot be used, or "" if it can. refused means that the
// provider replied with a refusal.
func (p *access) note(why string, refused bool, now time.Time) {
	if p.why == "" {
		p.since = now
	}
	p.usable, p.why, p.refused = why == "", why, refused
}

// refusal returns the provider's refusal of this runner, as a message for /readyz, or "".
func (p *access) refusal() string {
	if !p.refused {
		return ""
	}
	return "another runner holds the account, and this one could not run it: " + p.why
}

// accessResult is the result of one read of the provider's account.
type accessResult struct {
	why     string        // why this runner could not lead the account; "" if it could
	refused bool          // the API replied with a refusal
	wait    time.Duration // time to wait before the next request to the provider
}

// accessTest tests whether this runner can use an account's provider.
type accessTest struct{ *account }

// read reads the provider's account and compares it with the account in the ledger's binding.
func (a accessTest) read(ctx context.Context) accessResult {
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	account, err := a.Client.Account(ctx)
	failed, answered := errors.AsType[*upstream.Error](err)
	switch {
	case errors.Is(err, upstream.CodeRateLimited) && failed.Code == "": // a reply without the API's envelope comes from a gateway in front of the API
		return accessResult{why: bindFailure(err), wait: decide.ThrottleDelay(failed.RetryAfter, 0)}
	case errors.Is(err, upstream.CodeRateLimited): // the API rate limits only known keys, so this key works
		return accessResult{wait: decide.ThrottleDelay(failed.RetryAfter, 0)}
	case answered:
		return accessResult{why: bindFailure(err), refused: failed.Code != "" && failed.HTTPStatus/100 == 4}
	case err != nil:
		return accessResult{why: bindFailure(err)}
	}
	b, err := a.Ledger().Binding(ctx)
	if err != nil { // the ledger has no binding yet, or another check reports that the ledger is unreadable
		return accessResult{}
	}
	if b.AccountID != account.AccountID || b.Environment != string(a.Client.Environment()) || b.BaseURL != a.Client.BaseURL() {
		return accessResult{refused: true, why: fmt.Sprintf("the account belongs to %s of %s at %s, and this runner's key is of %s of %s at %s: give it the base_url, app_id and secret of the other runners",
			b.AccountID, b.Environment, b.BaseURL, account.AccountID, a.Client.Environment(), a.Client.BaseURL())}
	}
	return accessResult{}
}

// throttledFor returns how long the Retry-After that the ledger records for the account
// still lasts. The result is 0 or less if none is in force or the ledger cannot be read.
func (a accessTest) throttledFor(ctx context.Context, now time.Time) time.Duration {
	pauses, err := a.Ledger().Operations.Pauses(ctx)
	if err != nil {
		return 0 // another check reports an unreadable ledger
	}
	for _, x := range pauses {
		if x.Scope == decide.ScopeAccount && x.Cause == decide.CauseThrottled && x.Until != nil {
			return x.Until.Sub(now)
		}
	}
	return 0
}

// interval returns the interval at which each standby of the account reads the provider's
// account.
func (a accessTest) interval(now time.Time) time.Duration {
	return accessInterval(a.host.peers.Followers(a.Name, a.host.name.Get(), now), a.config.RatePerSecond)
}

// keepAccess updates the account's access until ctx ends. While a Retry-After is in force,
// from its own requests or from the ledger, a standby sends nothing and keeps the last
// result.
func (a accessTest) keepAccess(ctx context.Context) {
	var next time.Time
	for {
		now := time.Now()
		switch {
		case a.holds():
			why := a.unserved()
			a.update(func(x *current) { x.access.note(why, false, now) })
			next = time.Time{}
		case now.Before(next):
		case a.throttledFor(ctx, now) > 0: // not added to next, because an operator may end the Retry-After
		default:
			found := a.read(ctx)
			if ctx.Err() == nil && !a.holds() {
				a.update(func(x *current) { x.access.note(found.why, found.refused, now) })
			}
			next = now.Add(max(a.interval(now), found.wait))
		}
		if sleep.For(ctx, time.Second) != nil {
			return
		}
	}
}

// unserved returns why the leader cannot use the provider, or "" if the leader can use it.
func (a accessTest) unserved() string {
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

// leaves reports whether this leader has been without access to the provider for so long that a
// standby with access should take over.
func (a accessTest) leaves(now time.Time) bool {
	x := a.snapshot().access
	return x.why != "" && now.Sub(x.since) >= leaveAfter(a.interval(now))
}

// defers reports whether this runner cannot use the provider and another standby can. This
// runner then does not ask for the lease.
func (a accessTest) defers() bool {
	return a.snapshot().access.why != "" && a.host.peers.Ready(a.Name, a.host.name.Get(), time.Now())
}
