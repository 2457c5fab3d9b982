package upstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Proxy is a delivered proxy without its connection data. The decoder skips host, port,
// username, password, connection and socks5_uri (trap 41). A descriptive field is NotText if
// the member has another type.
type Proxy struct {
	ProxyID, Status                                 string
	IPType, CountryCode, Region, LineName, Protocol string
	StartsAt                                        *time.Time // UTC; nil if absent, null or unreadable
	ExpiresAt                                       *time.Time // UTC; nil if absent, null or empty: the proxy never needs a renewal
}

func decodeProxy(o *object) Proxy {
	return Proxy{
		ProxyID: o.id("proxy_id"), Status: o.described("status"), IPType: o.described("ip_type"), CountryCode: o.described("country_code"),
		Region: o.described("region"), LineName: o.described("line_name"), Protocol: o.described("protocol"),
		StartsAt: o.lenientTime("starts_at"), ExpiresAt: o.optionalTime("expires_at"),
	}
}

// Proxy requests one proxy (API: GET /api/v1/proxies/{proxy_id}, scope proxies:read). The error
// matches CodeProxyNotFound if the proxy is unknown or belongs to another account.
func (c *Client) Proxy(ctx context.Context, proxyID string) (Proxy, error) {
	return getItem(ctx, c, proxiesPath, proxyID, func(o *object, _ *Envelope) Proxy {
		p := decodeProxy(o)
		if p.ProxyID != proxyID { // the expiry of another proxy must not lead to a payment
			o.fail("proxy_id", "not the one that was asked for")
		}
		return p
	})
}

// ProxiesPage requests one page of proxies (API: GET /api/v1/proxies). The API document does
// not give the name of the list. The list is the array whose entries have proxy_id and the
// largest number of documented members.
func (c *Client) ProxiesPage(ctx context.Context, r PageRequest) (Page[Proxy], error) {
	return getPage(ctx, c, list{path: proxiesPath, entry: "proxy_id", members: proxyMembers, documented: true}, nil, r, decodeProxy)
}

// Proxies iterates over all proxies, as [Client.Offers] does over offers.
func (c *Client) Proxies(ctx context.Context, pageSize int) iter.Seq2[Proxy, error] {
	return walk(pageSize, func(r PageRequest) (Page[Proxy], error) { return c.ProxiesPage(ctx, r) })
}

// InPath reports whether an id can be a segment in the path of a request. With "", "." or "..",
// the path would lead to another resource.
func InPath(id string) bool { return id != "" && id != "." && id != ".." }

func getItem[T any](ctx context.Context, c *Client, collection, id string, decode func(*object, *Envelope) T) (out T, err error) {
	if !InPath(id) {
		return out, fmt.Errorf("upstream: %w", ErrBadID)
	}
	return getOne(ctx, c, collection+"/"+EscapeSegment(id), "", decode)
}

// ErrBadID means that an id cannot be in a path. The client sent no request.
var ErrBadID = errors.New("identifier is empty or a path step")

// Credentials are the connection data of one proxy. Every fmt verb and every encoder prints
// them as "[redacted]". Only the methods return the values. Never store or log the values (API:
// Proxy item).
type Credentials struct{ read func() credentials } // a function, because fmt prints unexported fields but not closures

type credentials struct {
	host, username, password, connection, socks5URI string
	port                                            string
}

const redacted = "[redacted]"

// Host returns the proxy's address.
func (c Credentials) Host() string { return c.get().host }

// Port returns the port as text.
func (c Credentials) Port() string { return c.get().port }

// Username returns the user name for the proxy.
func (c Credentials) Username() string { return c.get().username }

// Password returns the password for the proxy.
func (c Credentials) Password() string { return c.get().password }

// Connection returns the connection data. The API document does not give their structure. A
// string is returned as its text, and any other value as JSON.
func (c Credentials) Connection() string { return c.get().connection }

// SOCKS5URI returns the SOCKS5 URI, which contains the password.
func (c Credentials) SOCKS5URI() string { return c.get().socks5URI }

func (c Credentials) get() credentials {
	if c.read == nil {
		return credentials{}
	}
	return c.read()
}

// String returns "[redacted]".
func (c Credentials) String() string { return redacted }

// Format prints "[redacted]" for every verb.
func (c Credentials) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText returns "[redacted]" to every encoder.
func (c Credentials) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Reveal requests the credentials of one proxy from the provider (API: GET
// /api/v1/proxies/{proxy_id}). No other function in this package decodes credentials.
func (c *Client) Reveal(ctx context.Context, proxyID string) (Credentials, error) {
	return getItem(ctx, c, proxiesPath, proxyID, func(o *object, _ *Envelope) Credentials {
		if o.need("proxy_id"); o.str("proxy_id") != proxyID {
			o.fail("proxy_id", "not the one that was asked for")
		}
		s := credentials{host: o.text("host"), port: o.text("port"), username: o.text("username"),
			password: o.text("password"), socks5URI: o.text("socks5_uri")}
		s.connection = string(o.raw("connection"))
		if text, ok := as[string](o.raw("connection")); ok {
			s.connection = text
		}
		return Credentials{read: func() credentials { return s }}
	})
}
