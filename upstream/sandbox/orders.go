// Orders: their two request bodies, creation, scenarios and progress.

package sandbox

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// order is one order. Stage is the progress so far, and Due is the time of the next step.
type order struct {
	savedOrder

	space   *space
	proxies []*proxy
	past    past[order]
}

// savedOrder is the part of an order that the database stores.
type savedOrder struct {
	No, AppID, Key, Scenario, Space  string
	Index                            int
	Created, Due, RefundedAt         time.Time
	Days, Total, Quantity, Delivered int64
	Lines                            []orderLine
	Stage                            orderStage
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
	CIDRs     []string `json:"cidrs,omitempty"` // the name of the member is assumed
}

const (
	maxOrderLines    = 50
	maxOrderQuantity = 2000
)

const scenarioHeader = "X-Service-Sandbox-Scenario"

// scenarioOf returns the scenario in the request. Production orders use "success" (assumed).
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

// writes executes orders and renewals, and stores their idempotency records.
type writes struct {
	*world

	quirks *quirks
	reads  *reads
}

func (s *writes) createOrder(r *request, ch *change) (reply, *refusal) {
	scenario, no := scenarioOf(r)
	if no != nil {
		return reply{}, no
	}
	o, quantities, no := s.orderOf(r)
	if no != nil {
		return reply{}, no
	}
	now := s.now()
	o.Scenario = scenario
	o.No, o.Created, o.Index = s.st.nextID("ord_"), now, len(o.space.orders)
	for code, quantity := range quantities {
		s.addStock(o.space, code, -quantity, ch)
	}
	s.money(ch, o.space, Charge{AppID: o.AppID, IdempotencyKey: o.Key, Reason: "order", OrderNo: o.No}, -o.Total)
	ch.saveWallet(o.space)
	keepPast(s.world, &o.past, nil)
	o.space.orders = append(o.space.orders, o)
	s.st.orders[o.No] = o
	if o.Scenario == "" {
		s.deliver(o, now, ch)
	} else {
		o.Due = now.Add(s.delay(o))
		s.st.schedule(o)
	}
	ch.put("order", o.No, o.savedOrder)
	return s.envelope(http.StatusCreated, "ok", "ok", s.reads.orderDetail(o)), nil
}

// delay returns the time until the order's next step. A partial delivery lasts for at least two
// polls, so that a client that obeys poll_after_seconds sees it.
func (s *writes) delay(o *order) time.Duration {
	half := s.opts.AsyncDelay / 2
	switch {
	case o.Scenario == "delayed":
		half = s.opts.DelayedDelay / 2
	case o.Scenario == "partial" && o.Stage == stageProcuring:
		half = max(half, 2*time.Duration(s.opts.PollAfterSeconds)*time.Second)
	}
	return half
}

// advance executes the order steps that are due. It runs before every request. The caller
// holds the lock.
func (s *writes) advance() {
	now := s.now()
	for len(s.st.pending) > 0 && !s.st.pending[0].Due.After(now) {
		o := s.st.pending[0]
		s.st.pending = s.st.pending[1:]
		ch := s.newChange()
		s.step(o, ch)
		ch.put("order", o.No, o.savedOrder)
		s.submit(ch)
	}
}

func (s *writes) step(o *order, ch *change) {
	s.quirks.orderChanges(o)
	switch {
	case o.Stage == stagePaid:
		o.Stage = stageProcuring
		if o.Scenario == "partial" {
			o.Delivered = o.Quantity / 2
		}
		o.Due = o.Due.Add(s.delay(o))
		s.st.schedule(o)
	case o.Scenario == "rejected":
		s.reject(o, ch)
	default:
		s.deliver(o, o.Due, ch)
	}
}

func (s *writes) reject(o *order, ch *change) {
	o.Stage, o.RefundedAt = stageRefunded, o.Due
	s.money(ch, o.space, Charge{AppID: o.AppID, IdempotencyKey: o.Key, Reason: "order", OrderNo: o.No}, o.Total)
	for _, line := range o.Lines {
		s.addStock(o.space, line.OfferCode, line.Quantity, ch)
	}
	ch.saveWallet(o.space)
}

func (s *writes) addStock(sp *space, code string, n int64, ch *change) {
	id := sp.env + "/" + code
	s.st.stock[id] += n
	ch.put("stock", id, s.st.stock[id])
}

func (s *writes) deliver(o *order, at time.Time, ch *change) {
	o.Stage, o.Delivered = stageCompleted, o.Quantity
	at = at.Truncate(time.Second)
	for _, line := range o.Lines {
		for range line.Quantity {
			p := &proxy{savedProxy: savedProxy{ID: s.st.nextID("px_"), OrderNo: o.No, Starts: at, Expires: at.AddDate(0, 0, int(o.Days))},
				space: o.space, offer: s.st.byCode[line.OfferCode]}
			keepPast(s.world, &p.past, nil)
			s.st.addProxy(p)
			o.proxies = append(o.proxies, p)
			ch.put("proxy", p.ID, p.savedProxy)
		}
	}
}

// orderBody is the body of an order request. The legacy body for a single region becomes one
// order line.
type orderBody struct {
	days   int64
	lines  []orderLine
	legacy bool
}

// field returns the path of a field in an order line, as in the request.
func (in *orderBody) field(line int, name string) string {
	if in.legacy {
		return name
	}
	return "items." + strconv.Itoa(line) + "." + name
}

func readOrderBody(body []byte) (orderBody, *refusal) {
	var sent struct {
		DurationDays int64       `json:"duration_days"`
		OfferCode    *string     `json:"offer_code"`
		Quantity     *int64      `json:"quantity"`
		Items        []orderLine `json:"items"`
	}
	no := decodeBody(body, &sent)
	in := orderBody{days: sent.DurationDays, lines: sent.Items}
	switch {
	case no != nil:
		return in, no
	case sent.Items != nil && (sent.OfferCode != nil || sent.Quantity != nil):
		return in, invalid("items", "must not appear together with offer_code or quantity")
	case (sent.OfferCode != nil) != (sent.Quantity != nil):
		missing := map[bool]string{true: "quantity", false: "offer_code"}[sent.OfferCode != nil]
		return in, invalid(missing, "is missing: offer_code and quantity belong together")
	case sent.OfferCode != nil:
		in.lines, in.legacy = []orderLine{{OfferCode: *sent.OfferCode, Quantity: *sent.Quantity}}, true
	case len(in.lines) == 0 || len(in.lines) > maxOrderLines:
		return in, invalid("items", "must have 1 to 50 lines")
	}
	if in.days <= 0 || in.days%30 != 0 {
		return in, invalid("duration_days", "must be a positive multiple of 30")
	}
	return in, nil
}

func (s *writes) orderOf(r *request) (*order, map[string]int64, *refusal) {
	in, no := readOrderBody(r.body)
	if no != nil {
		return nil, nil, no
	}
	quantities, no := s.checkLines(r.env, in)
	if no != nil {
		return nil, nil, no
	}
	sp := r.key.space
	o := &order{savedOrder: savedOrder{AppID: r.key.appID, Key: r.idempotencyKey(), Space: sp.id(), Days: in.days, Lines: in.lines}, space: sp}
	for code, quantity := range quantities {
		o.Quantity += quantity
		o.Total += o.space.price(s.st.byCode[code], quantity, in.days)
	}
	return o, quantities, o.space.affords(o.Total)
}

// checkLines checks quantities, stock, durations and CIDRs. It checks the stock again,
// because an offer reserves nothing.
func (s *writes) checkLines(env string, in orderBody) (map[string]int64, *refusal) {
	quantities, sum := map[string]int64{}, int64(0)
	for i, line := range in.lines {
		if line.OfferCode == "" {
			return nil, invalid(in.field(i, "offer_code"), "is missing")
		}
		if line.Quantity <= 0 || line.Quantity > maxOrderQuantity {
			return nil, invalid(in.field(i, "quantity"), "must be 1 to 2000")
		}
		quantities[line.OfferCode] += line.Quantity
		sum += line.Quantity
	}
	if sum > maxOrderQuantity {
		return nil, invalid("items", "the quantities sum to more than 2000")
	}
	for i, line := range in.lines {
		offer := s.st.byCode[line.OfferCode]
		if offer == nil || s.st.stock[env+"/"+line.OfferCode] < quantities[line.OfferCode] {
			return nil, refuse("offer_not_found", "An offer is unknown or no longer available.")
		}
		if !slices.Contains(offer.DurationDays, in.days) {
			return nil, invalid("duration_days", "is not supported by %s", line.OfferCode)
		}
		if offer.MaxQuantity > 0 && quantities[line.OfferCode] > offer.MaxQuantity {
			return nil, invalid(in.field(i, "quantity"), "is over the offer's max_quantity")
		}
	}
	if i, message := checkCIDRs(in.lines, s.st.byCode); message != "" {
		return nil, invalid(in.field(i, "cidrs"), "%s", message)
	}
	return quantities, nil
}

// checkCIDRs returns the index of the first order line with invalid CIDRs, and the reason.
func checkCIDRs(lines []orderLine, offers map[string]*FixtureOffer) (line int, message string) {
	random, chosen := map[string]bool{}, map[[2]string]bool{}
	choosing := map[string]bool{}
	for i, line := range lines {
		if len(line.CIDRs) == 0 {
			random[line.OfferCode] = true
		}
		for _, c := range line.CIDRs {
			pair := [2]string{line.OfferCode, c}
			if chosen[pair] {
				return i, "the same CIDR appears twice"
			}
			if !slices.Contains(offers[line.OfferCode].CIDRs, c) {
				return i, "is not one of the offer's CIDRs"
			}
			chosen[pair], choosing[line.OfferCode] = true, true
		}
		if random[line.OfferCode] && choosing[line.OfferCode] {
			return i, "random allocation and chosen CIDRs must not be mixed for one offer"
		}
	}
	return 0, ""
}
