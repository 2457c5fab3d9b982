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
	"slices"
	"strconv"
	"strings"
	"time"
)

type call struct {
	method, path, query string
	body                []byte
	timestamp           time.Time
	key, scenario       string
}

type response struct {
	call       *call
	sent       bool
	status     int
	retryAfter RetryAfter
	body       []byte
	err        error         // why sending the request or reading the body failed
	took       time.Duration // set only if Config.Observe is set
	envelope   Envelope
	failure    string // why there is no valid envelope
}

// do signs a call and sends it once. It uses the transport directly, so it follows no redirect.
func (c *Client) do(ctx context.Context, in *call) (out response) {
	if c.cfg.Observe != nil {
		began := c.cfg.Clock()
		defer func() { out.took = c.cfg.Clock().Sub(began) }()
	}
	if err := ctx.Err(); err != nil {
		return response{call: in, err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	resp, trace, err := c.send(ctx, in)
	if err != nil && in.method == http.MethodGet && trace.reused.Load() && ctx.Err() == nil {
		resp, trace, err = c.send(ctx, in) // the server may have closed the idle connection
	}
	if err != nil {
		return response{call: in, sent: trace.maybeSent(c.ownTransport, ctx.Err() != nil), err: c.clean(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	out = response{call: in, sent: true, status: resp.StatusCode, retryAfter: retryAfterOf(resp.Header, c.cfg.Clock())}
	out.body, out.err = readBounded(resp, c.cfg.MaxBody)
	if out.err != nil && !errors.Is(out.err, errTooLarge) {
		out.err = c.clean(out.err)
	}
	return out
}

// send signs and sends a request once.
func (c *Client) send(ctx context.Context, in *call) (*http.Response, *sentTrace, error) {
	trace := newSentTrace()
	req, err := c.request(httptrace.WithClientTrace(ctx, &trace.trace), in)
	if err != nil {
		trace.unsent = true
		return nil, trace, err
	}
	resp, err := c.cfg.Transport.RoundTrip(req)
	return resp, trace, err
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
	return plainBody(buf.Bytes(), resp.Header.Get("Content-Encoding"), limit)
}

// plainBody removes compression and a byte order mark from a body (trap 76). An intermediary can
// add both, even if the client did not ask for compression. limit applies to the result.
func plainBody(body []byte, encoding string, limit int64) ([]byte, error) {
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

// request builds and signs a request. net/http does not resend a request that it has begun to
// write, because GetBody is nil and the body has a wrapper; the body of a GET is empty. A second
// request needs a new nonce (API: Signing). Header names are in canonical
// form.
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
	if req.Body = io.NopCloser(bytes.NewReader(in.body)); in.method == http.MethodPost {
		header["Content-Type"] = []string{"application/json"}
		header["Idempotency-Key"] = []string{in.key}
		if in.scenario != "" {
			header["X-Service-Sandbox-Scenario"] = []string{in.scenario}
		}
		req.ContentLength = int64(len(in.body))
	}
	return req.WithContext(ctx), nil
}

// clean removes the secret and the server's text, and explains a certificate error.
func (c *Client) clean(err error) error {
	if says, do := ProviderCertificate(err, c.cfg.Clock()); says != "" {
		err = &unquotedError{says + ": " + do, err}
	}
	if strings.Contains(err.Error(), c.secret()) {
		return errors.New("transport failure (text withheld)")
	}
	return unquoted(err)
}

// withhold removes texts that contain the API Secret. The provider knows it, and a text may be kept
// in journals and logs.
func (c *Client) withhold(e *Envelope) {
	for _, text := range []*string{&e.Message, &e.TraceID} {
		if strings.Contains(*text, c.secret()) {
			*text = withheldText
		}
	}
	if strings.Contains(string(e.Code), c.secret()) {
		e.Code = withheldCode
	}
}

func (c *Client) exchange(ctx context.Context, in *call) response {
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
		c.withhold(&a.envelope)
	}
	c.observe(&a)
	return a
}

// error returns the failure of a response: a *TransportError or an *Error. It returns nil for a
// usable success.
func (a *response) error() error {
	e, failure := &a.envelope, a.failure
	consistent := e.Success == (e.Code == CodeOK)
	switch {
	case a.err != nil && a.status == http.StatusTooManyRequests: // its Retry-After counts (API: Limits)
		failure = a.err.Error()
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

func (a *response) malformed(err error) { a.failure = "malformed data: " + err.Error() }

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

// RetryAfter is the Retry-After header of a response (API: Limits). The zero value means that
// the header was absent.
type RetryAfter struct {
	Present bool          // the response had the header
	Valid   bool          // the value was a number of seconds or an HTTP date
	Delay   time.Duration // the time to wait; 0 for a past date; the longest duration if the value is too large
}

// ParseRetryAfter parses a number of whole seconds, or an HTTP date in relation to now. A value
// that is too large for a time.Duration is valid and becomes the longest duration. For any
// other text, such as a negative number, Present is true and Valid is false.
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
	for _, v := range values { // the longest valid delay applies
		if r := ParseRetryAfter(v, now); r.Valid && r.Delay >= longest.Delay {
			longest = r
		}
	}
	return longest
}

// Exchange describes one finished request. The trace id is its only text from the provider.
type Exchange struct {
	// Route is the method and the path with {id} in place of an id, such as "GET
	// /api/v1/orders/{id}" (API: Endpoints).
	Route string
	// Code is the envelope's code. It is "other" if the API document does not list the code. It
	// is "" if the response has no envelope.
	Code       string
	HTTPStatus int // 0 if there was no response
	Sent       bool
	TraceID    string
	Took       time.Duration
}

const codeOther = "other"

func (c *Client) observe(a *response) {
	if c.cfg.Observe == nil {
		return
	}
	e, route := &a.envelope, a.call.method+" "+a.call.path
	if !slices.Contains(routes, route) {
		route = route[:strings.LastIndexByte(route, '/')] + "/{id}"
	}
	x := Exchange{Route: route, HTTPStatus: a.status, Sent: a.sent, TraceID: e.TraceID, Took: a.took}
	if a.failure == "" {
		if x.Code = string(e.Code); !e.Code.Known() {
			x.Code = codeOther
		}
	}
	c.cfg.Observe(x)
}

var routes = []string{
	"GET " + accountPath, "GET " + walletPath, "GET " + offersPath, "GET " + ordersPath, "GET " + ordersPath + "/{id}",
	"GET " + proxiesPath, "GET " + proxiesPath + "/{id}", "POST " + ordersPath, "POST " + renewPath,
}

// Routes returns all possible values of Exchange.Route.
func Routes() []string { return slices.Clone(routes) }
