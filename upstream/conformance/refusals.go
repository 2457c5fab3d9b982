// Checks of request bodies that break one rule each.

package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// refusal is a body that breaks one rule. The check no_charge verifies that the server does not
// charge.
type refusal struct {
	id, what string
	codes    []string // the accepted codes; nil: the API document gives no code
	body     string   // OFFER is replaced with an offer code or a proxy id
	section  string
}

// refusals are invalid bodies for one endpoint.
type refusals struct {
	prefix, what  string
	section, path string
	good          string // a body that the server would execute
	table         []refusal
}

var invalid = []string{"validation_error"}

func forDays(days string) string {
	return `{"duration_days":` + days + `,"items":[{"offer_code":"OFFER","quantity":1}]}`
}

func withItems(items string) string { return `{"duration_days":30,"items":` + items + `}` }

var orderRefusals = refusals{"order", "an order", secCreate, "/api/v1/orders", forDays("30"), []refusal{
	{"days_45", "for 45 days", invalid, forDays("45"), secLimits},
	{"days_31", "for 31 days", invalid, forDays("31"), secLimits},
	{"days_1", "for one day", invalid, forDays("1"), secLimits},
	{"days_0", "for no days", invalid, forDays("0"), secLimits},
	{"days_negative", "for -30 days", invalid, forDays("-30"), secLimits},
	{"days_fraction", "for 30.5 days", invalid, forDays("30.5"), secCreate},
	{"days_missing", "without duration_days", invalid, `{"items":[{"offer_code":"OFFER","quantity":1}]}`, secCreate},
	{"days_words", "with words for duration_days", invalid, forDays(`"a month"`), secCreate},
	{"days_unsold", "for a duration that the offer does not sell", invalid, forDays("30000"), secCreate},
	{"items_missing", "without items", invalid, `{"duration_days":30}`, secCreate},
	{"items_empty", "with no items", invalid, withItems("[]"), secCreate},
	{"items_object", "with an object for items", invalid, withItems("{}"), secCreate},
	{"items_words", "with words for items", invalid, withItems(`"two"`), secCreate},
	{"lines_51", "of 51 lines", invalid, lines("OFFER", 51, 1), secLimits},
	{"quantity_2001", "of 2001 in one line", invalid, lines("OFFER", 1, 2001), secLimits},
	{"quantity_sum_2001", "of lines that sum to 2001", invalid, withItems(`[{"offer_code":"OFFER","quantity":2000},{"offer_code":"OFFER","quantity":1}]`), secLimits},
	{"quantity_0", "of no proxies", invalid, lines("OFFER", 1, 0), secCreate},
	{"quantity_negative", "of -1 proxies", invalid, lines("OFFER", 1, -1), secCreate},
	{"quantity_fraction", "of 1.5 proxies", invalid, withItems(`[{"offer_code":"OFFER","quantity":1.5}]`), secCreate},
	{"quantity_missing", "without a quantity", invalid, withItems(`[{"offer_code":"OFFER"}]`), secCreate},
	{"quantity_words", "with words for a quantity", invalid, withItems(`[{"offer_code":"OFFER","quantity":"one"}]`), secCreate},
	{"code_missing", "without an offer_code", []string{"validation_error", "offer_not_found"}, withItems(`[{"quantity":1}]`), secCreate},
	{"code_unknown", "of an unknown offer", []string{"offer_not_found"}, withItems(`[{"offer_code":"conformance-unknown","quantity":1}]`), secCreate},
	{"code_unknown_second", "whose second line has an unknown offer", []string{"offer_not_found"}, withItems(`[{"offer_code":"OFFER","quantity":1},{"offer_code":"conformance-unknown","quantity":1}]`), secCreate},
	{"both_bodies", "with the legacy body and items", invalid, `{"duration_days":30,"offer_code":"OFFER","quantity":1,"items":[{"offer_code":"OFFER","quantity":1}]}`, secCreate},
	{"legacy_code_and_items", "with a top-level offer_code and items", invalid, `{"duration_days":30,"offer_code":"OFFER","items":[{"offer_code":"OFFER","quantity":1}]}`, secCreate},
	{"legacy_quantity_2001", "of 2001 with the legacy body", invalid, `{"duration_days":30,"offer_code":"OFFER","quantity":2001}`, secVersioning},
	{"legacy_days_45", "for 45 days with the legacy body", invalid, `{"duration_days":45,"offer_code":"OFFER","quantity":1}`, secVersioning},
	{"legacy_unknown", "of an unknown offer with the legacy body", []string{"offer_not_found"}, `{"duration_days":30,"offer_code":"conformance-unknown","quantity":1}`, secVersioning},
	{"not_json", "whose body is not JSON", nil, `{"duration_days":30,`, secCreate},
	{"json_array", "whose body is an array", nil, `[]`, secCreate},
}}

var renewRefusals = refusals{"renewal", "a renewal", secRenew, "/api/v1/proxies/renew", `{"duration_days":30,"proxy_ids":["OFFER"]}`, []refusal{
	{"days_45", "for 45 days", invalid, `{"proxy_ids":["OFFER"],"duration_days":45}`, secLimits},
	{"days_0", "for no days", invalid, `{"proxy_ids":["OFFER"],"duration_days":0}`, secLimits},
	{"days_negative", "for -30 days", invalid, `{"proxy_ids":["OFFER"],"duration_days":-30}`, secLimits},
	{"days_1095", "for 1095 days, which is no multiple of 30", invalid, `{"proxy_ids":["OFFER"],"duration_days":1095}`, secLimits},
	{"days_1110", "for 1110 days, a multiple of 30 over the limit", invalid, `{"proxy_ids":["OFFER"],"duration_days":1110}`, secLimits},
	{"days_1125", "for 1125 days", invalid, `{"proxy_ids":["OFFER"],"duration_days":1125}`, secLimits},
	{"days_fraction", "for 30.5 days", invalid, `{"proxy_ids":["OFFER"],"duration_days":30.5}`, secRenew},
	{"days_missing", "without duration_days", invalid, `{"proxy_ids":["OFFER"]}`, secRenew},
	{"days_words", "with words for duration_days", invalid, `{"proxy_ids":["OFFER"],"duration_days":"a month"}`, secRenew},
	{"ids_missing", "without proxy_ids", invalid, `{"duration_days":30}`, secRenew},
	{"ids_empty", "of no proxies", invalid, `{"proxy_ids":[],"duration_days":30}`, secRenew},
	{"ids_text", "with a string for proxy_ids", invalid, `{"proxy_ids":"OFFER","duration_days":30}`, secRenew},
	{"ids_numbers", "with numbers for proxy ids", []string{"validation_error", "proxy_not_found"}, `{"proxy_ids":[1],"duration_days":30}`, secRenew},
	{"id_unknown", "of an unknown proxy", []string{"proxy_not_found"}, `{"proxy_ids":["conformance-unknown"],"duration_days":30}`, secProxies},
	{"not_json", "whose body is not JSON", nil, `{"proxy_ids":`, secRenew},
	{"json_array", "whose body is an array", nil, `[]`, secRenew},
}}

func lines(code string, count int, quantity int64) string {
	type line struct {
		OfferCode string `json:"offer_code"`
		Quantity  int64  `json:"quantity"`
	}
	items := make([]line, count)
	for i := range items {
		items[i] = line{code, quantity}
	}
	raw, _ := json.Marshal(map[string]any{"duration_days": 30, "items": items}) // never fails for strings and integers
	return string(raw)
}

// checks returns the checks of the table. They send every body once with its own key, and
// compare the wallet before and after.
func (f *refusals) checks() []Check {
	var out []Check
	for _, one := range f.table {
		sentence := fmt.Sprintf("%s %s is refused", f.what, one.what)
		if len(one.codes) > 0 {
			sentence += " with " + strings.Join(one.codes, " or ")
		}
		out = append(out, rule(f.prefix+".refused."+one.id, one.section, sentence, func(s *session) finding {
			r := f.sent(s).replies[one.id]
			return when(len(one.codes) == 0, refusedAnyhow(r), refused(r, f.orUnknown(s, one.codes)...))
		}))
	}
	return append(out,
		rule(f.prefix+".refused.no_charge", f.section, "none of the refusals charged anything", func(s *session) finding { return f.sent(s).notCharged() }),
		rule(f.prefix+".refused.errors", secErrors, "a validation_error of "+f.what+" carries data.errors", func(s *session) finding {
			r := f.sent(s).replies["days_45"]
			v := r.data()["errors"]
			switch {
			case r.code() != "validation_error":
				return notShown("%s", r.seen())
			case v == nil:
				return differs("%s, errors is absent", r.seen())
			}
			return ok("%s", typeName(v))
		}),
		rule(f.prefix+".refused.missing_key", secHeaders, f.what+" without Idempotency-Key is refused with idempotency_key_required", func(s *session) finding {
			r := s.send(post(f.path, "", f.about(s, f.good)))
			return refused(r, f.orUnknown(s, []string{"idempotency_key_required"})...)
		}),
		// JSON names are case-sensitive, so this body lacks its fields. A lenient server may
		// execute the body. The body is therefore not in the batch that must not charge.
		rule(f.prefix+".names_in_capitals", f.section, f.what+" whose fields are written in capitals is refused with validation_error", func(s *session) finding {
			if why := s.affordAgain(); why != "" && s.subjectOf(f.prefix) != unknown {
				return notRun("%s", why)
			}
			r := s.send(post(f.path, "capitals", f.about(s, strings.ToUpper(f.good))))
			return refused(r, f.orUnknown(s, invalid)...)
		}))
}

func (f *refusals) about(s *session, body string) string {
	return strings.ReplaceAll(body, "OFFER\"", s.subjectOf(f.prefix)+"\"")
}

// orUnknown adds the codes for an unknown item, if the body contains an unknown item.
func (f *refusals) orUnknown(s *session, codes []string) []string {
	if s.subjectOf(f.prefix) != unknown {
		return codes
	}
	return append(slices.Clone(codes), "offer_not_found", "proxy_not_found")
}

type batch struct {
	around
	replies map[string]reply
}

func (f *refusals) sent(s *session) batch {
	return memo(s, "refusals "+f.prefix, func() batch {
		b := batch{replies: map[string]reply{}}
		s.subjectOf(f.prefix) // may buy, so it runs before the wallet is read
		b.around = s.around(func() {
			for _, one := range f.table {
				b.replies[one.id] = s.send(post(f.path, one.id, f.about(s, one.body)))
			}
		})
		return b
	})
}

// unknown is an id that does not exist.
const unknown = "conformance-unknown"

// subjectOf returns the item for the bodies. In production, or if the run may not spend money,
// the item does not exist, so that no server can charge.
func (s *session) subjectOf(prefix string) string {
	if s.limit == 0 || s.cfg.Production {
		return unknown
	}
	if prefix == "order" {
		o, _ := s.chosenOffer()
		return o.code
	}
	if ids := s.ownProxies(); len(ids) > 0 {
		return ids[0]
	}
	return unknown
}
