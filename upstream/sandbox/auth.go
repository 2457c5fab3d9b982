package sandbox

import (
	"cmp"
	"crypto/hmac"
	"hash/maphash"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"perennial/ledger/connlimit"
	"perennial/upstream"
)

const clockTolerance = 5 * time.Minute

type request struct {
	http    *http.Request
	env     string
	path    string // escaped, as the client sent it
	body    []byte
	rt      route
	key     *apiKey
	claimed string    // the account that owns the App ID, before any verification
	seq     uint64    // the number of the nonce in the group commit; the nonce must be durable before any reply
	asOf    time.Time // the time whose state a read shows; zero means the present

	limitedConn *connlimit.Conn
}

const (
	headerAppID     = "X-Api-Appid"
	headerTimestamp = "X-Api-Timestamp"
	headerNonce     = "X-Api-Nonce"
	headerSignature = "X-Api-Signature"

	maxNonce = 256 // bytes; assumed
)

// single returns the value of a header that appears exactly once (assumed). Otherwise it returns
// "".
func single(h http.Header, name string) string {
	if values := h[name]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// authenticate checks in this order (assumed): App ID and signature, timestamp, key state,
// source address, rate, nonce, scope. A request with a wrong signature, or above the rate,
// does not consume its nonce.
func (s *front) authenticate(r *request) *refusal {
	h := r.http.Header
	stamp, nonce, signature := single(h, headerTimestamp), single(h, headerNonce), single(h, headerSignature)
	key := s.st.keys[single(h, headerAppID)]
	if key == nil || key.space.env != r.env || !printable(nonce, maxNonce) || !s.signed(r, key.secret, stamp, nonce, signature) {
		return refuse("invalid_signature", "The signature is missing or does not match.")
	}
	now := s.now()
	at, err := parseStamp(stamp)
	if err != nil || at.Sub(now) > clockTolerance || now.Sub(at) > clockTolerance {
		return refuse("stale_timestamp", "The timestamp has no zone, is not ISO 8601 or deviates by more than five minutes.")
	}
	s.st.mu.Lock()
	revoked := key.revoked
	s.st.mu.Unlock()
	if revoked {
		return refuse("api_key_revoked", "The key is disabled.")
	}
	if !key.allows(r.http.RemoteAddr) {
		return refuse("insufficient_scope", "The source address is outside the allowed range.")
	}
	if no := s.limited(key); no != nil {
		return no
	}
	if !s.useNonce(r, key, nonce) {
		return refuse("replayed_nonce", "The nonce was used before.")
	}
	if len(key.scopes) > 0 && r.rt.scope != "" && !slices.Contains(key.scopes, r.rt.scope) {
		return refuse("insufficient_scope", "The key lacks the scope "+r.rt.scope+".")
	}
	r.key = key
	return nil
}

// signed reports whether the signature is valid. The signed host may contain the port, because
// the API document does not say whether it does.
func (s *front) signed(r *request, secret, stamp, nonce, signature string) bool {
	host := strings.ToLower(r.http.Host)
	query, hash := upstream.CanonicalQuery(r.http.URL.RawQuery), upstream.BodyHash(r.body)
	matches := func(host string) bool {
		want := upstream.Sign(secret, upstream.CanonicalString(r.http.Method, host, r.path, query, stamp, nonce, hash))
		return hmac.Equal([]byte(want), []byte(signature))
	}
	bare := host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		bare = host[:i]
	}
	return matches(bare) || bare != host && matches(host)
}

// stampLayouts are the accepted forms of ISO 8601 with a zone, with the usual form first. The
// accepted precision is assumed: to the second or to the minute, with an optional fraction.
var stampLayouts = [...]string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04Z07:00",
	"20060102T150405Z0700", "20060102T150405Z07:00", "20060102T150405Z07"}

func parseStamp(text string) (at time.Time, err error) {
	for _, layout := range stampLayouts {
		if at, err = time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return at, err
}

func (k *apiKey) allows(remote string) bool {
	from, err := netip.ParseAddrPort(remote)
	return k.sources == nil || err == nil && slices.ContainsFunc(k.sources, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) })
}

// nonceMemory is how long a nonce is remembered (assumed). A timestamp may be five minutes ahead
// of the clock. The request stays valid until its timestamp is five minutes old.
const nonceMemory = 10*time.Minute + time.Second

var nonceSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// useNonce consumes a nonce and reports whether the nonce was new. With a database, the nonce
// joins the next commit, and the reply waits for this commit. The nonce therefore stays consumed
// after a crash.
func (s *front) useNonce(r *request, key *apiKey, nonce string) bool {
	now := s.clock()
	fresh := key.nonces.use(nonce, now)
	switch {
	case s.db == nil:
	case fresh:
		r.seq = s.durable.add(&change{hasDB: true, nonce: usedNonce{key.appID, nonce, now}})
	default:
		r.seq = s.durable.last()
	}
	return fresh
}

type usedNonce struct {
	appID, nonce string
	at           time.Time
}

// nonceSet remembers nonces in two generations, and drops the older one.
type nonceSet struct {
	mu       sync.Mutex
	young    map[[2]uint64]struct{}
	old      map[[2]uint64]struct{}
	turnedAt time.Time
}

func (n *nonceSet) use(nonce string, now time.Time) bool {
	h := [2]uint64{maphash.String(nonceSeeds[0], nonce), maphash.String(nonceSeeds[1], nonce)}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.young == nil || now.Sub(n.turnedAt) > nonceMemory {
		n.old, n.young, n.turnedAt = n.young, map[[2]uint64]struct{}{}, now
	}
	if _, ok := n.young[h]; ok {
		return false
	}
	if _, ok := n.old[h]; ok {
		return false
	}
	n.young[h] = struct{}{}
	return true
}

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

// rateLimits limits the requests of each key (extension). By default there are no limits.
type rateLimits struct {
	mu     sync.Mutex
	common rateSetting
	keys   map[string]*rate.Limiter // a nil limiter means that the key has no limit
}

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

// take reports whether a key may make a request now. If it may not, take returns how long the
// client must wait.
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

// blocked imitates a firewall. If the policy is on and the User-Agent is missing or in
// scriptAgents, it replies with a firewall's page. It reports whether it has replied.
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
