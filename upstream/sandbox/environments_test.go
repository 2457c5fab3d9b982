package sandbox_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// The same requests run in both environments in parallel, with every outcome of a renewal.
// Neither environment shows anything of the other.
func TestBothEnvironmentsServeTheSame(t *testing.T) {
	h := start(t, nil)
	opening := map[string]int64{alphaSandbox: 500000, alphaLive: 400000}
	orders, proxies := map[string]string{}, map[string][]string{}
	for _, app := range []string{alphaSandbox, alphaLive} {
		c := h.client(app)
		r := c.Post(bg(), purchase("the same key", "", 4))
		if r.Order == nil {
			t.Fatalf("%s: %+v", app, r)
		}
		o, err := c.Order(bg(), r.Order.OrderNo)
		for range 3 {
			if o.PollAfterSeconds != nil {
				h.clock.Advance(time.Duration(*o.PollAfterSeconds) * time.Second)
				o, err = c.Order(bg(), r.Order.OrderNo)
			}
		}
		if err != nil || !o.Delivery.Available || len(o.Proxies) != 4 || o.PollAfterSeconds != nil {
			t.Fatalf("%s: %+v %v", app, o, err)
		}
		for _, p := range o.Proxies {
			proxies[app] = append(proxies[app], p.ProxyID)
		}
		orders[app] = o.OrderNo
		renewInEveryOutcome(t, h, c, proxies[app])
		spent := int64(4*300 + (2-1)*300 + 2*300 + 1*300 + 0) // order, partial, unresolved, completed, failed
		if got := h.balance(c); got != opening[app]-spent {
			t.Errorf("%s: balance %d, want %d", app, got, opening[app]-spent)
		}
	}
	for app, other := range map[string]string{alphaSandbox: alphaLive, alphaLive: alphaSandbox} {
		c := h.client(app)
		if _, err := c.Order(bg(), orders[other]); !errors.Is(err, upstream.CodeOrderNotFound) {
			t.Errorf("%s sees an order of %s: %v", app, other, err)
		}
		if _, err := c.Proxy(bg(), proxies[other][0]); !errors.Is(err, upstream.CodeProxyNotFound) {
			t.Errorf("%s sees a proxy of %s: %v", app, other, err)
		}
		if r := c.Post(bg(), renewal("foreign", proxies[other][0])); r.Code != upstream.CodeProxyNotFound {
			t.Errorf("%s renews a proxy of %s: %+v", app, other, r)
		}
	}
}

func renewInEveryOutcome(t *testing.T, h *rig, c *upstream.Client, ids []string) {
	t.Helper()
	for _, tc := range []struct {
		status string
		f      fault
		ids    []string
	}{
		{"partial", fault{"failed": 1}, ids[:2]},
		{"manual_review", fault{"unresolved": []string{ids[2]}}, ids[1:3]},
		{"completed", nil, ids[3:]},
		{"failed", fault{"failed": 2}, ids[:2]},
	} {
		if tc.f != nil {
			tc.f["fault"] = "renewal"
			h.fault(tc.f)
		}
		r := c.Post(bg(), renewal(tc.status, tc.ids...))
		if r.Renewal == nil || r.Renewal.Status != tc.status || len(r.Renewal.LineItems) != len(tc.ids) || r.Success != (tc.status != "failed") {
			t.Errorf("%s: %+v %+v", tc.status, r, r.Renewal)
		}
	}
}

// A client can get each code of the API document, with the HTTP status that README.md assumes.
func TestEveryCodeCanBeHad(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	for code, status := range map[upstream.Code]int{
		upstream.CodeInvalidSignature: 401, upstream.CodeStaleTimestamp: 401, upstream.CodeReplayedNonce: 401,
		upstream.CodeIdempotencyKeyRequired: 400, upstream.CodeIdempotencyKeyConflict: 409, upstream.CodeIdempotencyProcessing: 409,
		upstream.CodeIdempotencyReplayFailed: 409, upstream.CodeIdempotencyUnresolved: 409, upstream.CodeInsufficientScope: 403,
		upstream.CodeAPIKeyRevoked: 403, upstream.CodeValidationError: 422, upstream.CodeOfferNotFound: 404, upstream.CodeOrderNotFound: 404,
		upstream.CodeProxyNotFound: 404, upstream.CodeInsufficientWallet: 402, upstream.CodeInvalidPageToken: 400, upstream.CodeRateLimited: 429,
		upstream.CodeUnsupportedOperation: 404, upstream.CodeProxyEndpointUnavailable: 503, upstream.CodeOperationFailed: 422,
	} {
		if !code.Known() {
			t.Errorf("%s is not in the document", code)
		}
		h.fault(fault{"fault": "code", "code": code})
		if r := c.Post(bg(), renewal("k", "px_1")); r.Code != code || r.HTTPStatus != status || !r.Envelope || r.Success || r.TraceID == "" {
			t.Errorf("%s: %+v", code, r)
		}
	}
	h.fault(fault{"fault": "code", "code": "brand_new", "http_status": 418, "message": "never seen"})
	if r := c.Post(bg(), renewal("k", "px_1")); r.Code != "brand_new" || r.HTTPStatus != 418 {
		t.Errorf("%+v", r)
	}
	if h.balance(c) != 500000 {
		t.Error("a code charged")
	}
}

// Each endpoint requires exactly its own scope.
func TestScopes(t *testing.T) {
	routes := map[string]string{"GET /api/v1/account": "account:read", "GET /api/v1/wallet": "wallet:read", "GET /api/v1/offers": "offers:read",
		"POST /api/v1/orders": "orders:write", "GET /api/v1/orders": "orders:read", "GET /api/v1/orders/ord_1": "orders:read",
		"GET /api/v1/proxies": "proxies:read", "GET /api/v1/proxies/px_1": "proxies:read", "POST /api/v1/proxies/renew": "proxies:write"}
	scopes := []string{"account:read", "wallet:read", "offers:read", "orders:read", "orders:write", "proxies:read", "proxies:write"}
	h := start(t, func(o *sandbox.Options) {
		o.Fixture = fixture()
		for _, s := range scopes {
			key := sandbox.FixtureKey{AppID: "sbx_app_" + strings.ReplaceAll(s, ":", "_"), Secret: secret, Scopes: []string{s}}
			o.Fixture.Accounts[0].Keys = append(o.Fixture.Accounts[0].Keys, key)
		}
	})
	for target, needed := range routes {
		for _, scope := range scopes {
			method, path, _ := strings.Cut(target, " ")
			q := raw{method: method, target: path, app: "sbx_app_" + strings.ReplaceAll(scope, ":", "_")}
			if got := h.send(q); (got.Code == "insufficient_scope" && got.status == http.StatusForbidden) != (scope != needed) {
				t.Errorf("%s with %s: %d %s", target, scope, got.status, got.Code)
			}
		}
	}
	other := raw{method: http.MethodDelete, target: "/api/v1/proxies/px_1", app: "sbx_app_reader"}
	h.wants("no route, few scopes", h.send(other), http.StatusNotFound, "unsupported_operation")
}

// Times are ISO 8601 with a zone, and amounts agree in cents and as text.
func TestTimesAndMoneyAsText(t *testing.T) {
	h := start(t, func(o *sandbox.Options) {
		o.Fixture = fixture()
		o.Fixture.Offers[0].UnitPriceCents = 1005
		o.Fixture.Offers[0].BaseDurationDays = 31
	})
	got := h.send(order(`{"duration_days":30,"offer_code":"off_us","quantity":3}`))
	const cents = (1005*3*30 + 30) / 31 // rounded up
	for _, want := range []string{fmt.Sprintf(`"total_cents":%d`, cents), fmt.Sprintf(`"total":"%d.%02d"`, cents/100, cents%100),
		fmt.Sprintf(`"subtotal_cents":%d`, cents), `"created_at":"2026-11-21T12:00:00Z"`, `"timestamp":"2026-11-21T12:00:00Z"`, `"expires_at":"2026-12-21T12:00:00Z"`} {
		if !strings.Contains(got.body, want) {
			t.Errorf("no %s in %s", want, got.body)
		}
	}
	if p := h.send(get("/api/v1/proxies/px_null")); !strings.Contains(p.body, `"expires_at":null`) {
		t.Errorf("%s", p.body)
	}
	if got := h.balance(h.client(alphaSandbox)); got != 500000-cents {
		t.Errorf("balance %d", got)
	}
}
