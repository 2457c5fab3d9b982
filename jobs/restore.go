package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// MayPlan returns a channel that closes once schedules may plan from the ledger's proxy table.
// Run must have begun, because Run marks another runner's data as out of date. The pause after a
// restore must have ended, and the restore must be long enough ago for reads to show its state.
func (r *recovery) MayPlan() <-chan struct{} { return r.mayPlan }

func (r *recovery) letPlan() {
	lost := r.pauses.lost.Load()
	if _, paused := r.pauses.restored(); r.begun.Load() && !paused && (lost == nil || !r.Clock().Before(lost.schedulesFrom)) {
		r.mayPlanOnce.Do(func() { close(r.mayPlan) })
	}
}

// endDoubt lets schedules plan once reads show the state after the restore. Once commands no longer
// count as possibly sent, it queues operations that waited for their turn.
func (r *recovery) endDoubt(ctx context.Context) error {
	for {
		r.letPlan()
		lost := r.pauses.lost.Load()
		if lost == nil {
			return nil
		}
		if now := r.Clock(); !now.Before(lost.until) && !now.Before(lost.schedulesFrom) {
			r.letPlan()
			if err := r.takeUpMissed(ctx); err != nil {
				r.loader.miss(err) // it is tried again
			}
			return nil
		}
		if err := sleep.For(ctx, time.Second); err != nil {
			return err
		}
	}
}

// verifyAfterRestore reads the provider's lists and ends the pause after a restore if the
// ledger accounts for everything in them. The pause exists because a restored ledger may lack
// requests that were sent after its last row. If there are findings, verifyAfterRestore writes
// them into the pause, and reads again after each answered review, and after strangeFirst to
// strangeMost, because a read may lag.
func (r *recovery) verifyAfterRestore(ctx context.Context) error {
	paused, ok := r.pauses.restored()
	retry, strangeAgain := sleep.Doubling(probeFirst, probeMost), sleep.Doubling(strangeFirst, strangeMost)
	for ok {
		answers, began := r.answers.Load(), r.Clock()
		strange, err := r.findUnaccounted(ctx, paused.Since)
		r.pauses.comparedOnce.Do(func() { close(r.pauses.compared) })
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			r.Log.WithError(err).Warn("the provider's lists could not be read, and the account stays paused after its restore; trying again")
			if err := retry.Wait(ctx); err != nil {
				return err
			}
			_, ok = r.pauses.restored()
		case strange == "":
			r.resumeExplained(ctx, paused)
			if paused, ok = r.pauses.restored(); ok { // its end could not be recorded
				if err := retry.Wait(ctx); err != nil {
					return err
				}
			}
		default:
			r.stayPaused(ctx, paused, strange)
			if err := r.untilAnswered(ctx, answers, began.Add(strangeAgain.Next())); err != nil {
				return err
			}
			paused, ok = r.pauses.restored()
			retry.Reset()
		}
	}
	return nil
}

// resumeExplained ends the pause after a restore, because a read has shown nothing that the ledger does
// not explain. A read soon after the restore may lag. So commands still count as possibly sent until
// the restore is strangeFirst ago. If the end cannot be recorded, the account stays paused.
func (r *recovery) resumeExplained(ctx context.Context, paused tables.Pause) {
	f := fact.AccountResumed{Scope: paused.Scope, Cause: paused.Cause, Detail: "the provider's lists hold no order and no expiry that the ledger does not account for"}
	since, err := r.Ledger.Operations.Forgotten(ctx)
	if err != nil {
		r.Log.WithError(err).Warn("the account stays paused after its restore, because its ledger cannot be read; trying again")
		return
	}
	if from := schedulesFrom(paused, r.Clock()); from != nil && since != nil {
		f.PresumeSentBy, f.LostSince, f.PresumeUntil, f.SchedulesFrom = r.Provider.AppID(), since, from, from
		if old := r.pauses.earlier(r.Clock()); old != nil && old.until.After(*from) {
			f.LostSince, f.PresumeUntil, f.ReviewLost = &old.since, &old.until, old.review
			r.pauses.noteRenewed(&f)
		}
		r.pauses.doubt(f, r.Clock())
	}
	_ = r.holds.resumeAs(ctx, paused, f) // it logs its error
}

// schedulesFrom returns the time from which schedules may plan after the pause, if that is later than
// now. Until then a read may show what was before the restore.
func schedulesFrom(paused tables.Pause, now time.Time) *time.Time {
	if from := paused.Since.Add(strangeFirst); from.After(now) {
		return &from
	}
	return nil
}

// Waits between reads after a restore, while something is not explained.
const (
	strangeFirst = 5 * time.Minute
	strangeMost  = time.Hour
)

// untilAnswered waits until a review is answered, the pause ends, or the clock shows at.
func (r *recovery) untilAnswered(ctx context.Context, answers int64, at time.Time) error {
	for r.answers.Load() == answers && r.Clock().Before(at) {
		if _, paused := r.pauses.restored(); !paused {
			return nil
		}
		if err := sleep.For(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// stayPaused writes the findings into the pause. It does nothing if an operator ended the
// pause during the read.
func (r *recovery) stayPaused(ctx context.Context, x tables.Pause, strange string) {
	r.holds.doubt.Lock()
	defer r.holds.doubt.Unlock()
	if _, paused := r.pauses.restored(); !paused {
		return
	}
	detail := "the ledger was restored, and the provider shows what it does not account for: " + strange + ". Look at it, then `perennial accounts resume`; add --review-lost if commands may have been retried or split since the backup"
	if x.Detail == detail {
		return // an earlier run recorded the same findings
	}
	x.Detail = detail
	r.pauses.put(x)
	err := r.Ledger.Write(context.WithoutCancel(ctx), func(tx *ledger.Tx) error {
		return tx.Append(fact.AccountPaused{Scope: x.Scope, Cause: x.Cause, Detail: detail})
	})
	if err != nil {
		r.Log.WithError(err).Error("what the provider's lists showed could not be recorded; the account stays paused")
	}
	r.Log.Warn("the account stays paused: " + detail)
}

// listSkew is the largest possible lag of the provider's order times relative to the
// machine's clock.
const listSkew = 2 * upstream.MaxSkew

// findUnaccounted describes what the provider lists and the ledger does not explain, for the
// period that the ledger may lack. It returns "" if there is nothing. restored is when the
// ledger was restored.
func (r *recovery) findUnaccounted(ctx context.Context, restored time.Time) (string, error) {
	since, err := r.Ledger.Operations.Forgotten(ctx)
	if err != nil || since == nil {
		return "", err
	}
	found, listed := &findings{renewed: map[string]*time.Time{}}, map[string]bool{}
	if before := r.pauses.renewed.Load(); before != nil {
		found.before = *before
	}
	err = everyPage(ctx, r.link, withUnusable(r.Provider.OrdersPage, func(u upstream.Unusable) upstream.OrderSummary {
		return upstream.OrderSummary{OrderNo: u.ID}
	}), func(o upstream.OrderSummary) error {
		owner, err := r.Ledger.Operations.OrderOwner(ctx, o.OrderNo, "")
		if owner == "" && (o.CreatedAt.IsZero() || !o.CreatedAt.Before(since.Add(-listSkew))) { // a summary may have no time
			found.add("order " + cmp.Or(o.OrderNo, "without a number that can be read"))
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("list orders: %w", err)
	}
	unseen := 0
	err = everyPage(ctx, r.link, withUnusable(r.Provider.ProxiesPage, func(u upstream.Unusable) upstream.Proxy {
		return upstream.Proxy{ProxyID: u.ID} // an entry that cannot be read has no expiry to compare
	}), func(p upstream.Proxy) error {
		listed[p.ProxyID] = true
		seen, err := expiryIsKnown(ctx, r.Ledger, p, restored, found)
		if err == nil && !seen && (p.StartsAt == nil || p.StartsAt.Before(since.Add(-listSkew))) {
			unseen++ // newer proxies came with orders, which were checked above
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("list proxies: %w", err)
	}
	err = r.Ledger.Fleet.Staying(ctx, *since, func(p tables.Proxy) error {
		if !listed[p.ProxyID] {
			found.mayBeRenewed(p.ProxyID)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if unseen > 0 {
		err = r.walletAgrees(ctx, unseen, found)
	}
	r.pauses.renewed.Store(&found.renewed)
	return found.String(), err
}

// expiryIsKnown checks a proxy's expiry against the last known expiry plus the days renewed
// since, and adds a later expiry to found. seen is false if the ledger has no expiry from
// before the restore.
func expiryIsKnown(ctx context.Context, l *ledger.Ledger, p upstream.Proxy, restored time.Time, found *findings) (seen bool, err error) {
	known, err := l.Fleet.Proxy(ctx, p.ProxyID)
	if errors.Is(err, ledger.ErrNotFound) || err == nil && (known.SeenAt.UnixMicro() <= 0 || known.SeenAt.After(restored)) {
		found.mayBeRenewed(p.ProxyID)
		return false, nil // unknown, or the known data is out of date, as right after a renewal
	}
	if err != nil {
		return true, err
	}
	if p.ExpiresAt == nil || known.ExpiresAt == nil {
		found.mayBeRenewed(p.ProxyID)
		return true, nil
	}
	days, err := l.Operations.RenewedDays(ctx, p.ProxyID, known.SeenAt, *known.ExpiresAt)
	if explained := known.ExpiresAt.AddDate(0, 0, int(days)).UTC(); p.ExpiresAt.After(explained.Add(fact.ExpiryTolerance)) {
		found.renewed[p.ProxyID] = &explained
		found.add("proxy " + p.ProxyID + ", which expires later than the ledger's renewals explain")
	}
	return true, err
}

// walletAgrees compares the wallet with the books and adds a difference to found. It replaces the
// expiry check for proxies whose expiry the ledger never saw. If the wallet agrees, no payment is
// missing from the books.
func (r *recovery) walletAgrees(ctx context.Context, unseen int, found *findings) error {
	if err := r.link.passRead(ctx); err != nil {
		return err
	}
	wallet, err := r.Provider.Wallet(ctx)
	r.link.Read(ctx, wallet.ServerTime, err)
	if err != nil {
		return fmt.Errorf("read the wallet: %w", err)
	}
	book, err := r.Ledger.Money.Balance(ctx, r.Account)
	if err == nil && book.WalletCents != wallet.BalanceCents {
		found.add(fmt.Sprintf("the wallet, which holds %s where the book says %s, beside %d proxies whose expiry the ledger never saw",
			r.binding().Amount(wallet.BalanceCents), r.binding().Amount(book.WalletCents), unseen))
	}
	return err
}

type findings struct {
	names []string
	count int
	// renewed has the proxies that expire later than the ledger explains, with the latest expiry that
	// it explains. A proxy of which either side shows no expiry may have been renewed: its value is nil.
	renewed map[string]*time.Time
	before  map[string]*time.Time // renewed of the last comparison
}

// mayBeRenewed notes a proxy whose expiry cannot be compared. If an earlier comparison showed that it
// was renewed, that stays, because the ledger may have read the new expiry since.
func (f *findings) mayBeRenewed(id string) { f.renewed[id] = f.before[id] }

const findingsNamed = 3

func (f *findings) add(name string) {
	if f.count++; f.count <= findingsNamed {
		f.names = append(f.names, fact.Bounded(name))
	}
}

func (f *findings) String() string {
	text := strings.Join(f.names, "; ")
	if more := f.count - len(f.names); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// withUnusable wraps the function read. The result also has a list's unusable entries as items,
// with the fields that are known.
func withUnusable[T any](read func(context.Context, upstream.PageRequest) (upstream.Page[T], error), item func(upstream.Unusable) T) func(context.Context, upstream.PageRequest) (upstream.Page[T], error) {
	return func(ctx context.Context, r upstream.PageRequest) (upstream.Page[T], error) {
		page, err := read(ctx, r)
		for _, u := range page.Unusable {
			page.Items = append(page.Items, item(u))
		}
		return page, err
	}
}

// everyPage calls do with each entry of a provider's list, at the gate's lowest priority.
// If a page fails, it returns the error; the caller starts again.
func everyPage[T upstream.Entry](ctx context.Context, l *link, read func(context.Context, upstream.PageRequest) (upstream.Page[T], error), do func(T) error) error {
	pages := upstream.Pages[T]{PageRequest: upstream.PageRequest{Size: reconcile.ListingPage}}
	for more := true; more; {
		if err := l.passRead(ctx); err != nil {
			return err
		}
		page, err := read(ctx, pages.PageRequest)
		l.Read(ctx, page.ServerTime, err)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			if err := do(item); err != nil {
				return err
			}
		}
		if more, err = pages.Follow(page); err != nil {
			return err
		}
	}
	return nil
}

// requeueAccepted queues accepted operations again as they are in the ledger. The queued versions
// do not know that the operations are presumed sent.
func (q *loader) requeueAccepted(ctx context.Context) error {
	q.ready.forget()
	return q.takeUpMissed(ctx)
}
