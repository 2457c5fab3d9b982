// The objects that field checks look at.

package conformance

import "slices"

// subject is what field checks look at: objects of one kind.
type subject = step[[]map[string]any]

// replyOf gives a successful reply of an endpoint, or why there is none.
func (s *session) replyOf(name string) (reply, string) {
	switch name {
	case "order_create":
		b := s.buy("plain")
		return b.reply, b.unsent()
	case "order_detail":
		return s.anyOrder()
	case "proxy_detail":
		return s.anyProxy()
	case "renew":
		r := s.renew("one")
		return r.reply, r.unsent()
	}
	i := slices.IndexFunc(endpoints, func(e endpoint) bool { return e.name == name })
	return memo(s, "reply "+name, func() reply { return s.get(endpoints[i].path) }), ""
}

// anyOrder is the order that the run bought, or else the first of the list.
func (s *session) anyOrder() (reply, string) {
	if b := s.buy("plain"); b.why == "" {
		return *b.last(), ""
	}
	list, _ := s.replyOf("order_list")
	_, items, _ := onlyArray(list.data())
	for _, item := range items {
		if no := word(item, "order_no"); no != "" {
			return memo(s, "an order", func() reply { return s.get("/api/v1/orders/" + rfc3986(no)) }), ""
		}
	}
	return reply{}, "there is no order: " + s.buy("plain").why
}

// anyProxy is a proxy that the run bought, or else the first of the list.
func (s *session) anyProxy() (reply, string) {
	ids := s.ownProxies()
	if len(ids) == 0 {
		list, _ := s.replyOf("proxy_list")
		_, items, _ := onlyArray(list.data())
		ids = wordsOf(items, "proxy_id")
	}
	if len(ids) == 0 || ids[0] == "" {
		return reply{}, "there is no proxy"
	}
	return memo(s, "a proxy", func() reply { return s.get("/api/v1/proxies/" + rfc3986(ids[0])) }), ""
}

// ownProxies are the ids that the run bought with its plain order.
func (s *session) ownProxies() []string {
	ids := wordsOf(things(s.buy("plain").last().data(), "proxies"), "proxy_id")
	return slices.DeleteFunc(ids, func(id string) bool { return id == "" })
}

func dataOf(name string) subject {
	return func(s *session) ([]map[string]any, string) {
		r, why := s.replyOf(name)
		if why == "" && !r.succeeded() {
			why = "no success: " + r.seen()
		}
		return []map[string]any{r.data()}, why
	}
}

// memberOf looks at an object inside each object of a subject.
func memberOf(of subject, name string) subject {
	return func(s *session) ([]map[string]any, string) {
		objects, why := of(s)
		out := make([]map[string]any, 0, len(objects))
		for _, o := range objects {
			m, _ := o[name].(map[string]any)
			out = append(out, m)
		}
		return out, why
	}
}

// entriesOf looks at the objects of an array inside each object of a subject.
func entriesOf(of subject, name string) subject {
	return func(s *session) ([]map[string]any, string) {
		objects, why := of(s)
		out := make([]map[string]any, 0, len(objects))
		for _, o := range objects {
			out = append(out, things(o, name)...)
		}
		if why == "" && len(out) == 0 {
			why = name + " is empty"
		}
		return out, why
	}
}

// listed looks at the entries of a list whose key the document does not give.
func listed(path string) subject {
	return func(s *session) ([]map[string]any, string) {
		s.buy("plain") // so that there is something to see where it may be bought
		r := memo(s, "listed "+path, func() reply { return s.get(path) })
		_, items, found := onlyArray(r.data())
		switch {
		case !found:
			return nil, "data does not hold exactly one array"
		case len(items) == 0:
			return nil, "the list is empty"
		}
		return items, ""
	}
}

// finalOf looks at the last detail of one of the run's orders.
func finalOf(name string) subject {
	return func(s *session) ([]map[string]any, string) {
		data, why := s.buy(name).final()
		return []map[string]any{data}, why
	}
}
