// Proxies, without their credentials.

package upstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Proxy is a delivered proxy without anything that connects to it: host, port,
// username, password, connection and socks5_uri have no place here, so they are
// dropped while decoding (trap 41). A descriptive member that is no text is NotText.
type Proxy struct {
	ProxyID, Status                                 string
	IPType, CountryCode, Region, LineName, Protocol string
	StartsAt                                        *time.Time // UTC; nil when null, or no time
	ExpiresAt                                       *time.Time // UTC; nil when null: never due
}

func decodeProxy(o *object) Proxy {
	return Proxy{
		ProxyID: o.id("proxy_id"), Status: o.described("status"), IPType: o.described("ip_type"), CountryCode: o.described("country_code"),
		Region: o.described("region"), LineName: o.described("line_name"), Protocol: o.described("protocol"),
		StartsAt: o.looseTime("starts_at"), ExpiresAt: o.optionalTime("expires_at"),
	}
}

// Proxy reads one proxy (API: GET /api/v1/proxies/{proxy_id}, scope proxies:read).
// An unknown or foreign id is CodeProxyNotFound.
func (c *Client) Proxy(ctx context.Context, proxyID string) (Proxy, error) {
	path, err := itemPath(proxiesPath, proxyID)
	if err != nil {
		return Proxy{}, err
	}
	return getOne(ctx, c, path, func(o *object, _ *Envelope) Proxy {
		p := decodeProxy(o)
		if p.ProxyID != proxyID { // another one's expiry would be paid for
			o.fail("proxy_id", "is not the one that was asked for")
		}
		return p
	})
}

// ProxiesPage reads one page of proxies (API: GET /api/v1/proxies). The key of
// the list is not given: it is the array whose entries carry proxy_id and are most like proxy items.
func (c *Client) ProxiesPage(ctx context.Context, r PageRequest) (Page[Proxy], error) {
	return getPage(ctx, c, list{path: proxiesPath, entry: "proxy_id", members: proxyMembers, shown: true}, nil, r, decodeProxy)
}

// Proxies goes through all proxies, page by page; see [Client.Offers].
func (c *Client) Proxies(ctx context.Context, pageSize int) iter.Seq2[Proxy, error] {
	return walk(pageSize, func(r PageRequest) (Page[Proxy], error) { return c.ProxiesPage(ctx, r) })
}

// InPath reports whether the path of a request can name an item by this id: "", "." and
// ".." would name another resource.
func InPath(id string) bool { return id != "" && id != "." && id != ".." }

// itemPath escapes an opaque id once.
func itemPath(collection, id string) (string, error) {
	if !InPath(id) {
		return "", fmt.Errorf("upstream: %w", ErrBadID)
	}
	return collection + "/" + EscapeSegment(id), nil
}

// ErrBadID refuses an identifier that no path can carry; nothing was sent.
var ErrBadID = errors.New("identifier is empty or a path step")
