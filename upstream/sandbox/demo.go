// The demonstration account, with its public secrets.

package sandbox

// The demonstration account of [DefaultFixture]. Its secrets are public: they
// open nothing but a local sandbox.
const (
	DemoAccountID        = "acc_sandbox"
	DemoSandboxAppID     = "sbx_app_demo"
	DemoSandboxSecret    = "demo-sandbox-secret-not-for-production"
	DemoProductionAppID  = "live_app_demo"
	DemoProductionSecret = "demo-production-secret-of-the-local-sandbox"
)

// DefaultFixture is used where nothing is configured: one account with 500000
// sandbox cents, offers in four countries and proxies that expire soon.
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
