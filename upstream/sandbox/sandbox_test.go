package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perennial/ledger/testrun"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

func TestMain(m *testing.M) {
	if options := os.Getenv(childVariable); options != "" {
		beChild(options)
		return
	}
	// After a refusal, net/http gives the client half a second to read, in a goroutine that
	// nothing waits for.
	testrun.Main(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

const (
	alphaSandbox = "sbx_app_alpha"
	alphaLive    = "live_app_alpha"
	secret       = "alpha-test-secret"
)

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func fixture() sandbox.Fixture {
	offer := func(code, country, region string, stock int64) sandbox.FixtureOffer {
		return sandbox.FixtureOffer{OfferCode: code, Name: code, CountryCode: country, CountryName: country, Region: region,
			LineName: "premium", IPType: "isp", Protocol: "socks5", UnitPriceCents: 300, BaseDurationDays: 30,
			DurationDays: []int64{30, 60, 90}, MaxQuantity: 500, CIDRs: []string{"198.51.100.0/24", "203.0.113.0/24"}, Stock: stock}
	}
	key := func(id string) sandbox.FixtureKey { return sandbox.FixtureKey{AppID: id, Secret: secret} }
	return sandbox.Fixture{
		Accounts: []sandbox.FixtureAccount{
			{AccountID: "acc_alpha", Email: "alpha@example.com", Wallet: sandbox.FixtureWallet{Currency: "USD", SandboxCents: 500000, ProductionCents: 400000},
				Keys: []sandbox.FixtureKey{key(alphaSandbox), key(alphaLive),
					{AppID: "sbx_app_reader", Secret: secret, Scopes: []string{"offers:read"}},
					{AppID: "sbx_app_far", Secret: secret, AllowCIDRs: []string{"192.0.2.0/24"}},
					{AppID: "sbx_app_near", Secret: secret, AllowCIDRs: []string{"127.0.0.0/8"}},
					{AppID: "sbx_app_gone", Secret: secret, Revoked: true}}},
			{AccountID: "acc_beta", Wallet: sandbox.FixtureWallet{SandboxCents: 1000}, Keys: []sandbox.FixtureKey{key("sbx_app_beta")}},
		},
		Offers: []sandbox.FixtureOffer{offer("off_us", "US", "Dallas", 100000), offer("off_de", "DE", "Frankfurt am Main", 3)},
		Proxies: []sandbox.FixtureProxy{
			{ProxyID: "px_1", AccountID: "acc_alpha", Environment: "sandbox", OfferCode: "off_us", ExpiresIn: "48h"},
			{ProxyID: "px_null", AccountID: "acc_alpha", Environment: "sandbox", OfferCode: "off_us"},
			{ProxyID: "px_beta", AccountID: "acc_beta", Environment: "sandbox", OfferCode: "off_us", ExpiresIn: "48h"},
			{Count: 500, Prefix: "px_bulk_", AccountID: "acc_alpha", Environment: "sandbox", OfferCode: "off_us", ExpiresIn: "24h..240h"},
		},
	}
}

// rig is a running sandbox with its clock and a client for each key.
type rig struct {
	t     testing.TB
	s     *sandbox.Server
	clock *clock

	origin string // the Origin of controlRaw's requests
}

func start(t testing.TB, change func(*sandbox.Options)) *rig {
	t.Helper()
	h := &rig{t: t, clock: newClock()}
	o := sandbox.Options{Fixture: fixture(), Clock: h.clock.Now}
	if change != nil {
		change(&o)
	}
	var err error
	if h.s, err = sandbox.Start(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}

func (h *rig) client(appID string, change ...func(*upstream.Config)) *upstream.Client {
	h.t.Helper()
	cfg := upstream.Config{BaseURL: h.s.SandboxURL(), AppID: appID, Secret: secret, Clock: h.clock.Now}
	if appID == alphaLive {
		cfg.BaseURL = h.s.ProductionURL()
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := upstream.New(cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(c.Close)
	return c
}

// control sends a request to the control interface and decodes the reply.
func (h *rig) control(method, path string, in, out any) {
	h.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		h.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, h.s.ControlURL()+path, bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		h.t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, raw)
	}
	if out != nil {
		if err := json.Unmarshal(raw, out); err != nil {
			h.t.Fatalf("%s: %v", raw, err)
		}
	}
}

type fault map[string]any

func (h *rig) fault(f fault) { h.t.Helper(); h.control(http.MethodPost, "/faults", f, nil) }

func (h *rig) balance(c *upstream.Client) int64 {
	h.t.Helper()
	w, err := c.Wallet(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	return w.BalanceCents
}

// booksAgree checks that the referee's lines explain each wallet to the cent.
func (h *rig) booksAgree(opening int64, env string, balance int64) {
	h.t.Helper()
	charges, err := h.s.Charges()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, c := range charges {
		if c.AmountCents <= 0 {
			h.t.Errorf("line with amount %d", c.AmountCents)
		}
		if c.AccountID != "acc_alpha" || c.Environment != env {
			continue
		}
		if c.Kind == "charge" {
			opening -= c.AmountCents
		} else {
			opening += c.AmountCents
		}
	}
	if opening != balance {
		h.t.Errorf("the referee says %d, the wallet %d", opening, balance)
	}
}

func renewal(key string, ids ...string) upstream.Write {
	body, err := upstream.RenewBody(upstream.RenewRequest{ProxyIDs: ids, DurationDays: 30})
	if err != nil {
		panic(err)
	}
	return upstream.Write{Kind: upstream.WriteRenewal, Key: key, Body: body}
}

func purchase(key, scenario string, quantity int64) upstream.Write {
	body, err := upstream.OrderBody(upstream.OrderRequest{DurationDays: 30, Items: []upstream.OrderItem{{OfferCode: "off_us", Quantity: quantity}}})
	if err != nil {
		panic(err)
	}
	return upstream.Write{Kind: upstream.WriteOrder, Key: key, Body: body, Scenario: scenario}
}

func bg() context.Context { return context.Background() }

func tempFile(t testing.TB, name string) string { return filepath.Join(t.TempDir(), name) }
