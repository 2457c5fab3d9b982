package jobs

import (
	"context"
	"errors"
	"time"

	"perennial/jobs/decide"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// observe finds the expiries that an unguarded renewal extends, and stores them in p. The
// recorded expiries show later whether an expiry moved, and prevent a second payment for the
// same expiry. observe adds unreadable proxies to h.
func (c *checker) observe(ctx context.Context, j *job, p *checked, h *decide.Prechecked) error {
	p.observed = map[string]time.Time{}
	unseen, err := seenOf(ctx, c.Ledger, p.ids, p.observed)
	if err != nil || len(unseen) == 0 {
		return err
	}
	if len(unseen) > readEach {
		if unseen, err = c.listFor(ctx, j.turn(), unseen, p.observed); err != nil {
			return err
		}
	}
	for _, id := range unseen {
		proxy, err := c.readProxy(ctx, j, id)
		unread, failed := errors.AsType[*unreadError](err)
		switch {
		case errors.Is(err, upstream.CodeProxyNotFound): // the reply to the renewal decides
			p.unknown = append(p.unknown, id)
			continue
		case errors.Is(err, upstream.CodeInsufficientScope), errors.Is(err, upstream.ErrBadID):
			continue
		case failed:
			err = c.noteUnread(ctx, j, h, id, unread)
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

// seenOf copies the current expiries from the ledger's proxy table into observed. It returns
// the proxies that have no current expiry there.
func seenOf(ctx context.Context, l *ledger.Ledger, ids []string, observed map[string]time.Time) (unseen []string, err error) {
	for _, id := range ids {
		expires, known, err := l.Fleet.SeenExpiry(ctx, id)
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

// listFor reads pages of the proxy list until all proxies in unseen are found. It makes at most
// one request for each proxy in unseen. It returns the proxies that are still missing.
func (c *checker) listFor(ctx context.Context, priority gatePriority, unseen []string, observed map[string]time.Time) ([]string, error) {
	c.listing.Lock() // other workers use the list that one worker reads
	defer c.listing.Unlock()
	unseen, err := seenOf(ctx, c.Ledger, unseen, observed)
	pages := upstream.Pages[upstream.Proxy]{PageRequest: upstream.PageRequest{Size: reconcile.ListingPage}}
	for most := len(unseen); err == nil && len(unseen) > 0 && most > 0; most-- {
		if err := c.link.passNow(ctx, priority); err != nil {
			return nil, err
		}
		at := c.clock.Now()
		got, err := c.Provider.ProxiesPage(ctx, pages.PageRequest)
		c.link.Read(ctx, got.ServerTime, err)
		if errors.Is(err, upstream.CodeInsufficientScope) {
			return unseen, nil
		}
		if err != nil {
			return nil, &unreadError{what: "the list of proxies", err: err}
		}
		if err := c.noteAll(ctx, at, got.Items); err != nil {
			return nil, err
		}
		if unseen, err = seenOf(ctx, c.Ledger, unseen, observed); err != nil {
			return nil, err
		}
		if more, _ := pages.Follow(got); !more { // the remaining proxies are read one by one
			break
		}
	}
	return unseen, err
}

// noteAll stores the proxies of a reply, with the time of the request. A renewal that
// settled after the request may be missing from the reply.
func (c *checker) noteAll(ctx context.Context, at time.Time, page []upstream.Proxy) error {
	known := make([]tables.Proxy, 0, len(page))
	for _, p := range page {
		known = append(known, Observed(p, at))
	}
	return c.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Observe(0, known...) })
}

// seenNow returns the known expiries of proxies, read inside the writer's transaction. It is for
// commands whose acceptance and intent are committed together. ok is false if a proxy must be
// read first.
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

// ReadOrder reads an order for an operator, after it has waited for a turn at the gate. It
// returns a RefusedError while the account is paused.
func (c *checker) ReadOrder(ctx context.Context, no string) (read upstream.Order, err error) {
	if err := c.readable(); err != nil {
		return read, err
	}
	if err = c.link.passNow(ctx, priorityPoll); err == nil {
		read, err = c.Provider.Order(ctx, no)
		c.link.Read(ctx, read.ServerTime, err)
	}
	return read, err
}
