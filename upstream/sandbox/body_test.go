package sandbox

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// encoding/json decodes every body that the strict decoder accepts, with the same result. Every
// refusal contains a field and a message of limited length.
func FuzzOrderBody(f *testing.F) {
	for _, seed := range []string{`{"duration_days":30,"items":[{"offer_code":"a","quantity":1,"cidrs":["b","c"]}]}`, `{"duration_days":60,"offer_code":"\u00e9","quantity":7}`,
		` { "items" : [ ] } `, `{"items":[{}`, `{"duration_days":1e1}`, `{"x":null}`, "{\"\xff\":1}", strings.Repeat("[", 1000), `{"":0}`, `{"duration_days":-0}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		in, bad := readOrderBody(body)
		if bad != nil {
			if bad.field == "" || bad.message == "" || len(bad.field) > 128 {
				t.Fatalf("%+v", bad)
			}
			return
		}
		var want struct {
			DurationDays int64       `json:"duration_days"`
			Items        []orderLine `json:"items"`
			OfferCode    string      `json:"offer_code"`
			Quantity     int64       `json:"quantity"`
		}
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if in.legacy {
			want.Items = []orderLine{{OfferCode: want.OfferCode, Quantity: want.Quantity}}
		}
		got, _ := json.Marshal(in.lines)
		meant, _ := json.Marshal(want.Items)
		if in.days != want.DurationDays || !bytes.Equal(got, meant) {
			t.Fatalf("%s: read %s, meant %s", body, got, meant)
		}
	})
}

// FuzzRenewBody does for renewals what FuzzOrderBody does for orders.
func FuzzRenewBody(f *testing.F) {
	for _, seed := range []string{`{"duration_days":30,"proxy_ids":["a","b"]}`, `{"proxy_ids":["\ud800"],"duration_days":1080}`, `{"proxy_ids":[`, `{"proxy_ids":["a",]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		in, bad := readRenewBody(body)
		if bad != nil {
			if bad.field == "" || bad.message == "" || len(bad.field) > 128 {
				t.Fatalf("%+v", bad)
			}
			return
		}
		var want struct {
			ProxyIDs     []string `json:"proxy_ids"`
			DurationDays int64    `json:"duration_days"`
		}
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if in.Days != want.DurationDays || strings.Join(in.IDs, "\x00") != strings.Join(want.ProxyIDs, "\x00") {
			t.Fatalf("%s: read %+v, meant %+v", body, in, want)
		}
	})
}
