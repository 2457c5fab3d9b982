package upstream

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func seeds(f *testing.F) {
	for _, s := range []string{``, `{}`, `null`, `{"success":true,"code":"ok","data":{}}`, ` { "success" : true , "code" : "ok" , "data" : { "a" : [ 1 , { } ] , "has_more" : false } } `,
		`{"success":true,"code":"ok","data":{"order_no":"o","delivery":{},"refund":{},"proxies":[{}],"poll_after_seconds":1e9}}`,
		`{"success":true,"code":"ok","data":{"status":"x","line_items":[{"proxy_id":"\ud800"}],"failed_proxy_ids":["a"]}}`,
		`{"succ\u0065ss":true,"code":"ok","data":{"offers":[{"offer_code":"o","duration_days":[1,2]}],"has_more":true,"next_page_token":"t"}}`} {
		f.Add([]byte(s))
	}
	files, err := filepath.Glob("../testdata/transcripts/*.http")
	if err != nil || len(files) == 0 {
		f.Fatalf("no transcripts: %v", err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw[bytes.LastIndex(raw, []byte("\n\n{"))+2:])
	}
}

func FuzzEnvelope(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := DecodeEnvelope(body)
		if err == nil && e.Code == "" {
			t.Error("an envelope without a code")
		}
		_ = e.fieldErrors()
	})
}

func FuzzOrder(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := DecodeEnvelope(body)
		if err != nil {
			return
		}
		if created, err := decodeData(&e, decodeCreatedOrder); created != nil && created.OrderNo == "" {
			t.Errorf("created without a number, %v", err)
		}
		if o, err := e.object(); err == nil {
			if order := decodeOrder(o, &e); o.err == nil && order.OrderNo == "" {
				t.Error("an order without a number")
			}
		}
	})
}

func FuzzRenewal(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := DecodeEnvelope(body)
		if err != nil {
			return
		}
		if r, err := decodeData(&e, decodeRenewal); (r == nil) == (err == nil) {
			t.Error("neither result nor error, or both")
		}
	})
}

func FuzzPage(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := DecodeEnvelope(body)
		if err != nil {
			return
		}
		o, err := e.object()
		if err != nil {
			return
		}
		if p := decodePage(&byPath[listKey]{}, o, &e, list{entry: "proxy_id", members: proxyMembers, documented: true}, decodeProxy); o.err == nil && p.HasMore && p.NextPageToken == "" {
			t.Error("more without a token")
		}
		_ = decodePage(&byPath[listKey]{}, o, &e, list{key: "offers"}, decodeOffer)
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "5", "-5", "Sat, 21 Nov 2026 12:00:30 GMT", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r := ParseRetryAfter(text, time.Unix(0, 0)); r.Delay < 0 || r.Valid && !r.Present {
			t.Errorf("%q: %+v", text, r)
		}
	})
}

func FuzzCanonicalQuery(f *testing.F) {
	for _, s := range []string{"", "a=1&a=0", "%zz=%", "a+b=%20&%2B", "region=S%c3%a3o", "&&=&="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		once := CanonicalQuery(raw)
		if CanonicalQuery(once) != once {
			t.Errorf("%q became %q", raw, once)
		}
	})
}

func FuzzTime(f *testing.F) {
	for _, s := range []string{"", "2026-11-21T12:00:00Z", "2026-11-21T12:00:00+08:00", "2026-11-21T12:00:00", "20261121T120000Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if at, ok := parseTime(text); ok && at.Location() != time.UTC || !ok && !at.IsZero() {
			t.Errorf("%q: %v", text, at)
		}
	})
}
