// The offer endpoints.

package upstream

import (
	"context"
	"iter"
	"strconv"
)

// OfferFilter selects offers and sets the quantity and duration to price (API: GET
// /api/v1/offers). Zero values are not sent.
type OfferFilter struct {
	CountryCode, Region, Line, IPType string
	Quantity, DurationDays            int64
}

// Offer is one product line, priced for the filter's quantity and duration (API: Offer).
// It reserves nothing.
type Offer struct {
	OfferCode, Name, CountryCode, CountryName, Region, LineName, IPType, Protocol string
	UnitPriceCents                                                                *int64 // cents; nil if absent
	UnitPrice                                                                     string // decimal string, main unit
	BaseDurationDays                                                              int64
	DurationDays                                                                  []int64
	MaxQuantity                                                                   *int64
	CIDRs                                                                         []string // only entries that are text
}

func decodeOffer(o *object) Offer {
	out := Offer{
		OfferCode: o.id("offer_code"), Name: o.loose("name"), CountryCode: o.loose("country_code"), CountryName: o.loose("country_name"),
		Region: o.loose("region"), LineName: o.loose("line_name"), IPType: o.loose("ip_type"), Protocol: o.loose("protocol"),
		UnitPriceCents: o.optionalInt("unit_price_cents"), UnitPrice: o.decimal("unit_price"),
		BaseDurationDays: o.integer("base_duration_days"), MaxQuantity: o.optionalInt("max_quantity"), DurationDays: arrayOf[int64](o, "duration_days", "integers"),
	}
	cidrs, _ := elements(o.raw("cidrs"))
	for _, raw := range cidrs { // the document gives no type: keep the text entries
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

// Offers iterates over all matching offers, with the same page size and filter for every
// page (API: Pagination rules). After invalid_page_token it restarts from the first page,
// at most three times, and skips items already returned. The first error ends the
// iteration. No error means that the list is complete. Unreadable entries are left out and
// reported at the end as one *UnusableError.
func (c *Client) Offers(ctx context.Context, f OfferFilter, pageSize int) iter.Seq2[Offer, error] {
	return walk(pageSize, func(r PageRequest) (Page[Offer], error) { return c.OffersPage(ctx, f, r) })
}
