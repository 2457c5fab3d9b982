// Post: the two writes, each sent once, and everything known of their replies.

package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// WriteKind says which of the two writes of the API a [Write] is.
type WriteKind int

// The two writes (API: Endpoints).
const (
	WriteOrder   WriteKind = iota + 1 // POST /api/v1/orders
	WriteRenewal                      // POST /api/v1/proxies/renew
)

const (
	accountPath = "/api/v1/account"
	walletPath  = "/api/v1/wallet"
	offersPath  = "/api/v1/offers"
	ordersPath  = "/api/v1/orders"
	proxiesPath = "/api/v1/proxies"
	renewPath   = "/api/v1/proxies/renew"
)

func (k WriteKind) path() (string, bool) {
	switch k {
	case WriteOrder:
		return ordersPath, true
	case WriteRenewal:
		return renewPath, true
	}
	return "", false
}

// Write is one POST, byte for byte.
type Write struct {
	Kind      WriteKind
	Key       string    // Idempotency-Key: printable ASCII, 1 to 255 bytes, no space at its ends
	Body      []byte    // sent and signed exactly so
	Timestamp time.Time // X-API-Timestamp; zero: the clock now
	Scenario  string    // X-Service-Sandbox-Scenario, such as ScenarioDelayed; orders in a sandbox only
}

func (w Write) check(env Environment) (string, error) {
	path, ok := w.Kind.path()
	switch {
	case !ok:
		return "", errors.New("unknown kind of write")
	case w.Key == "" || len(w.Key) > 255 || !headerSafe(w.Key):
		return "", errors.New("idempotency key must be 1 to 255 printable ASCII bytes without spaces at its ends")
	case w.Scenario != "" && (env != Sandbox || w.Kind != WriteOrder):
		return "", errors.New("the scenario header goes with sandbox orders only")
	case !headerSafe(w.Scenario):
		return "", errors.New("scenario must be printable ASCII without spaces at its ends")
	}
	return path, nil
}

// Reply is everything known of one POST after it was tried. It decides nothing.
type Reply struct {
	Sent       bool   // false: surely not one byte of the request was written
	Failure    string // transport or decoding failure in words, without secrets; "" when the envelope was read
	HTTPStatus int    // 0: no response header came
	Envelope   bool   // the body was an envelope of the document
	Success    bool
	Code       Code
	Message    string
	TraceID    string
	ServerTime time.Time // the envelope's timestamp, UTC; zero when not given
	RetryAfter RetryAfter
	Order      *CreatedOrder // a successful order creation whose data could be read
	Renewal    *Renewal      // a renewal's result, of a success or of the 422
	Fields     string        // what data.errors says of which field, in words; "" when it says nothing
	Malformed  string        // the envelope was read, its data could not (fully) be: why
}

// Post sends one write once and reports what is known of it. It never returns an
// error: a request that could not even be built is a Reply with Sent false.
func (c *Client) Post(ctx context.Context, w Write) Reply {
	path, err := w.check(c.environment)
	if err != nil {
		return Reply{Failure: err.Error()}
	}
	in := call{method: http.MethodPost, path: path, body: w.Body, timestamp: w.Timestamp, key: w.Key, scenario: w.Scenario}
	a := c.do(ctx, in)
	reply, e := c.reply(w.Kind, a)
	c.observe(&in, &a, &e, reply.Envelope)
	return reply
}

func (c *Client) reply(kind WriteKind, a answer) (Reply, Envelope) {
	r := Reply{Sent: a.sent, HTTPStatus: a.status, RetryAfter: a.retryAfter}
	e, failure := c.envelopeOf(a)
	if failure != "" {
		r.Failure = failure
		return r, e
	}
	r.Envelope, r.Success, r.Code, r.Message = true, e.Success, e.Code, e.Message
	r.TraceID, r.ServerTime, r.Fields = e.TraceID, e.Timestamp, fieldWordsOf(e.fieldErrors())
	if err := r.decode(kind, &e); err != nil {
		r.Malformed = err.Error()
	}
	return r, e
}

// decode reads the data of a reply to a kind of write.
func (r *Reply) decode(kind WriteKind, e *Envelope) (err error) {
	switch kind {
	case WriteOrder:
		if e.Success {
			r.Order, err = decodeCreatedOrder(e)
		}
	case WriteRenewal:
		if e.Success || hasRenewalStatus(e) {
			r.Renewal, err = decodeRenewal(e)
		}
	}
	return err
}

func hasRenewalStatus(e *Envelope) bool {
	o, err := e.object()
	return err == nil && o.raw("status") != nil
}

// CreateOrder posts an order and turns its reply into an error or a result; a
// convenience for programs that keep no record of attempts. Errors are *Error
// and *TransportError; after either the order may exist unless
// TransportError.Sent is false: ask again with the same key and request.
func (c *Client) CreateOrder(ctx context.Context, key string, r OrderRequest) (CreatedOrder, error) {
	body, err := OrderBody(r)
	if err != nil {
		return CreatedOrder{}, err
	}
	reply, err := c.postForError(ctx, Write{Kind: WriteOrder, Key: key, Body: body, Scenario: r.Scenario})
	if err != nil {
		return CreatedOrder{}, err
	}
	return *reply.Order, nil
}

// Renew posts a renewal. An all-failed renewal (HTTP 422) returns its Renewal
// together with an *Error of CodeOperationFailed. A nil error does not mean that
// each proxy was renewed: read the lists (API: renew, rule 1).
func (c *Client) Renew(ctx context.Context, key string, r RenewRequest) (Renewal, error) {
	body, err := RenewBody(r)
	if err != nil {
		return Renewal{}, err
	}
	reply, err := c.postForError(ctx, Write{Kind: WriteRenewal, Key: key, Body: body})
	if reply.Renewal != nil {
		return *reply.Renewal, err
	}
	return Renewal{}, err
}

func (c *Client) postForError(ctx context.Context, w Write) (Reply, error) {
	path, err := w.check(c.environment)
	if err != nil {
		return Reply{}, fmt.Errorf("upstream: %w", err)
	}
	a := c.do(ctx, call{method: http.MethodPost, path: path, body: w.Body, key: w.Key, scenario: w.Scenario})
	if a.err != nil && !a.tooLarge {
		return Reply{}, &TransportError{Method: http.MethodPost, Path: path, Sent: a.sent, Err: a.err}
	}
	r, e := c.reply(w.Kind, a)
	if r.Envelope && e.Success && e.consistent() && r.HTTPStatus/100 == 2 && r.Malformed == "" {
		return r, nil
	}
	failure := r.Failure
	if r.Malformed != "" {
		failure = "malformed data: " + r.Malformed
	} else if r.Envelope && (e.Success || !e.consistent()) {
		failure = "success contradicts the code or the HTTP status"
	}
	return r, &Error{Method: http.MethodPost, Path: path, HTTPStatus: r.HTTPStatus, Code: r.Code, Message: r.Message,
		TraceID: r.TraceID, Timestamp: r.ServerTime, RetryAfter: r.RetryAfter, FieldErrors: e.fieldErrors(), Failure: failure}
}
