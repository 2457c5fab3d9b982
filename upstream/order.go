package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
)

// The order statuses in the API document (API: Order status). The document does not list the
// final statuses. Check Delivery and Refund instead of the status.
const (
	OrderPaid      = "paid"
	OrderProcuring = "procuring"
)

// The scenarios of the provider's sandbox (API: Sandbox scenario header). The sandbox delivers
// an order without a scenario immediately.
const (
	ScenarioSuccess  = "success"
	ScenarioDelayed  = "delayed"
	ScenarioPartial  = "partial"
	ScenarioRejected = "rejected"
)

// OrderRequest describes an order for one or more regions (API: POST /api/v1/orders).
type OrderRequest struct {
	DurationDays int64 // a positive multiple of 30; every offer must support it
	Items        []OrderItem
	CIDRField    string // the JSON name for the CIDRs of an item, which the API document does not give
	Scenario     string // the sandbox scenario header for CreateOrder, such as ScenarioDelayed; not part of the body
}

// OrderItem is one item in an order.
type OrderItem struct {
	OfferCode string
	Quantity  int64
	CIDRs     []string // sent in the member whose name is OrderRequest.CIDRField
}

// OrderBody returns the encoded body of an order. A caller encodes an order once, and
// stores, signs and sends these bytes in every attempt. OrderBody returns an error for CIDRs
// without a CIDRField and for an order beyond the limits of the API. An order has 1 to 50
// items, 1 to 2000 proxies in total, and at least one proxy per item. Its duration is a
// multiple of 30 days. OrderBody does not check repeated offers and CIDRs (API: POST
// /api/v1/orders, rules 2 and 3).
func OrderBody(r OrderRequest) ([]byte, error) {
	if err := checkOrder(r); err != nil {
		return nil, fmt.Errorf("order: %w", err)
	}
	items := make([]map[string]any, 0, len(r.Items)) // maps, because JSON encodes their keys in sorted order
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

// CreatedOrder contains the fields that the API document promises for a created order. The
// order's detail contains totals, delivery and refund (trap 21).
type CreatedOrder struct {
	OrderNo          string // opaque; never empty
	PollAfterSeconds *int64 // nil if absent, null or malformed (see Reply.Malformed)
	Received
}

func decodeCreatedOrder(o *object, e *Envelope) *CreatedOrder {
	out := &CreatedOrder{OrderNo: o.id("order_no"), Received: e.received()}
	if o.err != nil {
		return nil
	}
	out.PollAfterSeconds = o.optionalInt("poll_after_seconds")
	return out // a bad poll time does not discard the order number
}

// OrderSummary is an entry of the order list, and also a part of an order's detail. The API
// document does not list the fields of an entry. An absent field is zero or nil.
type OrderSummary struct {
	OrderNo, Status, PaymentStatus, Currency string
	SubtotalCents, TotalCents                *int64 // nil if absent
	CreatedAt                                time.Time
}

func decodeOrderSummary(o *object) OrderSummary {
	return OrderSummary{
		OrderNo: o.id("order_no"), Status: o.sanitized("status"), PaymentStatus: o.sanitized("payment_status"), Currency: o.str("currency"),
		SubtotalCents: o.optionalInt("subtotal_cents"), TotalCents: o.optionalInt("total_cents"), CreatedAt: o.instant("created_at"),
	}
}

// Order is the detail of an order (API: Order), without the payment method and credentials.
type Order struct {
	OrderSummary

	Total string // a decimal string in the currency's main unit; "" if absent
	// Items are the order's items without CIDRs. The API document does not give the format of
	// items in a reply. Items is nil unless the reply shows them in the format of the request.
	Items            []OrderItem
	Delivery         Delivery
	PollAfterSeconds *int64  // nil if absent or null: stop polling
	Refund           *Refund // nil if absent or null
	Proxies          []Proxy // nil unless Delivery.Present and Delivery.Available (API: Order, last rule)
	// Unusable lists the delivered proxies that cannot be decoded. They are not in Proxies.
	Unusable []Unusable
	Received
}

// Delivery is the delivery progress of an order. Present reports whether the reply contained all
// four values before it.
type Delivery struct {
	ExpectedCount, DeliveredCount int64
	Complete, Available           bool
	Present                       bool
}

// Refund is the refund object of an order. No other field proves a refund (trap 19).
type Refund struct {
	Status, Destination string
	AmountCents         *int64 // nil if absent or null
	Currency            string
	RefundedAt          *time.Time // nil if absent, null or unreadable
}

func decodeOrder(o *object, e *Envelope) Order {
	out := Order{
		OrderSummary: decodeOrderSummary(o), PollAfterSeconds: o.optionalInt("poll_after_seconds"),
		Total: o.decimal("total"), Items: echoedItems(o), Received: e.received(),
	}
	o.within("delivery", func(d *object) {
		out.Delivery = Delivery{
			ExpectedCount: d.integer("expected_count"), DeliveredCount: d.integer("delivered_count"),
			Complete: d.boolean("complete"), Available: d.boolean("available"),
			Present: len(d.missing("expected_count", "delivered_count", "complete", "available")) == 0,
		}
	})
	o.within("refund", func(r *object) {
		out.Refund = &Refund{Status: r.sanitized("status"), Destination: r.sanitized("destination"), AmountCents: r.optionalInt("amount_cents"),
			Currency: r.str("currency"), RefundedAt: r.lenientTime("refunded_at")} // an unreadable time does not make the refund unreadable
	})
	if out.Delivery.Present && out.Delivery.Available {
		out.Proxies, out.Unusable = decodeEach(o, "proxies", "proxy_id", decodeProxy)
	}
	return out
}

// echoedItems decodes the items of an order in the format of the request. It returns nil for
// another format, because the API document promises none.
func echoedItems(o *object) (items []OrderItem) {
	lines, _ := as[[]value](o.raw("items"))
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

// Order requests the detail of an order (API: GET /api/v1/orders/{order_no}, scope
// orders:read). The error matches CodeOrderNotFound if the order is unknown or belongs to
// another account.
func (c *Client) Order(ctx context.Context, orderNo string) (Order, error) {
	return getItem(ctx, c, ordersPath, orderNo, func(o *object, e *Envelope) Order {
		detail := decodeOrder(o, e)
		if detail.OrderNo != "" && detail.OrderNo != orderNo { // the money of another order must not be booked
			o.fail("order_no", "not the one that was asked for")
		}
		return detail
	})
}

// OrdersPage requests one page of order summaries (API: GET /api/v1/orders). The API document
// does not give the name of the list. The list is the array whose entries have order_no.
func (c *Client) OrdersPage(ctx context.Context, r PageRequest) (Page[OrderSummary], error) {
	return getPage(ctx, c, list{path: ordersPath, entry: "order_no", members: orderMembers}, nil, r, decodeOrderSummary)
}

// Orders iterates over all order summaries, as [Client.Offers] does over offers.
func (c *Client) Orders(ctx context.Context, pageSize int) iter.Seq2[OrderSummary, error] {
	return walk(pageSize, func(r PageRequest) (Page[OrderSummary], error) { return c.OrdersPage(ctx, r) })
}

// AwaitOrder polls an order until polling ends, and returns the order's last detail (API: Order
// status, observed rules 1 and 2). It polls while the status is paid or procuring and
// poll_after_seconds is an integer. Between polls it waits poll_after_seconds, but at least one
// second. ctx limits the total time.
//
// The returned order may not be delivered, so the caller checks Delivery and Refund. An error
// ends the wait. AwaitOrder returns the error with the last detail, or with a zero Order if it
// read none. The caller may call AwaitOrder again for the order.
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

// maxPollWait limits poll_after_seconds, because a time.Duration cannot represent every value.
const maxPollWait = 365 * 24 * time.Hour

// InProgress reports whether to poll the order again after PollAfterSeconds. It returns true if
// the status is paid or procuring and PollAfterSeconds is not nil. False does not mean that the
// order is final, because the API document does not list the final statuses.
func (o *Order) InProgress() bool {
	return o.PollAfterSeconds != nil && (o.Status == OrderPaid || o.Status == OrderProcuring)
}
