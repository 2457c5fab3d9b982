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
	BaseURL    string // https://…; http:// is accepted only for a loopback address
	AppID      string // begins with sbx_app_ or live_app_
	Secret     string // the API Secret; the package never prints it
	Production bool   // must agree with the App ID; without MaxCents, a run in production does not spend
	MaxCents   *int64 // spending limit in cents; nil means the planned cost in a sandbox and 0 in production
	SignPort   bool   // whether the signed host includes the port; the API document does not say

	Keys         []Key  // additional keys for the checks of scopes, other accounts and refusals
	OtherBaseURL string // address of the other environment, for checks that the key does not work there
	ControlURL   string // control interface of Perennial's sandbox; "" skips the checks that need it
	CIDRField    string // the JSON name for the CIDRs of an order line, which the API document does not give
	Section      string // ids or sections to check: prefixes, separated by commas, in upper or lower case; "": all

	UserAgent string                                     // default: "perennial-conformance/1"
	Clock     func() time.Time                           // default: the system's clock
	Wait      func(context.Context, time.Duration) error // default: a timer that stops when ctx ends
	Transport http.RoundTripper                          // default: the run's own HTTP/1.1 transport

	Announce func(Plan)   // called once, before the first request other than a GET
	Progress func(Result) // called after each check
}

const (
	timeout  = 30 * time.Second // for one request
	patience = 3 * time.Minute  // for the progress of one order, and for a rate limit
)

// Key is an additional API key. A key with [RoleThere] belongs to the other environment, and
// all other keys belong to the environment of the run.
type Key struct {
	Role   Role   `json:"role"`
	AppID  string `json:"app_id"`
	Secret string `json:"secret"`
	Scope  string `json:"scope,omitempty"` // the key's only scope, for RoleScope
}

// Role is the purpose of an additional key.
type Role string

// The roles of additional keys.
const (
	RoleScope   Role = "scope"         // has exactly the scope in Key.Scope
	RoleSame    Role = "same_account"  // has all scopes and belongs to the same account
	RoleOther   Role = "other_account" // has all scopes and belongs to another account
	RoleRevoked Role = "revoked"       // is disabled
	RoleOutside Role = "outside"       // is not permitted for the address of this machine
	RoleThere   Role = "there"         // has all scopes and belongs to the same account in the other environment, at OtherBaseURL
)

// Plan describes a run before its checks begin.
type Plan struct {
	Environment string // sandbox or production
	Checks      int    // the number of chosen checks
	MaxCents    int64  // the most that the run spends if the server obeys the API document
	Currency    string
}

// ErrConfig means that the configuration is invalid.
var ErrConfig = errors.New("conformance: configuration")

// ErrUnreachable means that the server did not reply to the first request.
var ErrUnreachable = errors.New("conformance: no reply")

// ErrKey means that the server rejected the key. No check is possible without a valid key.
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

// parseAddress parses a server's address. It accepts only https, or http to a loopback address,
// so that no signature crosses a network in clear text.
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

// newTransport returns an HTTP/1.1 transport that does not compress and does not follow
// redirects.
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
