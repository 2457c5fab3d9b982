package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"perennial/upstream"
)

func getting(t testing.TB, data string) *upstream.Client {
	return clientOf(t, serve(t, answering(200, envelope("ok", data))))
}

func posting(t testing.TB, kind upstream.WriteKind, status int, code, data string) upstream.Reply {
	c := clientOf(t, serve(t, answering(status, envelope(code, data))))
	return c.Post(context.Background(), upstream.Write{Kind: kind, Key: "k", Body: []byte("{}")})
}

func TestTrap10NullExpiryIsNil(t *testing.T) {
	for _, field := range []string{`"expires_at":null`, `"x":1`} {
		p, err := getting(t, `{"proxy_id":"px_1",`+field+`}`).Proxy(context.Background(), "px_1")
		if err != nil || p.ExpiresAt != nil || p.StartsAt != nil {
			t.Errorf("%s: %+v %v", field, p, err)
		}
	}
	p, err := getting(t, `{"proxy_id":"px_1","expires_at":"2026-11-21T20:00:00+08:00"}`).Proxy(context.Background(), "px_1")
	if err != nil || !p.ExpiresAt.Equal(noon) {
		t.Errorf("%+v %v", p, err)
	}
	for _, bad := range []string{`"2026-11-21T20:00:00"`, `"tomorrow"`, `17`} {
		if p, err := getting(t, `{"proxy_id":"px_1","expires_at":`+bad+`}`).Proxy(context.Background(), "px_1"); err == nil {
			t.Errorf("%s: %+v", bad, p)
		}
	}
}

// The API document does not give the types of these members (API: Fields not shown), so they may
// be numbers.
func TestDescriptionsAsNumbersLeaveTheRestReadable(t *testing.T) {
	p := `{"proxy_id":"px_1","expires_at":"2026-11-21T12:00:00Z","status":3,"ip_type":1,"protocol":2}`
	for read, page := range map[string]func() (upstream.Proxy, error){
		"detail": func() (upstream.Proxy, error) { return getting(t, p).Proxy(t.Context(), "px_1") },
		"list": func() (upstream.Proxy, error) {
			page, err := getting(t, `{"l":[`+p+`],"has_more":false}`).ProxiesPage(t.Context(), upstream.PageRequest{})
			if err != nil {
				return upstream.Proxy{}, err
			}
			return page.Items[0], nil
		},
	} {
		if got, err := page(); err != nil || got.ExpiresAt == nil || got.Status != "3" || got.IPType != "1" || got.Protocol != "2" {
			t.Errorf("%s: %+v %v", read, got, err)
		}
	}
	o, err := getting(t, `{"order_no":"o","status":"done","payment_status":2,"total_cents":300,"currency":"USD",`+
		`"delivery":{"expected_count":1,"delivered_count":1,"complete":true,"available":true},"proxies":[`+p+`],`+
		`"refund":{"status":1,"destination":{"type":"wallet"},"amount_cents":300,"currency":"USD"}}`).Order(t.Context(), "o")
	if err != nil || *o.TotalCents != 300 || *o.Refund.AmountCents != 300 || o.PaymentStatus != "2" ||
		len(o.Proxies) != 1 || o.Refund.Status != "1" || o.Refund.Destination == "" {
		t.Errorf("%+v %v", o, err)
	}
	offers, err := getting(t, `{"offers":[{"offer_code":"f","ip_type":1,"protocol":["socks5"],"unit_price_cents":3}],"has_more":false}`).
		OffersPage(t.Context(), upstream.OfferFilter{}, upstream.PageRequest{})
	if err != nil || len(offers.Items) != 1 || *offers.Items[0].UnitPriceCents != 3 {
		t.Errorf("%+v %v", offers, err)
	}
}

func TestTrap25CentsAreWholeAndBig(t *testing.T) {
	w := `{"environment":"sandbox","currency":"USD","cash_value":false,"balance_cents":%s}`
	got, err := getting(t, fmt.Sprintf(w, "9007199254740993")).Wallet(context.Background())
	if err != nil || got.BalanceCents != 9007199254740993 {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{"1.0", "1.5", "1e3", `"100"`, "9223372036854775808", "null", "true", "[1]"} {
		if got, err := getting(t, fmt.Sprintf(w, bad)).Wallet(context.Background()); err == nil {
			t.Errorf("%s: %+v", bad, got)
		}
	}
	r := posting(t, upstream.WriteRenewal, 200, "ok", `{"status":"completed","charged_cents":9223372036854775807}`)
	if r.Renewal == nil || r.Renewal.ChargedCents != math.MaxInt64 {
		t.Errorf("%+v", r)
	}
}

func TestGoldenRenewal(t *testing.T) {
	line := `{"proxy_id":"px_1","host":"h","status":"succeeded","duration_days":30,"amount_cents":300,"amount":"3.00","charged_cents":300,"refunded_cents":0,"new":{"a":[1]}}`
	full := `{"status":"partial","total_cents":600,"charged_cents":300,"refunded_cents":300,"successful_proxy_ids":["px_1"],"failed_proxy_ids":["px_2"],"unresolved_proxy_ids":[],"line_items":[` + line + `],"extra":null}`
	r := posting(t, upstream.WriteRenewal, 200, "ok", full)
	want := &upstream.Renewal{Status: "partial", TotalCents: 600, ChargedCents: 300, RefundedCents: 300, Successful: []string{"px_1"},
		Failed: []string{"px_2"}, Unresolved: []string{}, LineItems: []upstream.RenewalLine{{ProxyID: "px_1", Status: "succeeded", DurationDays: 30, AmountCents: 300, ChargedCents: 300, Amount: "3.00"}}}
	if !reflect.DeepEqual(r.Renewal, want) || !r.Envelope || !r.Success || r.Failure+r.Malformed != "" || r.TraceID != "trc_1" || !r.ServerTime.Equal(noon.Add(time.Second)) {
		t.Errorf("%+v\n%+v", r, r.Renewal)
	}
	r = posting(t, upstream.WriteRenewal, 422, "operation_failed", `{"status":"failed","charged_cents":0,"refunded_cents":300,"failed_proxy_ids":["px_1"],"line_items":[{"proxy_id":"px_1"}],"wallet":{}}`)
	if r.Renewal == nil || r.Success || r.Code != upstream.CodeOperationFailed {
		t.Fatalf("%+v", r)
	}
	if !reflect.DeepEqual(r.Renewal.Missing, []string{"total_cents", "successful_proxy_ids", "unresolved_proxy_ids"}) || len(r.Renewal.LineItems[0].Missing) != 5 {
		t.Errorf("%+v", r.Renewal)
	}
	if r = posting(t, upstream.WriteRenewal, 422, "operation_failed", `{}`); r.Renewal != nil || r.Malformed != "" {
		t.Errorf("%+v", r)
	}
}

func TestTrap16AllFailedComesWithItsLines(t *testing.T) {
	r := posting(t, upstream.WriteRenewal, 422, "operation_failed", `{"status":"failed","charged_cents":0,"refunded_cents":300,"failed_proxy_ids":["px_1"],
		"line_items":[{"proxy_id":"px_1","status":"failed","amount_cents":300,"charged_cents":0,"refunded_cents":300}]}`)
	if r.Success || r.Renewal == nil || r.Renewal.RefundedCents != 300 || len(r.Renewal.LineItems) != 1 || r.Renewal.LineItems[0].RefundedCents != 300 {
		t.Fatalf("%+v", r)
	}
}

func TestMalformedDataIsSaidAndNotGuessed(t *testing.T) {
	for _, data := range []string{`null`, `[]`, `{"status":1}`, `{"charged_cents":1,"charged_cents":2}`, `{"line_items":{}}`,
		`{"failed_proxy_ids":[1]}`, `{"total_cents":1.5}`} {
		r := posting(t, upstream.WriteRenewal, 200, "ok", data)
		if !r.Envelope || !r.Success || r.Renewal != nil || r.Malformed == "" {
			t.Errorf("%s: %+v", data, r)
		}
	}
	for _, body := range []string{`{"success":"true","code":"ok"}`, `{"success":true}`, `{"success":true,"code":""}`, `{"Success":true,"Code":"ok"}`,
		`{"success":true,"success":false,"code":"ok"}`, `[]`, `null`, `{"success":true,"code":"ok"}x`, strings.Repeat("[", 20000)} {
		if _, err := upstream.DecodeEnvelope([]byte(body)); err == nil {
			t.Errorf("%.60s is an envelope", body)
		}
	}
}

func TestGoldenOrderCreation(t *testing.T) {
	r := posting(t, upstream.WriteOrder, 201, "ok", `{"order_no":"ord_1","poll_after_seconds":3,"proxies":[{"password":"hunter2"}]}`)
	if r.Order == nil || r.Order.OrderNo != "ord_1" || *r.Order.PollAfterSeconds != 3 || strings.Contains(fmt.Sprintf("%+v", r), "hunter2") {
		t.Errorf("%+v", r)
	}
	r = posting(t, upstream.WriteOrder, 201, "ok", `{"order_no":"ord_1","poll_after_seconds":"soon"}`)
	if r.Order == nil || r.Order.PollAfterSeconds != nil || r.Malformed == "" {
		t.Errorf("the order number was lost: %+v", r)
	}
	for _, data := range []string{`{}`, `{"order_no":null}`, `{"order_no":""}`, `{"order_no":7}`} {
		if r := posting(t, upstream.WriteOrder, 201, "ok", data); r.Order != nil || r.Malformed == "" || !r.Envelope {
			t.Errorf("%s: %+v", data, r)
		}
	}
}

const orderData = `{"order_no":"ord_1","status":"completed","payment_status":"paid","currency":"USD","subtotal_cents":900,"total_cents":900,
"created_at":"2026-11-21T12:00:00Z","delivery":{"expected_count":1,"delivered_count":1,"complete":true,"available":%t},"poll_after_seconds":null,
"refund":%s,"proxies":[{"proxy_id":"px_1","host":"secret-host","username":"secret-user","password":"secret-pass","connection":{"x":"secret-conn"},"socks5_uri":"socks5://secret"}]}`

func TestTrap29And41OrdersWithoutSecrets(t *testing.T) {
	o, err := getting(t, fmt.Sprintf(orderData, true, "null")).Order(context.Background(), "ord_1")
	if err != nil || !o.Delivery.Present || len(o.Proxies) != 1 || *o.TotalCents != 900 || o.Refund != nil || o.PollAfterSeconds != nil {
		t.Fatalf("%+v %v", o, err)
	}
	text, _ := json.Marshal(o)
	if strings.Contains(string(text)+fmt.Sprintf("%+v", o), "secret") {
		t.Errorf("%s", text)
	}
	if o, err = getting(t, fmt.Sprintf(orderData, false, "null")).Order(context.Background(), "ord_1"); err != nil || o.Proxies != nil {
		t.Errorf("handed over before available: %+v %v", o, err)
	}
	refund := `{"status":"odd","destination":"wallet","amount_cents":900,"currency":"USD","refunded_at":null}`
	if o, err = getting(t, fmt.Sprintf(orderData, false, refund)).Order(context.Background(), "ord_1"); err != nil || *o.Refund.AmountCents != 900 || o.Refund.RefundedAt != nil {
		t.Errorf("%+v %v", o, err)
	}
}

func TestTrap41CredentialsOnlyByReveal(t *testing.T) {
	c := getting(t, `{"proxy_id":"px_1","host":"h","port":1080,"username":"u-hidden","password":"p-hidden","connection":{"a":"c-hidden"},"socks5_uri":"socks5://hidden"}`)
	cred, err := c.Reveal(context.Background(), "px_1")
	if err != nil || cred.Password() != "p-hidden" || cred.Port() != "1080" || cred.Host() != "h" || cred.Username() != "u-hidden" ||
		cred.Connection() != `{"a":"c-hidden"}` || cred.SOCKS5URI() != "socks5://hidden" {
		t.Fatal(err)
	}
	for _, v := range []any{cred, &cred, struct{ C upstream.Credentials }{cred}, struct{ c upstream.Credentials }{cred}, []upstream.Credentials{cred}} {
		text, _ := json.Marshal(v)
		if all := string(text) + fmt.Sprintf("%v %+v %#v %s %q %d", v, v, v, v, v, v); strings.Contains(all, "hidden") {
			t.Error(all)
		}
	}
	p, err := c.Proxy(context.Background(), "px_1")
	if err != nil || strings.Contains(fmt.Sprintf("%+v", p), "hidden") {
		t.Errorf("%+v %v", p, err)
	}
	_, err = getting(t, `{"proxy_id":"px_1","password":"p-hidden","expires_at":"p-hidden"}`).Proxy(context.Background(), "px_1")
	if err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v", err)
	}
}

func TestTrap28UnknownCodesAndFieldsPass(t *testing.T) {
	r := posting(t, upstream.WriteOrder, 418, "brand_new_code", `{"x":[{"y":1}]}`)
	if !r.Envelope || r.Success || r.Code != "brand_new_code" || r.Code.Known() || r.TraceID != "trc_1" {
		t.Errorf("%+v", r)
	}
	r = posting(t, upstream.WriteRenewal, 200, "ok", `{"status":"novel","line_items":[{"status":"strange"}]}`)
	if r.Renewal == nil || r.Renewal.Status != "novel" || r.Renewal.LineItems[0].Status != "strange" {
		t.Errorf("%+v", r)
	}
	_, err := clientOf(t, serve(t, answering(500, envelope("ok", `{}`)))).Account(context.Background())
	if err == nil {
		t.Error("success with HTTP 500 passed")
	}
}

func TestTrap38RetryAfter(t *testing.T) {
	for text, want := range map[string]upstream.RetryAfter{
		"7":                                {Present: true, Valid: true, Delay: 7 * time.Second},
		" 0 ":                              {Present: true, Valid: true},
		"Sat, 21 Nov 2026 12:00:30 GMT":    {Present: true, Valid: true, Delay: 30 * time.Second},
		"Sat, 21 Nov 2020 12:00:30 GMT":    {Present: true, Valid: true},
		"99999999999999999999999999999999": {Present: true, Valid: true, Delay: math.MaxInt64},
		"9300000000":                       {Present: true, Valid: true, Delay: math.MaxInt64},
		"-1":                               {Present: true}, "1.5": {Present: true}, "soon": {Present: true}, "": {Present: true}, "+5": {Present: true}, "0x10": {Present: true},
	} {
		if got := upstream.ParseRetryAfter(text, noon); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
	c := clientOf(t, serve(t, answering(429, "slow down", "Retry-After", "9")))
	_, err := c.Wallet(context.Background())
	var e *upstream.Error
	if !errors.As(err, &e) || e.RetryAfter.Delay != 9*time.Second || !errors.Is(err, upstream.CodeRateLimited) {
		t.Errorf("%v", err)
	}
	if r := c.Post(context.Background(), renewWrite); r.RetryAfter.Delay != 9*time.Second || r.HTTPStatus != 429 || r.Envelope {
		t.Errorf("%+v", r)
	}
}

func TestTrap39UserAgentIsStable(t *testing.T) {
	agents := map[string]int{}
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		agents[r.Header.Get("User-Agent")]++
		answering(200, envelope("ok", `{"account_id":12345678901234567890}`))(w, r)
	})
	c := clientOf(t, base, func(c *upstream.Config) { c.UserAgent = "mine/2" })
	a, err := c.Account(context.Background())
	c.Post(context.Background(), renewWrite)
	if err != nil || a.AccountID != "12345678901234567890" || agents["mine/2"] != 2 {
		t.Errorf("%+v %v %v", a, err, agents)
	}
}

func TestTrap32And33BodiesAreCheckedBeforeSending(t *testing.T) {
	item := upstream.OrderItem{OfferCode: "o", Quantity: 1}
	many := make([]upstream.OrderItem, 51)
	for i := range many {
		many[i] = item
	}
	cidr := upstream.OrderItem{OfferCode: "o", Quantity: 1, CIDRs: []string{"192.0.2.0/24"}}
	for name, r := range map[string]upstream.OrderRequest{
		"no items": {DurationDays: 30}, "31 days": {DurationDays: 31, Items: []upstream.OrderItem{item}}, "51 lines": {DurationDays: 30, Items: many},
		"2001":              {DurationDays: 30, Items: []upstream.OrderItem{{OfferCode: "o", Quantity: 2000}, item}},
		"cidr without name": {DurationDays: 30, Items: []upstream.OrderItem{cidr}},
	} {
		if b, err := upstream.OrderBody(r); err == nil {
			t.Errorf("%s: %s", name, b)
		}
	}
	b, err := upstream.OrderBody(upstream.OrderRequest{DurationDays: 30, Items: []upstream.OrderItem{cidr}, CIDRField: "nets"})
	if err != nil || string(b) != `{"duration_days":30,"items":[{"nets":["192.0.2.0/24"],"offer_code":"o","quantity":1}]}` {
		t.Errorf("%s %v", b, err)
	}
	for _, r := range []upstream.RenewRequest{{DurationDays: 30}, {ProxyIDs: []string{"a"}, DurationDays: 1095}, {ProxyIDs: []string{"a"}, DurationDays: 1110}, {ProxyIDs: []string{"a", "a"}, DurationDays: 30}} {
		if b, err := upstream.RenewBody(r); err == nil {
			t.Errorf("%s", b)
		}
	}
}

// The statuses of orders and refunds are written to the journal.
func TestTrap41WhatLooksLikeCredentialsIsNoStatus(t *testing.T) {
	const secret = "socks5://user:hunter2@198.51.100.7:1080"
	o, err := getting(t, `{"order_no":"o","status":"`+secret+`","payment_status":"`+secret+`","total_cents":300,"currency":"USD","refund":{"status":"`+secret+`","destination":"`+secret+`"}}`).Order(t.Context(), "o")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{o.Status, o.PaymentStatus, o.Refund.Status, o.Refund.Destination} {
		if text == "" || strings.Contains(text, "hunter2") {
			t.Errorf("kept as %q", text)
		}
	}
	o, err = getting(t, `{"order_no":"o","status":"procuring","total_cents":300,"currency":"USD"}`).Order(t.Context(), "o")
	if err != nil || o.Status != "procuring" {
		t.Errorf("%q %v", o.Status, err)
	}
}

func TestTrap25ADecimalStringIsComparedWithItsCents(t *testing.T) {
	for _, test := range []struct {
		amount string
		cents  int64
		agrees bool
	}{
		{"3.00", 300, true}, {"3", 300, true}, {"3.0000", 300, true}, {"-3.00", -300, true}, {"90071992547409.93", 9007199254740993, true},
		{"", 300, true}, {"0", 0, true},
		{"300", 300, false}, {"3.001", 300, false}, {"3,00", 300, false}, {"three", 300, false}, {"3.01", 300, false},
		{"3e2", 30000, false}, {"1e1000000000", 0, false}, {strings.Repeat("3", 200), 300, false}, {"NaN", 0, false},
	} {
		if got := upstream.AmountAgrees(test.amount, test.cents); got != test.agrees {
			t.Errorf("%.40q and %d cents: %t", test.amount, test.cents, got)
		}
	}
}

// Whatever value replaces a decimal string, the amount in cents counts.
func TestAnUnreadableDecimalStringHidesNothing(t *testing.T) {
	for _, text := range []string{`"3.00"`, `3.00`, `null`, `[]`, `{"a":1}`, `true`} {
		w, err := getting(t, `{"environment":"sandbox","currency":"USD","cash_value":false,"balance_cents":300,"balance":`+text+`}`).Wallet(context.Background())
		if err != nil || w.BalanceCents != 300 {
			t.Errorf("%s: %+v %v", text, w, err)
		}
	}
}

func TestTrap60DataErrorsAreKeptInWords(t *testing.T) {
	for data, want := range map[string]string{
		`{"errors":{"items":{"0":{"quantity":["must be at most 500"]}},"duration_days":["is not sold"]}}`: "duration_days: is not sold; items.0.quantity: must be at most 500",
		`{"errors":[{"field":"quantity","message":"too many"}]}`:                                          "field: quantity; message: too many",
		`{"errors":"quantity is wrong"}`:                                                                  "quantity is wrong",
		`{"errors":{"quantity":12}}`:                                                                      "quantity: 12",
		`{"errors":null}`:                                                                                 "",
		`{}`:                                                                                              "",
		`{"errors":{"a":"` + strings.Repeat("x", 9000) + `"}}`:                                            "",
	} {
		r := posting(t, upstream.WriteOrder, 422, "validation_error", data)
		if r.Fields != want {
			t.Errorf("%.60s: %q", data, r.Fields)
		}
	}
	if r := posting(t, upstream.WriteOrder, 422, "validation_error", `{"errors":{"username":"user:secret-password@203.0.113.9:8000"}}`); strings.Contains(r.Fields, "secret") {
		t.Errorf("credentials are repeated: %q", r.Fields)
	}
}

// An instant that is valid with its offset may be in the year -1 or 10000 in UTC. It becomes the
// nearest instant that tables, events and pages can show.
func TestAnInstantOutsideTheYearsIsTheNearestInside(t *testing.T) {
	for said, want := range map[string]string{
		"0000-01-01T00:00:00+08:00": "0000-01-01T00:00:00Z",
		"0001-01-01T00:00:00+08:00": "0000-12-31T16:00:00Z",
		"9999-12-31T23:59:59-08:00": "9999-12-31T23:59:59.999999Z",
		"9999-12-31T23:59:59Z":      "9999-12-31T23:59:59Z",
	} {
		p, err := getting(t, `{"proxy_id":"px_1","expires_at":"`+said+`"}`).Proxy(t.Context(), "px_1")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.ExpiresAt.MarshalText(); err != nil || string(got) != want {
			t.Errorf("%s is read as %s (%v)", said, got, err)
		}
	}
}
