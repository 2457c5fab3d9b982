package upstream

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Page is one page of a list (API: Page). Items are the decoded entries. Unusable describes the
// entries that cannot be decoded.
type Page[T any] struct {
	Items         []T
	Unusable      []Unusable
	PageSize      int
	HasMore       bool
	NextPageToken string // opaque; sent back unchanged
	Received
}

// PageRequest asks for one page. If Size is 0, the provider chooses the size. If the provider
// rejects a size, the client tries smaller sizes, and finally sends no size.
type PageRequest struct {
	Size  int
	Token string
}

// list describes one of the provider's lists. path is the endpoint. key is the name of the
// array, or "" if the API document does not give the name. entry is the member that identifies
// an entry, and members are the other members of an entry.
type list struct {
	path, key, entry string
	members          []string
	documented       bool // the API document shows the members of an entry
}

func readPage[T any](ctx context.Context, c *Client, list list, pairs []string, r PageRequest, decode func(*object) T) (Page[T], error) {
	pairs = slices.Clone(pairs)
	if r.Size > 0 {
		pairs = append(pairs, "page_size="+strconv.Itoa(r.Size))
	}
	if r.Token != "" {
		pairs = append(pairs, "page_token="+EscapeSegment(r.Token))
	}
	return getOne(ctx, c, list.path, CanonicalQuery(strings.Join(pairs, "&")), func(o *object, e *Envelope) Page[T] {
		return decodePage(&c.keys, o, e, list, decode)
	})
}

func decodePage[T any](keys *byPath[listKey], o *object, e *Envelope, list list, decode func(*object) T) Page[T] {
	listKey := list.key
	if listKey == "" {
		listKey, o.err = list.keyIn(o, keys)
	}
	o.need(listKey, "has_more")
	items, unusable := decodeEach(o, listKey, list.entry, decode)
	page := Page[T]{Items: items, Unusable: unusable, PageSize: int(o.integer("page_size")), HasMore: o.boolean("has_more"),
		NextPageToken: o.str("next_page_token"), Received: e.received()}
	if page.HasMore && page.NextPageToken == "" {
		o.fail("next_page_token", "missing though has_more is true")
	}
	return page
}

const (
	maxRestarts    = 3  // in one iteration of a list; each restart begins at the first page
	maxBarrenPages = 16 // consecutive pages without a new id
)

// ErrPageLoop means that a list does not end, because its pages contain no new ids.
var ErrPageLoop = errors.New("upstream: the pages of a list repeat")

// Entry is the type of a list entry.
type Entry interface {
	Offer | OrderSummary | Proxy
	id() string
}

func (o Offer) id() string        { return o.OfferCode }
func (o OrderSummary) id() string { return o.OrderNo }
func (p Proxy) id() string        { return p.ProxyID }

// Pages iterates over the pages of one list. It contains the request for the next page. It
// uses the ids of the entries to detect a list that repeats, because page tokens may differ
// in repeated pages. It stores 64-bit hashes of the ids, because a list may have a million
// entries.
type Pages[T Entry] struct {
	PageRequest

	seen                          map[uint64]struct{}
	fresh, read, barren, restarts int
	again                         int // entries that a restarted list may show again
}

var idSeed = maphash.MakeSeed()

// unreadable is a prefix for the ids of entries that cannot be read. If the
// entry can be read when paging starts again, it counts as new.
const unreadable = "\x00"

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

// Restarts reports whether to read the list again after an error. It allows three restarts, and
// resets the request to the first page. After a restart, pages need not contain new ids.
func (p *Pages[T]) Restarts(err error) bool {
	if !RestartsList(err) || p.Token == "" || p.restarts == maxRestarts {
		return false
	}
	p.restarts++
	p.Token, p.barren, p.again = "", 0, len(p.seen)
	return true
}

// Follow moves to the next page, if there is one. It returns ErrPageLoop if the list does not end.
func (p *Pages[T]) Follow(page Page[T]) (more bool, err error) {
	p.read++
	for _, item := range page.Items {
		p.note(item.id())
	}
	for _, u := range page.Unusable {
		p.note(unreadable + u.ID)
	}
	entries := len(page.Items) + len(page.Unusable)
	p.barren++
	if p.fresh > 0 || entries > 0 && p.again > 0 {
		p.fresh, p.barren = 0, 0
	}
	p.again -= entries
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

// smallerPages are the sizes to try after the provider rejects a page size. The API document
// gives no maximum for orders and proxies (API: GET /api/v1/orders), and its maximum for offers
// may be wrong. The last attempt sends no size, so the provider has no size to reject (trap
// 53).
var smallerPages = []int{100, 50, 0}

// ErrPageSize means that the provider rejected the page size after the first page. A page
// token is valid for one size, so the caller reads the list again with a smaller size.
var ErrPageSize = errors.New("upstream: the page size was refused in the middle of a list")

// RestartsList reports whether an error requires reading the list from its first page. This is
// the case if the page token has expired or is not valid for the page size (API: Pagination
// rules).
func RestartsList(err error) bool {
	return errors.Is(err, CodeInvalidPageToken) || errors.Is(err, ErrPageSize)
}

func smallerPage(than int) int {
	for _, size := range smallerPages {
		if size < than {
			return size
		}
	}
	return 0
}

// getPage requests one page of the given size. If the provider rejects the size, getPage
// tries the smallerPages. If the provider also rejects a request without a size, the size is
// not the cause. getPage then returns the error for the last size.
func getPage[T any](ctx context.Context, c *Client, list list, pairs []string, r PageRequest, decode func(*object) T) (Page[T], error) {
	if most, known := c.sizes.of(list.path); known {
		r.Size = min(r.Size, most)
	}
	first, refused := r.Size, error(nil)
	for {
		page, err := readPage(ctx, c, list, pairs, r, decode)
		switch {
		case err == nil && r.Size < first:
			c.sizes.learn(list.path, r.Size)
			return page, nil
		case r.Size == 0 && refused != nil && errors.Is(err, CodeValidationError):
			return page, refused
		case r.Size == 0 || !errors.Is(err, CodeValidationError):
			return page, err
		case r.Token != "":
			c.sizes.learn(list.path, smallerPage(r.Size))
			return page, errors.Join(ErrPageSize, err)
		}
		r.Size, refused = smallerPage(r.Size), err
	}
}

// Members of an entry in the API document, except its id (API: Proxy item, Order). They
// distinguish the list from other arrays about proxies or orders.
var (
	proxyMembers = []string{
		"status", "host", "port", "protocol", "username", "password", "connection", "socks5_uri", "ip_type", "country_code", "region", "line_name",
		"starts_at", "expires_at",
	}
	orderMembers = []string{
		"status", "payment_status", "payment_method", "currency", "subtotal_cents", "total_cents", "total", "created_at", "items", "delivery",
		"poll_after_seconds", "refund", "proxies",
	}
)

type listKey struct {
	name    string
	members int
}

type arrays struct {
	lists  []listKey // entries have the member that identifies an entry of the list
	empty  []string
	others []string
}

func arraysOf(o *object, l list) (out arrays) {
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		entries, isArray := as[[]value](o.members[name])
		switch members, carried := l.countMembers(entries); {
		case !isArray:
		case len(entries) == 0:
			out.empty = append(out.empty, name)
		case carried:
			out.lists = append(out.lists, listKey{name, members})
		default:
			out.others = append(out.others, name)
		}
	}
	return out
}

// countMembers returns the number of documented members in the first entry that has the list's
// id member. It includes null members. carried is false if no entry has the id member.
func (l list) countMembers(entries []value) (members int, carried bool) {
	for _, raw := range entries {
		entry, err := parseObject("", raw)
		if _, carried = entry.members[l.entry]; err != nil || !carried {
			continue
		}
		for _, key := range l.members {
			if _, has := entry.members[key]; has {
				members++
			}
		}
		return members, true
	}
	return 0, false
}

// best returns the array whose entries have the largest number of documented members. alone is
// false if no array is suitable, or if two arrays have the same number.
func (a arrays) best() (best listKey, alone bool) {
	for _, one := range a.lists {
		switch {
		case !alone && best.name == "" || one.members > best.members:
			best, alone = one, true
		case one.members == best.members:
			alone = false
		}
	}
	return best, alone
}

// isList reports whether the array known from an earlier reply is the list in this reply.
// known.members counts the documented members of its entries in the earlier reply. No other
// array may have more documented members. If the known array is empty, every other array
// must have fewer, because an empty list means that all proxies are gone.
func (a arrays) isList(known, best listKey) bool {
	if slices.Contains(a.empty, known.name) {
		return known.members > best.members
	}
	return known.members >= best.members && slices.ContainsFunc(a.lists, func(one listKey) bool { return one.name == known.name })
}

// keyIn returns the name of the list in a reply (trap 30). The API document does not name the
// lists of orders and proxies. A future reply may contain other arrays whose entries have a
// proxy_id or an order_no. keyIn chooses the array whose entries have the largest number of
// documented members. If two arrays have the same number, it chooses the name known from an
// earlier reply. If no array has such entries, the list is an empty array. keyIn returns an
// error for a reply without arrays, because an empty list would mean that all proxies are gone.
func (l list) keyIn(o *object, names *byPath[listKey]) (string, error) {
	known, _ := names.of(l.path)
	all := arraysOf(o, l)
	best, alone := all.best()
	switch {
	case slices.Contains(all.others, known.name):
		return "", fmt.Errorf("the list %s holds entries without %s", known.name, l.entry)
	case known.name != "" && all.isList(known, best):
		return known.name, nil
	case len(all.lists) > 0 && !alone:
		return "", fmt.Errorf("the list's key is not given and %d arrays hold entries with %s", len(all.lists), l.entry)
	case alone && best.members == 0 && l.documented && len(all.empty) > 0:
		return "", fmt.Errorf("the list's key is not given: an array is empty, and entries with %s in another show nothing else of what they name", l.entry)
	case alone:
		if len(all.lists) == 1 && best.members > 0 {
			names.learn(l.path, best)
		}
		return best.name, nil
	case len(all.empty) > 0 && known.name != "": // another array that is empty does not mean that the list is
		return "", fmt.Errorf("the list %s is missing", known.name)
	case len(all.empty) > 0:
		return all.empty[len(all.empty)-1], nil
	}
	return "", fmt.Errorf("the list's key is not given, and of %d arrays none holds entries with %s, or is empty", len(all.others), l.entry)
}
