package conformance_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// exchange is one request and its reply, which a defect may change.
type exchange struct {
	w      *world
	r      *http.Request
	status int
	header http.Header
	body   map[string]any
	raw    []byte // replaces body if set
	seen   map[string]int
}

func (x *exchange) is(method, path string) bool { return x.r.Method == method && x.r.URL.Path == path }

func (x *exchange) code() string { text, _ := x.body["code"].(string); return text }

func (x *exchange) data() map[string]any { data, _ := x.body["data"].(map[string]any); return data }

func (x *exchange) delivery() map[string]any {
	d, _ := x.data()["delivery"].(map[string]any)
	return d
}

func (x *exchange) items(name string) []any { items, _ := x.data()[name].([]any); return items }

// detail reports a successful read of an order.
func (x *exchange) detail() bool {
	return x.r.Method == http.MethodGet && strings.HasPrefix(x.r.URL.Path, "/api/v1/orders/") && x.code() == "ok"
}

func (x *exchange) renewal() bool {
	return x.is(http.MethodPost, "/api/v1/proxies/renew") && x.code() == "ok"
}

// succeed turns a refusal into a success.
func (x *exchange) succeed() { x.status, x.body["success"], x.body["code"] = 200, true, "ok" }

// charge takes cents from the wallet without the API.
func (x *exchange) charge(cents int64) {
	body := fmt.Sprintf(`{"account_id":"acc_sandbox","environment":"sandbox","add_cents":%d}`, -cents)
	resp, err := http.Post(x.w.server.ControlURL()+"/wallet", "application/json", strings.NewReader(body))
	if err == nil {
		_ = resp.Body.Close()
	}
}

func (x *exchange) total() int64 {
	n, _ := x.data()["total_cents"].(json.Number)
	out, _ := n.Int64()
	return out
}

// defect is one error of a server, with the checks that must report it.
type defect struct {
	name   string
	do     func(*exchange)
	caught []string
}

var defects = []defect{
	{"a field is missing", func(x *exchange) { delete(x.data(), "frozen_cents") }, []string{"wallet.frozen_cents"}},
	{"cents come as a string", func(x *exchange) {
		if x.is("GET", "/api/v1/wallet") {
			x.data()["balance_cents"] = fmt.Sprint(x.data()["balance_cents"])
		}
	}, []string{"wallet.balance_cents"}},
	{"cents have a fraction", func(x *exchange) {
		for _, o := range x.items("offers") {
			o.(map[string]any)["unit_price_cents"] = 300.5
		}
	}, []string{"offer.unit_price_cents"}},
	{"a decimal string disagrees", func(x *exchange) {
		if x.is("GET", "/api/v1/wallet") {
			x.data()["balance"] = "1.00"
		}
	}, []string{"wallet.balance_agrees"}},
	{"a float is sent for a decimal string", func(x *exchange) {
		for _, o := range x.items("offers") {
			o.(map[string]any)["unit_price"] = 3.0
		}
	}, []string{"offer.unit_price"}},
	{"times have no zone", func(x *exchange) {
		if text, ok := x.body["timestamp"].(string); ok {
			x.body["timestamp"] = strings.TrimSuffix(text, "Z")
		}
	}, []string{"envelope.account.timestamp", "envelope.renew.timestamp", "failure.validation.timestamp"}},
	{"an expiry has no zone", func(x *exchange) {
		if text, ok := x.data()["expires_at"].(string); ok {
			x.data()["expires_at"] = strings.TrimSuffix(text, "Z")
		}
	}, []string{"proxy.expires_at"}},
	{"failures have no trace_id", func(x *exchange) {
		if x.code() != "ok" {
			delete(x.body, "trace_id")
		}
	}, []string{"failure.order_not_found.trace_id", "failure.unsigned.trace_id"}},
	{"cash_value in a sandbox", func(x *exchange) {
		if x.is("GET", "/api/v1/wallet") {
			x.data()["cash_value"] = true
		}
	}, []string{"wallet.cash_value.sandbox"}},
	{"the order list holds a password", func(x *exchange) {
		for _, o := range x.items("orders") {
			o.(map[string]any)["proxies"] = []any{map[string]any{"password": "leaked"}}
		}
	}, []string{"orders.no_credentials"}},
	{"the order list holds a connection string in another field", func(x *exchange) {
		if x.is("GET", "/api/v1/orders") && len(x.items("orders")) > 0 {
			x.items("orders")[0].(map[string]any)["note"] = x.w.password
		}
		if x.detail() && x.w.password == "" && len(x.items("proxies")) > 0 {
			x.w.password, _ = x.items("proxies")[0].(map[string]any)["password"].(string)
		}
	}, []string{"orders.no_password_of_order"}},
	{"credentials come before completion", func(x *exchange) {
		if x.detail() && x.delivery()["available"] == false {
			x.data()["proxies"] = []any{map[string]any{"proxy_id": "p", "password": "early"}}
		}
	}, []string{"state.partial.no_credentials_before_available", "state.partial.nothing_before_available", "scenario.rejected.delivers_none"}},
	{"more is delivered than expected", func(x *exchange) {
		if x.detail() {
			x.delivery()["delivered_count"] = 99
		}
	}, []string{"state.plain.delivered_at_most_expected", "order.plain.counts"}},
	{"an order is charged twice", func(x *exchange) {
		if x.is("POST", "/api/v1/orders") && x.status == 201 {
			x.charge(x.total())
		}
	}, []string{"order.plain.debited", "scenario.delayed.debited", "control.referee"}},
	{"a replay charges again", func(x *exchange) {
		key := x.r.Header.Get("Idempotency-Key")
		if x.seen[key]++; x.is("POST", "/api/v1/orders") && x.status == 201 && x.seen[key] > 1 {
			x.charge(x.total())
		}
	}, []string{"idempotency.order.not_charged", "idempotency.concurrent.order.once"}},
	{"a replay is another order", func(x *exchange) {
		key := x.r.Header.Get("Idempotency-Key")
		if x.seen[key]++; x.is("POST", "/api/v1/orders") && x.status == 201 && x.seen[key] > 1 {
			x.data()["order_no"] = "ord_second"
		}
	}, []string{"idempotency.order.not_done_twice", "idempotency.order.snapshot"}},
	{"a replay shows the present", func(x *exchange) {
		key := x.r.Header.Get("Idempotency-Key")
		if x.seen[key]++; x.is("POST", "/api/v1/orders") && x.status == 201 && x.seen[key] > 1 {
			x.data()["status"] = "completed"
		}
	}, []string{"idempotency.unfinished.snapshot"}},
	{"a conflict is overlooked", func(x *exchange) {
		if x.code() == "idempotency_key_conflict" {
			x.succeed()
		}
	}, []string{"idempotency.conflict.order", "idempotency.conflict.renewal"}},
	{"a key is not required", func(x *exchange) {
		if x.code() == "idempotency_key_required" {
			x.succeed()
		}
	}, []string{"order.refused.missing_key", "renewal.refused.missing_key"}},
	{"a creation is 200", func(x *exchange) {
		if x.status == 201 {
			x.status = 200
		}
	}, []string{"order.plain.created", "scenario.success.created"}},
	{"poll_after_seconds is a string", func(x *exchange) {
		if x.detail() && x.data()["poll_after_seconds"] != nil {
			x.data()["poll_after_seconds"] = "1"
		}
	}, []string{"state.delayed.poll_while_in_progress"}},
	{"polling never ends", func(x *exchange) {
		if x.detail() {
			x.data()["poll_after_seconds"], x.data()["status"] = 60, "procuring"
		}
	}, []string{"state.plain.ends"}},
	{"a refund is too small", func(x *exchange) {
		if refund, ok := x.data()["refund"].(map[string]any); ok {
			refund["amount_cents"] = 1
		}
	}, []string{"scenario.rejected.refund_amount"}},
	{"the refund never reaches the wallet", func(x *exchange) {
		if _, ok := x.data()["refund"].(map[string]any); ok && x.detail() {
			x.charge(x.total())
		}
	}, []string{"scenario.rejected.wallet_returns"}},
	{"a renewal's sum is wrong", func(x *exchange) {
		if x.renewal() {
			x.data()["charged_cents"] = 1
		}
	}, []string{"renewal.one.charged_sum", "renewal.one.debited", "control.renewal.partial.charged_sum"}},
	{"a renewed id is in two lists", func(x *exchange) {
		if x.renewal() {
			x.data()["failed_proxy_ids"] = x.data()["successful_proxy_ids"]
		}
	}, []string{"renewal.two.partition"}},
	{"a renewed id is in no list", func(x *exchange) {
		if x.renewal() {
			x.data()["successful_proxy_ids"] = []any{}
		}
	}, []string{"renewal.one.partition", "renewal.one.lines_match_lists", "renewal.one.completed"}},
	{"an unresolved line is refunded", func(x *exchange) {
		for _, line := range x.items("line_items") {
			if l := line.(map[string]any); l["status"] == "unresolved" {
				l["charged_cents"], l["refunded_cents"] = 0, l["amount_cents"]
			}
		}
	}, []string{"control.renewal.manual_review.only_failed_refunded"}},
	{"an all-failed renewal is 200", func(x *exchange) {
		if x.code() == "operation_failed" {
			x.succeed()
		}
	}, []string{"control.renewal.failed.status"}},
	{"stale requests are accepted", func(x *exchange) {
		if x.code() == "stale_timestamp" {
			x.succeed()
		}
	}, []string{"auth.stale_timestamp.6m.account", "auth.stale_timestamp.no_zone.renew", "control.clock.server_ahead_6m"}},
	{"a stale timestamp is called a bad signature", func(x *exchange) {
		if x.code() == "stale_timestamp" {
			x.body["code"] = "invalid_signature"
		}
	}, []string{"auth.stale_timestamp.6m.order_create", "auth.stale_timestamp.ahead_6m.offers"}},
	{"nonces are not remembered", func(x *exchange) {
		if x.code() == "replayed_nonce" {
			x.succeed()
		}
	}, []string{"auth.replayed_nonce.account", "auth.replayed_nonce.renew"}},
	{"signatures are not checked", func(x *exchange) {
		if x.code() == "invalid_signature" {
			x.succeed()
		}
	}, []string{"auth.unsigned.wallet", "auth.wrong_secret.order_create", "canonical.wrong.unsorted", "auth.environments_not_mixed"}},
	{"scopes are not checked", func(x *exchange) {
		if x.code() == "insufficient_scope" {
			x.succeed()
		}
	}, []string{"scope.offers:read.wallet", "scope.orders:read.order_create", "auth.outside.account"}},
	{"disabled keys work", func(x *exchange) {
		if x.code() == "api_key_revoked" {
			x.succeed()
		}
	}, []string{"auth.revoked.account", "control.revoked.renew"}},
	{"limits are not checked", func(x *exchange) {
		if x.code() == "validation_error" {
			x.succeed()
		}
	}, []string{"order.refused.lines_51", "order.refused.quantity_2001", "order.refused.both_bodies", "renewal.refused.days_1125", "offers.page_size.201"}},
	{"a limit is a plain 400", func(x *exchange) {
		if x.code() == "validation_error" {
			x.status, x.raw = 400, []byte("Bad Request")
		}
	}, []string{"order.refused.days_45", "renewal.refused.ids_empty"}},
	{"not found is not the document's code", func(x *exchange) {
		if strings.HasSuffix(x.code(), "_not_found") {
			x.body["code"] = "not_found"
		}
	}, []string{"errors.order_not_found.plain", "errors.proxy_not_found.foreign", "order.refused.code_unknown"}},
	{"unknown paths answer in HTML", func(x *exchange) {
		if x.code() == "unsupported_operation" {
			x.status, x.raw = 404, []byte("<h1>404</h1>")
		}
	}, []string{"failure.unknown_path.code", "failure.unknown_method.success", "errors.unsupported.password"}},
	{"page tokens are not checked", func(x *exchange) {
		if x.code() == "invalid_page_token" {
			x.succeed()
		}
	}, []string{"page.token.offers.altered", "page.token.orders.at_proxies", "page.token.filter_changed", "page.token.proxies.other_account"}},
	{"the last page has a token", func(x *exchange) {
		if x.data()["has_more"] == true {
			x.data()["next_page_token"] = nil
		}
	}, []string{"page.offers.token_when_more"}},
	{"pages repeat their entries", func(x *exchange) {
		if items := x.items("offers"); len(items) > 0 {
			items[0].(map[string]any)["offer_code"] = "off_us_dallas"
		}
	}, []string{"page.offers.walk_unique"}},
	{"two arrays stand in a list", func(x *exchange) {
		if x.is("GET", "/api/v1/proxies") {
			x.data()["more"] = []any{}
		}
	}, []string{"page.proxies.one_array"}},
	{"filters are ignored", func(x *exchange) {
		if items := x.items("offers"); x.r.URL.RawQuery != "" && len(items) > 0 {
			stranger := maps.Clone(items[0].(map[string]any))
			stranger["country_code"], stranger["region"] = "ZZ", "elsewhere"
			x.data()["offers"] = append(items, stranger)
		}
	}, []string{"offers.filter.country_code", "offers.filter.city"}},
	{"the API Secret comes back", func(x *exchange) { x.body["message"] = "secret " + secret }, []string{"auth.secret_never_comes_back"}},
	{"being too fast has no Retry-After", func(x *exchange) { x.header.Del("Retry-After") }, []string{"control.rate_limited"}},
	{"a list has floats for cents", func(x *exchange) {
		for _, o := range x.items("orders") {
			o.(map[string]any)["total_cents"] = 3.5
		}
	}, []string{"conventions.cents_are_integers"}},
	{"a list has numbers for decimal strings", func(x *exchange) {
		for _, o := range x.items("orders") {
			o.(map[string]any)["total"] = 3
		}
	}, []string{"conventions.decimals_are_strings"}},
	{"a list has times without zones", func(x *exchange) {
		for _, o := range x.items("orders") {
			o.(map[string]any)["created_at"] = "2026-11-21T12:00:00"
		}
	}, []string{"conventions.times_have_zones"}},
	{"success has another code", func(x *exchange) {
		if x.is("GET", "/api/v1/proxies") {
			x.body["code"] = "success"
		}
	}, []string{"envelope.every_success", "envelope.proxy_list.succeeds"}},
	{"the wallet cannot be read", func(x *exchange) {
		if x.is("GET", "/api/v1/wallet") {
			x.status, x.body["success"], x.body["code"], x.body["data"] = 422, false, "operation_failed", map[string]any{}
		}
	}, []string{"envelope.wallet.succeeds"}},
	{"offers are under another key", func(x *exchange) {
		if x.is("GET", "/api/v1/offers") {
			x.data()["list"] = x.data()["offers"]
			delete(x.data(), "offers")
		}
	}, []string{"offers.key"}},
	{"some replies are not envelopes", func(x *exchange) {
		if x.code() == "order_not_found" {
			x.raw = []byte(`{"error":"not found"}`)
		}
	}, []string{"envelope.every_reply", "errors.order_not_found.plain"}},
	{"an unclear record is a 500", func(x *exchange) {
		if x.code() == "idempotency_unresolved" {
			x.status = 500
		}
	}, []string{"control.unresolved.code"}},
	{"an unclear record is forgotten", func(x *exchange) {
		if x.code() == "idempotency_unresolved" {
			x.succeed()
		}
	}, []string{"control.unresolved.code", "control.unresolved.stays"}},
	{"a poor wallet is called not valid", func(x *exchange) {
		if x.code() == "insufficient_wallet_balance" {
			x.body["code"] = "validation_error"
		}
	}, []string{"control.poor.order", "control.poor.renewal"}},
}
