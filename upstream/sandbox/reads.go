// The GET endpoints: single resources, lists, page tokens and filters.

package sandbox

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"perennial/upstream"
)

// reads serves the GET endpoints.
type reads struct {
	*world
}

func (s *reads) account(r *request) ([]byte, *refusal) {
	sp := r.key.space
	data, _ := json.Marshal(map[string]any{"account_id": sp.accountID, "email": sp.email, "email_verified": true,
		"status": *sp.status, "created_at": "2026-01-01T00:00:00Z"})
	return data, nil
}

func (s *reads) wallet(r *request) ([]byte, *refusal) {
	sp := r.key.space
	balance := *sp.past.asOf(r.asOf, &sp.balance)
	data, _ := json.Marshal(map[string]any{"environment": sp.env, "currency": sp.currency, "balance_cents": balance,
		"balance": decimal(balance), "frozen_cents": sp.frozen, "cash_value": sp.env == envProduction})
	return data, nil
}

func (s *reads) order(r *request) ([]byte, *refusal) {
	o := s.st.orders[r.rt.id]
	if o != nil {
		o = o.past.asOf(r.asOf, o)
	}
	if o == nil || o.space != r.key.space {
		return nil, refuse("order_not_found", "The order is unknown.")
	}
	return s.orderDetail(o), nil
}

func (s *reads) proxy(r *request) ([]byte, *refusal) {
	p := s.st.proxies[r.rt.id]
	if p != nil {
		p = p.past.asOf(r.asOf, p)
	}
	if p == nil || p.space != r.key.space {
		return nil, refuse("proxy_not_found", "The proxy is unknown.")
	}
	return p.item(), nil
}

// status returns the order status. The API document does not give the final statuses, so
// their names are assumed. Clients decide by delivery and refund.
func (o *order) status() string {
	return [...]string{"paid", "procuring", "completed", "refunded"}[o.Stage]
}

func (o *order) paymentStatus() string {
	return [...]string{"paid", "paid", "paid", "refunded"}[o.Stage]
}

func (o *order) summary() []any {
	return []any{"order_no", o.No, "status", o.status(), "payment_status", o.paymentStatus(), "payment_method", "wallet", "currency", o.space.currency,
		"subtotal_cents", o.Total, "total_cents", o.Total, "total", decimal(o.Total), "created_at", o.Created}
}

// orderDetail returns the detail of an order, with the proxies that were delivered.
func (s *reads) orderDetail(o *order) []byte {
	done := o.Stage == stageCompleted
	var poll, refund any
	switch o.Stage {
	case stagePaid, stageProcuring:
		poll = s.opts.PollAfterSeconds
	case stageRefunded:
		refund = object("status", "completed", "destination", "wallet", "amount_cents", o.Total, "currency", o.space.currency, "refunded_at", o.RefundedAt)
	case stageCompleted:
	}
	proxies := make([]rawJSON, len(o.proxies))
	for i, p := range o.proxies {
		proxies[i] = p.item()
	}
	return object(append(o.summary(), "items", o.Lines,
		"delivery", object("expected_count", o.Quantity, "delivered_count", o.Delivered, "complete", done, "available", done),
		"poll_after_seconds", poll, "refund", refund, "proxies", array(proxies))...)
}

// host returns a fictitious host name that does not resolve.
func (p *proxy) host() string { return p.ID + ".proxy.invalid" }

// item returns a proxy with fictitious credentials. Tests search logs and files for these
// credentials.
func (p *proxy) item() rawJSON {
	host, user, password := p.host(), "user-"+p.ID, "pass-"+p.ID+"-secret"
	return object("proxy_id", p.ID, "status", "active", "host", host, "port", int64(1080), "protocol", p.offer.Protocol,
		"username", user, "password", password, "connection", host+":1080:"+user+":"+password,
		"socks5_uri", "socks5://"+user+":"+password+"@"+host+":1080", "ip_type", p.offer.IPType, "country_code", p.offer.CountryCode,
		"region", p.offer.Region, "line_name", p.offer.LineName, "starts_at", p.Starts, "expires_at", p.Expires)
}

// pageTokenLife is how long a page token is valid (assumed).
const pageTokenLife = 15 * time.Minute

const (
	maxPageSize     = 200 // documented for offers, assumed for orders and proxies
	defaultPageSize = 50  // assumed
)

// parseQuery decodes a query in its signed form. Get returns the first value of a repeated key.
func parseQuery(raw string) url.Values {
	q, _ := url.ParseQuery(upstream.CanonicalQuery(raw)) // the canonical query has only valid escapes
	return q
}

func positive(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n > 0 && text[0] != '+'
}

// window is the requested part of a list.
type window struct {
	resource, filters string
	size, offset      int
}

func (s *reads) window(r *request, q url.Values, resource, filters string) (window, *refusal) {
	w := window{resource: resource, filters: filters, size: defaultPageSize}
	asked := q.Has("page_size")
	if asked {
		n, ok := positive(q.Get("page_size"))
		if !ok || n > maxPageSize {
			return w, invalid("page_size", "must be 1 to 200")
		}
		w.size = int(n)
	}
	if most := s.moods.largestPage(resource); most > 0 && w.size > most {
		if asked && s.moods.fixed(3) != 0 { // with other seeds the sandbox reduces the size
			return w, invalid("page_size", "is over the greatest")
		}
		w.size = most
	}
	token := q.Get("page_token")
	if token == "" {
		return w, nil
	}
	var ok bool
	if w.offset, ok = s.readToken(r.key.space, w, token); !ok || s.moods.draw(MoodShortTokens, 4) {
		return w, refuse("invalid_page_token", "The page token is expired, altered or of another list.")
	}
	return w, nil
}

// token returns a page token for an offset. The token is valid only for the account,
// environment, resource, filters and page size of the request, and until its expiry.
func (s *reads) token(sp *space, w window, offset int) string {
	payload := strconv.Itoa(offset) + "." + strconv.FormatInt(s.now().Add(pageTokenLife).Unix(), 36)
	return base64.RawURLEncoding.EncodeToString(append([]byte(payload+"."), s.tokenMAC(sp, w, payload)...))
}

func (s *reads) tokenMAC(sp *space, w window, payload string) []byte {
	mac := hmac.New(sha256.New, s.st.secret)
	for _, part := range []string{sp.id(), w.resource, w.filters, strconv.Itoa(w.size), payload} {
		mac.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return mac.Sum(nil)[:16]
}

// readToken returns the offset in a page token. It accepts only exact results of token. It
// therefore compares the encoded text, because base64 ignores line feeds and trailing bits.
func (s *reads) readToken(sp *space, w window, token string) (int, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != token || len(raw) < 18 || raw[len(raw)-17] != '.' {
		return 0, false
	}
	payload, mac := string(raw[:len(raw)-17]), raw[len(raw)-16:]
	if !hmac.Equal(mac, s.tokenMAC(sp, w, payload)) {
		return 0, false
	}
	offsetText, expiryText, _ := strings.Cut(payload, ".")
	offset, errOffset := strconv.Atoi(offsetText)
	expiry, errExpiry := strconv.ParseInt(expiryText, 36, 64)
	return offset, errOffset == nil && errExpiry == nil && s.now().Unix() <= expiry
}

// page returns one page of a list. item returns nil for a hidden item. A page token contains an
// offset in the whole list, so that a hidden item moves no other item to another page.
func (s *reads) page(r *request, w window, total int, item func(i int) rawJSON) []byte {
	items, more, token := make([]rawJSON, 0, max(min(w.size, total-w.offset), 0)), false, any(nil)
	for i := w.offset; i < total && !more; i++ {
		shown := item(i)
		switch {
		case shown == nil:
		case len(items) == w.size:
			more, token = true, s.token(r.key.space, w, i)
		default:
			items = append(items, shown)
		}
	}
	return object(w.resource, array(items), "page_size", int64(w.size), "has_more", more, "next_page_token", token)
}

func (s *reads) listProxies(r *request) ([]byte, *refusal) {
	list := r.key.space.proxies
	return s.list(r, "proxies", len(list), func(i int) rawJSON {
		if p := list[i].past.asOf(r.asOf, list[i]); p != nil {
			return p.item()
		}
		return nil
	})
}

func (s *reads) listOrders(r *request) ([]byte, *refusal) {
	list := r.key.space.orders
	return s.list(r, "orders", len(list), func(i int) rawJSON {
		if o := list[i].past.asOf(r.asOf, list[i]); o != nil {
			return object(o.summary()...)
		}
		return nil
	})
}

func (s *reads) list(r *request, resource string, total int, item func(i int) rawJSON) ([]byte, *refusal) {
	w, no := s.window(r, parseQuery(r.http.URL.RawQuery), resource, "")
	if no != nil {
		return nil, no
	}
	return s.page(r, w, total, item), nil
}

// listOffers omits offers that the account cannot buy in the quantity or duration of the
// filter. Prices depend on both and apply to the base duration (assumed).
func (s *reads) listOffers(r *request) ([]byte, *refusal) {
	q := parseQuery(r.http.URL.RawQuery)
	want := offerQuery{country: cmp.Or(q.Get("country_code"), q.Get("country")), region: cmp.Or(q.Get("region"), q.Get("city")), line: q.Get("line"), ipType: q.Get("ip_type")}
	for _, f := range []struct {
		name string
		into *int64
	}{{"quantity", &want.quantity}, {"duration_days", &want.days}} {
		if q.Has(f.name) {
			n, ok := positive(q.Get(f.name))
			if !ok {
				return nil, invalid(f.name, "must be a positive integer")
			}
			*f.into = n
		}
	}
	filters, _ := json.Marshal([]any{want.country, want.region, want.line, want.ipType, want.quantity, want.days})
	w, no := s.window(r, q, "offers", string(filters))
	if no != nil {
		return nil, no
	}
	list, now := s.st.offers, s.now()
	return s.page(r, w, len(list), func(i int) rawJSON {
		o := s.moods.renamed(list[i], now)
		if !want.matches(o, s.st.stock[r.env+"/"+o.OfferCode]) {
			return nil
		}
		return r.key.space.offer(o, want.quantity, want.days)
	}), nil
}

type offerQuery struct {
	country, region, line, ipType string
	quantity, days                int64
}

func (w offerQuery) matches(o *FixtureOffer, stock int64) bool {
	is := func(want, have string) bool { return want == "" || strings.EqualFold(want, have) }
	return is(w.country, o.CountryCode) && is(w.region, o.Region) && is(w.line, o.LineName) && is(w.ipType, o.IPType) &&
		stock > 0 && w.quantity <= stock && (o.MaxQuantity == 0 || w.quantity <= o.MaxQuantity) &&
		(w.days == 0 || slices.Contains(o.DurationDays, w.days))
}

func (sp *space) offer(o *FixtureOffer, quantity, days int64) rawJSON {
	unit := sp.unitPrice(o, quantity, days)
	return object("offer_code", o.OfferCode, "name", o.Name, "country_code", o.CountryCode, "country_name", o.CountryName, "region", o.Region,
		"line_name", o.LineName, "ip_type", o.IPType, "protocol", o.Protocol, "unit_price_cents", unit, "unit_price", decimal(unit),
		"base_duration_days", o.BaseDurationDays, "duration_days", o.DurationDays, "max_quantity", cmp.Or(o.MaxQuantity, maxOrderQuantity), "cidrs", o.CIDRs)
}
