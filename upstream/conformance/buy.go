package conformance

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// purchase is an order in the table of purchases, or a renewal in the table of renewals. The
// tables make the cost known in advance.
type purchase struct {
	name, scenario string
	what           string // the beginning of the sentences about an order without a scenario; "": it has none
	quantity, days int64
	times          int64 // how often the server may charge for it; 0 means once
	needsControl   bool
	only           environment // where it is useful
}

var purchases = []purchase{
	{name: "plain", what: "an order of one line", quantity: 2, days: 30}, {name: "lines", what: "an order of two lines", quantity: 2, days: 30},
	{name: "legacy", what: "an order with the legacy body", quantity: 1, days: 30}, {name: "longer", what: "an order for 60 days", quantity: 1, days: 60},
	{name: "concurrent", quantity: 1, days: 30}, {name: "after_refusal", quantity: 1, days: 30},
	{name: "success", scenario: "success", quantity: 1, days: 30, only: onlySandbox},
	{name: "delayed", scenario: "delayed", quantity: 1, days: 30, only: onlySandbox},
	{name: "partial", scenario: "partial", quantity: 2, days: 30, only: onlySandbox},
	{name: "rejected", scenario: "rejected", quantity: 1, days: 30, only: onlySandbox},
	{name: "kept", quantity: 1, days: 30, times: 3, needsControl: true}, {name: "hanging", quantity: 1, days: 30, needsControl: true},
	{name: "unresolved", quantity: 1, days: 30, needsControl: true},
	{name: "cidrs", quantity: 1, days: 30},
}

// renewals are the renewals in a run. They renew only proxies that the run has bought.
var renewals = []purchase{
	{name: "one", quantity: 1, days: 30}, {name: "two", quantity: 2, days: 30}, {name: "longest", quantity: 1, days: 1080},
	{name: "mixed", quantity: 1, days: 30},
	{name: "concurrent", quantity: 1, days: 30},
	{name: "partial", quantity: 2, days: 30, needsControl: true}, {name: "manual_review", quantity: 2, days: 30, needsControl: true},
	{name: "failed", quantity: 2, days: 30, needsControl: true},
}

func findPurchase(table []purchase, name string) purchase {
	return table[slices.IndexFunc(table, func(p purchase) bool { return p.name == name })]
}

// offer is the offer that a run buys. It allows the most checks. If several offers allow as
// many, it is the cheapest of them.
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
// in the tables. It skips the check if no offer is suitable.
func (s *session) chosenOffer() offer {
	return memo(s, "chosen offer", func() offer {
		r := s.get("/api/v1/offers", pair{"quantity", "2"}, pair{"duration_days", "30"})
		var can []offer
		for _, o := range things(r.data(), "offers") {
			if got := readOffer(o); got.code != "" && got.cents > 0 && slices.Contains(got.days, 30) {
				can = append(can, got)
			}
		}
		if len(can) == 0 {
			s.skipf("no offer can be bought: %s", r.seen())
		}
		cheapest := func(a, b offer) int { return cmp.Compare(a.cents, b.cents) }
		slices.SortStableFunc(can, func(a, b offer) int {
			return cmp.Or(cmp.Compare(b.countChecks(s.cfg.CIDRField), a.countChecks(s.cfg.CIDRField)), cheapest(a, b))
		})
		if len(can) > 1 {
			second := s.withHighestPrice(slices.MinFunc(can[1:], cheapest))
			can[0].second = &second
		}
		return s.withHighestPrice(can[0])
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

// countChecks returns the number of additional checks that the offer allows.
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

func readOffer(o dict) offer {
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
	o, why := attempt(s.chosenOffer)
	if why != "" {
		return 0
	}
	for _, p := range slices.Concat(purchases, renewals) {
		if (!p.needsControl || s.cfg.ControlURL != "") && (p.only == "" || !s.cfg.Production) {
			sum += o.estimate(p)
		}
	}
	return sum
}

type paid struct {
	request request
	reply   reply
	around
}

func (s *session) pay(r request) paid {
	p := paid{request: r}
	p.around = s.around(func() { p.reply = s.send(r) })
	return p
}

type bought struct {
	paid
	orderNo string
	reads   []reply // the details in the order that the run read them
	ended   bool
	closing int64 // the wallet at the end, in cents
}

// plainProxies returns the proxies of the plain order, or nil if there is no such order.
func (s *session) plainProxies() []dict {
	b, why := attempt(s.orderedPlain)
	if why != "" {
		return nil
	}
	return things(b.last().data(), "proxies")
}

func (b *bought) last() reply { return b.reads[len(b.reads)-1] }

// bought buys the named purchase, once in each run, and polls the order until its end. The
// server may have refused the purchase.
func (s *session) bought(name string) *bought {
	return memo(s, "buy "+name, func() *bought {
		r, _ := s.orderOf(name)
		b := &bought{paid: s.pay(r)}
		if b.orderNo = word(b.reply.data(), "order_no"); b.orderNo != "" {
			s.follow(b)
		}
		return b
	})
}

// ordered is like bought, but skips the check unless the purchase has an order number.
func (s *session) ordered(name string) *bought {
	b := s.bought(name)
	if b.orderNo == "" {
		s.skipf("no order came of it: %s", b.reply.seen())
	}
	return b
}

func (s *session) orderedPlain() *bought { return s.ordered("plain") }

// delivered is like ordered, but skips the check unless the order has ended and its last detail
// is known.
func (s *session) delivered(name string) *bought {
	b := s.ordered(name)
	switch {
	case b.last().data() == nil:
		s.skipf("the order's detail: %s", b.last().seen())
	case !b.ended:
		s.skipf("the order did not end in the time that the run waits")
	}
	return b
}

// tryToBuy buys the named purchase, if the run may spend money, so that the server's lists have
// an entry.
func (s *session) tryToBuy(name string) { _, _ = attempt(func() *bought { return s.bought(name) }) }

// orderOf returns the unsent request for a purchase, with a new key, and its estimated cost.
func (s *session) orderOf(name string) (r request, sum int64) {
	o, p := s.chosenOffer(), findPurchase(purchases, name)
	switch {
	case !slices.Contains(o.days, p.days):
		s.skipf("the offer is not sold for %d days", p.days)
	case name == "lines" && o.second == nil:
		s.skipf("there is one offer only")
	case name == "cidrs" && (s.cfg.CIDRField == "" || o.cidr == ""):
		s.skipf("the name of the CIDR field is not given")
	}
	s.afford(o.estimate(p))
	r = keyed("/api/v1/orders", s.newKey(name), s.orderBody(o, p))
	r.scenario = p.scenario
	return r, o.estimate(p)
}

func (s *session) orderBody(o offer, p purchase) string {
	line := dict{"offer_code": o.code, "quantity": p.quantity}
	items := []any{line}
	switch p.name {
	case "legacy":
		line["duration_days"] = p.days
		return encoded(line)
	case "lines":
		line["quantity"] = 1
		items = append(items, dict{"offer_code": o.second.code, "quantity": 1})
	case "cidrs":
		line[s.cfg.CIDRField] = []string{o.cidr}
	}
	return encoded(dict{"duration_days": p.days, "items": items})
}

func encoded(body any) string {
	raw, _ := json.Marshal(body)
	return string(raw)
}

// follow polls the order after poll_after_seconds. It stops when poll_after_seconds is not
// an integer, when the order is no longer in progress, or at a limit of time or reads.
func (s *session) follow(b *bought) {
	const maxReads = 200
	var waited time.Duration
	for len(b.reads) < maxReads {
		r := s.order(b.orderNo)
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

type renewed struct {
	paid
	ids    []string
	expiry [2]map[string]time.Time // the expiry of each id, before and after
}

// renewalSent makes a renewal from the table, once in each run. The server may have refused it.
func (s *session) renewalSent(name string) *renewed {
	return memo(s, "renew "+name, func() *renewed {
		r, ids := s.renewalOf(name)
		before := s.expiries(ids)
		out := &renewed{paid: s.pay(r), ids: ids}
		out.expiry = [2]map[string]time.Time{before, s.expiries(ids)}
		return out
	})
}

func (s *session) renewed(name string) *renewed {
	r := s.renewalSent(name)
	if !r.reply.succeeded() && name != "failed" {
		s.skipf("the renewal was refused: %s", r.reply.seen())
	}
	return r
}

func (s *session) renewalOf(name string) (r request, ids []string) {
	p, o := findPurchase(renewals, name), s.chosenOffer()
	if ids = s.ownProxies(); int64(len(ids)) < p.quantity {
		_, why := attempt(s.orderedPlain)
		s.skipf(noProxy+": %s", why)
	}
	s.afford(o.estimate(p))
	ids = ids[:p.quantity]
	return keyed("/api/v1/proxies/renew", s.newKey("renew-"+name), renewBody(ids, p.days)), ids
}

func renewBody(ids []string, days int64) string {
	return encoded(dict{"proxy_ids": ids, "duration_days": days})
}

func (s *session) expiries(ids []string) map[string]time.Time {
	out := make(map[string]time.Time, len(ids))
	for _, id := range ids {
		out[id], _ = timeOf(s.proxy(id).data()["expires_at"])
	}
	return out
}

const noProxy = "the run has no proxy of its own"

func (s *session) needProxies() []string {
	ids := s.ownProxies()
	if len(ids) == 0 {
		s.skipf(noProxy)
	}
	return ids
}

func (s *session) ownProxies() []string {
	return slices.DeleteFunc(wordsOf(s.plainProxies(), "proxy_id"), func(id string) bool { return id == "" })
}
