// Pages of lists, and the offers.

package upstream

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
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
	out := Offer{
		OfferCode: o.id("offer_code"), Name: o.loose("name"), CountryCode: o.loose("country_code"), CountryName: o.loose("country_name"),
		Region: o.loose("region"), LineName: o.loose("line_name"), IPType: o.loose("ip_type"), Protocol: o.loose("protocol"),
		UnitPriceCents: o.optionalInt("unit_price_cents"), UnitPrice: o.decimal("unit_price"),
		BaseDurationDays: o.integer("base_duration_days"), MaxQuantity: o.optionalInt("max_quantity"), DurationDays: arrayOf[int64](o, "duration_days", "integers"),
	}
	cidrs, _ := as[[]value](o.raw("cidrs"))
	for _, raw := range cidrs { // their type is not given: what is text is shown
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

// Offers goes through all offers that match, page by page with one size and one
// filter (API: Pagination rules). On invalid_page_token it starts again from the
// first page, at most three times; an item already seen is not given twice. The
// first error ends it; ending without one means that a complete pass was made. Entries
// that cannot be read are left out: *UnusableError comes after all others.
func (c *Client) Offers(ctx context.Context, f OfferFilter, pageSize int) iter.Seq2[Offer, error] {
	return walk(pageSize, func(r PageRequest) (Page[Offer], error) { return c.OffersPage(ctx, f, r) })
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
	maxRestarts    = 3  // of a walk through a list, each from its first page
	maxBarrenPages = 16 // in a row: pages without a new id
)

// ErrPageLoop is a list whose pages do not end: they bring no new id, whatever their tokens.
var ErrPageLoop = errors.New("upstream: the pages of a list repeat")

// Entry is what the provider lists.
type Entry interface {
	Offer | OrderSummary | Proxy
	id() string
}

func (o Offer) id() string        { return o.OfferCode }
func (o OrderSummary) id() string { return o.OrderNo }
func (p Proxy) id() string        { return p.ProxyID }

// Pages is a walk through one list: the request for its next page, and what tells a list
// that grows from one that repeats. Progress is new ids, not new tokens. An id is kept as
// a hash of 64 bits, since a list may have a million of them.
type Pages[T Entry] struct {
	PageRequest

	seen                          map[uint64]struct{}
	fresh, read, barren, restarts int
}

var idSeed = maphash.MakeSeed()

// note reports whether an id is new to this walk.
func (p *Pages[T]) note(id string) bool {
	if p.seen == nil {
		p.seen = map[uint64]struct{}{}
	}
	before := len(p.seen)
	p.seen[maphash.String(idSeed, id)] = struct{}{}
	isNew := len(p.seen) > before
	if isNew && id != "" {
		p.fresh++
	}
	return isNew
}

// Restarts reports whether an error is one after which the walk begins again, at most
// three times, and then asks for the first page. Pages that were read are read again:
// they may be without a new id.
func (p *Pages[T]) Restarts(err error) bool {
	if !RestartsList(err) || p.Token == "" || p.restarts == maxRestarts {
		return false
	}
	p.restarts++
	p.Token, p.barren = "", -p.read
	return true
}

// Follow goes to the page after this one; more is false at the end of the list. It is
// ErrPageLoop when the list does not end.
func (p *Pages[T]) Follow(page Page[T]) (more bool, err error) {
	p.read++
	for _, item := range page.Items {
		p.note(item.id())
	}
	for _, u := range page.Unusable {
		p.note(u.ID)
	}
	if p.barren++; p.fresh > 0 {
		p.fresh, p.barren = 0, min(p.barren-1, 0)
	}
	switch {
	case !page.HasMore:
		return false, nil
	case page.NextPageToken == "" || page.NextPageToken == p.Token:
		return false, fmt.Errorf("%w: page %d has no new page token", ErrPageLoop, p.read)
	case p.barren > maxBarrenPages:
		return false, fmt.Errorf("%w: %d pages, and no new id on the last %d", ErrPageLoop, p.read, p.barren)
	}
	p.Token = page.NextPageToken
	return true, nil
}

// walk follows the pages of one list.
func walk[T Entry](size int, fetch func(PageRequest) (Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		unusable := &UnusableError{}
		pages := &Pages[T]{PageRequest: PageRequest{Size: size}}
		for more := true; more; {
			page, err := fetch(pages.PageRequest)
			if pages.Restarts(err) {
				unusable.Count = 0
				continue
			}
			if err != nil {
				yield(zero, err)
				return
			}
			for _, item := range page.Items {
				if pages.note(item.id()) && !yield(item, nil) {
					return
				}
			}
			unusable.add(page.Unusable)
			if more, err = pages.Follow(page); err != nil {
				yield(zero, err)
				return
			}
		}
		if unusable.Count > 0 {
			yield(zero, unusable)
		}
	}
}
