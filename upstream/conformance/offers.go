// Checks of offers: filters, quotes and catalogue.

package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// offerChecks are filters, quotes and the rules of every offer.
func offerChecks() []Check {
	out := append(catalogueChecks(), quoteChecks()...)
	for _, f := range []struct{ parameter, member string }{{"country_code", "country_code"}, {"country", "country_code"}, {"region", "region"},
		{"city", "region"}, {"line", "line_name"}, {"ip_type", "ip_type"}} {
		out = append(out,
			Check{ID: "offers.filter." + f.parameter, Section: secOffers, Sentence: fmt.Sprintf("%s filters offers by %s", f.parameter, f.member),
				run: func(s *session) finding { return filtered(s, f.parameter, f.member) }})
	}
	return out
}

func catalogueChecks() []Check {
	return []Check{
		{ID: "offers.key", Section: secOffers, Sentence: "the offers stand under the key offers", run: func(s *session) finding {
			r, _ := s.replyOf("offers")
			key, items, found := onlyArray(r.data())
			if !found || key != "offers" {
				return differs("%s, the list is under %q", r.seen(), brief(key))
			}
			return ok("%d offers", len(items))
		}},
		{ID: "offers.code_unique", Section: secOffer, Sentence: "no offer_code appears twice in a catalogue", run: func(s *session) finding {
			w := s.walk("/api/v1/offers", "offer_code", 50)
			return w.unique()
		}},
		{ID: "offers.nothing_found", Section: secOffers, Sentence: "a filter that nothing matches gives an empty list", run: func(s *session) finding {
			r := s.get("/api/v1/offers", pair{"country_code", "conformance-nowhere"})
			if r.code() == "validation_error" {
				return notShown("%s: such a country is refused", r.seen())
			}
			if got, isList := r.data()["offers"].([]any); !r.succeeded() || !isList || len(got) > 0 {
				return differs("%s", r.seen())
			}
			return ok("an empty list")
		}},
		{ID: "offers.unit_price_agrees", Section: secOffer, Sentence: "unit_price is unit_price_cents as a decimal string, of every offer", run: func(s *session) finding {
			r, _ := s.replyOf("offers")
			return decimalsAgree(things(r.data(), "offers"), "unit_price_cents", "unit_price")
		}},
		{ID: "offers.page_size.200", Section: secLimits, Sentence: "a page of 200 offers is accepted", run: get("/api/v1/offers", pair{"page_size", "200"}).wants(succeeds)},
		{ID: "offers.page_size.201", Section: secLimits, Sentence: "a page of 201 offers is not given", run: func(s *session) finding {
			r := s.get("/api/v1/offers", pair{"page_size", "201"})
			if size, known := cents(r.data(), "page_size"); r.succeeded() && known && size > 0 && size <= 200 && len(things(r.data(), "offers")) <= 200 {
				return ok("given as a page of %d", size)
			}
			return refused(r, "validation_error")
		}},
		{ID: "offers.duration.multiple_of_30", Section: secLimits, Sentence: "every offer sells a duration that an order may have", run: offersSellable},
	}
}

func quoteChecks() []Check {
	return []Check{
		{ID: "offers.quote.beyond", Section: secOffers, Open: true, Sentence: "what an offer's quote for more than max_quantity is", run: func(s *session) finding {
			r := s.get("/api/v1/offers", pair{"quantity", "2000"}, pair{"duration_days", "30"})
			return ok("%s, %d offers", r.seen(), len(things(r.data(), "offers")))
		}},
		{ID: "offers.quote.unsold_duration", Section: secOffers, Open: true, Sentence: "what a quote for a duration that is not sold is", run: func(s *session) finding {
			r := s.get("/api/v1/offers", pair{"duration_days", "45"})
			return ok("%s, %d offers", r.seen(), len(things(r.data(), "offers")))
		}},
		{ID: "offers.quote.accepted", Section: secOffers, Sentence: "quantity and duration_days ask for a quote", run: func(s *session) finding {
			r := s.get("/api/v1/offers", pair{"quantity", "2"}, pair{"duration_days", "30"})
			if !r.succeeded() {
				return differs("%s", r.seen())
			}
			return ok("%d offers", len(things(r.data(), "offers")))
		}},
	}
}

// filtered takes a value from the unfiltered list and asks for it.
func filtered(s *session, parameter, member string) finding {
	r, _ := s.replyOf("offers")
	all := things(r.data(), "offers")
	if len(all) == 0 {
		return notRun("there are no offers")
	}
	want := word(all[len(all)-1], member)
	if want == "" {
		return notRun("%s of the offers is not a string", member)
	}
	got := s.get("/api/v1/offers", pair{parameter, want})
	found := things(got.data(), "offers")
	if !got.succeeded() || len(found) == 0 {
		return differs("%s, %d offers", got.seen(), len(found))
	}
	for _, o := range found {
		if !strings.EqualFold(word(o, member), want) {
			return differs("an offer of another %s came too", member)
		}
	}
	return ok("%d of %d offers", len(found), len(all))
}

func offersSellable(s *session) finding {
	r, _ := s.replyOf("offers")
	all := things(r.data(), "offers")
	for _, o := range all {
		if !slices.ContainsFunc(readOffer(o).days, func(d int64) bool { return d > 0 && d%30 == 0 }) {
			return differs("an offer has no duration that is a positive multiple of 30")
		}
	}
	return ok("%d offers", len(all))
}

// decimalsAgree compares integer cents with decimal strings, in every object.
func decimalsAgree(objects []map[string]any, centsName, decimalName string) finding {
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
