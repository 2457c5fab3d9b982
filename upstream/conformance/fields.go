// Checks of every documented field, and the objects that they check.

package conformance

import (
	"slices"
	"strings"
)

// field is one row in the field tables of the API document.
type field struct {
	name string
	kind kind
	null bool // the API document says "may be null"
}

// kinds maps a name in the tables below to its type.
var kinds = map[string]kind{"": anything, "text": text, "boolean": boolean, "list": list, "object": object, "instant": instant,
	"integer": integer, "decimal": decimal, "texts": texts, "integers": integers}

// fields parses a table of field names. A name may have a type, as in name:text. A question
// mark at the end means that the field may be null.
func fields(table string) (out []field) {
	for entry := range strings.FieldsSeq(table) {
		entry, null := strings.CutSuffix(entry, "?")
		name, typed, _ := strings.Cut(entry, ":")
		out = append(out, field{name, kinds[typed], null})
	}
	return out
}

// The fields in the API document.
var (
	envelopeFields = fields("success:boolean code:text message:text data:object timestamp:instant trace_id:text")
	failureFields  = fields("success:boolean code:text message:text data:object? timestamp:instant trace_id:text")
	accountFields  = fields("account_id email email_verified status created_at:instant?")
	walletFields   = fields("environment:text currency:text balance_cents:integer balance:decimal frozen_cents:integer cash_value:boolean")
	offerFields    = fields(`offer_code:text name country_code country_name region? line_name? ip_type? protocol? unit_price_cents:integer
		unit_price:decimal base_duration_days:integer duration_days:integers max_quantity:integer cidrs:list?`)
	orderFields = fields(`order_no:text status:text payment_status? payment_method? currency:text subtotal_cents:integer total_cents:integer
		total:decimal created_at:instant? items:list delivery:object poll_after_seconds:integer? refund:object? proxies:list`)
	deliveryFields = fields("expected_count:integer delivered_count:integer complete:boolean available:boolean")
	refundFields   = fields("status destination amount_cents:integer currency:text refunded_at:instant?")
	proxyFields    = fields(`proxy_id:text status? host? port? protocol? username? password? connection? socks5_uri? ip_type? country_code? region?
		line_name? starts_at:instant? expires_at:instant?`)
	renewalFields = fields(`status:text total_cents:integer charged_cents:integer refunded_cents:integer successful_proxy_ids:texts failed_proxy_ids:texts
		unresolved_proxy_ids:texts line_items:list`)
	lineFields = fields(`proxy_id:text host? status:text duration_days:integer amount_cents:integer amount:decimal charged_cents:integer
		refunded_cents:integer`)
	pageFields = fields("page_size:integer has_more:boolean next_page_token:text?")
)

// fieldChecks check every field of every resource, in each reply that contains the resource.
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

// has returns a check of each field in every object of a subject.
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

// envelopeChecks check that successes and failures have the documented envelope.
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
			g.only = onlySandbox // undocumented requests are never sent in production
		}
		observe := func(s *session) reply { return memo(s, "failure "+k.name, func() reply { return s.send(k.request) }) }
		out := g.has("", failureFields, func(s *session) ([]map[string]any, string) { return []map[string]any{observe(s).envelope}, "" })
		g.what = "success is false"
		return append(out, g.rule("refused", "for "+k.what, func(s *session) finding { return refusedAnyhow(observe(s)) }))
	})...)
}

// subject returns the objects that a check examines.
type subject = step[[]map[string]any]

// replyOf returns a reply of an endpoint, or the reason why there is none.
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

// anyOrder returns the detail of the order that the run has bought, or of the first order in
// the list.
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

// anyProxy returns the detail of a proxy that the run has bought, or of the first proxy in
// the list.
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

// ownProxies returns the ids of the proxies in the run's plain order.
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

// memberOf returns the object in a member of each object of a subject.
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

// entriesOf returns the entries of an array in each object of a subject.
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

// listed returns the entries of a list whose name the API document does not give.
func listed(path string) subject {
	return func(s *session) ([]map[string]any, string) {
		s.buy("plain") // adds an entry to the list, if the run may spend money
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

// finalOf returns the last detail of an order that the run has bought.
func finalOf(name string) subject {
	return func(s *session) ([]map[string]any, string) {
		data, why := s.buy(name).final()
		return []map[string]any{data}, why
	}
}
