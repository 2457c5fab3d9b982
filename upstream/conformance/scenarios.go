// Checks of an order's course, and of the sandbox's scenarios.

package conformance

import "fmt"

// scenarioOrders are the orders with a scenario header, in a sandbox.
var scenarioOrders = []ordered{
	{"success", "scenario success", 1, onlySandbox}, {"delayed", "scenario delayed", 1, onlySandbox},
	{"partial", "scenario partial", 2, onlySandbox}, {"rejected", "scenario rejected", 1, onlySandbox},
}

// stateChecks are the course of an order, in whatever environment.
func stateChecks() []Check {
	var out []Check
	for _, o := range scenarioOrders {
		out = append(out, o.course()...)
	}
	return append(out, ordered{"plain", "an order without a scenario", 2, ""}.course()...)
}

// reads judges every read of an order's detail, from the first to the last.
func reads(name string, judge func(data map[string]any) string) func(*session) finding {
	return given(readsMade(name), func(_ *session, b *bought) finding {
		for i, r := range b.reads {
			if !r.succeeded() {
				return differs("read %d: %s", i+1, r.seen())
			}
			if wrong := judge(r.data()); wrong != "" {
				return differs("read %d: %s", i+1, wrong)
			}
		}
		return ok("%d reads", len(b.reads))
	})
}

func (o ordered) course() []Check {
	check := group{"state." + o.name, secOrderState, o.what + ":", true, o.only}.check
	return []Check{
		check("poll_while_in_progress", "while paid or procuring, poll_after_seconds is an integer or null", reads(o.name, func(data map[string]any) string {
			if v, there := data["poll_after_seconds"]; inProgress(word(data, "status")) && (!there || v != nil && !integer.fits(v)) {
				return "poll_after_seconds is " + typeName(v)
			}
			return ""
		})),
		check("nothing_before_available", "proxies is empty until delivery.available", reads(o.name, func(data map[string]any) string {
			if n := len(things(data, "proxies")); n > 0 && !truth(data, "delivery.available") {
				return fmt.Sprintf("%d proxies", n)
			}
			return ""
		})),
		check("no_credentials_before_available", "no credentials anywhere until delivery.available", reads(o.name, func(data map[string]any) string {
			if truth(data, "delivery.available") {
				return ""
			}
			return secretIn(data)
		})),
		check("delivered_at_most_expected", "delivered_count never exceeds expected_count", reads(o.name, func(data map[string]any) string {
			delivered, _ := cents(data, "delivery.delivered_count")
			if expected, _ := cents(data, "delivery.expected_count"); delivered > expected {
				return fmt.Sprintf("%d of %d", delivered, expected)
			}
			return ""
		})),
		check("incomplete_is_unavailable", "fewer than expected are neither complete nor available", reads(o.name, func(data map[string]any) string {
			delivered, _ := cents(data, "delivery.delivered_count")
			expected, _ := cents(data, "delivery.expected_count")
			if delivered < expected && (truth(data, "delivery.complete") || truth(data, "delivery.available")) {
				return fmt.Sprintf("%d of %d", delivered, expected)
			}
			return ""
		})),
		check("counts_never_fall", "delivered_count never falls", given(readsMade(o.name), neverFalls)),
		check("ends", "it ends, and poll_after_seconds is null then", given(readsMade(o.name), endsWell)),
	}
}

func neverFalls(_ *session, b *bought) finding {
	var before int64
	for i := range b.reads {
		now, _ := cents(b.reads[i].data(), "delivery.delivered_count")
		if now < before {
			return differs("from %d to %d", before, now)
		}
		before = now
	}
	return ok("%d reads", len(b.reads))
}

// endsWell wants an end in the time that the run has, shown by null.
func endsWell(s *session, b *bought) finding {
	data := b.last().data()
	v, there := data["poll_after_seconds"]
	switch {
	case !b.ended && s.cfg.Production && b.last().succeeded():
		return notShown("still %q after %d reads in %s", brief(word(data, "status")), len(b.reads), s.cfg.Patience)
	case !b.ended:
		return differs("still %q after %d reads in %s", brief(word(data, "status")), len(b.reads), s.cfg.Patience)
	case !there || v != nil:
		return differs("status %q, poll_after_seconds is %s", brief(word(data, "status")), typeName(v))
	}
	return ok("status %q, null", brief(word(data, "status")))
}

// scenarioChecks are the effects of each value of the header.
func scenarioChecks() []Check {
	var out []Check
	for _, o := range scenarioOrders {
		out = append(out,
			Check{ID: "scenario." + o.name + ".created", Section: secScenario, Costs: true, only: onlySandbox, Sentence: "scenario " + o.name + " is accepted with HTTP 201",
				run: func(s *session) finding { return createdWell(s.buy(o.name)) }},
			Check{ID: "scenario." + o.name + ".asynchronous", Section: secScenario, Costs: true, only: onlySandbox,
				Sentence: "scenario " + o.name + " is not finished when it is accepted", run: given(readsMade(o.name), func(_ *session, b *bought) finding { return beginsUnfinished(b, o.name) })},
			Check{ID: "scenario." + o.name + ".debited", Section: secScenario, Costs: true, only: onlySandbox,
				Sentence: "scenario " + o.name + " debits the test wallet by total_cents first", run: given(readsMade(o.name), func(_ *session, b *bought) finding {
					return b.debited(b.reads[0].data(), "total_cents")
				})})
		if o.name != "rejected" {
			out = append(out, Check{ID: "scenario." + o.name + ".delivers_all", Section: secScenario, Costs: true, only: onlySandbox,
				Sentence: "scenario " + o.name + " ends with all test IPs", run: given(delivered(o.name), func(_ *session, b *bought) finding { return countsAgree(b.last().data(), o.quantity) })})
		}
	}
	out = append(out, Check{ID: "scenario.partial.progress", Section: secScenario, Costs: true, only: onlySandbox, Sentence: "scenario partial shows some of its IPs counted before all are delivered",
		run: given(readsMade("partial"), someProgress)})
	return append(append(out, rejectedChecks()...), scenarioHeaderChecks()...)
}

// someProgress looks for a read between none and all. Reads are as far apart as
// the server says, so that none may have been at that moment.
func someProgress(_ *session, b *bought) finding {
	for i := range b.reads {
		delivered, _ := cents(b.reads[i].data(), "delivery.delivered_count")
		if expected, _ := cents(b.reads[i].data(), "delivery.expected_count"); delivered > 0 && delivered < expected {
			return ok("%d of %d at read %d", delivered, expected, i+1)
		}
	}
	return notShown("no read met it")
}

// beginsUnfinished observes that an order that is delayed, or partial first, is not
// finished at once.
func beginsUnfinished(b *bought, scenario string) finding {
	first := b.reads[0].data()
	if truth(first, "delivery.complete") || len(things(first, "proxies")) > 0 || first["refund"] != nil {
		if scenario == "delayed" || scenario == "partial" {
			return differs("finished at the first read")
		}
		return notShown("finished at the first read")
	}
	return ok("status %q, poll_after_seconds %s", brief(word(first, "status")), typeName(first["poll_after_seconds"]))
}

func rejectedChecks() []Check {
	of := func(do func(b *bought, data map[string]any) finding) func(*session) finding {
		return given(delivered("rejected"), func(_ *session, b *bought) finding { return do(b, b.last().data()) })
	}
	check := group{"scenario.rejected", secScenario, "a rejected order", true, onlySandbox}.check
	return []Check{
		check("delivers_none", "delivers no IP", of(func(_ *bought, data map[string]any) finding {
			delivered, _ := cents(data, "delivery.delivered_count")
			if n := len(things(data, "proxies")); n > 0 || delivered > 0 || truth(data, "delivery.available") {
				return differs("%d proxies, delivered_count %d", n, delivered)
			}
			return ok("none")
		})),
		check("wallet_returns", "returns its whole charge to the test wallet", of(func(b *bought, _ map[string]any) finding {
			if b.closing != b.before {
				return differs("the wallet held %d cents before and %d at the end", b.before, b.closing)
			}
			return ok("%d cents before and at the end", b.before)
		})),
		check("refund_shown", "shows refund with destination and status", of(func(_ *bought, data map[string]any) finding {
			if word(data, "refund.destination") == "" || word(data, "refund.status") == "" {
				return differs("refund is %s", typeName(data["refund"]))
			}
			return ok("%q to %q", brief(word(data, "refund.status")), brief(word(data, "refund.destination")))
		})),
		check("refund_amount", "shows the amount that was charged", of(func(_ *bought, data map[string]any) finding {
			amount, known := cents(data, "refund.amount_cents")
			if total, _ := cents(data, "total_cents"); !known || amount != total {
				return differs("refund %d cents of %d", amount, total)
			}
			return ok("%d cents", amount)
		})),
		check("refund_currency", "is refunded in its currency", of(func(_ *bought, data map[string]any) finding {
			if word(data, "refund.currency") != word(data, "currency") {
				return differs("%q", brief(word(data, "refund.currency")))
			}
			return ok("%s", word(data, "currency"))
		})),
	}
}

// scenarioHeaderChecks observe that production refuses the header. Where nothing may be spent
// the order names an unknown offer, and the refusal may be for that.
func scenarioHeaderChecks() []Check {
	out := make([]Check, 0, 6)
	out = append(out, Check{ID: "scenario.unknown_value", Section: secScenario, only: onlySandbox, Open: true, Sentence: "what an unknown scenario gets", run: request{method: "POST", path: "/api/v1/orders", fresh: "scenario", scenario: "conformance", body: []byte(lines(unknown, 1, 1))}.wants(recorded)})
	for _, value := range []string{"success", "delayed", "partial", "rejected", ""} {
		id, what := value, "scenario "+value
		if value == "" {
			id, what = "unknown", "an unknown scenario"
			value = "conformance"
		}
		out = append(out, Check{ID: "scenario.production." + id, Section: secScenario, only: onlyProduction, Sentence: "production refuses " + what, run: func(s *session) finding {
			code := s.subjectOf("order")
			r := s.send(request{method: "POST", path: "/api/v1/orders", fresh: "scenario", scenario: value, body: []byte(lines(code, 1, 1))})
			if r.code() == "offer_not_found" && code == unknown {
				return notShown("%s: the order named an unknown offer, so that nothing could be charged", r.seen())
			}
			return refusedAnyhow(r)
		}})
	}
	return out
}

// cidrChecks need the name of the field, which the document does not give.
func cidrChecks() []Check {
	refusedWith := func(items func(field, code, cidr string) string) func(*session) finding {
		return func(s *session) finding {
			o, why := s.chosenOffer()
			switch {
			case s.cfg.CIDRField == "" || why != "" || o.cidr == "":
				return notRun("the name of the CIDR field is not given")
			case s.afford(2*o.cents) != "":
				return notRun("%s", s.afford(2*o.cents))
			}
			return refused(s.send(post("/api/v1/orders", "cidr", `{"duration_days":30,"items":[`+items(s.cfg.CIDRField, o.code, o.cidr)+`]}`)), "validation_error")
		}
	}
	line := func(field, code, cidr string) string {
		return fmt.Sprintf(`{"offer_code":%q,"quantity":1,%q:[%q]}`, code, field, cidr)
	}
	return []Check{
		{ID: "order.cidr.accepted", Section: secCreate, Costs: true, Sentence: "an order for one of the offer's CIDRs is accepted", run: func(s *session) finding { return createdWell(s.buy("cidrs")) }},
		{ID: "order.cidr.twice", Section: secCreate, Sentence: "the same CIDR twice for one offer is refused with validation_error",
			run: refusedWith(func(f, code, cidr string) string { return line(f, code, cidr) + "," + line(f, code, cidr) })},
		{ID: "order.cidr.mixed", Section: secCreate, Sentence: "random allocation and a CIDR for one offer are refused with validation_error",
			run: refusedWith(func(f, code, cidr string) string {
				return line(f, code, cidr) + fmt.Sprintf(`,{"offer_code":%q,"quantity":1}`, code)
			})},
	}
}
