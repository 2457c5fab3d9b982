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

var writePaths = map[WriteKind]string{WriteOrder: ordersPath, WriteRenewal: renewPath}

// Write is one POST, byte for byte.
type Write struct {
	Kind      WriteKind
	Key       string    // Idempotency-Key: printable ASCII, 1 to 255 bytes, no space at its ends
	Body      []byte    // sent and signed exactly so
	Timestamp time.Time // X-API-Timestamp; zero: the clock now
	Scenario  string    // X-Service-Sandbox-Scenario, such as ScenarioDelayed; orders in a sandbox only
}

// call returns the request of a write; an error says why it must not be sent.
func (w Write) call(env Environment) (call, error) {
	path, ok := writePaths[w.Kind]
	switch {
	case !ok:
		return call{}, errors.New("unknown kind of write")
	case w.Key == "" || len(w.Key) > 255 || !headerSafe(w.Key):
		return call{}, errors.New("idempotency key must be 1 to 255 printable ASCII bytes without spaces at its ends")
	case w.Scenario != "" && (env != Sandbox || w.Kind != WriteOrder):
		return call{}, errors.New("the scenario header goes with sandbox orders only")
	case !headerSafe(w.Scenario):
		return call{}, errors.New("scenario must be printable ASCII without spaces at its ends")
	}
	return call{method: http.MethodPost, path: path, body: w.Body, timestamp: w.Timestamp, key: w.Key, scenario: w.Scenario}, nil
}

// Reply is everything known of one POST attempt. It decides nothing.
type Reply struct {
	Sent       bool   // false: certainly not one byte of the request was written
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
	Fields     string        // which fields data.errors names and why; "" if none
	Malformed  string        // the envelope was read, its data could not (fully) be: why
}

// Post sends one write once and reports what is known of it. It never returns an
// error: a request that could not even be built is a Reply with Sent false.
func (c *Client) Post(ctx context.Context, w Write) Reply {
	reply, _ := c.post(ctx, w)
	return reply
}

// post is Post, with the reply's error.
func (c *Client) post(ctx context.Context, w Write) (Reply, error) {
	in, err := w.call(c.environment)
	if err != nil {
		return Reply{Failure: err.Error()}, fmt.Errorf("upstream: %w", err)
	}
	a, e, failure := c.exchange(ctx, &in)
	r := Reply{Sent: a.sent, HTTPStatus: a.status, RetryAfter: a.retryAfter, Failure: failure}
	if failure == "" {
		r.Envelope, r.Success, r.Code, r.Message = true, e.Success, e.Code, e.Message
		r.TraceID, r.ServerTime, r.Fields = e.TraceID, e.Timestamp, fieldWordsOf(e.fieldErrors())
		if err := r.decode(w.Kind, &e); err != nil {
			r.Malformed = err.Error()
			failure = malformed + r.Malformed
		}
	}
	return r, in.err(&a, &e, failure)
}

// decode decodes the data of a reply to a kind of write.
func (r *Reply) decode(kind WriteKind, e *Envelope) (err error) {
	switch kind {
	case WriteOrder:
		if e.Success {
			r.Order, err = decodeData(e, decodeCreatedOrder)
		}
	case WriteRenewal:
		if e.Success || hasRenewalStatus(e) {
			r.Renewal, err = decodeData(e, decodeRenewal)
		}
	}
	return err
}

func hasRenewalStatus(e *Envelope) bool {
	o, err := e.object()
	return err == nil && o.raw("status") != nil
}

// CreateOrder posts an order and returns a result or an error. It is for programs that
// keep no record of attempts. Errors are *Error and *TransportError. After either the
// order may exist, unless TransportError.Sent is false: call again with the same key and
// request.
func (c *Client) CreateOrder(ctx context.Context, key string, r OrderRequest) (CreatedOrder, error) {
	body, err := OrderBody(r)
	if err != nil {
		return CreatedOrder{}, err
	}
	reply, err := c.post(ctx, Write{Kind: WriteOrder, Key: key, Body: body, Scenario: r.Scenario})
	if err != nil {
		return CreatedOrder{}, err
	}
	return *reply.Order, nil
}

// Renew posts a renewal. An all-failed renewal (HTTP 422) returns its Renewal and an
// *Error of CodeOperationFailed. A nil error does not mean that every proxy was renewed:
// read the lists (API: renew, rule 1).
func (c *Client) Renew(ctx context.Context, key string, r RenewRequest) (Renewal, error) {
	body, err := RenewBody(r)
	if err != nil {
		return Renewal{}, err
	}
	reply, err := c.post(ctx, Write{Kind: WriteRenewal, Key: key, Body: body})
	if reply.Renewal != nil {
		return *reply.Renewal, err
	}
	return Renewal{}, err
}

const (
	DayStep       = 30   // durations are multiples of it
	MaxRenewDays  = 1095 // of one renewal
	MaxOrderLines = 50
	MaxQuantity   = 2000 // per order, and per line
	// MaxSkew is how far a request's timestamp may be from the provider's clock.
	MaxSkew = 5 * time.Minute
)
