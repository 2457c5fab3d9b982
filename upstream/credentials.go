// The credentials of a proxy, which never print.

package upstream

import (
	"context"
	"fmt"
)

// Credentials are what connects to one proxy. They print as "[redacted]" in
// every way Go prints; only the accessors give them out. Never store or log them
// (API: Proxy item).
type Credentials struct{ read func() credentials } // a function: fmt follows pointers in unexported fields

type credentials struct {
	host, username, password, connection, socks5URI string
	port                                            string
}

const redacted = "[redacted]"

// Host is the address to connect to.
func (c Credentials) Host() string { return c.get().host }

// Port is the port as text.
func (c Credentials) Port() string { return c.get().port }

// Username is the proxy's user name.
func (c Credentials) Username() string { return c.get().username }

// Password is the proxy's password.
func (c Credentials) Password() string { return c.get().password }

// Connection is the raw connection data, whose structure the document does not
// give: a string's text, or the JSON of anything else.
func (c Credentials) Connection() string { return c.get().connection }

// SOCKS5URI is the ready-made URI; it contains the password.
func (c Credentials) SOCKS5URI() string { return c.get().socks5URI }

func (c Credentials) get() credentials {
	if c.read == nil {
		return credentials{}
	}
	return c.read()
}

// String is always "[redacted]".
func (c Credentials) String() string { return redacted }

// GoString is always "[redacted]".
func (c Credentials) GoString() string { return redacted }

// Format prints "[redacted]" for every verb.
func (c Credentials) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalJSON is always the string "[redacted]".
func (c Credentials) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText is always "[redacted]".
func (c Credentials) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Reveal reads one proxy's credentials from the provider (API: GET
// /api/v1/proxies/{proxy_id}). It is the only function of this package that
// decodes them.
func (c *Client) Reveal(ctx context.Context, proxyID string) (Credentials, error) {
	path, err := itemPath(proxiesPath, proxyID)
	if err != nil {
		return Credentials{}, err
	}
	return getOne(ctx, c, path, func(o *object, _ *Envelope) Credentials {
		o.need("proxy_id")
		s := credentials{host: o.text("host"), port: o.text("port"), username: o.text("username"),
			password: o.text("password"), socks5URI: o.text("socks5_uri")}
		s.connection = string(o.raw("connection"))
		if text, ok := as[string](o.raw("connection")); ok {
			s.connection = text
		}
		return Credentials{read: func() credentials { return s }}
	})
}
