// Pagination: page sizes, finding the list in a reply, and the end of a list.

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

// Page is one page of a list (API: Page). Items holds the decoded entries, Unusable the
// others.
type Page[T any] struct {
	Items         []T
	Unusable      []Unusable
	PageSize      int
	HasMore       bool
	NextPageToken string // opaque; passed back unchanged
	Received
}

// PageRequest asks for one page. With Size 0 the provider chooses. If the provider refuses
// a size, the client tries smaller ones and finally none.
type PageRequest struct {
	Size  int
	Token string
}

// list describes one of the provider's lists: the key of its array if known, the member
// that identifies an entry, and the entries' other members.
type list struct {
	path, key, entry string
	members          []string
	shown            bool // the document shows the members of an entry
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
	maxRestarts    = 3  // in one walk, each from the first page
	maxBarrenPages = 16 // consecutive pages without a new id
)

// ErrPageLoop reports a list that does not end: its pages bring no new ids.
var ErrPageLoop = errors.New("upstream: the pages of a list repeat")

// Entry is an item of a list.
type Entry interface {
	Offer | OrderSummary | Proxy
	id() string
}

func (o Offer) id() string        { return o.OfferCode }
func (o OrderSummary) id() string { return o.OrderNo }
func (p Proxy) id() string        { return p.ProxyID }

// Pages walks through one list. It holds the request for the next page, and detects a list
// that repeats. Progress means new ids, not new tokens. It keeps 64-bit hashes of ids,
// because a list may have a million.
type Pages[T Entry] struct {
	PageRequest

	seen                          map[uint64]struct{}
	fresh, read, barren, restarts int
}

var idSeed = maphash.MakeSeed()

// note records an id and reports whether it is new to this walk.
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

// Restarts reports whether the walk restarts after this error, at most three times. It
// then resets the request to the first page. Pages read again may contain no new id.
func (p *Pages[T]) Restarts(err error) bool {
	if !RestartsList(err) || p.Token == "" || p.restarts == maxRestarts {
		return false
	}
	p.restarts++
	p.Token, p.barren = "", -p.read
	return true
}

// Follow moves to the page after this one. more is false at the end of the list. It
// returns ErrPageLoop if the list does not end.
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

// walk iterates over the items of one list.
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

// smallerPages are the sizes to try after the provider refuses one. The document gives no
// maximum for orders and proxies (API: GET /api/v1/orders), and its maximum for offers may
// be wrong. The last try sends no size, which no provider can refuse (trap 53).
var smallerPages = []int{100, 50, 0}

// ErrPageSize reports a page size that was refused in the middle of a list. The token is
// bound to the size, and the list restarts with a smaller one.
var ErrPageSize = errors.New("upstream: the page size was refused in the middle of a list")

// RestartsList reports whether a list must be read again from its first page. Its page
// token has expired, or is not valid for this size (API: Pagination rules).
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

// getPage reads one page of the requested size, or of the largest size that the provider
// accepts. If the provider refuses every size, the cause is not the size.
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

// Members of an entry that the document shows, besides its id (API: Proxy item, Order).
// They tell the list from another array about the same items.
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

// listKey is the name of an array that may be the list. It counts the documented members
// that its entries have.
type listKey struct {
	name    string
	members int
}

// arrays groups the arrays of a reply by the kind of their entries.
type arrays struct {
	lists  []listKey // entries have the list's id member
	empty  []string
	others []string
}

func arraysOf(o *object, l list) (out arrays) {
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		entries, isArray := elements(o.members[name])
		switch members, carried := l.likeness(entries); {
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

// likeness counts the documented members, null or not, of the first entry that has the id
// member.
func (l list) likeness(entries []value) (members int, carried bool) {
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

// best returns the array whose entries have the most documented members. alone is false if
// there is none, or a tie.
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

// may reports whether the array with a name learned earlier is the list. If that array is
// empty, no other array may resemble the list as much. An empty list means that every
// proxy is gone.
func (a arrays) may(known, best listKey) bool {
	if slices.Contains(a.empty, known.name) {
		return known.members > best.members
	}
	return known.members >= best.members && slices.ContainsFunc(a.lists, func(one listKey) bool { return one.name == known.name })
}

// keyIn finds the array whose entries have the list's id member (trap 30). The document
// does not name the lists of orders and proxies. A reply may gain other arrays whose
// entries also name a proxy or an order. keyIn picks the array that most resembles the
// document. In a tie it picks the name learned earlier. An empty list may be any empty
// array. A reply without any array is an error: read as an empty list, it would mean that
// every proxy is gone.
func (l list) keyIn(o *object, names *byPath[listKey]) (string, error) {
	known, _ := names.of(l.path)
	all := arraysOf(o, l)
	best, alone := all.best()
	switch {
	case slices.Contains(all.others, known.name):
		return "", fmt.Errorf("the list %s holds entries without %s", known.name, l.entry)
	case known.name != "" && all.may(known, best):
		return known.name, nil
	case len(all.lists) > 0 && !alone:
		return "", fmt.Errorf("the list's key is not given and %d arrays hold entries with %s", len(all.lists), l.entry)
	case alone && best.members == 0 && l.shown && len(all.empty) > 0:
		return "", fmt.Errorf("the list's key is not given: an array is empty, and entries with %s in another show nothing else of what they name", l.entry)
	case alone:
		if len(all.lists) == 1 && best.members > 0 {
			names.learn(l.path, best)
		}
		return best.name, nil
	case len(all.empty) > 0:
		return all.empty[len(all.empty)-1], nil
	}
	return "", fmt.Errorf("the list's key is not given, and of %d arrays none holds entries with %s, or is empty", len(all.others), l.entry)
}
