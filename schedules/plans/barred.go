// Reasons, other than cost, not to renew a proxy now.

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

// excused lists codes of renewals that ended because of the account or the command. They
// say nothing about the proxy, and no number of them makes a schedule give it up. The
// next attempt waits one backoff, so that a wallet that refuses although it looks full
// is not tried at every run.
var excused = []string{string(upstream.CodeInsufficientWallet), fact.CodeCancelled, fact.CodeDivided, fact.CodeCeiling}

// BarredBy returns why a proxy cannot be renewed now, as far as no ledger query is
// needed; "" if it can.
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
	case proxy.Unread():
		return ReasonUnread
	}
	return ""
}

// errNotLooked stops a plan that would pay without knowing what was paid.
var errNotLooked = errors.New("its history was not read")

// barred returns why a proxy is not renewed now, cost aside.
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
	// The command's id includes the number of all endings, so that each attempt gets a new
	// id. The backoff counts only the endings since the operator's last answer, without the
	// excused ones.
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
	case n > 0 && p.in.Now.Before(ended.LastCounted.Add(Backoff<<n)), p.in.Now.Before(ended.LastExcused.Add(Backoff)):
		return ended.All, ReasonBackoff, nil
	}
	return ended.All, "", nil
}

// paidFor returns why an already paid proxy is not paid for again. A paid proxy whose
// expiry did not move needs review.
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
