// The verb `proxies`: what the ledger knows of the account's proxies.

package daemon

import (
	"context"
	"time"

	"perennial/ledger"
)

// ProxiesRequest asks for the proxies behind one of them, in the order of their ids.
type ProxiesRequest struct {
	After string `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"` // default and most 1,000
}

func (q ProxiesRequest) check() error { return notNegative("limit", q.Limit) }

// ProxiesAnswer is one page.
type ProxiesAnswer struct {
	Proxies []ListedProxy `json:"proxies"`
	// Next is where the page behind it begins; left out on the last one.
	Next string `json:"next,omitempty"`
}

// ListedProxy is a proxy without what is known to be out of date: the expiry of before its
// last renewal is no expiry.
type ListedProxy struct {
	ledger.Proxy

	SeenAt *time.Time `json:"seen_at"` // nil: not since its last renewal
	// ExpiredBeforeRenewalAt is the expiry that a renewal which no read has shown yet began
	// from.
	ExpiredBeforeRenewalAt *time.Time `json:"expired_before_renewal_at,omitempty"`
}

// Listed is a proxy as the ledger has it, without what is out of date.
func Listed(p ledger.Proxy) ListedProxy {
	if !p.Unread() {
		return ListedProxy{Proxy: p, SeenAt: &p.SeenAt}
	}
	before := p.ExpiresAt
	p.ExpiresAt = nil
	return ListedProxy{Proxy: p, ExpiredBeforeRenewalAt: before}
}

func (a *account) proxies(ctx context.Context, q ProxiesRequest) (ProxiesAnswer, error) {
	limit := q.Limit
	if limit == 0 || limit > mostLines {
		limit = mostLines
	}
	page := ProxiesAnswer{Proxies: []ListedProxy{}}
	known, err := a.Ledger().Proxies(ctx, q.After, limit+1)
	for i, p := range known {
		if i == limit {
			page.Next = known[i-1].ProxyID
			break
		}
		page.Proxies = append(page.Proxies, Listed(p))
	}
	return page, err
}
