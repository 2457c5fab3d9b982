// The form of a check, its verdicts and its result.

package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Verdict is what a check came to.
type Verdict string

// The verdicts.
const (
	OK       Verdict = "ok"        // the server does what the document says
	Differs  Verdict = "differs"   // it does not
	NotShown Verdict = "not shown" // the document leaves it open, or no occasion showed it; Seen says what was seen
	NotRun   Verdict = "not run"   // it could not be observed; Seen says why
)

// Check is one statement of the document, observed on the wire.
type Check struct {
	ID       string `json:"id"`        // stable, such as auth.stale_timestamp.6m
	Section  string `json:"section"`   // heading of the API document
	Sentence string `json:"sentence"`  // what should be so
	Costs    bool   `json:"costs"`     // it needs something bought
	Open     bool   `json:"not_shown"` // the document says "not shown": it records and never fails

	only    environment // "": both
	control bool        // needs the control interface
	last    bool        // judges all that was seen
	run     func(*session) finding
}

type environment string

const (
	onlySandbox    environment = "sandbox"
	onlyProduction environment = "production"
)

// Result is a check with its verdict.
type Result struct {
	ID       string  `json:"id"`
	Section  string  `json:"section"`
	Sentence string  `json:"sentence"`
	Costs    bool    `json:"costs"`
	Verdict  Verdict `json:"verdict"`
	Seen     string  `json:"seen"`
}

// finding is a verdict with what led to it.
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

// refused wants one of the codes.
func refused(r reply, codes ...string) finding {
	if success, isBool := r.envelope["success"].(bool); !isBool || success {
		return differs("%s, not a refusal", r.seen())
	}
	for _, code := range codes {
		if r.code() == code {
			return ok("%s", r.seen())
		}
	}
	return differs("%s", r.seen())
}

// refusing is refused as what a request wants.
func refusing(codes ...string) func(reply) finding {
	return func(r reply) finding { return refused(r, codes...) }
}

// refusedAnyhow wants a refusal whose code the document does not give.
func refusedAnyhow(r reply) finding { return refused(r, r.code()) }

// signatureAccepted wants anything but a refusal of the signature.
func signatureAccepted(r reply) finding {
	switch {
	case r.err != nil || r.envelope == nil:
		return differs("%s", r.seen())
	case r.code() == "invalid_signature", r.code() == "stale_timestamp", r.code() == "replayed_nonce":
		return differs("%s", r.seen())
	}
	return ok("%s", r.seen())
}

// succeeds wants a success.
func succeeds(r reply) finding {
	if !r.succeeded() {
		return differs("%s", r.seen())
	}
	return ok("%s", r.seen())
}

// recorded wants nothing: the document leaves open what comes.
func recorded(r reply) finding { return ok("%s", r.seen()) }

// get and post are the two plain requests. A post has a key of its own, named
// after fresh; without a name it has none.
func get(path string, pairs ...pair) request {
	return request{method: http.MethodGet, path: path, pairs: pairs}
}

func post(path, fresh, body string) request {
	return request{method: http.MethodPost, path: path, fresh: fresh, body: []byte(body)}
}

// keyed is a post under a given key: the same key twice is a retry.
func keyed(path, key, body string) request {
	return request{method: http.MethodPost, path: path, key: key, body: []byte(body)}
}

// wants sends the request and judges the reply: most statements are no more.
func (r request) wants(judge func(reply) finding) func(*session) finding {
	return func(s *session) finding { return judge(s.send(r)) }
}

// given judges what a step of the run made, or says why there is nothing to judge.
func given[T any](made func(*session) (T, string), judge func(*session, T) finding) func(*session) finding {
	return func(s *session) finding {
		got, why := made(s)
		if why != "" {
			return notRun("%s", why)
		}
		return judge(s, got)
	}
}

// asks sends the request that a step of the run makes possible.
func asks(made func(*session) (request, string), judge func(reply) finding) func(*session) finding {
	return given(made, func(s *session, r request) finding { return judge(s.send(r)) })
}

// group is what the checks of one subject have in common.
type group struct {
	prefix, section, what string
	costs                 bool
	only                  environment
}

func (g group) check(id, sentence string, run func(*session) finding) Check {
	return Check{ID: g.prefix + "." + id, Section: g.section, Costs: g.costs, only: g.only, Sentence: g.what + " " + sentence, run: run}
}

func (g group) open(id, sentence string, run func(*session) finding) Check {
	c := g.check(id, sentence, run)
	c.Open = true
	return c
}

// The sections of the API document, as its headings have them.
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

// List gives all checks in the order of the document's sections, for both
// environments and with everything that can be configured.
func List() []Check {
	all := slices.Concat(envelopeChecks(), fieldChecks(), moneyChecks(), stateChecks(), idempotencyChecks(), offerChecks(),
		orderChecks(), renewChecks(), pageChecks(), scenarioChecks(), scopeChecks(), authChecks(), canonicalChecks(),
		errorChecks(), limitChecks(), controlChecks(), passiveChecks())
	order := map[string]int{}
	for i, section := range Sections() {
		order[section] = i
	}
	slices.SortStableFunc(all, func(a, b Check) int { return order[a.Section] - order[b.Section] })
	return all
}

// Sections names the headings of the document that checks belong to.
func Sections() []string {
	return []string{secConventions, secEnvelope, secAccount, secWallet, secOffer, secOrder, secProxy, secRenewal, secPage, secOrderState,
		secRenewState, secIdempotency, secOffers, secCreate, secOrders, secDetail, secProxies, secRenew, secPagination, secScenario,
		secCredentials, secHeaders, secCanonical, secErrors, secLimits, secVersioning}
}

// chosen are the checks of one run. Checks that need the control interface come
// late, for they move the server's clock and disable the key for a while; those
// that judge all that was seen come last.
func chosen(cfg *Config) []Check {
	var out []Check
	for _, c := range List() {
		if (c.only == "" || string(c.only) == cfg.environment()) && matches(c, cfg.Section) {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b Check) int { return a.phase() - b.phase() })
	return out
}

func (c *Check) phase() int {
	switch {
	case c.last:
		return 2
	case c.control:
		return 1
	}
	return 0
}

func matches(c Check, wanted string) bool {
	for part := range strings.SplitSeq(strings.ToLower(wanted), ",") {
		if part = strings.TrimSpace(part); strings.HasPrefix(strings.ToLower(c.Section), part) || strings.HasPrefix(c.ID, part) {
			return true
		}
	}
	return false
}
