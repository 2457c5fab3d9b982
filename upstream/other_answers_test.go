package upstream_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"perennial/upstream"
)

// The restart needs more pages than were read before.
func TestARestartWithSmallerPagesReadsTheWholeList(t *testing.T) {
	const entries = 200
	smaller := false
	p := upstream.Pages[upstream.Proxy]{PageRequest: upstream.PageRequest{Size: 20}}
	got := map[string]bool{}
	for more := true; more; {
		at, _ := strconv.Atoi(p.Token)
		if at >= 100 && !smaller { // the provider has lowered its largest page
			smaller = true
			if !p.Restarts(upstream.ErrPageSize) {
				t.Fatal("no restart")
			}
			p.Size = 2
			continue
		}
		page := upstream.Page[upstream.Proxy]{HasMore: true}
		for range p.Size {
			id := fmt.Sprintf("px_%d", at)
			page.Items, got[id] = append(page.Items, upstream.Proxy{ProxyID: id}), true
			at++
		}
		page.NextPageToken, page.HasMore = strconv.Itoa(at), at < entries
		var err error
		if more, err = p.Follow(page); err != nil {
			t.Fatalf("after %d entries: %v", len(got), err)
		}
	}
	if len(got) != entries {
		t.Errorf("%d entries of %d", len(got), entries)
	}
}

// The entry could not be read before the restart.
func TestAnEntryThatCanBeReadAfterARestartIsYielded(t *testing.T) {
	reads := 0
	got, err := collect(pagesServer(t, func(q string) (int, string) {
		switch {
		case q != "page_size=2" && reads == 1:
			return 400, envelope("invalid_page_token", "{}")
		case q != "page_size=2":
			return 200, pageOf("", "b")
		}
		if reads++; reads == 1 {
			return 200, envelope("ok", `{"proxies":[{"proxy_id":"a","expires_at":7}],"has_more":true,"next_page_token":"t"}`)
		}
		return 200, pageOf("t", "a")
	}))
	if err != nil || got != "ab" {
		t.Errorf("%q %v", got, err)
	}
}

func TestAnotherOrderOrProxyIsNotTheOneThatWasAskedFor(t *testing.T) {
	c := pagesServer(t, func(string) (int, string) {
		return 200, envelope("ok", `{"order_no":"ord_2","status":"completed","total_cents":300,"currency":"USD","proxy_id":"px_2","password":"hunter2"}`)
	})
	if o, err := c.Order(t.Context(), "ord_1"); err == nil || o.OrderNo != "" || !strings.Contains(err.Error(), "order_no") {
		t.Errorf("%+v %v", o, err)
	}
	if s, err := c.Reveal(t.Context(), "px_1"); err == nil || s.Password() != "" || !strings.Contains(err.Error(), "proxy_id") {
		t.Errorf("credentials of another proxy: %v", err)
	}
}

// 30 February must not become the second day of the year 1.
func TestAnInvalidTimeIsNoYear(t *testing.T) {
	e, err := upstream.DecodeEnvelope([]byte(`{"success":true,"code":"ok","message":"","data":{},"trace_id":"t","timestamp":"2026-02-30T24:00:00Z"}`))
	if err != nil || !e.Timestamp.IsZero() {
		t.Errorf("%s %v", e.Timestamp.Format(time.RFC3339), err)
	}
}

// The body is incomplete, but the status and the header were received.
func TestACutRateLimitKeepsItsRetryAfter(t *testing.T) {
	c := clientOf(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "70")
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"succ`))
	}))
	_, err := c.Wallet(t.Context())
	failed, ok := errors.AsType[*upstream.Error](err)
	if !ok || !errors.Is(err, upstream.CodeRateLimited) || failed.RetryAfter.Delay != 70*time.Second {
		t.Errorf("%v", err)
	}
}

// The list's name is known from an earlier page.
func TestAnotherEmptyArrayIsNotTheList(t *testing.T) {
	first := true
	c := pagesServer(t, func(string) (int, string) {
		if first {
			first = false
			return 200, envelope("ok", `{"proxies":[{"proxy_id":"a","status":"active","expires_at":null,"country_code":"US"}],"has_more":false}`)
		}
		return 200, envelope("ok", `{"warnings":[],"has_more":false}`)
	})
	if _, err := c.ProxiesPage(t.Context(), upstream.PageRequest{Size: 2}); err != nil {
		t.Fatal(err)
	}
	if page, err := c.ProxiesPage(t.Context(), upstream.PageRequest{Size: 2}); err == nil {
		t.Errorf("an empty list: %+v", page)
	}
}
