package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// WriteKind is one of the two write requests in the API.
type WriteKind int

// The two write requests (API: Endpoints).
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
	Key       string    // the Idempotency-Key: 1 to 255 bytes of printable ASCII, without a space at the ends
	Body      []byte    // signed and sent unchanged
	Timestamp time.Time // the X-API-Timestamp; zero means the current time
	Scenario  string    // the X-Service-Sandbox-Scenario, such as ScenarioDelayed; only for orders in a sandbox
}

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

// Reply contains the known facts about one POST request. It makes no decisions.
type Reply struct {
	Sent       bool   // false only if no byte of the request was written
	Failure    string // the transport or decoding failure, without secrets; "" if the envelope was read
	HTTPStatus int    // 0 if there was no response header
	Envelope   bool   // whether the body was a valid envelope
	Success    bool
	Code       Code
	Message    string
	TraceID    string
	ServerTime time.Time // the envelope's timestamp in UTC; zero if absent
	RetryAfter RetryAfter
	Order      *CreatedOrder // nil unless success is true and the order number could be read
	Renewal    *Renewal      // nil unless success is true, or the data of a failure has a status
	Fields     string        // the messages in data.errors with their fields; "" if there are none
	Malformed  string        // why the data in the envelope could not be decoded completely
}

// Post sends one write request once and returns the known facts about it. It never returns an
// error. If the write is invalid, Reply.Sent is false and Reply.Failure gives the reason.
func (c *Client) Post(ctx context.Context, w Write) Reply {
	reply, _ := c.post(ctx, w)
	return reply
}

// post is like Post, but also returns the failure as an error.
func (c *Client) post(ctx context.Context, w Write) (Reply, error) {
	in, err := w.call(c.environment)
	if err != nil {
		return Reply{Failure: err.Error()}, fmt.Errorf("upstream: %w", err)
	}
	a := c.exchange(ctx, in)
	r := Reply{Sent: a.sent, HTTPStatus: a.status, RetryAfter: a.retryAfter, Failure: a.failure}
	if e := &a.envelope; a.failure == "" {
		r.Envelope, r.Success, r.Code, r.Message = true, e.Success, e.Code, e.Message
		r.TraceID, r.ServerTime, r.Fields = e.TraceID, e.Timestamp, fieldMessages(e.fieldErrors())
		if err := r.decode(w.Kind, e); err != nil {
			r.Malformed = err.Error()
			a.malformed(err)
		}
	}
	return r, a.error()
}

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

// CreateOrder sends an order once. Programs that record their requests use Post instead.
// After an *Error or a *TransportError, the order may exist, unless TransportError.Sent is
// false. Retry with the same key and request. Any other error means that nothing was sent.
func (c *Client) CreateOrder(ctx context.Context, key string, r OrderRequest) (CreatedOrder, error) {
	body, err := OrderBody(r)
	if err != nil {
		return CreatedOrder{}, err
	}
	reply, err := c.post(ctx, Write{Kind: WriteOrder, Key: key, Body: body, Scenario: r.Scenario})
	if reply.Order == nil {
		return CreatedOrder{}, err
	}
	return *reply.Order, err
}

// Renew sends a renewal once. If all proxies failed (HTTP 422), it returns the Renewal and an
// *Error with CodeOperationFailed. A nil error does not mean that every proxy was renewed, so
// the caller checks the lists (API: renew, rule 1).
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
	DayStep       = 30   // durations are multiples of 30 days
	MaxRenewDays  = 1095 // the longest duration of one renewal
	MaxOrderLines = 50
	MaxQuantity   = 2000 // the largest quantity in an order and in an item
	// MaxSkew is the largest difference between a request's timestamp and the provider's time
	// that the provider accepts.
	MaxSkew = 5 * time.Minute
)

// RenewRequest is the body of a renewal (API: POST /api/v1/proxies/renew).
type RenewRequest struct {
	ProxyIDs     []string `json:"proxy_ids"`
	DurationDays int64    `json:"duration_days"` // a positive multiple of 30, at most 1095
}

// RenewBody returns the encoded body of a renewal. A caller encodes a renewal once, and stores,
// signs and sends these bytes in every attempt. RenewBody returns an error for an invalid
// duration, and for proxy ids that are missing, empty or duplicate.
func RenewBody(r RenewRequest) ([]byte, error) {
	if r.DurationDays <= 0 || r.DurationDays%DayStep != 0 || r.DurationDays > MaxRenewDays {
		return nil, errors.New("renewal: duration_days must be a positive multiple of 30, at most 1095")
	}
	if len(r.ProxyIDs) == 0 {
		return nil, errors.New("renewal: proxy_ids is empty")
	}
	seen := make(map[string]struct{}, len(r.ProxyIDs))
	for _, id := range r.ProxyIDs {
		if _, twice := seen[id]; twice || id == "" {
			return nil, errors.New("renewal: a proxy id is empty or appears twice")
		}
		seen[id] = struct{}{}
	}
	return json.Marshal(r)
}

// The statuses of a renewal's result (API: Renewal status). The provider may send others. Do
// not retry automatically after an unknown status.
const (
	RenewalCompleted    = "completed"
	RenewalPartial      = "partial"       // the provider refunds the failed proxies
	RenewalManualReview = "manual_review" // some results are pending: do not submit the renewal again
	RenewalFailed       = "failed"        // all proxies failed; the response has HTTP status 422
)

// The statuses of one line item (API: Renewal result). The money for an unresolved line item
// counts neither as spent nor as refunded (trap 18).
const (
	LineSucceeded  = "succeeded"
	LineFailed     = "failed"
	LineUnresolved = "unresolved"
)

// Renewal is the result of a renewal (API: Renewal result). Amounts are in cents. ChargedCents
// excludes refunds. Missing lists the documented fields that were absent or null. The zero
// values of these fields have no meaning.
type Renewal struct {
	Status                                  string
	TotalCents, ChargedCents, RefundedCents int64
	Successful, Failed, Unresolved          []string
	LineItems                               []RenewalLine
	Unusable                                []Unusable // line items that cannot be decoded; they are not in LineItems
	Missing                                 []string
}

// RenewalLine is one line item. Missing has the meaning that [Renewal] describes.
type RenewalLine struct {
	ProxyID, Status                          string
	DurationDays                             int64
	AmountCents, ChargedCents, RefundedCents int64
	Amount                                   string // a decimal string in the currency's main unit; "" if absent
	Missing                                  []string
}

func decodeRenewal(o *object, _ *Envelope) *Renewal {
	r := &Renewal{
		Status: o.str("status"), TotalCents: o.integer("total_cents"), ChargedCents: o.integer("charged_cents"),
		RefundedCents: o.integer("refunded_cents"), Successful: arrayOf[string](o, "successful_proxy_ids", "strings"),
		Failed: arrayOf[string](o, "failed_proxy_ids", "strings"), Unresolved: arrayOf[string](o, "unresolved_proxy_ids", "strings"),
		Missing: o.missing("status", "total_cents", "charged_cents", "refunded_cents",
			"successful_proxy_ids", "failed_proxy_ids", "unresolved_proxy_ids", "line_items"),
	}
	r.LineItems, r.Unusable = decodeEach(o, "line_items", "proxy_id", decodeRenewalLine)
	if o.err != nil {
		return nil
	}
	return r
}

func decodeRenewalLine(o *object) RenewalLine {
	days, _ := as[int64](o.raw("duration_days")) // an unreadable value is no error, because no amount depends on it
	return RenewalLine{
		ProxyID: o.str("proxy_id"), Status: o.str("status"), DurationDays: days,
		AmountCents: o.integer("amount_cents"), ChargedCents: o.integer("charged_cents"), RefundedCents: o.integer("refunded_cents"),
		Amount:  o.decimal("amount"),
		Missing: o.missing("proxy_id", "status", "duration_days", "amount_cents", "charged_cents", "refunded_cents"),
	}
}
