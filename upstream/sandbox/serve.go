package sandbox

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const maxRequestBody = 1 << 20 // assumed

// Routes of the API.
const (
	routeOrders = "POST /api/v1/orders"
	routeRenew  = "POST /api/v1/proxies/renew"
	apiPrefix   = "/api/v1/"
)

// route is what a method and path lead to. name is empty for what the API does
// not have.
type route struct{ name, pattern, scope, id string }

var fixedRoutes = map[string]route{
	"GET /api/v1/account": {scope: "account:read"},
	"GET /api/v1/wallet":  {scope: "wallet:read"},
	"GET /api/v1/offers":  {scope: "offers:read"},
	"GET /api/v1/orders":  {scope: "orders:read"},
	"GET /api/v1/proxies": {scope: "proxies:read"},
	routeOrders:           {scope: "orders:write"},
	routeRenew:            {scope: "proxies:write"},
}

func findRoute(method, path string) route {
	name := method + " " + path
	if rt, ok := fixedRoutes[name]; ok {
		rt.name, rt.pattern = name, path
		return rt
	}
	for _, c := range [...]struct{ prefix, pattern, scope string }{
		{"/api/v1/orders/", "/api/v1/orders/{order_no}", "orders:read"},
		{"/api/v1/proxies/", "/api/v1/proxies/{proxy_id}", "proxies:read"},
	} {
		rest, ok := strings.CutPrefix(path, c.prefix)
		id, err := url.PathUnescape(rest)
		if ok && method == http.MethodGet && rest != "" && !strings.Contains(rest, "/") && err == nil {
			return route{name: "GET " + c.pattern, pattern: c.pattern, scope: c.scope, id: id}
		}
	}
	return route{}
}

// outcome is what a POST came to. A refusal executed nothing and leaves no
// record: its key stays free (assumed).
type outcome struct {
	reply    reply
	executed bool
	change   *change
}

func refused(r reply) outcome { return outcome{reply: r} }

func (r *request) idempotencyKey() string { return r.http.Header.Get("Idempotency-Key") }

// handler serves one environment.
func (s *Server) handler(env string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		path, _, _ := strings.Cut(hr.RequestURI, "?")
		r := &request{http: hr, env: env, path: path, rt: findRoute(hr.Method, path)}
		var err error
		if r.body, err = readBody(w, hr); err != nil {
			s.send(w, r, s.invalid("body", "could not be read or is over 1 MiB"), nil)
			return
		}
		f, shape := s.faults.take(env, s.claimedAccount(hr), hr.Method, path, r.rt)
		s.answer(w, r, f, shape)
	})
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	if n := r.ContentLength; n > 0 && n <= maxRequestBody {
		body := make([]byte, n)
		_, err := io.ReadFull(r.Body, body)
		return body, err
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBody))
}

// claimedAccount serves the faults' filter before anything is verified.
func (s *Server) claimedAccount(r *http.Request) string {
	if key := s.st.keys[r.Header.Get("X-API-AppId")]; key != nil {
		return key.space.accountID
	}
	return ""
}

// answer carries the request out, unless a fault says otherwise, waits until
// what was done is durable, and only then replies or misbehaves.
func (s *Server) answer(w http.ResponseWriter, r *request, f *fault, shape renewalFault) {
	if f != nil && !f.executes() && f.Fault != "unresolved_record" {
		if f.Fault != "hang" {
			s.misbehave(w, r, f, reply{})
			return
		}
		if s.hang(w, r, f); r.http.Context().Err() != nil {
			return
		}
	}
	out := s.perform(r, f, shape)
	if err := s.durable.wait(out.seq); err != nil {
		s.log.WithError(err).Error("sandbox cannot make its state durable")
		reset(w)
		return
	}
	if f != nil && f.Fault == "hang" && f.executes() {
		s.hang(w, r, f)
	}
	if out.settle != nil {
		out.settle()
	}
	if f == nil || f.Fault == "hang" {
		s.send(w, r, out, nil)
		return
	}
	s.misbehave(w, r, f, out)
}

// perform authenticates and runs one request.
func (s *Server) perform(r *request, f *fault, shape renewalFault) reply {
	if out, ok := s.authenticate(r); !ok {
		return out
	}
	if r.rt.name == "" {
		return s.refuse("unsupported_operation", "The operation is not part of the customer API.")
	}
	post := r.http.Method == http.MethodPost
	if post && r.idempotencyKey() == "" {
		return s.refuse("idempotency_key_required", "The Idempotency-Key header is missing.")
	}
	s.st.mu.Lock()
	defer s.st.mu.Unlock()
	s.advance()
	if post {
		return s.write(r, f, shape)
	}
	out := s.read(r)
	out.seq = s.durable.last() // nothing is shown that a crash could take back
	return out
}

func (s *Server) read(r *request) reply {
	switch r.rt.name {
	case "GET /api/v1/account":
		return s.account(r)
	case "GET /api/v1/wallet":
		return s.wallet(r)
	case "GET /api/v1/offers":
		return s.listOffers(r)
	case "GET /api/v1/orders":
		return s.listOrders(r)
	case "GET /api/v1/proxies":
		return s.listProxies(r)
	case "GET /api/v1/orders/{order_no}":
		return s.order(r)
	}
	return s.proxy(r)
}

// write looks the key up first, before balances, stock and limits (assumed).
func (s *Server) write(r *request, f *fault, shape renewalFault) reply {
	key := r.idempotencyKey()
	if len(key) > 255 {
		return s.invalid("Idempotency-Key", "is longer than 255 bytes")
	}
	hash := bodyHash(r.path, r.body)
	interrupt := f != nil && f.Fault == "unresolved_record"
	if interrupt {
		s.interrupt(r.key.space, key, hash)
	}
	if out, ok := s.known(r, key, hash); ok {
		out.seq = s.durable.last()
		return out
	}
	out := outcome{change: s.newChange()}
	switch {
	case interrupt && !f.executes():
	case r.rt.name == routeOrders:
		out = s.createOrder(r)
	default:
		out = s.renew(r, shape)
	}
	if !out.executed && (!interrupt || f.executes()) {
		out.reply.seq = s.durable.last()
		return out.reply
	}
	out.reply.settle = s.complete(r, key, hash, out.reply, interrupt, out.change)
	out.reply.seq = s.submit(out.change)
	return out.reply
}

// hang holds the reply back until its time is over, the client has gone or the
// server closes. The record stays in processing meanwhile.
func (s *Server) hang(w http.ResponseWriter, r *request, f *fault) {
	wait := time.Duration(f.Seconds * float64(time.Second))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.http.Context().Done():
	case <-s.closing:
	}
}

// misbehave replies as the fault says.
func (s *Server) misbehave(w http.ResponseWriter, r *request, f *fault, out reply) {
	s.counts.add(r.rt.pattern, r.http.Method, "fault:"+f.Fault)
	switch f.Fault {
	case "drop_before", "drop_after":
		reset(w)
	case "unresolved_record":
		if out.settle == nil { // refused, or the record was there before
			s.send(w, r, out, f)
			return
		}
		reset(w)
	case "error_before", "error_after":
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
	case "garbage":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"success":tru`))
	case "html":
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<!doctype html><title>403</title><h1>Request blocked</h1>"))
	case "truncate":
		truncate(w, out)
	case "code":
		status, message := f.HTTPStatus, f.Message
		if status == 0 {
			status = statusOf(f.Code)
		}
		if message == "" {
			message = "Injected by the sandbox."
		}
		s.send(w, r, s.envelope(status, f.Code, message, nil), f)
	}
}

// send writes a reply and counts it.
func (s *Server) send(w http.ResponseWriter, r *request, out reply, f *fault) {
	if f == nil {
		s.counts.add(r.rt.pattern, r.http.Method, out.code)
	}
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(out.body))}
	if f != nil && f.RetryAfter != "" {
		h["Retry-After"] = []string{f.RetryAfter}
	}
	w.WriteHeader(out.status)
	_, _ = w.Write(out.body)
}

// truncate promises the whole body, sends half and closes.
func truncate(w http.ResponseWriter, out reply) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(out.body)))
	w.WriteHeader(out.status)
	_, _ = w.Write(out.body[:len(out.body)/2])
	if conn, buf, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = buf.Flush()
		_ = conn.Close()
	}
}

// reset ends the connection with a TCP reset instead of an answer.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // net/http's own way to end a connection
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
