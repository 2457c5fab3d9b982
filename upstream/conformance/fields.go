// Checks of every documented field, and the objects to check.

package conformance

import (
	"slices"
)

// field is one line of the document's field tables.
type field struct {
	name string
	kind kind
	null bool // "may be null"
}

// The fields of the document, with their types if given.
var (
	envelopeFields = []field{{"success", boolean, false}, {"code", text, false}, {"message", text, false}, {"data", object, false},
		{"timestamp", instant, false}, {"trace_id", text, false}}
	failureFields = []field{{"success", boolean, false}, {"code", text, false}, {"message", text, false}, {"data", object, true},
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

// fieldChecks check every field of every resource, wherever the resource appears.
func fieldChecks() []Check {
	type table struct {
		group
		fields []field
		of     subject
	}
	return each([]table{
		{group{prefix: "account", section: secAccount, what: "the account"}, accountFields, dataOf("account")},
		{group{prefix: "wallet", section: secWallet, what: "the wallet"}, walletFields, dataOf("wallet")},
		{group{prefix: "offer", section: secOffer, what: "every offer"}, offerFields, entriesOf(dataOf("offers"), "offers")},
		{group{prefix: "order", section: secOrder, what: "an order's detail"}, orderFields, dataOf("order_detail")},
		{group{prefix: "order.delivery", section: secOrder, what: "delivery of an order's detail"}, deliveryFields, memberOf(dataOf("order_detail"), "delivery")},
		{group{"order.refund", secOrder, "refund of a rejected order", true, onlySandbox}, refundFields, memberOf(finalOf("rejected"), "refund")},
		{group{"order.proxies", secOrder, "every proxy of a delivered order", true, ""}, proxyFields, entriesOf(finalOf("plain"), "proxies")},
		{group{prefix: "proxy", section: secProxy, what: "a proxy's detail"}, proxyFields, dataOf("proxy_detail")},
		{group{prefix: "proxies.item", section: secProxies, what: "every listed proxy"}, proxyFields, listed("/api/v1/proxies")},
		{group{"renewal", secRenewal, "a renewal's result", true, ""}, renewalFields, dataOf("renew")},
		{group{"renewal.line", secRenewal, "every line item", true, ""}, lineFields, entriesOf(dataOf("renew"), "line_items")},
		{group{prefix: "page.offers", section: secPage, what: "a page of offers"}, pageFields, dataOf("offers")},
		{group{prefix: "page.orders", section: secPage, what: "a page of orders"}, pageFields, dataOf("order_list")},
		{group{prefix: "page.proxies", section: secPage, what: "a page of proxies"}, pageFields, dataOf("proxy_list")},
	}, func(t table) []Check { return t.has("", t.fields, t.of) })
}

// has checks every field in every object of a subject.
func (g group) has(prefix string, fields []field, of subject) (out []Check) {
	for _, f := range fields {
		says := f.kind.name
		if f.null {
			says += ", or null"
		}
		out = append(out, g.rule(prefix+f.name, "has "+f.name+": "+says, given(of, func(_ *session, objects []map[string]any) finding { return f.in(objects) })))
	}
	return out
}

func (f field) in(objects []map[string]any) finding {
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

// envelopeChecks check that successes and failures use the envelope.
func envelopeChecks() []Check {
	successes := each(endpoints, func(e endpoint) []Check {
		made := func(s *session) (reply, string) { return s.replyOf(e.name) }
		g := group{"envelope." + e.name, secEnvelope, e.method + " " + e.name, e.name == "order_create" || e.name == "renew", ""}
		success := g
		success.what = "a success of " + g.what
		return append([]Check{g.rule("succeeds", "answers with success true and code ok", given(made, func(_ *session, r reply) finding { return succeeds(r) }))},
			success.has("", envelopeFields, func(s *session) ([]map[string]any, string) {
				r, why := made(s)
				return []map[string]any{r.envelope}, why
			})...)
	})
	type failure struct {
		name, what string
		request
	}
	return append(successes, each([]failure{
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
	}, func(k failure) []Check {
		g := group{prefix: "failure." + k.name, section: secErrors, what: "the reply to " + k.what}
		if k.name == "unknown_method" {
			g.only = onlySandbox // never send undocumented requests in production
		}
		observe := func(s *session) reply { return memo(s, "failure "+k.name, func() reply { return s.send(k.request) }) }
		out := g.has("", failureFields, func(s *session) ([]map[string]any, string) { return []map[string]any{observe(s).envelope}, "" })
		g.what = "success is false"
		return append(out, g.rule("refused", "for "+k.what, func(s *session) finding { return refusedAnyhow(observe(s)) }))
	})...)
}

// subject returns the objects of one kind to check.
type subject = step[[]map[string]any]

// replyOf returns a successful reply of an endpoint, or why there is none.
func (s *session) replyOf(name string) (reply, string) {
	switch name {
	case "order_create":
		b := s.buy("plain")
		return b.reply, b.unsent()
	case "order_detail":
		return s.anyOrder()
	case "proxy_detail":
		return s.anyProxy()
	case "renew":
		r := s.renew("one")
		return r.reply, r.unsent()
	}
	i := slices.IndexFunc(endpoints, func(e endpoint) bool { return e.name == name })
	return memo(s, "reply "+name, func() reply { return s.get(endpoints[i].path) }), ""
}

// anyOrder returns the order that the run bought, or the first of the list.
func (s *session) anyOrder() (reply, string) {
	if b := s.buy("plain"); b.why == "" {
		return *b.last(), ""
	}
	list, _ := s.replyOf("order_list")
	_, items, _ := onlyArray(list.data())
	for _, item := range items {
		if no := word(item, "order_no"); no != "" {
			return memo(s, "an order", func() reply { return s.get("/api/v1/orders/" + rfc3986(no)) }), ""
		}
	}
	return reply{}, "there is no order: " + s.buy("plain").why
}

// anyProxy returns a proxy that the run bought, or the first of the list.
func (s *session) anyProxy() (reply, string) {
	ids := s.ownProxies()
	if len(ids) == 0 {
		list, _ := s.replyOf("proxy_list")
		_, items, _ := onlyArray(list.data())
		ids = wordsOf(items, "proxy_id")
	}
	if len(ids) == 0 || ids[0] == "" {
		return reply{}, "there is no proxy"
	}
	return memo(s, "a proxy", func() reply { return s.get("/api/v1/proxies/" + rfc3986(ids[0])) }), ""
}

// ownProxies returns the ids that the run bought with its plain order.
func (s *session) ownProxies() []string {
	ids := wordsOf(things(s.buy("plain").last().data(), "proxies"), "proxy_id")
	return slices.DeleteFunc(ids, func(id string) bool { return id == "" })
}

func dataOf(name string) subject {
	return func(s *session) ([]map[string]any, string) {
		r, why := s.replyOf(name)
		if why == "" && !r.succeeded() {
			why = "no success: " + r.seen()
		}
		return []map[string]any{r.data()}, why
	}
}

// memberOf selects an object inside each object of a subject.
func memberOf(of subject, name string) subject {
	return func(s *session) ([]map[string]any, string) {
		objects, why := of(s)
		out := make([]map[string]any, 0, len(objects))
		for _, o := range objects {
			m, _ := o[name].(map[string]any)
			out = append(out, m)
		}
		return out, why
	}
}

// entriesOf selects the entries of an array inside each object of a subject.
func entriesOf(of subject, name string) subject {
	return func(s *session) ([]map[string]any, string) {
		objects, why := of(s)
		out := make([]map[string]any, 0, len(objects))
		for _, o := range objects {
			out = append(out, things(o, name)...)
		}
		if why == "" && len(out) == 0 {
			why = name + " is empty"
		}
		return out, why
	}
}

// listed selects the entries of a list whose key the document does not give.
func listed(path string) subject {
	return func(s *session) ([]map[string]any, string) {
		s.buy("plain") // makes sure that the list has an entry, if buying is allowed
		r := memo(s, "listed "+path, func() reply { return s.get(path) })
		_, items, found := onlyArray(r.data())
		switch {
		case !found:
			return nil, "data does not hold exactly one array"
		case len(items) == 0:
			return nil, "the list is empty"
		}
		return items, ""
	}
}

// finalOf selects the last detail of one of the run's orders.
func finalOf(name string) subject {
	return func(s *session) ([]map[string]any, string) {
		data, why := s.buy(name).final()
		return []map[string]any{data}, why
	}
}
