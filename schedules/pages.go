package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"perennial/ledger"
	"perennial/upstream"
)

// ErrPageLoop is a listing whose pages do not come to an end.
var ErrPageLoop = errors.New("the pages of the listing repeat")

// cursor is where a pass stands. A token belongs to the size it was given for,
// so a change of size and a refused token both begin again at page one.
type cursor struct {
	size     int // index into pageSizes
	token    string
	restarts int
	pages    int
	empty    int
	seen     map[string]bool
}

func (c *cursor) restart() {
	c.token, c.empty = "", 0
	clear(c.seen)
}

// list reads every page once and writes each as it comes.
func (l *Lister) list(ctx context.Context, pass int64) error {
	c := cursor{seen: map[string]bool{}}
	for c.pages < maxPages {
		c.pages++
		page, asked, err := l.page(ctx, upstream.PageRequest{Size: pageSizes[c.size], Token: c.token})
		switch {
		case errors.Is(err, upstream.CodeInvalidPageToken) && c.token != "" && c.restarts < maxRestarts:
			c.restarts++
			c.restart()
			continue
		case errors.Is(err, upstream.CodeValidationError) && c.size+1 < len(pageSizes):
			c.size++
			c.restart()
			continue
		case err != nil:
			return err
		}
		if err := l.observe(ctx, pass, asked, page.Items); err != nil {
			return err
		}
		if !page.HasMore {
			return nil
		}
		if err := c.follow(page); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d pages and no end: %w", c.pages, ErrPageLoop)
}

// follow goes to the next page, unless it came before in this run of pages.
func (c *cursor) follow(page upstream.Page[upstream.Proxy]) error {
	if c.empty++; len(page.Items) > 0 {
		c.empty = 0
	}
	if page.NextPageToken == "" || c.seen[page.NextPageToken] || c.empty > maxEmptyPages {
		return fmt.Errorf("page %d: %w", c.pages, ErrPageLoop)
	}
	c.seen[page.NextPageToken] = true
	c.token = page.NextPageToken
	return nil
}

// page reads one page, again after what may pass: a pass over a million proxies
// is not thrown away for one lost reply. asked is when the request that was
// answered was made.
func (l *Lister) page(ctx context.Context, r upstream.PageRequest) (page upstream.Page[upstream.Proxy], asked time.Time, err error) {
	limited := delays{first: 5 * time.Second, most: longestRetry}
	other := delays{first: time.Second, most: time.Minute}
	for try := 1; ; try++ {
		if err := l.pass(ctx); err != nil {
			return page, asked, err
		}
		asked = l.clock()
		page, err = l.provider.ProxiesPage(ctx, r)
		if err == nil || ctx.Err() != nil || try == maxPageTries || !passing(err) {
			return page, asked, err
		}
		var wait time.Duration
		if errors.Is(err, upstream.CodeRateLimited) {
			wait = max(retryAfter(err), limited.next())
		} else {
			wait = other.next()
		}
		if err := waitUntil(ctx, l.clock, l.clock().Add(wait)); err != nil {
			return page, asked, err
		}
	}
}

// passing reports whether an error may be gone at the next try: no reply, no
// envelope, or a code that says so. Any other code ends the pass.
func passing(err error) bool {
	var answer *upstream.Error
	if !errors.As(err, &answer) {
		var transport *upstream.TransportError
		return errors.As(err, &transport)
	}
	switch answer.Code {
	case upstream.CodeRateLimited, upstream.CodeReplayedNonce, upstream.CodeStaleTimestamp, "":
		return true
	}
	return answer.HTTPStatus >= 500
}

// retryAfter is the reply's Retry-After, at most an hour; 0 when it gives none.
func retryAfter(err error) time.Duration {
	var answer *upstream.Error
	if !errors.As(err, &answer) || !answer.RetryAfter.Valid {
		return 0
	}
	return min(answer.RetryAfter.Delay, longestRetry)
}

// observe writes a page. A renewal that settled while the page was on its way
// may not show in it yet: such a proxy stays marked to be read again before
// anything is paid for it.
func (l *Lister) observe(ctx context.Context, pass int64, asked time.Time, items []upstream.Proxy) error {
	proxies := make([]ledger.Proxy, 0, len(items))
	for _, p := range items {
		proxies = append(proxies, ledger.Proxy{
			ProxyID: p.ProxyID, Status: p.Status, IPType: p.IPType, Protocol: p.Protocol, CountryCode: p.CountryCode, Region: p.Region,
			LineName: p.LineName, StartsAt: p.StartsAt, ExpiresAt: p.ExpiresAt, SeenAt: asked,
		})
	}
	return l.ledger.Write(ctx, func(tx *ledger.Tx) error {
		if err := tx.Observe(pass, proxies...); err != nil {
			return err
		}
		for _, p := range proxies {
			settled, err := tx.SettledSince(p.ProxyID, asked)
			if err == nil && settled {
				err = tx.Stale(p.ProxyID)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
