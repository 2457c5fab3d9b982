// Checks of an order's progress, and of the scenarios in a sandbox.

package conformance

import (
	"fmt"
	"slices"
)

// scenarioOrders are the orders with a scenario header in a sandbox.
var scenarioOrders = []ordered{
	{"success", "scenario success", 1, onlySandbox}, {"delayed", "scenario delayed", 1, onlySandbox},
	{"partial", "scenario partial", 2, onlySandbox}, {"rejected", "scenario rejected", 1, onlySandbox},
}

// stateChecks check the progress of orders.
func stateChecks() []Check {
	return each(append(slices.Clone(scenarioOrders), ordered{"plain", "an order without a scenario", 2, ""}), ordered.progressChecks)
}

// progressChecks check every detail that was read while the order progressed.
func (o ordered) progressChecks() []Check {
	g := group{"state." + o.name, secOrderState, o.what + ":", true, o.only}
	check := func(id, sentence string, wrong func(data map[string]any, d delivery) string) Check {
		return g.rule(id, sentence, given(orderMade(o.name), func(_ *session, b *bought) finding {
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
	return []Check{
		check("poll_while_in_progress", "while paid or procuring, poll_after_seconds is an integer or null", func(data map[string]any, _ delivery) string {
			v, there := data["poll_after_seconds"]
			return textIf(inProgress(word(data, "status")) && (!there || v != nil && !integer.fits(v)), "poll_after_seconds is %s", typeName(v))
		}),
		check("nothing_before_available", "proxies is empty until delivery.available", func(_ map[string]any, d delivery) string {
			return textIf(d.proxies > 0 && !d.available, "%d proxies", d.proxies)
		}),
		check("no_credentials_before_available", "no credentials anywhere until delivery.available", func(data map[string]any, d delivery) string {
			return textIf(!d.available, "%s", secretIn(data))
		}),
		check("delivered_at_most_expected", "delivered_count never exceeds expected_count", func(_ map[string]any, d delivery) string {
			return textIf(d.delivered > d.expected, "%d of %d", d.delivered, d.expected)
		}),
		check("incomplete_is_unavailable", "fewer than expected are neither complete nor available", func(_ map[string]any, d delivery) string {
			return textIf(d.delivered < d.expected && (d.complete || d.available), "%d of %d", d.delivered, d.expected)
		}),
		g.rule("counts_never_fall", "delivered_count never falls", given(orderMade(o.name), neverFalls)),
		g.rule("ends", "it ends, and poll_after_seconds is null then", given(orderMade(o.name), endsWell)),
	}
}

func textIf(wrong bool, format string, args ...any) string {
	if !wrong {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func neverFalls(_ *session, b *bought) finding {
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
func endsWell(s *session, b *bought) finding {
	v, there := b.last().data()["poll_after_seconds"]
	status := brief(word(b.last().data(), "status"))
	switch {
	case !b.ended && s.cfg.Production && b.last().succeeded():
		return notShown("still %q after %d reads in %s", status, len(b.reads), patience)
	case !b.ended:
		return differs("still %q after %d reads in %s", status, len(b.reads), patience)
	case !there || v != nil:
		return differs("status %q, poll_after_seconds is %s", status, typeName(v))
	}
	return ok("status %q, null", status)
}

// scenarioChecks check the effect of each scenario.
func scenarioChecks() []Check {
	var out []Check
	for _, o := range scenarioOrders {
		g := group{"scenario." + o.name, secScenario, "scenario " + o.name, true, onlySandbox}
		out = append(out,
			g.rule("created", "is accepted with HTTP 201", created(o.name)),
			g.rule("asynchronous", "is not finished when it is accepted", given(orderMade(o.name), func(_ *session, b *bought) finding { return beginsUnfinished(b, o.name) })),
			g.rule("debited", "debits the test wallet by total_cents first", given(orderMade(o.name), func(_ *session, b *bought) finding {
				return b.debited(b.reads[0].data(), "total_cents")
			})))
		if o.name != "rejected" {
			out = append(out, g.rule("delivers_all", "ends with all test IPs", given(delivered(o.name), func(_ *session, b *bought) finding {
				return countsAgree(b.last().data(), o.quantity)
			})))
		}
	}
	out = append(out, rule("scenario.partial.progress", secScenario, "scenario partial shows some of its IPs counted before all are delivered", given(orderMade("partial"), someProgress)).costs().in(onlySandbox))
	return append(append(out, rejectedChecks()...), scenarioHeaderChecks()...)
}

// someProgress requires a partial delivery. The verdict is NotShown if no read showed a
// partial delivery, because the server decides how long it lasts.
func someProgress(_ *session, b *bought) finding {
	for i, r := range b.reads {
		if d := deliveryOf(r.data()); d.delivered > 0 && d.delivered < d.expected {
			return ok("%d of %d at read %d", d.delivered, d.expected, i+1)
		}
	}
	return notShown("no read met it")
}

// beginsUnfinished requires an unfinished order at the first read. For a finished order, the
// verdict is Differs only if the scenario is delayed or partial.
func beginsUnfinished(b *bought, scenario string) finding {
	first := b.reads[0].data()
	if d := deliveryOf(first); d.complete || d.proxies > 0 || first["refund"] != nil {
		return when(scenario == "delayed" || scenario == "partial", differs("finished at the first read"), notShown("finished at the first read"))
	}
	return ok("status %q, poll_after_seconds %s", brief(word(first, "status")), typeName(first["poll_after_seconds"]))
}

func rejectedChecks() []Check {
	g := group{"scenario.rejected", secScenario, "a rejected order", true, onlySandbox}
	check := func(id, sentence string, do func(b *bought, data map[string]any) finding) Check {
		return g.rule(id, sentence, given(delivered("rejected"), func(_ *session, b *bought) finding { return do(b, b.last().data()) }))
	}
	return []Check{
		check("delivers_none", "delivers no IP", func(_ *bought, data map[string]any) finding {
			d := deliveryOf(data)
			return when(d.proxies > 0 || d.delivered > 0 || d.available, differs("%d proxies, delivered_count %d", d.proxies, d.delivered), ok("none"))
		}),
		check("wallet_returns", "returns its whole charge to the test wallet", func(b *bought, _ map[string]any) finding {
			return when(b.closing != b.before, differs("the wallet held %d cents before and %d at the end", b.before, b.closing), ok("%d cents before and at the end", b.before))
		}),
		check("refund_shown", "shows refund with destination and status", func(_ *bought, data map[string]any) finding {
			destination, status := brief(word(data, "refund.destination")), brief(word(data, "refund.status"))
			return when(destination == "" || status == "", differs("refund is %s", typeName(data["refund"])), ok("%q to %q", status, destination))
		}),
		check("refund_amount", "shows the amount that was charged", func(_ *bought, data map[string]any) finding {
			amount, known := cents(data, "refund.amount_cents")
			total, _ := cents(data, "total_cents")
			return when(!known || amount != total, differs("refund %d cents of %d", amount, total), ok("%d cents", amount))
		}),
		check("refund_currency", "is refunded in its currency", func(_ *bought, data map[string]any) finding {
			refunded, currency := word(data, "refund.currency"), word(data, "currency")
			return when(refunded != currency, differs("%q", brief(refunded)), ok("%s", currency))
		}),
	}
}

// scenarioHeaderChecks order an unknown offer, so that no server can charge. The unknown
// offer may then cause the refusal.
func scenarioHeaderChecks() []Check {
	order := func(value, offer string) request {
		r := post("/api/v1/orders", "scenario", lines(offer, 1, 1))
		r.scenario = value
		return r
	}
	values := [][3]string{{"success", "scenario success", "success"}, {"delayed", "scenario delayed", "delayed"}, {"partial", "scenario partial", "partial"},
		{"rejected", "scenario rejected", "rejected"}, {"unknown", "an unknown scenario", "conformance"}}
	return append([]Check{
		rule("scenario.unknown_value", secScenario, "what an unknown scenario gets", order("conformance", unknown).wants(recorded)).in(onlySandbox).open(),
	}, each(values, func(v [3]string) []Check {
		return []Check{rule("scenario.production."+v[0], secScenario, "production refuses "+v[1], func(s *session) finding {
			offer := s.subjectOf("order")
			r := s.send(order(v[2], offer))
			return when(r.code() == "offer_not_found" && offer == unknown,
				notShown("%s: the order named an unknown offer, so that nothing could be charged", r.seen()), refusedAnyhow(r))
		}).in(onlyProduction)}
	})...)
}
