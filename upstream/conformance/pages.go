// Checks of pagination.

package conformance

import (
	"fmt"
	"slices"
	"strconv"
)

// walked is a list read from its first page to its end.
type walked struct {
	why   string
	ids   map[string]bool
	order []string
	pages int
	sizes []int // of each page
}

const maxPages = 60

// walk follows the pages of a list with one size, at most maxPages of them.
func (s *session) walk(path, identity string, size int) walked {
	return memo(s, fmt.Sprintf("walk %s %d", path, size), func() walked {
		w := walked{ids: map[string]bool{}}
		token := ""
		for w.pages < maxPages {
			pairs := []pair{{"page_size", strconv.Itoa(size)}}
			if token != "" {
				pairs = append(pairs, pair{"page_token", token})
			}
			r := s.get(path, pairs...)
			_, items, found := onlyArray(r.data())
			if !r.succeeded() || !found {
				w.why = fmt.Sprintf("page %d: %s", w.pages+1, r.seen())
				return w
			}
			w.pages++
			w.sizes = append(w.sizes, len(items))
			for _, item := range items {
				id := word(item, identity)
				w.ids[id], w.order = true, append(w.order, id)
			}
			if token = word(r.data(), "next_page_token"); !truth(r.data(), "has_more") {
				return w
			}
		}
		return w
	})
}

func (w *walked) unique() finding {
	switch {
	case w.why != "":
		return differs("%s", w.why)
	case len(w.ids) != len(w.order):
		return differs("%d entries with %d ids", len(w.order), len(w.ids))
	}
	return ok("%d entries on %d pages", len(w.order), w.pages)
}

// sameOrder reads a page twice.
func sameOrder(s *session, path, identity string) finding {
	read := func() []string {
		r := s.get(path, pair{"page_size", "20"})
		_, items, _ := onlyArray(r.data())
		out := make([]string, 0, len(items))
		for _, item := range items {
			out = append(out, word(item, identity))
		}
		return out
	}
	a, b := read(), read()
	if !slices.Equal(a, b) {
		return differs("another order at the second read")
	}
	return ok("%d entries", len(a))
}

// paged is one of the three lists.
type paged struct{ name, path, identity string }

var pagedLists = []paged{
	{"offers", "/api/v1/offers", "offer_code"},
	{"orders", "/api/v1/orders", "order_no"},
	{"proxies", "/api/v1/proxies", "proxy_id"},
}

// filled buys what makes the list longer than one entry, where it may be bought.
func (p paged) filled(s *session) {
	if p.name != "offers" {
		s.buy("plain")
		s.buy("legacy")
	}
}

// firstToken gives the token after a first page of one entry.
func (s *session) firstToken(p paged) (string, string) {
	p.filled(s)
	r := memo(s, "first page "+p.name, func() reply { return s.get(p.path, pair{"page_size", "1"}) })
	token := word(r.data(), "next_page_token")
	if token == "" {
		return "", "the list of " + p.name + " has one page only"
	}
	return token, ""
}

var badToken = refusing("invalid_page_token")

// second asks for the page after that one.
func (p paged) second(s *session) (request, string) {
	token, why := s.firstToken(p)
	return p.at(p.path, token), why
}

func (p paged) at(path, token string) request {
	return get(path, pair{"page_size", "1"}, pair{"page_token", token})
}

func pageChecks() []Check {
	var out []Check
	for _, p := range pagedLists {
		out = append(out, p.checks()...)
		out = append(out, p.tokenChecks()...)
		out = append(out, p.sizeChecks()...)
	}
	return append(out,
		Check{ID: "proxies.key", Section: secProxies, Open: true, Sentence: "the key that holds the proxies", run: listKey("proxy_list")},
		Check{ID: "proxies.stable", Section: secProxies, Open: true, Sentence: "whether two reads of the list of proxies have one order", run: func(s *session) finding {
			return sameOrder(s, "/api/v1/proxies", "proxy_id")
		}},
		Check{ID: "proxies.hold_new", Section: secProxies, Costs: true, Sentence: "a delivered proxy stands in the list", run: func(s *session) finding {
			ids := s.ownProxies()
			if len(ids) == 0 {
				return notRun("the run has no proxy of its own")
			}
			w := s.walk("/api/v1/proxies", "proxy_id", 100)
			switch {
			case w.pages == maxPages:
				return notShown("not among the first %d pages", maxPages)
			case w.why != "" || !w.ids[ids[0]] || !w.ids[ids[1]]:
				return differs("%d proxies, %s", len(w.ids), w.why)
			}
			return ok("among %d", len(w.ids))
		}},
		Check{ID: "page.token.filter_changed", Section: secPagination, Sentence: "an offers token with another filter is refused with invalid_page_token", run: func(s *session) finding {
			return s.withToken(pagedLists[0], pair{"page_size", "1"}, pair{"quantity", "1"})
		}},
		Check{ID: "page.token.filter_added", Section: secPagination, Sentence: "an offers token with a filter of a country is refused with invalid_page_token", run: func(s *session) finding {
			o, _ := s.chosenOffer()
			return s.withToken(pagedLists[0], pair{"page_size", "1"}, pair{"country_code", o.country})
		}})
}

// withToken sends a list's token along with pairs that it does not belong to.
func (s *session) withToken(p paged, pairs ...pair) finding {
	return asks(func(s *session) (request, string) {
		token, why := s.firstToken(p)
		return get(p.path, append(pairs, pair{"page_token", token})...), why
	}, badToken)(s)
}

func (p paged) checks() []Check {
	shape := group{prefix: "page." + p.name, section: secPage, what: "the list of " + p.name}
	rules := shape
	rules.section = secPagination
	return []Check{
		shape.check("one_array", "is the only array of data", func(s *session) finding {
			r := s.get(p.path)
			key, items, found := onlyArray(r.data())
			if !found {
				return differs("%s, not exactly one array", r.seen())
			}
			return ok("%s of %d", brief(key), len(items))
		}),
		{ID: "page." + p.name + ".size_said", Section: secPage, Open: true, Sentence: "which page_size the list of " + p.name + " says when 7 was asked for", run: func(s *session) finding {
			r := s.get(p.path, pair{"page_size", "7"})
			return ok("%s, page_size is %s", r.seen(), typeName(r.data()["page_size"]))
		}},
		rules.check("size_kept", "gives no page that is longer than its page_size", func(s *session) finding {
			p.filled(s)
			w := s.walk(p.path, p.identity, 1)
			if w.why != "" || slices.Max(append(w.sizes, 0)) > 1 {
				return differs("pages of %v, %s", w.sizes, w.why)
			}
			return ok("%d pages of one", w.pages)
		}),
		rules.check("walk_unique", "gives no entry twice on its pages", func(s *session) finding {
			p.filled(s)
			w := s.walk(p.path, p.identity, 1)
			return w.unique()
		}),
		rules.check("walk_ends", "comes to an end, or to other entries all the time", func(s *session) finding {
			w := s.walk(p.path, p.identity, 50)
			if w.why != "" || w.pages == maxPages && len(w.ids) < maxPages {
				return differs("%d pages, %d entries, %s", w.pages, len(w.ids), w.why)
			}
			return ok("%d entries on %d pages", len(w.ids), w.pages)
		}),
		rules.check("sizes_agree", "begins with the same entries whatever the page size", func(s *session) finding {
			p.filled(s)
			one, fifty := s.walk(p.path, p.identity, 1), s.walk(p.path, p.identity, 50)
			n := min(len(one.order), len(fifty.order))
			if !slices.Equal(one.order[:n], fifty.order[:n]) {
				return differs("other entries on pages of one")
			}
			return ok("%d entries compared", n)
		}),
		shape.check("token_when_more", "has a next_page_token exactly while has_more", func(s *session) finding {
			r := s.get(p.path, pair{"page_size", "1"})
			if truth(r.data(), "has_more") != (word(r.data(), "next_page_token") != "") {
				return differs("has_more %t, next_page_token is %s", truth(r.data(), "has_more"), typeName(r.data()["next_page_token"]))
			}
			return ok("has_more %t", truth(r.data(), "has_more"))
		}),
	}
}

// tokenChecks observe that a token is bound to its list, its account and its bytes.
func (p paged) tokenChecks() []Check {
	check := group{prefix: "page.token." + p.name, section: secPagination, what: "a token of " + p.name}.check
	token := func(s *session) (string, string) { return s.firstToken(p) }
	with := func(use func(token string) request, judge func(reply) finding) func(*session) finding {
		return given(token, func(s *session, token string) finding { return judge(s.send(use(token))) })
	}
	out := []Check{
		check("altered", "that was altered is refused with invalid_page_token", with(func(token string) request {
			middle := len(token) / 2
			return p.at(p.path, flip(token[:middle])+token[middle:])
		}, badToken)),
		check("altered_last", "whose last character was altered is refused with invalid_page_token", given(token, func(s *session, token string) finding {
			return refused(s.anyAccepted(p, token), "invalid_page_token")
		})),
		check("shortened", "that was shortened is refused with invalid_page_token", with(func(token string) request { return p.at(p.path, token[:len(token)/2]) }, badToken)),
		check("made_up", "that was made up is refused with invalid_page_token", p.at(p.path, "conformance").wants(badToken)),
		check("other_account", "is refused with invalid_page_token to another account", asks(func(s *session) (request, string) {
			r, why := p.second(s)
			if why != "" {
				return r, why
			}
			return foreign(p.second)(s)
		}, badToken)),
		check("works", "gives the next page", asks(p.second, func(r reply) finding {
			if !r.succeeded() {
				return differs("%s", r.seen())
			}
			return ok("a page")
		})),
		{ID: "page.token." + p.name + ".other_size", Section: secPagination, Open: true, Sentence: "what a token of " + p.name + " gets with another page_size", run: with(func(token string) request {
			return get(p.path, pair{"page_size", "2"}, pair{"page_token", token})
		}, recorded)},
	}
	for _, other := range pagedLists {
		if other.name != p.name {
			out = append(out, check("at_"+other.name, "is refused with invalid_page_token at "+other.name, with(func(token string) request { return p.at(other.path, token) }, badToken)))
		}
	}
	return out
}

// anyAccepted tries other last characters: of some encodings the last one has
// bits that a server ignores. It gives the first reply that is no refusal.
func (s *session) anyAccepted(p paged, token string) reply {
	var last reply
	for _, c := range "ABCDQRSTghijwxyz0123" {
		altered := token[:len(token)-1] + string(c)
		if altered == token {
			continue
		}
		if last = s.send(p.at(p.path, altered)); last.succeeded() {
			return last
		}
	}
	return last
}

// sizeChecks are the page sizes that a server takes beyond the document's.
func (p paged) sizeChecks() []Check {
	var out []Check
	for _, size := range []string{"0", "-1", "many", "201", "1000"} {
		if p.name == "offers" && size == "201" {
			continue // the document gives this one
		}
		out = append(out, Check{ID: "page." + p.name + ".size." + size, Section: secLimits, Open: true, Sentence: "what a page_size of " + size + " gets at " + p.name,
			run: func(s *session) finding {
				r := s.get(p.path, pair{"page_size", size})
				return ok("%s, page_size %s", r.seen(), typeName(r.data()["page_size"]))
			}})
	}
	return out
}
