// One request: signed, sent once and read to its end.

package upstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"
)

// call is one request before it is signed. path is escaped, query canonical.
type call struct {
	method, path, query string
	body                []byte
	timestamp           time.Time
	key, scenario       string
}

// answer is one response, read to its end.
type answer struct {
	sent       bool
	status     int
	retryAfter RetryAfter
	body       []byte
	err        error // transport or body failure
	tooLarge   bool
	took       time.Duration // where somebody observes requests
}

// do signs, sends once and reads. It never follows a redirect: it uses the
// transport directly.
func (c *Client) do(ctx context.Context, in call) (out answer) {
	if c.observer != nil {
		began := c.clock()
		defer func() { out.took = c.clock().Sub(began) }()
	}
	if err := ctx.Err(); err != nil {
		return answer{err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	trace := newSentTrace()
	req, err := c.request(httptrace.WithClientTrace(ctx, &trace.trace), in)
	if err != nil {
		return answer{err: err}
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return answer{sent: trace.maybeSent(c.ownTransport, ctx.Err() != nil), err: c.clean(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	out = answer{sent: true, status: resp.StatusCode, retryAfter: retryAfterOf(resp.Header, c.clock())}
	out.body, out.err = readBounded(resp, c.maxBody)
	if out.err != nil {
		out.tooLarge, out.err = errors.Is(out.err, errTooLarge), c.clean(out.err)
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

// plain is a body without what a proxy between may have done to it (trap 76): compressed
// it unasked, or begun it with a byte order mark. The limit holds for what it becomes.
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

// request builds and signs. GetBody stays nil and the body is wrapped, so that
// net/http cannot resend a POST by itself; header names are in canonical form.
func (c *Client) request(ctx context.Context, in call) (*http.Request, error) {
	escaped := c.basePath + in.path
	decoded, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, errors.New("path cannot be escaped")
	}
	timestamp := in.timestamp
	if timestamp.IsZero() {
		timestamp = c.clock()
	}
	stamp := timestamp.UTC().Format(time.RFC3339)
	nonce := c.nonce()
	canonical := CanonicalString(in.method, c.signedHost, escaped, in.query, stamp, nonce, BodyHash(in.body))
	header := make(http.Header, 8)
	header["X-Api-Appid"] = []string{c.appID}
	header["X-Api-Timestamp"] = []string{stamp}
	header["X-Api-Nonce"] = []string{nonce}
	header["X-Api-Signature"] = []string{Sign(c.secret(), canonical)}
	header["User-Agent"] = []string{c.userAgent}
	req := &http.Request{
		Method: in.method, Host: c.hostPort, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL: &url.URL{Scheme: c.scheme, Host: c.hostPort, Path: decoded, RawPath: escaped, RawQuery: in.query},
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

// clean turns a transport error into words that carry neither the secret nor what
// the server said.
func (c *Client) clean(err error) error {
	if says, do := ProviderCertificate(err, c.clock()); says != "" {
		err = &unquotedError{says + ": " + do, err}
	}
	if strings.Contains(err.Error(), c.secret()) {
		return errors.New("transport failure (text withheld)")
	}
	return unquoted(err)
}

// get performs one GET and returns its consistent success envelope.
func (c *Client) get(ctx context.Context, path, query string) (Envelope, error) {
	in := call{method: http.MethodGet, path: path, query: query}
	a := c.do(ctx, in)
	if a.err != nil && !a.tooLarge {
		c.observe(&in, &a, &Envelope{}, false)
		return Envelope{}, &TransportError{Method: in.method, Path: path, Sent: a.sent, Err: a.err}
	}
	e, failure := c.envelopeOf(a)
	c.observe(&in, &a, &e, failure == "")
	if failure == "" && e.Success && e.consistent() && a.status/100 == 2 {
		return e, nil
	}
	if failure == "" && (e.Success || !e.consistent()) {
		failure = fmt.Sprintf("success %t contradicts code %q or the HTTP status", e.Success, e.Code)
	}
	return Envelope{}, &Error{Method: in.method, Path: path, HTTPStatus: a.status, Code: e.Code, Message: e.Message,
		TraceID: e.TraceID, Timestamp: e.Timestamp, RetryAfter: a.retryAfter, FieldErrors: e.fieldErrors(), Failure: failure}
}

// envelopeOf reads an answer's envelope, or says in words why there is none.
func (c *Client) envelopeOf(a answer) (Envelope, string) {
	switch {
	case a.tooLarge:
		return Envelope{}, fmt.Sprintf("response body is over %d bytes", c.maxBody)
	case a.err != nil:
		return Envelope{}, a.err.Error()
	case a.status >= 300 && a.status < 400:
		return Envelope{}, "redirect refused"
	}
	e, err := DecodeEnvelope(a.body)
	if err != nil {
		return Envelope{}, err.Error()
	}
	if strings.Contains(e.Message, c.secret()) {
		e.Message = "(withheld)"
	}
	return e, ""
}

// malformed is a success whose data cannot be read.
func malformed(method, path string, e *Envelope, err error) error {
	return &Error{Method: method, Path: path, HTTPStatus: http.StatusOK, Code: e.Code, TraceID: e.TraceID,
		Timestamp: e.Timestamp, Failure: "malformed data: " + err.Error()}
}
