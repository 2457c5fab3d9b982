// Checks of offers: filters, prices and the list.

package conformance

import (
	"slices"
	"strings"
)

func offerChecks() []Check {
	quote := func(pairs ...pair) judgement {
		return get("/api/v1/offers", pairs...).wants(func(r reply) finding {
			return ok("%s, %d offers", r.seen(), len(things(r.data(), "offers")))
		})
	}
	type filter struct{ parameter, member string }
	return append([]Check{
		rule("offers.key", secOffers, "the offers stand under the key offers", func(s *session) finding {
			r, _ := s.replyOf("offers")
			key, items, found := onlyArray(r.data())
			return when(!found || key != "offers", differs("%s, the list is under %q", r.seen(), brief(key)), ok("%d offers", len(items)))
		}),
		rule("offers.code_unique", secOffer, "no offer_code appears twice in a catalogue", func(s *session) finding {
			w := s.walk(offerList, 50)
			return w.unique()
		}),
		rule("offers.nothing_found", secOffers, "a filter that nothing matches gives an empty list", get("/api/v1/offers", pair{"country_code", "conformance-nowhere"}).wants(func(r reply) finding {
			if r.code() == "validation_error" {
				return notShown("%s: such a country is refused", r.seen())
			}
			got, isList := r.data()["offers"].([]any)
			return when(!r.succeeded() || !isList || len(got) > 0, differs("%s", r.seen()), ok("an empty list"))
		})),
		rule("offers.unit_price_agrees", secOffer, "unit_price is unit_price_cents as a decimal string, of every offer", reading("offers", func(_ *session, data map[string]any) finding {
			return decimalsAgree(things(data, "offers"), "unit_price_cents", "unit_price")
		})),
		rule("offers.page_size.200", secLimits, "a page of 200 offers is accepted", get("/api/v1/offers", pair{"page_size", "200"}).wants(succeeds)),
		rule("offers.page_size.201", secLimits, "a page of 201 offers is not given", get("/api/v1/offers", pair{"page_size", "201"}).wants(func(r reply) finding {
			size, known := cents(r.data(), "page_size")
			shortened := r.succeeded() && known && size > 0 && size <= 200 && len(things(r.data(), "offers")) <= 200
			return when(shortened, ok("given as a page of %d", size), refused(r, "validation_error"))
		})),
		rule("offers.duration.multiple_of_30", secLimits, "every offer sells a duration that an order may have", reading("offers", func(_ *session, data map[string]any) finding {
			all := things(data, "offers")
			unsellable := slices.ContainsFunc(all, func(o map[string]any) bool {
				return !slices.ContainsFunc(readOffer(o).days, func(d int64) bool { return d > 0 && d%30 == 0 })
			})
			return when(unsellable, differs("an offer has no duration that is a positive multiple of 30"), ok("%d offers", len(all)))
		})),
		rule("offers.quote.beyond", secOffers, "what an offer's quote for more than max_quantity is", quote(pair{"quantity", "2000"}, pair{"duration_days", "30"})).open(),
		rule("offers.quote.unsold_duration", secOffers, "what a quote for a duration that is not sold is", quote(pair{"duration_days", "45"})).open(),
		rule("offers.quote.accepted", secOffers, "quantity and duration_days ask for a quote", get("/api/v1/offers", pair{"quantity", "2"}, pair{"duration_days", "30"}).wants(func(r reply) finding {
			return when(r.succeeded(), ok("%d offers", len(things(r.data(), "offers"))), differs("%s", r.seen()))
		})),
	}, each([]filter{{"country_code", "country_code"}, {"country", "country_code"}, {"region", "region"}, {"city", "region"}, {"line", "line_name"}, {"ip_type", "ip_type"}}, func(f filter) []Check {
		return []Check{rule("offers.filter."+f.parameter, secOffers, f.parameter+" filters offers by "+f.member, filtered(f.parameter, f.member))}
	})...)
}

// filtered takes a value from the unfiltered list, and checks that a filter returns only offers
// with this value.
func filtered(parameter, member string) judgement {
	return reading("offers", func(s *session, data map[string]any) finding {
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
