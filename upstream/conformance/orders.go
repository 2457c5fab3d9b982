// Checks of orders that were delivered.

package conformance

import (
	"fmt"
	"net/http"
)

// ordered is an order by its name, with a sentence to start with.
type ordered struct {
	name, what string
	quantity   int64
	only       environment
}

var orderedPlain = []ordered{
	{"plain", "an order of one line", 2, ""}, {"lines", "an order of two lines", 2, ""}, {"legacy", "an order with the legacy body", 1, ""},
	{"longer", "an order for 60 days", 1, ""},
}

func orderChecks() []Check {
	var out []Check
	for _, o := range orderedPlain {
		out = append(out, o.checks()...)
	}
	out = append(out, immediateChecks()...)
	out = append(out, refusalChecks("order", secCreate, "/api/v1/orders", orderRefusals)...)
	out = append(out, capitalCheck("order", secCreate, "/api/v1/orders", `{"DURATION_DAYS":30,"ITEMS":[{"OFFER_CODE":"SUBJECT","QUANTITY":1}]}`))
	out = append(out, cidrChecks()...)
	return append(out, orderListChecks()...)
}

// section is the document's section about the order: the legacy body has its own.
func (o ordered) section() string {
	if o.name == "legacy" {
		return secVersioning
	}
	return secCreate
}

// checks of any order that is delivered.
func (o ordered) checks() []Check {
	of := func(do func(*session, *bought, map[string]any) finding) func(*session) finding {
		return given(delivered(o.name), func(s *session, b *bought) finding { return do(s, b, b.last().data()) })
	}
	check := group{"order." + o.name, o.section(), o.what, true, o.only}.check
	return []Check{
		check("created", "gives HTTP 201 and an order_no", func(s *session) finding { return createdWell(s.buy(o.name)) }),
		check("poll_in_reply", "says poll_after_seconds, an integer or null, in its reply", given(orderMade(o.name), func(_ *session, b *bought) finding {
			v, there := b.created.data()["poll_after_seconds"]
			if !there || v != nil && !integer.fits(v) {
				return differs("it is %s", typeName(v))
			}
			return ok("%s", typeName(v))
		})),
		check("same_order", "is read under the order_no that its creation gave", of(func(_ *session, b *bought, data map[string]any) finding {
			if word(data, "order_no") != b.orderNo {
				return differs("another order_no came")
			}
			return ok("the same")
		})),
		check("debited", "debits the wallet by exactly total_cents", of(func(_ *session, b *bought, data map[string]any) finding {
			return b.debited(data, "total_cents")
		})),
		check("total_agrees", "has total as the decimal string of total_cents", of(func(_ *session, _ *bought, data map[string]any) finding {
			return decimalsAgree([]map[string]any{data}, "total_cents", "total")
		})),
		check("currency", "is in the wallet's currency", of(func(s *session, _ *bought, data map[string]any) finding {
			if got := word(data, "currency"); got != s.currency || got == "" {
				return differs("%q, the wallet has %q", brief(got), brief(s.currency))
			}
			return ok("%s", s.currency)
		})),
		check("counts", "delivers what was ordered: expected_count, delivered_count and proxies agree", of(func(_ *session, _ *bought, data map[string]any) finding {
			return countsAgree(data, o.quantity)
		})),
		check("no_refund", "has no refund", of(func(_ *session, _ *bought, data map[string]any) finding {
			if v, there := data["refund"]; !there || v != nil {
				return differs("refund is %s", typeName(v))
			}
			return ok("null")
		})),
		check("listed", "stands in the list of proxies with every proxy", of(ownProxiesRead)),
	}
}

func createdWell(b *bought) finding {
	switch {
	case b.created.status == 0 && b.created.err == nil:
		return notRun("%s", b.why)
	case b.created.status != http.StatusCreated || !b.created.succeeded() || b.orderNo == "":
		return differs("%s, order_no is %s", b.created.seen(), typeName(b.created.data()["order_no"]))
	}
	return ok("%s", b.created.seen())
}

func countsAgree(data map[string]any, quantity int64) finding {
	expected, _ := cents(data, "delivery.expected_count")
	delivered, _ := cents(data, "delivery.delivered_count")
	proxies := len(things(data, "proxies"))
	seen := fmt.Sprintf("expected %d, delivered %d, %d proxies, complete %t, available %t", expected, delivered, proxies,
		truth(data, "delivery.complete"), truth(data, "delivery.available"))
	if expected != quantity || delivered != quantity || int64(proxies) != quantity || !truth(data, "delivery.complete") || !truth(data, "delivery.available") {
		return differs("%s", seen)
	}
	return ok("%s", seen)
}

// ownProxiesRead asks for each proxy of an order by its id.
func ownProxiesRead(s *session, _ *bought, data map[string]any) finding {
	proxies := things(data, "proxies")
	for _, p := range proxies {
		id := word(p, "proxy_id")
		r := s.get("/api/v1/proxies/" + rfc3986(id))
		if !r.succeeded() || word(r.data(), "proxy_id") != id {
			return differs("%s", r.seen())
		}
	}
	return ok("%d proxies", len(proxies))
}

// immediateChecks observe that in a sandbox an order without a scenario is complete at once.
func immediateChecks() []Check {
	return []Check{
		{ID: "scenario.absent.at_once", Section: secScenario, Costs: true, only: onlySandbox, Sentence: "without the header all test IPs are there at the first read",
			run: given(readsMade("plain"), func(_ *session, b *bought) finding { return countsAgree(b.reads[0].data(), 2) })},
		{ID: "order.proxy_differs_from_proxy", Section: secDetail, Costs: true, Open: true, Sentence: "whether an order's proxy has the members of a proxy's detail",
			run: func(s *session) finding {
				one, why := s.anyProxy()
				proxies := things(s.buy("plain").last().data(), "proxies")
				if why != "" || len(proxies) == 0 {
					return notRun("there is no delivered order")
				}
				return ok("%d members there, %d here", len(proxies[0]), len(one.data()))
			}},
		{ID: "order.creation_reply", Section: secCreate, Costs: true, Open: true, Sentence: "what the reply to a creation holds beyond order_no and poll_after_seconds",
			run: given(orderMade("plain"), func(_ *session, b *bought) finding {
				return ok("%d members, credentials: %t", len(b.created.data()), secretIn(b.created.data()) != "")
			})},
		{ID: "order.items_structure", Section: secOrder, Open: true, Sentence: "what a line of items holds", run: func(s *session) finding {
			r, why := s.anyOrder()
			items := things(r.data(), "items")
			if why != "" || len(items) == 0 {
				return notRun("there is no order")
			}
			return ok("%d members", len(items[0]))
		}},
	}
}

// orderListChecks observe that the list is a stable summary and holds no credentials.
func orderListChecks() []Check {
	return []Check{
		{ID: "orders.key", Section: secOrders, Open: true, Sentence: "the key that holds the orders", run: listKey("order_list")},
		{ID: "orders.no_credentials", Section: secOrders, Sentence: "the list of orders holds no credentials", run: func(s *session) finding {
			s.buy("plain")
			r := s.get("/api/v1/orders")
			if name := secretIn(r.data()); name != "" {
				return differs("it holds %s", name)
			}
			if _, items, _ := onlyArray(r.data()); len(items) == 0 {
				return notShown("the list is empty")
			}
			return ok("%s", r.seen())
		}},
		{ID: "orders.no_password_of_order", Section: secOrders, Costs: true, Sentence: "no password that was delivered stands in the list of orders", run: passwordInList},
		{ID: "orders.stable", Section: secOrders, Sentence: "two reads of the list have one order", run: func(s *session) finding {
			s.buy("plain")
			return sameOrder(s, "/api/v1/orders", "order_no")
		}},
		{ID: "orders.holds_new", Section: secOrders, Costs: true, Sentence: "a new order stands in the list", run: given(orderMade("plain"), func(s *session, b *bought) finding {
			w := s.walk("/api/v1/orders", "order_no", 50)
			if w.why != "" || !w.ids[b.orderNo] {
				return differs("%d orders, %s", len(w.ids), w.why)
			}
			return ok("among %d", len(w.ids))
		})},
		{ID: "orders.summary", Section: secOrders, Open: true, Sentence: "what a summary holds", run: given(listed("order_list"), func(_ *session, items []map[string]any) finding {
			return ok("%d members, order_no: %t", len(items[0]), word(items[0], "order_no") != "")
		})},
	}
}

// listKey records under which key a list stands.
func listKey(name string) func(*session) finding {
	return func(s *session) finding {
		r, _ := s.replyOf(name)
		key, _, found := onlyArray(r.data())
		return ok("%q, exactly one array: %t", brief(key), found)
	}
}

func passwordInList(s *session) finding {
	proxies := things(s.buy("plain").last().data(), "proxies")
	r := s.get("/api/v1/orders")
	for _, p := range proxies {
		for _, name := range secretMembers {
			if text := word(p, name); len(text) > 3 && contains(r.raw, text) {
				return differs("%s of a delivered proxy stands in it", name)
			}
		}
	}
	if len(proxies) == 0 {
		return notRun("nothing was delivered")
	}
	return ok("%d proxies looked for", len(proxies))
}
