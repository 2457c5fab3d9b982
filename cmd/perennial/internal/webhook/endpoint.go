// One attempt: a signed POST, and what its reply means.

package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
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

// Outcome is what became of an attempt.
type Outcome string

// The outcomes. All but the first are tried again, or wait for a person.
const (
	Delivered   Outcome = "delivered"    // 2xx
	Refused     Outcome = "refused"      // 4xx, or a redirect, which is not followed
	RateLimited Outcome = "rate_limited" // 429
	Failed      Outcome = "failed"       // 5xx
	Unreachable Outcome = "unreachable"  // no reply in time, or none that is HTTP
	Gone        Outcome = "gone"         // 410: nothing more is sent before the next start
)

// Outcomes are all outcomes.
func Outcomes() []Outcome {
	return []Outcome{Delivered, Refused, RateLimited, Failed, Unreachable, Gone}
}

// Reply is what is kept of the reply to an attempt. Reason is for people, and quotes
// nothing that came from the endpoint.
type Reply struct {
	Outcome    Outcome
	Status     int // of HTTP; 0: there was no reply
	Reason     string
	RetryAfter time.Duration // 0: the endpoint said none
	Took       time.Duration
}

// Endpoint is where events are sent.
type Endpoint struct {
	URL       string
	Secrets   Secrets
	Timeout   time.Duration // of one attempt, to the reply's status line
	Transport http.RoundTripper
	Clock     func() time.Time
	UserAgent string
	// Certificate says what is wrong with the endpoint's certificate, and what to do, "" where
	// an error is about something else.
	Certificate func(err error, now time.Time) string
}

const (
	// replyMost is how much of a reply's body is read, and drainFor how long, so that its
	// connection can be used again; it is dropped. The status line is the answer.
	replyMost = 64 << 10
	drainFor  = 100 * time.Millisecond
	// retryAfterMost bounds what an endpoint may ask for.
	retryAfterMost = time.Hour
	contentType    = "application/cloudevents+json"
)

// NewTransport makes the transport of an endpoint, for so many attempts at once.
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

// Host is the endpoint as logs and tables name it: its path and query may hold a token.
func (e Endpoint) Host() string { return Host(e.URL) }

// Host is scheme and host of an address.
func Host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Close drops idle connections.
func (e Endpoint) Close() {
	if t, ok := e.Transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// Send makes one attempt.
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
	response, err := e.Transport.RoundTrip(request) // not http.Client: it follows redirects, and its errors hold the address
	if err != nil {
		return Reply{Outcome: Unreachable, Reason: e.why(ctx, err)}
	}
	defer time.AfterFunc(drainFor, cancel).Stop()
	_, _ = io.CopyN(io.Discard, response.Body, replyMost)
	_ = response.Body.Close()
	return e.read(response)
}

// read is what a reply means.
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

// retryAfter reads the header's two forms; 0 where it is neither.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, retryAfterMost)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), retryAfterMost)
	}
	return 0
}

// why says why there was no reply. Errors of net/http may quote what the endpoint sent:
// only those of the network and of certificates are repeated.
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
