package conformance

import (
	"fmt"
	"slices"
	"strconv"
)

type paged struct{ name, path, identity string }

var (
	offerList  = paged{"offers", "/api/v1/offers", "offer_code"}
	orderList  = paged{"orders", "/api/v1/orders", "order_no"}
	proxyList  = paged{"proxies", "/api/v1/proxies", "proxy_id"}
	pagedLists = []paged{offerList, orderList, proxyList}
)

type walked struct {
	why   string
	ids   map[string]bool
	order []string
	pages int
	sizes []int // the number of entries on each page
}

const maxPages = 60

func (s *session) walk(p paged, size int) walked {
	return memo(s, fmt.Sprintf("walk %s %d", p.name, size), func() walked {
		w := walked{ids: map[string]bool{}}
		pairs := []pair{{"page_size", strconv.Itoa(size)}}
		for w.pages < maxPages {
			r := s.get(p.path, pairs...)
			_, items, found := onlyArray(r.data())
			if !r.succeeded() || !found {
				w.why = fmt.Sprintf("page %d: %s", w.pages+1, r.seen())
				return w
			}
			w.pages++
			w.sizes = append(w.sizes, len(items))
			for _, id := range wordsOf(items, p.identity) {
				w.ids[id], w.order = true, append(w.order, id)
			}
			if !truth(r.data(), "has_more") {
				return w
			}
			if pairs = pairs[:1]; word(r.data(), "next_page_token") != "" {
				pairs = append(pairs, pair{"page_token", word(r.data(), "next_page_token")})
			}
		}
		return w
	})
}

func (w walked) unique() finding {
	if w.why != "" {
		return differs("%s", w.why)
	}
	return when(len(w.ids) != len(w.order), differs("%d entries with %d ids", len(w.order), len(w.ids)), ok("%d entries on %d pages", len(w.order), w.pages))
}

func (p paged) sameOrder(s *session) finding {
	read := func() []string {
		return wordsOf(s.get(p.path, pair{"page_size", "20"}).items(), p.identity)
	}
	a, b := read(), read()
	return when(slices.Equal(a, b), ok("%d entries", len(a)), differs("another order at the second read"))
}

// fill buys two orders, if the run may spend money, so that the list has more than one entry.
func (p paged) fill(s *session) {
	if p.name != "offers" {
		s.tryToBuy("plain")
		s.tryToBuy("legacy")
	}
}

func (p paged) firstToken(s *session) string {
	p.fill(s)
	r := memo(s, "first page "+p.name, func() reply { return s.get(p.path, pair{"page_size", "1"}) })
	token := word(r.data(), "next_page_token")
	if token == "" {
		s.skipf("the list of %s has one page only", p.name)
	}
	return token
}

var badToken = refusing("invalid_page_token")

func (p paged) secondPage(s *session) request { return p.at(p.firstToken(s)) }

func (p paged) at(token string) request {
	return get(p.path, pair{"page_size", "1"}, pair{"page_token", token})
}

func (p paged) with(judge func(reply) finding, use func(token string) request) judgement {
	return func(s *session) finding { return judge(s.send(use(p.firstToken(s)))) }
}

func pageChecks(c *suite) {
	for _, p := range pagedLists {
		p.checks(c)
		p.tokenChecks(c)
		p.sizeChecks(c)
	}
	c.rule("proxies.key", secProxies, "the key that holds the proxies", listKey("proxy_list")).open()
	c.rule("proxies.stable", secProxies, "whether two reads of the list of proxies have one order", proxyList.sameOrder).open()
	c.rule("proxies.hold_new", secProxies, "a delivered proxy stands in the list", func(s *session) finding {
		ids := s.needProxies()
		w := s.walk(proxyList, 100)
		if w.pages == maxPages {
			return notShown("not among the first %d pages", maxPages)
		}
		return when(w.why != "" || slices.ContainsFunc(ids, func(id string) bool { return !w.ids[id] }), differs("%d proxies, %s", len(w.ids), w.why), ok("among %d", len(w.ids)))
	}).costs()
	c.rule("page.token.filter_changed", secPagination, "an offers token with another filter is refused with invalid_page_token", offerList.with(badToken, func(token string) request {
		return get(offerList.path, pair{"page_size", "1"}, pair{"quantity", "1"}, pair{"page_token", token})
	}))
	c.rule("page.token.filter_added", secPagination, "an offers token with a filter of a country is refused with invalid_page_token", asks(func(s *session) request {
		o, _ := attempt(s.chosenOffer)
		return get(offerList.path, pair{"page_size", "1"}, pair{"country_code", o.country}, pair{"page_token", offerList.firstToken(s)})
	}, badToken))
}

func (p paged) checks(c *suite) {
	shape := group{suite: c, prefix: "page." + p.name, section: secPage, what: "the list of " + p.name}
	rules := shape
	rules.section = secPagination
	shape.rule("one_array", "is the only array of data", get(p.path).wants(func(r reply) finding {
		key, items, found := onlyArray(r.data())
		return when(found, ok("%s of %d", brief(key), len(items)), differs("%s, not exactly one array", r.seen()))
	}))
	c.rule("page."+p.name+".size_said", secPage, "which page_size the list of "+p.name+" says when 7 was asked for", get(p.path, pair{"page_size", "7"}).wants(func(r reply) finding {
		return ok("%s, page_size is %s", r.seen(), typeName(r.data()["page_size"]))
	})).open()
	rules.rule("size_kept", "gives no page that is longer than its page_size", func(s *session) finding {
		p.fill(s)
		w := s.walk(p, 1)
		return when(w.why != "" || slices.Max(append(w.sizes, 0)) > 1, differs("pages of %v, %s", w.sizes, w.why), ok("%d pages of one", w.pages))
	})
	rules.rule("walk_unique", "gives no entry twice on its pages", func(s *session) finding {
		p.fill(s)
		return s.walk(p, 1).unique()
	})
	rules.rule("walk_ends", "has a last page, or new entries on every page", func(s *session) finding {
		w := s.walk(p, 50)
		return when(w.why != "" || w.pages == maxPages && len(w.ids) < maxPages,
			differs("%d pages, %d entries, %s", w.pages, len(w.ids), w.why), ok("%d entries on %d pages", len(w.ids), w.pages))
	})
	rules.rule("sizes_agree", "begins with the same entries whatever the page size", func(s *session) finding {
		p.fill(s)
		one, fifty := s.walk(p, 1), s.walk(p, 50)
		n := min(len(one.order), len(fifty.order))
		return when(slices.Equal(one.order[:n], fifty.order[:n]), ok("%d entries compared", n), differs("other entries on pages of one"))
	})
	shape.rule("token_when_more", "has a next_page_token exactly while has_more", get(p.path, pair{"page_size", "1"}).wants(func(r reply) finding {
		more, token := truth(r.data(), "has_more"), r.data()["next_page_token"]
		return when(more == (word(r.data(), "next_page_token") != ""), ok("has_more %t", more), differs("has_more %t, next_page_token is %s", more, typeName(token)))
	}))
}

func (p paged) tokenChecks(c *suite) {
	g := group{suite: c, prefix: "page.token." + p.name, section: secPagination, what: "a token of " + p.name}
	g.rule("altered", "that was altered is refused with invalid_page_token", p.with(badToken, func(token string) request {
		middle := max(len(token)/2, 1)
		return p.at(flip(token[:middle]) + token[middle:])
	}))
	g.rule("altered_last", "whose last character was altered is refused with invalid_page_token", func(s *session) finding {
		return badToken(s.anyAccepted(p, p.firstToken(s)))
	})
	g.rule("shortened", "that was shortened is refused with invalid_page_token", p.with(badToken, func(token string) request { return p.at(token[:len(token)/2]) }))
	g.rule("made_up", "that was made up is refused with invalid_page_token", p.at("conformance").wants(badToken))
	g.rule("other_account", "is refused with invalid_page_token to another account", asks(func(s *session) request {
		p.firstToken(s)
		return foreign(p.secondPage)(s)
	}, badToken))
	g.rule("works", "gives the next page", asks(p.secondPage, func(r reply) finding { return when(r.succeeded(), ok("a page"), differs("%s", r.seen())) }))
	c.rule("page.token."+p.name+".other_size", secPagination, "what a token of "+p.name+" gets with another page_size", p.with(recorded, func(token string) request {
		return get(p.path, pair{"page_size", "2"}, pair{"page_token", token})
	})).open()
	for _, other := range pagedLists {
		if other.name != p.name {
			g.rule("at_"+other.name, "is refused with invalid_page_token at "+other.name, p.with(badToken, other.at))
		}
	}
}

// anyAccepted changes the last character of a token in several ways, because some encodings
// ignore bits. It returns the first successful reply, or the last refusal if none succeeds.
func (s *session) anyAccepted(p paged, token string) (last reply) {
	for _, c := range "ABCDQRSTghijwxyz0123" {
		if altered := token[:len(token)-1] + string(c); altered != token && !last.succeeded() {
			last = s.send(p.at(altered))
		}
	}
	return last
}

func (p paged) sizeChecks(c *suite) {
	for _, size := range []string{"0", "-1", "many", "201", "1000"} {
		if p.name == "offers" && size == "201" {
			continue // the API document gives the limit of 200
		}
		c.rule("page."+p.name+".size."+size, secLimits, "what a page_size of "+size+" gets at "+p.name, get(p.path, pair{"page_size", size}).wants(func(r reply) finding {
			return ok("%s, page_size %s", r.seen(), typeName(r.data()["page_size"]))
		})).open()
	}
}
