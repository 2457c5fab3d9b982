// Pages of lists, and the offers.

package upstream

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Page is one page of a list (API: Page). Entries that cannot be read are in Unusable,
// and the others in Items.
type Page[T any] struct {
	Items         []T
	Unusable      []Unusable
	PageSize      int
	HasMore       bool
	NextPageToken string // opaque; passed back unchanged
	TraceID       string
	ServerTime    time.Time
}

// PageRequest asks for one page. Size 0 leaves the size to the provider; a size
// that the provider refuses is replaced by a smaller one, and in the end left out.
type PageRequest struct {
	Size  int
	Token string
}

// OfferFilter narrows and quotes offers (API: GET /api/v1/offers). Zero values
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
	CIDRs                                                                         []string // those that are text
}

func decodeOffer(o *object) Offer {
	if o.str("offer_code") == "" {
		o.fail("offer_code", "missing")
	}
	out := Offer{
		OfferCode: o.str("offer_code"), Name: o.loose("name"), CountryCode: o.loose("country_code"), CountryName: o.loose("country_name"),
		Region: o.loose("region"), LineName: o.loose("line_name"), IPType: o.loose("ip_type"), Protocol: o.loose("protocol"),
		UnitPriceCents: o.optionalInt("unit_price_cents"), UnitPrice: o.decimal("unit_price"),
		BaseDurationDays: o.integer("base_duration_days"), MaxQuantity: o.optionalInt("max_quantity"),
	}
	for _, raw := range o.array("duration_days") {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			o.fail("duration_days", "not an array of integers")
			return Offer{}
		}
		out.DurationDays = append(out.DurationDays, n)
	}
	if v := o.raw("cidrs"); len(v) > 0 && v[0] == '[' {
		for _, raw := range elements(v) { // their type is not given: what is text is shown
			if cidr, ok := unquote(raw); ok {
				out.CIDRs = append(out.CIDRs, nameOf(cidr, 64))
			}
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

// Offers goes through all offers that match, page by page with one size and one
// filter (API: Pagination rules). On invalid_page_token it starts again from the
// first page, at most three times; an item already seen is not given twice. The
// first error ends it; ending without one means that a complete pass was made. Entries
// that cannot be read are left out: *UnusableError comes after all others.
func (c *Client) Offers(ctx context.Context, f OfferFilter, pageSize int) iter.Seq2[Offer, error] {
	return walk(pageSize, func(r PageRequest) (Page[Offer], error) { return c.OffersPage(ctx, f, r) },
		func(o Offer) string { return o.OfferCode })
}

// list is one of the provider's lists: the key of its array where it is given, the
// member that names its entries, and those that they have beside it.
type list struct {
	path, key, entry string
	members          []string
	shown            bool // that the document shows what its entries have
}

func readPage[T any](ctx context.Context, c *Client, list list, pairs []string, r PageRequest, decode func(*object) T) (Page[T], error) {
	pairs = slices.Clone(pairs)
	if r.Size > 0 {
		pairs = append(pairs, "page_size="+strconv.Itoa(r.Size))
	}
	if r.Token != "" {
		pairs = append(pairs, "page_token="+EscapeSegment(r.Token))
	}
	e, err := c.get(ctx, list.path, CanonicalQuery(strings.Join(pairs, "&")))
	if err != nil {
		return Page[T]{}, err
	}
	page, err := decodePage(&c.keys, &e, list, decode)
	if err != nil {
		return Page[T]{}, malformed(http.MethodGet, list.path, &e, err)
	}
	return page, nil
}

func decodePage[T any](keys *listKeys, e *Envelope, list list, decode func(*object) T) (Page[T], error) {
	o, err := e.object()
	if err != nil {
		return Page[T]{}, err
	}
	listKey := list.key
	if listKey == "" {
		if listKey, err = keys.listOf(o, list); err != nil {
			return Page[T]{}, err
		}
	}
	o.need(listKey, "has_more")
	items, unusable := decodeEach(o, listKey, list.entry, decode)
	page := Page[T]{Items: items, Unusable: unusable, PageSize: int(o.integer("page_size")), HasMore: o.boolean("has_more"),
		NextPageToken: o.str("next_page_token"), TraceID: e.TraceID, ServerTime: e.Timestamp}
	if page.HasMore && page.NextPageToken == "" {
		o.fail("next_page_token", "missing though has_more is true")
	}
	if o.err != nil {
		return Page[T]{}, o.err
	}
	return page, nil
}

const (
	maxRestarts   = 3
	maxEmptyPages = 16
)

// ErrPageLoop is a list whose pages do not end: a token that was seen before, or many
// empty pages in a row.
var ErrPageLoop = errors.New("upstream: the pages of a list repeat")

// walk follows the pages of one list.
func walk[T any](size int, fetch func(PageRequest) (Page[T], error), id func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		seen, tokens := map[string]struct{}{}, map[string]struct{}{}
		token, restarts, empty := "", 0, 0
		unusable := &UnusableError{}
		for {
			page, err := fetch(PageRequest{Size: size, Token: token})
			if RestartsList(err) && token != "" && restarts < maxRestarts {
				restarts, token, unusable.Count = restarts+1, "", 0
				clear(tokens)
				continue
			}
			if err != nil {
				yield(zero, err)
				return
			}
			for _, item := range page.Items {
				if _, dup := seen[id(item)]; dup {
					continue
				}
				seen[id(item)] = struct{}{}
				if !yield(item, nil) {
					return
				}
			}
			unusable.add(page.Unusable)
			if !page.HasMore {
				if unusable.Count > 0 {
					yield(zero, unusable)
				}
				return
			}
			if empty++; len(page.Items)+len(page.Unusable) > 0 {
				empty = 0
			}
			if _, again := tokens[page.NextPageToken]; again || empty > maxEmptyPages {
				yield(zero, ErrPageLoop)
				return
			}
			tokens[page.NextPageToken] = struct{}{}
			token = page.NextPageToken
		}
	}
}
