// Checks of a renewal's result.

package conformance

import (
	"net/http"
	"slices"
)

// renewChecks are a renewal's result, line by line and sum by sum.
func renewChecks() []Check {
	var out []Check
	for _, name := range []string{"one", "two"} {
		out = append(out, completedChecks(name)...)
	}
	out = append(out, refusalChecks("renewal", secRenew, "/api/v1/proxies/renew", renewRefusals)...)
	out = append(out, capitalCheck("renewal", secRenew, "/api/v1/proxies/renew", `{"PROXY_IDS":["SUBJECT"],"DURATION_DAYS":30}`))
	return append(out,
		Check{ID: "renewal.longest", Section: secLimits, Costs: true, Sentence: "a renewal for 1080 days, the longest multiple of 30, is accepted", run: func(s *session) finding {
			r := s.renew("longest")
			if r.reply.status == 0 {
				return notRun("%s", r.why)
			}
			return succeeds(r.reply)
		}},
		Check{ID: "renewal.foreign", Section: secProxies, only: onlySandbox, Sentence: "another account's proxy is refused with proxy_not_found", run: asks(foreignRenewal, refusing("proxy_not_found"))},
		Check{ID: "renewal.with_unknown", Section: secRenew, Costs: true, Open: true, Sentence: "what a renewal of a good and an unknown proxy gets", run: asks(func(s *session) (request, string) {
			if len(s.ownProxies()) == 0 {
				return request{}, "the run has no proxy of its own"
			}
			return post("/api/v1/proxies/renew", "mixed", string(renewBody([]string{unknown}, 30))), ""
		}, recorded)},
		Check{ID: "renewal.same_id_twice", Section: secRenew, Open: true, Sentence: "what a renewal that names one proxy twice gets", run: request{method: http.MethodPost, path: "/api/v1/proxies/renew", fresh: "twice", body: renewBody([]string{unknown, unknown}, 30)}.wants(recorded)},
		Check{ID: "renewal.price", Section: secRenew, Costs: true, Open: true, Sentence: "what a renewal costs beside the offer's price", run: given(renewalMade("one"), func(s *session, r *renewed) finding {
			o, _ := s.chosenOffer()
			total, _ := cents(r.reply.data(), "total_cents")
			return ok("%d cents, the offer's price is %d for %d days", total, o.cents, o.base)
		})},
		Check{ID: "renewal.extends_from", Section: secRenew, Costs: true, Open: true, Sentence: "from when a renewal counts", run: given(renewalMade("one"), func(_ *session, r *renewed) finding {
			return ok("the expiry moved by %s", r.expiry[1][r.ids[0]].Sub(r.expiry[0][r.ids[0]]))
		})})
}

// completedChecks of a renewal in which every item succeeds.
func completedChecks(name string) []Check {
	of := func(do func(r *renewed, data map[string]any) finding) func(*session) finding {
		return given(renewalMade(name), func(_ *session, r *renewed) finding { return do(r, r.reply.data()) })
	}
	check := func(id, section, sentence string, run func(*session) finding) Check {
		return Check{ID: "renewal." + name + "." + id, Section: section, Costs: true, Sentence: "a renewal of " + name + " " + sentence, run: run}
	}
	return append([]Check{
		check("accepted", secRenew, "is accepted", func(s *session) finding {
			r := s.renew(name)
			if r.reply.status == 0 && r.reply.err == nil {
				return notRun("%s", r.why)
			}
			return succeeds(r.reply)
		}),
		check("completed", secRenewState, "is completed, with every id among the successful", of(func(r *renewed, data map[string]any) finding {
			if got := words(data, "successful_proxy_ids"); word(data, "status") != "completed" || !sameSet(got, r.ids) {
				return differs("status %q, %d of %d successful", brief(word(data, "status")), len(got), len(r.ids))
			}
			return ok("completed")
		})),
		check("nothing_refunded", secRenewal, "has refunded nothing", of(func(_ *renewed, data map[string]any) finding {
			if n, known := cents(data, "refunded_cents"); !known || n != 0 {
				return differs("refunded_cents is %s", typeName(data["refunded_cents"]))
			}
			return ok("0")
		})),
		check("debited", secRenewal, "debits the wallet by exactly charged_cents", of(func(r *renewed, data map[string]any) finding {
			return r.debited(data, "charged_cents")
		})),
		check("expiry_moves", secRenewal, "moves every expires_at that the proxies endpoints show", of(func(r *renewed, _ map[string]any) finding {
			for _, id := range r.ids {
				if !r.expiry[1][id].After(r.expiry[0][id]) {
					return differs("an expiry did not move")
				}
			}
			return ok("%d moved", len(r.ids))
		})),
	}, sumChecks("renewal."+name, secRenewal, "a renewal of "+name, func(s *session) (map[string]any, []string, string) {
		r := s.renew(name)
		return r.reply.data(), r.ids, r.why
	})...)
}

// sumChecks hold for every renewal's result, however it ended.
func sumChecks(prefix, section, what string, result func(*session) (data map[string]any, ids []string, why string)) []Check {
	of := func(do func(data map[string]any, ids []string) finding) func(*session) finding {
		return func(s *session) finding {
			data, ids, why := result(s)
			if why != "" {
				return notRun("%s", why)
			}
			return do(data, ids)
		}
	}
	check := group{prefix: prefix, section: section, what: what, costs: true}.check
	sum := func(total, part string) func(map[string]any, []string) finding {
		return func(data map[string]any, _ []string) finding { return sumAgrees(data, total, part) }
	}
	return []Check{
		check("partition", "names every id in exactly one of the three lists", of(func(data map[string]any, ids []string) finding {
			all := slices.Concat(words(data, "successful_proxy_ids"), words(data, "failed_proxy_ids"), words(data, "unresolved_proxy_ids"))
			if len(all) != len(ids) || !sameSet(all, ids) {
				return differs("%d ids in the lists, %d asked for", len(all), len(ids))
			}
			return ok("%d ids", len(ids))
		})),
		check("lines_match_lists", "has one line item for every id, of the state of its list", of(linesMatch)),
		check("charged_sum", "has charged_cents = the sum over its line items", of(sum("charged_cents", "charged_cents"))),
		check("refunded_sum", "has refunded_cents = the sum over its line items", of(sum("refunded_cents", "refunded_cents"))),
		check("total_sum", "has total_cents = the sum of amount_cents over its line items", of(sum("total_cents", "amount_cents"))),
		check("amount_agrees", "has amount as the decimal string of amount_cents in every line", of(func(data map[string]any, _ []string) finding {
			return decimalsAgree(things(data, "line_items"), "amount_cents", "amount")
		})),
	}
}

// sumAgrees compares an amount of the result with the sum of its parts.
func sumAgrees(data map[string]any, name, part string) finding {
	var sum int64
	for _, line := range things(data, "line_items") {
		n, _ := cents(line, part)
		sum += n
	}
	if total, known := cents(data, name); !known || total != sum {
		return differs("%d, the lines sum to %d", total, sum)
	}
	return ok("%d cents", sum)
}

// linesMatch compares line items with the lists, both ways.
func linesMatch(data map[string]any, ids []string) finding {
	items := things(data, "line_items")
	lists := map[string]string{"succeeded": "successful_proxy_ids", "failed": "failed_proxy_ids", "unresolved": "unresolved_proxy_ids"}
	for _, line := range items {
		list, known := lists[word(line, "status")]
		if !known || !slices.Contains(words(data, list), word(line, "proxy_id")) {
			return differs("a line with the state %q is not in the list of that state", brief(word(line, "status")))
		}
	}
	if len(items) != len(ids) {
		return differs("%d lines for %d ids", len(items), len(ids))
	}
	return ok("%d lines", len(items))
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// foreignRenewal asks to renew this account's proxy with another account's key.
func foreignRenewal(s *session) (request, string) {
	one, why := s.anyProxy()
	key := s.keyOf(RoleOther, "")
	switch {
	case key == nil:
		why = "needs a key of another account"
	case s.limit == 0:
		why = "nothing may be spent"
	}
	r := post("/api/v1/proxies/renew", "foreign", string(renewBody([]string{word(one.data(), "proxy_id")}, 30)))
	r.as = key
	return r, why
}
