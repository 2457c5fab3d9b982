package listing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/upstream"
)

type cursor struct {
	at    tables.Listing
	walk  upstream.Pages[upstream.Proxy]
	pages int
}

// Reads every page once, from the position of the pass. It stores each page in one transaction
// with the position of the next page.
func (l *Lister) list(ctx context.Context, at tables.Listing) (tables.Listing, error) {
	c := &cursor{at: at, walk: upstream.Pages[upstream.Proxy]{PageRequest: upstream.PageRequest{Size: at.Size, Token: at.Token}}}
	l.pagesRead.Store(0)
	for c.pages < maxPages {
		more, err := l.step(ctx, c)
		if err != nil {
			return c.at, l.ended(ctx, c, err)
		}
		if !more {
			return c.at, nil
		}
		failpoint.Reached(ctx, "listing.page")
	}
	return c.at, l.ended(ctx, c, fmt.Errorf("%d pages and no end: %w", c.pages, upstream.ErrPageLoop))
}

func (l *Lister) step(ctx context.Context, c *cursor) (more bool, err error) {
	c.pages++
	page, asked, err := l.page(ctx, c.walk.PageRequest)
	if c.walk.Restarts(err) {
		c.at.Token, c.at.Nameless = "", 0
		return true, nil
	}
	if err == nil {
		more, err = c.walk.Follow(page)
	}
	if err != nil {
		return false, err
	}
	c.at.Token = c.walk.Token
	c.note(l.Log.WithField("account", l.Account), page.Unusable)
	return more, l.observe(ctx, c.at, asked, page)
}

func (c *cursor) note(log *logrus.Entry, unusable []upstream.Unusable) {
	for i, u := range unusable {
		if u.ID == "" {
			c.at.Nameless++
		}
		if i == 0 {
			log.Warnf("page %d of the listing has %d entries that cannot be read and are not renewed; the first is entry %d (%.80q): %s", c.pages, len(unusable), u.Position, u.ID, u.Why)
		}
	}
}

// Returns why a pass ended early. After a transient error, or if the process ends, the next pass
// continues at the position. If the list repeats, or after a permanent error from the provider,
// the position is dropped, because the provider may refuse that page every time.
func (l *Lister) ended(ctx context.Context, c *cursor, why error) error {
	_, answered := errors.AsType[*upstream.Error](why)
	if ctx.Err() == nil && !passing(why) && (answered || errors.Is(why, upstream.ErrPageLoop)) {
		none := c.at
		none.Size = 0
		why = errors.Join(why, l.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.KeepListing(none) }))
	}
	return why
}

// Reads one page and retries after a transient error, because one lost reply must not end a pass
// over a million proxies. asked is the time of the request that got the page.
func (l *Lister) page(ctx context.Context, r upstream.PageRequest) (page upstream.Page[upstream.Proxy], asked time.Time, err error) {
	limited := sleep.Doubling(5*time.Second, longestRetry)
	other := sleep.Doubling(time.Second, time.Minute)
	for try := 1; ; try++ {
		if err := l.Pass(ctx); err != nil {
			return page, asked, err
		}
		asked = l.Clock()
		page, err = l.Provider.ProxiesPage(ctx, r)
		l.failing.Store(nil)
		if err != nil {
			why := fmt.Errorf("list the proxies: %w", err)
			l.failing.Store(&why)
			if failed, replied := errors.AsType[*upstream.Error](err); replied && failed.Code == upstream.CodeOK {
				l.garbled.CompareAndSwap(nil, &garbled{asked, err})
			}
		} else {
			l.garbled.Store(nil)
			now := l.Clock()
			l.lastPage.Store(&now)
			l.pagesRead.Add(1)
		}
		if err == nil || ctx.Err() != nil || try == maxPageTries || !passing(err) {
			return page, asked, err
		}
		var wait time.Duration
		if errors.Is(err, upstream.CodeRateLimited) {
			wait = max(retryAfter(err), limited.Next())
		} else {
			wait = other.Next()
		}
		if err := sleep.Until(ctx, l.Clock, l.Clock().Add(wait)); err != nil {
			return page, asked, err
		}
	}
}

// Reports whether an error is transient: no reply, no envelope, HTTP 5xx, or a transient code.
func passing(err error) bool {
	answer, ok := errors.AsType[*upstream.Error](err)
	if !ok {
		_, lost := errors.AsType[*upstream.TransportError](err)
		return lost
	}
	switch answer.Code {
	case upstream.CodeRateLimited, upstream.CodeReplayedNonce, upstream.CodeStaleTimestamp, "":
		return true
	}
	return answer.HTTPStatus >= 500
}

// retryAfter returns the reply's Retry-After, but at most an hour. It returns 0 if the reply has
// none.
func retryAfter(err error) time.Duration {
	answer, ok := errors.AsType[*upstream.Error](err)
	if !ok || !answer.RetryAfter.Valid {
		return 0
	}
	return min(answer.RetryAfter.Delay, longestRetry)
}

// Seen converts a proxy to the ledger's form. asked is the time of the request.
func Seen(p upstream.Proxy, asked time.Time) tables.Proxy {
	return tables.Proxy{
		ProxyID: p.ProxyID, Status: p.Status, IPType: p.IPType, Protocol: p.Protocol, CountryCode: p.CountryCode, Region: p.Region,
		LineName: p.LineName, StartsAt: p.StartsAt, ExpiresAt: fact.Expiry(p.ExpiresAt), SeenAt: asked,
	}
}

// Stores a page and the position of the pass. The page may lack a renewal that settled during the
// request. The renewed proxy stays marked as out of date, so that it is read again before a
// charge.
func (l *Lister) observe(ctx context.Context, at tables.Listing, asked time.Time, page upstream.Page[upstream.Proxy]) error {
	proxies, ids := make([]tables.Proxy, 0, len(page.Items)), make([]string, 0, len(page.Items))
	for _, p := range page.Items {
		proxies, ids = append(proxies, Seen(p, asked)), append(ids, p.ProxyID)
	}
	return l.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		if err := errors.Join(tx.Observe(at.Pass, proxies...), tx.KeepListing(at)); err != nil {
			return err
		}
		for _, u := range page.Unusable {
			if u.ID == "" {
				continue
			}
			if err := tx.ObserveUnreadable(at.Pass, u.ID, fact.Bounded(u.Why)); err != nil {
				return err
			}
		}
		settled, err := tx.SettledSince(ids, asked)
		if err != nil {
			return err
		}
		for _, id := range settled {
			if err := tx.Stale(id); err != nil {
				return err
			}
		}
		return nil
	})
}
