// What a complete listing does not show. Absence is no evidence about a proxy: it leaves the
// table when its own read says so, or when it has expired (trap 66).

package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules/plans"
	"perennial/upstream"
)

const (
	// DefaultLossPercent and DefaultLossMin are the defaults of Config.LossPercent and
	// Config.LossMin.
	DefaultLossPercent = 20
	DefaultLossMin     = 5
	// readAtOnce bounds the unlisted proxies that are read before a pass.
	readAtOnce = 20
	// lossNamed bounds the proxies that a listing.shrunk names.
	lossNamed = 20
	// lastHours is how long before the first expiry a sweep no longer waits for a listing
	// that shows its proxies: each is read before it is paid for.
	lastHours = 6 * time.Hour
)

// shrunk reports whether a complete pass lost too much.
func (l *lister) shrunk(at ledger.Listing) bool {
	return at.Lost >= l.LossMin && at.Lost*100 >= l.LossPercent*at.Known
}

// recall takes over what the last pass before a restart lost.
func (l *lister) recall(ctx context.Context) error {
	at, err := l.Ledger.Listing(ctx)
	if err == nil && l.shrunk(at) {
		l.loss.Store(&at)
	}
	return err
}

// finish ends a complete pass. What it showed and cannot be read counts as lost. While an entry has no id that can be read, no proxy is
// marked as unlisted: it may be any of those that are missing.
func (l *lister) finish(ctx context.Context, at ledger.Listing) error {
	ended, before := l.Clock(), l.loss.Load()
	done := ledger.Listing{Pass: at.Pass, Finished: ended, Took: max(ended.Sub(at.Began), 0)}
	err := l.Ledger.Write(ctx, func(tx *ledger.Tx) (err error) {
		if at.Nameless == 0 {
			if err := tx.FinishPass(at.Pass, at.Began); err != nil {
				return err
			}
		}
		if done.Known, done.Lost, err = tx.CountLost(at.Pass, at.Began); err != nil {
			return err
		}
		return tx.KeepListing(done)
	})
	if err != nil {
		return err
	}
	l.nameless.Store(int64(at.Nameless))
	if !l.shrunk(done) {
		if l.loss.Store(nil); before != nil {
			l.Log.WithField("account", l.Account).Infof("the listing shows %d of %d known proxies again", done.Known-done.Lost, done.Known)
		}
		l.healed()
		return nil
	}
	l.loss.Store(&done)
	if before != nil {
		return nil
	}
	l.Log.WithField("account", l.Account).Warn(lossText(done))
	return l.tellLoss(ctx, done)
}

// tellLoss appends the fact, once until a pass has lost little.
func (l *lister) tellLoss(ctx context.Context, at ledger.Listing) error {
	some, err := l.Ledger.Unlisted(ctx, lossNamed)
	if err != nil {
		return err
	}
	f := fact.ListingShrunk{Known: at.Known, NotListed: at.Lost, ProxyIDs: []string{}}
	for _, p := range some {
		f.ProxyIDs = append(f.ProxyIDs, bounded(p.ProxyID))
	}
	return l.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Append(f) })
}

func lossText(at ledger.Listing) string {
	return fmt.Sprintf("the last listing did not show %d of %d known proxies, or not so that they can be read: they stay in the table and are warned about; compare `perennial proxies list --live`", at.Lost, at.Known)
}

// Lost is how many living proxies the last listing did not show, where they are too many;
// else 0. Nameless is how many of its entries have no id that can be read.
func (s *Sweeper) Lost() (lost, nameless int) {
	if loss := s.lister.loss.Load(); loss != nil {
		lost = loss.Lost
	}
	return lost, int(s.lister.nameless.Load())
}

// readUnlisted reads some of the proxies that listings do not show. What the provider
// does not know is gone.
func (l *lister) readUnlisted(ctx context.Context) error {
	if l.Proxy == nil {
		return nil
	}
	some, err := l.Ledger.Unlisted(ctx, readAtOnce)
	if err != nil {
		return err
	}
	for _, p := range some {
		if err := l.Pass(ctx); err != nil {
			return err
		}
		asked := l.Clock()
		read, err := l.Proxy(ctx, p.ProxyID)
		notFound := errors.Is(err, upstream.CodeProxyNotFound)
		if err != nil && !notFound {
			return ctx.Err() // the listing says what is wrong; these are read before the next one
		}
		err = l.Ledger.Write(ctx, func(tx *ledger.Tx) error {
			if notFound {
				return tx.Gone(p.ProxyID)
			}
			return tx.Observe(0, seen(read, asked))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// noteUnusable puts into a plan which entries of the last listing could not be read.
func (s *Sweeper) noteUnusable(ctx context.Context, plan *plans.Plan) error {
	unusable, err := s.Ledger.UnreadableProxies(ctx, plans.MaxListed)
	if err != nil {
		return fmt.Errorf("read which entries are unusable: %w", err)
	}
	for _, p := range unusable {
		plan.Unusable = append(plan.Unusable, plans.Unusable{ProxyID: p.ProxyID, Reason: p.Unreadable})
	}
	_, count, err := s.Ledger.CountUnlisted(ctx)
	plan.UnusableCount = count + int(s.lister.nameless.Load())
	return err
}

// awaitListed returns an error while the last listing lost too much, proxies that are due
// among them, unless one of those expires soon. Either way it is a sweep.failed.
func (s *Sweeper) awaitListed(ctx context.Context, r *scheduleRunner, f firing) error {
	loss := s.lister.loss.Load()
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
	err = s.Ledger.Expiring(ctx, now.Add(r.RenewBefore), func(p ledger.Proxy) error {
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
	why := fmt.Sprintf("%s; %d of them are due", lossText(*loss), due)
	if first.Sub(now) > lastHours {
		return errors.New(why)
	}
	s.tellTrouble(ctx, r, &r.unlisted, f.slot, why+"; the first expires soon, so what is due is renewed: each is read before it is paid for")
	return nil
}
