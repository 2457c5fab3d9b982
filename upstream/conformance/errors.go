// Checks of unknown ids, unsupported operations, HTTP statuses and limits.

package conformance

import (
	"net/http"
	"strings"
)

func errorChecks() []Check {
	noOrder, noProxy := refusing("order_not_found"), refusing("proxy_not_found")
	ids := [][2]string{{"plain", unknown}, {"long", strings.Repeat("x", 300)}, {"number", "1"}, {"uuid", "00000000-0000-4000-8000-000000000000"}}
	out := append(each(ids, func(id [2]string) []Check {
		return []Check{
			rule("errors.order_not_found."+id[0], secDetail, "an unknown order ("+id[0]+") is order_not_found", get("/api/v1/orders/"+id[1]).wants(noOrder)),
			rule("errors.proxy_not_found."+id[0], secProxies, "an unknown proxy ("+id[0]+") is proxy_not_found", get("/api/v1/proxies/"+id[1]).wants(noProxy)),
		}
	}),
		rule("errors.order_not_found.foreign", secDetail, "another account's order is order_not_found", asks(foreign(orderAt("orders")), noOrder)),
		rule("errors.proxy_not_found.foreign", secProxies, "another account's proxy is proxy_not_found", asks(foreign(proxyAt("proxies")), noProxy)),
		rule("errors.order_not_found.proxy_id", secDetail, "a proxy's id is no order", asks(proxyAt("orders"), noOrder)),
		rule("errors.proxy_not_found.order_no", secProxies, "an order's number is no proxy", asks(orderAt("proxies"), noProxy)))
	return append(append(out, unsupportedChecks()...), statusChecks()...)
}

// orderAt and proxyAt request the given resource with the id of an order or a proxy of this
// account.
func orderAt(resource string) step[request] { return itemAt((*session).anyOrder, "order_no", resource) }
func proxyAt(resource string) step[request] { return itemAt((*session).anyProxy, "proxy_id", resource) }

func itemAt(item step[reply], id, resource string) step[request] {
	return func(s *session) (request, string) {
		r, why := item(s)
		return get("/api/v1/" + resource + "/" + rfc3986(word(r.data(), id))), why
	}
}

// unsupportedChecks try operations for which the API document gives no path. They require only
// a refusal, and never run in production.
func unsupportedChecks() []Check {
	type operation struct{ id, method, path string }
	return each([]operation{
		{"password", http.MethodPost, "/api/v1/proxies/" + unknown + "/password"},
		{"switch_ip", http.MethodPost, "/api/v1/proxies/" + unknown + "/switch"},
		{"top_up", http.MethodPost, "/api/v1/wallet/top-up"},
		{"change_proxy", http.MethodPatch, "/api/v1/proxies/" + unknown},
		{"delete_proxy", http.MethodDelete, "/api/v1/proxies/" + unknown},
		{"cancel_order", http.MethodDelete, "/api/v1/orders/" + unknown},
		{"change_account", http.MethodPut, "/api/v1/account"},
		{"write_wallet", http.MethodPost, "/api/v1/wallet"},
	}, func(op operation) []Check {
		r := request{method: op.method, path: op.path}
		if op.method == http.MethodPost {
			r = post(op.path, op.id, "{}")
		}
		return []Check{
			rule("errors.unsupported."+op.id, secErrors, op.method+" "+op.path+" is refused", r.wants(refusedAnyhow)).in(onlySandbox),
			rule("errors.unsupported."+op.id+".code", secVersioning, "whether "+op.method+" "+op.path+" is unsupported_operation", r.wants(recorded)).in(onlySandbox).open(),
		}
	})
}

// statusChecks record HTTP statuses that the API document does not give.
func statusChecks() []Check {
	var out []Check
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
		out = append(out, rule("errors.http_status."+r.code, secErrors, "the HTTP status of "+r.code, r.wants(recorded)).open())
	}
	return append(out, rule("errors.data_errors", secErrors, "the structure of data.errors",
		post("/api/v1/orders", "errors", "{}").wants(func(r reply) finding { return ok("%s", typeName(r.data()["errors"])) })).open())
}

// limitChecks check rate limits and other limits, and how the server treats unknown versions
// and fields.
func limitChecks() []Check {
	otherType := post("/api/v1/orders", "type", lines(unknown, 1, 1)).damaged(func(d *draft) { d.header.Set("Content-Type", "text/plain") }, false)
	scenario := post("/api/v1/proxies/renew", "scenario", renewBody([]string{unknown}, 30))
	scenario.scenario = "success"
	return []Check{
		rule("limits.rate.retry_after", secLimits, "every rate-limited reply of the run has a Retry-After header", func(s *session) finding {
			for _, r := range s.limited {
				if r.header.Get("Retry-After") == "" {
					return differs("%s without Retry-After", r.seen())
				}
			}
			return when(len(s.limited) == 0, notShown("no request was rate-limited"), ok("%d replies", len(s.limited)))
		}).atEnd(),
		rule("limits.rate.seen", secLimits, "how often the server answered the run with 429", func(s *session) finding {
			return ok("%d times in %d requests", len(s.limited), s.requests.Load())
		}).open().atEnd(),
		rule("limits.long_key", secHeaders, "what an Idempotency-Key of 300 bytes gets", keyed("/api/v1/orders", strings.Repeat("x", 300), "{}").wants(recorded)).open(),
		rule("headers.content_type.text", secHeaders, "what a POST with another Content-Type gets", otherType.wants(recorded)).open(),
		rule("headers.scenario.at_renewal", secHeaders, "what the scenario header gets at a renewal", scenario.wants(recorded)).in(onlySandbox).open(),
		rule("page.token.empty", secPagination, "what an empty page_token gets", get("/api/v1/offers", pair{"page_token", ""}).wants(recorded)).open(),
		rule("versioning.v2", secVersioning, "what a path of another version gets", get("/api/v2/account").wants(recorded)).open(),
		rule("versioning.unknown_query", secVersioning, "what a query parameter that the document does not have gets", get("/api/v1/account", pair{"conformance", "1"}).wants(recorded)).open(),
		rule("versioning.unknown_body_field", secVersioning, "what a body's field that the document does not have gets",
			post("/api/v1/orders", "field", `{"duration_days":30,"conformance":1,"items":[{"offer_code":"`+unknown+`","quantity":1}]}`).wants(recorded)).open(),
	}
}
