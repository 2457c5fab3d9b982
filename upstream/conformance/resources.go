package conformance

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

func moneyChecks(c *suite) {
	c.rule("wallet.environment.of_key", secWallet, "environment is that of the key", reading("wallet", func(s *session, data dict) finding {
		got := word(data, "environment")
		return when(got == s.cfg.environment(), ok("%s", got), differs("it is %q", brief(got)))
	}))
	c.rule("wallet.cash_value.sandbox", secWallet, "cash_value is false in a sandbox", reading("wallet", func(_ *session, data dict) finding {
		return when(data["cash_value"] == false, ok("false"), differs("it is %s", typeName(data["cash_value"])))
	})).in(onlySandbox)
	c.rule("wallet.cash_value.production", secWallet, "what cash_value is in production", reading("wallet", func(_ *session, data dict) finding {
		return ok("%s", typeName(data["cash_value"]))
	})).in(onlyProduction).open()
	c.rule("wallet.balance_agrees", secConventions, "balance is balance_cents as a decimal string", reading("wallet", func(_ *session, data dict) finding {
		return decimalsAgree([]dict{data}, "balance_cents", "balance")
	}))
	c.rule("wallet.reading_is_free", secWallet, "reading changes no balance", func(s *session) finding {
		return s.around(func() {
			for _, e := range endpoints {
				if e.method == http.MethodGet {
					s.get(e.path)
				}
			}
		}).notCharged()
	})
	c.rule("account.same_again", secAccount, "the account of a key is the same at every read", reading("account", func(s *session, first dict) finding {
		a, b := first["account_id"], s.get("/api/v1/account").data()["account_id"]
		return when(a == nil || a != b, differs("account_id is %s and %s", typeName(a), typeName(b)), ok("the same account_id"))
	}))
	c.rule("account.field_types", secAccount, "the types of the account's fields", reading("account", func(_ *session, data dict) finding {
		return ok("account_id %s, email_verified %s, status %q", typeName(data["account_id"]), typeName(data["email_verified"]), brief(word(data, "status")))
	})).open()
	c.rule("envelope.trace_id.differs", secEnvelope, "two requests have two trace ids", func(s *session) finding {
		one, two := word(s.get("/api/v1/account").envelope, "trace_id"), word(s.get("/api/v1/account").envelope, "trace_id")
		return when(one == "" || one == two, differs("both have the same, or none"), ok("two"))
	})
	c.rule("envelope.timestamp.present", secEnvelope, "timestamp is the present, within the five minutes that requests have", func(s *session) finding {
		r := s.get("/api/v1/account")
		at, known := timeOf(r.envelope["timestamp"])
		return when(!known || at.Sub(s.now()).Abs() > 5*time.Minute, differs("it is %s", typeName(r.envelope["timestamp"])), ok("%s", at.UTC().Format(time.RFC3339)))
	})
	c.rule("envelope.code.ok", secEnvelope, "code is ok and success is true on success", get("/api/v1/account").wants(succeeds))
}

func decimalsAgree(objects []dict, centsName, decimalName string) finding {
	if len(objects) == 0 {
		return notRun("there is nothing to compare")
	}
	for _, o := range objects {
		n, known := cents(o, centsName)
		if text := word(o, decimalName); !known || !agrees(text, n) {
			return differs("%s %s, %s %q", centsName, typeName(o[centsName]), decimalName, brief(text))
		}
	}
	return ok("%d compared", len(objects))
}

type around struct {
	before, after int64
	known         bool
}

func (s *session) around(do func()) around {
	before, knownBefore := s.balance()
	do()
	after, knownAfter := s.balance()
	return around{before, after, knownBefore && knownAfter}
}

func (a around) notCharged() finding {
	if !a.known {
		return notRun("the wallet could not be read")
	}
	return when(a.before != a.after, differs("the wallet went from %d to %d cents", a.before, a.after), ok("the same before and after"))
}

func (a around) debited(data dict, name string) finding {
	amount, has := cents(data, name)
	switch {
	case !a.known:
		return notRun("the wallet could not be read")
	case !has:
		return differs("the amount is not an integer")
	case a.before-a.after != amount:
		return differs("the wallet went from %d to %d cents, the amount is %d", a.before, a.after, amount)
	}
	return ok("%d cents", amount)
}

func offerChecks(c *suite) {
	quote := func(pairs ...pair) judgement {
		return get("/api/v1/offers", pairs...).wants(func(r reply) finding { return ok("%s, %d offers", r.seen(), len(things(r.data(), "offers"))) })
	}
	type filter struct{ parameter, member string }
	c.rule("offers.key", secOffers, "the offers stand under the key offers", func(s *session) finding {
		r := s.replyOf("offers")
		key, items, found := onlyArray(r.data())
		return when(!found || key != "offers", differs("%s, the list is under %q", r.seen(), brief(key)), ok("%d offers", len(items)))
	})
	c.rule("offers.code_unique", secOffer, "no offer_code appears twice in a catalogue", func(s *session) finding {
		return s.walk(offerList, 50).unique()
	})
	c.rule("offers.nothing_found", secOffers, "a filter that nothing matches gives an empty list", get("/api/v1/offers", pair{"country_code", "conformance-nowhere"}).wants(func(r reply) finding {
		if r.code() == "validation_error" {
			return notShown("%s: such a country is refused", r.seen())
		}
		got, isList := r.data()["offers"].([]any)
		return when(!r.succeeded() || !isList || len(got) > 0, differs("%s", r.seen()), ok("an empty list"))
	}))
	c.rule("offers.unit_price_agrees", secOffer, "unit_price is unit_price_cents as a decimal string, of every offer", reading("offers", func(_ *session, data dict) finding {
		return decimalsAgree(things(data, "offers"), "unit_price_cents", "unit_price")
	}))
	c.rule("offers.page_size.200", secLimits, "a page of 200 offers is accepted", get("/api/v1/offers", pair{"page_size", "200"}).wants(succeeds))
	c.rule("offers.page_size.201", secLimits, "a page of 201 offers is not given", get("/api/v1/offers", pair{"page_size", "201"}).wants(func(r reply) finding {
		size, known := cents(r.data(), "page_size")
		shortened := r.succeeded() && known && size > 0 && size <= 200 && len(things(r.data(), "offers")) <= 200
		return when(shortened, ok("given as a page of %d", size), refused(r, "validation_error"))
	}))
	c.rule("offers.duration.multiple_of_30", secLimits, "every offer sells a duration that an order may have", reading("offers", func(_ *session, data dict) finding {
		all := things(data, "offers")
		unsellable := slices.ContainsFunc(all, func(o dict) bool {
			return !slices.ContainsFunc(readOffer(o).days, func(d int64) bool { return d > 0 && d%30 == 0 })
		})
		return when(unsellable, differs("an offer has no duration that is a positive multiple of 30"), ok("%d offers", len(all)))
	}))
	c.rule("offers.quote.beyond", secOffers, "what an offer's quote for more than max_quantity is", quote(pair{"quantity", "2000"}, pair{"duration_days", "30"})).open()
	c.rule("offers.quote.unsold_duration", secOffers, "what a quote for a duration that is not sold is", quote(pair{"duration_days", "45"})).open()
	c.rule("offers.quote.accepted", secOffers, "quantity and duration_days ask for a quote", get("/api/v1/offers", pair{"quantity", "2"}, pair{"duration_days", "30"}).wants(func(r reply) finding {
		return when(r.succeeded(), ok("%d offers", len(things(r.data(), "offers"))), differs("%s", r.seen()))
	}))
	for _, f := range []filter{{"country_code", "country_code"}, {"country", "country_code"}, {"region", "region"}, {"city", "region"}, {"line", "line_name"}, {"ip_type", "ip_type"}} {
		c.rule("offers.filter."+f.parameter, secOffers, f.parameter+" filters offers by "+f.member, filtered(f.parameter, f.member))
	}
}

func filtered(parameter, member string) judgement {
	return reading("offers", func(s *session, data dict) finding {
		all := wordsOf(things(data, "offers"), member)
		if len(all) == 0 {
			return notRun("there are no offers")
		}
		want := all[len(all)-1]
		if want == "" {
			return notRun("%s of the offers is not a string", member)
		}
		got := s.get("/api/v1/offers", pair{parameter, want})
		found := wordsOf(things(got.data(), "offers"), member)
		if !got.succeeded() || len(found) == 0 {
			return differs("%s, %d offers", got.seen(), len(found))
		}
		other := slices.ContainsFunc(found, func(value string) bool { return !strings.EqualFold(value, want) })
		return when(other, differs("an offer of another %s came too", member), ok("%d of %d offers", len(found), len(all)))
	})
}
