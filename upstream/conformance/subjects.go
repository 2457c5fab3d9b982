// The objects that field checks look at.

package conformance

// subject is what field checks look at: objects of one kind, with the reason
// when there are none.
type subject func(*session) (objects []map[string]any, why string)

// replyOf gives a successful reply of an endpoint, or why there is none.
func (s *session) replyOf(name string) (reply, string) {
	switch name {
	case "order_create":
		b := s.buy("plain")
		return b.created, unlessSent(b.created, b.why)
	case "order_detail":
		return s.anyOrder()
	case "proxy_detail":
		return s.anyProxy()
	case "renew":
		r := s.renew("one")
		return r.reply, unlessSent(r.reply, r.why)
	}
	for _, e := range endpoints {
		if e.name == name {
			return memo(s, "reply "+name, func() reply { return s.get(e.path) }), ""
		}
	}
	return reply{}, "no such endpoint"
}

// unlessSent drops the reason when there was a reply to look at after all.
func unlessSent(r reply, why string) string {
	if r.status != 0 || r.err != nil {
		return ""
	}
	return why
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
	id := ""
	if ids := s.ownProxies(); len(ids) > 0 {
		id = ids[0]
	} else {
		list, _ := s.replyOf("proxy_list")
		if _, items, _ := onlyArray(list.data()); len(items) > 0 {
			id = word(items[0], "proxy_id")
		}
	}
	if id == "" {
		return reply{}, "there is no proxy"
	}
	return memo(s, "a proxy", func() reply { return s.get("/api/v1/proxies/" + rfc3986(id)) }), ""
}

// ownProxies are the ids that the run bought with its plain order.
func (s *session) ownProxies() []string {
	var ids []string
	for _, p := range things(s.buy("plain").last().data(), "proxies") {
		if id := word(p, "proxy_id"); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

func envelopeOf(name string) subject {
	return func(s *session) ([]map[string]any, string) {
		r, why := s.replyOf(name)
		if why == "" && r.envelope == nil {
			return []map[string]any{{}}, ""
		}
		return []map[string]any{r.envelope}, why
	}
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
func listed(name string) subject {
	return func(s *session) ([]map[string]any, string) {
		if name == "order_list" || name == "proxy_list" {
			s.buy("plain") // so that there is something to see where it may be bought
		}
		r := memo(s, "listed "+name, func() reply {
			return s.get(map[string]string{"offers": "/api/v1/offers", "order_list": "/api/v1/orders", "proxy_list": "/api/v1/proxies"}[name])
		})
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
