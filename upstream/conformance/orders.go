package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
)

func orderChecks(c *suite) {
	for _, p := range purchases {
		if p.what != "" {
			p.checks(c)
		}
	}
	immediateChecks(c)
	orderRefusals.checks(c)
	cidrChecks(c)
	orderListChecks(c)
}

func (p purchase) checks(c *suite) {
	g := group{c, "order." + p.name, secCreate, p.what, true, p.only}
	if p.name == "legacy" {
		g.section = secVersioning
	}
	check := func(id, sentence string, do func(s *session, b *bought, data dict) finding) {
		g.rule(id, sentence, func(s *session) finding {
			b := s.delivered(p.name)
			return do(s, b, b.last().data())
		})
	}
	g.rule("created", "gives HTTP 201 and an order_no", created(p.name))
	g.rule("poll_in_reply", "says poll_after_seconds, an integer or null, in its reply", func(s *session) finding {
		v, there := s.ordered(p.name).reply.data()["poll_after_seconds"]
		return when(!there || v != nil && !integer.fits(v), differs("it is %s", typeName(v)), ok("%s", typeName(v)))
	})
	check("same_order", "is read under the order_no that its creation gave", func(_ *session, b *bought, data dict) finding {
		return when(word(data, "order_no") == b.orderNo, ok("the same"), differs("another order_no came"))
	})
	check("debited", "debits the wallet by exactly total_cents", func(_ *session, b *bought, data dict) finding { return b.debited(data, "total_cents") })
	check("total_agrees", "has total as the decimal string of total_cents", func(_ *session, _ *bought, data dict) finding {
		return decimalsAgree([]dict{data}, "total_cents", "total")
	})
	check("currency", "is in the wallet's currency", func(s *session, _ *bought, data dict) finding {
		got := word(data, "currency")
		return when(got != s.currency || got == "", differs("%q, the wallet has %q", brief(got), brief(s.currency)), ok("%s", s.currency))
	})
	check("counts", "delivers what was ordered: expected_count, delivered_count and proxies agree", func(_ *session, _ *bought, data dict) finding {
		return countsAgree(data, p.quantity)
	})
	check("no_refund", "has no refund", func(_ *session, _ *bought, data dict) finding {
		v, there := data["refund"]
		return when(!there || v != nil, differs("refund is %s", typeName(v)), ok("null"))
	})
	check("listed", "stands in the list of proxies with every proxy", func(s *session, _ *bought, data dict) finding {
		ids := wordsOf(things(data, "proxies"), "proxy_id")
		for _, id := range ids {
			if r := s.proxy(id); !r.succeeded() || word(r.data(), "proxy_id") != id {
				return differs("%s", r.seen())
			}
		}
		return ok("%d proxies", len(ids))
	})
}

func created(name string) judgement {
	return func(s *session) finding {
		b := s.bought(name)
		return when(b.reply.status != http.StatusCreated || !b.reply.succeeded() || b.orderNo == "",
			differs("%s, order_no is %s", b.reply.seen(), typeName(b.reply.data()["order_no"])), ok("%s", b.reply.seen()))
	}
}

type delivery struct {
	expected, delivered, proxies int64
	complete, available          bool
}

func deliveryOf(data dict) (d delivery) {
	d.expected, _ = cents(data, "delivery.expected_count")
	d.delivered, _ = cents(data, "delivery.delivered_count")
	d.proxies = int64(len(things(data, "proxies")))
	d.complete, d.available = truth(data, "delivery.complete"), truth(data, "delivery.available")
	return d
}

func countsAgree(data dict, quantity int64) finding {
	d := deliveryOf(data)
	seen := fmt.Sprintf("expected %d, delivered %d, %d proxies, complete %t, available %t", d.expected, d.delivered, d.proxies, d.complete, d.available)
	return when(d == delivery{quantity, quantity, quantity, true, true}, ok("%s", seen), differs("%s", seen))
}

func immediateChecks(c *suite) {
	c.rule("scenario.absent.at_once", secScenario, "without the header all test IPs are there at the first read", func(s *session) finding {
		return countsAgree(s.ordered("plain").reads[0].data(), 2)
	}).costs().in(onlySandbox)
	c.rule("order.proxy_differs_from_proxy", secDetail, "whether an order's proxy has the members of a proxy's detail", func(s *session) finding {
		proxies := s.plainProxies()
		if len(proxies) == 0 {
			return notRun("there is no delivered order")
		}
		return ok("%d members there, %d here", len(proxies[0]), len(s.anyProxy().data()))
	}).costs().open()
	c.rule("order.creation_reply", secCreate, "what the reply to a creation holds beyond order_no and poll_after_seconds", func(s *session) finding {
		data := s.ordered("plain").reply.data()
		return ok("%d members, credentials: %t", len(data), secretIn(data) != "")
	}).costs().open()
	c.rule("order.items_structure", secOrder, "what a line of items holds", func(s *session) finding {
		items, _ := attempt(func() []dict { return entriesOf(dataOf("order_detail"), "items")(s) })
		if len(items) == 0 {
			return notRun("there is no order")
		}
		return ok("%d members", len(items[0]))
	}).open()
}

// cidrChecks need Config.CIDRField, because the API document does not name the field.
func cidrChecks(c *suite) {
	refusal := func(id, sentence, items string) {
		c.rule("order.cidr."+id, secCreate, sentence, asks(func(s *session) request {
			o, _ := attempt(s.chosenOffer)
			if s.cfg.CIDRField == "" || o.cidr == "" {
				s.skipf("the name of the CIDR field is not given")
			}
			s.afford(2 * o.cents)
			body := fmt.Sprintf(`{"duration_days":30,"items":[{"offer_code":%[1]q,"quantity":1,%[2]q:[%[3]q]},`+items+`]}`, o.code, s.cfg.CIDRField, o.cidr)
			return post("/api/v1/orders", "cidr", body)
		}, refusing("validation_error")))
	}
	c.rule("order.cidr.accepted", secCreate, "an order for one of the offer's CIDRs is accepted", created("cidrs")).costs()
	refusal("twice", "the same CIDR twice for one offer is refused with validation_error", `{"offer_code":%[1]q,"quantity":1,%[2]q:[%[3]q]}`)
	refusal("mixed", "random allocation and a CIDR for one offer are refused with validation_error", `{"offer_code":%[1]q,"quantity":1}`)
}

func orderListChecks(c *suite) {
	c.rule("orders.key", secOrders, "the key that holds the orders", listKey("order_list")).open()
	c.rule("orders.no_credentials", secOrders, "the list of orders holds no credentials", func(s *session) finding {
		s.tryToBuy("plain")
		r := s.get("/api/v1/orders")
		if name := secretIn(r.data()); name != "" {
			return differs("it holds %s", name)
		}
		return when(len(r.items()) == 0, notShown("the list is empty"), ok("%s", r.seen()))
	})
	c.rule("orders.no_password_of_order", secOrders, "no password that was delivered stands in the list of orders", passwordInList).costs()
	c.rule("orders.stable", secOrders, "two reads of the list have one order", func(s *session) finding {
		s.tryToBuy("plain")
		return orderList.sameOrder(s)
	})
	c.rule("orders.holds_new", secOrders, "a new order stands in the list", func(s *session) finding {
		b, w := s.ordered("plain"), s.walk(orderList, 50)
		return when(w.why != "" || !w.ids[b.orderNo], differs("%d orders, %s", len(w.ids), w.why), ok("among %d", len(w.ids)))
	}).costs()
	c.rule("orders.summary", secOrders, "what a summary holds", of(listed("/api/v1/orders"), func(items []dict) finding {
		return ok("%d members, order_no: %t", len(items[0]), word(items[0], "order_no") != "")
	})).open()
}

func listKey(name string) judgement {
	return reading(name, func(_ *session, data dict) finding {
		key, _, found := onlyArray(data)
		return ok("%q, exactly one array: %t", brief(key), found)
	})
}

func passwordInList(s *session) finding {
	proxies := s.plainProxies()
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

func scenarioOrders() []purchase {
	return slices.DeleteFunc(slices.Clone(purchases), func(p purchase) bool { return p.scenario == "" })
}

func stateChecks(c *suite) {
	for _, p := range scenarioOrders() {
		p.progressChecks(c, "scenario "+p.name)
	}
	findPurchase(purchases, "plain").progressChecks(c, "an order without a scenario")
}

func (p purchase) progressChecks(c *suite, what string) {
	g := group{c, "state." + p.name, secOrderState, what + ":", true, p.only}
	made := func(s *session) *bought { return s.ordered(p.name) }
	check := func(id, sentence string, wrong func(data dict, d delivery) string) {
		g.rule(id, sentence, of(made, func(b *bought) finding {
			for i, r := range b.reads {
				if !r.succeeded() {
					return differs("read %d: %s", i+1, r.seen())
				}
				if why := wrong(r.data(), deliveryOf(r.data())); why != "" {
					return differs("read %d: %s", i+1, why)
				}
			}
			return ok("%d reads", len(b.reads))
		}))
	}
	check("poll_while_in_progress", "while paid or procuring, poll_after_seconds is an integer or null", func(data dict, _ delivery) string {
		v, there := data["poll_after_seconds"]
		return textIf(inProgress(word(data, "status")) && (!there || v != nil && !integer.fits(v)), "poll_after_seconds is %s", typeName(v))
	})
	check("nothing_before_available", "proxies is empty until delivery.available", func(_ dict, d delivery) string {
		return textIf(d.proxies > 0 && !d.available, "%d proxies", d.proxies)
	})
	check("no_credentials_before_available", "no credentials anywhere until delivery.available", func(data dict, d delivery) string {
		return textIf(!d.available, "%s", secretIn(data))
	})
	check("delivered_at_most_expected", "delivered_count never exceeds expected_count", func(_ dict, d delivery) string {
		return textIf(d.delivered > d.expected, "%d of %d", d.delivered, d.expected)
	})
	check("incomplete_is_unavailable", "fewer than expected are neither complete nor available", func(_ dict, d delivery) string {
		return textIf(d.delivered < d.expected && (d.complete || d.available), "%d of %d", d.delivered, d.expected)
	})
	g.rule("counts_never_fall", "delivered_count never falls", of(made, (*bought).neverFalls))
	g.rule("ends", "it ends, and poll_after_seconds is null then", func(s *session) finding { return made(s).endsWell(s.cfg.Production) })
}

func textIf(wrong bool, format string, args ...any) string {
	if !wrong {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func (b *bought) neverFalls() finding {
	var before int64
	for _, r := range b.reads {
		now := deliveryOf(r.data()).delivered
		if now < before {
			return differs("from %d to %d", before, now)
		}
		before = now
	}
	return ok("%d reads", len(b.reads))
}

// endsWell requires that the order ends in time, with a poll_after_seconds of null.
func (b *bought) endsWell(production bool) finding {
	v, there := b.last().data()["poll_after_seconds"]
	status := brief(word(b.last().data(), "status"))
	switch {
	case !b.ended && production && b.last().succeeded():
		return notShown("still %q after %d reads in %s", status, len(b.reads), patience)
	case !b.ended:
		return differs("still %q after %d reads in %s", status, len(b.reads), patience)
	case !there || v != nil:
		return differs("status %q, poll_after_seconds is %s", status, typeName(v))
	}
	return ok("status %q, null", status)
}

func scenarioChecks(c *suite) {
	for _, p := range scenarioOrders() {
		g := group{c, "scenario." + p.name, secScenario, "scenario " + p.name, true, onlySandbox}
		made := func(s *session) *bought { return s.ordered(p.name) }
		g.rule("created", "is accepted with HTTP 201", created(p.name))
		g.rule("asynchronous", "is not finished when it is accepted", of(made, func(b *bought) finding { return b.beginsUnfinished(p.name) }))
		g.rule("debited", "debits the test wallet by total_cents first", of(made, func(b *bought) finding { return b.debited(b.reads[0].data(), "total_cents") }))
		if p.name != "rejected" {
			g.rule("delivers_all", "ends with all test IPs", func(s *session) finding {
				return countsAgree(s.delivered(p.name).last().data(), p.quantity)
			})
		}
	}
	c.rule("scenario.partial.progress", secScenario, "scenario partial shows some of its IPs counted before all are delivered", func(s *session) finding { return s.ordered("partial").someProgress() }).costs().in(onlySandbox)
	rejectedChecks(c)
	scenarioHeaderChecks(c)
}

// someProgress requires a read that shows a partial delivery. If no read shows one, the verdict
// is NotShown, because the server decides how long a partial delivery lasts.
func (b *bought) someProgress() finding {
	for i, r := range b.reads {
		if d := deliveryOf(r.data()); d.delivered > 0 && d.delivered < d.expected {
			return ok("%d of %d at read %d", d.delivered, d.expected, i+1)
		}
	}
	return notShown("no read met it")
}

// beginsUnfinished requires an unfinished order at the first read. For a finished order, the
// verdict is Differs only if the scenario is delayed or partial.
func (b *bought) beginsUnfinished(scenario string) finding {
	first := b.reads[0].data()
	if d := deliveryOf(first); d.complete || d.proxies > 0 || first["refund"] != nil {
		return when(scenario == "delayed" || scenario == "partial", differs("finished at the first read"), notShown("finished at the first read"))
	}
	return ok("status %q, poll_after_seconds %s", brief(word(first, "status")), typeName(first["poll_after_seconds"]))
}

func rejectedChecks(c *suite) {
	g := group{c, "scenario.rejected", secScenario, "a rejected order", true, onlySandbox}
	check := func(id, sentence string, do func(b *bought, data dict) finding) {
		g.rule(id, sentence, func(s *session) finding {
			b := s.delivered("rejected")
			return do(b, b.last().data())
		})
	}
	check("delivers_none", "delivers no IP", func(_ *bought, data dict) finding {
		d := deliveryOf(data)
		return when(d.proxies > 0 || d.delivered > 0 || d.available, differs("%d proxies, delivered_count %d", d.proxies, d.delivered), ok("none"))
	})
	check("wallet_returns", "returns its whole charge to the test wallet", func(b *bought, _ dict) finding {
		return when(b.closing != b.before, differs("the wallet held %d cents before and %d at the end", b.before, b.closing), ok("%d cents before and at the end", b.before))
	})
	check("refund_shown", "shows refund with destination and status", func(_ *bought, data dict) finding {
		destination, status := brief(word(data, "refund.destination")), brief(word(data, "refund.status"))
		return when(destination == "" || status == "", differs("refund is %s", typeName(data["refund"])), ok("%q to %q", status, destination))
	})
	check("refund_amount", "shows the amount that was charged", func(_ *bought, data dict) finding {
		amount, known := cents(data, "refund.amount_cents")
		total, _ := cents(data, "total_cents")
		return when(!known || amount != total, differs("refund %d cents of %d", amount, total), ok("%d cents", amount))
	})
	check("refund_currency", "is refunded in its currency", func(_ *bought, data dict) finding {
		refunded, currency := word(data, "refund.currency"), word(data, "currency")
		return when(refunded != currency, differs("%q", brief(refunded)), ok("%s", currency))
	})
}

// scenarioHeaderChecks order an unknown offer, so that no server can charge. A server may
// therefore refuse the order because of the offer.
func scenarioHeaderChecks(c *suite) {
	order := func(value, offer string) request {
		r := post("/api/v1/orders", "scenario", lines(offer, 1, 1))
		r.scenario = value
		return r
	}
	c.rule("scenario.unknown_value", secScenario, "what an unknown scenario gets", order("conformance", unknown).wants(recorded)).in(onlySandbox).open()
	refuses := func(id, what, value string) {
		c.rule("scenario.production."+id, secScenario, "production refuses "+what, func(s *session) finding {
			offer := subjectOf(s, "order")
			r := s.send(order(value, offer))
			return when(r.code() == "offer_not_found" && offer == unknown,
				notShown("%s: the order named an unknown offer, so that nothing could be charged", r.seen()), refusedAnyhow(r))
		}).in(onlyProduction)
	}
	for _, p := range scenarioOrders() {
		refuses(p.name, "scenario "+p.name, p.scenario)
	}
	refuses("unknown", "an unknown scenario", "conformance")
}
