// Authentication of a request: key, signature, timestamp, nonce and scope.

package sandbox

import (
	"crypto/hmac"
	"hash/maphash"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"perennial/ledger/connlimit"
	"perennial/upstream"
)

// clockTolerance is the largest accepted difference between X-API-Timestamp and the sandbox's
// clock.
const clockTolerance = 5 * time.Minute

// request is one HTTP request with its body and its route.
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

// The signed headers, in the canonical form of net/http.
const (
	headerAppID     = "X-Api-Appid"
	headerTimestamp = "X-Api-Timestamp"
	headerNonce     = "X-Api-Nonce"
	headerSignature = "X-Api-Signature"

	maxNonce = 256 // bytes; assumed
)

// single returns the value of a header. It returns "" if the header is absent or appears twice
// (assumed).
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

// signed reports whether the signature is valid. The signed host may include the port or not,
// because the API document does not say.
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

// nonceMemory is how long a nonce is remembered (assumed). A timestamp may be five minutes
// ahead of the clock, and its request stays valid until the timestamp is five minutes old.
const nonceMemory = 10*time.Minute + time.Second

var nonceSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// useNonce consumes a nonce and reports whether the nonce was new. With a database, the nonce
// joins the next commit, and the reply waits for this commit. The nonce then stays consumed
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

// usedNonce is a nonce for the database.
type usedNonce struct {
	appID, nonce string
	at           time.Time
}

// nonceSet remembers nonces in two generations. It drops the older generation when it starts a
// new one.
type nonceSet struct {
	mu       sync.Mutex
	young    map[[2]uint64]struct{}
	old      map[[2]uint64]struct{}
	turnedAt time.Time
}

// use records a nonce and reports whether it is new.
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
