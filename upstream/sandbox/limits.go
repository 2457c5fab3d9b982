// Rate limits for keys (extension).

package sandbox

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rateSetting is the body of POST /rate (extension).
type rateSetting struct {
	AppID             string  `json:"app_id"` // empty: every key
	RequestsPerSecond float64 `json:"requests_per_second"`
	Burst             int     `json:"burst"` // default: the requests of one second, but at least 1
}

func (s *controls) setRate(r *rateSetting) error {
	const most = 1e6
	switch {
	case r.AppID != "" && s.st.keys[r.AppID] == nil:
		return invalid("app_id", "%q is unknown", r.AppID)
	case r.RequestsPerSecond < 0 || r.RequestsPerSecond > most:
		return invalid("requests_per_second", "must be 0 (no limit) to 1000000")
	case r.Burst < 0 || r.Burst > most:
		return invalid("burst", "must be 0 to 1000000")
	}
	s.rates.set(*r)
	return nil
}

// rateLimits limits the requests of each key. The API document gives no number, and the default
// is no limit (extension).
type rateLimits struct {
	mu     sync.Mutex
	common rateSetting
	keys   map[string]*rate.Limiter // a nil limiter means that the key has no limit
}

// set changes the limit of one key, or of all keys. A limit for all keys replaces the limits of
// single keys.
func (l *rateLimits) set(in rateSetting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if in.AppID == "" {
		l.common = in
		clear(l.keys)
	} else {
		l.keys[in.AppID] = in.limiter()
	}
}

func (r *rateSetting) limiter() *rate.Limiter {
	if r.RequestsPerSecond == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(r.RequestsPerSecond), cmp.Or(r.Burst, int(math.Ceil(r.RequestsPerSecond))))
}

// take reports whether a key may make a request now. If not, it returns the time to wait.
func (l *rateLimits) take(appID string, now time.Time) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter, ok := l.keys[appID]
	if !ok {
		limiter = l.common.limiter()
		l.keys[appID] = limiter
	}
	if limiter == nil || limiter.AllowN(now, 1) {
		return 0, true
	}
	reservation := limiter.ReserveN(now, 1)
	defer reservation.CancelAt(now)
	return reservation.DelayFrom(now), false
}

// limited returns a refusal if the key is above its rate. It rounds Retry-After up to whole
// seconds, so that a client that waits that long succeeds.
func (s *front) limited(key *apiKey) *refusal {
	wait, ok := s.rates.take(key.appID, s.clock())
	if ok && s.moods.draw(MoodWildRetryAfter, 24) { // permitted, because the API document gives no number
		wait, ok = time.Second, false
	}
	if ok {
		return nil
	}
	return &refusal{code: "rate_limited", message: "Too many requests.", retryAfter: strconv.FormatInt(int64(max(math.Ceil(wait.Seconds()), 1)), 10)}
}

// scriptAgents are the default User-Agents of HTTP libraries and tools. The API document says
// that the provider may reject such requests.
var scriptAgents = map[string]bool{"python-requests": true, "python-urllib": true, "python": true, "python-httpx": true, "curl": true,
	"wget": true, "go-http-client": true, "java": true, "java-http-client": true, "okhttp": true, "axios": true, "node-fetch": true,
	"node": true, "undici": true, "libwww-perl": true, "ruby": true, "guzzlehttp": true, "apache-httpclient": true, "postmanruntime": true}

// policySetting is the body of POST /policy (extension).
type policySetting struct {
	RefuseScriptAgents bool `json:"refuse_script_agents"`
}

// blocked replies with the page of a firewall if the policy is on and the User-Agent is missing
// or in scriptAgents. It reports whether it has replied.
func (s *front) blocked(w http.ResponseWriter, r *request) bool {
	product, _, _ := strings.Cut(strings.ToLower(r.http.UserAgent()), "/")
	if !s.refuseScripts.Load() || product != "" && !scriptAgents[product] {
		return false
	}
	s.counts.add(r.rt.pattern, r.http.Method, "policy")
	firewall(w)
	return true
}

func firewall(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write([]byte("<!doctype html><title>403</title><h1>Request blocked</h1>"))
}
