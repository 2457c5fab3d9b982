package upstream

import (
	"context"
	"iter"
	"strconv"
	"time"
)

// Account describes the customer account that the API key belongs to (API: Account). The API
// document gives no field types. AccountID is the provider's text or number, as text.
type Account struct {
	AccountID, Email, Status string
	EmailVerified            bool
	CreatedAt                time.Time
	Received
}

// Account requests the account of the API key (API: GET /api/v1/account, scope account:read).
func (c *Client) Account(ctx context.Context) (Account, error) {
	return getOne(ctx, c, accountPath, "", func(o *object, e *Envelope) Account {
		o.need("account_id")
		a := Account{AccountID: o.text("account_id"), Email: o.described("email"), Status: o.described("status"), Received: e.received()}
		a.EmailVerified, _ = as[bool](o.raw("email_verified"))
		a.CreatedAt, _ = parseTime(o.described("created_at"))
		return a
	})
}

// Wallet is the account's wallet in the API key's environment (API: Wallet).
type Wallet struct {
	Environment  Environment
	Currency     string
	BalanceCents int64
	Balance      string // a decimal string in the currency's main unit
	FrozenCents  int64  // not interpreted (trap 24); 0 if absent
	CashValue    bool   // false in the sandbox
	Received
}

// Wallet requests the wallet (API: GET /api/v1/wallet, scope wallet:read). It returns an error
// if the reply lacks environment, currency, balance_cents or cash_value.
func (c *Client) Wallet(ctx context.Context) (Wallet, error) {
	return getOne(ctx, c, walletPath, "", func(o *object, e *Envelope) Wallet {
		o.need("environment", "currency", "balance_cents", "cash_value")
		return Wallet{Environment: Environment(o.str("environment")), Currency: o.str("currency"), BalanceCents: o.integer("balance_cents"),
			Balance: o.decimal("balance"), FrozenCents: o.integer("frozen_cents"), CashValue: o.boolean("cash_value"), Received: e.received()}
	})
}

// OfferFilter selects offers, and sets the quantity and the duration for the prices (API: GET
// /api/v1/offers). The client does not send zero values.
type OfferFilter struct {
	CountryCode, Region, Line, IPType string
	Quantity, DurationDays            int64
}

// Offer is a product, with a price for the quantity and the duration in the filter (API:
// Offer). An offer reserves nothing.
type Offer struct {
	OfferCode, Name, CountryCode, CountryName, Region, LineName, IPType, Protocol string
	UnitPriceCents                                                                *int64 // nil if absent
	UnitPrice                                                                     string // a decimal string in the currency's main unit
	BaseDurationDays                                                              int64
	DurationDays                                                                  []int64
	MaxQuantity                                                                   *int64
	CIDRs                                                                         []string // only the entries that are strings
}

func decodeOffer(o *object) Offer {
	out := Offer{
		OfferCode: o.id("offer_code"), Name: o.sanitized("name"), CountryCode: o.sanitized("country_code"), CountryName: o.sanitized("country_name"),
		Region: o.sanitized("region"), LineName: o.sanitized("line_name"), IPType: o.sanitized("ip_type"), Protocol: o.sanitized("protocol"),
		UnitPriceCents: o.optionalInt("unit_price_cents"), UnitPrice: o.decimal("unit_price"),
		BaseDurationDays: o.integer("base_duration_days"), MaxQuantity: o.optionalInt("max_quantity"), DurationDays: arrayOf[int64](o, "duration_days", "integers"),
	}
	cidrs, _ := as[[]value](o.raw("cidrs"))
	for _, raw := range cidrs { // the API document gives no type for the entries
		if cidr, ok := as[string](raw); ok {
			out.CIDRs = append(out.CIDRs, sanitizeName(cidr, 64))
		}
	}
	return out
}

func (f OfferFilter) pairs() []string {
	var out []string
	for _, p := range [...][2]string{{"country_code", f.CountryCode}, {"region", f.Region}, {"line", f.Line}, {"ip_type", f.IPType}} {
		if p[1] != "" {
			out = append(out, p[0]+"="+EscapeSegment(p[1]))
		}
	}
	if f.Quantity > 0 {
		out = append(out, "quantity="+strconv.FormatInt(f.Quantity, 10))
	}
	if f.DurationDays > 0 {
		out = append(out, "duration_days="+strconv.FormatInt(f.DurationDays, 10))
	}
	return out
}

// OffersPage requests one page of offers (API: GET /api/v1/offers, scope offers:read; page size
// at most 200).
func (c *Client) OffersPage(ctx context.Context, f OfferFilter, r PageRequest) (Page[Offer], error) {
	return getPage(ctx, c, list{path: offersPath, key: "offers", entry: "offer_code"}, f.pairs(), r, decodeOffer)
}

// Offers iterates over all matching offers. Every page has the same page size and filter (API:
// Pagination rules). After invalid_page_token, Offers restarts at the first page, at most three
// times. It does not repeat an offer. The first error ends the iteration. Offers omits
// unreadable entries and reports them at the end with one *UnusableError. The list is complete
// if the iteration ends without an error.
func (c *Client) Offers(ctx context.Context, f OfferFilter, pageSize int) iter.Seq2[Offer, error] {
	return walk(pageSize, func(r PageRequest) (Page[Offer], error) { return c.OffersPage(ctx, f, r) })
}
