package conformance

import (
	"net/http"
	"slices"
)

func renewChecks(c *suite) {
	completedChecks(c, "one")
	completedChecks(c, "two")
	renewRefusals.checks(c)
	c.rule("renewal.longest", secLimits, "a renewal for 1080 days, the longest multiple of 30, is accepted", renewalSucceeds("longest")).costs()
	c.rule("renewal.foreign", secProxies, "another account's proxy is refused with proxy_not_found", asks(foreign(anyRenewal), refusing("proxy_not_found"))).in(onlySandbox)
	c.rule("renewal.with_unknown", secRenew, "what a renewal of a good and an unknown proxy gets", asks(func(s *session) request {
		r, ids := s.renewalOf("mixed")
		r.body = []byte(renewBody(append(slices.Clone(ids), unknown), 30))
		return r
	}, recorded)).costs().open()
	c.rule("renewal.same_id_twice", secRenew, "what a renewal that names one proxy twice gets", post("/api/v1/proxies/renew", "twice", renewBody([]string{unknown, unknown}, 30)).wants(recorded)).open()
	c.rule("renewal.price", secRenew, "what a renewal costs beside the offer's price", func(s *session) finding {
		r, o := s.renewed("one"), s.chosenOffer()
		total, _ := cents(r.reply.data(), "total_cents")
		return ok("%d cents, the offer's price is %d for %d days", total, o.cents, o.base)
	}).costs().open()
	c.rule("renewal.extends_from", secRenew, "from when a renewal counts", func(s *session) finding {
		r := s.renewed("one")
		return ok("the expiry moved by %s", r.expiry[1][r.ids[0]].Sub(r.expiry[0][r.ids[0]]))
	}).costs().open()
}

func anyRenewal(s *session) request {
	if s.limit == 0 {
		s.skipf("nothing may be spent")
	}
	return post("/api/v1/proxies/renew", "foreign", renewBody([]string{word(s.anyProxy().data(), "proxy_id")}, 30))
}

func renewalSucceeds(name string) judgement {
	return func(s *session) finding { return succeeds(s.renewalSent(name).reply) }
}

func completedChecks(c *suite, name string) {
	g := group{c, "renewal." + name, secRenewal, "a renewal of " + name, true, ""}
	made := func(s *session) *renewed { return s.renewed(name) }
	check := func(id, sentence string, do func(r *renewed, data dict) finding) *Check {
		return g.rule(id, sentence, of(made, func(r *renewed) finding { return do(r, r.reply.data()) }))
	}
	g.rule("accepted", "is accepted", renewalSucceeds(name)).Section = secRenew
	check("completed", "is completed, with every id among the successful", func(r *renewed, data dict) finding {
		got, status := words(data, "successful_proxy_ids"), word(data, "status")
		return when(status != "completed" || !sameSet(got, r.ids), differs("status %q, %d of %d successful", brief(status), len(got), len(r.ids)), ok("completed"))
	}).Section = secRenewState
	check("nothing_refunded", "has refunded nothing", func(_ *renewed, data dict) finding {
		n, known := cents(data, "refunded_cents")
		return when(!known || n != 0, differs("refunded_cents is %s", typeName(data["refunded_cents"])), ok("0"))
	})
	check("debited", "debits the wallet by exactly charged_cents", func(r *renewed, data dict) finding { return r.debited(data, "charged_cents") })
	check("expiry_moves", "moves every expires_at that the proxies endpoints show", func(r *renewed, _ dict) finding {
		stays := slices.ContainsFunc(r.ids, func(id string) bool { return !r.expiry[1][id].After(r.expiry[0][id]) })
		return when(stays, differs("an expiry did not move"), ok("%d moved", len(r.ids)))
	})
	g.sums(made)
}

func (g group) sums(made func(*session) *renewed) {
	check := func(id, sentence string, do func(data dict, ids []string) finding) {
		g.rule(id, sentence, of(made, func(r *renewed) finding { return do(r.reply.data(), r.ids) }))
	}
	sum := func(id, total, part, sentence string) {
		check(id, sentence, func(data dict, _ []string) finding {
			var sum int64
			for _, line := range things(data, "line_items") {
				n, _ := cents(line, part)
				sum += n
			}
			got, known := cents(data, total)
			return when(!known || got != sum, differs("%d, the lines sum to %d", got, sum), ok("%d cents", sum))
		})
	}
	check("partition", "names every id in exactly one of the three lists", func(data dict, ids []string) finding {
		all := slices.Concat(words(data, "successful_proxy_ids"), words(data, "failed_proxy_ids"), words(data, "unresolved_proxy_ids"))
		return when(sameSet(all, ids), ok("%d ids", len(ids)), differs("%d ids in the lists, %d asked for", len(all), len(ids)))
	})
	check("lines_match_lists", "has one line item for every id, of the state of its list", linesMatch)
	sum("charged_sum", "charged_cents", "charged_cents", "has charged_cents = the sum over its line items")
	sum("refunded_sum", "refunded_cents", "refunded_cents", "has refunded_cents = the sum over its line items")
	sum("total_sum", "total_cents", "amount_cents", "has total_cents = the sum of amount_cents over its line items")
	check("amount_agrees", "has amount as the decimal string of amount_cents in every line", func(data dict, _ []string) finding {
		return decimalsAgree(things(data, "line_items"), "amount_cents", "amount")
	})
}

func linesMatch(data dict, ids []string) finding {
	items := things(data, "line_items")
	lists := map[string]string{"succeeded": "successful_proxy_ids", "failed": "failed_proxy_ids", "unresolved": "unresolved_proxy_ids"}
	for _, line := range items {
		list, known := lists[word(line, "status")]
		if !known || !slices.Contains(words(data, list), word(line, "proxy_id")) {
			return differs("a line with the state %q is not in the list of that state", brief(word(line, "status")))
		}
	}
	return when(len(items) != len(ids), differs("%d lines for %d ids", len(items), len(ids)), ok("%d lines", len(items)))
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func unsuccessfulChecks(c *suite, name string) {
	made := func(s *session) *renewed { return s.renewedUnsuccessfully(name) }
	result := func(s *session) *renewed {
		r := made(s)
		if r.reply.data() == nil {
			s.skipf("no result: %s", r.reply.seen())
		}
		return r
	}
	g := group{c, "control.renewal." + name, secRenewState, "a renewal that ends as " + name, true, ""}
	fields := g
	fields.section = secRenewal
	g.sums(result)
	fields.has("has.", renewalFields, func(s *session) []dict {
		return []dict{result(s).reply.data()}
	})
	g.rule("status", "says so", of(made, func(r *renewed) finding { return r.endsAs(name) }))
	g.rule("debited", "debits the wallet by charged_cents", of(made, func(r *renewed) finding { return r.debited(r.reply.data(), "charged_cents") }))
	g.rule("only_failed_refunded", "refunds its failed lines, and only those", of(result, (*renewed).onlyFailedRefunded))
	g.rule("only_succeeded_move", "moves the expiry of what succeeded, and no other", of(made, (*renewed).onlySucceededMove))
}

func (s *session) renewedUnsuccessfully(name string) *renewed {
	return memo(s, "unsuccessful "+name, func() (out *renewed) {
		fault := map[string]setting{"partial": {"failed": 1}, "manual_review": {"unresolved": 1}, "failed": {"failed": 2}}[name]
		fault["fault"] = "renewal"
		f := control{s}.withFault(fault, func(s *session) finding { out = s.renewed(name); return ok("") })
		if f.verdict != OK {
			s.skipf("%s", f.seen)
		}
		return out
	})
}

func (r *renewed) endsAs(name string) finding {
	data := r.reply.data()
	if word(data, "status") != name {
		return differs("%s, status %q", r.reply.seen(), brief(word(data, "status")))
	}
	if name != "failed" {
		return succeeds(r.reply)
	}
	charged, known := cents(data, "charged_cents")
	_, hasWallet := data["wallet"]
	return when(r.reply.status != http.StatusUnprocessableEntity || r.reply.code() != "operation_failed" || !known || charged != 0 || !hasWallet,
		differs("%s, charged_cents %s, wallet %t", r.reply.seen(), typeName(data["charged_cents"]), hasWallet), ok("%s, charged_cents 0, with wallet", r.reply.seen()))
}

func (r *renewed) onlyFailedRefunded() finding {
	lines := things(r.reply.data(), "line_items")
	for _, line := range lines {
		amount, _ := cents(line, "amount_cents")
		refunded, _ := cents(line, "refunded_cents")
		charged, _ := cents(line, "charged_cents")
		if failed := word(line, "status") == "failed"; failed && (refunded != amount || charged != 0) || !failed && (refunded != 0 || charged != amount) {
			return differs("a line that %s: %d of %d cents refunded, %d charged", brief(word(line, "status")), refunded, amount, charged)
		}
	}
	return ok("%d lines", len(lines))
}

func (r *renewed) onlySucceededMove() finding {
	for _, line := range things(r.reply.data(), "line_items") {
		id := word(line, "proxy_id")
		if moved := !r.expiry[0][id].Equal(r.expiry[1][id]); moved != (word(line, "status") == "succeeded") {
			return differs("a line that %s: moved %t", brief(word(line, "status")), moved)
		}
	}
	return ok("%d lines", len(r.ids))
}
