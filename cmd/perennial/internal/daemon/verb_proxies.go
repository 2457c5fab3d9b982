// The verb `proxies`: what the ledger knows of the account's proxies.

package daemon

import (
	"context"

	"perennial/cmd/perennial/internal/verbs"
)

func (a *account) proxies(ctx context.Context, q verbs.ProxiesRequest) (verbs.ProxiesAnswer, error) {
	limit := q.Limit
	if limit == 0 || limit > mostLines {
		limit = mostLines
	}
	page := verbs.ProxiesAnswer{Proxies: []verbs.ListedProxy{}}
	known, err := a.Ledger().Proxies(ctx, q.After, limit+1)
	for i, p := range known {
		if i == limit {
			page.Next = known[i-1].ProxyID
			break
		}
		page.Proxies = append(page.Proxies, verbs.Listed(p))
	}
	return page, err
}
