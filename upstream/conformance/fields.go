package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

type dict = map[string]any

type kind struct {
	name string
	fits func(v any) bool
}

var (
	integerForm = regexp.MustCompile(`^-?[0-9]+$`)
	decimalForm = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

	anything = kind{"a value", func(any) bool { return true }} // the API document gives the field without a type
	text     = kind{"a string", is[string]}
	boolean  = kind{"a boolean", is[bool]}
	list     = kind{"an array", is[[]any]}
	object   = kind{"an object", is[dict]}
	instant  = kind{"an ISO 8601 time with a zone", func(v any) bool { _, ok := timeOf(v); return ok }}
	integer  = kind{"an integer", func(v any) bool { n, ok := v.(json.Number); return ok && integerForm.MatchString(n.String()) }}
	decimal  = kind{"a decimal string", func(v any) bool { s, ok := v.(string); return ok && decimalForm.MatchString(s) }}
	texts    = kind{"an array of strings", every(text)}
	integers = kind{"an array of integers", every(integer)}
)

func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

func every(k kind) func(any) bool {
	return func(v any) bool {
		items, ok := v.([]any)
		return ok && !slices.ContainsFunc(items, func(item any) bool { return !k.fits(item) })
	}
}

// typeName describes a value without the text of a string, which may be a credential.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("a string of %d bytes", len(v))
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return "the number " + brief(v.String())
	case []any:
		return fmt.Sprintf("an array of %d", len(v))
	}
	return "an object"
}

// at returns the value at a path of member names, separated by dots. It returns nil if there is
// no such value.
func at(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(dict)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

func cents(v any, path string) (int64, bool) {
	n, ok := at(v, path).(json.Number)
	if !ok {
		return 0, false
	}
	out, err := n.Int64()
	return out, err == nil
}

func member[T any](v any, path string) T {
	got, _ := at(v, path).(T)
	return got
}

func word(v any, path string) string { return member[string](v, path) }

func truth(v any, path string) bool { return member[bool](v, path) }

func things(v any, path string) []dict { return members[dict](at(v, path)) }

func words(v any, path string) []string { return members[string](at(v, path)) }

func members[T any](v any) []T {
	items, _ := v.([]any)
	out := make([]T, len(items))
	for i, item := range items {
		out[i], _ = item.(T)
	}
	return out
}

func wordsOf(objects []dict, path string) []string {
	out := make([]string, len(objects))
	for i, o := range objects {
		out[i] = word(o, path)
	}
	return out
}

var zonedForm = regexp.MustCompile(`(Z|[+-][0-9]{2}:?([0-9]{2})?)$`)

func timeOf(v any) (time.Time, bool) {
	s, ok := v.(string)
	if !ok || !zonedForm.MatchString(s) {
		return time.Time{}, false
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04Z07:00", "20060102T150405Z0700"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

func agrees(decimalText string, cents int64) bool {
	got, ok := new(big.Rat).SetString(decimalText)
	return ok && decimalForm.MatchString(decimalText) && got.Cmp(big.NewRat(cents, 100)) == 0
}

// onlyArray returns the name and the entries of the only array. ok is false if there is not
// exactly one array. The API document does not give the names of some lists.
func onlyArray(data dict) (key string, items []dict, ok bool) {
	found := 0
	for name, v := range data {
		if _, isArray := v.([]any); isArray {
			key, found = name, found+1
		}
	}
	if found != 1 {
		return "", nil, false
	}
	return key, things(data, key), true
}

var secretMembers = []string{"username", "password", "connection", "socks5_uri"}

func secretIn(v any) string {
	var inner []any
	switch v := v.(type) {
	case dict:
		for _, name := range secretMembers {
			if v[name] != nil && v[name] != "" {
				return name
			}
		}
		inner = slices.Collect(maps.Values(v))
	case []any:
		inner = v
	}
	for _, one := range inner {
		if name := secretIn(one); name != "" {
			return name
		}
	}
	return ""
}

type field struct {
	name string
	kind kind
	null bool // the API document says "may be null"
}

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

func fieldChecks(c *suite) {
	for _, t := range []struct {
		prefix, section, what string
		paid                  bool
		only                  environment
		fields                []field
		objects               subject
	}{
		{"account", secAccount, "the account", false, "", accountFields, dataOf("account")},
		{"wallet", secWallet, "the wallet", false, "", walletFields, dataOf("wallet")},
		{"offer", secOffer, "every offer", false, "", offerFields, entriesOf(dataOf("offers"), "offers")},
		{"order", secOrder, "an order's detail", false, "", orderFields, dataOf("order_detail")},
		{"order.delivery", secOrder, "delivery of an order's detail", false, "", deliveryFields, memberOf(dataOf("order_detail"), "delivery")},
		{"order.refund", secOrder, "refund of a rejected order", true, onlySandbox, refundFields, memberOf(finalOf("rejected"), "refund")},
		{"order.proxies", secOrder, "every proxy of a delivered order", true, "", proxyFields, entriesOf(finalOf("plain"), "proxies")},
		{"proxy", secProxy, "a proxy's detail", false, "", proxyFields, dataOf("proxy_detail")},
		{"proxies.item", secProxies, "every listed proxy", false, "", proxyFields, listed("/api/v1/proxies")},
		{"renewal", secRenewal, "a renewal's result", true, "", renewalFields, dataOf("renew")},
		{"renewal.line", secRenewal, "every line item", true, "", lineFields, entriesOf(dataOf("renew"), "line_items")},
		{"page.offers", secPage, "a page of offers", false, "", pageFields, dataOf("offers")},
		{"page.orders", secPage, "a page of orders", false, "", pageFields, dataOf("order_list")},
		{"page.proxies", secPage, "a page of proxies", false, "", pageFields, dataOf("proxy_list")},
	} {
		group{c, t.prefix, t.section, t.what, t.paid, t.only}.has("", t.fields, t.objects)
	}
}

func (g group) has(prefix string, fields []field, objects subject) {
	for _, f := range fields {
		says := f.kind.name
		if f.null {
			says += ", or null"
		}
		g.rule(prefix+f.name, "has "+f.name+": "+says, of(objects, f.in))
	}
}

func (f field) in(objects []dict) finding {
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

func envelopeChecks(c *suite) {
	for _, e := range endpoints {
		made := func(s *session) reply { return s.replyOf(e.name) }
		g := group{c, "envelope." + e.name, secEnvelope, e.method + " " + e.name, e.name == "order_create" || e.name == "renew", ""}
		g.rule("succeeds", "answers with success true and code ok", of(made, succeeds))
		g.what = "a success of " + g.what
		g.has("", envelopeFields, func(s *session) []dict { return []dict{made(s).envelope} })
	}
	type failure struct {
		name, what string
		request
	}
	for _, k := range []failure{
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
	} {
		g := group{suite: c, prefix: "failure." + k.name, section: secErrors, what: "the reply to " + k.what}
		if k.name == "unknown_method" {
			g.only = onlySandbox // undocumented requests are never sent in production
		}
		observe := func(s *session) reply { return memo(s, "failure "+k.name, func() reply { return s.send(k.request) }) }
		g.has("", failureFields, func(s *session) []dict { return []dict{observe(s).envelope} })
		g.what = "success is false"
		g.rule("refused", "for "+k.what, of(observe, refusedAnyhow))
	}
}

// subject returns the objects that a check examines. It skips the check if there are none.
type subject = func(*session) []dict

func (s *session) replyOf(name string) reply {
	switch name {
	case "order_create":
		return s.bought("plain").reply
	case "order_detail":
		return s.anyOrder()
	case "proxy_detail":
		return s.anyProxy()
	case "renew":
		return s.renewalSent("one").reply
	}
	i := slices.IndexFunc(endpoints, func(e endpoint) bool { return e.name == name })
	return memo(s, "reply "+name, func() reply { return s.get(endpoints[i].path) })
}

// anyOrder returns the detail of the run's own order. Without an own order, it returns the
// detail of the first order in the server's list.
func (s *session) anyOrder() reply {
	b, why := attempt(s.orderedPlain)
	if why == "" {
		return b.last()
	}
	for _, item := range s.replyOf("order_list").items() {
		if no := word(item, "order_no"); no != "" {
			return memo(s, "an order", func() reply { return s.order(no) })
		}
	}
	s.skipf("there is no order: %s", why)
	return reply{}
}

// anyProxy returns the detail of one of the run's own proxies. Without an own proxy, it returns
// the detail of the first proxy in the server's list.
func (s *session) anyProxy() reply {
	ids := s.ownProxies()
	if len(ids) == 0 {
		ids = wordsOf(s.replyOf("proxy_list").items(), "proxy_id")
	}
	if len(ids) == 0 || ids[0] == "" {
		s.skipf("there is no proxy")
	}
	return memo(s, "a proxy", func() reply { return s.proxy(ids[0]) })
}

func dataOf(name string) subject {
	return func(s *session) []dict {
		r := s.replyOf(name)
		if !r.succeeded() {
			s.skipf("no success: %s", r.seen())
		}
		return []dict{r.data()}
	}
}

func memberOf(outer subject, name string) subject {
	return func(s *session) (out []dict) {
		for _, o := range outer(s) {
			out = append(out, member[dict](o, name))
		}
		return out
	}
}

func entriesOf(outer subject, name string) subject {
	return func(s *session) (out []dict) {
		for _, o := range outer(s) {
			out = append(out, things(o, name)...)
		}
		if len(out) == 0 {
			s.skipf("%s is empty", name)
		}
		return out
	}
}

// listed returns the entries of a list whose name the API document does not give.
func listed(path string) subject {
	return func(s *session) []dict {
		s.tryToBuy("plain")
		r := memo(s, "listed "+path, func() reply { return s.get(path) })
		_, items, found := onlyArray(r.data())
		switch {
		case !found:
			s.skipf("data does not hold exactly one array")
		case len(items) == 0:
			s.skipf("the list is empty")
		}
		return items
	}
}

func finalOf(name string) subject {
	return func(s *session) []dict { return []dict{s.delivered(name).last().data()} }
}
