// A proxy that is missing from a complete listing may still exist. It leaves the table only when
// a read of it returns proxy_not_found, or when it has expired.

package listing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

const (
	// DefaultLossPercent and DefaultLossMin are the defaults of Config.LossPercent and
	// Config.LossMin.
	DefaultLossPercent = 20
	DefaultLossMin     = 5
	readAtOnce         = 20
	// After failedReads failed reads, the remaining proxies wait for the next pass.
	failedReads = 3
	// lossNamed limits how many proxies a listing.shrunk fact lists.
	lossNamed = 20
)

func (l *Lister) shrunk(at tables.Listing) bool {
	return at.Lost >= l.LossMin && at.Lost*100 >= l.LossPercent*at.Known
}

// Recall loads the last pass of an earlier process, if it missed too many proxies.
func (l *Lister) Recall(ctx context.Context) error {
	at, err := l.Ledger.Fleet.Listing(ctx)
	if err == nil && l.shrunk(at) {
		l.loss.Store(&at)
	}
	return err
}

// finish ends a complete pass. Proxies whose entries cannot be read count as missing. If an
// entry has no readable id, no proxy is marked as unlisted, because the entry may be any of
// the missing proxies.
func (l *Lister) finish(ctx context.Context, at tables.Listing) error {
	ended, before := l.Clock(), l.loss.Load()
	done := tables.Listing{Pass: at.Pass, Finished: ended, Took: max(ended.Sub(at.Began), 0)}
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
		l.untold = false
		if l.loss.Store(nil); before != nil {
			l.Log.WithField("account", l.Account).Infof("the listing shows %d of %d known proxies again", done.Known-done.Lost, done.Known)
		}
		l.Healed()
		return nil
	}
	l.loss.Store(&done)
	if before != nil && !l.untold {
		return nil
	}
	l.Log.WithField("account", l.Account).Warn(LossText(done))
	err = l.tellLoss(ctx, done)
	l.untold = err != nil
	return err
}

func (l *Lister) tellLoss(ctx context.Context, at tables.Listing) error {
	some, err := l.Ledger.Fleet.Unlisted(ctx, lossNamed)
	if err != nil {
		return err
	}
	f := fact.ListingShrunk{Known: at.Known, NotListed: at.Lost, ProxyIDs: []string{}}
	for _, p := range some {
		f.ProxyIDs = append(f.ProxyIDs, fact.Bounded(p.ProxyID))
	}
	return l.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Append(f) })
}

// LossText describes what a pass missed.
func LossText(at tables.Listing) string {
	return fmt.Sprintf("the last listing did not show %d of %d known proxies, or not so that they can be read: they stay in the table and are warned about; compare `perennial proxies list --live`", at.Lost, at.Known)
}

// readUnlisted reads some of the proxies that listings miss. A proxy that the provider does
// not know is marked as gone.
func (l *Lister) readUnlisted(ctx context.Context) error {
	if l.Proxy == nil {
		return nil
	}
	some, err := l.Ledger.Fleet.Unlisted(ctx, readAtOnce)
	if err != nil {
		return err
	}
	if len(l.unread) > readAtOnce*readAtOnce || l.unread == nil {
		l.unread = map[string]int{}
	}
	// Proxies whose last reads failed go last, so that they do not keep others from being read.
	slices.SortStableFunc(some, func(a, b tables.Proxy) int { return cmp.Compare(l.unread[a.ProxyID], l.unread[b.ProxyID]) })
	failed := 0
	for _, p := range some {
		if err := l.Pass(ctx); err != nil {
			return err
		}
		asked := l.Clock()
		read, err := l.Proxy(ctx, p.ProxyID)
		notFound := errors.Is(err, upstream.CodeProxyNotFound)
		if err != nil && !notFound {
			l.unread[p.ProxyID]++
			if failed++; ctx.Err() != nil || failed == failedReads {
				return ctx.Err() // tried again before the next pass; the listing reports an outage
			}
			continue
		}
		delete(l.unread, p.ProxyID)
		err = l.Ledger.Write(ctx, func(tx *ledger.Tx) error {
			if notFound {
				return tx.Gone(p.ProxyID)
			}
			return tx.Observe(0, Seen(read, asked))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
