// This file summarises the requests of the last minutes: latency, results, and whether the
// provider replies.

package jobs

import (
	"math"
	"net/http"
	"sync"
	"time"

	"perennial/upstream"
)

const (
	// recentMinutes is the length of the window.
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
