// This file finds proxies whose expiry moved without a renewal in the ledger.

package reconcile

import (
	"context"
	"fmt"
	"time"

	"perennial/jobs/decide"
)

// outsideRenewals finds expiries that moved without a renewal in this ledger, for example
// through a renewal at the provider's own site. The wallet would not show such a renewal if
// a top-up of the same amount was made. A recorded external movement explains the expiries
// seen before it.
func (p *Pass) outsideRenewals(ctx context.Context) error {
	moved, err := p.Ledger.Fleet.MovedOutside(ctx)
	if err != nil {
		return err
	}
	for _, m := range moved {
		days := int64((m.By + 12*time.Hour) / (24 * time.Hour))
		paid, err := p.Ledger.Fleet.PaidPerDay(ctx, m.ProxyID)
		if err != nil {
			return err
		}
		f := Finding{Kind: decide.FindingRenewed, ProxyID: m.ProxyID, Explanation: fmt.Sprintf(
			"its expiry moved from %s to %s, by %d days, and no renewal of this ledger explains it: if it was renewed at the provider's own site and that is not recorded yet, `perennial ledger record --kind external`", Stamp(m.Before), Stamp(m.Now), days)}
		if cost := paid.For(days); cost.Known() {
			f.AmountCents = -cost.Or(0)
			f.Explanation += "; at the price last paid it cost " + p.Binding.Amount(-f.AmountCents)
		}
		p.find(f)
	}
	return nil
}
