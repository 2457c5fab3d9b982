// Checks of unknown identifiers, unsupported operations, HTTP statuses and limits.

package conformance

import (
	"fmt"
	"net/http"
	"strings"
)

// errorChecks are identifiers that are unknown or not ours, operations that the API
// does not have, and what the document leaves open about errors.
func errorChecks() []Check {
	var out []Check
	for _, id := range []struct{ name, id string }{{"plain", unknown}, {"long", strings.Repeat("x", 300)}, {"number", "1"}, {"uuid", "00000000-0000-4000-8000-000000000000"}} {
		out = append(out,
			Check{ID: "errors.order_not_found." + id.name, Section: secDetail, Sentence: "an unknown order (" + id.name + ") is order_not_found", run: get("/api/v1/orders/" + id.id).wants(refusing("order_not_found"))},
			Check{ID: "errors.proxy_not_found." + id.name, Section: secProxies, Sentence: "an unknown proxy (" + id.name + ") is proxy_not_found", run: get("/api/v1/proxies/" + id.id).wants(refusing("proxy_not_found"))})
	}
	out = append(out,
		Check{ID: "errors.order_not_found.foreign", Section: secDetail, Sentence: "another account's order is order_not_found", run: asks(foreign(orderAt("orders")), refusing("order_not_found"))},
		Check{ID: "errors.proxy_not_found.foreign", Section: secProxies, Sentence: "another account's proxy is proxy_not_found", run: asks(foreign(proxyAt("proxies")), refusing("proxy_not_found"))},
		Check{ID: "errors.order_not_found.proxy_id", Section: secDetail, Sentence: "a proxy's id is no order", run: asks(proxyAt("orders"), refusing("order_not_found"))},
		Check{ID: "errors.proxy_not_found.order_no", Section: secProxies, Sentence: "an order's number is no proxy", run: asks(orderAt("proxies"), refusing("proxy_not_found"))})
	return append(append(out, unsupportedChecks()...), statusChecks()...)
}

// orderAt asks a resource for the number of an order of this account, proxyAt
// for the id of a proxy.
func orderAt(resource string) func(*session) (request, string) {
	return func(s *session) (request, string) {
		r, why := s.anyOrder()
		return get("/api/v1/" + resource + "/" + rfc3986(word(r.data(), "order_no"))), why
	}
}

func proxyAt(resource string) func(*session) (request, string) {
	return func(s *session) (request, string) {
		r, why := s.anyProxy()
		return get("/api/v1/" + resource + "/" + rfc3986(word(r.data(), "proxy_id"))), why
	}
}

// unsupportedChecks try operations that the document names without their paths, so
// only the refusal counts. In production nothing
// is tried that the document does not have.
func unsupportedChecks() []Check {
	out := make([]Check, 0, 16)
	for _, op := range []struct{ id, method, path string }{
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
		out = append(out,
			Check{ID: "errors.unsupported." + op.id, Section: secErrors, only: onlySandbox, Sentence: fmt.Sprintf("%s %s is refused", op.method, op.path),
				run: r.wants(refusedAnyhow)},
			Check{ID: "errors.unsupported." + op.id + ".code", Section: secVersioning, only: onlySandbox, Open: true, Sentence: fmt.Sprintf("whether %s %s is unsupported_operation", op.method, op.path),
				run: r.wants(recorded)})
	}
	return out
}

// statusChecks record the HTTP statuses that the document does not give.
func statusChecks() []Check {
	requests := []struct {
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
	}
	out := make([]Check, 0, len(requests)+1)
	for _, r := range requests {
		out = append(out, Check{ID: "errors.http_status." + r.code, Section: secErrors, Open: true, Sentence: "the HTTP status of " + r.code, run: r.wants(recorded)})
	}
	return append(out, Check{ID: "errors.data_errors", Section: secErrors, Open: true, Sentence: "the structure of data.errors", run: func(s *session) finding {
		r := s.send(post("/api/v1/orders", "errors", "{}"))
		return ok("%s", typeName(r.data()["errors"]))
	}})
}

// limitChecks are rates, and the version in the path.
func limitChecks() []Check {
	return []Check{
		{ID: "limits.rate.retry_after", Section: secLimits, Sentence: "every rate-limited reply of the run has a Retry-After header", last: true, run: func(s *session) finding {
			s.mu.Lock()
			defer s.mu.Unlock()
			for i := range s.limited {
				if s.limited[i].header.Get("Retry-After") == "" {
					return differs("%s without Retry-After", s.limited[i].seen())
				}
			}
			if len(s.limited) == 0 {
				return notShown("no request was rate-limited")
			}
			return ok("%d replies", len(s.limited))
		}},
		{ID: "limits.rate.seen", Section: secLimits, Open: true, Sentence: "how often the server answered the run with 429", last: true, run: func(s *session) finding {
			s.mu.Lock()
			defer s.mu.Unlock()
			return ok("%d times in %d requests", len(s.limited), s.requests.Load())
		}},
		{ID: "limits.long_key", Section: secHeaders, Open: true, Sentence: "what an Idempotency-Key of 300 bytes gets", run: keyed("/api/v1/orders", strings.Repeat("x", 300), "{}").wants(recorded)},
		{ID: "headers.content_type.text", Section: secHeaders, Open: true, Sentence: "what a POST with another Content-Type gets", run: request{method: http.MethodPost, path: "/api/v1/orders", fresh: "type", body: []byte(lines(unknown, 1, 1)),
			damage: func(d *draft) { d.header.Set("Content-Type", "text/plain") }}.wants(recorded)},
		{ID: "headers.scenario.at_renewal", Section: secHeaders, only: onlySandbox, Open: true, Sentence: "what the scenario header gets at a renewal", run: request{method: http.MethodPost, path: "/api/v1/proxies/renew", fresh: "scenario", scenario: "success", body: renewBody([]string{unknown}, 30)}.wants(recorded)},
		{ID: "page.token.empty", Section: secPagination, Open: true, Sentence: "what an empty page_token gets", run: request{method: http.MethodGet, path: "/api/v1/offers", pairs: []pair{{"page_token", ""}}}.wants(recorded)},
		{ID: "versioning.v2", Section: secVersioning, Open: true, Sentence: "what a path of another version gets", run: get("/api/v2/account").wants(recorded)},
		{ID: "versioning.unknown_query", Section: secVersioning, Open: true, Sentence: "what a query parameter that the document does not have gets", run: get("/api/v1/account", pair{"conformance", "1"}).wants(recorded)},
		{ID: "versioning.unknown_body_field", Section: secVersioning, Open: true, Sentence: "what a body's field that the document does not have gets", run: post("/api/v1/orders", "field", `{"duration_days":30,"conformance":1,"items":[{"offer_code":"`+unknown+`","quantity":1}]}`).wants(recorded)},
	}
}
