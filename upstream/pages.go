// Pages of lists: how many entries each has, under which name they come, and where the list
// ends.

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
		NextPageToken: o.str("next_page_token"), TraceID: e.TraceID, ServerTime: e.Timestamp}
	if page.HasMore && page.NextPageToken == "" {
		o.fail("next_page_token", "missing though has_more is true")
	}
	return page
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

// smallerPages are asked for in turn where the provider refuses a size: the
// greatest sizes of the orders and proxies lists are not given (API: GET
// /api/v1/orders), and that of the offers need not be what the document says.
// After them the size is left out, which no provider can refuse (trap 53).
var smallerPages = []int{100, 50, 0}

// ErrPageSize is a page size that was refused in the middle of a list, where a
// token is bound to it: the list begins again, with a smaller one.
var ErrPageSize = errors.New("upstream: the page size was refused in the middle of a list")

// RestartsList reports whether a list has to be read again from its first page:
// its page token holds no more, or not for this size (API: Pagination rules).
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

// getPage reads one page, of the size that was asked for or the greatest that the
// provider takes. A request that is refused at every size is refused for another
// reason.
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

// Members of an entry beside the one that names it, as the document shows them
// (API: Proxy item, Order). They distinguish the list from another array about its entries.
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

// listKey is the name of an array that may be the list, and how many of the
// document's members its entries have.
type listKey struct {
	name    string
	members int
}

// arrays are those of an answer by what their entries are.
type arrays struct {
	lists  []listKey // their entries carry the list's member
	empty  []string
	others []string
}

func arraysOf(o *object, l list) (out arrays) {
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		entries, isArray := as[[]value](o.members[name])
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

// likeness counts the document's members, null or not, of the first entry that carries
// the one that names it.
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

// best is the array whose entries have the most of the document's members; alone
// is false when there is none, or another has as many.
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

// may reports whether the array of a name that was known before is the list here. Where
// it is empty no other array may be as much like a list: an empty list says that every
// proxy is gone.
func (a arrays) may(known, best listKey) bool {
	if slices.Contains(a.empty, known.name) {
		return known.members > best.members
	}
	return known.members >= best.members && slices.ContainsFunc(a.lists, func(one listKey) bool { return one.name == known.name })
}

// keyIn finds the array whose entries carry a key (trap 30): the document gives
// the lists of orders and proxies no name, and answers may gain other arrays, whose
// entries may name a proxy or an order too. The list is the one whose entries are
// most like the document's; of several alike the one whose name was known before.
// An empty list may be any empty array. Without any array the reply is an error: taken for
// an empty list it would say that every proxy is gone.
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
