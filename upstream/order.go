// Order requests, order details, and waiting for an order.

package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
)

// The order statuses that the document names (API: Order status). It does not name the
// final ones. Use Delivery and Refund to decide.
const (
	OrderPaid      = "paid"
	OrderProcuring = "procuring"
)

// The sandbox's scenarios (API: Sandbox scenario header). Without one the order is
// delivered at once.
const (
	ScenarioSuccess  = "success"
	ScenarioDelayed  = "delayed"
	ScenarioPartial  = "partial"
	ScenarioRejected = "rejected"
)

// OrderRequest is the multi-region body of an order (API: POST /api/v1/orders).
type OrderRequest struct {
	DurationDays int64 // positive multiple of 30, supported by every offer
	Items        []OrderItem
	CIDRField    string // the API's name for an item's CIDRs; not in the document
	Scenario     string // CreateOrder's sandbox scenario header, such as ScenarioDelayed; not in the body
}

// OrderItem is one line of an order.
type OrderItem struct {
	OfferCode string
	Quantity  int64
	CIDRs     []string // sent as OrderRequest.CIDRField
}

// OrderBody encodes an order once. Every attempt stores, signs and sends these bytes. It
// refuses CIDRs without a CIDRField, and orders beyond the API's limits. An order has 1 to
// 50 lines, at most 2000 proxies, quantities of at least one and a positive multiple of 30
// days.
func OrderBody(r OrderRequest) ([]byte, error) {
	if err := checkOrder(r); err != nil {
		return nil, fmt.Errorf("order: %w", err)
	}
	items := make([]map[string]any, 0, len(r.Items)) // map keys are encoded in sorted order
	for _, it := range r.Items {
		line := map[string]any{"offer_code": it.OfferCode, "quantity": it.Quantity}
		if len(it.CIDRs) > 0 {
			line[r.CIDRField] = it.CIDRs
		}
		items = append(items, line)
	}
	return json.Marshal(struct {
		DurationDays int64            `json:"duration_days"`
		Items        []map[string]any `json:"items"`
	}{r.DurationDays, items})
}

func checkOrder(r OrderRequest) error {
	if r.DurationDays <= 0 || r.DurationDays%DayStep != 0 {
		return errors.New("duration_days must be a positive multiple of 30")
	}
	if len(r.Items) == 0 || len(r.Items) > MaxOrderLines {
		return errors.New("items must have 1 to 50 lines")
	}
	var sum int64
	for _, it := range r.Items {
		switch {
		case it.OfferCode == "" || it.Quantity <= 0 || it.Quantity > MaxQuantity:
			return errors.New("each item needs an offer_code and a quantity of 1 to 2000")
		case len(it.CIDRs) > 0 && (r.CIDRField == "" || r.CIDRField == "offer_code" || r.CIDRField == "quantity"):
			return errors.New("cidrs need the API's name of their field, which the document does not give")
		}
		sum += it.Quantity
	}
	if sum > MaxQuantity {
		return errors.New("the quantities sum to more than 2000")
	}
	return nil
}

// CreatedOrder holds the fields that the document promises for a created order. Totals,
// delivery and refund come from the order's detail (trap 21).
type CreatedOrder struct {
	OrderNo          string // opaque; never empty
	PollAfterSeconds *int64 // nil: null, absent, or malformed (see Reply.Malformed)
	Received
}

func decodeCreatedOrder(o *object, e *Envelope) *CreatedOrder {
	out := &CreatedOrder{OrderNo: o.id("order_no"), Received: e.received()}
	if o.err != nil {
		return nil
	}
	out.PollAfterSeconds = o.optionalInt("poll_after_seconds")
	return out // keep the order number if the poll time is bad
}

// OrderSummary is an entry of the order list, and the beginning of an order's detail. The
// API document does not give the list's fields. Absent ones are zero or nil.
type OrderSummary struct {
	OrderNo, Status, PaymentStatus, Currency string
	SubtotalCents, TotalCents                *int64 // cents
	CreatedAt                                time.Time
}

func decodeOrderSummary(o *object) OrderSummary {
	return OrderSummary{
		OrderNo: o.id("order_no"), Status: o.loose("status"), PaymentStatus: o.loose("payment_status"), Currency: o.str("currency"),
		SubtotalCents: o.optionalInt("subtotal_cents"), TotalCents: o.optionalInt("total_cents"), CreatedAt: o.instant("created_at"),
	}
}

// Order is an order's detail (API: Order) without payment method and credentials.
type Order struct {
	OrderSummary

	Total string // decimal string, main unit; "" if absent
	// Items are the lines without CIDRs, if the provider echoes them as the request had
	// them. Otherwise nil: the document gives no structure.
	Items            []OrderItem
	Delivery         Delivery
	PollAfterSeconds *int64  // nil (null or absent): stop polling
	Refund           *Refund // nil: null or absent
	Proxies          []Proxy // nil unless Delivery.Available (API: Order, last rule)
	// Unusable holds the delivered proxies that cannot be decoded. Proxies holds the
	// others.
	Unusable []Unusable
	Received
}

// Delivery is an order's delivery progress. Present is true if all four fields were given.
type Delivery struct {
	ExpectedCount, DeliveredCount int64
	Complete, Available           bool
	Present                       bool
}

// Refund is an order's refund object, the only proof of a refund (trap 19).
type Refund struct {
	Status, Destination string
	AmountCents         *int64 // cents; nil if absent or null
	Currency            string
	RefundedAt          *time.Time // nil if absent, null or unreadable
}

func decodeOrder(o *object, e *Envelope) Order {
	out := Order{
		OrderSummary: decodeOrderSummary(o), PollAfterSeconds: o.optionalInt("poll_after_seconds"),
		Total: o.decimal("total"), Items: shownItems(o), Received: e.received(),
	}
	o.within("delivery", func(d *object) {
		out.Delivery = Delivery{
			ExpectedCount: d.integer("expected_count"), DeliveredCount: d.integer("delivered_count"),
			Complete: d.boolean("complete"), Available: d.boolean("available"),
			Present: len(d.missing("expected_count", "delivered_count", "complete", "available")) == 0,
		}
	})
	o.within("refund", func(r *object) {
		out.Refund = &Refund{Status: r.loose("status"), Destination: r.loose("destination"), AmountCents: r.optionalInt("amount_cents"),
			Currency: r.str("currency"), RefundedAt: r.looseTime("refunded_at")} // an unreadable time proves no refund
	})
	if out.Delivery.Present && out.Delivery.Available {
		out.Proxies, out.Unusable = decodeEach(o, "proxies", "proxy_id", decodeProxy)
	}
	return out
}

// shownItems decodes the lines of an order in the request's format. The document promises
// no format, and another one is not an error.
func shownItems(o *object) (items []OrderItem) {
	lines, _ := elements(o.raw("items"))
	for _, line := range lines {
		entry, err := parseObject("items", line)
		if err != nil {
			return nil
		}
		item := OrderItem{OfferCode: entry.str("offer_code"), Quantity: entry.integer("quantity")}
		if entry.err != nil || item.OfferCode == "" || item.Quantity < 1 {
			return nil
		}
		items = append(items, item)
	}
	return items
}

// Order reads an order's detail (API: GET /api/v1/orders/{order_no}, scope
// orders:read). An unknown or foreign number is CodeOrderNotFound.
func (c *Client) Order(ctx context.Context, orderNo string) (Order, error) {
	path, err := itemPath(ordersPath, orderNo)
	if err != nil {
		return Order{}, err
	}
	return getOne(ctx, c, path, "", decodeOrder)
}

// OrdersPage reads one page of order summaries (API: GET /api/v1/orders). The API document
// does not name the list. It is the array whose entries have order_no.
func (c *Client) OrdersPage(ctx context.Context, r PageRequest) (Page[OrderSummary], error) {
	return getPage(ctx, c, list{path: ordersPath, entry: "order_no", members: orderMembers}, nil, r, decodeOrderSummary)
}

// Orders iterates over all order summaries. See [Client.Offers].
func (c *Client) Orders(ctx context.Context, pageSize int) iter.Seq2[OrderSummary, error] {
	return walk(pageSize, func(r PageRequest) (Page[OrderSummary], error) { return c.OrdersPage(ctx, r) })
}

// AwaitOrder polls an order until polling ends and returns its last detail (API: Order
// status, observed rules 1 and 2). It polls while the status is paid or procuring and
// poll_after_seconds is an integer. It waits that many seconds between polls, at least
// one. ctx bounds the total wait.
//
// The returned order may not be delivered: check Delivery and Refund. An error ends the
// wait and comes with the last detail read. The caller may call again with the same
// number.
func (c *Client) AwaitOrder(ctx context.Context, orderNo string) (Order, error) {
	var last Order
	for {
		o, err := c.Order(ctx, orderNo)
		if err != nil {
			return last, err
		}
		if last = o; !o.InProgress() {
			return o, nil
		}
		seconds := min(max(*o.PollAfterSeconds, 1), int64(maxPollWait/time.Second))
		if err := c.cfg.Wait(ctx, time.Duration(seconds)*time.Second); err != nil {
			return last, err
		}
	}
}

// maxPollWait limits poll_after_seconds to a duration that a timer can hold.
const maxPollWait = 365 * 24 * time.Hour

// InProgress reports whether to poll the order again after PollAfterSeconds. The status
// must be paid or procuring, and PollAfterSeconds given. The document names no final
// statuses, and InProgress concludes nothing else.
func (o *Order) InProgress() bool {
	return o.PollAfterSeconds != nil && (o.Status == OrderPaid || o.Status == OrderProcuring)
}
