// Checks of bodies that break one rule each.

package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// refusal is a body that breaks one rule. A server that takes it is caught by the
// check itself; what it then charges is a finding of no_charge.
type refusal struct {
	id, what string
	codes    []string // any of them; none: the document does not give the code
	body     func(s *session, code string) string
	section  string
}

var articled = map[string]string{"order": "an order", "renewal": "a renewal"}

func fixed(text string) func(*session, string) string {
	return func(_ *session, code string) string { return strings.ReplaceAll(text, "OFFER", code) }
}

var (
	invalid   = []string{"validation_error"}
	oneLine   = `{"duration_days":%s,"items":[{"offer_code":"OFFER","quantity":1}]}`
	withItems = `{"duration_days":30,"items":%s}`
)

// orderRefusals break the rules of an order's body.
var orderRefusals = []refusal{
	{"days_45", "for 45 days", invalid, fixed(fmt.Sprintf(oneLine, "45")), secLimits},
	{"days_31", "for 31 days", invalid, fixed(fmt.Sprintf(oneLine, "31")), secLimits},
	{"days_1", "for one day", invalid, fixed(fmt.Sprintf(oneLine, "1")), secLimits},
	{"days_0", "for no days", invalid, fixed(fmt.Sprintf(oneLine, "0")), secLimits},
	{"days_negative", "for -30 days", invalid, fixed(fmt.Sprintf(oneLine, "-30")), secLimits},
	{"days_fraction", "for 30.5 days", invalid, fixed(fmt.Sprintf(oneLine, "30.5")), secCreate},
	{"days_missing", "without duration_days", invalid, fixed(`{"items":[{"offer_code":"OFFER","quantity":1}]}`), secCreate},
	{"days_words", "with words for duration_days", invalid, fixed(fmt.Sprintf(oneLine, `"a month"`)), secCreate},
	{"days_unsold", "for a duration that the offer does not sell", invalid, fixed(fmt.Sprintf(oneLine, "30000")), secCreate},
	{"items_missing", "without items", invalid, fixed(`{"duration_days":30}`), secCreate},
	{"items_empty", "with no items", invalid, fixed(fmt.Sprintf(withItems, "[]")), secCreate},
	{"items_object", "with an object for items", invalid, fixed(fmt.Sprintf(withItems, "{}")), secCreate},
	{"items_words", "with words for items", invalid, fixed(fmt.Sprintf(withItems, `"two"`)), secCreate},
	{"lines_51", "of 51 lines", invalid, func(_ *session, code string) string { return lines(code, 51, 1) }, secLimits},
	{"quantity_2001", "of 2001 in one line", invalid, func(_ *session, code string) string { return lines(code, 1, 2001) }, secLimits},
	{"quantity_sum_2001", "of lines that sum to 2001", invalid, func(_ *session, code string) string {
		return `{"duration_days":30,"items":[{"offer_code":"` + code + `","quantity":2000},{"offer_code":"` + code + `","quantity":1}]}`
	}, secLimits},
	{"quantity_0", "of no proxies", invalid, func(_ *session, code string) string { return lines(code, 1, 0) }, secCreate},
	{"quantity_negative", "of -1 proxies", invalid, func(_ *session, code string) string { return lines(code, 1, -1) }, secCreate},
	{"quantity_fraction", "of 1.5 proxies", invalid, fixed(fmt.Sprintf(withItems, `[{"offer_code":"OFFER","quantity":1.5}]`)), secCreate},
	{"quantity_missing", "without a quantity", invalid, fixed(fmt.Sprintf(withItems, `[{"offer_code":"OFFER"}]`)), secCreate},
	{"quantity_words", "with words for a quantity", invalid, fixed(fmt.Sprintf(withItems, `[{"offer_code":"OFFER","quantity":"one"}]`)), secCreate},
	{"code_missing", "without an offer_code", []string{"validation_error", "offer_not_found"}, fixed(fmt.Sprintf(withItems, `[{"quantity":1}]`)), secCreate},
	{"code_unknown", "of an unknown offer", []string{"offer_not_found"}, fixed(fmt.Sprintf(withItems, `[{"offer_code":"conformance-unknown","quantity":1}]`)), secCreate},
	{"code_unknown_second", "whose second line has an unknown offer", []string{"offer_not_found"}, fixed(fmt.Sprintf(withItems, `[{"offer_code":"OFFER","quantity":1},{"offer_code":"conformance-unknown","quantity":1}]`)), secCreate},
	{"both_bodies", "with the legacy body and items", invalid, fixed(`{"duration_days":30,"offer_code":"OFFER","quantity":1,"items":[{"offer_code":"OFFER","quantity":1}]}`), secCreate},
	{"legacy_code_and_items", "with a top-level offer_code and items", invalid, fixed(`{"duration_days":30,"offer_code":"OFFER","items":[{"offer_code":"OFFER","quantity":1}]}`), secCreate},
	{"legacy_quantity_2001", "of 2001 with the legacy body", invalid, fixed(`{"duration_days":30,"offer_code":"OFFER","quantity":2001}`), secVersioning},
	{"legacy_days_45", "for 45 days with the legacy body", invalid, fixed(`{"duration_days":45,"offer_code":"OFFER","quantity":1}`), secVersioning},
	{"legacy_unknown", "of an unknown offer with the legacy body", []string{"offer_not_found"}, fixed(`{"duration_days":30,"offer_code":"conformance-unknown","quantity":1}`), secVersioning},
	{"not_json", "whose body is not JSON", nil, fixed(`{"duration_days":30,`), secCreate},
	{"json_array", "whose body is an array", nil, fixed(`[]`), secCreate},
}

// renewRefusals break the rules of a renewal's body. OFFER is a proxy's id there.
var renewRefusals = []refusal{
	{"days_45", "for 45 days", invalid, fixed(`{"proxy_ids":["OFFER"],"duration_days":45}`), secLimits},
	{"days_0", "for no days", invalid, fixed(`{"proxy_ids":["OFFER"],"duration_days":0}`), secLimits},
	{"days_negative", "for -30 days", invalid, fixed(`{"proxy_ids":["OFFER"],"duration_days":-30}`), secLimits},
	{"days_1095", "for 1095 days, which is no multiple of 30", invalid, fixed(`{"proxy_ids":["OFFER"],"duration_days":1095}`), secLimits},
	{"days_1110", "for 1110 days, a multiple of 30 over the limit", invalid, fixed(`{"proxy_ids":["OFFER"],"duration_days":1110}`), secLimits},
	{"days_1125", "for 1125 days", invalid, fixed(`{"proxy_ids":["OFFER"],"duration_days":1125}`), secLimits},
	{"days_fraction", "for 30.5 days", invalid, fixed(`{"proxy_ids":["OFFER"],"duration_days":30.5}`), secRenew},
	{"days_missing", "without duration_days", invalid, fixed(`{"proxy_ids":["OFFER"]}`), secRenew},
	{"days_words", "with words for duration_days", invalid, fixed(`{"proxy_ids":["OFFER"],"duration_days":"a month"}`), secRenew},
	{"ids_missing", "without proxy_ids", invalid, fixed(`{"duration_days":30}`), secRenew},
	{"ids_empty", "of no proxies", invalid, fixed(`{"proxy_ids":[],"duration_days":30}`), secRenew},
	{"ids_text", "with a string for proxy_ids", invalid, fixed(`{"proxy_ids":"OFFER","duration_days":30}`), secRenew},
	{"ids_numbers", "with numbers for proxy ids", []string{"validation_error", "proxy_not_found"}, fixed(`{"proxy_ids":[1],"duration_days":30}`), secRenew},
	{"id_unknown", "of an unknown proxy", []string{"proxy_not_found"}, fixed(`{"proxy_ids":["conformance-unknown"],"duration_days":30}`), secProxies},
	{"not_json", "whose body is not JSON", nil, fixed(`{"proxy_ids":`), secRenew},
	{"json_array", "whose body is an array", nil, fixed(`[]`), secRenew},
}

func lines(code string, count int, quantity int64) string {
	type line struct {
		OfferCode string `json:"offer_code"`
		Quantity  int64  `json:"quantity"`
	}
	items := make([]line, count)
	for i := range items {
		items[i] = line{code, quantity}
	}
	raw, _ := json.Marshal(map[string]any{"duration_days": 30, "items": items}) // marshals by construction
	return string(raw)
}

// refusalChecks sends every body under a key of its own, once, between two reads of
// the wallet.
func refusalChecks(prefix, section, path string, table []refusal) []Check {
	var out []Check
	for _, f := range table {
		sentence := fmt.Sprintf("%s %s is refused", articled[prefix], f.what)
		if len(f.codes) > 0 {
			sentence += " with " + strings.Join(f.codes, " or ")
		}
		out = append(out, Check{ID: prefix + ".refused." + f.id, Section: f.section, Sentence: sentence, run: func(s *session) finding {
			r := s.refusals(prefix, path, table).replies[f.id]
			if len(f.codes) == 0 {
				return refusedAnyhow(r)
			}
			return refused(r, s.alsoUnknown(prefix, f.codes)...)
		}})
	}
	return append(out,
		Check{ID: prefix + ".refused.no_charge", Section: section, Sentence: "none of the refusals charged anything", run: func(s *session) finding {
			return s.refusals(prefix, path, table).unmoved()
		}},
		Check{ID: prefix + ".refused.errors", Section: secErrors, Sentence: "a validation_error of " + articled[prefix] + " carries data.errors", run: func(s *session) finding {
			r := s.refusals(prefix, path, table).replies["days_45"]
			if r.code() != "validation_error" {
				return notShown("%s", r.seen())
			}
			if v := r.data()["errors"]; v == nil {
				return differs("%s, errors is absent", r.seen())
			}
			return ok("%s", typeName(r.data()["errors"]))
		}},
		Check{ID: prefix + ".refused.missing_key", Section: secHeaders, Sentence: articled[prefix] + " without Idempotency-Key is refused with idempotency_key_required", run: func(s *session) finding {
			return withoutKey(s, prefix, path)
		}})
}

// capitalCheck observes that names in JSON have their case, so a body in capitals lacks its
// fields. They are separate from the batch, since a lenient server carries them out.
func capitalCheck(prefix, section, path, body string) Check {
	return Check{ID: prefix + ".names_in_capitals", Section: section, Sentence: articled[prefix] + " whose fields are written in capitals is refused with validation_error", run: func(s *session) finding {
		if why := s.affordAgain(); why != "" && s.subjectOf(prefix) != unknown {
			return notRun("%s", why)
		}
		r := s.send(post(path, "capitals", strings.ReplaceAll(body, "SUBJECT", s.subjectOf(prefix))))
		return refused(r, s.alsoUnknown(prefix, invalid)...)
	}}
}

// withoutKey sends what would be carried out with a key.
func withoutKey(s *session, prefix, path string) finding {
	body := lines(s.subjectOf(prefix), 1, 1)
	if prefix == "renewal" {
		body = string(renewBody([]string{s.subjectOf(prefix)}, 30))
	}
	return refused(s.send(post(path, "", body)), s.alsoUnknown(prefix, []string{"idempotency_key_required"})...)
}

// unknown names nothing that exists.
const unknown = "conformance-unknown"

// alsoUnknown accepts another refusal: a body that breaks a rule and names nothing that exists may be
// refused for either; the document gives no order.
func (s *session) alsoUnknown(prefix string, codes []string) []string {
	if s.subjectOf(prefix) != unknown {
		return codes
	}
	return append(slices.Clone(codes), "offer_not_found", "proxy_not_found")
}

type batch struct {
	around
	replies map[string]reply
}

func (s *session) refusals(prefix, path string, table []refusal) batch {
	return memo(s, "refusals "+prefix, func() batch {
		about := s.subjectOf(prefix)
		b := batch{replies: map[string]reply{}}
		b.around = s.around(func() {
			for _, f := range table {
				b.replies[f.id] = s.send(post(path, f.id, f.body(s, about)))
			}
		})
		return b
	})
}

// subjectOf is what the refused bodies name. In production, and where nothing may
// be spent, they name nothing that exists, so that no server can charge for them.
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

func contains(raw []byte, text string) bool { return bytes.Contains(raw, []byte(text)) }
