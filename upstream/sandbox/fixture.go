package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"perennial/ledger/files"
)

// Fixture is the initial state of a sandbox.
type Fixture struct {
	Accounts []FixtureAccount `yaml:"accounts" json:"accounts"`
	Offers   []FixtureOffer   `yaml:"offers" json:"offers"`
	Proxies  []FixtureProxy   `yaml:"proxies" json:"proxies"`
}

// FixtureAccount is one account with its keys for both environments.
type FixtureAccount struct {
	AccountID string        `yaml:"account_id" json:"account_id"`
	Email     string        `yaml:"email" json:"email"`
	Status    string        `yaml:"status" json:"status,omitempty"` // default: active
	Wallet    FixtureWallet `yaml:"wallet" json:"wallet"`
	Keys      []FixtureKey  `yaml:"keys" json:"keys"`

	Prices map[string]int64 `yaml:"prices" json:"prices,omitempty"` // the account's own unit prices in cents, by offer_code
}

// FixtureWallet is the initial balance in each environment, in cents.
type FixtureWallet struct {
	Currency        string `yaml:"currency" json:"currency"`
	SandboxCents    int64  `yaml:"sandbox_cents" json:"sandbox_cents"`
	ProductionCents int64  `yaml:"production_cents" json:"production_cents"`

	// The part of the balance that cannot be spent.
	SandboxFrozenCents    int64 `yaml:"sandbox_frozen_cents" json:"sandbox_frozen_cents,omitempty"`
	ProductionFrozenCents int64 `yaml:"production_frozen_cents" json:"production_frozen_cents,omitempty"`
}

// FixtureKey is one API key. The prefix of the App ID determines the environment. A key without
// scopes has all scopes. A key without CIDRs accepts every source address.
type FixtureKey struct {
	AppID      string   `yaml:"app_id" json:"app_id"`
	Secret     string   `yaml:"secret" json:"secret"`
	Scopes     []string `yaml:"scopes" json:"scopes,omitempty"`
	AllowCIDRs []string `yaml:"allow_cidrs" json:"allow_cidrs,omitempty"`
	Revoked    bool     `yaml:"revoked" json:"revoked,omitempty"`
}

// FixtureOffer is an offer in both environments. Each environment has its own stock.
type FixtureOffer struct {
	OfferCode        string   `yaml:"offer_code" json:"offer_code"`
	Name             string   `yaml:"name" json:"name"`
	CountryCode      string   `yaml:"country_code" json:"country_code"`
	CountryName      string   `yaml:"country_name" json:"country_name"`
	Region           string   `yaml:"region" json:"region"`
	LineName         string   `yaml:"line_name" json:"line_name"`
	IPType           string   `yaml:"ip_type" json:"ip_type"`
	Protocol         string   `yaml:"protocol" json:"protocol"`
	UnitPriceCents   int64    `yaml:"unit_price_cents" json:"unit_price_cents"`
	BaseDurationDays int64    `yaml:"base_duration_days" json:"base_duration_days"`
	DurationDays     []int64  `yaml:"duration_days" json:"duration_days"`
	MaxQuantity      int64    `yaml:"max_quantity" json:"max_quantity"`
	CIDRs            []string `yaml:"cidrs" json:"cidrs"`
	Stock            int64    `yaml:"stock" json:"stock"`

	// Unit prices for the base duration. QuantityPrices are by minimum quantity, and replace
	// UnitPriceCents. DurationPrices are by duration. A lower duration price replaces both
	// others.
	QuantityPrices map[int64]int64 `yaml:"quantity_prices" json:"quantity_prices,omitempty"`
	DurationPrices map[int64]int64 `yaml:"duration_prices" json:"duration_prices,omitempty"`
}

// FixtureProxy is one delivered proxy (ProxyID), or Count proxies with the ids Prefix1, Prefix2
// and so on. ExpiresIn is the time from the first start of the sandbox to the expiry. A range
// such as "24h..240h" spreads the expiries evenly. A proxy with an empty ExpiresIn has no
// expiry.
type FixtureProxy struct {
	ProxyID     string `yaml:"proxy_id" json:"proxy_id,omitempty"`
	Count       int    `yaml:"count" json:"count,omitempty"`
	Prefix      string `yaml:"prefix" json:"prefix,omitempty"`
	AccountID   string `yaml:"account_id" json:"account_id"`
	Environment string `yaml:"environment" json:"environment"`
	OfferCode   string `yaml:"offer_code" json:"offer_code"`
	ExpiresIn   string `yaml:"expires_in" json:"expires_in,omitempty"`
}

// maxFixture is enough for several hundred thousand single proxies, in bytes.
const maxFixture = 256 << 20

// LoadFixture reads and checks a YAML or JSON file. An unknown key is an error with its line.
func LoadFixture(path string) (Fixture, error) {
	raw, err := files.Read(path, maxFixture)
	if err != nil {
		return Fixture{}, fmt.Errorf("fixture: %w", err)
	}
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		raw = bytes.ReplaceAll(raw, []byte("\t"), []byte(" ")) // JSON allows tabs as indentation, but YAML does not
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	var f Fixture
	if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return Fixture{}, fmt.Errorf("fixture %s: %w", path, err)
	}
	if err := f.Validate(); err != nil {
		return Fixture{}, fmt.Errorf("fixture %s: %w", path, err)
	}
	return f, nil
}

// Validate returns an error that describes the first invalid entry.
func (f Fixture) Validate() error {
	accounts, keys, offers := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, o := range f.Offers {
		if err := o.validate(offers); err != nil {
			return fmt.Errorf("offers[%d]: %w", i, err)
		}
	}
	for i, a := range f.Accounts {
		if err := a.validate(accounts); err != nil {
			return fmt.Errorf("accounts[%d]: %w", i, err)
		}
		for j, k := range a.Keys {
			if err := k.validate(keys); err != nil {
				return fmt.Errorf("accounts[%d].keys[%d]: %w", i, j, err)
			}
		}
		for code, cents := range a.Prices {
			if !offers[code] || cents <= 0 || cents > maxUnitPriceCents {
				return fmt.Errorf("accounts[%d].prices: %q is no offer_code, or its price is not 1 to %d", i, code, int64(maxUnitPriceCents))
			}
		}
	}
	for i, p := range f.Proxies {
		if err := p.validate(accounts, offers); err != nil {
			return fmt.Errorf("proxies[%d]: %w", i, err)
		}
	}
	return nil
}

func (a FixtureAccount) validate(seen map[string]bool) error {
	w := a.Wallet
	switch {
	case a.AccountID == "" || seen[a.AccountID]:
		return errors.New("account_id is empty or appears twice")
	case strings.Contains(a.AccountID, "/"):
		return fmt.Errorf("account_id %q contains a slash", a.AccountID)
	case min(w.SandboxCents, w.ProductionCents) < 0 || max(w.SandboxCents, w.ProductionCents) > maxWalletCents:
		return fmt.Errorf("wallet must hold 0 to %d cents", int64(maxWalletCents))
	case a.Status != "" && !printable(a.Status, maxHeaderText):
		return errors.New("status must be printable ASCII")
	case min(w.SandboxFrozenCents, w.ProductionFrozenCents) < 0 || w.SandboxFrozenCents > w.SandboxCents || w.ProductionFrozenCents > w.ProductionCents:
		return errors.New("wallet must not have more frozen than it holds")
	}
	seen[a.AccountID] = true
	return nil
}

func (k FixtureKey) validate(seen map[string]bool) error {
	switch {
	case seen[k.AppID]:
		return errors.New("app_id appears twice")
	case environmentOf(k.AppID) == "":
		return errors.New("app_id must begin with live_app_ or sbx_app_")
	case k.Secret == "":
		return errors.New("secret is empty")
	}
	seen[k.AppID] = true
	for _, scope := range k.Scopes {
		if !slices.ContainsFunc(routes, func(rt route) bool { return rt.scope == scope }) {
			return fmt.Errorf("scope %q is unknown", scope)
		}
	}
	for _, c := range k.AllowCIDRs {
		if _, err := netip.ParsePrefix(c); err != nil {
			return fmt.Errorf("allow_cidrs: %w", err)
		}
	}
	return nil
}

func (o FixtureOffer) validate(seen map[string]bool) error {
	switch {
	case o.OfferCode == "" || seen[o.OfferCode]:
		return errors.New("offer_code is empty or appears twice")
	case o.UnitPriceCents <= 0 || o.UnitPriceCents > maxUnitPriceCents:
		return fmt.Errorf("unit_price_cents must be 1 to %d", int64(maxUnitPriceCents))
	case o.BaseDurationDays <= 0 || len(o.DurationDays) == 0:
		return errors.New("base_duration_days and duration_days are required")
	case o.BaseDurationDays > maxOfferDays || slices.Min(o.DurationDays) <= 0 || slices.Max(o.DurationDays) > maxOfferDays:
		return fmt.Errorf("durations must be 1 to %d days", maxOfferDays)
	case o.Stock < 0 || o.MaxQuantity < 0:
		return errors.New("stock or max_quantity is negative")
	}
	seen[o.OfferCode] = true
	return o.validatePrices()
}

func (o FixtureOffer) validatePrices() error {
	for name, prices := range map[string]map[int64]int64{"quantity_prices": o.QuantityPrices, "duration_prices": o.DurationPrices} {
		for at, cents := range prices {
			if at <= 0 || cents <= 0 || cents > maxUnitPriceCents {
				return fmt.Errorf("%s: %d for %d cannot be: quantities, days and cents are over 0, and a price is at most %d", name, cents, at, int64(maxUnitPriceCents))
			}
		}
	}
	return nil
}

// Limits for 64-bit arithmetic: price × 2000 × days must fit, and so must a wallet with its
// refunds.
const (
	maxUnitPriceCents = 1_000_000_000_000
	maxOfferDays      = 3650
	maxWalletCents    = 1_000_000_000_000_000_000
)

func (p FixtureProxy) validate(accounts, offers map[string]bool) error {
	switch {
	case (p.ProxyID == "") == (p.Count == 0):
		return errors.New("needs either proxy_id or count")
	case p.Count < 0 || p.Count > 0 && p.Prefix == "":
		return errors.New("count must be positive and needs a prefix")
	case !accounts[p.AccountID]:
		return fmt.Errorf("account_id %q is unknown", p.AccountID)
	case !offers[p.OfferCode]:
		return fmt.Errorf("offer_code %q is unknown", p.OfferCode)
	case p.Environment != envSandbox && p.Environment != envProduction:
		return errors.New("environment must be sandbox or production")
	}
	_, _, _, err := p.expiry()
	return err
}

// expiry parses ExpiresIn. known is false if the proxy has no expiry.
func (p FixtureProxy) expiry() (from, to time.Duration, known bool, err error) {
	if p.ExpiresIn == "" {
		return 0, 0, false, nil
	}
	first, last, isRange := strings.Cut(p.ExpiresIn, "..")
	if from, err = time.ParseDuration(first); err != nil {
		return 0, 0, false, fmt.Errorf("expires_in: %w", err)
	}
	if to = from; isRange {
		if to, err = time.ParseDuration(last); err != nil {
			return 0, 0, false, fmt.Errorf("expires_in: %w", err)
		}
	}
	return from, to, true, nil
}

// The demonstration account in [DefaultFixture]. The secrets may be public, because they are
// valid only for a local sandbox.
const (
	DemoAccountID        = "acc_sandbox"
	DemoSandboxAppID     = "sbx_app_demo"
	DemoSandboxSecret    = "demo-sandbox-secret-not-for-production"
	DemoProductionAppID  = "live_app_demo"
	DemoProductionSecret = "demo-production-secret-of-the-local-sandbox"
)

// DefaultFixture returns the fixture of a sandbox without configuration. It has one account
// with 500000 cents in the sandbox, offers in four countries, and proxies that expire soon.
func DefaultFixture() Fixture {
	return Fixture{
		Accounts: []FixtureAccount{{
			AccountID: DemoAccountID, Email: "demo@example.com",
			Wallet: FixtureWallet{Currency: "USD", SandboxCents: 500000},
			Keys: []FixtureKey{
				{AppID: DemoSandboxAppID, Secret: DemoSandboxSecret},
				{AppID: DemoProductionAppID, Secret: DemoProductionSecret},
			},
		}},
		Offers: []FixtureOffer{
			demoOffer("off_us_dallas", "US", "United States", "Dallas", "isp", 300, "198.51.100.0/25"),
			demoOffer("off_de_frankfurt", "DE", "Germany", "Frankfurt", "isp", 350, "203.0.113.0/25"),
			demoOffer("off_jp_tokyo", "JP", "Japan", "Tokyo", "residential", 420, "192.0.2.0/25"),
			demoOffer("off_br_saopaulo", "BR", "Brazil", "São Paulo", "datacenter", 180, "192.0.2.128/25"),
		},
		Proxies: []FixtureProxy{
			{Count: 4, Prefix: "px_us_", AccountID: DemoAccountID, Environment: envSandbox, OfferCode: "off_us_dallas", ExpiresIn: "6h..60h"},
			{Count: 3, Prefix: "px_de_", AccountID: DemoAccountID, Environment: envSandbox, OfferCode: "off_de_frankfurt", ExpiresIn: "30h..50h"},
			{Count: 3, Prefix: "px_jp_", AccountID: DemoAccountID, Environment: envSandbox, OfferCode: "off_jp_tokyo", ExpiresIn: "240h..720h"},
		},
	}
}

func demoOffer(code, country, name, region, ipType string, cents int64, cidr string) FixtureOffer {
	return FixtureOffer{
		OfferCode: code, Name: name + " static " + ipType, CountryCode: country, CountryName: name, Region: region,
		LineName: "premium", IPType: ipType, Protocol: "socks5", UnitPriceCents: cents, BaseDurationDays: 30,
		DurationDays: []int64{30, 60, 90, 180, 360}, MaxQuantity: 500, CIDRs: []string{cidr}, Stock: 10000,
	}
}
