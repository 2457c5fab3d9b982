// The offers.

package upstream

import (
	"context"
	"iter"
	"strconv"
)

// OfferFilter filters offers and sets the quote (API: GET /api/v1/offers). Zero values
// are not sent.
type OfferFilter struct {
	CountryCode, Region, Line, IPType string
	Quantity, DurationDays            int64
}

// Offer is one purchasable product line, priced for the filter's quantity and
// duration (API: Offer). It reserves nothing.
type Offer struct {
	OfferCode, Name, CountryCode, CountryName, Region, LineName, IPType, Protocol string
	UnitPriceCents                                                                *int64 // cents; nil when absent
	UnitPrice                                                                     string // decimal string, main unit
	BaseDurationDays                                                              int64
	DurationDays                                                                  []int64
	MaxQuantity                                                                   *int64
	CIDRs                                                                         []string // the entries that are text
}

func decodeOffer(o *object) Offer {
	out := Offer{
		OfferCode: o.id("offer_code"), Name: o.loose("name"), CountryCode: o.loose("country_code"), CountryName: o.loose("country_name"),
		Region: o.loose("region"), LineName: o.loose("line_name"), IPType: o.loose("ip_type"), Protocol: o.loose("protocol"),
		UnitPriceCents: o.optionalInt("unit_price_cents"), UnitPrice: o.decimal("unit_price"),
		BaseDurationDays: o.integer("base_duration_days"), MaxQuantity: o.optionalInt("max_quantity"), DurationDays: arrayOf[int64](o, "duration_days", "integers"),
	}
	cidrs, _ := as[[]value](o.raw("cidrs"))
	for _, raw := range cidrs { // their type is not given: only text is shown
		if cidr, ok := as[string](raw); ok {
			out.CIDRs = append(out.CIDRs, nameOf(cidr, 64))
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

// OffersPage reads one page of offers (API: GET /api/v1/offers, scope
// offers:read; page size at most 200).
func (c *Client) OffersPage(ctx context.Context, f OfferFilter, r PageRequest) (Page[Offer], error) {
	return getPage(ctx, c, list{path: offersPath, key: "offers", entry: "offer_code"}, f.pairs(), r, decodeOffer)
}

// Offers iterates over all matching offers, page by page with one size and filter (API:
// Pagination rules). On invalid_page_token it restarts from the first page, at most
// three times, without repeating items. The first error ends it; an end without error
// means a complete pass. Unreadable entries are left out; *UnusableError comes after all
// others.
func (c *Client) Offers(ctx context.Context, f OfferFilter, pageSize int) iter.Seq2[Offer, error] {
	return walk(pageSize, func(r PageRequest) (Page[Offer], error) { return c.OffersPage(ctx, f, r) })
}
