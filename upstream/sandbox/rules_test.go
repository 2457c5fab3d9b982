package sandbox_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"perennial/upstream/sandbox"
)

func TestEverySignedHeaderIsNeeded(t *testing.T) {
	h := start(t, nil)
	host := strings.TrimPrefix(h.s.SandboxURL(), "http://")
	text := get("/api/v1/wallet").text(host, h.clock.Now())
	for _, name := range []string{"X-API-AppId", "X-API-Timestamp", "X-API-Nonce", "X-API-Signature"} {
		var kept []string
		for _, line := range strings.SplitAfter(text, "\r\n") {
			if !strings.HasPrefix(line, name+":") {
				kept = append(kept, line)
			}
		}
		got, err := exchange(host, strings.Join(kept, ""), "GET")
		if err != nil {
			t.Fatal(err)
		}
		h.wants("without "+name, got, http.StatusUnauthorized, "invalid_signature")
		twice := strings.Replace(text, name+":", name+": again\r\n"+name+":", 1)
		if got, err = exchange(host, twice, "GET"); err != nil {
			t.Fatal(err)
		}
		h.wants("two of "+name, got, http.StatusUnauthorized, "invalid_signature")
	}
	before, after, _ := strings.Cut(text, "Signature: ")
	upper := before + "Signature: " + strings.ToUpper(after)
	if got, err := exchange(host, upper, "GET"); err != nil || got.Code != "invalid_signature" {
		t.Errorf("an upper-case signature: %+v %v", got, err)
	}
	for _, nonce := range []string{strings.Repeat("n", 257), "n\xfc"} {
		q := get("/api/v1/wallet")
		q.nonce = nonce
		h.wants("nonce", h.send(q), http.StatusUnauthorized, "invalid_signature")
	}
	q := renew(`{"duration_days":30,"proxy_ids":["px_1"]}`)
	q.signedBody = `{"duration_days":60,"proxy_ids":["px_1"]}`
	h.wants("another body", h.send(q), http.StatusUnauthorized, "invalid_signature")
}

func TestTimestamps(t *testing.T) {
	h := start(t, nil)
	now := h.clock.Now()
	for stamp, ok := range map[string]bool{
		now.Format(time.RFC3339Nano):                                        true,
		now.Format("2006-01-02T15:04:05Z0700"):                              true,
		now.Format("2006-01-02T15:04Z07:00"):                                true,
		now.Format("20060102T150405Z0700"):                                  true,
		now.In(time.FixedZone("", 8*3600)).Format(time.RFC3339):             true,
		now.In(time.FixedZone("", -12600)).Format("20060102T150405-0700"):   true,
		now.Add(5 * time.Minute).Format(time.RFC3339):                       true,
		now.Add(-5 * time.Minute).Format(time.RFC3339):                      true,
		now.Add(5*time.Minute + time.Millisecond).Format(time.RFC3339Nano):  false,
		now.Add(-5*time.Minute - time.Millisecond).Format(time.RFC3339Nano): false,
		now.Format("2006-01-02T15:04:05"):                                   false,
		now.Format(time.RFC1123Z):                                           false,
		"1795262400":                                                        false,
		"now":                                                               false,
	} {
		q := get("/api/v1/wallet")
		q.stamp = stamp
		if got := h.send(q); ok {
			h.wants(stamp, got, http.StatusOK, "ok")
		} else {
			h.wants(stamp, got, http.StatusUnauthorized, "stale_timestamp")
		}
	}
}

func TestWhatIsNoRouteIsUnsupported(t *testing.T) {
	h := start(t, nil)
	for _, target := range []string{"PUT /api/v1/proxies/px_1/password", "POST /api/v1/proxies/px_1/switch-ip", "POST /api/v1/wallet/top-up",
		"DELETE /api/v1/orders", "PATCH /api/v1/proxies/px_1", "POST /api/v1/wallet", "GET /api/v1/wallet/", "GET /api/v1/orders/", "GET /api/v1/",
		"GET /api/v2/wallet", "GET /", "POST /api/v1/proxies/renew/", "GET /api/v1//wallet", "GET /api/v1/%77allet", "GET /api/v1/Wallet",
		"OPTIONS /api/v1/wallet", "OPTIONS *", "TRACE /api/v1/wallet", "PROPFIND /api/v1/wallet"} {
		method, path, _ := strings.Cut(target, " ")
		h.wants(target, h.send(raw{method: method, target: path}), http.StatusNotFound, "unsupported_operation")
	}
	if got := h.send(raw{method: "HEAD", target: "/api/v1/wallet"}); got.status != http.StatusNotFound || got.body != "" {
		t.Errorf("HEAD: %+v", got)
	}
	h.wants("GET of the renewal route", h.send(get("/api/v1/proxies/renew")), http.StatusNotFound, "proxy_not_found")
	h.wants("absolute form", h.send(get(h.s.SandboxURL()+"/api/v1/wallet")), http.StatusOK, "ok")
	var state struct{ Requests map[string]map[string]int64 }
	h.control(http.MethodGet, "/state", nil, &state)
	if state.Requests["PROPFIND other"] != nil || state.Requests["OTHER other"]["unsupported_operation"] != 2 {
		t.Errorf("unknown methods are counted under their own names: %v", state.Requests)
	}
}

func TestQueries(t *testing.T) {
	h := start(t, nil)
	offers := func(query string) []string {
		t.Helper()
		got := h.send(get("/api/v1/offers?" + query))
		var data struct {
			Offers []struct {
				OfferCode string `json:"offer_code"`
			}
		}
		if err := json.Unmarshal(got.Data, &data); err != nil || got.Code != "ok" {
			t.Fatalf("%s: %s", query, got.body)
		}
		out := []string{}
		for _, o := range data.Offers {
			out = append(out, o.OfferCode)
		}
		return out
	}
	for query, want := range map[string]string{
		"":                                "off_us off_de",
		"country_code=DE":                 "off_de",
		"country=DE":                      "off_de",
		"country_code=US&country=DE":      "off_us", // the name has precedence over its alias
		"region=Frankfurt%20am%20Main":    "off_de",
		"city=Frankfurt%20am%20Main":      "off_de",
		"city=Frankfurt+am+Main":          "",
		"line=premium&ip_type=isp":        "off_us off_de",
		"line=basic":                      "",
		"ip_type=mobile":                  "",
		"quantity=4":                      "off_us",
		"duration_days=90":                "off_us off_de",
		"duration_days=31":                "",
		"colour=blue&page_sizes=-1":       "off_us off_de", // unknown parameters are ignored
		"country_code=DE&country_code=US": "off_de",        // the first value counts
		"country_code=":                   "off_us off_de",
		"country_code=&country=DE":        "off_de",
	} {
		if got := strings.Join(offers(query), " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for query, field := range map[string]string{"quantity=0": "quantity", "quantity=x": "quantity", "quantity=%2B5": "quantity", "duration_days=-30": "duration_days",
		"duration_days=1.5": "duration_days", "page_size=0": "page_size", "page_size=201": "page_size", "page_size=": "page_size", "page_size=+5": "page_size"} {
		h.wantsField(query, h.send(get("/api/v1/offers?"+query)), field)
	}
	for _, list := range []string{"orders", "proxies"} {
		h.wantsField(list, h.send(get("/api/v1/"+list+"?page_size=201")), "page_size")
		h.wants(list, h.send(get("/api/v1/"+list+"?page_token=nonsense")), http.StatusBadRequest, "invalid_page_token")
	}
}

// An offer that sells out between two pages must not hide another offer.
func TestPagesOfOffersSkipNothingWhenOneSellsOut(t *testing.T) {
	h := start(t, func(o *sandbox.Options) {
		f := fixture()
		first := f.Offers[1]
		first.OfferCode, first.Stock = "off_first", 1
		f.Offers = append([]sandbox.FixtureOffer{first}, f.Offers...)
		o.Fixture = f
	})
	var codes []string
	token := ""
	for range 3 {
		got := h.send(get("/api/v1/offers?page_size=1" + token))
		var data struct {
			Offers []struct {
				OfferCode string `json:"offer_code"`
			}
			Next *string `json:"next_page_token"`
			More bool    `json:"has_more"`
		}
		if err := json.Unmarshal(got.Data, &data); err != nil || len(data.Offers) != 1 {
			t.Fatalf("%s", got.body)
		}
		codes = append(codes, data.Offers[0].OfferCode)
		if data.More != (data.Next != nil) {
			t.Errorf("%s", got.body)
		}
		if data.Next != nil {
			token = "&page_token=" + *data.Next
		}
		if len(codes) == 1 {
			h.wants("sell out", h.send(order(`{"duration_days":30,"offer_code":"off_first","quantity":1}`)), http.StatusCreated, "ok")
		}
	}
	if strings.Join(codes, " ") != "off_first off_us off_de" {
		t.Errorf("%v", codes)
	}
}

// A token with any changed character is refused, even if base64 decoding would ignore the
// change.
func TestAlteredPageTokensAreRefused(t *testing.T) {
	h := start(t, nil)
	got := h.send(get("/api/v1/proxies?page_size=10"))
	var data struct {
		Next string `json:"next_page_token"`
	}
	if err := json.Unmarshal(got.Data, &data); err != nil || data.Next == "" {
		t.Fatalf("%s", got.body)
	}
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	altered := []string{data.Next + "%0A", "%0D" + data.Next, data.Next + "=", data.Next[1:], data.Next + data.Next}
	for i := range data.Next {
		at := strings.IndexByte(letters, data.Next[i])
		altered = append(altered, data.Next[:i]+string(letters[(at+1)%64])+data.Next[i+1:])
	}
	for _, token := range altered {
		h.wants(token, h.send(get("/api/v1/proxies?page_size=10&page_token="+token)), http.StatusBadRequest, "invalid_page_token")
	}
	h.wants("as given", h.send(get("/api/v1/proxies?page_size=10&page_token="+data.Next)), http.StatusOK, "ok")
}

func TestTheScenarioHeader(t *testing.T) {
	h := start(t, nil)
	body := `{"duration_days":30,"offer_code":"off_us","quantity":1}`
	for _, value := range []string{"", "Success", "failed"} {
		q := order(body)
		q.header["X-Service-Sandbox-Scenario"] = value
		h.wantsField("scenario "+value, h.send(q), "X-Service-Sandbox-Scenario")
	}
	// Production refuses the scenario header on every request. The sandbox uses it only on
	// orders.
	for _, q := range []raw{order(body), renew(`{"duration_days":30,"proxy_ids":["px_1"]}`), get("/api/v1/wallet")} {
		q.app, q.header = alphaLive, map[string]string{"X-Service-Sandbox-Scenario": "success"}
		h.wantsField("production "+q.target, h.sendTo(h.s.ProductionURL(), q), "X-Service-Sandbox-Scenario")
	}
	q := get("/api/v1/wallet")
	q.header = map[string]string{"X-Service-Sandbox-Scenario": "success"}
	h.wants("sandbox wallet", h.send(q), http.StatusOK, "ok")
}

// The fields of each resource in the API document.
var documented = map[string]string{
	"account": "account_id email email_verified status created_at",
	"wallet":  "environment currency balance_cents balance frozen_cents cash_value",
	"offers":  "offers page_size has_more next_page_token",
	"orders":  "orders page_size has_more next_page_token",
	"proxies": "proxies page_size has_more next_page_token",
	"offer": "offer_code name country_code country_name region line_name ip_type protocol unit_price_cents unit_price base_duration_days" +
		" duration_days max_quantity cidrs",
	"order": "order_no status payment_status payment_method currency subtotal_cents total_cents total created_at items delivery" +
		" poll_after_seconds refund proxies",
	"delivery": "expected_count delivered_count complete available",
	"refund":   "status destination amount_cents currency refunded_at",
	"proxy": "proxy_id status host port protocol username password connection socks5_uri ip_type country_code region line_name" +
		" starts_at expires_at",
	"renewal": "status total_cents charged_cents refunded_cents successful_proxy_ids failed_proxy_ids unresolved_proxy_ids line_items",
	"failed renewal": "status total_cents charged_cents refunded_cents successful_proxy_ids failed_proxy_ids unresolved_proxy_ids line_items" +
		" wallet",
	"line item": "proxy_id host status duration_days amount_cents amount charged_cents refunded_cents",
}

// buy places an order and returns its number.
func (h *rig) buy(scenario string) string {
	h.t.Helper()
	q := order(`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1}]}`)
	if scenario != "" {
		q.header["X-Service-Sandbox-Scenario"] = scenario
	}
	var created struct {
		OrderNo string `json:"order_no"`
	}
	if got := h.send(q); json.Unmarshal(got.Data, &created) != nil || got.status != http.StatusCreated {
		h.t.Fatalf("%s", got.body)
	}
	return created.OrderNo
}

// Each resource has exactly the documented fields.
func TestFieldsOfTheDocument(t *testing.T) {
	h := start(t, nil)
	bought, refunded := h.buy(""), h.buy("rejected")
	h.clock.Advance(time.Minute)
	renewal := h.send(renew(`{"duration_days":30,"proxy_ids":["px_1"]}`))
	h.fault(fault{"fault": "renewal", "failed": 1})
	failed := h.send(renew(`{"duration_days":30,"proxy_ids":["px_1"]}`))
	detail, rejected := h.send(get("/api/v1/orders/"+bought)), h.send(get("/api/v1/orders/"+refunded))
	account, wallet := h.send(get("/api/v1/account")), h.send(get("/api/v1/wallet"))
	offers, orders, proxies := h.send(get("/api/v1/offers")), h.send(get("/api/v1/orders")), h.send(get("/api/v1/proxies"))
	for name, tc := range map[string]struct {
		got    *seen
		inside string
	}{
		"account": {account, ""}, "wallet": {wallet, ""}, "offers": {offers, ""}, "offer": {offers, "offers"}, "orders": {orders, ""},
		"order": {detail, ""}, "delivery": {detail, "delivery"}, "refund": {rejected, "refund"}, "proxies": {proxies, ""},
		"proxy": {h.send(get("/api/v1/proxies/px_1")), ""}, "renewal": {renewal, ""}, "failed renewal": {failed, ""}, "line item": {failed, "line_items"},
	} {
		data := object(t, tc.got.Data)
		if tc.inside != "" {
			data = object(t, data[tc.inside])
		}
		for field := range strings.FieldsSeq(documented[name]) {
			if data[field] == nil {
				t.Errorf("%s lacks %s: %s", name, field, tc.got.body)
			}
		}
		if len(data) != len(strings.Fields(documented[name])) || !tc.got.envelope {
			t.Errorf("%s has other fields than the document: %s", name, tc.got.body)
		}
	}
	if strings.Contains(orders.body, "pass-") || strings.Contains(orders.body, "proxies") || strings.Contains(orders.body, "socks5") {
		t.Errorf("the order list shows credentials: %s", orders.body)
	}
	if !strings.Contains(detail.body, `"poll_after_seconds":null`) || !strings.Contains(detail.body, "pass-") {
		t.Errorf("%s", detail.body)
	}
}

// object decodes an object, or the first object of an array.
func object(t *testing.T, text json.RawMessage) map[string]json.RawMessage {
	t.Helper()
	var list []json.RawMessage
	if json.Unmarshal(text, &list) == nil && len(list) > 0 {
		text = list[0]
	}
	out := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// An expiry after the year 9999 can be neither written in ISO 8601 nor stored.
func TestAnExpiryCannotPassTheYear9999(t *testing.T) {
	late := &clock{now: time.Date(9998, 6, 1, 0, 0, 0, 0, time.UTC)}
	h := start(t, func(o *sandbox.Options) { o.DB, o.Clock = tempFile(t, "sandbox.db"), late.Now })
	h.clock = late
	h.wants("to the year 9999", h.send(renew(`{"duration_days":360,"proxy_ids":["px_1"]}`)), http.StatusOK, "ok")
	h.wantsField("past it", h.send(renew(`{"duration_days":360,"proxy_ids":["px_1"]}`)), "duration_days")
	if p := h.send(get("/api/v1/proxies/px_1")); !strings.Contains(p.body, `"expires_at":"9999`) {
		t.Errorf("%s", p.body)
	}
}
