// Every renewal records the expiry of each proxy that it extends. A second renewal for
// the same expiry would pay twice, and only the earlier expiry shows whether it moved. A
// guarded command reads its proxies anyway (precheck.go). For others the last known
// expiry is used, unless a renewal has settled since.

package jobs

import (
	"context"
	"errors"
	"time"

	"perennial/jobs/decide"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/upstream"
)

// observe finds the expiries that an unguarded renewal extends, and adds unreadable
// proxies to h.
func (r *Runner) observe(ctx context.Context, j *job, p *checked, h *decide.Prechecked) error {
	p.observed = map[string]time.Time{}
	unseen, err := seenOf(ctx, r.Ledger, p.ids, p.observed)
	if err != nil || len(unseen) == 0 {
		return err
	}
	if len(unseen) > readEach {
		if unseen, err = r.listFor(ctx, j.turn(), unseen, p.observed); err != nil {
			return err
		}
	}
	for _, id := range unseen {
		proxy, err := r.readProxy(ctx, j, id)
		unread, failed := errors.AsType[*unreadError](err)
		switch {
		case errors.Is(err, upstream.CodeProxyNotFound): // the renewal's own reply decides
			p.unknown = append(p.unknown, id)
			continue
		case errors.Is(err, upstream.CodeInsufficientScope), errors.Is(err, upstream.ErrBadID):
			continue
		case failed:
			err = r.noteUnread(ctx, j, h, id, unread)
		case err == nil:
			h.Shown = true
		}
		if err != nil {
			return err
		}
		if proxy.ExpiresAt != nil {
			p.observed[id] = *proxy.ExpiresAt
		}
	}
	return nil
}

// seenOf puts the known expiries of the ledger's proxy table into observed, and returns
// the proxies without a current one.
func seenOf(ctx context.Context, l *ledger.Ledger, ids []string, observed map[string]time.Time) (unseen []string, err error) {
	for _, id := range ids {
		expires, known, err := l.SeenExpiry(ctx, id)
		if err != nil {
			return nil, err
		}
		if !known {
			unseen = append(unseen, id)
		} else if expires != nil {
			observed[id] = *expires
		}
	}
	return unseen, nil
}

// listFor reads the proxy list until it has shown all missing proxies. It uses at most
// as many requests as single reads would take. It returns the proxies still missing.
func (r *Runner) listFor(ctx context.Context, priority gatePriority, unseen []string, observed map[string]time.Time) ([]string, error) {
	r.listing.Lock() // one worker's list serves the others
	defer r.listing.Unlock()
	unseen, err := seenOf(ctx, r.Ledger, unseen, observed)
	pages := upstream.Pages[upstream.Proxy]{PageRequest: upstream.PageRequest{Size: reconcile.ListingPage}}
	for most := len(unseen); err == nil && len(unseen) > 0 && most > 0; most-- {
		if err := r.passNow(ctx, priority); err != nil {
			return nil, err
		}
		at := r.clock.Now()
		got, err := r.Provider.ProxiesPage(ctx, pages.PageRequest)
		r.Read(ctx, got.ServerTime, err)
		if errors.Is(err, upstream.CodeInsufficientScope) {
			return unseen, nil
		}
		if err != nil {
			return nil, &unreadError{what: "the list of proxies", err: err}
		}
		if err := r.noteAll(ctx, at, got.Items); err != nil {
			return nil, err
		}
		if unseen, err = seenOf(ctx, r.Ledger, unseen, observed); err != nil {
			return nil, err
		}
		if more, _ := pages.Follow(got); !more { // the rest is read one by one
			break
		}
	}
	return unseen, err
}

// noteAll stores the proxies of a read as of the time of its request, because later
// settlements may be missing from it.
func (r *Runner) noteAll(ctx context.Context, at time.Time, page []upstream.Proxy) error {
	known := make([]ledger.Proxy, 0, len(page))
	for _, p := range page {
		known = append(known, Observed(p, at))
	}
	return r.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Observe(0, known...) })
}

// seenNow is observe inside the writer's transaction, for a command that starts with its
// acceptance. ok is false if a proxy has to be read first.
func seenNow(tx *ledger.Tx, ids []string) (observed map[string]time.Time, ok bool, err error) {
	observed = make(map[string]time.Time, len(ids))
	for _, id := range ids {
		expires, known, err := tx.SeenExpiry(id)
		if err != nil || !known {
			return nil, false, err
		}
		if expires != nil {
			observed[id] = *expires
		}
	}
	return observed, true, nil
}

// ReadOrder reads an order for an operator, in its turn among the account's requests.
func (r *Runner) ReadOrder(ctx context.Context, no string) (read upstream.Order, err error) {
	if err := r.readable(); err != nil {
		return read, err
	}
	if err = r.passNow(ctx, priorityPoll); err == nil {
		read, err = r.Provider.Order(ctx, no)
		r.Read(ctx, read.ServerTime, err)
	}
	return read, err
}
