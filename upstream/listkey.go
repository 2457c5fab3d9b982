// How the array of a list is found, whose name the document does not give.

package upstream

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

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

// listKeys remembers, by path, the names under which lists came that could be
// nothing else.
type listKeys struct {
	mu    sync.Mutex
	known map[string]listKey
}

func (k *listKeys) of(path string) listKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[path]
}

func (k *listKeys) learn(path string, key listKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = map[string]listKey{}
	}
	k.known[path] = key
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

// listOf finds the array whose entries carry a key (trap 30): the document gives
// the lists of orders and proxies no name, and answers may gain other arrays, whose
// entries may name a proxy or an order too. The list is the one whose entries are
// most like the document's; of several alike the one whose name was known before.
// An empty list may be any empty array. Without any array the reply is an error: taken for
// an empty list it would say that every proxy is gone.
func (k *listKeys) listOf(o *object, l list) (string, error) {
	all, known := arraysOf(o, l), k.of(l.path)
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
			k.learn(l.path, best)
		}
		return best.name, nil
	case len(all.empty) > 0:
		return all.empty[len(all.empty)-1], nil
	}
	return "", fmt.Errorf("the list's key is not given, and of %d arrays none holds entries with %s, or is empty", len(all.others), l.entry)
}
