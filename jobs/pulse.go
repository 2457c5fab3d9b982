package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/upstream"
)

type pulse struct {
	mu       sync.Mutex
	answered time.Time // time of the API's last reply, whatever its result
	failed   int       // requests without a reply since then
	last     error

	unsettled map[string]unsettled // by kind of attempt
	settled   map[string]time.Time // last definite outcome, by kind of attempt
}

// unsettled counts consecutive attempts of one kind without a definite outcome.
type unsettled struct {
	since, last time.Time
	attempts    int
	longest     time.Duration // of these attempts
	of, why     string        // object and reason of the last attempt
}

func (p *pulse) ended(kind string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.unsettled, kind)
	if p.settled == nil {
		p.settled = map[string]time.Time{}
	}
	p.settled[kind] = now
}

// An attempt that took this long had no definite outcome, and why is the reason. of is the object of
// the attempt: consecutive attempts on the same object count once. If of is "", every attempt counts.
func (p *pulse) left(kind, of, why string, now time.Time, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x, follows := p.unsettled[kind]
	if !follows {
		x.since = now.Add(-took)
		if at := p.settled[kind]; x.since.Before(at) {
			x.since = at
		}
	}
	x.longest = max(x.longest, took)
	if of == "" || of != x.of {
		x.attempts++
	}
	x.last, x.of, x.why = now, of, why
	if p.unsettled == nil {
		p.unsettled = map[string]unsettled{}
	}
	p.unsettled[kind] = x
}

// Records the end of a request. failure is nil if the API replied.
func (p *pulse) note(now time.Time, failure error) {
	if errors.Is(failure, context.Canceled) { // it says nothing about the API
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if failure == nil {
		p.answered, p.failed, p.last = now, 0, nil
		return
	}
	p.failed, p.last = p.failed+1, failure
}

// silence returns err if err shows that the API did not reply. Otherwise it returns nil.
func silence(err error) error {
	if failed, ok := errors.AsType[*upstream.Error](err); ok && failed.Code != "" {
		err = nil
	}
	return err
}

// Limits for reporting that the provider does not reply. Failed requests are reported only after
// silentAfter without a reply, because another request may get one.
const (
	silentAfter = 15 * time.Second
	silentMost  = 40 * time.Second // without any reply, although requests are made
	readTimeout = 20 * time.Second // for the reply to one read
)

// Limits for reporting attempts without a definite outcome. Entries expire, because an
// operator may have ended the operation.
const (
	unsettledAfter    = time.Minute
	unsettledAttempts = 3                // or one attempt that took unsettledAfter
	unsettledMost     = 15 * time.Minute // since the last attempt; operations wait at most 5 minutes
	unservedAfter     = 30 * time.Second // for requests of any kind: the wallet is read in between
)

// Kinds of attempts in unsettled: reads of proxies before a charge, reads of orders, and requests of
// any kind that the provider could not serve.
const (
	readBefore = "read"
	readOrder  = "poll"
	anyRequest = "any"
)

// unserved reports whether the API replied that it could not serve a request, and gave no reason that
// lies in the request.
func unserved(err error) bool {
	failed, ok := errors.AsType[*upstream.Error](err)
	if !ok || failed.Code == "" || failed.HTTPStatus < http.StatusInternalServerError {
		return false
	}
	return !failed.Code.Known() || failed.Code == upstream.CodeOperationFailed || failed.Code == upstream.CodeProxyEndpointUnavailable
}

// Unsettled describes the kinds of requests that have had no definite outcome for a while, even
// if the provider replies to other requests. The kinds are the POSTs of each operation kind,
// proxy reads before a charge, order reads, and requests of any kind. It returns "" if there are no
// such requests.
func (l *link) Unsettled() string {
	l.pulse.mu.Lock()
	defer l.pulse.mu.Unlock()
	now := l.Clock()
	var lines []string
	for _, kind := range slices.Sorted(maps.Keys(l.pulse.unsettled)) {
		x := l.pulse.unsettled[kind]
		after := unsettledAfter
		if kind == anyRequest {
			after = unservedAfter
		}
		enough := x.attempts >= unsettledAttempts || x.longest >= after
		if !enough || now.Sub(x.since) < after || now.Sub(x.last) > unsettledMost {
			continue
		}
		if kind == anyRequest {
			lines = append(lines, fmt.Sprintf("the provider has served no request since %s, in %d attempts: %s", x.since.UTC().Format(time.RFC3339), x.attempts, fact.Bounded(x.why)))
			continue
		}
		what, state := "no "+kind+" has had a definite outcome", fact.StateWaiting
		switch kind {
		case readBefore:
			what = "no proxy could be read before its renewal"
		case readOrder:
			what, state = "no order could be read", fact.StateOpen
		}
		lines = append(lines, fmt.Sprintf("%s since %s, in %s (`perennial operations list --state %s`): %s", what, x.since.UTC().Format(time.RFC3339), english.Plural(x.attempts, "attempt", ""), state, fact.Bounded(x.why)))
	}
	return strings.Join(lines, "\n")
}

// Silent says since when the provider has not replied, and why if it is known. It returns ""
// if the provider replies.
func (l *link) Silent() string {
	l.pulse.mu.Lock()
	defer l.pulse.mu.Unlock()
	now := l.Clock()
	since := now.Sub(l.pulse.answered)
	switch {
	case l.pulse.answered.IsZero():
		return ""
	case l.pulse.failed > 0 && since > silentAfter:
		return fmt.Sprintf("the provider has not answered since %s: %s", l.pulse.answered.UTC().Format(time.RFC3339), fact.Bounded(l.pulse.last.Error()))
	case l.asks() && min(since, now.Sub(l.pauses.lastEnd())) > silentMost+l.askInterval():
		return "the provider has not answered since " + l.pulse.answered.UTC().Format(time.RFC3339)
	}
	return ""
}

// askInterval is the interval of the wallet reads when no other request is made. These reads
// use at most a tenth of the rate.
func (l *link) askInterval() time.Duration {
	return max(l.AskEvery, time.Duration(10/l.RatePerSecond*float64(time.Second)))
}

// keepAsking reads the wallet if the last request failed or the provider has not replied for a
// while. The read shows an outage or a refused key before the next command must be sent.
func (l *link) keepAsking(ctx context.Context) error {
	if l.AskEvery <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	every := l.askInterval()
	for {
		if err := sleep.For(ctx, every/2); err != nil {
			return err
		}
		l.pulse.mu.Lock()
		_, fails := l.pulse.unsettled[anyRequest]
		quiet := fails || l.pulse.failed > 0 || l.Clock().Sub(l.pulse.answered) >= every/2
		l.pulse.mu.Unlock()
		if !quiet || !l.asks() {
			continue
		}
		if err := l.PassListing(ctx); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, readTimeout)
		wallet, err := l.Provider.Wallet(limited)
		cancel()
		if ctx.Err() == nil {
			l.Read(ctx, wallet.ServerTime, err)
		}
	}
}

// asks reports whether keepAsking reads the wallet. It does not read it while the account is paused,
// because the probe of the pause does. A pause after a restore has no probe.
func (l *link) asks() bool {
	return l.AskEvery > 0 && !l.pauses.throttled() && !slices.ContainsFunc(l.pauses.list(), func(x tables.Pause) bool {
		return x.Scope == decide.ScopeAccount && x.Cause != ledger.CauseRestored
	})
}

const (
	recentMinutes = 15
	// tookBuckets and tookGrowth define the latency buckets. The first bound is one
	// millisecond; each further bound is an eighth higher, up to 100 seconds.
	tookBuckets = 98
	tookGrowth  = 1.125
)

// ProviderRecent summarises the requests of the last minutes.
type ProviderRecent struct {
	WindowSeconds int64            `json:"window_seconds" doc:"'window_seconds' is the length of the period."`
	Requests      int64            `json:"requests" doc:"'requests' is how many requests ended in this period."`
	P50Millis     *int64           `json:"p50_millis,omitempty" doc:"The 50th percentile of the duration of requests that got a reply, accurate to an eighth; omitted if none did."`
	P99Millis     *int64           `json:"p99_millis,omitempty" doc:"The 99th percentile of the same durations."`
	Codes         map[string]int64 `json:"codes" doc:"'codes' counts the requests by the code of the envelope; none: no envelope was read."`
	RateLimited   int64            `json:"rate_limited" doc:"Replies with HTTP 429 or the code rate_limited."`
	Answers       bool             `json:"answers" doc:"'answers' says whether the last request got a reply. 'since' is when this last changed; omitted before the first request."`
	Since         *time.Time       `json:"since,omitempty" doc:"When 'answers' last changed."`
	SkewMillis    *int64           `json:"skew_millis,omitempty" doc:"'skew_millis' is how far this machine's clock was ahead of the provider's at the last reply; omitted before the first."`
}

// ProviderWindow counts the requests of the last minutes. Its zero value is ready to use.
// It is safe for concurrent use.
type ProviderWindow struct {
	mu      sync.Mutex
	minutes [recentMinutes]recentMinute
	answers bool
	since   time.Time
}

type recentMinute struct {
	at      int64 // minutes since 1970
	took    [tookBuckets + 1]int64
	codes   map[string]int64
	limited int64
}

// Add counts a finished request.
func (w *ProviderWindow) Add(x upstream.Exchange, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if answered := x.HTTPStatus != 0; answered != w.answers || w.since.IsZero() {
		w.answers, w.since = answered, now
	}
	at := now.Unix() / 60
	m := &w.minutes[at%recentMinutes]
	if m.at != at {
		*m = recentMinute{at: at, codes: map[string]int64{}}
	}
	code := x.Code
	if code == "" {
		code = "none"
	}
	m.codes[code]++
	if x.HTTPStatus == http.StatusTooManyRequests || x.Code == string(upstream.CodeRateLimited) {
		m.limited++
	}
	if x.HTTPStatus != 0 {
		m.took[tookBucket(x.Took)]++
	}
}

func tookBucket(took time.Duration) int {
	ms := float64(took) / float64(time.Millisecond)
	if ms <= 1 {
		return 0
	}
	return min(int(math.Ceil(math.Log(ms)/math.Log(tookGrowth))), tookBuckets)
}

// Recent returns a summary of the last recentMinutes.
func (w *ProviderWindow) Recent(now time.Time) ProviderRecent {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := ProviderRecent{WindowSeconds: recentMinutes * 60, Codes: map[string]int64{}, Answers: w.answers}
	if !w.since.IsZero() {
		since := w.since
		out.Since = &since
	}
	var took [tookBuckets + 1]int64
	var answered int64
	for i := range w.minutes {
		m := &w.minutes[i]
		if age := now.Unix()/60 - m.at; age < 0 || age >= recentMinutes {
			continue
		}
		for code, n := range m.codes {
			out.Codes[code] += n
			out.Requests += n
		}
		out.RateLimited += m.limited
		for b, n := range &m.took {
			took[b] += n
			answered += n
		}
	}
	if answered > 0 {
		half, most := quantile(took[:], answered, .5), quantile(took[:], answered, .99)
		out.P50Millis, out.P99Millis = &half, &most
	}
	return out
}

// quantile returns the upper bound, in milliseconds, of the bucket that contains the
// quantile.
func quantile(buckets []int64, all int64, q float64) int64 {
	rank, seen := int64(math.Ceil(q*float64(all))), int64(0)
	for b, n := range buckets {
		if seen += n; seen >= rank {
			return int64(math.Ceil(math.Pow(tookGrowth, float64(b))))
		}
	}
	return 0
}
