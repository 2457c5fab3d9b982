// The GET endpoints of single resources.

package sandbox

import (
	"encoding/json"
	"time"
)

func (s *Server) account(r *request) ([]byte, *refusal) {
	sp := r.key.space
	data, _ := json.Marshal(map[string]any{"account_id": sp.accountID, "email": sp.email, "email_verified": true,
		"status": sp.standing.status, "created_at": "2026-01-01T00:00:00Z"})
	return data, nil
}

func (s *Server) wallet(r *request) ([]byte, *refusal) {
	sp := r.key.space
	balance := *sp.past.asOf(r.asOf, &sp.balance)
	data, _ := json.Marshal(map[string]any{"environment": sp.env, "currency": sp.currency, "balance_cents": balance,
		"balance": decimal(balance), "frozen_cents": sp.frozen, "cash_value": sp.env == envProduction})
	return data, nil
}

func (s *Server) order(r *request) ([]byte, *refusal) {
	o := s.st.orders[r.rt.id]
	if o != nil {
		o = o.past.asOf(r.asOf, o)
	}
	if o == nil || o.space != r.key.space {
		return nil, refuse("order_not_found", "The order is unknown.")
	}
	return s.orderDetail(o), nil
}

func (s *Server) proxy(r *request) ([]byte, *refusal) {
	p := s.st.proxies[r.rt.id]
	if p != nil {
		p = p.past.asOf(r.asOf, p)
	}
	if p == nil || p.space != r.key.space {
		return nil, refuse("proxy_not_found", "The proxy is unknown.")
	}
	return p.item(), nil
}

// status is the order's state as text. The texts are assumed; clients decide from
// delivery and refund.
func (o *order) status() string {
	return [...]string{"paid", "procuring", "completed", "refunded"}[o.stage]
}

func (o *order) paymentStatus() string {
	if o.stage == stageRefunded {
		return "refunded"
	}
	return "paid"
}

func (o *order) summary() []any {
	return []any{"order_no", o.no, "status", o.status(), "payment_status", o.paymentStatus(), "payment_method", "wallet", "currency", o.space.currency,
		"subtotal_cents", o.total, "total_cents", o.total, "total", decimal(o.total), "created_at", o.created}
}

// orderDetail renders an order with its proxies once they are deliverable.
func (s *Server) orderDetail(o *order) []byte {
	done := o.stage == stageCompleted
	var poll, refund any
	switch o.stage {
	case stagePaid, stageProcuring:
		poll = s.opts.PollAfterSeconds
	case stageRefunded:
		refund = object("status", "completed", "destination", "wallet", "amount_cents", o.total, "currency", o.space.currency, "refunded_at", o.refundedAt)
	case stageCompleted:
	}
	proxies := make([]written, len(o.proxies))
	for i, p := range o.proxies {
		proxies[i] = p.item()
	}
	return object(append(o.summary(), "items", o.lines,
		"delivery", object("expected_count", o.quantity, "delivered_count", o.delivered, "complete", done, "available", done),
		"poll_after_seconds", poll, "refund", refund, "proxies", array(proxies))...)
}

// host is a made-up name that resolves nowhere.
func (p *proxy) host() string { return p.id + ".proxy.invalid" }

// item renders a proxy with made-up credentials, so that a test for leaks
// has something to look for.
func (p *proxy) item() written {
	host, user, password := p.host(), "user-"+p.id, "pass-"+p.id+"-secret"
	return object("proxy_id", p.id, "status", "active", "host", host, "port", int64(1080), "protocol", p.offer.Protocol,
		"username", user, "password", password, "connection", host+":1080:"+user+":"+password,
		"socks5_uri", "socks5://"+user+":"+password+"@"+host+":1080", "ip_type", p.offer.IPType, "country_code", p.offer.CountryCode,
		"region", p.offer.Region, "line_name", p.offer.LineName, "starts_at", p.starts, "expires_at", p.expires)
}

// pageTokenLife is how long a page token is good (assumed).
const pageTokenLife = 15 * time.Minute
