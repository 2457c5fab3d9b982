// The two writes, each sent once, and their replies.

package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// WriteKind selects one of the API's two writes.
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

// Write is one POST request.
type Write struct {
	Kind      WriteKind
	Key       string    // Idempotency-Key: printable ASCII, 1 to 255 bytes, no space at its ends
	Body      []byte    // sent and signed as given
	Timestamp time.Time // X-API-Timestamp; zero: now
	Scenario  string    // X-Service-Sandbox-Scenario, such as ScenarioDelayed; orders in a sandbox only
}

// call builds the request of a write. It returns an error if the write is invalid.
func (w Write) call(env Environment) (*call, error) {
	path, ok := writePaths[w.Kind]
	switch {
	case !ok:
		return nil, errors.New("unknown kind of write")
	case w.Key == "" || len(w.Key) > 255 || !headerSafe(w.Key):
		return nil, errors.New("idempotency key must be 1 to 255 printable ASCII bytes without spaces at its ends")
	case w.Scenario != "" && (env != Sandbox || w.Kind != WriteOrder):
		return nil, errors.New("the scenario header goes with sandbox orders only")
	case !headerSafe(w.Scenario):
		return nil, errors.New("scenario must be printable ASCII without spaces at its ends")
	}
	return &call{method: http.MethodPost, path: path, body: w.Body, timestamp: w.Timestamp, key: w.Key, scenario: w.Scenario}, nil
}

// Reply is what is known about one POST attempt. It makes no decisions.
type Reply struct {
	Sent       bool   // false: no byte of the request was written
	Failure    string // transport or decoding failure, without secrets; "" if the envelope was read
	HTTPStatus int    // 0: no response header
	Envelope   bool   // the body was a valid envelope
	Success    bool
	Code       Code
	Message    string
	TraceID    string
	ServerTime time.Time // the envelope's timestamp, UTC; zero if absent
	RetryAfter RetryAfter
	Order      *CreatedOrder // a created order whose data could be read
	Renewal    *Renewal      // a renewal's result, after success or HTTP 422
	Fields     string        // the messages of data.errors by field; "" if none
	Malformed  string        // why the envelope's data could not be decoded completely
}

// Post sends one write once and returns what is known about it. It never returns an error.
// If the request could not be built, Reply.Sent is false.
func (c *Client) Post(ctx context.Context, w Write) Reply {
	reply, _ := c.post(ctx, w)
	return reply
}

// post is Post that also returns the failure as an error.
func (c *Client) post(ctx context.Context, w Write) (Reply, error) {
	in, err := w.call(c.environment)
	if err != nil {
		return Reply{Failure: err.Error()}, fmt.Errorf("upstream: %w", err)
	}
	a := c.exchange(ctx, in)
	r := Reply{Sent: a.sent, HTTPStatus: a.status, RetryAfter: a.retryAfter, Failure: a.failure}
	if e := &a.envelope; a.failure == "" {
		r.Envelope, r.Success, r.Code, r.Message = true, e.Success, e.Code, e.Message
		r.TraceID, r.ServerTime, r.Fields = e.TraceID, e.Timestamp, fieldWordsOf(e.fieldErrors())
		if err := r.decode(w.Kind, e); err != nil {
			r.Malformed = err.Error()
			a.malformed(err)
		}
	}
	return r, a.error()
}

// decode decodes the data of a reply to a write.
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

// CreateOrder posts an order and returns the result or an error. It is for programs that
// keep no record of attempts. Errors are *Error and *TransportError. After either the
// order may exist, unless TransportError.Sent is false. Retry with the same key and
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

// Renew posts a renewal. If all items failed (HTTP 422), it returns the Renewal and an
// *Error with CodeOperationFailed. A nil error does not mean that every proxy was renewed:
// check the lists (API: renew, rule 1).
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
	DayStep       = 30   // durations are multiples of this
	MaxRenewDays  = 1095 // in one renewal
	MaxOrderLines = 50
	MaxQuantity   = 2000 // per order and per line
	// MaxSkew is the largest allowed difference between a request's timestamp and the
	// provider's clock.
	MaxSkew = 5 * time.Minute
)
