// Metrics counted since the process started: requests, facts, commits and the duration of
// commands.

package daemon

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"perennial/cmd/perennial/internal/tracing"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/jobs/decide"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// meter contains the counters of one account. Create it with newMeter.
type meter struct {
	account string
	tracer  *tracing.Tracer // nil if traces are not sent

	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	heldSeconds    prometheus.Counter
	facts          *prometheus.CounterVec
	attempts       *prometheus.CounterVec
	ambiguous      prometheus.Counter
	reviews        *prometheus.CounterVec
	findings       *prometheus.CounterVec
	leftOut        *prometheus.CounterVec
	deadLetters    prometheus.Counter
	turns          prometheus.Counter
	tracesDropped  prometheus.Counter
	settleSeconds  *prometheus.HistogramVec
	eventSeconds   *prometheus.HistogramVec
	commitSeconds  prometheus.Observer
	commitWrites   prometheus.Observer
	webhooks       *prometheus.CounterVec
	webhookSeconds *prometheus.HistogramVec

	declared []metric
}

// Upper bounds of histogram buckets. requestBuckets, commandBuckets and commitBuckets are in
// seconds. Requests time out after 60 s, but commands may wait much longer for money or an
// operator. groupBuckets counts the writes in one commit.
var (
	requestBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	commandBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86400}
	commitBuckets  = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}
	groupBuckets   = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256}
)

// newMeter registers an account's counters. It creates the counters with known labels at 0, so
// that Prometheus computes a rate of 0 instead of no rate for an event that has not happened.
func newMeter(registry prometheus.Registerer, account string) *meter {
	m := &meter{account: account}
	of := prometheus.Labels{"account": account}
	counted := func(name, help string, labels ...string) *prometheus.CounterVec {
		d := declare(name, "COUNTER", help, labels)
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.name, Help: d.help, ConstLabels: of}, labels)
		registry.MustRegister(v)
		m.declared = append(m.declared, d)
		return v
	}
	timed := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		d := declare(name, "HISTOGRAM", help, labels)
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.name, Help: d.help, Buckets: buckets, ConstLabels: of}, labels)
		registry.MustRegister(v)
		m.declared = append(m.declared, d)
		return v
	}
	m.requests = counted("provider_requests_total", "Completed requests to the provider, by endpoint, code of the envelope (none: no envelope was read; other: undocumented) and outcome: ok, refused, rate_limited, unknown (no envelope), not_sent (no byte was written).", "route", "code", "outcome")
	m.requestSeconds = timed("provider_request_seconds", "How long requests to the provider took, by endpoint, with the provider's trace_id as exemplar.", requestBuckets, "route")
	m.heldSeconds = counted("rate_limited_seconds_total", "Seconds for which Retry-After asked the account to wait.").WithLabelValues()
	m.facts = counted("facts_total", "Facts that this runner appended to the journal, by type.", "type")
	m.attempts = counted("attempts_total", "Attempts that this runner began: first attempts or retries.", "attempt")
	m.ambiguous = counted("ambiguous_attempts_total", "Attempts with an unknown outcome.").WithLabelValues()
	m.reviews = counted("reviews_opened_total", "Operations that began to need review, by the code of the provider's last reply (none: no reply; other: undocumented).", "code")
	m.findings = counted("findings_total", "Published differences between books and provider, by kind.", "finding")
	m.leftOut = counted("sweep_left_out_total", "Proxies that plans skipped, by schedule and reason.", "schedule", "reason")
	m.deadLetters = counted("dead_letters_total", "Messages that could not be read as commands.").WithLabelValues()
	m.turns = counted("turns_total", "How often this runner began to work for the account: at its start, after a failure, or at a failover.").WithLabelValues()
	m.tracesDropped = counted("traces_dropped_total", "Traces dropped because too many waited or the ledger could not be read.").WithLabelValues()
	m.settleSeconds = timed("settle_seconds", "Time from a command's acceptance to its end, by kind of operation.", commandBuckets, "kind")
	m.eventSeconds = timed("event_seconds", "Time from a command's publication to that of its command.finished, by kind of operation; without commands older than this process.", commandBuckets, "kind")
	m.commitSeconds = timed("commit_seconds", "How long commits of the ledger took.", commitBuckets).WithLabelValues()
	m.commitWrites = timed("commit_writes", "How many writes one commit of the ledger contained.", groupBuckets).WithLabelValues()
	m.webhooks = counted("webhook_deliveries_total", "Completed attempts to deliver an event to a webhook, by outcome: delivered (2xx), refused (4xx or a redirect), rate_limited (429), failed (5xx), unreachable (no reply), gone (410).", "webhook", "outcome")
	m.webhookSeconds = timed("webhook_delivery_seconds", "How long attempts to deliver an event to a webhook took.", requestBuckets, "webhook")
	for name := range fact.Types() {
		m.facts.WithLabelValues(name)
	}
	for _, attempt := range []string{attemptFirst, attemptAgain} {
		m.attempts.WithLabelValues(attempt)
	}
	for _, kind := range decide.FindingKinds() {
		m.findings.WithLabelValues(kind)
	}
	for _, kind := range []fact.Kind{fact.KindOrder, fact.KindRenewal} {
		m.settleSeconds.WithLabelValues(string(kind))
		m.eventSeconds.WithLabelValues(string(kind))
	}
	for _, route := range upstream.Routes() {
		m.requestSeconds.WithLabelValues(route)
		m.requestsAtZero(route)
	}
	return m
}

// requestsAtZero creates at 0 the counters that alerts use: requests without a reply, and
// refused writes. Such requests are rare, so an alert must notice the first increase.
func (m *meter) requestsAtZero(route string) {
	for _, outcome := range []string{outcomeUnknown, outcomeNotSent} {
		m.requests.WithLabelValues(route, codeLabel(""), outcome)
	}
	if !strings.HasPrefix(route, http.MethodPost) {
		return
	}
	for _, code := range append(upstream.Codes(), upstream.Code(codeLabel("?"))) {
		if code != upstream.CodeOK && code != upstream.CodeRateLimited {
			m.requests.WithLabelValues(route, string(code), outcomeRefused)
		}
	}
}

// schedule creates a schedule's counters at 0. The first run that skips proxies may be the last
// run before they expire, so an alert must notice the first increase.
func (m *meter) schedule(name string) {
	for _, code := range fact.SweepHeldCodes {
		m.leftOut.WithLabelValues(name, string(code))
	}
}

// Outcomes of requests to the provider.
const (
	outcomeOK          = "ok"
	outcomeRefused     = "refused"
	outcomeRateLimited = "rate_limited"
	outcomeUnknown     = "unknown"
	outcomeNotSent     = "not_sent"
)

func outcomeOf(x upstream.Exchange) string {
	switch {
	case x.Code == string(upstream.CodeRateLimited) || x.HTTPStatus == http.StatusTooManyRequests:
		return outcomeRateLimited
	case x.Code == string(upstream.CodeOK):
		return outcomeOK
	case x.Code != "":
		return outcomeRefused
	case x.Sent:
		return outcomeUnknown
	}
	return outcomeNotSent
}

// request counts a request to the provider.
func (m *meter) request(x upstream.Exchange) {
	m.requests.WithLabelValues(x.Route, codeLabel(x.Code), outcomeOf(x)).Inc()
	seconds := m.requestSeconds.WithLabelValues(x.Route)
	if e, ok := seconds.(prometheus.ExemplarObserver); ok && exemplary(x.TraceID) {
		e.ObserveWithExemplar(x.Took.Seconds(), prometheus.Labels{"trace_id": x.TraceID})
		return
	}
	seconds.Observe(x.Took.Seconds())
}

// exemplary reports whether a trace id fits into an exemplar. OpenMetrics allows 128 characters
// for all labels of an exemplar.
func exemplary(traceID string) bool {
	if traceID == "" || len(traceID) > 64 {
		return false
	}
	for i := range len(traceID) {
		if c := traceID[i]; c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// webhook returns a function that counts a webhook's attempts. It creates the counters at 0.
func (m *meter) webhook(name string) func(webhook.Reply) {
	seconds := m.webhookSeconds.WithLabelValues(name)
	for _, outcome := range webhook.Outcomes() {
		m.webhooks.WithLabelValues(name, string(outcome))
	}
	return func(r webhook.Reply) {
		m.webhooks.WithLabelValues(name, string(r.Outcome)).Inc()
		seconds.Observe(r.Took.Seconds())
	}
}

// codeLabel returns the code if the API document has it, otherwise "other". It returns "none"
// if code is "".
func codeLabel(code string) string {
	switch {
	case code == "":
		return "none"
	case upstream.Code(code).Known():
		return code
	}
	return "other"
}

// committed counts a commit of the ledger.
func (m *meter) committed(writes int, took time.Duration) {
	m.commitSeconds.Observe(took.Seconds())
	m.commitWrites.Observe(float64(writes))
}
