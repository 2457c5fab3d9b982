package conformance_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perennial/upstream/conformance"
	"perennial/upstream/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock advances with the suite's waits, so that no test sleeps.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) wait(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return ctx.Err()
}

// world is a sandbox with real sockets and every kind of key.
type world struct {
	password string // the password that a defect leaks
	clock    *clock
	server   *sandbox.Server
}

const secret = "conformance-test-secret"

var scopes = []string{"account:read", "wallet:read", "offers:read", "orders:read", "orders:write", "proxies:read", "proxies:write"}

func newWorld(t testing.TB) *world { return worldOf(t, fixture()) }

func worldOf(t testing.TB, f sandbox.Fixture) *world {
	t.Helper()
	w := &world{clock: &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}}
	var err error
	w.server, err = sandbox.Start(context.Background(), sandbox.Options{Fixture: f, Clock: w.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.server.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return w
}

func fixture() sandbox.Fixture {
	f := sandbox.DefaultFixture()
	main, other := &f.Accounts[0], sandbox.FixtureAccount{AccountID: "acc_other", Wallet: sandbox.FixtureWallet{Currency: "USD"}}
	main.Wallet.ProductionCents = 500000
	for _, prefix := range []string{"sbx_app_", "live_app_"} {
		for _, s := range scopes {
			main.Keys = append(main.Keys, sandbox.FixtureKey{AppID: prefix + strings.ReplaceAll(s, ":", "_"), Secret: secret, Scopes: []string{s}})
		}
		main.Keys = append(main.Keys, sandbox.FixtureKey{AppID: prefix + "main", Secret: secret}, sandbox.FixtureKey{AppID: prefix + "second", Secret: secret},
			sandbox.FixtureKey{AppID: prefix + "gone", Secret: secret, Revoked: true},
			sandbox.FixtureKey{AppID: prefix + "far", Secret: secret, AllowCIDRs: []string{"192.0.2.0/24"}})
		other.Keys = append(other.Keys, sandbox.FixtureKey{AppID: prefix + "other", Secret: secret})
	}
	f.Accounts = append(f.Accounts, other)
	return f
}

// config sets every option. The host contains letters, so that the case of the signed host can
// be checked.
func (w *world) config(production bool) conformance.Config {
	prefix, base, otherBase := "sbx_app_", w.server.SandboxURL(), w.server.ProductionURL()
	if production {
		prefix, base, otherBase = "live_app_", otherBase, base
	}
	keys := []conformance.Key{
		{Role: conformance.RoleSame, AppID: prefix + "second", Secret: secret}, {Role: conformance.RoleOther, AppID: prefix + "other", Secret: secret},
		{Role: conformance.RoleRevoked, AppID: prefix + "gone", Secret: secret}, {Role: conformance.RoleOutside, AppID: prefix + "far", Secret: secret},
	}
	there := map[bool]string{true: "sbx_app_main", false: "live_app_main"}[production]
	keys = append(keys, conformance.Key{Role: conformance.RoleThere, AppID: there, Secret: secret})
	for _, s := range scopes {
		keys = append(keys, conformance.Key{Role: conformance.RoleScope, Scope: s, AppID: prefix + strings.ReplaceAll(s, ":", "_"), Secret: secret})
	}
	return conformance.Config{BaseURL: strings.Replace(base, "127.0.0.1", "localhost", 1), OtherBaseURL: otherBase, ControlURL: w.server.ControlURL(),
		AppID: prefix + "main", Secret: secret, Production: production, Keys: keys, CIDRField: "cidrs", Clock: w.clock.Now, Wait: w.clock.wait}
}

func run(t testing.TB, cfg conformance.Config) conformance.Report {
	t.Helper()
	report, err := conformance.Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// The sandbox conforms to every statement of the document.
func TestTheSandboxConforms(t *testing.T) {
	t.Parallel()
	report := run(t, newWorld(t).config(false))
	everythingObserved(t, report)
	if len(report.Results) < 250 || report.SpentCents <= 0 || report.SpentCents > report.MaxCents {
		t.Errorf("%d checks, %d of %d cents spent", len(report.Results), report.SpentCents, report.MaxCents)
	}
}

func TestTheProductionSideConforms(t *testing.T) {
	cfg := newWorld(t).config(true)
	most := int64(100000)
	cfg.MaxCents = &most
	report := run(t, cfg)
	everythingObserved(t, report)
	if report.SpentCents <= 0 || report.SpentCents > most {
		t.Errorf("%d cents spent", report.SpentCents)
	}
}

// The run buys the offer that allows more checks, even if another one is cheaper. The announced
// maximum holds even if prices depend on quantity and duration.
func TestTheOfferThatShowsMostIsBought(t *testing.T) {
	f := fixture()
	f.Offers[3].DurationDays, f.Offers[3].CIDRs = []int64{30}, nil // the cheapest
	f.Offers[0].QuantityPrices, f.Offers[0].DurationPrices = map[int64]int64{2: 100}, map[int64]int64{60: 90}
	report := run(t, worldOf(t, f).config(false))
	everythingObserved(t, report)
	if report.SpentCents > report.MaxCents {
		t.Errorf("%d cents spent, %d announced", report.SpentCents, report.MaxCents)
	}
	for _, id := range []string{"order.cidr.accepted", "limits.duration.60"} {
		i := slices.IndexFunc(report.Results, func(r conformance.Result) bool { return r.ID == id })
		if i >= 0 && report.Results[i].Verdict != conformance.OK {
			t.Errorf("%s: %s", id, report.Results[i].Seen)
		}
	}
}

func everythingObserved(t *testing.T, report conformance.Report) {
	t.Helper()
	for _, r := range report.Results {
		if r.Verdict != conformance.OK && r.Verdict != conformance.NotShown {
			t.Errorf("%s: %s: %s: %s", r.ID, r.Sentence, r.Verdict, r.Seen)
		}
	}
	t.Logf("%s: %d ok, %d not shown, %d requests, spent %d of %d cents", report.Environment, report.Count(conformance.OK),
		report.Count(conformance.NotShown), report.Requests, report.SpentCents, report.MaxCents)
}
