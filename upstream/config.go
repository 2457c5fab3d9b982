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
	BaseURL   string                                     // https://…; http:// is accepted only for a loopback address
	AppID     string                                     // begins with live_app_ or sbx_app_
	Secret    string                                     // the API Secret; the package never prints it
	SignPort  bool                                       // whether the signed host includes the port; the API document does not say; default: false
	UserAgent string                                     // default: "perennial/1"
	Timeout   time.Duration                              // the time limit for one complete request; default: 60 s
	MaxBody   int64                                      // the largest response body in bytes; default: 16 MiB
	Clock     func() time.Time                           // default: the system's clock
	Nonce     func() string                              // default: 128 random bits in hexadecimal
	Wait      func(context.Context, time.Duration) error // the pause between the polls of AwaitOrder; default: a timer that stops when ctx ends
	Roots     *x509.CertPool                             // trusted certificate authorities, used only if Transport is nil; default: the system's
	Transport http.RoundTripper                          // default: the client's own HTTP/1.1 transport with keep-alive
	Observe   func(Exchange)                             // called after each request; default: nil, no call
}

// String returns the address and the App ID, but not the secret.
func (c Config) String() string { return "upstream " + c.BaseURL + " as " + c.AppID }

// Format prints the result of String for every fmt verb, so that fmt never prints the secret.
func (c Config) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }

// MarshalJSON encodes the result of String.
func (c Config) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// Environment is one of the two environments of the API.
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

// EnvironmentOf returns the environment of an App ID, or an error if the prefix is unknown.
func EnvironmentOf(appID string) (Environment, error) {
	switch {
	case strings.HasPrefix(appID, livePrefix):
		return Production, nil
	case strings.HasPrefix(appID, sandboxPrefix):
		return Sandbox, nil
	}
	return "", fmt.Errorf("must begin with %s (production) or %s (sandbox)", livePrefix, sandboxPrefix)
}

// Client sends requests to one environment with one API key.
type Client struct {
	cfg          Config        // includes the defaults, but not the secret
	secret       func() string // a function, because fmt prints unexported fields but not closures
	base         *url.URL
	basePath     string
	signedHost   string
	environment  Environment
	ownTransport bool
	sizes        byPath[int]     // the largest page size to send, after the provider rejected larger ones; 0 means to send no size
	keys         byPath[listKey] // the only array in an earlier reply that could be the list
}

type byPath[T any] struct{ all sync.Map }

func (b *byPath[T]) of(path string) (known T, ok bool) {
	v, ok := b.all.Load(path)
	if ok {
		known, _ = v.(T)
	}
	return known, ok
}

func (b *byPath[T]) learn(path string, v T) { b.all.Store(path, v) }

// New returns a Client. It returns an error if the address, the App ID, the secret, the user
// agent or an HTTP proxy variable is invalid.
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

// CheckBaseURL returns an error if the provider's address is unusable. The error never repeats
// a part of the address that may contain a password.
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

// Private reports whether a connection to the address is protected from eavesdropping: it uses
// https, or http over the loopback interface.
func Private(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname())
}

// HasPort reports whether the address has a valid port or no port.
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

// headerSafe reports whether an HTTP header transmits the string unchanged. net/http and servers
// remove spaces at the ends of a value, so the idempotency keys " k" and "k" would be equal.
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
	_, _ = rand.Read(raw[:]) // never fails: rand.Read crashes the program instead
	return hex.EncodeToString(raw[:])
}

// Environment returns the environment of the client's App ID (API: Credentials).
func (c *Client) Environment() Environment { return c.environment }

// AppID returns the App ID, the public part of the API key.
func (c *Client) AppID() string { return c.cfg.AppID }

// BaseURL returns the provider's address.
func (c *Client) BaseURL() string { return c.cfg.BaseURL }

// String returns the address and the App ID, but not the secret.
func (c *Client) String() string { return c.cfg.String() }

// Format prints the result of String for every fmt verb, so that fmt never prints the secret.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }

// MarshalJSON encodes the result of String.
func (c *Client) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// Close closes the idle connections of the client's own transport. It does nothing if the
// configuration gave a transport.
func (c *Client) Close() {
	if t, ok := c.cfg.Transport.(*http.Transport); ok && c.ownTransport {
		t.CloseIdleConnections()
	}
}
