package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

type refusal struct {
	id, what string
	codes    []string // the accepted codes; nil: the API document gives no code
	body     string   // OFFER is replaced with an offer code or a proxy id
	section  string
}

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
	items := slices.Repeat([]any{dict{"offer_code": code, "quantity": quantity}}, count)
	return encoded(dict{"duration_days": 30, "items": items})
}

// checks adds the checks of the table. They send every body once with its own key, and
// compare the wallet before and after.
func (f *refusals) checks(c *suite) {
	for _, one := range f.table {
		sentence := fmt.Sprintf("%s %s is refused", f.what, one.what)
		if len(one.codes) > 0 {
			sentence += " with " + strings.Join(one.codes, " or ")
		}
		c.rule(f.prefix+".refused."+one.id, one.section, sentence, func(s *session) finding {
			r := f.sent(s).replies[one.id]
			return when(len(one.codes) == 0, refusedAnyhow(r), refused(r, f.orUnknown(s, one.codes)...))
		})
	}
	c.rule(f.prefix+".refused.no_charge", f.section, "none of the refusals charged anything", func(s *session) finding { return f.sent(s).notCharged() })
	c.rule(f.prefix+".refused.errors", secErrors, "a validation_error of "+f.what+" carries data.errors", func(s *session) finding {
		r := f.sent(s).replies["days_45"]
		v := r.data()["errors"]
		switch {
		case r.code() != "validation_error":
			return notShown("%s", r.seen())
		case v == nil:
			return differs("%s, errors is absent", r.seen())
		}
		return ok("%s", typeName(v))
	})
	c.rule(f.prefix+".refused.missing_key", secHeaders, f.what+" without Idempotency-Key is refused with idempotency_key_required", func(s *session) finding {
		r := s.send(post(f.path, "", f.about(s, f.good)))
		return refused(r, f.orUnknown(s, []string{"idempotency_key_required"})...)
	})
	// JSON names are case-sensitive, so this body lacks its fields. A lenient server could
	// execute the body and charge. The body is therefore not in the batch that must not charge.
	c.rule(f.prefix+".names_in_capitals", f.section, f.what+" whose fields are written in capitals is refused with validation_error", func(s *session) finding {
		if subjectOf(s, f.prefix) != unknown {
			s.affordAgain()
		}
		r := s.send(post(f.path, "capitals", f.about(s, strings.ToUpper(f.good))))
		return refused(r, f.orUnknown(s, invalid)...)
	})
}

func (f *refusals) about(s *session, body string) string {
	return strings.ReplaceAll(body, "OFFER\"", subjectOf(s, f.prefix)+"\"")
}

func (f *refusals) orUnknown(s *session, codes []string) []string {
	if subjectOf(s, f.prefix) != unknown {
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
		subjectOf(s, f.prefix) // may buy, so it runs before the wallet is read
		b.around = s.around(func() {
			for _, one := range f.table {
				b.replies[one.id] = s.send(post(f.path, one.id, f.about(s, one.body)))
			}
		})
		return b
	})
}

const unknown = "conformance-unknown"

// subjectOf returns the item for the bodies. In production, or if the run may not spend money,
// the item does not exist, so that no server can charge.
func subjectOf(s *session, prefix string) string {
	if s.limit == 0 || s.cfg.Production {
		return unknown
	}
	if prefix == "order" {
		return s.chosenOffer().code
	}
	if ids := s.ownProxies(); len(ids) > 0 {
		return ids[0]
	}
	return unknown
}

func errorChecks(c *suite) {
	noOrder, noProxy := refusing("order_not_found"), refusing("proxy_not_found")
	ids := [][2]string{{"plain", unknown}, {"long", strings.Repeat("x", 300)}, {"number", "1"}, {"uuid", "00000000-0000-4000-8000-000000000000"}}
	for _, id := range ids {
		c.rule("errors.order_not_found."+id[0], secDetail, "an unknown order ("+id[0]+") is order_not_found", get("/api/v1/orders/"+id[1]).wants(noOrder))
		c.rule("errors.proxy_not_found."+id[0], secProxies, "an unknown proxy ("+id[0]+") is proxy_not_found", get("/api/v1/proxies/"+id[1]).wants(noProxy))
	}
	c.rule("errors.order_not_found.foreign", secDetail, "another account's order is order_not_found", asks(foreign(orderAt("orders")), noOrder))
	c.rule("errors.proxy_not_found.foreign", secProxies, "another account's proxy is proxy_not_found", asks(foreign(proxyAt("proxies")), noProxy))
	c.rule("errors.order_not_found.proxy_id", secDetail, "a proxy's id is no order", asks(proxyAt("orders"), noOrder))
	c.rule("errors.proxy_not_found.order_no", secProxies, "an order's number is no proxy", asks(orderAt("proxies"), noProxy))
	unsupportedChecks(c)
	statusChecks(c)
}

func orderAt(resource string) prepared { return itemAt((*session).anyOrder, "order_no", resource) }
func proxyAt(resource string) prepared { return itemAt((*session).anyProxy, "proxy_id", resource) }

func itemAt(item func(*session) reply, id, resource string) prepared {
	return func(s *session) request {
		return get("/api/v1/" + resource + "/" + rfc3986(word(item(s).data(), id)))
	}
}

// unsupportedChecks try operations for which the API document gives no path. They require only
// a refusal, and never run in production.
func unsupportedChecks(c *suite) {
	type operation struct{ id, method, path string }
	for _, op := range []operation{
		{"password", http.MethodPost, "/api/v1/proxies/" + unknown + "/password"},
		{"switch_ip", http.MethodPost, "/api/v1/proxies/" + unknown + "/switch"},
		{"top_up", http.MethodPost, "/api/v1/wallet/top-up"},
		{"change_proxy", http.MethodPatch, "/api/v1/proxies/" + unknown},
		{"delete_proxy", http.MethodDelete, "/api/v1/proxies/" + unknown},
		{"cancel_order", http.MethodDelete, "/api/v1/orders/" + unknown},
		{"change_account", http.MethodPut, "/api/v1/account"},
		{"write_wallet", http.MethodPost, "/api/v1/wallet"},
	} {
		r := request{method: op.method, path: op.path}
		if op.method == http.MethodPost {
			r = post(op.path, op.id, "{}")
		}
		c.rule("errors.unsupported."+op.id, secErrors, op.method+" "+op.path+" is refused", r.wants(refusedAnyhow)).in(onlySandbox)
		c.rule("errors.unsupported."+op.id+".code", secVersioning, "whether "+op.method+" "+op.path+" is unsupported_operation", r.wants(recorded)).in(onlySandbox).open()
	}
}

func statusChecks(c *suite) {
	for _, r := range []struct {
		code string
		request
	}{
		{"invalid_signature", unsigned()},
		{"order_not_found", get("/api/v1/orders/" + unknown)},
		{"proxy_not_found", get("/api/v1/proxies/" + unknown)},
		{"offer_not_found", post("/api/v1/orders", "status", lines(unknown, 1, 1))},
		{"validation_error", post("/api/v1/orders", "status", "{}")},
		{"idempotency_key_required", post("/api/v1/orders", "", "{}")},
		{"invalid_page_token", get("/api/v1/offers", pair{"page_token", "x"})},
		{"unsupported_operation", get("/api/v1/" + unknown)},
	} {
		c.rule("errors.http_status."+r.code, secErrors, "the HTTP status of "+r.code, r.wants(recorded)).open()
	}
	c.rule("errors.data_errors", secErrors, "the structure of data.errors",
		post("/api/v1/orders", "errors", "{}").wants(func(r reply) finding { return ok("%s", typeName(r.data()["errors"])) })).open()
}

func limitChecks(c *suite) {
	otherType := post("/api/v1/orders", "type", lines(unknown, 1, 1)).damaged(func(d *draft) { d.header.Set("Content-Type", "text/plain") }, false)
	scenario := post("/api/v1/proxies/renew", "scenario", renewBody([]string{unknown}, 30))
	scenario.scenario = "success"
	c.rule("limits.rate.retry_after", secLimits, "every rate-limited reply of the run has a Retry-After header", func(s *session) finding {
		for _, r := range s.limited {
			if r.header.Get("Retry-After") == "" {
				return differs("%s without Retry-After", r.seen())
			}
		}
		return when(len(s.limited) == 0, notShown("no request was rate-limited"), ok("%d replies", len(s.limited)))
	}).atEnd()
	c.rule("limits.rate.seen", secLimits, "how often the server answered the run with 429", func(s *session) finding {
		return ok("%d times in %d requests", len(s.limited), s.requests.Load())
	}).open().atEnd()
	c.rule("limits.long_key", secHeaders, "what an Idempotency-Key of 300 bytes gets", keyed("/api/v1/orders", strings.Repeat("x", 300), "{}").wants(recorded)).open()
	c.rule("headers.content_type.text", secHeaders, "what a POST with another Content-Type gets", otherType.wants(recorded)).open()
	c.rule("headers.scenario.at_renewal", secHeaders, "what the scenario header gets at a renewal", scenario.wants(recorded)).in(onlySandbox).open()
	c.rule("page.token.empty", secPagination, "what an empty page_token gets", get("/api/v1/offers", pair{"page_token", ""}).wants(recorded)).open()
	c.rule("versioning.v2", secVersioning, "what a path of another version gets", get("/api/v2/account").wants(recorded)).open()
	c.rule("versioning.unknown_query", secVersioning, "what a query parameter that the document does not have gets", get("/api/v1/account", pair{"conformance", "1"}).wants(recorded)).open()
	c.rule("versioning.unknown_body_field", secVersioning, "what a body's field that the document does not have gets",
		post("/api/v1/orders", "field", `{"duration_days":30,"conformance":1,"items":[{"offer_code":"`+unknown+`","quantity":1}]}`).wants(recorded)).open()
}
