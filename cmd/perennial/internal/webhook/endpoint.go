package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Outcome is the result of an attempt.
type Outcome string

// The outcomes. Delivered ends an event's delivery, and Gone stops the sink. After any other
// outcome, the event is retried.
const (
	Delivered   Outcome = "delivered"    // 2xx
	Refused     Outcome = "refused"      // 4xx, or a redirect, which is not followed
	RateLimited Outcome = "rate_limited" // 429
	Failed      Outcome = "failed"       // 5xx
	Unreachable Outcome = "unreachable"  // no reply in time, or no HTTP reply
	Gone        Outcome = "gone"         // 410; the sink stops
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{Delivered, Refused, RateLimited, Failed, Unreachable, Gone}
}

// Reply is the recorded reply to an attempt. Reason is for people and never quotes the
// endpoint.
type Reply struct {
	Outcome    Outcome
	Status     int // HTTP status; 0 if there was no reply
	Reason     string
	RetryAfter time.Duration // 0 if the reply has no valid Retry-After
	Took       time.Duration
}

// Endpoint is the receiver of a webhook's events.
type Endpoint struct {
	URL       string
	Secrets   Secrets
	Timeout   time.Duration // limits the wait for the reply's headers
	Transport http.RoundTripper
	Clock     func() time.Time
	UserAgent string
	// Certificate returns an explanation of a certificate error and its remedy. It returns ""
	// for other errors.
	Certificate func(err error, now time.Time) string
}

const (
	// replyMost and drainFor limit how much of a reply's body is read, in bytes and in time. The
	// body is discarded. It is read only because a connection can be reused only after that.
	replyMost = 64 << 10
	drainFor  = 100 * time.Millisecond
	// retryAfterMost limits the wait that an endpoint may request.
	retryAfterMost = time.Hour
	contentType    = "application/cloudevents+json"
)

// NewTransport returns a transport for the given number of parallel attempts.
func NewTransport(concurrency int) *http.Transport {
	dialer := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 15 * time.Second, IdleConnTimeout: 90 * time.Second,
		MaxIdleConnsPerHost: concurrency, MaxConnsPerHost: concurrency,
		MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true, DisableCompression: true,
	}
}

// Host returns the endpoint's scheme and host for logs and tables, without the path and
// query, which may contain a token.
func (e Endpoint) Host() string { return Host(e.URL) }

// Host returns an address's scheme and host. It returns "" if the address is invalid.
func Host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Close closes idle connections.
func (e Endpoint) Close() {
	if t, ok := e.Transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// Send makes one attempt to deliver the event with this id.
func (e Endpoint) Send(ctx context.Context, id string, body []byte) (r Reply) {
	began := e.Clock()
	defer func() { r.Took = max(e.Clock().Sub(began), 0) }()
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(body))
	if err != nil {
		return Reply{Outcome: Unreachable, Reason: "its address cannot be used"}
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("User-Agent", e.UserAgent)
	e.Secrets.sign(request.Header, id, began, body)
	response, err := e.Transport.RoundTrip(request) // http.Client is not used, because it follows redirects and puts the address in errors
	if err != nil {
		return Reply{Outcome: Unreachable, Reason: e.why(ctx, err)}
	}
	defer time.AfterFunc(drainFor, cancel).Stop()
	_, _ = io.CopyN(io.Discard, response.Body, replyMost)
	_ = response.Body.Close()
	return e.read(response)
}

func (e Endpoint) read(response *http.Response) Reply {
	status := response.StatusCode
	r := Reply{Status: status, Reason: strings.TrimSpace(fmt.Sprintf("HTTP %d %s", status, http.StatusText(status)))}
	switch {
	case status/100 == 2:
		r.Outcome = Delivered
		return r
	case status == http.StatusGone:
		r.Outcome = Gone
	case status == http.StatusTooManyRequests:
		r.Outcome = RateLimited
	case status/100 == 5:
		r.Outcome = Failed
	case status/100 == 3:
		r.Outcome = Refused
		r.Reason += " (redirects are not followed: configure the final address)"
	default:
		r.Outcome = Refused
	}
	r.RetryAfter = retryAfter(response.Header.Get("Retry-After"), e.Clock())
	return r
}

// retryAfter parses a Retry-After header: seconds or a date. It returns 0 for any other text.
func retryAfter(text string, now time.Time) time.Duration {
	seconds, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) { // seconds is then the largest number
		return min(time.Duration(seconds)*time.Second, retryAfterMost)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), retryAfterMost)
	}
	return 0
}

// why explains the lack of a reply. It quotes only network and certificate errors, because other
// errors of net/http may contain text from the endpoint.
func (e Endpoint) why(ctx context.Context, err error) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Sprintf("no reply within %s", e.Timeout)
	}
	if ctx.Err() != nil {
		return "it was cut off at the end of the turn"
	}
	if says := e.Certificate(err, e.Clock()); says != "" {
		return says
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		return failed.Error()
	}
	return "the connection ended without a reply, or with one that is no HTTP"
}

// The headers of a delivery.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const (
	secretPrefix = "whsec_"
	// secretLeast and secretMost are the shortest and longest key that Standard Webhooks
	// allows, in bytes.
	secretLeast, secretMost = 24, 64
	// secretsMost limits the secrets that sign at one time: the new one and the old one.
	secretsMost = 2
)

// Secrets are the keys that sign each event. There are two keys while receivers change to a new
// secret. Formatting a Secrets, or a value that contains one, never shows a key.
type Secrets struct {
	count int
	keys  func() [][]byte // a function, because fmt prints the fields of unexported fields
}

// ParseSecrets parses one or two secrets, separated by white space. Its errors never quote the
// text.
func ParseSecrets(text []byte) (Secrets, error) {
	words := strings.Fields(string(text))
	if len(words) == 0 {
		return Secrets{}, errors.New("is empty")
	}
	if len(words) > secretsMost {
		return Secrets{}, fmt.Errorf("has %d words: it holds one secret, or two while one takes the place of the other", len(words))
	}
	var keys [][]byte
	for _, word := range words {
		encoded, is := strings.CutPrefix(word, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !is || err != nil || len(key) < secretLeast || len(key) > secretMost {
			return Secrets{}, fmt.Errorf("holds no secret of Standard Webhooks: it is %s and %d to %d bytes in base64, as `echo whsec_$(openssl rand -base64 32)` prints",
				secretPrefix, secretLeast, secretMost)
		}
		keys = append(keys, key)
	}
	return Secrets{len(keys), func() [][]byte { return keys }}, nil
}

// String returns the number of secrets, never their values.
func (s Secrets) String() string { return fmt.Sprintf("(%d secrets, not shown)", s.count) }

// GoString returns the result of String.
func (s Secrets) GoString() string { return s.String() }

// sign sets the headers of one attempt. All attempts for an event share its id. The time and
// the signatures differ for each attempt.
func (s Secrets) sign(header http.Header, id string, at time.Time, body []byte) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	var keys [][]byte
	if s.keys != nil {
		keys = s.keys()
	}
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + stamp + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	header.Set(HeaderID, id)
	header.Set(HeaderTimestamp, stamp)
	header.Set(HeaderSignature, strings.Join(signatures, " "))
}
