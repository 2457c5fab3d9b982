// Checks of every documented field of every resource.

package conformance

import "fmt"

// field is one line of the document's tables of fields.
type field struct {
	name string
	kind kind
	null bool // "may be null"
}

// The fields of the document, with their types where it gives them.
var (
	envelopeFields = []field{{"success", boolean, false}, {"code", text, false}, {"message", text, false}, {"data", object, false},
		{"timestamp", instant, false}, {"trace_id", text, false}}
	accountFields = []field{{"account_id", anything, false}, {"email", anything, false}, {"email_verified", anything, false},
		{"status", anything, false}, {"created_at", instant, true}}
	walletFields = []field{{"environment", text, false}, {"currency", text, false}, {"balance_cents", integer, false},
		{"balance", decimal, false}, {"frozen_cents", integer, false}, {"cash_value", boolean, false}}
	offerFields = []field{{"offer_code", text, false}, {"name", anything, false}, {"country_code", anything, false},
		{"country_name", anything, false}, {"region", anything, true}, {"line_name", anything, true}, {"ip_type", anything, true},
		{"protocol", anything, true}, {"unit_price_cents", integer, false}, {"unit_price", decimal, false},
		{"base_duration_days", integer, false}, {"duration_days", integers, false}, {"max_quantity", integer, false}, {"cidrs", list, true}}
	orderFields = []field{{"order_no", text, false}, {"status", text, false}, {"payment_status", anything, true},
		{"payment_method", anything, true}, {"currency", text, false}, {"subtotal_cents", integer, false}, {"total_cents", integer, false},
		{"total", decimal, false}, {"created_at", instant, true}, {"items", list, false}, {"delivery", object, false},
		{"poll_after_seconds", integer, true}, {"refund", object, true}, {"proxies", list, false}}
	deliveryFields = []field{{"expected_count", integer, false}, {"delivered_count", integer, false}, {"complete", boolean, false},
		{"available", boolean, false}}
	refundFields = []field{{"status", anything, false}, {"destination", anything, false}, {"amount_cents", integer, false},
		{"currency", text, false}, {"refunded_at", instant, true}}
	proxyFields = []field{{"proxy_id", text, false}, {"status", anything, true}, {"host", anything, true}, {"port", anything, true},
		{"protocol", anything, true}, {"username", anything, true}, {"password", anything, true}, {"connection", anything, true},
		{"socks5_uri", anything, true}, {"ip_type", anything, true}, {"country_code", anything, true}, {"region", anything, true},
		{"line_name", anything, true}, {"starts_at", instant, true}, {"expires_at", instant, true}}
	renewalFields = []field{{"status", text, false}, {"total_cents", integer, false}, {"charged_cents", integer, false},
		{"refunded_cents", integer, false}, {"successful_proxy_ids", texts, false}, {"failed_proxy_ids", texts, false},
		{"unresolved_proxy_ids", texts, false}, {"line_items", list, false}}
	lineFields = []field{{"proxy_id", text, false}, {"host", anything, true}, {"status", text, false}, {"duration_days", integer, false},
		{"amount_cents", integer, false}, {"amount", decimal, false}, {"charged_cents", integer, false}, {"refunded_cents", integer, false}}
	pageFields = []field{{"page_size", integer, false}, {"has_more", boolean, false}, {"next_page_token", text, true}}
)

// fieldChecks are every field of every resource, wherever the resource appears.
func fieldChecks() []Check {
	tables := []struct {
		prefix, section, what string
		fields                []field
		of                    subject
		costs                 bool
		only                  environment
	}{
		{"account", secAccount, "the account", accountFields, dataOf("account"), false, ""},
		{"wallet", secWallet, "the wallet", walletFields, dataOf("wallet"), false, ""},
		{"offer", secOffer, "every offer", offerFields, entriesOf(dataOf("offers"), "offers"), false, ""},
		{"order", secOrder, "an order's detail", orderFields, dataOf("order_detail"), false, ""},
		{"order.delivery", secOrder, "delivery of an order's detail", deliveryFields, memberOf(dataOf("order_detail"), "delivery"), false, ""},
		{"order.refund", secOrder, "refund of a rejected order", refundFields, memberOf(finalOf("rejected"), "refund"), true, onlySandbox},
		{"order.proxies", secOrder, "every proxy of a delivered order", proxyFields, entriesOf(finalOf("plain"), "proxies"), true, ""},
		{"proxy", secProxy, "a proxy's detail", proxyFields, dataOf("proxy_detail"), false, ""},
		{"proxies.item", secProxies, "every listed proxy", proxyFields, listed("proxy_list"), false, ""},
		{"renewal", secRenewal, "a renewal's result", renewalFields, dataOf("renew"), true, ""},
		{"renewal.line", secRenewal, "every line item", lineFields, entriesOf(dataOf("renew"), "line_items"), true, ""},
		{"page.offers", secPage, "a page of offers", pageFields, dataOf("offers"), false, ""},
		{"page.orders", secPage, "a page of orders", pageFields, dataOf("order_list"), false, ""},
		{"page.proxies", secPage, "a page of proxies", pageFields, dataOf("proxy_list"), false, ""},
	}
	var out []Check
	for _, t := range tables {
		for _, f := range t.fields {
			out = append(out, Check{ID: t.prefix + "." + f.name, Section: t.section, Costs: t.costs, only: t.only,
				Sentence: fmt.Sprintf("%s has %s: %s", t.what, f.name, f.says()), run: f.in(t.of)})
		}
	}
	return out
}

func envelopeChecks() []Check {
	var out []Check
	for _, e := range endpoints {
		out = append(out, Check{ID: "envelope." + e.name + ".succeeds", Section: secEnvelope, Costs: e.name == "order_create" || e.name == "renew",
			Sentence: fmt.Sprintf("%s %s answers with success true and code ok", e.method, e.name), run: given(func(s *session) (reply, string) { return s.replyOf(e.name) }, func(_ *session, r reply) finding { return succeeds(r) })})
		for _, f := range envelopeFields {
			out = append(out, Check{ID: "envelope." + e.name + "." + f.name, Section: secEnvelope, Costs: e.name == "order_create" || e.name == "renew",
				Sentence: fmt.Sprintf("a success of %s %s has %s: %s", e.method, e.name, f.name, f.says()), run: f.in(envelopeOf(e.name))})
		}
	}
	return append(out, failureEnvelopes()...)
}

func (f field) says() string {
	if f.null {
		return kindNames[f.kind] + ", or null"
	}
	return kindNames[f.kind]
}

// in observes the field in every object of a subject.
func (f field) in(of subject) func(*session) finding {
	return func(s *session) finding {
		objects, why := of(s)
		if why != "" {
			return notRun("%s", why)
		}
		seen := ""
		for _, o := range objects {
			v, there := o[f.name]
			switch {
			case !there:
				return differs("it is absent")
			case v == nil && !f.null, v != nil && !f.kind.fits(v):
				return differs("it is %s", typeName(v))
			}
			seen = typeName(v)
		}
		return ok("%s", seen)
	}
}

// failureEnvelopes observe that a failure uses the envelope too.
func failureEnvelopes() []Check {
	kinds := []struct {
		name, what string
		request
	}{
		{"unsigned", "an unsigned request", unsigned()},
		{"order_not_found", "an unknown order", get("/api/v1/orders/" + unknown)},
		{"proxy_not_found", "an unknown proxy", get("/api/v1/proxies/" + unknown)},
		{"page_token", "a bad page token", get("/api/v1/offers", pair{"page_token", "conformance"})},
		{"no_key", "an order without a key", post("/api/v1/orders", "", "{}")},
		{"validation", "an empty order", post("/api/v1/orders", "empty", "{}")},
		{"empty_renewal", "an empty renewal", post("/api/v1/proxies/renew", "empty", "{}")},
		{"unknown_path", "a path that the API does not have", get("/api/v1/" + unknown)},
		{"deeper_path", "a path below an order", get("/api/v1/orders/a/b")},
		{"unknown_method", "a method that the API does not have", request{method: "DELETE", path: "/api/v1/orders"}},
	}
	var out []Check
	for _, k := range kinds {
		only := environment("")
		if k.name == "unknown_method" {
			only = onlySandbox // in production nothing is tried that the document does not have
		}
		observe := func(s *session) reply { return memo(s, "failure "+k.name, func() reply { return s.send(k.request) }) }
		for _, f := range envelopeFields {
			if f.name == "data" {
				f = field{"data", object, true}
			}
			out = append(out, Check{ID: "failure." + k.name + "." + f.name, Section: secErrors, only: only,
				Sentence: fmt.Sprintf("the reply to %s has %s: %s", k.what, f.name, f.says()),
				run:      f.in(func(s *session) ([]map[string]any, string) { r := observe(s); return []map[string]any{r.envelope}, "" })})
		}
		out = append(out, Check{ID: "failure." + k.name + ".refused", Section: secErrors, only: only, Sentence: "success is false for " + k.what,
			run: func(s *session) finding { return refusedAnyhow(observe(s)) }})
	}
	return out
}
