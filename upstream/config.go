// The client's configuration, and the checks of addresses and App IDs.

package upstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"perennial/ledger/sleep"
)

// Config configures a [Client].
type Config struct {
	BaseURL   string                                     // https://…, or http:// to a loopback address only
	AppID     string                                     // begins with live_app_ or sbx_app_
	Secret    string                                     // the API Secret; never printed
	SignPort  bool                                       // include the port in the signed host (the document leaves it open); default: no
	UserAgent string                                     // default "perennial/1"
	Timeout   time.Duration                              // of one whole request; default 60 s
	MaxBody   int64                                      // largest response body in bytes; default 16 MiB
	Clock     func() time.Time                           // default: the system's clock
	Nonce     func() string                              // default: 128 random bits in hexadecimal
	Wait      func(context.Context, time.Duration) error // used by AwaitOrder; default: a timer that stops when ctx ends
	Roots     *x509.CertPool                             // trusted authorities, unless Transport is set; default: the system's
	Transport http.RoundTripper                          // default: HTTP/1.1 with keep-alive, owned by the client
	Observe   func(Exchange)                             // called after each request; default: none
}

// String returns the address and the App ID, never the secret.
func (c Config) String() string { return "upstream " + c.BaseURL + " as " + c.AppID }

// Format keeps every fmt verb from printing the secret.
func (c Config) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }

// MarshalJSON returns the same text as String.
func (c Config) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// Environment is one of the API's two environments.
type Environment string

// The two environments (API: What the service does).
const (
	Production Environment = "production"
	Sandbox    Environment = "sandbox"
)

const (
	livePrefix    = "live_app_"
	sandboxPrefix = "sbx_app_"
)

// EnvironmentOf returns the environment that an App ID belongs to.
func EnvironmentOf(appID string) (Environment, error) {
	switch {
	case strings.HasPrefix(appID, livePrefix):
		return Production, nil
	case strings.HasPrefix(appID, sandboxPrefix):
		return Sandbox, nil
	}
	return "", fmt.Errorf("must begin with %s (production) or %s (sandbox)", livePrefix, sandboxPrefix)
}

// Client calls one environment with one API key.
type Client struct {
	cfg          Config        // with defaults, and without the secret
	secret       func() string // a function, because fmt prints unexported fields but not closures
	base         *url.URL
	basePath     string
	signedHost   string
	environment  Environment
	ownTransport bool
	sizes        byPath[int]     // largest page sizes known to work; 0: send no size
	keys         byPath[listKey] // array names that were certainly the list
}

// byPath stores what the client has learned about each endpoint.
type byPath[T any] struct{ all sync.Map }

func (b *byPath[T]) of(path string) (known T, ok bool) {
	v, ok := b.all.Load(path)
	if ok {
		known, _ = v.(T)
	}
	return known, ok
}

func (b *byPath[T]) learn(path string, v T) { b.all.Store(path, v) }

// New checks the configuration and returns a Client. It refuses an App ID with an unknown
// prefix, an empty secret, and plain http to anything but loopback.
func New(cfg Config) (*Client, error) {
	base, err := parseBase(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("upstream: base address: %w", err)
	}
	env, err := EnvironmentOf(cfg.AppID)
	if err != nil {
		return nil, fmt.Errorf("upstream: app id %w", err)
	}
	if cfg.Secret == "" {
		return nil, errors.New("upstream: secret is empty")
	}
	if !headerSafe(cfg.AppID) || !headerSafe(cfg.UserAgent) {
		return nil, errors.New("upstream: app id and user agent must be printable ASCII without spaces at their ends")
	}
	secret := cfg.Secret
	c := &Client{secret: func() string { return secret }, base: base, basePath: strings.TrimRight(base.EscapedPath(), "/"),
		signedHost: signedHost(base, cfg.SignPort), environment: env, ownTransport: cfg.Transport == nil}
	if c.ownTransport {
		if err := checkProxyVariables(); err != nil {
			return nil, fmt.Errorf("upstream: %w", err)
		}
		cfg.Transport = newTransport(cfg.Roots)
	}
	cfg.Secret, cfg.BaseURL = "", base.Scheme+"://"+base.Host+c.basePath
	c.cfg = cfg.withDefaults()
	return c, nil
}

func (c Config) withDefaults() Config {
	c.UserAgent = cmp.Or(c.UserAgent, "perennial/1")
	if c.Timeout <= 0 {
		c.Timeout = 60 * time.Second
	}
	if c.MaxBody <= 0 {
		c.MaxBody = 16 << 20
	}
	if c.Clock == nil {
		c.Clock = time.Now //nolint:forbidigo // the default of a client that is used on its own
	}
	if c.Nonce == nil {
		c.Nonce = randomNonce
	}
	if c.Wait == nil {
		c.Wait = sleep.For
	}
	return c
}

// CheckBaseURL returns an error if the provider's address is unusable. The error never
// repeats a part that may hold a password.
func CheckBaseURL(raw string) error {
	_, err := parseBase(raw)
	return err
}

func parseBase(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err == nil && (u.User != nil || u.RawQuery != "" || u.Fragment != ""):
		return nil, errors.New("must be scheme, host and perhaps a path, with no user, no query and no fragment: the key belongs in app_id and secret_file")
	case err != nil || u.Hostname() == "":
		return nil, errors.New("must be the provider's address, such as https://api.example.com")
	case !HasPort(u):
		return nil, fmt.Errorf("has port %.20q: a port is 1 to 65535", u.Port())
	case !Private(u):
		return nil, fmt.Errorf("is %q: only https is accepted, and http to this machine itself", raw)
	}
	return u, nil
}

// Private reports whether the connection to an address is protected from eavesdropping. It
// must be https, or http to a loopback address.
func Private(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname())
}

// HasPort reports whether the address has no port, or a valid one.
func HasPort(u *url.URL) bool {
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return u.Port() == "" || err == nil && port > 0
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func signedHost(u *url.URL, withPort bool) string {
	host := strings.ToLower(u.Host)
	if port := u.Port(); !withPort && port != "" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return host
}

// headerSafe reports whether a header carries the string unchanged. net/http and servers
// trim spaces at the ends, which would make " k" and "k" the same idempotency key.
func headerSafe(s string) bool {
	if strings.Trim(s, " ") != s {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

func randomNonce() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails: it crashes the program instead
	return hex.EncodeToString(raw[:])
}

// Environment returns the environment given by the App ID's prefix (API: Credentials).
func (c *Client) Environment() Environment { return c.environment }

// AppID returns the public half of the key.
func (c *Client) AppID() string { return c.cfg.AppID }

// BaseURL returns the address that the client calls.
func (c *Client) BaseURL() string { return c.cfg.BaseURL }

// String returns the address and the App ID, never the secret.
func (c *Client) String() string { return c.cfg.String() }

// Format keeps every fmt verb from printing the secret.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }

// MarshalJSON returns the same text as String.
func (c *Client) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// Close closes the idle connections of the client's own transport.
func (c *Client) Close() {
	if t, ok := c.cfg.Transport.(*http.Transport); ok && c.ownTransport {
		t.CloseIdleConnections()
	}
}
