package sandbox

import (
	"crypto/hmac"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"perennial/upstream"
)

// clockTolerance is the accepted deviation of X-API-Timestamp.
const clockTolerance = 5 * time.Minute

// request is one request, read to its end, with what routing found.
type request struct {
	http *http.Request
	env  string
	path string // escaped, as sent
	body []byte
	rt   route
	key  *apiKey
}

// authenticate checks in this order (assumed): App ID and signature, timestamp,
// key state, source, nonce, scope. A request whose signature is wrong burns no
// nonce.
func (s *Server) authenticate(r *request) (reply, bool) {
	h := r.http.Header
	appID, stamp, nonce, signature := h.Get("X-API-AppId"), h.Get("X-API-Timestamp"), h.Get("X-API-Nonce"), h.Get("X-API-Signature")
	key := s.st.keys[appID]
	if key == nil || key.space.env != r.env || nonce == "" || len(nonce) > 256 || !s.signed(r, key.secret, stamp, nonce, signature) {
		return s.refuse("invalid_signature", "The signature is missing or does not match."), false
	}
	now := s.now()
	at, err := parseStamp(stamp)
	if err != nil || at.Sub(now) > clockTolerance || now.Sub(at) > clockTolerance {
		return s.refuse("stale_timestamp", "The timestamp has no zone, is not ISO 8601 or deviates by more than five minutes."), false
	}
	s.st.mu.Lock()
	revoked := key.revoked
	s.st.mu.Unlock()
	if revoked {
		return s.refuse("api_key_revoked", "The key is disabled."), false
	}
	if !key.allows(r.http.RemoteAddr) {
		return s.refuse("insufficient_scope", "The source address is outside the allowed range."), false
	}
	if !key.nonces.use(nonce, s.clock()) {
		return s.refuse("replayed_nonce", "The nonce was used before."), false
	}
	if key.scopes != nil && r.rt.scope != "" && !key.scopes[r.rt.scope] {
		return s.refuse("insufficient_scope", "The key lacks the scope "+r.rt.scope+"."), false
	}
	r.key = key
	return reply{}, true
}

// signed accepts the host with or without its port: the document leaves it open.
func (s *Server) signed(r *request, secret, stamp, nonce, signature string) bool {
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

func parseStamp(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t, err = time.Parse("2006-01-02T15:04:05Z0700", s)
	}
	return t, err
}

func (k *apiKey) allows(remote string) bool {
	if k.sources == nil {
		return true
	}
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	for _, p := range k.sources {
		if p.Contains(from.Addr().Unmap()) {
			return true
		}
	}
	return false
}
