// Sending of one request: sign, send once, read the whole reply.

package upstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// call is one unsigned request. path is escaped and query is canonical.
type call struct {
	method, path, query string
	body                []byte
	timestamp           time.Time
	key, scenario       string
}

// answer is one response, read completely.
type answer struct {
	call       *call
	sent       bool
	status     int
	retryAfter RetryAfter
	body       []byte
	err        error         // transport or body failure
	took       time.Duration // set if requests are observed
	envelope   Envelope
	failure    string // why there is no envelope
}

// do signs and sends a request once and reads the reply. It uses the transport directly
// and never follows a redirect.
func (c *Client) do(ctx context.Context, in *call) (out answer) {
	if c.cfg.Observe != nil {
		began := c.cfg.Clock()
		defer func() { out.took = c.cfg.Clock().Sub(began) }()
	}
	if err := ctx.Err(); err != nil {
		return answer{call: in, err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	trace := newSentTrace()
	req, err := c.request(httptrace.WithClientTrace(ctx, &trace.trace), in)
	if err != nil {
		return answer{call: in, err: err}
	}
	resp, err := c.cfg.Transport.RoundTrip(req)
	if err != nil {
		return answer{call: in, sent: trace.maybeSent(c.ownTransport, ctx.Err() != nil), err: c.clean(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	out = answer{call: in, sent: true, status: resp.StatusCode, retryAfter: retryAfterOf(resp.Header, c.cfg.Clock())}
	out.body, out.err = readBounded(resp, c.cfg.MaxBody)
	if out.err != nil && !errors.Is(out.err, errTooLarge) {
		out.err = c.clean(out.err)
	}
	return out
}

var errTooLarge = errors.New("response body is over the limit")

func readBounded(resp *http.Response, limit int64) ([]byte, error) {
	if resp.ContentLength > limit {
		return nil, errTooLarge
	}
	var buf bytes.Buffer
	buf.Grow(int(min(max(resp.ContentLength, 0), 1<<20)) + bytes.MinRead)
	if _, err := buf.ReadFrom(io.LimitReader(resp.Body, limit+1)); err != nil {
		return nil, fmt.Errorf("reading the response body: %w", err)
	}
	if int64(buf.Len()) > limit {
		return nil, errTooLarge
	}
	return plain(buf.Bytes(), resp.Header.Get("Content-Encoding"), limit)
}

// plain undoes what an intermediary may have done to a body: unrequested compression, or a
// byte order mark (trap 76). limit applies to the result.
func plain(body []byte, encoding string, limit int64) ([]byte, error) {
	if encoding = strings.ToLower(encoding); encoding == "gzip" || encoding == "x-gzip" {
		unpacked, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("unpacking the response body: %w", err)
		}
		if body, err = io.ReadAll(io.LimitReader(unpacked, limit+1)); err != nil {
			return nil, fmt.Errorf("unpacking the response body: %w", err)
		}
		if int64(len(body)) > limit {
			return nil, errTooLarge
		}
	}
	return bytes.TrimPrefix(body, []byte("\ufeff")), nil
}

// request builds and signs a request. GetBody is nil and the body is wrapped to keep
// net/http from resending a POST. Header names are in canonical form.
func (c *Client) request(ctx context.Context, in *call) (*http.Request, error) {
	escaped := c.basePath + in.path
	decoded, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, errors.New("path cannot be escaped")
	}
	timestamp := in.timestamp
	if timestamp.IsZero() {
		timestamp = c.cfg.Clock()
	}
	stamp := timestamp.UTC().Format(time.RFC3339)
	nonce := c.cfg.Nonce()
	canonical := CanonicalString(in.method, c.signedHost, escaped, in.query, stamp, nonce, BodyHash(in.body))
	header := make(http.Header, 8)
	header["X-Api-Appid"] = []string{c.cfg.AppID}
	header["X-Api-Timestamp"] = []string{stamp}
	header["X-Api-Nonce"] = []string{nonce}
	header["X-Api-Signature"] = []string{Sign(c.secret(), canonical)}
	header["User-Agent"] = []string{c.cfg.UserAgent}
	req := &http.Request{
		Method: in.method, Host: c.base.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL: &url.URL{Scheme: c.base.Scheme, Host: c.base.Host, Path: decoded, RawPath: escaped, RawQuery: in.query},
	}
	if in.method == http.MethodPost {
		header["Content-Type"] = []string{"application/json"}
		header["Idempotency-Key"] = []string{in.key}
		if in.scenario != "" {
			header["X-Service-Sandbox-Scenario"] = []string{in.scenario}
		}
		req.ContentLength = int64(len(in.body))
		req.Body = io.NopCloser(bytes.NewReader(in.body))
	}
	return req.WithContext(ctx), nil
}

// clean removes the secret and the server's text from a transport error.
func (c *Client) clean(err error) error {
	if says, do := ProviderCertificate(err, c.cfg.Clock()); says != "" {
		err = &unquotedError{says + ": " + do, err}
	}
	if strings.Contains(err.Error(), c.secret()) {
		return errors.New("transport failure (text withheld)")
	}
	return unquoted(err)
}

// exchange sends one request and decodes its envelope.
func (c *Client) exchange(ctx context.Context, in *call) answer {
	a := c.do(ctx, in)
	switch {
	case errors.Is(a.err, errTooLarge):
		a.failure = fmt.Sprintf("response body is over %d bytes", c.cfg.MaxBody)
	case a.err != nil:
		a.failure = a.err.Error()
	case a.status >= 300 && a.status < 400:
		a.failure = "redirect refused"
	default:
		var err error
		if a.envelope, err = DecodeEnvelope(a.body); err != nil {
			a.failure = err.Error()
		}
	}
	if strings.Contains(a.envelope.Message, c.secret()) {
		a.envelope.Message = "(withheld)"
	}
	c.observe(&a)
	return a
}

// error returns nil for a usable success. Otherwise it returns the failure or the envelope
// as an error.
func (a *answer) error() error {
	e, failure := &a.envelope, a.failure
	consistent := e.Success == (e.Code == CodeOK)
	switch {
	case a.err != nil && !errors.Is(a.err, errTooLarge):
		return &TransportError{Method: a.call.method, Path: a.call.path, Sent: a.sent, Err: a.err}
	case failure != "":
	case e.Success && consistent && a.status/100 == 2:
		return nil
	case e.Success || !consistent:
		failure = fmt.Sprintf("success %t contradicts code %q or the HTTP status", e.Success, e.Code)
	}
	return &Error{Method: a.call.method, Path: a.call.path, HTTPStatus: a.status, Code: e.Code, Message: e.Message,
		TraceID: e.TraceID, Timestamp: e.Timestamp, RetryAfter: a.retryAfter, FieldErrors: e.fieldErrors(), Failure: failure}
}

// malformed notes that the envelope's data cannot be decoded.
func (a *answer) malformed(err error) { a.failure = "malformed data: " + err.Error() }

// getOne sends one GET and decodes its data.
func getOne[T any](ctx context.Context, c *Client, path, query string, decode func(*object, *Envelope) T) (out T, err error) {
	a := c.exchange(ctx, &call{method: http.MethodGet, path: path, query: query})
	if err := a.error(); err != nil {
		return out, err
	}
	if out, err = decodeData(&a.envelope, decode); err != nil {
		a.malformed(err)
		return *new(T), a.error()
	}
	return out, nil
}

// RetryAfter is the Retry-After response header (API: Limits). The zero value means that
// the header was absent.
type RetryAfter struct {
	Present bool          // the header was given
	Valid   bool          // it was seconds or an HTTP date
	Delay   time.Duration // wait from now; 0 for a past date; saturates on overflow
}

// ParseRetryAfter parses whole seconds, or an HTTP date relative to now. Very large values
// are valid and saturate. Anything else, such as a negative number, is present but not
// valid.
func ParseRetryAfter(text string, now time.Time) RetryAfter {
	text = strings.TrimSpace(text)
	if text == "" {
		return RetryAfter{Present: true}
	}
	if strings.Trim(text, "0123456789") == "" {
		delay := time.Duration(math.MaxInt64)
		if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds <= int64(delay/time.Second) {
			delay = time.Duration(seconds) * time.Second
		}
		return RetryAfter{Present: true, Valid: true, Delay: delay}
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return RetryAfter{Present: true}
	}
	return RetryAfter{Present: true, Valid: true, Delay: max(at.Sub(now), 0)}
}

func retryAfterOf(h http.Header, now time.Time) RetryAfter {
	values := h["Retry-After"]
	if len(values) == 0 {
		return RetryAfter{}
	}
	longest := RetryAfter{Present: true}
	for _, v := range values { // the longest valid header counts
		if r := ParseRetryAfter(v, now); r.Valid && r.Delay >= longest.Delay {
			longest = r
		}
	}
	return longest
}
