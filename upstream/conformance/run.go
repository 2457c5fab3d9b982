package conformance

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
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

// Run checks one server. If ctx ends early, the remaining checks are [NotRun], and Run returns
// the error of ctx with the report. After [ErrConfig], [ErrUnreachable] or [ErrKey], no check
// has run.
func Run(ctx context.Context, cfg Config) (Report, error) {
	base, err := cfg.validate()
	if err != nil {
		return Report{}, err
	}
	cfg.fillDefaults()
	if cfg.Transport == nil {
		own := newTransport()
		defer own.CloseIdleConnections()
		cfg.Transport = own
	}
	s := newSession(ctx, &cfg, base)
	report := Report{BaseURL: cfg.BaseURL, AppID: cfg.AppID, Environment: cfg.environment(), SpentCents: -1}
	checks := slices.DeleteFunc(List(), func(c Check) bool { return !c.chosen(&cfg) })
	if len(checks) == 0 {
		return report, fmt.Errorf("%w: no check's id or section begins with %s", ErrConfig, brief(cfg.Section))
	}
	if err := s.begin(checks); err != nil {
		return report, err
	}
	report.MaxCents, report.Results = s.limit, make([]Result, len(checks))
	for _, now := range []phase{portable, controlled, last} {
		for i, c := range checks {
			if c.phase == now {
				f := s.judge(c)
				report.Results[i] = Result{ID: c.ID, Section: c.Section, Sentence: c.Sentence, Costs: c.Costs, Verdict: f.verdict, Seen: f.seen}
				cfg.Progress(report.Results[i])
			}
		}
	}
	if now, known := s.balance(); known {
		report.SpentCents = s.opening - now
	}
	report.Requests = s.requests.Load()
	return report, ctx.Err()
}

// judge runs a check. After an interrupt or an excessive rate limit, the verdict is NotRun. A
// check is open if the API document does not say what is right. Unless an open check was not
// run, its verdict is NotShown.
func (s *session) judge(c Check) finding {
	if s.ctx.Err() != nil {
		return notRun("interrupted")
	}
	if c.phase == controlled && s.cfg.ControlURL == "" {
		return notRun("needs the control interface")
	}
	s.gaveUp.Store(false)
	f := s.verdict(c.run)
	switch {
	case s.ctx.Err() != nil:
		return notRun("interrupted")
	case s.gaveUp.Load():
		return notRun("rate-limited, and asked to wait longer than the run does")
	case c.Open && f.verdict != NotRun:
		f.verdict = NotShown
	}
	return f
}

// begin reads the server's clock and the wallet, and announces how much the run may spend.
func (s *session) begin(checks []Check) error {
	first := s.get("/api/v1/account")
	if first.err != nil {
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		return fmt.Errorf("%w from %s: %w", ErrUnreachable, s.base.Host, first.err)
	}
	s.learnClock(first)
	if first.code() == "stale_timestamp" {
		first = s.get("/api/v1/account")
	}
	switch first.code() {
	case "invalid_signature", "stale_timestamp", "api_key_revoked":
		return fmt.Errorf("%w: %s (wrong secret or App ID, or a server that signs its host with the port)", ErrKey, first.seen())
	}
	wallet := s.get("/api/v1/wallet")
	var known bool
	s.opening, known = cents(wallet.data(), "balance_cents")
	s.currency = word(wallet.data(), "currency")
	if slices.ContainsFunc(checks, func(c Check) bool { return c.Costs }) {
		s.limit = s.planCents()
	}
	switch {
	case s.cfg.MaxCents != nil:
		s.limit = min(s.limit, *s.cfg.MaxCents)
	case s.cfg.Production:
		s.limit = 0
	}
	if !known { // what the run spends could not be told
		s.limit = 0
	}
	s.cfg.Announce(Plan{Environment: s.cfg.environment(), Checks: len(checks), MaxCents: s.limit, Currency: s.currency})
	return s.ctx.Err()
}

type endpoint struct{ name, method, path, scope string }

var endpoints = []endpoint{
	{"account", http.MethodGet, "/api/v1/account", "account:read"},
	{"wallet", http.MethodGet, "/api/v1/wallet", "wallet:read"},
	{"offers", http.MethodGet, "/api/v1/offers", "offers:read"},
	{"order_create", http.MethodPost, "/api/v1/orders", "orders:write"},
	{"order_list", http.MethodGet, "/api/v1/orders", "orders:read"},
	{"order_detail", http.MethodGet, "/api/v1/orders/conformance-unknown", "orders:read"},
	{"proxy_list", http.MethodGet, "/api/v1/proxies", "proxies:read"},
	{"proxy_detail", http.MethodGet, "/api/v1/proxies/conformance-unknown", "proxies:read"},
	{"renew", http.MethodPost, "/api/v1/proxies/renew", "proxies:write"},
}

func (e endpoint) prepared(*session) request { return e.harmless() }

// harmless returns a request that cannot charge, because it contains no existing item.
func (e endpoint) harmless() request {
	if e.method == http.MethodPost {
		return post(e.path, e.name, "{}")
	}
	return get(e.path)
}

// Report is the result of a run.
type Report struct {
	BaseURL     string   `json:"base_url"`
	AppID       string   `json:"app_id"`
	Environment string   `json:"environment"`
	MaxCents    int64    `json:"max_cents"`
	SpentCents  int64    `json:"spent_cents"` // the wallet before the run minus the wallet after; -1: unknown
	Requests    int64    `json:"requests"`
	Results     []Result `json:"results"`
}

// Result is a check with its verdict.
type Result struct {
	ID       string  `json:"id"`
	Section  string  `json:"section"`
	Sentence string  `json:"sentence"`
	Costs    bool    `json:"costs"`
	Verdict  Verdict `json:"verdict"`
	Seen     string  `json:"seen"`
}

// Count returns the number of results with the given verdict.
func (r *Report) Count(v Verdict) (n int) {
	for i := range r.Results {
		if r.Results[i].Verdict == v {
			n++
		}
	}
	return n
}

// WriteJUnit writes the report as JUnit XML with one suite for each section. A Differs result
// is a failure, and a NotRun result is skipped. A NotShown result passes, and Seen becomes its
// output.
func (r *Report) WriteJUnit(w io.Writer) error {
	all := struct {
		XMLName xml.Name `xml:"testsuites"`
		junitSuite
	}{junitSuite: r.junit("")}
	for _, section := range Sections() {
		part := Report{Results: slices.DeleteFunc(slices.Clone(r.Results), func(one Result) bool { return one.Section != section })}
		if len(part.Results) == 0 {
			continue
		}
		suite := part.junit(section)
		for _, one := range part.Results {
			suite.Cases = append(suite.Cases, one.junit())
		}
		all.Suites = append(all.Suites, suite)
	}
	raw, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("JUnit: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, raw)
	return err
}

type junitSuite struct {
	Name     string       `xml:"name,attr,omitempty"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Suites   []junitSuite `xml:"testsuite"`
	Cases    []junitCase  `xml:"testcase"`
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Section string     `xml:"classname,attr"`
	Failure *junitNote `xml:"failure"`
	Skipped *junitNote `xml:"skipped"`
	Output  string     `xml:"system-out,omitempty"`
}

type junitNote struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (r *Report) junit(name string) junitSuite {
	return junitSuite{Name: name, Tests: len(r.Results), Failures: r.Count(Differs), Skipped: r.Count(NotRun)}
}

func (r *Result) junit() junitCase {
	out := junitCase{Name: r.ID, Section: r.Section}
	switch r.Verdict {
	case OK:
	case Differs:
		out.Failure = &junitNote{r.Seen, r.Sentence}
	case NotRun:
		out.Skipped = &junitNote{Message: r.Seen}
	case NotShown:
		out.Output = "not shown: " + r.Seen
	}
	return out
}
