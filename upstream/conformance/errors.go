// Checks of unknown identifiers, unsupported operations, HTTP statuses and limits.

package conformance

import (
	"fmt"
	"net/http"
)

// errorChecks are identifiers that are unknown or not ours, operations that the API
// does not have, and what the document leaves open about errors.
func errorChecks() []Check {
	var out []Check
	for _, id := range []struct{ name, id string }{{"plain", unknown}, {"long", longID()}, {"number", "1"}, {"uuid", "00000000-0000-4000-8000-000000000000"}} {
		out = append(out,
			Check{ID: "errors.order_not_found." + id.name, Section: secDetail, Sentence: "an unknown order (" + id.name + ") is order_not_found", run: func(s *session) finding {
				return refused(s.get("/api/v1/orders/"+id.id), "order_not_found")
			}},
			Check{ID: "errors.proxy_not_found." + id.name, Section: secProxies, Sentence: "an unknown proxy (" + id.name + ") is proxy_not_found", run: func(s *session) finding {
				return refused(s.get("/api/v1/proxies/"+id.id), "proxy_not_found")
			}})
	}
	out = append(out,
		Check{ID: "errors.order_not_found.foreign", Section: secDetail, Sentence: "another account's order is order_not_found", run: func(s *session) finding {
			r, why := s.anyOrder()
			return foreign(s, "/api/v1/orders/"+rfc3986(word(r.data(), "order_no")), "order_not_found", why)
		}},
		Check{ID: "errors.proxy_not_found.foreign", Section: secProxies, Sentence: "another account's proxy is proxy_not_found", run: func(s *session) finding {
			r, why := s.anyProxy()
			return foreign(s, "/api/v1/proxies/"+rfc3986(word(r.data(), "proxy_id")), "proxy_not_found", why)
		}},
		Check{ID: "errors.order_not_found.proxy_id", Section: secDetail, Sentence: "a proxy's id is no order", run: func(s *session) finding {
			r, why := s.anyProxy()
			if why != "" {
				return notRun("%s", why)
			}
			return refused(s.get("/api/v1/orders/"+rfc3986(word(r.data(), "proxy_id"))), "order_not_found")
		}},
		Check{ID: "errors.proxy_not_found.order_no", Section: secProxies, Sentence: "an order's number is no proxy", run: func(s *session) finding {
			r, why := s.anyOrder()
			if why != "" {
				return notRun("%s", why)
			}
			return refused(s.get("/api/v1/proxies/"+rfc3986(word(r.data(), "order_no"))), "proxy_not_found")
		}})
	return append(append(out, unsupportedChecks()...), statusChecks()...)
}

func longID() string {
	id := make([]byte, 300)
	for i := range id {
		id[i] = 'x'
	}
	return string(id)
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
		ask := func(s *session) reply {
			r := request{method: op.method, path: op.path}
			if op.method == http.MethodPost {
				r.key, r.body = s.newKey(op.id), []byte(`{}`)
			}
			return s.send(r)
		}
		out = append(out,
			Check{ID: "errors.unsupported." + op.id, Section: secErrors, only: onlySandbox, Sentence: fmt.Sprintf("%s %s is refused", op.method, op.path),
				run: func(s *session) finding { return refusedAnyhow(ask(s)) }},
			Check{ID: "errors.unsupported." + op.id + ".code", Section: secVersioning, only: onlySandbox, Open: true, Sentence: fmt.Sprintf("whether %s %s is unsupported_operation", op.method, op.path),
				run: func(s *session) finding { r := ask(s); return ok("%s", r.seen()) }})
	}
	return out
}

// statusChecks record the HTTP statuses that the document does not give.
func statusChecks() []Check {
	asks := []struct {
		code string
		ask  func(*session) reply
	}{
		{"invalid_signature", func(s *session) reply {
			return s.send(request{method: "GET", path: "/api/v1/account", damage: func(d *draft) { d.header.Del("X-Api-Signature") }})
		}},
		{"order_not_found", func(s *session) reply { return s.get("/api/v1/orders/" + unknown) }},
		{"proxy_not_found", func(s *session) reply { return s.get("/api/v1/proxies/" + unknown) }},
		{"offer_not_found", func(s *session) reply { return s.post("/api/v1/orders", s.newKey("status"), lines(unknown, 1, 1)) }},
		{"validation_error", func(s *session) reply { return s.post("/api/v1/orders", s.newKey("status"), "{}") }},
		{"idempotency_key_required", func(s *session) reply { return s.post("/api/v1/orders", "", "{}") }},
		{"invalid_page_token", func(s *session) reply { return s.get("/api/v1/offers", pair{"page_token", "x"}) }},
		{"unsupported_operation", func(s *session) reply { return s.get("/api/v1/" + unknown) }},
	}
	var out []Check
	for _, a := range asks {
		out = append(out, Check{ID: "errors.http_status." + a.code, Section: secErrors, Open: true, Sentence: "the HTTP status of " + a.code,
			run: func(s *session) finding { r := a.ask(s); return ok("%s", r.seen()) }})
	}
	return append(out, Check{ID: "errors.data_errors", Section: secErrors, Open: true, Sentence: "the structure of data.errors", run: func(s *session) finding {
		r := s.post("/api/v1/orders", s.newKey("errors"), "{}")
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
		{ID: "limits.long_key", Section: secHeaders, Open: true, Sentence: "what an Idempotency-Key of 300 bytes gets", run: func(s *session) finding {
			r := s.post("/api/v1/orders", longID(), "{}")
			return ok("%s", r.seen())
		}},
		{ID: "headers.content_type.text", Section: secHeaders, Open: true, Sentence: "what a POST with another Content-Type gets", run: func(s *session) finding {
			return ok("%s", sendSeen(s, request{method: http.MethodPost, path: "/api/v1/orders", key: s.newKey("type"), body: []byte(lines(unknown, 1, 1)),
				damage: func(d *draft) { d.header.Set("Content-Type", "text/plain") }}))
		}},
		{ID: "headers.scenario.at_renewal", Section: secHeaders, only: onlySandbox, Open: true, Sentence: "what the scenario header gets at a renewal", run: func(s *session) finding {
			return ok("%s", sendSeen(s, request{method: http.MethodPost, path: "/api/v1/proxies/renew", key: s.newKey("scenario"), scenario: "success", body: renewBody([]string{unknown}, 30)}))
		}},
		{ID: "page.token.empty", Section: secPagination, Open: true, Sentence: "what an empty page_token gets", run: func(s *session) finding {
			return ok("%s", sendSeen(s, request{method: http.MethodGet, path: "/api/v1/offers", pairs: []pair{{"page_token", ""}}}))
		}},
		{ID: "versioning.v2", Section: secVersioning, Open: true, Sentence: "what a path of another version gets", run: func(s *session) finding {
			r := s.get("/api/v2/account")
			return ok("%s", r.seen())
		}},
		{ID: "versioning.unknown_query", Section: secVersioning, Open: true, Sentence: "what a query parameter that the document does not have gets", run: func(s *session) finding {
			r := s.get("/api/v1/account", pair{"conformance", "1"})
			return ok("%s", r.seen())
		}},
		{ID: "versioning.unknown_body_field", Section: secVersioning, Open: true, Sentence: "what a body's field that the document does not have gets", run: func(s *session) finding {
			r := s.post("/api/v1/orders", s.newKey("field"), `{"duration_days":30,"conformance":1,"items":[{"offer_code":"`+unknown+`","quantity":1}]}`)
			return ok("%s", r.seen())
		}},
	}
}
