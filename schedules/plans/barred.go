package plans

import (
	"errors"
	"time"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

const (
	MaxEndings = 5
	Backoff    = 15 * time.Minute
)

// excused lists codes of renewals that ended because of the account or the command. They do not
// count towards MaxEndings, because the proxy is not the cause. After such an ending, the next
// attempt waits for one Backoff. Without that wait, every run would try again while the provider
// refuses for lack of money and the wallet seems sufficient.
var excused = []string{string(upstream.CodeInsufficientWallet), fact.CodeCancelled, fact.CodeDivided, fact.CodeCeiling}

// BarredBy returns why a proxy cannot be renewed now. It returns "" if nothing prevents the
// renewal. It uses only the inputs and makes no query.
func (in *Inputs) BarredBy(f *Filter, proxy tables.Proxy) string {
	switch {
	case f.Undecided(proxy):
		return ReasonNotText
	case in.Taken[proxy.ProxyID]:
		return ReasonTaken
	case in.Claimed[proxy.ProxyID]:
		return ReasonClaimed
	case in.OnItsWay[proxy.ProxyID]:
		return ReasonOnItsWay
	case proxy.Retired:
		return ReasonRetired
	case f.except[proxy.ProxyID]:
		return ReasonExcepted
	case proxy.Unreadable != "":
		return ReasonUnusable
	case !command.ValidID(proxy.ProxyID), !upstream.InPath(proxy.ProxyID):
		return ReasonBadID
	case !usableExpiry(proxy):
		return ReasonBadExpiry
	case proxy.Unread() && proxy.ExpectedExpiresAt != nil:
		return ReasonUnconfirmed
	case proxy.Unread():
		return ReasonUnread
	}
	return ""
}

// errNotLooked stops a plan that did not read the history of a proxy, because the plan could pay
// for the proxy twice.
var errNotLooked = errors.New("its history was not read")

// barred returns a reason other than cost why a proxy is not renewed now. It returns "" if there
// is none. endings is the number of its renewals that ended without renewing it.
func (p *planner) barred(proxy tables.Proxy) (endings int, why string, err error) {
	if why := p.in.BarredBy(p.filter, proxy); why != "" {
		return 0, why, nil
	}
	history, looked := p.history[proxy.ProxyID]
	if !looked {
		return 0, "", errNotLooked
	}
	if why := p.paidFor(proxy, history); why != "" {
		return 0, why, nil
	}
	ended := history.Failed
	if ended.All == 0 {
		return 0, "", nil
	}
	// The command's id includes the number of all endings, so that each attempt gets a new id.
	// The backoff counts only the endings since the operator's last answer, without the excused
	// endings.
	switch n := ended.Counted; {
	case n >= MaxEndings:
		if !fact.SameExpiry(ended.AskedOf, *proxy.ExpiresAt) {
			p.plan.ForPerson = append(p.plan.ForPerson, fact.ProxyReview{
				ProxyID: proxy.ProxyID, Schedule: p.in.Schedule.Name, ExpiresAt: proxy.ExpiresAt.UTC(), Endings: n,
				Reason: "renewals of it ended without renewing it so often that schedules skip it until it is reviewed",
			})
		}
		return ended.All, ReasonPerson, nil
	case ended.ShortOfMoney && p.in.ByHand:
		return ended.All, "", nil
	case ended.ShortOfMoney && p.in.Now.Before(ended.LastExcused.Add(Backoff)):
		return ended.All, ReasonWallet, nil
	case p.in.Now.Before(retryAt(ended, *proxy.ExpiresAt)):
		return ended.All, ReasonBackoff, nil
	}
	return ended.All, "", nil
}

// retryAt returns when a proxy is tried again at the earliest.
func retryAt(ended tables.FailedRenewals, expires time.Time) time.Time {
	at := ended.LastExcused.Add(Backoff)
	if n := ended.Counted; n > 0 {
		if counted := RetryAt(n, ended.LastCounted, expires); counted.After(at) {
			at = counted
		}
	}
	return at
}

// RetryAt returns when a proxy is tried again at the earliest after its n-th counted ending.
func RetryAt(n int, ended, expires time.Time) time.Time {
	return ended.Add(backoff(n, expires.Sub(ended)))
}

// backoff returns how long a proxy waits after its n-th counted ending. If it expires soon, it waits
// for a quarter of the time that was left, so that it is tried, and reviewed, before it expires.
func backoff(n int, left time.Duration) time.Duration {
	if left <= 0 {
		return Backoff << n
	}
	return min(Backoff<<n, max(Backoff, left/4))
}

// paidFor returns why a proxy must not be paid for again. It returns "" if there is no reason. It
// opens a review for a proxy that was paid for but has expired, because the renewal did not move
// its expiry.
func (p *planner) paidFor(proxy tables.Proxy, history tables.History) (why string) {
	switch {
	case history.Behind != nil:
		return ReasonNotShown
	case history.PaidFor:
		return ReasonRenewed
	case proxy.ExpiresAt.After(p.in.Now), !history.InVain:
		return ""
	}
	p.plan.ForPerson = append(p.plan.ForPerson, fact.ProxyReview{
		ProxyID: proxy.ProxyID, Schedule: p.in.Schedule.Name, ExpiresAt: proxy.ExpiresAt.UTC(),
		Reason: "a renewal of it was paid, and it has expired all the same: schedules skip it until it is reviewed",
	})
	return ReasonInVain
}
