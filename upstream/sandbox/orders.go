// Orders: their creation, scenarios and course.

package sandbox

import (
	"container/heap"
	"net/http"
	"time"
)

// order is one order. stage counts what has happened to it; due is when the next
// thing happens.
type order struct {
	no, appID, key, scenario string
	space                    *space
	index                    int
	created, due             time.Time
	days, total, quantity    int64
	lines                    []orderLine
	delivered                int64
	stage                    orderStage
	refundedAt               time.Time
	proxies                  []*proxy
	past                     past[orderWas]
}

type orderStage uint8

const (
	stagePaid orderStage = iota
	stageProcuring
	stageCompleted
	stageRefunded
)

type orderLine struct {
	OfferCode string   `json:"offer_code"`
	Quantity  int64    `json:"quantity"`
	CIDRs     []string `json:"cidrs,omitempty"` // the name is assumed
}

const (
	maxOrderLines    = 50
	maxOrderQuantity = 2000
)

func (s *Server) createOrder(r *request) outcome {
	scenario, out, ok := s.scenario(r)
	if !ok {
		return refused(out)
	}
	in, bad := readOrderBody(r.body)
	if bad != nil {
		return refused(s.invalid(bad.field, bad.message))
	}
	quantities, out, ok := s.checkLines(r.env, in)
	if !ok {
		return refused(out)
	}
	o := &order{appID: r.key.appID, key: r.idempotencyKey(), scenario: scenario, space: r.key.space, days: in.days, lines: in.lines}
	for _, quantity := range quantities {
		o.quantity += quantity
	}
	if o.total = o.space.total(s.st, quantities, in.days); o.space.free() < o.total {
		return refused(s.refuse("insufficient_wallet_balance", "The wallet is too low."))
	}
	return s.accept(o, quantities)
}

const scenarioHeader = "X-Service-Sandbox-Scenario"

// scenario reads the sandbox header. Production, which refuses the header before
// (Server.perform), lets its orders take the course of "success" (assumed).
func (s *Server) scenario(r *request) (string, reply, bool) {
	if r.env == envProduction {
		return "success", reply{}, true
	}
	values := r.http.Header[scenarioHeader]
	if len(values) == 0 {
		return "", reply{}, true
	}
	switch v := values[0]; v {
	case "success", "delayed", "partial", "rejected":
		if len(values) == 1 {
			return v, reply{}, true
		}
	}
	return "", s.invalid(scenarioHeader, "must be one of success, delayed, partial, rejected"), false
}

// accept charges the order and starts its course.
func (s *Server) accept(o *order, quantities map[string]int64) outcome {
	ch, now := s.newChange(), s.now()
	o.no, o.created, o.index = s.st.nextID("ord_"), now, len(o.space.orders)
	for code, quantity := range quantities {
		id := o.space.env + "/" + code
		s.st.stock[id] -= quantity
		ch.put("stock", id, s.st.stock[id])
	}
	s.money(ch, o.space, Charge{AppID: o.appID, IdempotencyKey: o.key, Reason: "order", OrderNo: o.no}, -o.total)
	ch.saveWallet(o.space)
	s.orderAppears(o)
	o.space.orders = append(o.space.orders, o)
	s.st.orders[o.no] = o
	if o.scenario == "" {
		s.deliver(o, now, ch)
	} else {
		o.due = now.Add(s.firstDelay(o.scenario))
		heap.Push(&s.st.pending, o)
	}
	ch.saveOrder(o)
	return outcome{reply: s.envelope(http.StatusCreated, "ok", "ok", s.orderDetail(o)), executed: true, change: ch}
}

func (s *Server) firstDelay(scenario string) time.Duration {
	if scenario == "delayed" {
		return s.opts.DelayedDelay / 2
	}
	return s.opts.AsyncDelay / 2
}

// secondDelay is from progress to the end. Partial progress is shown for two
// polls at least, so that a client that obeys poll_after_seconds sees it.
func (s *Server) secondDelay(scenario string) time.Duration {
	if scenario == "partial" {
		return max(s.firstDelay(scenario), 2*time.Duration(s.opts.PollAfterSeconds)*time.Second)
	}
	return s.firstDelay(scenario)
}

// advance carries out the steps that have come due by the sandbox's clock; called with
// the lock held at the start of every request.
func (s *Server) advance() {
	now := s.now()
	for len(s.st.pending) > 0 && !s.st.pending[0].due.After(now) {
		o, _ := heap.Pop(&s.st.pending).(*order)
		ch := s.newChange()
		s.step(o, ch)
		ch.saveOrder(o)
		s.submit(ch)
	}
}

func (s *Server) step(o *order, ch *change) {
	s.orderChanges(o)
	switch {
	case o.stage == stagePaid:
		o.stage = stageProcuring
		if o.scenario == "partial" {
			o.delivered = o.quantity / 2
		}
		o.due = o.due.Add(s.secondDelay(o.scenario))
		heap.Push(&s.st.pending, o)
	case o.scenario == "rejected":
		s.reject(o, ch)
	default:
		s.deliver(o, o.due, ch)
	}
}

func (s *Server) reject(o *order, ch *change) {
	o.stage, o.refundedAt = stageRefunded, o.due
	s.money(ch, o.space, Charge{AppID: o.appID, IdempotencyKey: o.key, Reason: "order", OrderNo: o.no}, o.total)
	for _, line := range o.lines {
		id := o.space.env + "/" + line.OfferCode
		s.st.stock[id] += line.Quantity
		ch.put("stock", id, s.st.stock[id])
	}
	ch.saveWallet(o.space)
}

func (s *Server) deliver(o *order, at time.Time, ch *change) {
	o.stage, o.delivered = stageCompleted, o.quantity
	at = at.Truncate(time.Second)
	for _, line := range o.lines {
		for range line.Quantity {
			p := &proxy{id: s.st.nextID("px_"), space: o.space, offer: s.st.byCode[line.OfferCode], orderNo: o.no,
				starts: at, expires: at.AddDate(0, 0, int(o.days))}
			s.proxyAppears(p)
			s.st.addProxy(p)
			o.proxies = append(o.proxies, p)
			ch.saveProxy(p)
		}
	}
}
