// This file handles proxies that are missing from a complete listing. A missing proxy is not
// necessarily gone. A proxy leaves the table only when a read of it returns proxy_not_found,
// or when it has expired (trap 66).

package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"perennial/ledger/tables"
	"perennial/schedules/listing"
	"perennial/schedules/plans"
)

// lastHours is how long before the first expiry a run stops waiting for a listing that
// shows its proxies. Each proxy is then read before it is paid for.
const lastHours = 6 * time.Hour

// Lost returns how many live proxies were missing from the last listing, or 0 if few were.
// nameless is the number of entries in the listing without a readable id.
func (s *Sweeper) Lost() (lost, nameless int) {
	if loss := s.lister.Loss(); loss != nil {
		lost = loss.Lost
	}
	return lost, s.lister.Nameless()
}

// noteUnusable adds the last listing's unreadable entries to a plan.
func (s *Sweeper) noteUnusable(ctx context.Context, plan *plans.Plan) error {
	unusable, err := s.Ledger.Fleet.UnreadableProxies(ctx, plans.MaxListed)
	if err != nil {
		return fmt.Errorf("read which entries are unusable: %w", err)
	}
	for _, p := range unusable {
		plan.Unusable = append(plan.Unusable, plans.Unusable{ProxyID: p.ProxyID, Reason: p.Unreadable})
	}
	_, count, err := s.Ledger.Fleet.CountUnlisted(ctx)
	plan.UnusableCount = count + s.lister.Nameless()
	return err
}

// awaitListed returns an error while too many proxies are missing from the last listing and
// due proxies are among them. If one of these expires soon, it returns nil, so that the run
// is made. In both cases a sweep.failed fact is published.
func (s *Sweeper) awaitListed(ctx context.Context, r *scheduleRunner, f firing) error {
	loss := s.lister.Loss()
	if loss == nil || f.byHand {
		return nil
	}
	lists, err := r.Match.ReadLists(s.ReadFile)
	if err != nil {
		return err
	}
	fits, now := r.Match.Filter(lists), s.providerNow()
	var due int
	var first *time.Time
	err = s.Ledger.Fleet.Expiring(ctx, now.Add(r.RenewBefore), func(p tables.Proxy) error {
		if p.UnlistedAt == nil || p.Retired || !p.ExpiresAt.After(now) || !fits.Fits(p) {
			return nil
		}
		if due++; first == nil {
			first = p.ExpiresAt
		}
		return nil
	})
	if err != nil || due == 0 {
		return err
	}
	why := fmt.Sprintf("%s; %d of them are due", listing.LossText(*loss), due)
	if first.Sub(now) > lastHours {
		return errors.New(why)
	}
	s.tellTrouble(ctx, r, &r.unlisted, f.slot, why+"; the first expires soon, so what is due is renewed: each is read before it is paid for")
	return nil
}
