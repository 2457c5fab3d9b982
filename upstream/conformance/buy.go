// The purchases and renewals in a run, and their payment.

package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// purchase describes an order or a renewal. A run makes only the purchases in two tables, so
// its cost is known in advance.
type purchase struct {
	name, scenario string
	quantity, days int64
	times          int64 // how often the server may charge for it; 0 means once
	needsControl   bool
	sandbox        bool // useful only in a sandbox
}

var purchases = []purchase{
	{name: "plain", quantity: 2, days: 30}, {name: "lines", quantity: 2, days: 30}, {name: "legacy", quantity: 1, days: 30},
	{name: "concurrent", quantity: 1, days: 30}, {name: "longer", quantity: 1, days: 60}, {name: "after_refusal", quantity: 1, days: 30},
	{name: "success", scenario: "success", quantity: 1, days: 30, sandbox: true},
	{name: "delayed", scenario: "delayed", quantity: 1, days: 30, sandbox: true},
	{name: "partial", scenario: "partial", quantity: 2, days: 30, sandbox: true},
	{name: "rejected", scenario: "rejected", quantity: 1, days: 30, sandbox: true},
	{name: "kept", quantity: 1, days: 30, times: 3, needsControl: true}, {name: "hanging", quantity: 1, days: 30, needsControl: true},
	{name: "unresolved", quantity: 1, days: 30, needsControl: true},
	{name: "cidrs", quantity: 1, days: 30},
}

// renewals are the renewals in a run. They renew only proxies that the run has bought.
var renewals = []purchase{
	{name: "one", quantity: 1, days: 30}, {name: "two", quantity: 2, days: 30}, {name: "longest", quantity: 1, days: 1080},
	{name: "concurrent", quantity: 1, days: 30},
	{name: "partial", quantity: 2, days: 30, needsControl: true}, {name: "manual_review", quantity: 2, days: 30, needsControl: true},
	{name: "failed", quantity: 2, days: 30, needsControl: true},
}

func findPurchase(table []purchase, name string) purchase {
	return table[slices.IndexFunc(table, func(p purchase) bool { return p.name == name })]
}

// offer is an offer that the run buys. The run prefers the offer that allows the most checks,
// and then the cheapest one.
type offer struct {
	code          string
	cents, base   int64
	days          []int64
	country, cidr string
	second        *offer // another offer for a second order line; nil if no other offer exists
}

func (o offer) estimate(p purchase) int64 {
	if p.name == "lines" && o.second != nil {
		half := purchase{quantity: 1, days: p.days}
		return o.estimate(half) + o.second.estimate(half)
	}
	base := max(o.base, 1)
	return (o.cents*p.quantity*p.days + base - 1) / base * max(p.times, 1)
}

// chosenOffer returns the offer that the run buys, with the highest price for any purchase
// in the tables. The text says why no offer is suitable.
func (s *session) chosenOffer() (offer, string) {
	return try(s, "chosen offer", func() (offer, string) {
		r := s.get("/api/v1/offers", pair{"quantity", "2"}, pair{"duration_days", "30"})
		var can []offer
		for _, o := range things(r.data(), "offers") {
			if got := readOffer(o); got.code != "" && got.cents > 0 && slices.Contains(got.days, 30) {
				can = append(can, got)
			}
		}
		if len(can) == 0 {
			return offer{}, "no offer can be bought: " + r.seen()
		}
		cheapest := func(a, b offer) int { return cmp.Compare(a.cents, b.cents) }
		slices.SortStableFunc(can, func(a, b offer) int {
			return cmp.Or(cmp.Compare(b.countChecks(s.cfg.CIDRField), a.countChecks(s.cfg.CIDRField)), cheapest(a, b))
		})
		if len(can) > 1 {
			second := s.withHighestPrice(slices.MinFunc(can[1:], cheapest))
			can[0].second = &second
		}
		return s.withHighestPrice(can[0]), ""
	})
}

// withHighestPrice returns the offer with the highest unit price that the server quotes for any
// purchase. The price may depend on the quantity and the duration.
func (s *session) withHighestPrice(o offer) offer {
	for _, p := range slices.Concat(purchases, renewals) {
		quantity, days := strconv.FormatInt(p.quantity, 10), strconv.FormatInt(p.days, 10)
		r := memo(s, "quote "+quantity+" "+days, func() reply {
			return s.get("/api/v1/offers", pair{"quantity", quantity}, pair{"duration_days", days})
		})
		for _, x := range things(r.data(), "offers") {
			if quote := readOffer(x); quote.code == o.code {
				o.cents = max(o.cents, quote.cents)
			}
		}
	}
	return o
}

// countChecks returns the number of additional checks that the offer allows. Such checks are
// an order for another duration, and an order with CIDRs if the field's name is configured.
func (o offer) countChecks(cidrField string) (n int) {
	for _, p := range purchases {
		if p.days != 30 && slices.Contains(o.days, p.days) {
			n = 1
		}
	}
	if cidrField != "" && o.cidr != "" {
		n++
	}
	return n
}

func readOffer(o map[string]any) offer {
	out := offer{code: word(o, "offer_code"), country: word(o, "country_code")}
	out.cents, _ = cents(o, "unit_price_cents")
	out.base, _ = cents(o, "base_duration_days")
	for _, days := range members[json.Number](o["duration_days"]) {
		n, _ := days.Int64()
		out.days = append(out.days, n)
	}
	if cidrs := words(o, "cidrs"); len(cidrs) > 0 {
		out.cidr = cidrs[0]
	}
	return out
}

// planCents returns the estimated cost of all purchases and renewals in cents, before
// refunds. It returns 0 if no offer is suitable.
func (s *session) planCents() (sum int64) {
	o, why := s.chosenOffer()
	if why != "" {
		return 0
	}
	for _, p := range slices.Concat(purchases, renewals) {
		if (!p.needsControl || s.cfg.ControlURL != "") && (!p.sandbox || !s.cfg.Production) {
			sum += o.estimate(p)
		}
	}
	return sum
}

// paid is a request that may charge, its reply, and the wallet before and after.
type paid struct {
	why     string // why there is no successful reply
	request request
	reply   reply
	around
}

// unsent returns the reason if the request was not sent, and otherwise "".
func (p *paid) unsent() string {
	if p.reply.status != 0 || p.reply.err != nil {
		return ""
	}
	return p.why
}

func (s *session) pay(r request) paid {
	p := paid{request: r}
	p.around = s.around(func() { p.reply = s.send(r) })
	return p
}

// bought is an order and its progress until the end.
type bought struct {
	paid
	orderNo string
	reads   []reply // the details in the order that the run read them
	ended   bool
	closing int64 // the wallet at the end, in cents
}

func (b *bought) last() *reply {
	if len(b.reads) == 0 {
		return &reply{}
	}
	return &b.reads[len(b.reads)-1]
}

// buy makes a purchase from the table and polls the order until its end. It buys once in each
// run.
func (s *session) buy(name string) *bought {
	return memo(s, "buy "+name, func() *bought {
		r, _, why := s.orderOf(name)
		if why != "" {
			return &bought{paid: paid{why: why}}
		}
		b := &bought{paid: s.pay(r)}
		if b.orderNo = word(b.reply.data(), "order_no"); b.orderNo == "" {
			b.why = "no order came of it: " + b.reply.seen()
			return b
		}
		s.follow(b)
		return b
	})
}

// orderOf returns the request for a purchase, with a new key, and its estimated cost. It does
// not send the request. why says why the purchase is impossible.
func (s *session) orderOf(name string) (r request, sum int64, why string) {
	o, why := s.chosenOffer()
	p := findPurchase(purchases, name)
	switch {
	case why != "":
	case !slices.Contains(o.days, p.days):
		why = fmt.Sprintf("the offer is not sold for %d days", p.days)
	case name == "lines" && o.second == nil:
		why = "there is one offer only"
	case name == "cidrs" && (s.cfg.CIDRField == "" || o.cidr == ""):
		why = "the name of the CIDR field is not given"
	default:
		why = s.afford(o.estimate(p))
	}
	if why != "" {
		return request{}, 0, why
	}
	r = keyed("/api/v1/orders", s.newKey(name), string(s.orderBody(o, p)))
	r.scenario = p.scenario
	return r, o.estimate(p), ""
}

func (s *session) orderBody(o offer, p purchase) []byte {
	line := func(quantity int64) map[string]any { return map[string]any{"offer_code": o.code, "quantity": quantity} }
	body := map[string]any{"duration_days": p.days, "items": []any{line(p.quantity)}}
	switch p.name {
	case "legacy":
		body = map[string]any{"offer_code": o.code, "quantity": p.quantity, "duration_days": p.days}
	case "lines":
		body["items"] = []any{line(1), map[string]any{"offer_code": o.second.code, "quantity": 1}}
	case "cidrs":
		chosen := line(p.quantity)
		chosen[s.cfg.CIDRField] = []string{o.cidr}
		body["items"] = []any{chosen}
	}
	raw, _ := json.Marshal(body) // never fails for strings and integers
	return raw
}

// follow polls the order after poll_after_seconds. It stops when poll_after_seconds is not
// an integer, when the order is no longer in progress, or at a limit of time or reads.
func (s *session) follow(b *bought) {
	const maxReads = 200
	var waited time.Duration
	for len(b.reads) < maxReads {
		r := s.get("/api/v1/orders/" + rfc3986(b.orderNo))
		b.reads = append(b.reads, r)
		seconds, again := cents(r.data(), "poll_after_seconds")
		if r.err != nil || !again || !inProgress(word(r.data(), "status")) {
			b.ended = r.succeeded()
			break
		}
		wait := time.Duration(min(max(seconds, 1), 3600)) * time.Second
		if waited += wait; waited > patience || s.cfg.Wait(s.ctx, wait) != nil {
			return
		}
	}
	b.closing, _ = s.balance()
}

func inProgress(status string) bool { return status == "paid" || status == "procuring" }

// final returns the last detail of the order, or the reason why there is none.
func (b *bought) final() (map[string]any, string) {
	switch {
	case b.why != "":
		return nil, b.why
	case b.last().data() == nil:
		return nil, "the order's detail: " + b.last().seen()
	case !b.ended:
		return nil, "the order did not end in the time that the run waits"
	}
	return b.last().data(), ""
}

// orderMade returns a purchase that has an order number, so that its detail can be read.
func orderMade(name string) step[*bought] {
	return func(s *session) (*bought, string) { b := s.buy(name); return b, b.why }
}

// delivered returns a purchase whose order has ended, with its last detail.
func delivered(name string) step[*bought] {
	return func(s *session) (*bought, string) {
		b := s.buy(name)
		_, why := b.final()
		return b, why
	}
}

// renewed is one renewal of proxies that the run has bought.
type renewed struct {
	paid
	ids    []string
	expiry [2]map[string]time.Time // the expiry of each id, before and after
}

// renew makes a renewal from the table, once in each run.
func (s *session) renew(name string) *renewed {
	return memo(s, "renew "+name, func() *renewed {
		r, ids, why := s.renewalOf(name)
		if why != "" {
			return &renewed{paid: paid{why: why}}
		}
		before := s.expiries(ids)
		out := &renewed{paid: s.pay(r), ids: ids}
		out.expiry = [2]map[string]time.Time{before, s.expiries(ids)}
		if !out.reply.succeeded() && name != "failed" {
			out.why = "the renewal was refused: " + out.reply.seen()
		}
		return out
	})
}

// renewalOf returns the request for a renewal from the table. It does not send the request.
func (s *session) renewalOf(name string) (r request, ids []string, why string) {
	p := findPurchase(renewals, name)
	o, why := s.chosenOffer()
	ids = s.ownProxies()
	switch {
	case why != "":
	case int64(len(ids)) < p.quantity:
		why = "the run has no proxy of its own: " + s.buy("plain").why
	default:
		why = s.afford(o.estimate(p))
	}
	if why != "" {
		return request{}, nil, why
	}
	ids = ids[:p.quantity]
	return keyed("/api/v1/proxies/renew", s.newKey("renew-"+name), renewBody(ids, p.days)), ids, ""
}

func renewBody(ids []string, days any) string {
	raw, _ := json.Marshal(map[string]any{"proxy_ids": ids, "duration_days": days}) // never fails for strings and integers
	return string(raw)
}

func (s *session) expiries(ids []string) map[string]time.Time {
	out := make(map[string]time.Time, len(ids))
	for _, id := range ids {
		r := s.get("/api/v1/proxies/" + rfc3986(id))
		out[id], _ = timeOf(r.data()["expires_at"])
	}
	return out
}

// renewalMade returns a renewal that the server executed.
func renewalMade(name string) step[*renewed] {
	return func(s *session) (*renewed, string) { r := s.renew(name); return r, r.why }
}
