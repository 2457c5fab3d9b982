// Run: the order of the checks.

package conformance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
)

// Run observes one server. When ctx ends early, what was not observed is
// [NotRun] and the context's error comes with the report. Errors that prevent
// any observation are [ErrConfig], [ErrUnreachable] and [ErrKey].
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

// judge lets no check of what is not shown fail, and none say anything that was interrupted.
func (s *session) judge(c Check) finding {
	if s.ctx.Err() != nil {
		return notRun("interrupted")
	}
	if c.phase == controlled && s.cfg.ControlURL == "" {
		return notRun("needs the control interface")
	}
	s.gaveUp.Store(false)
	f := c.run(s)
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

// begin reads the server's clock and says what may be spent, before anything is.
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
	s.opening, _ = cents(wallet.data(), "balance_cents")
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
	s.cfg.Announce(Plan{Environment: s.cfg.environment(), Checks: len(checks), MaxCents: s.limit, Currency: s.currency})
	return s.ctx.Err()
}

// endpoint is one of the nine, with a request that cannot change anything.
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

// harmless names nothing and so can charge nothing, whatever the server thinks of it.
func (e endpoint) harmless() request {
	if e.method == http.MethodPost {
		return post(e.path, e.name, "{}")
	}
	return get(e.path)
}
