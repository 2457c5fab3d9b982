// Why a proxy is not to be renewed now, whatever it costs.

package plans

import (
	"context"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

const (
	MaxEndings = 5
	Backoff    = 15 * time.Minute
)

// excused are the codes of renewals that ended for reasons of the account or of their command: they are no
// verdict on a proxy, and however many there are, sweeps do not give it up. The next
// attempt waits for one backoff, so that a wallet that the provider refuses though it looks
// full is not asked at every slot.
var excused = []string{string(upstream.CodeInsufficientWallet), fact.CodeCancelled, fact.CodeDivided, fact.CodeCeiling}

// BarredBy is why a proxy cannot be renewed now, as far as no query of the ledger is needed;
// "" where it can.
func (in *Inputs) BarredBy(f *Filter, proxy ledger.Proxy) string {
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

// barred says why a proxy is not to be renewed now, whatever it costs.
func (p *planner) barred(ctx context.Context, proxy ledger.Proxy) (endings int, why string, err error) {
	if why := p.in.BarredBy(p.filter, proxy); why != "" {
		return 0, why, nil
	}
	if why, err := p.paidFor(ctx, proxy); why != "" || err != nil {
		return 0, why, err
	}
	ended, err := p.known.EndingsWithoutRenewal(ctx, proxy.ProxyID, *proxy.ExpiresAt, excused...)
	if err != nil || ended.All == 0 {
		return 0, "", err
	}
	// A command's id counts all of them, so that it is a new one; the wait before the next
	// attempt counts those since a person's last answer that are not excused.
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

// paidFor says why a proxy that was paid for is not paid for again. One that a renewal has not
// brought back is for a person.
func (p *planner) paidFor(ctx context.Context, proxy ledger.Proxy) (why string, err error) {
	paid, behind, err := p.known.PaidFor(ctx, proxy.ProxyID, *proxy.ExpiresAt, p.in.Now)
	switch {
	case err != nil:
		return "", err
	case behind != nil:
		return ReasonNotShown, nil
	case paid:
		return ReasonRenewed, nil
	case proxy.ExpiresAt.After(p.in.Now):
		return "", nil
	}
	vain, err := p.known.RenewedInVain(ctx, proxy.ProxyID, p.in.Now)
	if err != nil || !vain {
		return "", err
	}
	p.plan.ForPerson = append(p.plan.ForPerson, fact.ProxyReview{
		ProxyID: proxy.ProxyID, Schedule: p.in.Schedule.Name, ExpiresAt: proxy.ExpiresAt.UTC(),
		Reason: "a renewal of it was paid, and it has expired all the same: schedules skip it until it is reviewed",
	})
	return ReasonInVain, nil
}
