// Orders: their creation, scenarios and course.

package sandbox

import (
	"container/heap"
	"net/http"
	"slices"
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
	past                     past[order]
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

func (s *Server) createOrder(r *request, ch *change) (reply, *refusal) {
	scenario, no := scenarioOf(r)
	if no != nil {
		return reply{}, no
	}
	o, quantities, no := s.orderOf(r)
	if no != nil {
		return reply{}, no
	}
	o.scenario = scenario
	return s.accept(o, quantities, ch), nil
}

const scenarioHeader = "X-Service-Sandbox-Scenario"

// scenarioOf reads the sandbox header. Production, which refuses the header before
// (Server.perform), lets its orders take the course of "success" (assumed).
func scenarioOf(r *request) (string, *refusal) {
	values := r.http.Header[scenarioHeader]
	switch {
	case r.env == envProduction:
		return "success", nil
	case len(values) == 0:
		return "", nil
	case len(values) == 1 && slices.Contains([]string{"success", "delayed", "partial", "rejected"}, values[0]):
		return values[0], nil
	}
	return "", invalid(scenarioHeader, "must be one of success, delayed, partial, rejected")
}

// accept charges the order and starts its course.
func (s *Server) accept(o *order, quantities map[string]int64, ch *change) reply {
	now := s.now()
	o.no, o.created, o.index = s.st.nextID("ord_"), now, len(o.space.orders)
	for code, quantity := range quantities {
		id := o.space.env + "/" + code
		s.st.stock[id] -= quantity
		ch.put("stock", id, s.st.stock[id])
	}
	s.money(ch, o.space, Charge{AppID: o.appID, IdempotencyKey: o.key, Reason: "order", OrderNo: o.no}, -o.total)
	ch.saveWallet(o.space)
	keep(s, &o.past, nil)
	o.space.orders = append(o.space.orders, o)
	s.st.orders[o.no] = o
	if o.scenario == "" {
		s.deliver(o, now, ch)
	} else {
		o.due = now.Add(s.firstDelay(o.scenario))
		heap.Push(&s.st.pending, o)
	}
	ch.saveOrder(o)
	return s.envelope(http.StatusCreated, "ok", "ok", s.orderDetail(o))
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
			keep(s, &p.past, nil)
			s.st.addProxy(p)
			o.proxies = append(o.proxies, p)
			ch.saveProxy(p)
		}
	}
}
