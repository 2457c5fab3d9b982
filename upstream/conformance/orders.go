// Checks of orders: creation, delivery and the list.

package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
)

// ordered is an order in the purchase table. The sentences of its checks begin with
// the field what.
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
	return slices.Concat(each(orderedPlain, ordered.checks), immediateChecks(), orderRefusals.checks(), cidrChecks(), orderListChecks())
}

// checks returns the checks of a delivered order.
func (o ordered) checks() []Check {
	g := group{"order." + o.name, secCreate, o.what, true, o.only}
	if o.name == "legacy" {
		g.section = secVersioning
	}
	check := func(id, sentence string, do func(b *bought, data map[string]any) finding) Check {
		return g.rule(id, sentence, given(delivered(o.name), func(_ *session, b *bought) finding { return do(b, b.last().data()) }))
	}
	return []Check{
		g.rule("created", "gives HTTP 201 and an order_no", created(o.name)),
		g.rule("poll_in_reply", "says poll_after_seconds, an integer or null, in its reply", given(orderMade(o.name), func(_ *session, b *bought) finding {
			v, there := b.reply.data()["poll_after_seconds"]
			return when(!there || v != nil && !integer.fits(v), differs("it is %s", typeName(v)), ok("%s", typeName(v)))
		})),
		check("same_order", "is read under the order_no that its creation gave", func(b *bought, data map[string]any) finding {
			return when(word(data, "order_no") == b.orderNo, ok("the same"), differs("another order_no came"))
		}),
		check("debited", "debits the wallet by exactly total_cents", func(b *bought, data map[string]any) finding { return b.debited(data, "total_cents") }),
		check("total_agrees", "has total as the decimal string of total_cents", func(_ *bought, data map[string]any) finding {
			return decimalsAgree([]map[string]any{data}, "total_cents", "total")
		}),
		g.rule("currency", "is in the wallet's currency", given(delivered(o.name), func(s *session, b *bought) finding {
			got := word(b.last().data(), "currency")
			return when(got != s.currency || got == "", differs("%q, the wallet has %q", brief(got), brief(s.currency)), ok("%s", s.currency))
		})),
		check("counts", "delivers what was ordered: expected_count, delivered_count and proxies agree", func(_ *bought, data map[string]any) finding {
			return countsAgree(data, o.quantity)
		}),
		check("no_refund", "has no refund", func(_ *bought, data map[string]any) finding {
			v, there := data["refund"]
			return when(!there || v != nil, differs("refund is %s", typeName(v)), ok("null"))
		}),
		g.rule("listed", "stands in the list of proxies with every proxy", given(delivered(o.name), func(s *session, b *bought) finding {
			ids := wordsOf(things(b.last().data(), "proxies"), "proxy_id")
			for _, id := range ids {
				if r := s.get("/api/v1/proxies/" + rfc3986(id)); !r.succeeded() || word(r.data(), "proxy_id") != id {
					return differs("%s", r.seen())
				}
			}
			return ok("%d proxies", len(ids))
		})),
	}
}

func created(name string) judgement {
	sent := func(s *session) (*bought, string) {
		b := s.buy(name)
		why := b.unsent()
		return b, why
	}
	return given(sent, func(_ *session, b *bought) finding {
		return when(b.reply.status != http.StatusCreated || !b.reply.succeeded() || b.orderNo == "",
			differs("%s, order_no is %s", b.reply.seen(), typeName(b.reply.data()["order_no"])), ok("%s", b.reply.seen()))
	})
}

// delivery is the delivery object in an order's detail, with the number of proxies.
type delivery struct {
	expected, delivered, proxies int64
	complete, available          bool
}

func deliveryOf(data map[string]any) (d delivery) {
	d.expected, _ = cents(data, "delivery.expected_count")
	d.delivered, _ = cents(data, "delivery.delivered_count")
	d.proxies = int64(len(things(data, "proxies")))
	d.complete, d.available = truth(data, "delivery.complete"), truth(data, "delivery.available")
	return d
}

func countsAgree(data map[string]any, quantity int64) finding {
	d := deliveryOf(data)
	seen := fmt.Sprintf("expected %d, delivered %d, %d proxies, complete %t, available %t", d.expected, d.delivered, d.proxies, d.complete, d.available)
	return when(d == delivery{quantity, quantity, quantity, true, true}, ok("%s", seen), differs("%s", seen))
}

// immediateChecks check that a sandbox delivers an order without a scenario immediately.
func immediateChecks() []Check {
	return []Check{
		rule("scenario.absent.at_once", secScenario, "without the header all test IPs are there at the first read", given(orderMade("plain"), func(_ *session, b *bought) finding {
			return countsAgree(b.reads[0].data(), 2)
		})).costs().in(onlySandbox),
		rule("order.proxy_differs_from_proxy", secDetail, "whether an order's proxy has the members of a proxy's detail", func(s *session) finding {
			one, why := s.anyProxy()
			proxies := things(s.buy("plain").last().data(), "proxies")
			if why != "" || len(proxies) == 0 {
				return notRun("there is no delivered order")
			}
			return ok("%d members there, %d here", len(proxies[0]), len(one.data()))
		}).costs().open(),
		rule("order.creation_reply", secCreate, "what the reply to a creation holds beyond order_no and poll_after_seconds", given(orderMade("plain"), func(_ *session, b *bought) finding {
			return ok("%d members, credentials: %t", len(b.reply.data()), secretIn(b.reply.data()) != "")
		})).costs().open(),
		rule("order.items_structure", secOrder, "what a line of items holds", func(s *session) finding {
			r, why := s.anyOrder()
			items := things(r.data(), "items")
			if why != "" || len(items) == 0 {
				return notRun("there is no order")
			}
			return ok("%d members", len(items[0]))
		}).open(),
	}
}

// cidrChecks need Config.CIDRField, because the API document does not give the name of the
// field.
func cidrChecks() []Check {
	refusal := func(id, sentence, items string) Check {
		return rule("order.cidr."+id, secCreate, sentence, asks(func(s *session) (request, string) {
			o, why := s.chosenOffer()
			if s.cfg.CIDRField == "" || why != "" || o.cidr == "" {
				return request{}, "the name of the CIDR field is not given"
			}
			body := fmt.Sprintf(`{"duration_days":30,"items":[{"offer_code":%[1]q,"quantity":1,%[2]q:[%[3]q]},`+items+`]}`, o.code, s.cfg.CIDRField, o.cidr)
			return post("/api/v1/orders", "cidr", body), s.afford(2 * o.cents)
		}, refusing("validation_error")))
	}
	return []Check{
		rule("order.cidr.accepted", secCreate, "an order for one of the offer's CIDRs is accepted", created("cidrs")).costs(),
		refusal("twice", "the same CIDR twice for one offer is refused with validation_error", `{"offer_code":%[1]q,"quantity":1,%[2]q:[%[3]q]}`),
		refusal("mixed", "random allocation and a CIDR for one offer are refused with validation_error", `{"offer_code":%[1]q,"quantity":1}`),
	}
}

// orderListChecks check that the order list is stable and has no credentials.
func orderListChecks() []Check {
	return []Check{
		rule("orders.key", secOrders, "the key that holds the orders", listKey("order_list")).open(),
		rule("orders.no_credentials", secOrders, "the list of orders holds no credentials", func(s *session) finding {
			s.buy("plain")
			r := s.get("/api/v1/orders")
			if name := secretIn(r.data()); name != "" {
				return differs("it holds %s", name)
			}
			_, items, _ := onlyArray(r.data())
			return when(len(items) == 0, notShown("the list is empty"), ok("%s", r.seen()))
		}),
		rule("orders.no_password_of_order", secOrders, "no password that was delivered stands in the list of orders", passwordInList).costs(),
		rule("orders.stable", secOrders, "two reads of the list have one order", func(s *session) finding {
			s.buy("plain")
			return orderList.sameOrder(s)
		}),
		rule("orders.holds_new", secOrders, "a new order stands in the list", given(orderMade("plain"), func(s *session, b *bought) finding {
			w := s.walk(orderList, 50)
			return when(w.why != "" || !w.ids[b.orderNo], differs("%d orders, %s", len(w.ids), w.why), ok("among %d", len(w.ids)))
		})).costs(),
		rule("orders.summary", secOrders, "what a summary holds", given(listed("/api/v1/orders"), func(_ *session, items []map[string]any) finding {
			return ok("%d members, order_no: %t", len(items[0]), word(items[0], "order_no") != "")
		})).open(),
	}
}

// listKey records the name of a list.
func listKey(name string) judgement {
	return reading(name, func(_ *session, data map[string]any) finding {
		key, _, found := onlyArray(data)
		return ok("%q, exactly one array: %t", brief(key), found)
	})
}

func passwordInList(s *session) finding {
	proxies := things(s.buy("plain").last().data(), "proxies")
	r := s.get("/api/v1/orders")
	for _, p := range proxies {
		for _, name := range secretMembers {
			if text := word(p, name); len(text) > 3 && bytes.Contains(r.raw, []byte(text)) {
				return differs("%s of a delivered proxy stands in it", name)
			}
		}
	}
	return when(len(proxies) == 0, notRun("nothing was delivered"), ok("%d proxies looked for", len(proxies)))
}
