package conformance

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

type request struct {
	method, path  string
	pairs         []pair
	query         string // the query as sent; empty means the canonical form of pairs
	body          []byte
	key           string // the Idempotency-Key
	keyName       string // instead of key: a name for a new key
	scenario      string
	otherKey      *Key         // nil: the run's own key
	damage        func(*draft) // changes the signed values or the sent headers
	beforeSigning bool         // apply damage before signing
}

// draft is all signed and sent values of a request. A check can change exactly one of them.
type draft struct {
	at                                                    time.Time // the server's time
	appID, secret                                         string
	method, host, path, canonical, stamp, nonce, bodyHash string
	header                                                http.Header
}

func (d *draft) shifted(by time.Duration) string { return d.at.Add(by).UTC().Format(time.RFC3339) }

// reply is a received response. envelope is nil if the body is no JSON object.
type reply struct {
	err      error
	status   int
	header   http.Header
	raw      []byte
	envelope dict
}

const (
	maxReply   = 16 << 20
	maxRetries = 6
)

// send sends a request. A rate-limited request was not executed. send therefore waits for
// Retry-After and sends the request again, unless the wait is too long or maxRetries is reached.
// It also repeats a GET that got no reply, at most twice.
func (s *session) send(r request) reply {
	if r.keyName != "" {
		r.key = s.newKey(r.keyName)
	}
	for try := 0; ; try++ {
		out := s.sendOnce(r)
		wait := time.Second
		switch {
		case out.limited():
			s.mu.Lock()
			s.limited = append(s.limited, out)
			s.mu.Unlock()
			wait = out.retryAfter(s.now())
		case out.err == nil || r.method != http.MethodGet || s.ctx.Err() != nil || try == 2:
			return out
		}
		if out.limited() && (try == maxRetries || wait > patience) {
			s.gaveUp.Store(true)
			return out
		}
		if err := s.cfg.Wait(s.ctx, wait); err != nil {
			return reply{err: err}
		}
	}
}

func (r reply) limited() bool {
	return r.status == http.StatusTooManyRequests || r.code() == "rate_limited"
}

// retryAfter returns the wait that the header requests, but at least one second. It returns five
// seconds if the header cannot be read.
func (r reply) retryAfter(now time.Time) time.Duration {
	text := strings.TrimSpace(r.header.Get("Retry-After"))
	wait := 5 * time.Second
	if n, err := strconv.Atoi(text); err == nil {
		wait = time.Duration(min(max(n, 0), 1<<30)) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return max(wait, time.Second)
}

func (s *session) sendOnce(r request) reply {
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	resp, err := s.cfg.Transport.RoundTrip(s.build(r).WithContext(ctx))
	s.requests.Add(1)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	out := reply{status: resp.StatusCode, header: resp.Header}
	if out.raw, err = io.ReadAll(io.LimitReader(resp.Body, maxReply+1)); err != nil {
		out.err = err
		return out
	}
	if len(out.raw) > maxReply {
		out.err = errors.New("the body is over 16 MiB")
		return out
	}
	dec := json.NewDecoder(bytes.NewReader(out.raw))
	dec.UseNumber()
	if dec.Decode(&out.envelope) != nil {
		out.envelope = nil
	}
	s.scan(out, s.cfg.Secret)
	return out
}

// build builds and signs a request. It hides the body from net/http, which could otherwise
// resend a POST with an Idempotency-Key.
func (s *session) build(r request) *http.Request {
	who := Key{AppID: s.cfg.AppID, Secret: s.cfg.Secret}
	if r.otherKey != nil {
		who = *r.otherKey
	}
	canonical := canonicalQuery(r.pairs)
	if r.query == "" {
		r.query = canonical
	}
	at := s.now()
	d := &draft{at: at, appID: who.AppID, secret: who.Secret, method: r.method, host: s.signedHost, path: s.base.EscapedPath() + r.path,
		canonical: canonical, stamp: at.UTC().Format(time.RFC3339), nonce: newNonce(), bodyHash: bodyHash(r.body), header: http.Header{}}
	sent := d.path
	mediaType := ""
	if r.method == http.MethodPost {
		mediaType = "application/json"
	}
	for name, value := range map[string]string{"User-Agent": s.cfg.UserAgent, "Content-Type": mediaType, "Idempotency-Key": r.key, "X-Service-Sandbox-Scenario": r.scenario} {
		if value != "" {
			d.header[name] = []string{value}
		}
	}
	if r.damage != nil && r.beforeSigning {
		r.damage(d)
	}
	for name, value := range map[string]string{
		"X-Api-Appid": d.appID, "X-Api-Timestamp": d.stamp, "X-Api-Nonce": d.nonce,
		"X-Api-Signature": signature(d.secret, d.method, d.host, d.path, d.canonical, d.stamp, d.nonce, d.bodyHash),
	} {
		d.header[name] = []string{value}
	}
	if r.damage != nil && !r.beforeSigning {
		r.damage(d)
	}
	decoded, err := url.PathUnescape(sent)
	if err != nil {
		decoded = sent
	}
	req := &http.Request{Method: r.method, Host: s.base.Host, Header: d.header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL: &url.URL{Scheme: s.base.Scheme, Host: s.base.Host, Path: decoded, RawPath: sent, RawQuery: r.query}}
	if host := d.header.Get("Host"); host != "" {
		req.Host = host
		d.header.Del("Host")
	}
	if r.body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(r.body)), int64(len(r.body))
	}
	return req
}

func newNonce() string { return rand.Text() }

// get and post return requests. The request from post has a new idempotency key that
// contains keyName. If keyName is empty, the request has no key.
func get(path string, pairs ...pair) request {
	return request{method: http.MethodGet, path: path, pairs: pairs}
}

func post(path, keyName, body string) request {
	return request{method: http.MethodPost, path: path, keyName: keyName, body: []byte(body)}
}

func keyed(path, key, body string) request {
	return request{method: http.MethodPost, path: path, key: key, body: []byte(body)}
}

func (r reply) code() string { return word(r.envelope, "code") }

func (r reply) succeeded() bool { return truth(r.envelope, "success") && r.code() == "ok" }

func (r reply) data() dict { return member[dict](r.envelope, "data") }

// items returns the entries of a list reply, or nil if data does not hold exactly one array.
func (r reply) items() []dict {
	_, items, _ := onlyArray(r.data())
	return items
}

// seen describes a reply without text that may contain a secret.
func (r reply) seen() string {
	switch {
	case r.err != nil && errors.Is(r.err, context.Canceled):
		return "interrupted"
	case r.err != nil:
		return "no reply: " + brief(r.err.Error())
	case r.envelope == nil:
		return fmt.Sprintf("HTTP %d without a JSON object", r.status)
	}
	return fmt.Sprintf("HTTP %d %s", r.status, brief(r.code()))
}

func brief(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, s)
	if len(s) > 120 {
		s = strings.ToValidUTF8(s[:120], "") + "…"
	}
	return s
}

type pair struct{ key, value string }

// rfc3986 percent-encodes all characters except the unreserved ones (API: Canonical string).
func rfc3986(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

func canonicalQuery(pairs []pair) string {
	encoded := make([]pair, len(pairs))
	for i, p := range pairs {
		encoded[i] = pair{rfc3986(p.key), rfc3986(p.value)}
	}
	slices.SortStableFunc(encoded, func(a, b pair) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value)) })
	parts := make([]string, len(encoded))
	for i, p := range encoded {
		parts[i] = p.key + "=" + p.value
	}
	return strings.Join(parts, "&")
}

func signature(secret, method, host, path, query, stamp, nonce, bodyHash string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(strings.Join([]string{method, host, path, query, stamp, nonce, bodyHash}, "\n")))
	return hex.EncodeToString(mac.Sum(nil))
}

func bodyHash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
