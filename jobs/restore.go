// A restored ledger may have forgotten what was sent after its last row. The account
// stays paused until the provider's lists show nothing that the ledger does not know, or
// until a person ends the pause.

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
	"perennial/upstream"
)

// MayPlan is closed once what the ledger shows of the proxies may be planned from: Run has
// begun, so that what another runner saw of them is forgotten, and the ledger is known to
// have forgotten nothing itself, which it is at once unless it was restored.
func (r *Runner) MayPlan() <-chan struct{} { return r.mayPlan }

// RestorePause says that the account waits for what a restored ledger may have
// forgotten, "" when it does not.
func (r *Runner) RestorePause() string {
	if x, ok := r.pauses.restored(); ok {
		return "paused after a restore: " + x.Detail
	}
	return ""
}

// letPlan closes MayPlan unless the run has not begun or the pause of a restore is in force.
func (r *Runner) letPlan() {
	if _, paused := r.pauses.restored(); r.begun.Load() && !paused {
		r.mayPlanOnce.Do(func() { close(r.mayPlan) })
	}
}

// verifyAfterRestore reads the provider's lists once and ends the pause of a restore
// when they hold nothing that the ledger cannot account for. Otherwise the pause
// says what it is, and a person ends it.
func (r *Runner) verifyAfterRestore(ctx context.Context) error {
	paused, ok := r.pauses.restored()
	retry := sleep.Doubling(probeFirst, probeMost)
	for ok {
		answers := r.answers.Load()
		strange, err := r.findUnaccounted(ctx, paused.Since)
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
			r.resume(ctx, paused, "the provider's lists hold no order and no expiry that the ledger does not account for")
			return nil
		default:
			r.stayPaused(ctx, paused, strange)
			if err := r.untilAnswered(ctx, answers); err != nil {
				return err
			}
			paused, ok = r.pauses.restored()
			retry.Reset()
		}
	}
	return nil
}

// untilAnswered waits until a person has answered a review since, or has ended the
// pause.
func (r *Runner) untilAnswered(ctx context.Context, answers int64) error {
	for r.answers.Load() == answers {
		if _, paused := r.pauses.restored(); !paused {
			return nil
		}
		if err := sleep.For(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// stayPaused writes what was found into the pause itself, unless a person has ended the
// pause while the lists were read: then it stays ended.
func (r *Runner) stayPaused(ctx context.Context, x ledger.Pause, strange string) {
	r.doubt.Lock()
	defer r.doubt.Unlock()
	if _, paused := r.pauses.restored(); !paused {
		return
	}
	detail := "the ledger was restored, and the provider shows what it does not account for: " + strange + ". Look at it, then `perennial accounts resume`"
	if x.Detail == detail {
		return // it was found by an earlier run
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

// listSkew is by how much the provider's times of orders may run behind the machine's.
const listSkew = 2 * upstream.MaxSkew

// findUnaccounted names what the provider shows of the time that the ledger may have
// forgotten; "" when there is nothing. restored is when the ledger was restored.
func (r *Runner) findUnaccounted(ctx context.Context, restored time.Time) (string, error) {
	since, err := r.Ledger.Forgotten(ctx)
	if err != nil || since == nil {
		return "", err
	}
	found := &findings{}
	err = everyPage(ctx, r, withUnusable(r.Provider.OrdersPage, func(u upstream.Unusable) upstream.OrderSummary {
		return upstream.OrderSummary{OrderNo: u.ID}
	}), func(o upstream.OrderSummary) error {
		known, err := r.Ledger.HasOrder(ctx, o.OrderNo)
		if !known && (o.CreatedAt.IsZero() || !o.CreatedAt.Before(since.Add(-listSkew))) { // a summary need not have a time
			found.add("order " + cmp.Or(o.OrderNo, "without a number that can be read"))
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("list orders: %w", err)
	}
	unseen := 0
	err = everyPage(ctx, r, withUnusable(r.Provider.ProxiesPage, func(upstream.Unusable) upstream.Proxy {
		return upstream.Proxy{} // whatever its id: there is no expiry to compare
	}), func(p upstream.Proxy) error {
		seen, err := expiryIsKnown(ctx, r.Ledger, p, restored, found)
		if err == nil && !seen && (p.StartsAt == nil || p.StartsAt.Before(since.Add(-listSkew))) {
			unseen++ // a newer one came with an order
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("list proxies: %w", err)
	}
	if unseen > 0 {
		err = r.walletAgrees(ctx, unseen, found)
	}
	return found.String(), err
}

// expiryIsKnown compares a proxy with what the ledger last saw of it and has
// renewed since; seen is false when it never saw it before the restore.
func expiryIsKnown(ctx context.Context, l *ledger.Ledger, p upstream.Proxy, restored time.Time, found *findings) (seen bool, err error) {
	known, err := l.Proxy(ctx, p.ProxyID)
	if errors.Is(err, ledger.ErrNotFound) || err == nil && (known.SeenAt.UnixMicro() <= 0 || known.SeenAt.After(restored)) {
		return false, nil // or was out of date, as right after a renewal
	}
	if err != nil || p.ExpiresAt == nil || known.ExpiresAt == nil {
		return true, err
	}
	days, err := l.RenewedDays(ctx, p.ProxyID, known.SeenAt)
	if p.ExpiresAt.After(known.ExpiresAt.AddDate(0, 0, int(days)).Add(fact.ExpiryTolerance)) {
		found.add("proxy " + p.ProxyID + ", which expires later than the ledger's renewals explain")
	}
	return true, err
}

// walletAgrees replaces the comparison of expiries where there is nothing to compare: a
// wallet that holds what the book says has not paid for what the book forgot.
func (r *Runner) walletAgrees(ctx context.Context, unseen int, found *findings) error {
	if err := r.passRead(ctx); err != nil {
		return err
	}
	wallet, err := r.Provider.Wallet(ctx)
	r.Read(ctx, wallet.ServerTime, err)
	if err != nil {
		return fmt.Errorf("read the wallet: %w", err)
	}
	book, err := r.Ledger.Balance(ctx, r.Account)
	if err == nil && book.WalletCents != wallet.BalanceCents {
		found.add(fmt.Sprintf("the wallet, which holds %s where the book says %s, beside %d proxies whose expiry the ledger never saw",
			r.binding.Amount(wallet.BalanceCents), r.binding.Amount(book.WalletCents), unseen))
	}
	return err
}

// findings counts, and names the first few.
type findings struct {
	names []string
	count int
}

// findingsNamed is how many findings a pause names.
const findingsNamed = 3

func (f *findings) add(name string) {
	if f.count++; f.count <= findingsNamed {
		f.names = append(f.names, fact.Bounded(name))
	}
}

// String lists what is named and counts the rest, "" for nothing.
func (f *findings) String() string {
	text := strings.Join(f.names, "; ")
	if more := f.count - len(f.names); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// withUnusable is a list whose unusable entries are items too, as far as they are known: what
// cannot be read explains nothing.
func withUnusable[T any](read func(context.Context, upstream.PageRequest) (upstream.Page[T], error), item func(upstream.Unusable) T) func(context.Context, upstream.PageRequest) (upstream.Page[T], error) {
	return func(ctx context.Context, r upstream.PageRequest) (upstream.Page[T], error) {
		page, err := read(ctx, r)
		for _, u := range page.Unusable {
			page.Items = append(page.Items, item(u))
		}
		return page, err
	}
}

// everyPage goes through a list of the provider's, after everything else in the
// gate. A list that goes wrong in the middle is begun again by the caller.
func everyPage[T upstream.Entry](ctx context.Context, r *Runner, read func(context.Context, upstream.PageRequest) (upstream.Page[T], error), do func(T) error) error {
	pages := upstream.Pages[T]{PageRequest: upstream.PageRequest{Size: reconcile.ListingPage}}
	for more := true; more; {
		if err := r.passRead(ctx); err != nil {
			return err
		}
		page, err := read(ctx, pages.PageRequest)
		r.Read(ctx, page.ServerTime, err)
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

// requeueAccepted takes what waits to be sent from the ledger again: what is queued was
// loaded before it was presumed sent.
func (r *Runner) requeueAccepted(ctx context.Context) error {
	r.ready.forget()
	const all = 1 << 20
	accepted, err := r.Ledger.OperationsIn(ctx, fact.StateAccepted, all)
	if err != nil {
		return err
	}
	for _, record := range accepted {
		if err := r.enqueue(ctx, record); err != nil {
			return err
		}
	}
	return nil
}
