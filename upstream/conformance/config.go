// The configuration of a run: server, keys and spending limit.

package conformance

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Config configures a run.
type Config struct {
	BaseURL    string // https://…, or http:// to loopback
	AppID      string // begins with sbx_app_ or live_app_
	Secret     string // never printed
	Production bool   // must agree with the App ID; makes the run read-only unless MaxCents allows more
	MaxCents   *int64 // spending limit in cents; nil: what the chosen checks need in a sandbox, nothing in production
	SignPort   bool   // include the port in the signed host; the document leaves it open

	Keys         []Key  // additional keys, for scopes, other accounts and refusals
	OtherBaseURL string // the other environment's address, to check that keys do not work there
	ControlURL   string // control interface of Perennial's sandbox; "": skip its checks
	CIDRField    string // field name of an order line's CIDRs, which the document does not give
	Section      string // comma-separated prefixes of the ids or sections of the checks to run, ignoring case

	UserAgent string                                     // default "perennial-conformance/1"
	Clock     func() time.Time                           // default: the system's clock
	Wait      func(context.Context, time.Duration) error // default: a timer
	Transport http.RoundTripper                          // default: HTTP/1.1, owned by the run

	Announce func(Plan)   // called once, before the first request other than GET
	Progress func(Result) // called after each check
}

const (
	timeout  = 30 * time.Second // of one request
	patience = 3 * time.Minute  // for one order to end, and for a rate limit
)

// Key is an additional key. All but those of [RoleThere] belong to the same environment.
type Key struct {
	Role   Role   `json:"role"`
	AppID  string `json:"app_id"`
	Secret string `json:"secret"`
	Scope  string `json:"scope,omitempty"` // for RoleScope: its only scope
}

// Role is the purpose of an additional key.
type Role string

// The roles of additional keys.
const (
	RoleScope   Role = "scope"         // has exactly the scope in Key.Scope
	RoleSame    Role = "same_account"  // all scopes, the same account
	RoleOther   Role = "other_account" // all scopes, another account
	RoleRevoked Role = "revoked"       // disabled
	RoleOutside Role = "outside"       // not permitted from this address
	RoleThere   Role = "there"         // all scopes, the same account in the other environment, at OtherBaseURL
)

// Plan describes a run before it begins.
type Plan struct {
	Environment string // sandbox or production
	Checks      int    // number of chosen checks
	MaxCents    int64  // spending limit, if the server follows the document
	Currency    string
}

// ErrConfig reports an invalid configuration.
var ErrConfig = errors.New("conformance: configuration")

// ErrUnreachable reports a server that did not reply to the first request.
var ErrUnreachable = errors.New("conformance: no reply")

// ErrKey reports that the server refused the key. Nothing can be checked without one.
var ErrKey = errors.New("conformance: the key was refused")

func (c *Config) environment() string {
	if c.Production {
		return "production"
	}
	return "sandbox"
}

func (c *Config) validate() (*url.URL, error) {
	base, err := parseAddress(c.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("%w: base address: %w", ErrConfig, err)
	}
	prefix := map[bool]string{true: "live_app_", false: "sbx_app_"}[c.Production]
	switch {
	case !strings.HasPrefix(c.AppID, prefix):
		return nil, fmt.Errorf("%w: the App ID must begin with %s in %s", ErrConfig, prefix, c.environment())
	case c.Secret == "":
		return nil, fmt.Errorf("%w: the secret is empty", ErrConfig)
	case c.MaxCents != nil && *c.MaxCents < 0:
		return nil, fmt.Errorf("%w: the most to spend is negative", ErrConfig)
	}
	for _, other := range []string{c.OtherBaseURL, c.ControlURL} {
		if _, err := parseAddress(other); other != "" && err != nil {
			return nil, fmt.Errorf("%w: address %s: %w", ErrConfig, brief(other), err)
		}
	}
	for i, k := range c.Keys {
		if err := k.validate(prefix); err != nil {
			return nil, fmt.Errorf("%w: keys[%d]: %w", ErrConfig, i, err)
		}
	}
	return base, nil
}

func (k *Key) validate(prefix string) error {
	switch {
	case k.Secret == "" || strings.HasPrefix(k.AppID, prefix) == (k.Role == RoleThere):
		return fmt.Errorf("needs a secret, and an App ID that begins with %s (role %s: with the other prefix)", prefix, RoleThere)
	case !slices.Contains([]Role{RoleScope, RoleSame, RoleOther, RoleRevoked, RoleOutside, RoleThere}, k.Role) || (k.Role == RoleScope) != (k.Scope != ""):
		return errors.New("role must be scope (with a scope), same_account, other_account, revoked, outside or there")
	}
	return nil
}

// parseAddress refuses addresses that would send signatures over a network in clear text.
func parseAddress(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.User != nil {
		return nil, errors.New("must be scheme, host and perhaps a path")
	}
	ip := net.ParseIP(u.Hostname())
	loopback := strings.EqualFold(u.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback) {
		return nil, errors.New("must be https, or http to loopback")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

func (c *Config) fillDefaults() {
	c.UserAgent = cmp.Or(c.UserAgent, "perennial-conformance/1")
	if c.Clock == nil {
		c.Clock = time.Now //nolint:forbidigo // the default of a suite that is used on its own
	}
	if c.Wait == nil {
		c.Wait = waitFor
	}
	if c.Announce == nil {
		c.Announce = func(Plan) {}
	}
	if c.Progress == nil {
		c.Progress = func(Result) {}
	}
}

// newTransport returns a transport with HTTP/1.1 and without redirects and compression.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
	}
}

func waitFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
