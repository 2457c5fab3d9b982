package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// controlRaw sends any bytes, Host and method to the control interface.
func (h *rig) controlRaw(method, path, body, host string) (status int, answer map[string]string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, h.s.ControlURL()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		h.t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	if h.origin != "" {
		req.Header.Set("Origin", h.origin)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.Header.Get("Content-Type") != "application/json" {
		h.t.Errorf("%s %s: no JSON: %s %v", method, path, text, err)
	}
	_ = json.Unmarshal(text, &answer)
	return resp.StatusCode, answer
}

// Invalid control requests, each with the field that the refusal names.
var wrongSettings = []struct{ path, body, field string }{
	{"/faults", ``, "body"},
	{"/faults", `[]`, "body"},
	{"/faults", `{"fault":"hang"} 1`, "body"},
	{"/faults", `{}`, "fault"},
	{"/faults", `{"fault":"flood"}`, "fault"},
	{"/faults", `{"fault":7}`, "fault"},
	{"/faults", `{"fault":"hang","colour":1}`, "colour"},
	{"/faults", `{"fault":"hang","seconds":"x"}`, "seconds"},
	{"/faults", `{"fault":"hang","seconds":-1}`, "seconds"},
	{"/faults", `{"fault":"hang","skip":-1}`, "skip"},
	{"/faults", `{"fault":"hang","skip":1.5}`, "skip"},
	{"/faults", `{"fault":"hang","environment":"staging"}`, "environment"},
	{"/faults", `{"fault":"hang","account_id":"acc_nobody"}`, "account_id"},
	{"/faults", `{"fault":"hang","method":"P O"}`, "method"},
	{"/faults", `{"fault":"hang","path":"api"}`, "path"},
	{"/faults", `{"fault":"code"}`, "code"},
	{"/faults", `{"fault":"code","code":"x","http_status":100}`, "http_status"},
	{"/faults", `{"fault":"code","code":"x","retry_after":"1\n2"}`, "retry_after"},
	{"/faults", `{"fault":"code","code":"x","executed":"yes"}`, "executed"},
	{"/faults", `{"fault":"renewal"}`, "failed"},
	{"/faults", `{"fault":"renewal","failed":-1}`, "failed"},
	{"/faults", `{"fault":"renewal","unresolved":"px_1"}`, "unresolved"},
	{"/latency", `{"milliseconds":-1}`, "milliseconds"},
	{"/latency", `{"milliseconds":600001}`, "milliseconds"},
	{"/latency", `{"jitter_milliseconds":-1}`, "jitter_milliseconds"},
	{"/latency", `{"milliseconds":1,"path":"x"}`, "path"},
	{"/rate", `{"requests_per_second":-1}`, "requests_per_second"},
	{"/rate", `{"requests_per_second":1,"burst":-1}`, "burst"},
	{"/rate", `{"requests_per_second":1,"app_id":"sbx_app_nobody"}`, "app_id"},
	{"/policy", `{"refuse_script_agents":1}`, "refuse_script_agents"},
	{"/clock", `{"offset_seconds":99999999999}`, "offset_seconds"},
	{"/clock", `{"offset":1}`, "offset"},
	{"/keys", `{"app_id":"sbx_app_nobody","revoked":true}`, "app_id"},
	{"/prices", `{"account_id":"acc_nobody","offer_code":"off_us_dallas","unit_price_cents":1}`, "account_id"},
	{"/prices", `{"account_id":"acc_alpha","offer_code":"off_nowhere","unit_price_cents":1}`, "offer_code"},
	{"/prices", `{"account_id":"acc_alpha","offer_code":"off_us","unit_price_cents":0}`, "unit_price_cents"},
	{"/wallet", `{"account_id":"acc_nobody","environment":"sandbox","add_cents":1}`, "account_id"},
	{"/wallet", `{"account_id":"acc_alpha","environment":"","add_cents":1}`, "environment"},
	{"/wallet", `{"account_id":"acc_alpha","environment":"sandbox","add_cents":-500001}`, "add_cents"},
	{"/wallet", `{"account_id":"acc_alpha","environment":"sandbox","add_cents":9223372036854775807}`, "add_cents"},
	{"/wallet", `{"account_id":"acc_alpha","environment":"sandbox","add_cents":-9223372036854775808}`, "add_cents"},
	{"/wallet", `{"account_id":"acc_alpha","environment":"sandbox","add_cents":1.5}`, "add_cents"},
}

// The control interface refuses invalid requests with the field's name, and applies no part of
// them.
func TestControlNamesTheFieldThatIsWrong(t *testing.T) {
	h := start(t, nil)
	for _, tc := range wrongSettings {
		status, answer := h.controlRaw(http.MethodPost, tc.path, tc.body, "")
		if status != http.StatusBadRequest || answer["field"] != tc.field || !strings.HasPrefix(answer["error"], tc.field+": ") {
			t.Errorf("%s %s: %d %v", tc.path, tc.body, status, answer)
		}
	}
	for target, want := range map[string]int{"GET /faults": 404, "POST /nothing": 404, "PUT /clock": 404} {
		method, path, _ := strings.Cut(target, " ")
		if status, answer := h.controlRaw(method, path, "", ""); status != want || answer["error"] == "" {
			t.Errorf("%s: %d %v", target, status, answer)
		}
	}
	if status, answer := h.controlRaw(http.MethodPost, "/clock", strings.Repeat(" ", 2<<20), ""); status != 413 || answer["field"] != "body" {
		t.Errorf("2 MB: %d %v", status, answer)
	}
	if got := h.balance(h.client(alphaSandbox)); got != 500000 {
		t.Errorf("balance %d", got)
	}
}

// A web page that reaches the sandbox through another host name cannot control it.
func TestControlIsCalledByALoopbackName(t *testing.T) {
	h := start(t, nil)
	for host, want := range map[string]int{"": 200, "localhost": 200, "localhost:1": 200, "[::1]:80": 200, "evil.example": 403, "10.0.0.1:80": 403, "127.0.0.1.evil.example": 403} {
		if status, answer := h.controlRaw(http.MethodPost, "/clock", `{"offset_seconds":0}`, host); status != want {
			t.Errorf("%s: %d %v", host, status, answer)
		}
	}
	for origin, want := range map[string]int{"": 200, h.s.ControlURL(): 200, "https://evil.example": 403, "null": 403} {
		h.origin = origin
		if status, answer := h.controlRaw(http.MethodPost, "/clock", `{"offset_seconds":0}`, ""); status != want {
			t.Errorf("from a page of %q: %d %v", origin, status, answer)
		}
	}
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "[::]:0", "example.com:0", "127.0.0.1"} {
		if s, err := sandbox.Start(bg(), sandbox.Options{Control: address}); err == nil {
			t.Errorf("control at %s", address)
			_ = s.Close()
		}
	}
}

// wallets requests the wallet until a request is limited, at most n times. It returns the number
// of successes and the Retry-After.
func (h *rig) wallets(c *upstream.Client, n int) (served int, retryAfter time.Duration) {
	h.t.Helper()
	for served < n {
		_, err := c.Wallet(bg())
		if err == nil {
			served++
			continue
		}
		e, ok := errors.AsType[*upstream.Error](err)
		if !ok || e.Code != upstream.CodeRateLimited || e.HTTPStatus != http.StatusTooManyRequests || !e.RetryAfter.Valid {
			h.t.Fatalf("%v", err)
		}
		return served, e.RetryAfter.Delay
	}
	return served, 0
}

func TestRateLimits(t *testing.T) {
	if _, err := sandbox.Start(bg(), sandbox.Options{RequestsPerSecond: -1}); err == nil || !strings.Contains(err.Error(), "requests_per_second") {
		t.Errorf("%v", err)
	}
	h := start(t, func(o *sandbox.Options) { o.RequestsPerSecond = 2 })
	c, other := h.client(alphaSandbox), h.client("sbx_app_near")
	served, wait := h.wallets(c, 10)
	if served != 2 || wait != time.Second {
		t.Errorf("%d served, Retry-After %v", served, wait)
	}
	if served, _ := h.wallets(other, 2); served != 2 {
		t.Error("one key's requests limit another")
	}
	if r := c.Post(bg(), renewal("k", "px_1")); r.Code != upstream.CodeRateLimited || !r.RetryAfter.Valid {
		t.Errorf("%+v", r)
	}
	h.clock.Advance(wait)
	if served, _ := h.wallets(c, 1); served != 1 {
		t.Error("still limited after Retry-After")
	}
	h.clock.Advance(time.Minute)
	bad := h.client(alphaSandbox, func(c *upstream.Config) { c.Secret = "other" })
	for range 5 {
		if _, err := bad.Wallet(bg()); !errors.Is(err, upstream.CodeInvalidSignature) {
			t.Fatal(err)
		}
	}
	if served, _ := h.wallets(c, 10); served != 2 {
		t.Errorf("bad signatures took from the limit: %d served", served)
	}
	q := get("/api/v1/wallet")
	q.nonce = "not burnt"
	h.wants("too fast", h.send(q), http.StatusTooManyRequests, "rate_limited")
	h.clock.Advance(time.Second)
	h.wants("the same nonce later", h.send(q), http.StatusOK, "ok")
}

func TestRateLimitsByControl(t *testing.T) {
	h := start(t, func(o *sandbox.Options) { o.RequestsPerSecond = 2 })
	c, other := h.client(alphaSandbox), h.client("sbx_app_near")
	h.control(http.MethodPost, "/rate", map[string]any{"app_id": alphaSandbox, "requests_per_second": 0}, nil)
	if served, _ := h.wallets(c, 20); served != 20 {
		t.Error("the freed key is limited")
	}
	h.control(http.MethodPost, "/rate", map[string]any{"requests_per_second": 0.1, "burst": 3}, nil)
	if served, wait := h.wallets(c, 5); served != 3 || wait != 10*time.Second {
		t.Errorf("%d served, Retry-After %v", served, wait)
	}
	h.control(http.MethodPost, "/rate", map[string]any{"requests_per_second": 0}, nil)
	if served, _ := h.wallets(other, 20); served != 20 {
		t.Error("limited without a limit")
	}
}

// Latency delays a request before its execution. The request is executed even if its client has
// disconnected.
func TestLatency(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	c := h.client(alphaSandbox)
	h.control(http.MethodPost, "/latency", map[string]any{"milliseconds": 600000, "method": "POST"}, nil)
	h.control(http.MethodPost, "/latency", map[string]any{"milliseconds": 20, "jitter_milliseconds": 5, "path": "/api/v1/wallet"}, nil)
	begun := time.Now()
	if _, err := c.Wallet(bg()); err != nil || time.Since(begun) < 20*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
	h.control(http.MethodPost, "/latency", map[string]any{"milliseconds": 1000, "method": "POST"}, nil) // replaces the first setting
	ctx, cancel := context.WithTimeout(bg(), 50*time.Millisecond)
	defer cancel()
	if r := c.Post(ctx, renewal("left", "px_1")); !r.Sent || r.HTTPStatus != 0 {
		t.Errorf("%+v", r)
	}
	for h.balance(c) == 500000 { // until the abandoned request is executed
	}
	h.control(http.MethodDelete, "/latency", nil, nil)
	if r := c.Post(bg(), renewal("left", "px_1")); !r.Success {
		t.Errorf("%+v", r)
	}
	h.booksAgree(500000, "sandbox", h.balance(c))
	if got := h.balance(c); got != 500000-300 {
		t.Errorf("balance %d", got)
	}
	// A delayed request must not delay Close.
	h.control(http.MethodPost, "/latency", map[string]any{"milliseconds": 600000}, nil)
	held := make(chan error)
	go func() { _, err := c.Wallet(bg()); held <- err }()
	if err := h.s.Close(); err != nil {
		t.Error(err)
	}
	<-held
}

func TestScriptsAreRefusedByPolicy(t *testing.T) {
	h := start(t, nil)
	agents := map[string]bool{"": true, "curl/8.5.0": true, "python-requests/2.31": true, "Go-http-client/1.1": true, "Wget/1.21": true,
		"Python/3.12 aiohttp/3.9.1": true, "node": true, "nodeherder/2": false,
		"acme-renewer/3.2 (ops@acme.example)": false, "perennial/1": false}
	ask := func(agent string) *seen {
		q := renew(`{"duration_days":30,"proxy_ids":["px_1"]}`)
		q.header["User-Agent"] = agent
		return h.send(q)
	}
	for agent := range agents {
		h.wants("by default "+agent, ask(agent), http.StatusOK, "ok")
	}
	spent := h.balance(h.client(alphaSandbox))
	h.control(http.MethodPost, "/policy", map[string]any{"refuse_script_agents": true}, nil)
	for agent, refused := range agents {
		got := ask(agent)
		if refused != (got.status == http.StatusForbidden && !got.envelope && strings.HasPrefix(got.header.Get("Content-Type"), "text/html")) {
			t.Errorf("%q: %d %s", agent, got.status, got.body)
		}
	}
	if got := h.balance(h.client(alphaSandbox)); got != spent-3*300 {
		t.Errorf("balance %d, was %d", got, spent)
	}
	h.control(http.MethodPost, "/policy", map[string]any{"refuse_script_agents": false}, nil)
	h.wants("switched off", ask("curl/8"), http.StatusOK, "ok")
}

// Quotes, orders and renewals use an account's own prices.
func TestPricesOfAnAccount(t *testing.T) {
	h := start(t, func(o *sandbox.Options) {
		o.Fixture = fixture()
		o.Fixture.Accounts[0].Prices = map[string]int64{"off_us": 111}
	})
	got := h.send(get("/api/v1/offers?country=US"))
	if !strings.Contains(got.body, `"unit_price_cents":111`) || !strings.Contains(got.body, `"unit_price":"1.11"`) {
		t.Errorf("%s", got.body)
	}
	q := get("/api/v1/offers?country=US")
	q.app = "sbx_app_beta"
	if got := h.send(q); !strings.Contains(got.body, `"unit_price_cents":300`) {
		t.Errorf("%s", got.body)
	}
	h.wants("order", h.send(order(`{"duration_days":60,"offer_code":"off_us","quantity":2}`)), http.StatusCreated, "ok")
	h.wants("renewal", h.send(renew(`{"duration_days":30,"proxy_ids":["px_1"]}`)), http.StatusOK, "ok")
	if got := h.balance(h.client(alphaSandbox)); got != 500000-4*111-111 {
		t.Errorf("balance %d", got)
	}
	f := fixture()
	f.Accounts[0].Prices = map[string]int64{"off_xx": 1}
	if err := f.Validate(); err == nil || !strings.Contains(err.Error(), "prices") {
		t.Errorf("%v", err)
	}
}
