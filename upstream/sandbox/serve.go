// Serving of a request, from its route to its reply.

package sandbox

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"perennial/ledger/connlimit"
)

const (
	routeOrders = "POST /api/v1/orders"
	routeRenew  = "POST /api/v1/proxies/renew"
	apiPrefix   = "/api/v1/"
)

// route describes the endpoint for a method and a path. The name is empty if the API has no
// such endpoint.
type route struct {
	name, pattern, scope, id string
	read                     func(*reads, *request) ([]byte, *refusal) // set for a GET endpoint
}

var fixedRoutes = map[string]route{
	"GET /api/v1/account": {scope: "account:read", read: (*reads).account},
	"GET /api/v1/wallet":  {scope: "wallet:read", read: (*reads).wallet},
	"GET /api/v1/offers":  {scope: "offers:read", read: (*reads).listOffers},
	"GET /api/v1/orders":  {scope: "orders:read", read: (*reads).listOrders},
	"GET /api/v1/proxies": {scope: "proxies:read", read: (*reads).listProxies},
	routeOrders:           {scope: "orders:write"},
	routeRenew:            {scope: "proxies:write"},
}

var itemRoutes = map[string]route{
	"/api/v1/orders/":  {pattern: "/api/v1/orders/{order_no}", scope: "orders:read", read: (*reads).order},
	"/api/v1/proxies/": {pattern: "/api/v1/proxies/{proxy_id}", scope: "proxies:read", read: (*reads).proxy},
}

func findRoute(method, path string) route {
	name := method + " " + path
	if rt, ok := fixedRoutes[name]; ok {
		rt.name, rt.pattern = name, path
		return rt
	}
	for prefix, rt := range itemRoutes {
		rest, ok := strings.CutPrefix(path, prefix)
		id, err := url.PathUnescape(rest)
		if ok && method == http.MethodGet && rest != "" && !strings.Contains(rest, "/") && err == nil {
			rt.name, rt.id = "GET "+rt.pattern, id
			return rt
		}
	}
	return route{}
}

// pathOf returns the escaped path as sent and signed, even if the request line has an absolute
// URL.
func pathOf(r *http.Request) string {
	if !strings.HasPrefix(r.RequestURI, "/") && r.URL.Host != "" {
		return r.URL.EscapedPath()
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	return path
}

const (
	maxRequestBody    = 1 << 20 // assumed
	maxIdempotencyKey = 255     // bytes; assumed
)

func (r *request) idempotencyKey() string { return r.http.Header.Get("Idempotency-Key") }

// front receives the requests. It authenticates them, applies faults and sends the replies.
type front struct {
	*world

	quirks *quirks
	reads  *reads
	writes *writes
}

func (s *front) handler(env string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		path := pathOf(hr)
		r := &request{http: hr, env: env, path: path, rt: findRoute(hr.Method, path), claimed: s.claimedAccount(hr), limitedConn: connlimit.Of(hr)}
		var no *refusal
		if r.body, no = readBody(hr); no != nil {
			s.conclude(w, r, &fault{}, s.refused(no)) // authentication is not possible, because the signed bytes are unknown
			return
		}
		r.limitedConn.Enter()
		defer r.limitedConn.Leave()
		if s.blocked(w, r) {
			return
		}
		s.delay(r)
		f, shape := s.takeFault(r)
		s.handle(w, r, f, shape)
	})
}

// maxDrained limits the bytes of a body that are read and discarded. If they were not
// read, a client that is still sending would not see the reply.
const maxDrained = 64 << 20

// readBody refuses a body that is too long or unreadable. It allocates memory for the received
// bytes, not for the announced length.
func readBody(r *http.Request) ([]byte, *refusal) {
	if r.ContentLength > maxRequestBody {
		return nil, tooLarge(r)
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(io.LimitReader(r.Body, maxRequestBody+1)); err != nil {
		no := invalid("body", "could not be read")
		no.status = http.StatusBadRequest
		return nil, no
	}
	if body.Len() > maxRequestBody {
		return nil, tooLarge(r)
	}
	return body.Bytes(), nil
}

// tooLarge returns the refusal of a body that is too large. It first reads and discards the
// body, unless the client sent Expect: 100-continue.
func tooLarge(r *http.Request) *refusal {
	if r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrained)
	}
	no := invalid("body", "is over 1 MiB")
	no.status = http.StatusRequestEntityTooLarge
	return no
}

// claimedAccount returns the owner of the App ID without verification, for the filters of
// faults and delays.
func (s *front) claimedAccount(r *http.Request) string {
	if key := s.st.keys[single(r.Header, headerAppID)]; key != nil {
		return key.space.accountID
	}
	return ""
}

// handle executes a request and waits until the change is durable. It then sends the reply or
// applies a fault.
func (s *front) handle(w http.ResponseWriter, r *request, f *fault, shape renewalFault) {
	if !f.executes() && f.Fault != "unresolved_record" {
		if f.Fault != "hang" {
			s.conclude(w, r, f, reply{})
			return
		}
		if s.hang(w, r, f); r.http.Context().Err() != nil {
			return
		}
	}
	out := s.perform(r, f, shape)
	if err := s.durable.wait(max(out.seq, r.seq)); err != nil {
		s.log.WithError(err).Error("sandbox cannot make its state durable")
		reset(w)
		return
	}
	if f.Fault == "hang" && f.executes() {
		s.hang(w, r, f)
	}
	if out.settle != nil {
		out.settle()
	}
	s.conclude(w, r, f, out)
}

func (s *front) perform(r *request, f *fault, shape renewalFault) reply {
	no := s.authenticate(r)
	post := r.http.Method == http.MethodPost
	switch {
	case no != nil:
	case r.env == envProduction && r.http.Header[scenarioHeader] != nil:
		no = invalid(scenarioHeader, "is refused in production")
	case r.rt.name == "":
		no = refuse("unsupported_operation", "The operation is not part of the customer API.")
	case post:
		no = checkHeaders(r.http.Header)
	}
	if no != nil {
		return s.refused(no)
	}
	s.st.mu.Lock()
	defer s.st.mu.Unlock()
	s.writes.advance()
	var out reply
	if post {
		out = s.write(r, f, shape)
	} else {
		r.asOf = s.moods.asOf(s.now())
		data, no := r.rt.read(s.reads, r)
		if out = s.ok(data); no != nil {
			out = s.refused(no)
		}
	}
	if out.seq == 0 {
		out.seq = s.durable.last() // a crash must not undo what the reply shows
	}
	return out
}

// checkHeaders requires one idempotency key and a JSON body. The key must be printable ASCII,
// and the Content-Type may be missing (both assumed).
func checkHeaders(h http.Header) *refusal {
	keys := h["Idempotency-Key"]
	if len(keys) == 0 || keys[0] == "" {
		return refuse("idempotency_key_required", "The Idempotency-Key header is missing.")
	}
	if len(keys) > 1 || !printable(keys[0], maxIdempotencyKey) {
		return invalid("Idempotency-Key", "must stand once, with at most 255 bytes of printable ASCII")
	}
	if !saysJSON(h.Get("Content-Type")) {
		return invalid("Content-Type", "must be application/json")
	}
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return invalid("Content-Encoding", "is not supported")
	}
	return nil
}

func saysJSON(contentType string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	charset := params["charset"]
	return contentType == "" || err == nil && media == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

// printable reports whether text is 1 to limit bytes of ASCII without control characters.
func printable(text string, limit int) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && len(text) <= limit
}

// write looks for the record of the key before it checks balance, stock and limits (assumed). A
// refused request leaves no record, so its key may be used again (assumed).
func (s *front) write(r *request, f *fault, shape renewalFault) reply {
	key, hash := r.idempotencyKey(), bodyHash(r.path, r.body)
	interrupt := f.Fault == "unresolved_record"
	if interrupt {
		s.writes.interrupt(r.key.space, key, hash)
	}
	if status := *r.key.space.status; status != statusActive { // assumed
		return s.refused(refuse("insufficient_scope", "The account is "+status+"."))
	}
	if no := s.refusesEarly(r); no != nil {
		return s.refused(no)
	}
	if out, known := s.writes.known(r, key, hash); known {
		return out
	}
	var no *refusal
	out, ch := reply{}, s.newChange()
	switch {
	case interrupt && !f.executes():
	case r.rt.name == routeOrders:
		out, no = s.writes.createOrder(r, ch)
	default:
		out, no = s.writes.renew(r, ch, shape)
	}
	if no != nil {
		return s.refused(no)
	}
	out.settle = s.writes.complete(r, key, hash, out, interrupt, ch)
	out.seq = s.submit(ch)
	return out
}

// send sends a reply. A non-empty retryAfter from a fault replaces the reply's own value,
// unless the quirk of wild Retry-After values is active. From now on, the connection may be
// closed in favour of a new client. A client that does not read the reply must not occupy a
// connection.
func (s *front) send(w http.ResponseWriter, r *request, out reply, retryAfter string) {
	r.limitedConn.Leave()
	out = s.quirks.apply(r, out)
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(out.body))}
	if retryAfter == "" || s.moods.has(MoodWildRetryAfter) {
		retryAfter = out.retryAfter
	}
	if retryAfter != "" {
		h["Retry-After"] = []string{retryAfter}
	}
	w.WriteHeader(out.status)
	_, _ = w.Write(out.body)
}

// decodeBody decodes a body that is one JSON object into v. Its refusals contain the path of
// the field. It refuses duplicate and unknown names, because a misspelt field must not count as
// absent (assumed). Integers must have no fraction, and null means absent (assumed). Names are
// case-sensitive, except in the control interface.
func decodeBody(body []byte, v any, options ...jsonv2.Options) *refusal {
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return invalid("body", "must be a JSON object")
	}
	err := jsonv2.Unmarshal(body, v, append(options, jsonv2.RejectUnknownMembers(true))...)
	if err == nil {
		return nil
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return invalid(fieldPath(syntax.JSONPointer), "appears twice")
	}
	wrong, ok := errors.AsType[*jsonv2.SemanticError](err)
	switch {
	case !ok:
		return invalid("body", "is not valid JSON")
	case errors.Is(err, jsonv2.ErrUnknownName):
		return invalid(fieldPath(wrong.JSONPointer), "is not a known field")
	}
	return invalid(fieldPath(wrong.JSONPointer), "must be %s", kindWord(wrong.GoType))
}

// fieldPath converts a JSON pointer to the provider's notation, such as items.0.quantity. It
// shortens long names.
func fieldPath(p jsontext.Pointer) string {
	var path []string
	for name := range p.Tokens() {
		path = append(path, shorten(name))
	}
	return strings.Join(path, ".")
}

func shorten(name string) string {
	const enough = 64
	if len(name) > enough {
		name = strings.ToValidUTF8(name[:enough], "") + "…"
	}
	return cmp.Or(name, `""`)
}

var kindWords = map[reflect.Kind]string{reflect.String: "a string", reflect.Slice: "an array", reflect.Struct: "a JSON object",
	reflect.Map: "a JSON object", reflect.Bool: "true or false", reflect.Float64: "a number"}

func kindWord(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return cmp.Or(kindWords[t.Kind()], "an integer")
}
