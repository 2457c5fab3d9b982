package upstream_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/upstream"
)

// Values that make a proxy's entry unusable, each with the field that the error names.
var unusableProxies = map[string]string{
	`"proxy_id":"px_2","expires_at":"-0001-11-30T00:00:00.000000Z"`: "expires_at",
	`"proxy_id":"px_2","expires_at":"0000-00-00 00:00:00"`:          "expires_at",
	`"proxy_id":"px_2","expires_at":"2026-12-01 00:00:00"`:          "expires_at",
	`"proxy_id":"px_2","expires_at":1796000000`:                     "expires_at",
	`"proxy_id":"px_2","expires_at":{"at":"2026-12-01T00:00:00Z"}`:  "expires_at",
	`"proxy_id":12345,"expires_at":null`:                            "proxy_id",
	`"proxy_id":null,"expires_at":null`:                             "proxy_id",
	`"proxy_id":["px_2"]`:                                           "proxy_id",
	`"expires_at":null`:                                             "proxy_id",
	`"proxy_id":"px_2","status":"a","status":"b"`:                   "",
}

const readable = `{"proxy_id":"px_1","status":"active","expires_at":"2026-11-25T12:00:00Z"}`

func TestTrap65OneUnreadableProxyLeavesTheOthers(t *testing.T) {
	for bad, field := range unusableProxies {
		page, err := getting(t, `{"list":[`+readable+`,{`+bad+`},`+strings.ReplaceAll(readable, "px_1", "px_3")+`],"has_more":false}`).
			ProxiesPage(t.Context(), upstream.PageRequest{})
		if err != nil || len(page.Items) != 2 || page.Items[1].ProxyID != "px_3" || len(page.Unusable) != 1 {
			t.Errorf("%s: %+v %v", bad, page, err)
			continue
		}
		u := page.Unusable[0]
		if id := map[bool]string{true: "px_2"}[field == "expires_at"]; u.ID != id || u.Field != field || u.Position != 2 || u.Why == "" {
			t.Errorf("%s: %+v", bad, u)
		}
	}
}

func TestTrap65DescriptionsOfAnyTypeLeaveAProxyReadable(t *testing.T) {
	for _, member := range []string{"status", "ip_type", "protocol", "country_code", "region", "line_name"} {
		for _, value := range []string{`["http","socks5"]`, `{"city":"Dallas"}`, `true`, `7`, `null`} {
			p, err := getting(t, `{"proxy_id":"px_2","expires_at":"2026-11-25T12:00:00Z","`+member+`":`+value+`}`).Proxy(t.Context(), "px_2")
			if err != nil || p.ExpiresAt == nil {
				t.Errorf("%s %s: %+v %v", member, value, p, err)
			}
		}
	}
	for _, value := range []string{`"0000-00-00 00:00:00"`, `0`, `"2026-11-25 12:00:00"`, `[]`} {
		p, err := getting(t, `{"proxy_id":"px_2","starts_at":`+value+`,"expires_at":"2026-11-25T12:00:00Z"}`).Proxy(t.Context(), "px_2")
		if err != nil || p.ExpiresAt == nil || p.StartsAt != nil {
			t.Errorf("starts_at %s: %+v %v", value, p, err)
		}
	}
}

func TestTrap65WhatDescribesAReplyMayBeOfAnyType(t *testing.T) {
	for _, member := range []string{"message", "trace_id", "timestamp"} {
		for _, value := range []string{`0`, `-1`, `1e400`, `true`, `[]`, `{}`, `null`, `"0000-00-00"`} {
			e, err := upstream.DecodeEnvelope([]byte(`{"success":true,"code":"ok","` + member + `":` + value + `,"data":{}}`))
			if err != nil || !e.Success || !e.Timestamp.IsZero() {
				t.Errorf("%s %s: %+v %v", member, value, e, err)
			}
		}
	}
}

// The detail is of another proxy than the requested one. Its expiry could lead to a payment.
func TestTrap65ADetailOfAnotherProxyIsUnreadable(t *testing.T) {
	_, err := getting(t, readable).Proxy(t.Context(), "px_2")
	var failed *upstream.Error
	if !errors.As(err, &failed) || failed.Code != upstream.CodeOK || !strings.Contains(failed.Failure, "proxy_id") {
		t.Errorf("%v", err)
	}
}

func TestTrap65EndOfDayAndLeapSecondsAreTimes(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-27T24:00:00Z":        "2026-11-28T00:00:00Z",
		"2026-11-27t17:05:00.5z":      "2026-11-27T17:05:00.5Z",
		"2026-12-31T24:00:00.000Z":    "2027-01-01T00:00:00Z",
		"2026-11-27T24:00+08:00":      "2026-11-27T16:00:00Z",
		"20261127T240000Z":            "2026-11-28T00:00:00Z",
		"2026-11-26T23:59:60Z":        "2026-11-27T00:00:00Z",
		"2026-11-27T07:59:60+08:00":   "2026-11-27T00:00:00Z",
		"2026-11-26T23:59:60.500000Z": "2026-11-27T00:00:00.5Z",
		"2026-11-27T24:00:01Z":        "", "2026-11-27T24:01:00Z": "", "2026-11-27T25:00:00Z": "", "2026-11-27T24:00:00": "",
		"2026-11-26T12:59:60Z": "", "2026-11-26T23:59:61Z": "", "2026-02-30T24:00:00Z": "", "2026-11-26T23:60:00Z": "",
	} {
		p, err := getting(t, `{"proxy_id":"px_1","expires_at":"`+text+`"}`).Proxy(t.Context(), "px_1")
		if want == "" {
			if err == nil {
				t.Errorf("%s was read as %s", text, p.ExpiresAt)
			}
			continue
		}
		if at, _ := time.Parse(time.RFC3339, want); err != nil || !p.ExpiresAt.Equal(at) {
			t.Errorf("%s: %v %v, want %s", text, p.ExpiresAt, err, want)
		}
	}
}

func TestTrap65AnOrderIsReadWhateverItsProxiesLookLike(t *testing.T) {
	for bad := range unusableProxies {
		o, err := getting(t, `{"order_no":"o","status":{"s":1},"created_at":"0000-00-00 00:00:00","total_cents":600,"currency":"USD",
			"delivery":{"expected_count":2,"delivered_count":2,"complete":true,"available":true},
			"refund":{"status":"none","amount_cents":0,"refunded_at":"0000-00-00 00:00:00"},"proxies":[{`+bad+`},`+readable+`]}`).Order(t.Context(), "o")
		if err != nil || *o.TotalCents != 600 || !o.Delivery.Complete || len(o.Proxies) != 1 || len(o.Unusable) != 1 || o.Refund.RefundedAt != nil {
			t.Errorf("%s: %+v %v", bad, o, err)
		}
	}
}

func TestTrap65OneUnreadableOfferOrOrderLeavesTheOthers(t *testing.T) {
	const offer = `{"offer_code":"off_1","unit_price_cents":300}`
	for _, bad := range []string{`{"offer_code":"off_2","unit_price_cents":"3.00"}`, `{"offer_code":"off_2","duration_days":["month"]}`, `{"offer_code":7}`, `null`} {
		page, err := getting(t, `{"offers":[`+bad+`,`+offer+`],"has_more":false}`).OffersPage(t.Context(), upstream.OfferFilter{}, upstream.PageRequest{})
		if err != nil || len(page.Items) != 1 || page.Items[0].OfferCode != "off_1" || len(page.Unusable) != 1 {
			t.Errorf("%s: %+v %v", bad, page, err)
		}
	}
	for _, bad := range []string{`{"order_no":"o_2","total_cents":"3.00"}`, `{"order_no":{}}`, `[]`} {
		page, err := getting(t, `{"list":[`+bad+`,`+orderEntry+`],"has_more":false}`).OrdersPage(t.Context(), upstream.PageRequest{})
		if err != nil || len(page.Items) != 1 || page.Items[0].OrderNo != "o_1" || len(page.Unusable) != 1 {
			t.Errorf("%s: %+v %v", bad, page, err)
		}
	}
}

func TestTrap65AnUnreadableLineItemLeavesTheOthers(t *testing.T) {
	for _, bad := range []string{`{"proxy_id":"px_2","amount_cents":"3"}`, `{"proxy_id":"px_2","status":["ok"]}`, `{"proxy_id":2}`, `1`} {
		r := posting(t, upstream.WriteRenewal, 200, "ok", `{"status":"completed","line_items":[{"proxy_id":"px_1","duration_days":"30"},`+bad+`]}`)
		if r.Malformed != "" || r.Renewal == nil || len(r.Renewal.LineItems) != 1 || len(r.Renewal.Unusable) != 1 {
			t.Errorf("%s: %+v %+v", bad, r, r.Renewal)
		}
	}
}

func TestTrap65AListEndsWithItsUnusableEntries(t *testing.T) {
	c := getting(t, `{"list":[{"proxy_id":"px_2","expires_at":0},`+readable+`],"has_more":false}`)
	var ids []string
	var last error
	for p, err := range c.Proxies(t.Context(), 0) {
		if last = err; err == nil {
			ids = append(ids, p.ProxyID)
		}
	}
	unusable, ok := errors.AsType[*upstream.UnusableError](last)
	if !ok || unusable.Count != 1 || unusable.First.ID != "px_2" || len(ids) != 1 || !strings.Contains(last.Error(), "px_2: expires_at") {
		t.Errorf("%v %v", ids, last)
	}
}

// The test puts every kind of invalid value into every member of one entry in every list. The
// other entries must be read, and the invalid entry must be read or reported.
func TestTrap65NoValueOfAListsEntryReachesAnother(t *testing.T) {
	for _, list := range []struct {
		name, id string
		entry    map[string]string
		read     func(c *upstream.Client) (ids []string, unusable []upstream.Unusable, err error)
	}{
		{"list", "proxy_id", map[string]string{
			"status": `"active"`, "ip_type": `"isp"`, "protocol": `"socks5"`, "country_code": `"US"`, "region": `"Dallas"`, "line_name": `"premium"`,
			"starts_at": `"2026-10-25T12:00:00Z"`, "expires_at": `"2026-11-25T12:00:00Z"`,
		}, func(c *upstream.Client) (ids []string, unusable []upstream.Unusable, err error) {
			page, err := c.ProxiesPage(t.Context(), upstream.PageRequest{})
			for _, x := range page.Items {
				ids = append(ids, x.ProxyID)
			}
			return ids, page.Unusable, err
		}},
		{"list", "order_no", map[string]string{
			"status": `"completed"`, "created_at": `"2026-11-25T12:00:00Z"`, "total_cents": `600`, "currency": `"USD"`, "cash_value": `"6.00"`,
			"refund": `{"status":"none","amount_cents":0}`,
		}, func(c *upstream.Client) (ids []string, unusable []upstream.Unusable, err error) {
			page, err := c.OrdersPage(t.Context(), upstream.PageRequest{})
			for _, x := range page.Items {
				ids = append(ids, x.OrderNo)
			}
			return ids, page.Unusable, err
		}},
		{"offers", "offer_code", map[string]string{
			"name": `"US"`, "country_code": `"US"`, "region": `"Dallas"`, "unit_price_cents": `300`, "base_duration_days": `30`, "duration_days": `[30,60]`,
			"max_quantity": `10`, "cidrs": `["198.51.100.0/25"]`,
		}, func(c *upstream.Client) (ids []string, unusable []upstream.Unusable, err error) {
			page, err := c.OffersPage(t.Context(), upstream.OfferFilter{}, upstream.PageRequest{})
			for _, x := range page.Items {
				ids = append(ids, x.OfferCode)
			}
			return ids, page.Unusable, err
		}},
	} {
		entry := func(id, member, value string) string {
			text := fmt.Sprintf("{%q:%q", list.id, id)
			for name, usual := range list.entry {
				switch {
				case name != member:
					text += fmt.Sprintf(",%q:%s", name, usual)
				case value != "":
					text += fmt.Sprintf(",%q:%s", name, value)
				}
			}
			return text + "}"
		}
		for member, usual := range list.entry {
			for _, value := range []string{
				"", usual + fmt.Sprintf(`,%q:"another"`, member), `null`, `""`, `"some text"`, `"` + strings.Repeat("x", 20_000) + `"`, `"\u0000\u001b\u2028"`, "\"\xff\xfe\"",
				`"NaN"`, `0`, `-1`, `1.5`, `9223372036854775807`, `9223372036854775808`, `1e400`, `true`, `[]`, `[[]]`, `{}`, `"0000-00-00 00:00:00"`, `"2026-12-21T12:00:00+14:00"`,
			} {
				body := fmt.Sprintf(`{%q:[%s,%s,%s],"has_more":false}`, list.name, entry("a", "", ""), entry("b", member, value), entry("c", "", ""))
				ids, unusable, err := list.read(getting(t, body))
				read := slices.Equal(ids, []string{"a", "b", "c"}) && len(unusable) == 0
				named := slices.Equal(ids, []string{"a", "c"}) && len(unusable) == 1 && unusable[0].Position == 2 && unusable[0].Why != ""
				if err != nil || !read && !named {
					t.Errorf("%s %s %.40s: %v, %+v, %v", list.id, member, value, ids, unusable, err)
				}
			}
		}
	}
}

// The document gives no types of an account's fields, and only account_id is needed.
func TestTrap65AnAccountIsReadWhateverDescribesIt(t *testing.T) {
	for _, value := range []string{`{"state":"active"}`, `["active"]`, `true`, `1`, `null`} {
		a, err := getting(t, `{"account_id":"acc_1","email":`+value+`,"email_verified":`+value+`,"status":`+value+`,"created_at":`+value+`}`).Account(t.Context())
		if err != nil || a.AccountID != "acc_1" {
			t.Errorf("%s: %+v %v", value, a, err)
		}
	}
}
