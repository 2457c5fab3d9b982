// Reading orders, and waiting until one is finished.

package upstream

import (
	"context"
	"iter"
	"time"
)

// Order reads an order's detail (API: GET /api/v1/orders/{order_no}, scope
// orders:read). An unknown or foreign number is CodeOrderNotFound.
func (c *Client) Order(ctx context.Context, orderNo string) (Order, error) {
	path, err := itemPath(ordersPath, orderNo)
	if err != nil {
		return Order{}, err
	}
	return getOne(ctx, c, path, func(o *object, e *Envelope) Order {
		order := decodeOrder(o)
		order.TraceID, order.ServerTime = e.TraceID, e.Timestamp
		return order
	})
}

// OrdersPage reads one page of order summaries (API: GET /api/v1/orders). The
// key of the list is not given: it is the array whose entries carry order_no.
func (c *Client) OrdersPage(ctx context.Context, r PageRequest) (Page[OrderSummary], error) {
	return getPage(ctx, c, list{path: ordersPath, entry: "order_no", members: orderMembers}, nil, r, decodeOrderSummary)
}

// Orders goes through all order summaries, page by page; see [Client.Offers].
func (c *Client) Orders(ctx context.Context, pageSize int) iter.Seq2[OrderSummary, error] {
	return walk(pageSize, func(r PageRequest) (Page[OrderSummary], error) { return c.OrdersPage(ctx, r) })
}

// AwaitOrder reads an order until there is nothing more to wait for, and gives
// its last detail (API: Order status, observed rules 1 and 2): it reads again only
// while the status is paid or procuring and poll_after_seconds is an integer, and
// only after that many seconds, at least one. It waits as long as ctx lets it.
//
// The order that comes back need not be delivered: read Delivery and Refund. An
// error ends the waiting, with the last detail that was read; ask again with the
// same number.
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
		if err := c.wait(ctx, time.Duration(seconds)*time.Second); err != nil {
			return last, err
		}
	}
}

// maxPollWait keeps an absurd poll_after_seconds within what a timer can hold.
const maxPollWait = 365 * 24 * time.Hour

// InProgress reports whether the order is to be read again after
// PollAfterSeconds: its status is paid or procuring, and the provider said when.
// Terminal statuses are not given by the document, so nothing else is concluded.
func (o *Order) InProgress() bool {
	return o.PollAfterSeconds != nil && (o.Status == OrderPaid || o.Status == OrderProcuring)
}
