package sandbox

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	amount "github.com/shopspring/decimal"

	"perennial/upstream"
)

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

func (p *proxy) host() string { return p.ID + ".proxy.invalid" }

// item returns a proxy with fictitious credentials, for which tests search logs and files.
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

func parseQuery(raw string) url.Values {
	q, _ := url.ParseQuery(upstream.CanonicalQuery(raw)) // the canonical query has only valid escapes
	return q
}

func positive(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n > 0 && text[0] != '+'
}

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

// readToken returns the offset in a page token. It accepts only a token exactly as the token
// method returned it. It therefore compares the encoded text, because base64 ignores line feeds
// and trailing bits.
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

// listOffers lists the offers that the account can buy in the quantity and for the duration of
// the filter. Prices depend on the quantity and the duration, and apply to the base duration
// (assumed).
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

// reply is one envelope for a response. Before the reply is sent, the change with number seq
// must be durable, and the function settle must be called.
type reply struct {
	status int
	code   string
	body   []byte
	seq    uint64
	settle func()

	retryAfter string // for rate_limited
	replayed   bool   // repeats the first reply to the same idempotency key
}

// statuses gives the HTTP status of each code. The API document gives 201, 409, 422 and 429.
// The other statuses are assumed.
var statuses = map[string]int{
	"ok": 200, "invalid_signature": 401, "stale_timestamp": 401, "replayed_nonce": 401,
	"idempotency_key_required": 400, "idempotency_key_conflict": 409, "idempotency_processing": 409,
	"idempotency_replay_failed": 409, "idempotency_unresolved": 409, "insufficient_scope": 403,
	"api_key_revoked": 403, "validation_error": 422, "offer_not_found": 404, "order_not_found": 404,
	"proxy_not_found": 404, "insufficient_wallet_balance": 402, "invalid_page_token": 400, "rate_limited": 429,
	"unsupported_operation": 404, "proxy_endpoint_unavailable": 503, "operation_failed": 422,
}

func statusOf(code string) int { return cmp.Or(statuses[code], http.StatusBadRequest) }

// envelope returns a reply with an envelope. The data is an empty object if data is nil.
func (s *world) envelope(status int, code, message string, data []byte) reply {
	if data == nil {
		data = []byte("{}")
	}
	body := object("success", code == "ok", "code", code, "message", message, "data", rawJSON(data), "timestamp", s.now(),
		"trace_id", s.tracePrefix+strconv.FormatUint(s.traces.Add(1), 36))
	return reply{status: status, code: code, body: body}
}

func (s *world) ok(data []byte) reply { return s.envelope(http.StatusOK, "ok", "ok", data) }

type refusal struct {
	code, message, field string

	status     int    // 0: the usual status of the code
	retryAfter string // for rate_limited
}

func (e *refusal) Error() string { return e.field + ": " + e.message }

func refuse(code, message string) *refusal { return &refusal{code: code, message: message} }

func invalid(field, format string, args ...any) *refusal {
	return &refusal{code: "validation_error", field: field, message: fmt.Sprintf(format, args...)}
}

// refused returns the reply for a refusal. The structure of errors is assumed.
func (s *world) refused(no *refusal) reply {
	message, data := no.message, []byte(nil)
	if no.field != "" {
		message = "The request is not valid."
		data, _ = json.Marshal(map[string]any{"errors": map[string][]string{no.field: {no.message}}})
	}
	out := s.envelope(cmp.Or(no.status, statusOf(no.code)), no.code, message, data)
	out.retryAfter = no.retryAfter
	return out
}

type rawJSON []byte

// object encodes a JSON object. The members alternate between names and values. The zero time
// becomes null.
func object(members ...any) rawJSON {
	b := make(rawJSON, 0, 512)
	for pair := range slices.Chunk(members, 2) {
		name, _ := pair[0].(string)
		b = append(append(append(b, `,"`...), name...), `":`...)
		b = appendValue(b, pair[1])
	}
	b[0] = '{'
	return append(b, '}')
}

func array(items []rawJSON) rawJSON {
	b := rawJSON{'['}
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, ']')
}

func appendValue(b rawJSON, v any) rawJSON {
	switch v := v.(type) {
	case rawJSON:
		return append(b, v...)
	case string:
		quoted, _ := jsontext.AppendQuote(b, v)
		return quoted
	case int64:
		return strconv.AppendInt(b, v, 10)
	case time.Time:
		if v.IsZero() {
			return append(b, "null"...)
		}
		return append(v.UTC().AppendFormat(append(b, '"'), time.RFC3339), '"')
	}
	other, _ := jsonv2.Marshal(v) // numbers, strings and lists
	return append(b, other...)
}

func decimal(cents int64) string { return amount.New(cents, -2).StringFixed(2) }
