package sandbox

import (
	"container/heap"
	"net/http"
	"slices"
	"strconv"
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

type orderBody struct {
	DurationDays int64       `json:"duration_days"`
	Items        []orderLine `json:"items"`
	OfferCode    *string     `json:"offer_code"`
	Quantity     *int64      `json:"quantity"`
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
	var in orderBody
	if err := decodeStrict(r.body, &in); err != nil {
		return refused(s.invalid("body", err.Error()))
	}
	if out, ok := s.normalize(&in); !ok {
		return refused(out)
	}
	quantities, out, ok := s.checkLines(r.env, in)
	if !ok {
		return refused(out)
	}
	o := &order{appID: r.key.appID, key: r.idempotencyKey(), scenario: scenario, space: r.key.space, days: in.DurationDays, lines: in.Items}
	for code, quantity := range quantities {
		o.total += price(s.st.byCode[code], quantity, in.DurationDays)
		o.quantity += quantity
	}
	if o.space.balance < o.total {
		return refused(s.refuse("insufficient_wallet_balance", "The wallet is too low."))
	}
	return s.accept(o, quantities)
}

// scenario reads the sandbox header; production refuses it with validation_error
// (assumed), and production orders take the course of "success" (assumed).
func (s *Server) scenario(r *request) (string, reply, bool) {
	values := r.http.Header.Values("X-Service-Sandbox-Scenario")
	if len(values) == 0 {
		if r.env == envProduction {
			return "success", reply{}, true
		}
		return "", reply{}, true
	}
	if r.env == envProduction {
		return "", s.invalid("X-Service-Sandbox-Scenario", "is refused in production"), false
	}
	switch v := values[0]; v {
	case "success", "delayed", "partial", "rejected":
		return v, reply{}, true
	}
	return "", s.invalid("X-Service-Sandbox-Scenario", "is not a known scenario"), false
}

// normalize turns the legacy body into items and checks the shape.
func (s *Server) normalize(in *orderBody) (reply, bool) {
	legacy := in.OfferCode != nil || in.Quantity != nil
	switch {
	case legacy && in.Items != nil:
		return s.invalid("items", "must not appear together with offer_code or quantity"), false
	case legacy && (in.OfferCode == nil || in.Quantity == nil):
		return s.invalid("offer_code", "offer_code and quantity belong together"), false
	case legacy:
		in.Items = []orderLine{{OfferCode: *in.OfferCode, Quantity: *in.Quantity}}
	}
	switch {
	case len(in.Items) == 0 || len(in.Items) > maxOrderLines:
		return s.invalid("items", "must have 1 to 50 lines"), false
	case in.DurationDays <= 0 || in.DurationDays%30 != 0:
		return s.invalid("duration_days", "must be a positive multiple of 30"), false
	}
	return reply{}, true
}

func (s *Server) checkLines(env string, in orderBody) (map[string]int64, reply, bool) {
	quantities, sum := map[string]int64{}, int64(0)
	for i, line := range in.Items {
		if line.Quantity <= 0 || line.Quantity > maxOrderQuantity {
			return nil, s.invalid("items."+strconv.Itoa(i)+".quantity", "must be 1 to 2000"), false
		}
		quantities[line.OfferCode] += line.Quantity
		sum += line.Quantity
	}
	if sum > maxOrderQuantity {
		return nil, s.invalid("items", "the quantities sum to more than 2000"), false
	}
	for i, line := range in.Items {
		offer := s.st.byCode[line.OfferCode]
		if offer == nil || s.st.stock[env+"/"+line.OfferCode] < quantities[line.OfferCode] {
			return nil, s.refuse("offer_not_found", "An offer is unknown or no longer available."), false
		}
		field := "items." + strconv.Itoa(i)
		if !slices.Contains(offer.DurationDays, in.DurationDays) {
			return nil, s.invalid("duration_days", "is not supported by "+line.OfferCode), false
		}
		if offer.MaxQuantity > 0 && quantities[line.OfferCode] > offer.MaxQuantity {
			return nil, s.invalid(field+".quantity", "is over the offer's max_quantity"), false
		}
	}
	if field, message := checkCIDRs(in.Items, s.st.byCode); field != "" {
		return nil, s.invalid(field, message), false
	}
	return quantities, reply{}, true
}

func checkCIDRs(lines []orderLine, offers map[string]*FixtureOffer) (field, message string) {
	random, chosen := map[string]bool{}, map[string]map[string]bool{}
	for i, line := range lines {
		field := "items." + strconv.Itoa(i) + ".cidrs"
		if len(line.CIDRs) == 0 {
			random[line.OfferCode] = true
		}
		for _, c := range line.CIDRs {
			if chosen[line.OfferCode] == nil {
				chosen[line.OfferCode] = map[string]bool{}
			}
			if chosen[line.OfferCode][c] {
				return field, "the same CIDR stands twice"
			}
			if !slices.Contains(offers[line.OfferCode].CIDRs, c) {
				return field, "is not one of the offer's CIDRs"
			}
			chosen[line.OfferCode][c] = true
		}
		if random[line.OfferCode] && chosen[line.OfferCode] != nil {
			return field, "random allocation and chosen CIDRs must not be mixed for one offer"
		}
	}
	return "", ""
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

// advance lets the sandbox's clock do what it has come to; called with the lock
// held at the start of every request.
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
	switch {
	case o.stage == stagePaid:
		o.stage = stageProcuring
		if o.scenario == "partial" {
			o.delivered = o.quantity / 2
		}
		o.due = o.due.Add(s.firstDelay(o.scenario))
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
			s.st.addProxy(p)
			o.proxies = append(o.proxies, p)
			ch.saveProxy(p)
		}
	}
}
