// Run, the report, and its JUnit XML form.

package conformance

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
)

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

// judge runs a check. After an interrupt or an excessive rate limit, the verdict is NotRun.
// Otherwise the verdict of an open check is NotShown.
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

// endpoint is one of the nine endpoints, with a path for a request that changes nothing.
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

func (e endpoint) made(*session) (request, string) { return e.harmless(), "" }

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
	all := node("testsuites", r.junitCounts()...)
	for _, section := range Sections() {
		part := Report{Results: slices.DeleteFunc(slices.Clone(r.Results), func(one Result) bool { return one.Section != section })}
		if len(part.Results) == 0 {
			continue
		}
		suite := node("testsuite", append([]string{"name", section}, part.junitCounts()...)...)
		for _, one := range part.Results {
			suite.Inner = append(suite.Inner, one.junit())
		}
		all.Inner = append(all.Inner, suite)
	}
	raw, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("JUnit: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, raw)
	return err
}

// xmlNode is any element in the report.
type xmlNode struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Text    string     `xml:",chardata"`
	Inner   []xmlNode
}

// node returns an element. attributes are a name, its value, the next name, and so on.
func node(name string, attributes ...string) xmlNode {
	out := xmlNode{XMLName: xml.Name{Local: name}}
	for pair := range slices.Chunk(attributes, 2) {
		out.Attrs = append(out.Attrs, xml.Attr{Name: xml.Name{Local: pair[0]}, Value: pair[1]})
	}
	return out
}

func (r *Report) junitCounts() []string {
	return []string{"tests", strconv.Itoa(len(r.Results)), "failures", strconv.Itoa(r.Count(Differs)), "skipped", strconv.Itoa(r.Count(NotRun))}
}

func (r *Result) junit() xmlNode {
	out := node("testcase", "name", r.ID, "classname", r.Section)
	var note xmlNode
	switch r.Verdict {
	case OK:
		return out
	case Differs:
		note = node("failure", "message", r.Seen)
		note.Text = r.Sentence
	case NotRun:
		note = node("skipped", "message", r.Seen)
	case NotShown:
		note = node("system-out")
		note.Text = "not shown: " + r.Seen
	}
	out.Inner = []xmlNode{note}
	return out
}
