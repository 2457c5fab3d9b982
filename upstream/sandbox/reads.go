// The GET endpoints of single resources.

package sandbox

import (
	"encoding/json"
	"strconv"
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
	return p.appendTo(nil), nil
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

func (o *order) appendSummary(b []byte) []byte {
	b = append(b, `{"order_no":`...)
	b = appendString(b, o.no)
	b = appendField(b, "status", o.status())
	b = appendField(b, "payment_status", o.paymentStatus())
	b = appendField(b, "payment_method", "wallet")
	b = appendField(b, "currency", o.space.currency)
	b = appendNumber(b, "subtotal_cents", o.total)
	b = appendNumber(b, "total_cents", o.total)
	b = appendField(b, "total", decimal(o.total))
	return appendTime(b, "created_at", o.created)
}

// orderDetail renders an order with its proxies once they are deliverable.
func (s *Server) orderDetail(o *order) []byte {
	b := o.appendSummary(make([]byte, 0, 768+512*len(o.proxies)))
	items, _ := json.Marshal(o.lines)
	b = append(appendKey(b, "items"), items...)
	done := o.stage == stageCompleted
	b = append(appendKey(b, "delivery"), `{"expected_count":`...)
	b = strconv.AppendInt(b, o.quantity, 10)
	b = appendNumber(b, "delivered_count", o.delivered)
	b = strconv.AppendBool(appendKey(b, "complete"), done)
	b = strconv.AppendBool(appendKey(b, "available"), done)
	b = appendKey(append(b, '}'), "poll_after_seconds")
	if o.stage == stagePaid || o.stage == stageProcuring {
		b = strconv.AppendInt(b, s.opts.PollAfterSeconds, 10)
	} else {
		b = append(b, "null"...)
	}
	b = o.appendRefund(appendKey(b, "refund"))
	b = append(appendKey(b, "proxies"), '[')
	for i, p := range o.proxies {
		if i > 0 {
			b = append(b, ',')
		}
		b = p.appendTo(b)
	}
	return append(b, ']', '}')
}

func (o *order) appendRefund(b []byte) []byte {
	if o.stage != stageRefunded {
		return append(b, "null"...)
	}
	b = append(b, `{"status":"completed","destination":"wallet"`...)
	b = appendNumber(b, "amount_cents", o.total)
	b = appendField(b, "currency", o.space.currency)
	b = appendTime(b, "refunded_at", o.refundedAt)
	return append(b, '}')
}

// host is a made-up name that resolves nowhere.
func (p *proxy) host() string { return p.id + ".proxy.invalid" }

// appendTo renders a proxy with made-up credentials, so that a test for leaks
// has something to look for.
func (p *proxy) appendTo(b []byte) []byte {
	user, password := "user-"+p.id, "pass-"+p.id+"-secret"
	b = append(b, `{"proxy_id":`...)
	b = appendString(b, p.id)
	b = appendField(b, "status", "active")
	b = appendField(b, "host", p.host())
	b = appendNumber(b, "port", 1080)
	b = appendField(b, "protocol", p.offer.Protocol)
	b = appendField(b, "username", user)
	b = appendField(b, "password", password)
	b = appendField(b, "connection", p.host()+":1080:"+user+":"+password)
	b = appendField(b, "socks5_uri", "socks5://"+user+":"+password+"@"+p.host()+":1080")
	b = appendField(b, "ip_type", p.offer.IPType)
	b = appendField(b, "country_code", p.offer.CountryCode)
	b = appendField(b, "region", p.offer.Region)
	b = appendField(b, "line_name", p.offer.LineName)
	b = appendTime(b, "starts_at", p.starts)
	b = appendTime(b, "expires_at", p.expires)
	return append(b, '}')
}

// pageTokenLife is how long a page token is good (assumed).
const pageTokenLife = 15 * time.Minute
