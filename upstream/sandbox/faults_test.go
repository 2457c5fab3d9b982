package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"perennial/upstream"
)

// For each fault on a renewal, the test checks the client's view and the money. A retry with the
// same key and bytes must lead to one charge.
func TestFaultsLeadToOneCharge(t *testing.T) {
	cases := []struct {
		name     string
		fault    fault
		status   int
		envelope bool
		executed bool
	}{
		{"drop_before", fault{"fault": "drop_before"}, 0, false, false},
		{"drop_after", fault{"fault": "drop_after"}, 0, false, true},
		{"error_before", fault{"fault": "error_before"}, 500, false, false},
		{"error_after", fault{"fault": "error_after"}, 500, false, true},
		{"truncate", fault{"fault": "truncate"}, 200, false, true},
		{"garbage", fault{"fault": "garbage"}, 200, false, true},
		{"html", fault{"fault": "html"}, 403, false, false},
		{"code", fault{"fault": "code", "code": "rate_limited", "retry_after": "7"}, 429, true, false},
		{"code executed", fault{"fault": "code", "code": "operation_failed", "http_status": 500, "executed": true}, 500, true, true},
		{"hang", fault{"fault": "hang", "seconds": 0.01}, 200, true, true},
		{"hang before", fault{"fault": "hang", "seconds": 0.01, "executed": false}, 200, true, true},
	}
	h := start(t, nil)
	c := h.client(alphaSandbox)
	want := int64(500000)
	for _, tc := range cases {
		tc.fault["method"], tc.fault["path"], tc.fault["account_id"] = "POST", "/api/v1/proxies/renew", "acc_alpha"
		h.fault(tc.fault)
		w := renewal("key "+tc.name, "px_1")
		r := c.Post(bg(), w)
		if r.HTTPStatus != tc.status || r.Envelope != tc.envelope || !r.Sent || (r.Failure == "") != tc.envelope {
			t.Errorf("%s: %+v", tc.name, r)
		}
		if tc.executed {
			want -= 300
		}
		if got := h.balance(c); got != want {
			t.Errorf("%s: balance %d, want %d", tc.name, got, want)
		}
		if !tc.executed {
			want -= 300
		}
		if r = c.Post(bg(), w); !r.Success || r.Renewal == nil {
			t.Errorf("%s, again: %+v", tc.name, r)
		}
		if got := h.balance(c); got != want {
			t.Errorf("%s, again: balance %d, want %d", tc.name, got, want)
		}
	}
	h.booksAgree(500000, "sandbox", want)
}

// A reader of the reply sees the first half of its body.
func TestATruncatedReplyHasHalfItsBody(t *testing.T) {
	h := start(t, nil)
	h.fault(fault{"fault": "truncate", "path": "/api/v1/wallet"})
	host := strings.TrimPrefix(h.s.SandboxURL(), "http://")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, raw{method: http.MethodGet, target: "/api/v1/wallet"}.text(host, h.clock.Now()))
	reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reply.Body.Close() }()
	body, err := io.ReadAll(reply.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) || int64(len(body)) != reply.ContentLength/2 {
		t.Errorf("%d bytes of %d: %v", len(body), reply.ContentLength, err)
	}
}

func TestFaultsCountSkipAndClear(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	h.fault(fault{"fault": "code", "code": "rate_limited", "retry_after": "soon", "skip": 1, "times": 2, "path": "/api/v1/proxies/{proxy_id}"})
	h.fault(fault{"fault": "drop_before", "environment": "production", "times": -1})
	var got []bool
	for range 4 {
		_, err := c.Proxy(bg(), "px_1")
		got = append(got, errors.Is(err, upstream.CodeRateLimited))
		var e *upstream.Error
		if errors.As(err, &e) && (!e.RetryAfter.Present || e.RetryAfter.Valid) {
			t.Errorf("%+v", e.RetryAfter)
		}
	}
	if got[0] || !got[1] || !got[2] || got[3] {
		t.Errorf("limited: %v", got)
	}
	live := h.client(alphaLive)
	for range 2 {
		if _, err := live.Wallet(bg()); err == nil {
			t.Error("the fault for ever ended")
		}
	}
	h.control(http.MethodDelete, "/faults", nil, nil)
	if _, err := live.Wallet(bg()); err != nil {
		t.Error(err)
	}
}

func TestRenewalFaults(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	before, err := c.Proxy(bg(), "px_bulk_3")
	if err != nil {
		t.Fatal(err)
	}
	h.fault(fault{"fault": "renewal", "failed": 1, "unresolved": []string{"px_bulk_2"}})
	r := c.Post(bg(), renewal("mixed", "px_bulk_1", "px_bulk_2", "px_bulk_3"))
	v := r.Renewal
	if !r.Success || v.Status != "manual_review" || v.TotalCents != 900 || v.ChargedCents != 600 || v.RefundedCents != 300 || len(v.Missing) != 0 {
		t.Fatalf("%+v %+v", r, v)
	}
	if len(v.Failed) != 1 || v.Failed[0] != "px_bulk_1" || len(v.Unresolved) != 1 || len(v.Successful) != 1 || len(v.LineItems) != 3 {
		t.Errorf("%+v", v)
	}
	after, err := c.Proxy(bg(), "px_bulk_3")
	if err != nil || after.ExpiresAt.Sub(*before.ExpiresAt) != 30*24*time.Hour {
		t.Errorf("%v -> %v, %v", before.ExpiresAt, after.ExpiresAt, err)
	}
	h.fault(fault{"fault": "renewal", "failed": 2})
	r = c.Post(bg(), renewal("none", "px_bulk_5", "px_bulk_6"))
	if r.HTTPStatus != 422 || r.Code != upstream.CodeOperationFailed || r.Renewal == nil || r.Renewal.Status != "failed" ||
		r.Renewal.ChargedCents != 0 || r.Renewal.RefundedCents != 600 {
		t.Errorf("%+v %+v", r, r.Renewal)
	}
	h.booksAgree(500000, "sandbox", h.balance(c))
	charges, err := h.s.Charges()
	if err != nil || len(charges) != 8 {
		t.Errorf("%d lines, %v", len(charges), err)
	}
}

func TestUnresolvedRecordStaysForEver(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	h.fault(fault{"fault": "unresolved_record", "method": "POST"})
	w := renewal("k", "px_1")
	if r := c.Post(bg(), w); r.HTTPStatus != 0 || !r.Sent {
		t.Fatalf("%+v", r)
	}
	for range 3 {
		if r := c.Post(bg(), w); r.Code != upstream.CodeIdempotencyUnresolved || r.HTTPStatus != 409 {
			t.Errorf("%+v", r)
		}
		h.clock.Advance(48 * time.Hour)
	}
	if h.balance(c) != 500000-300 {
		t.Error("the interrupted operation was not charged once")
	}
}

func TestConflictReplayAndRetention(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	w := renewal("k", "px_1")
	first := c.Post(bg(), w)
	if r := c.Post(bg(), renewal("k", "px_null")); r.Code != upstream.CodeIdempotencyKeyConflict {
		t.Errorf("%+v", r)
	}
	if r := c.Post(bg(), purchase("k", "", 1)); r.Code != upstream.CodeIdempotencyKeyConflict {
		t.Errorf("%+v", r)
	}
	h.clock.Advance(24*time.Hour - time.Second)
	if r := c.Post(bg(), w); r.TraceID != first.TraceID || !r.ServerTime.Equal(first.ServerTime) {
		t.Errorf("not the first response: %+v", r)
	}
	if h.balance(c) != 500000-300 {
		t.Error("a replay charged")
	}
	h.clock.Advance(time.Second)
	if r := c.Post(bg(), w); !r.Success || r.TraceID == first.TraceID {
		t.Errorf("%+v", r)
	}
	if h.balance(c) != 500000-600 {
		t.Error("past the retention the key is new")
	}
}

func TestKeysAreSharedByTheKeysOfAnAccount(t *testing.T) {
	h := start(t, nil)
	first := h.client(alphaSandbox).Post(bg(), renewal("k", "px_1"))
	if r := h.client("sbx_app_near").Post(bg(), renewal("k", "px_1")); r.TraceID != first.TraceID {
		t.Errorf("%+v", r)
	}
}

func TestProcessingWhileTheFirstHangs(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	h.fault(fault{"fault": "hang", "seconds": 600, "method": "POST"})
	ctx, cancel := context.WithCancel(bg())
	done := make(chan upstream.Reply)
	go func() { done <- c.Post(ctx, renewal("k", "px_1")) }()
	for h.balance(c) == 500000 { // until the first is executed and hangs
	}
	if r := c.Post(bg(), renewal("k", "px_1")); r.Code != upstream.CodeIdempotencyProcessing {
		t.Errorf("%+v", r)
	}
	cancel()
	if r := <-done; !r.Sent || r.HTTPStatus != 0 {
		t.Errorf("%+v", r)
	}
	r := c.Post(bg(), renewal("k", "px_1"))
	for r.Code == upstream.CodeIdempotencyProcessing {
		r = c.Post(bg(), renewal("k", "px_1"))
	}
	if !r.Success || h.balance(c) != 500000-300 {
		t.Errorf("%+v", r)
	}
}

func TestConcurrentSameKeyChargesOnce(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	const n = 24
	replies := make(chan upstream.Reply, n)
	for range n {
		go func() { replies <- c.Post(bg(), renewal("k", "px_1")) }()
	}
	for range n {
		if r := <-replies; !r.Success && r.Code != upstream.CodeIdempotencyProcessing {
			t.Errorf("%+v", r)
		}
	}
	if h.balance(c) != 500000-300 {
		t.Error("charged more than once")
	}
}

func TestConcurrentOrdersNeverOversell(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	const n = 10
	codes := make(chan upstream.Code, n)
	for i := range n {
		go func() {
			body := []byte(`{"duration_days":30,"items":[{"offer_code":"off_de","quantity":1}]}`)
			codes <- c.Post(bg(), upstream.Write{Kind: upstream.WriteOrder, Key: strings.Repeat("k", i+1), Body: body}).Code
		}()
	}
	sold := 0
	for range n {
		if code := <-codes; code == upstream.CodeOK {
			sold++
		} else if code != upstream.CodeOfferNotFound {
			t.Errorf("%s", code)
		}
	}
	if sold != 3 || h.balance(c) != 500000-900 {
		t.Errorf("sold %d", sold)
	}
}

func TestStateCounts(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	c.Post(bg(), purchase("k", "", 2))
	var state struct {
		Orders, Proxies int
		Requests        map[string]map[string]int64
	}
	h.control(http.MethodGet, "/state", nil, &state)
	if state.Orders != 1 || state.Proxies != 505 || state.Requests["POST /api/v1/orders"]["ok"] != 1 {
		t.Errorf("%+v", state)
	}
	var charges []map[string]any
	h.control(http.MethodGet, "/charges", nil, &charges)
	if len(charges) != 1 || charges[0]["amount_cents"] != float64(600) || charges[0]["reason"] != "order" || charges[0]["order_no"] == nil {
		t.Errorf("%v", charges)
	}
}
