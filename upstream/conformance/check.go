package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// Verdict is the result of a check.
type Verdict string

// The verdicts.
const (
	OK       Verdict = "ok"        // the server does what the API document says
	Differs  Verdict = "differs"   // the server does not do what the API document says
	NotShown Verdict = "not shown" // the API document does not say, or the run could not show it; Seen describes the server's behaviour
	NotRun   Verdict = "not run"   // the check was not possible; Seen gives the reason
)

// Check is one statement of the API document that a run checks with requests.
type Check struct {
	ID       string `json:"id"`        // stable, such as auth.stale_timestamp.6m
	Section  string `json:"section"`   // the heading in the API document
	Sentence string `json:"sentence"`  // the expected behaviour
	Costs    bool   `json:"costs"`     // the check needs a purchase
	Open     bool   `json:"not_shown"` // the API document says "not shown", so the check records the behaviour and never fails

	only  environment // "": both environments
	phase phase
	run   judgement
}

type (
	environment string
	phase       int
	judgement   = func(*session) finding
	prepared    = func(*session) request // a request that may depend on earlier replies
)

const (
	onlySandbox    environment = "sandbox"
	onlyProduction environment = "production"
)

const (
	portable   phase = iota // needs only the API
	controlled              // needs the control interface of the sandbox, and may change its clock or disable the key
	last                    // judges all replies of the run
)

type suite struct{ checks []*Check }

// rule adds a check that costs nothing and runs in both environments. The methods of Check
// change the cost and the environments.
func (c *suite) rule(id, section, sentence string, run judgement) *Check {
	c.checks = append(c.checks, &Check{ID: id, Section: section, Sentence: sentence, run: run})
	return c.checks[len(c.checks)-1]
}

func (c *Check) costs() *Check           { c.Costs = true; return c }
func (c *Check) open() *Check            { return c.openIf(true) }
func (c *Check) openIf(is bool) *Check   { c.Open = is; return c }
func (c *Check) in(e environment) *Check { c.only = e; return c }
func (c *Check) atEnd()                  { c.phase = last }

func (c *Check) chosen(cfg *Config) bool {
	return (c.only == "" || string(c.only) == cfg.environment()) && (strings.TrimSpace(cfg.Section) == "" || c.within(cfg.Section))
}

func (c *Check) within(names string) bool {
	return slices.ContainsFunc(strings.Split(strings.ToLower(names), ","), func(part string) bool {
		part = strings.TrimSpace(part)
		return part != "" && (strings.HasPrefix(strings.ToLower(c.Section), part) || strings.HasPrefix(c.ID, part))
	})
}

type finding struct {
	verdict Verdict
	seen    string
}

func ok(format string, args ...any) finding { return finding{OK, fmt.Sprintf(format, args...)} }
func differs(format string, args ...any) finding {
	return finding{Differs, fmt.Sprintf(format, args...)}
}
func notShown(format string, args ...any) finding {
	return finding{NotShown, fmt.Sprintf(format, args...)}
}
func notRun(format string, args ...any) finding { return finding{NotRun, fmt.Sprintf(format, args...)} }

func when(holds bool, then, otherwise finding) finding {
	if holds {
		return then
	}
	return otherwise
}

func (r reply) is(right bool) finding {
	return when(right, ok("%s", r.seen()), differs("%s", r.seen()))
}

func refused(r reply, codes ...string) finding {
	if success, isBool := r.envelope["success"].(bool); !isBool || success {
		return differs("%s, not a refusal", r.seen())
	}
	return r.is(slices.Contains(codes, r.code()))
}

func refusing(codes ...string) func(reply) finding {
	return func(r reply) finding { return refused(r, codes...) }
}

// refusedAnyhow requires a refusal. It accepts any code, because the API document does not say
// which code is right.
func refusedAnyhow(r reply) finding { return refused(r, r.code()) }

// accepted requires a JSON object whose code is not in codes.
func accepted(r reply, codes ...string) finding {
	return r.is(r.err == nil && r.envelope != nil && !slices.Contains(codes, r.code()))
}

// signatureAccepted requires that signature, timestamp and nonce are not rejected.
func signatureAccepted(r reply) finding {
	return accepted(r, "invalid_signature", "stale_timestamp", "replayed_nonce")
}

func succeeds(r reply) finding { return r.is(r.succeeded()) }

// recorded accepts every reply, because the API document does not say what is right.
func recorded(r reply) finding { return ok("%s", r.seen()) }

func (r request) wants(judge func(reply) finding) judgement {
	return func(s *session) finding { return judge(s.send(r)) }
}

func asks(made prepared, judge func(reply) finding) judgement {
	return func(s *session) finding { return judge(s.send(made(s))) }
}

func of[T any](get func(*session) T, judge func(T) finding) judgement {
	return func(s *session) finding { return judge(get(s)) }
}

func reading(name string, judge func(s *session, data dict) finding) judgement {
	return func(s *session) finding { return judge(s, s.replyOf(name).data()) }
}

type group struct {
	*suite

	prefix, section, what string
	paid                  bool
	only                  environment
}

func (g group) rule(id, sentence string, run judgement) *Check {
	c := g.suite.rule(g.prefix+"."+id, g.section, g.what+" "+sentence, run).in(g.only)
	c.Costs = g.paid
	return c
}

// The headings of the sections in the API document.
const (
	secEnvelope    = "Response envelope"
	secConventions = "General conventions"
	secAccount     = "Account"
	secWallet      = "Wallet"
	secOffer       = "Offer"
	secOrder       = "Order"
	secProxy       = "Proxy item"
	secRenewal     = "Renewal result"
	secPage        = "Page"
	secOrderState  = "Order status"
	secRenewState  = "Renewal status"
	secIdempotency = "Idempotency record"
	secOffers      = "GET /api/v1/offers"
	secCreate      = "POST /api/v1/orders"
	secOrders      = "GET /api/v1/orders"
	secDetail      = "GET /api/v1/orders/{order_no}"
	secProxies     = "GET /api/v1/proxies"
	secRenew       = "POST /api/v1/proxies/renew"
	secPagination  = "Pagination rules"
	secScenario    = "Sandbox scenario header"
	secCredentials = "Credentials"
	secHeaders     = "Request headers"
	secCanonical   = "Canonical string"
	secErrors      = "Errors"
	secLimits      = "Limits"
	secVersioning  = "Versioning"
)

// Sections returns the headings in the API document that have checks.
func Sections() []string {
	return []string{secConventions, secEnvelope, secAccount, secWallet, secOffer, secOrder, secProxy, secRenewal, secPage, secOrderState,
		secRenewState, secIdempotency, secOffers, secCreate, secOrders, secDetail, secProxies, secRenew, secPagination, secScenario,
		secCredentials, secHeaders, secCanonical, secErrors, secLimits, secVersioning}
}

// List returns all checks in the order of the API document. It includes the checks that run only
// in one environment or with an option.
func List() []Check {
	var c suite
	for _, add := range []func(*suite){envelopeChecks, fieldChecks, moneyChecks, stateChecks, idempotencyChecks, offerChecks, orderChecks,
		renewChecks, pageChecks, scenarioChecks, scopeChecks, authChecks, canonicalChecks, errorChecks, limitChecks, controlChecks, passiveChecks} {
		add(&c)
	}
	all, sections := make([]Check, len(c.checks)), Sections()
	for i, one := range c.checks {
		all[i] = *one
	}
	slices.SortStableFunc(all, func(a, b Check) int { return slices.Index(sections, a.Section) - slices.Index(sections, b.Section) })
	return all
}
