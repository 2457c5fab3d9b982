package sandbox_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"perennial/upstream"
)

func TestAccountAndWallet(t *testing.T) {
	h := start(t, nil)
	c, live := h.client(alphaSandbox), h.client(alphaLive)
	a, err := c.Account(bg())
	if err != nil || a.AccountID != "acc_alpha" || a.Email != "alpha@example.com" {
		t.Fatalf("%+v %v", a, err)
	}
	w, err := c.Wallet(bg())
	if err != nil || w.BalanceCents != 500000 || w.Balance != "5000.00" || w.Environment != upstream.Sandbox || w.CashValue {
		t.Fatalf("%+v %v", w, err)
	}
	w, err = live.Wallet(bg())
	if err != nil || w.BalanceCents != 400000 || w.Environment != upstream.Production || !w.CashValue {
		t.Fatalf("%+v %v", w, err)
	}
	if !w.ServerTime.Equal(h.clock.Now()) {
		t.Errorf("timestamp %v", w.ServerTime)
	}
}

func TestOffersFilterAndPage(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	var codes []string
	for o, err := range c.Offers(bg(), upstream.OfferFilter{}, 1) {
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, o.OfferCode)
	}
	if strings.Join(codes, ",") != "off_us,off_de" {
		t.Fatalf("offers %v", codes)
	}
	p, err := c.OffersPage(bg(), upstream.OfferFilter{Region: "Frankfurt am Main", Quantity: 3, DurationDays: 60}, upstream.PageRequest{})
	if err != nil || len(p.Items) != 1 || *p.Items[0].UnitPriceCents != 300 {
		t.Fatalf("%+v %v", p, err)
	}
	if p, err = c.OffersPage(bg(), upstream.OfferFilter{CountryCode: "DE", Quantity: 4}, upstream.PageRequest{}); err != nil || len(p.Items) != 0 {
		t.Fatalf("more than in stock: %+v %v", p, err)
	}
	h.wantsField("a page of 201", h.send(get("/api/v1/offers?page_size=201")), "page_size")
}

func TestTrap31PageTokensAreBound(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	page, err := c.ProxiesPage(bg(), upstream.PageRequest{Size: 10})
	if err != nil || len(page.Items) != 10 || !page.HasMore {
		t.Fatalf("%+v %v", page, err)
	}
	refused := map[string]func() error{
		"other size": func() error {
			_, err := c.ProxiesPage(bg(), upstream.PageRequest{Size: 11, Token: page.NextPageToken})
			return err
		},
		"other resource": func() error {
			_, err := c.OrdersPage(bg(), upstream.PageRequest{Size: 10, Token: page.NextPageToken})
			return err
		},
		"other account": func() error {
			_, err := h.client("sbx_app_beta").ProxiesPage(bg(), upstream.PageRequest{Size: 10, Token: page.NextPageToken})
			return err
		},
		"altered": func() error {
			_, err := c.ProxiesPage(bg(), upstream.PageRequest{Size: 10, Token: page.NextPageToken + "A"})
			return err
		},
		"expired": func() error {
			h.clock.Advance(16 * time.Minute)
			_, err := c.ProxiesPage(bg(), upstream.PageRequest{Size: 10, Token: page.NextPageToken})
			return err
		},
	}
	for _, name := range []string{"other size", "other resource", "other account", "altered", "expired"} {
		if err := refused[name](); !errors.Is(err, upstream.CodeInvalidPageToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	seen := map[string]bool{}
	for p, err := range c.Proxies(bg(), 200) {
		if err != nil {
			t.Fatal(err)
		}
		seen[p.ProxyID] = true
	}
	if len(seen) != 502 {
		t.Errorf("%d proxies", len(seen))
	}
}

func TestProxies(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	p, err := c.Proxy(bg(), "px_1")
	if err != nil || p.ExpiresAt == nil || !p.ExpiresAt.Equal(h.clock.Now().Add(48*time.Hour)) {
		t.Fatalf("%+v %v", p, err)
	}
	if p, err = c.Proxy(bg(), "px_null"); err != nil || p.ExpiresAt != nil {
		t.Fatalf("%+v %v", p, err)
	}
	for _, id := range []string{"px_beta", "px_none", "a/b c%"} {
		if _, err := c.Proxy(bg(), id); !errors.Is(err, upstream.CodeProxyNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	cred, err := c.Reveal(bg(), "px_1")
	if err != nil || cred.Password() == "" || !strings.Contains(cred.SOCKS5URI(), cred.Password()) {
		t.Fatalf("%v %v", cred, err)
	}
}

func TestAuthentication(t *testing.T) {
	h := start(t, nil)
	cases := map[string]struct {
		client *upstream.Client
		want   upstream.Code
	}{
		"wrong secret": {h.client(alphaSandbox, func(c *upstream.Config) { c.Secret = "other" }), upstream.CodeInvalidSignature},
		"unknown app":  {h.client("sbx_app_nobody"), upstream.CodeInvalidSignature},
		"other environment": {h.client(alphaSandbox, func(c *upstream.Config) { c.BaseURL = h.s.ProductionURL() }),
			upstream.CodeInvalidSignature},
		"stale":   {h.client(alphaSandbox, func(c *upstream.Config) { c.Clock = func() time.Time { return h.clock.Now().Add(-301 * time.Second) } }), upstream.CodeStaleTimestamp},
		"early":   {h.client(alphaSandbox, func(c *upstream.Config) { c.Clock = func() time.Time { return h.clock.Now().Add(301 * time.Second) } }), upstream.CodeStaleTimestamp},
		"scope":   {h.client("sbx_app_reader"), upstream.CodeInsufficientScope},
		"source":  {h.client("sbx_app_far"), upstream.CodeInsufficientScope},
		"revoked": {h.client("sbx_app_gone"), upstream.CodeAPIKeyRevoked},
	}
	for name, c := range cases {
		if _, err := c.client.Wallet(bg()); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]*upstream.Client{"near": h.client("sbx_app_near"),
		"signed with port": h.client(alphaSandbox, func(c *upstream.Config) { c.SignPort = true })} {
		if _, err := c.Wallet(bg()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNonceIsBurntOnlyByAGoodSignature(t *testing.T) {
	h := start(t, nil)
	nonce := func(c *upstream.Config) { c.Nonce = func() string { return "fixed" } }
	bad := h.client(alphaSandbox, nonce, func(c *upstream.Config) { c.Secret = "other" })
	if _, err := bad.Wallet(bg()); !errors.Is(err, upstream.CodeInvalidSignature) {
		t.Fatal(err)
	}
	good := h.client(alphaSandbox, nonce)
	if _, err := good.Wallet(bg()); err != nil {
		t.Fatal(err)
	}
	if _, err := good.Wallet(bg()); !errors.Is(err, upstream.CodeReplayedNonce) {
		t.Fatal(err)
	}
	if _, err := h.client("sbx_app_near", nonce).Wallet(bg()); err != nil {
		t.Fatalf("nonces are per key: %v", err)
	}
}

func TestKeysAndClockCanBeMoved(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	h.control(http.MethodPost, "/keys", map[string]any{"app_id": alphaSandbox, "revoked": true}, nil)
	if _, err := c.Wallet(bg()); !errors.Is(err, upstream.CodeAPIKeyRevoked) {
		t.Fatal(err)
	}
	h.control(http.MethodPost, "/keys", map[string]any{"app_id": alphaSandbox, "revoked": false}, nil)
	h.control(http.MethodPost, "/clock", map[string]any{"offset_seconds": 600}, nil)
	if _, err := c.Wallet(bg()); !errors.Is(err, upstream.CodeStaleTimestamp) {
		t.Fatal(err)
	}
	h.control(http.MethodPost, "/clock", map[string]any{"offset_seconds": 0}, nil)
	h.control(http.MethodPost, "/wallet", map[string]any{"account_id": "acc_alpha", "environment": "sandbox", "add_cents": -500000}, nil)
	if got := h.balance(c); got != 0 {
		t.Fatalf("balance %d", got)
	}
	if r := c.Post(bg(), renewal("k", "px_1")); r.Code != upstream.CodeInsufficientWallet || r.HTTPStatus != 402 {
		t.Fatalf("%+v", r)
	}
}

func TestOrdersRefuseWhatTheLimitsRefuse(t *testing.T) {
	h := start(t, nil)
	c := h.client(alphaSandbox)
	line := `{"offer_code":"off_us","quantity":1}`
	cases := map[string]struct {
		body string
		code upstream.Code
	}{
		"not json":        {`{`, upstream.CodeValidationError},
		"deep":            {strings.Repeat("[", 20000), upstream.CodeValidationError},
		"duration":        {`{"duration_days":31,"items":[` + line + `]}`, upstream.CodeValidationError},
		"unsupported":     {`{"duration_days":120,"items":[` + line + `]}`, upstream.CodeValidationError},
		"51 lines":        {`{"duration_days":30,"items":[` + strings.TrimSuffix(strings.Repeat(line+",", 51), ",") + `]}`, upstream.CodeValidationError},
		"over 2000":       {`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1500},{"offer_code":"off_us","quantity":501}]}`, upstream.CodeValidationError},
		"legacy and new":  {`{"duration_days":30,"offer_code":"off_us","quantity":1,"items":[` + line + `]}`, upstream.CodeValidationError},
		"unknown offer":   {`{"duration_days":30,"items":[{"offer_code":"off_xx","quantity":1}]}`, upstream.CodeOfferNotFound},
		"out of stock":    {`{"duration_days":30,"items":[{"offer_code":"off_de","quantity":4}]}`, upstream.CodeOfferNotFound},
		"same cidr twice": {`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1,"cidrs":["198.51.100.0/24","198.51.100.0/24"]}]}`, upstream.CodeValidationError},
		"mixed": {`{"duration_days":30,"items":[` + line + `,{"offer_code":"off_us","quantity":1,"cidrs":["198.51.100.0/24"]}]}`,
			upstream.CodeValidationError},
	}
	for name, tc := range cases {
		r := c.Post(bg(), upstream.Write{Kind: upstream.WriteOrder, Key: "k-" + name, Body: []byte(tc.body)})
		if r.Code != tc.code {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if h.balance(c) != 500000 {
		t.Error("a refusal charged")
	}
	legacy := upstream.Write{Kind: upstream.WriteOrder, Key: "legacy", Body: []byte(`{"duration_days":60,"offer_code":"off_us","quantity":2}`)}
	if r := c.Post(bg(), legacy); r.HTTPStatus != 201 || r.Order == nil || h.balance(c) != 500000-1200 {
		t.Errorf("legacy: %+v", r)
	}
}

func TestFieldErrorsNameTheField(t *testing.T) {
	h := start(t, nil)
	_, err := h.client(alphaSandbox).OffersPage(bg(), upstream.OfferFilter{}, upstream.PageRequest{Size: 999, Token: "of another size"})
	var e *upstream.Error
	if !errors.As(err, &e) || !strings.Contains(string(e.FieldErrors), `"page_size"`) || e.TraceID == "" {
		t.Fatalf("%v", err)
	}
}

func TestEverythingElseIsAnEnvelope(t *testing.T) {
	h := start(t, nil)
	req, _ := http.NewRequest(http.MethodPut, h.s.SandboxURL()+"/api/v1/proxies/px_1/password", strings.NewReader("{}"))
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%d", resp.StatusCode)
	}
}

func TestScenarios(t *testing.T) {
	for _, scenario := range []string{"", "success", "delayed", "partial", "rejected"} {
		t.Run("scenario "+scenario, func(t *testing.T) {
			h := start(t, nil)
			c := h.client(alphaSandbox)
			r := c.Post(bg(), purchase("k", scenario, 4))
			if r.HTTPStatus != 201 || r.Order == nil {
				t.Fatalf("%+v", r)
			}
			var seen []string
			for range 5 {
				o, err := c.Order(bg(), r.Order.OrderNo)
				if err != nil {
					t.Fatal(err)
				}
				seen = append(seen, o.Status)
				if !o.Delivery.Present || o.Delivery.ExpectedCount != 4 || o.Delivery.Available != (len(o.Proxies) == 4) {
					t.Fatalf("%+v", o)
				}
				if scenario == "partial" && o.Status == "procuring" && o.Delivery.DeliveredCount != 2 {
					t.Errorf("partial delivered %d", o.Delivery.DeliveredCount)
				}
				if o.PollAfterSeconds == nil {
					checkEnd(t, h, scenario, o)
					break
				}
				h.clock.Advance(700 * time.Millisecond)
			}
			if scenario != "" && len(seen) < 3 {
				t.Errorf("states %v", seen)
			}
			h.booksAgree(500000, "sandbox", h.balance(c))
		})
	}
}

func checkEnd(t *testing.T, h *rig, scenario string, o upstream.Order) {
	t.Helper()
	balance := h.balance(h.client(alphaSandbox))
	if scenario == "rejected" {
		if o.Refund == nil || *o.Refund.AmountCents != 1200 || o.Refund.RefundedAt == nil || o.Refund.Destination == "" || balance != 500000 {
			t.Errorf("%+v, balance %d", o, balance)
		}
		return
	}
	if !o.Delivery.Complete || len(o.Proxies) != 4 || o.Refund != nil || balance != 500000-1200 {
		t.Errorf("%+v, balance %d", o, balance)
	}
}

func TestTrap42ProductionRefusesTheScenarioHeader(t *testing.T) {
	h := start(t, nil)
	live := h.client(alphaLive)
	if r := live.Post(bg(), purchase("k", "success", 1)); r.Sent {
		t.Errorf("the client sent it: %+v", r)
	}
	r := live.Post(bg(), purchase("k", "", 1))
	if r.Order == nil || r.Order.PollAfterSeconds == nil {
		t.Fatalf("%+v", r)
	}
	if h.balance(live) != 400000-300 || h.balance(h.client(alphaSandbox)) != 500000 {
		t.Error("environments share a wallet")
	}
	if _, err := h.client(alphaSandbox).Order(bg(), r.Order.OrderNo); !errors.Is(err, upstream.CodeOrderNotFound) {
		t.Error(err)
	}
	orders := 0
	for range live.Orders(bg(), 1) {
		orders++
	}
	if orders != 1 {
		t.Errorf("%d orders", orders)
	}
}
