package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"perennial/ledger/connlimit"
)

// Options configure a sandbox.
type Options struct {
	Listen           string           // address of the sandbox environment; default: 127.0.0.1:0
	ListenProduction string           // address of the production environment; default: 127.0.0.1:0
	Control          string           // address of the control interface, loopback only; default: 127.0.0.1:0
	DB               string           // an SQLite file; "" or ":memory:" keeps the state in memory
	Fixture          Fixture          // the initial state
	Charges          string           // the referee's file; "" keeps the lines in memory
	ChargesNoSync    bool             // do not sync the referee's file; for benchmarks
	Clock            func() time.Time // default: the system's clock; POST /clock adds an offset
	Log              *logrus.Logger   // default: no log

	MaxConnections     int     // limit per environment; a further connection replaces the connection with the longest idle time; default: 4096
	RequestsPerSecond  float64 // rate limit of each key (extension); default: no limit; POST /rate changes it
	RefuseScriptAgents bool    // refuse the default User-Agents of scripts (extension); POST /policy changes it

	Moods    []string // names of active quirks, or "all" (extension); default: no quirks; POST /moods changes them
	MoodSeed uint64   // seed of the random numbers for the quirks

	AsyncDelay       time.Duration // time to completion for success, rejected and production orders; partial orders may take longer; default: 1 s
	DelayedDelay     time.Duration // time to completion for delayed orders; default: 2 s
	PollAfterSeconds int64         // poll_after_seconds of unfinished orders; default: 1
}

func (o *Options) fillDefaults() {
	for _, address := range []*string{&o.Listen, &o.ListenProduction, &o.Control} {
		*address = cmp.Or(*address, "127.0.0.1:0")
	}
	if o.DB == ":memory:" {
		o.DB = ""
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = logrus.New()
		o.Log.SetOutput(io.Discard)
	}
	o.MaxConnections = cmp.Or(max(o.MaxConnections, 0), defaultMaxConnections)
	o.AsyncDelay = cmp.Or(max(o.AsyncDelay, 0), time.Second)
	o.DelayedDelay = cmp.Or(max(o.DelayedDelay, 0), 2*time.Second)
	o.PollAfterSeconds = cmp.Or(max(o.PollAfterSeconds, 0), 1)
}

// world is the simulated provider, which all parts of the server share.
type world struct {
	opts    Options
	log     *logrus.Logger
	clock   func() time.Time
	offset  atomic.Int64 // seconds that POST /clock adds
	st      *state
	db      *store // nil if the state is in memory
	referee *referee
	durable group[*change]
	faults  settings[*fault]
	latency settings[*latencySetting]
	rates   rateLimits
	moods   moodSet
	counts  counters
	traces  atomic.Uint64
	closing chan struct{}

	refuseScripts atomic.Bool // set by POST /policy
	tracePrefix   string
}

// Server is a running sandbox.
type Server struct {
	*world
	*front
	*controls

	listeners []net.Listener // in the order sandbox, production, control
	servers   []*http.Server
	running   sync.WaitGroup
	closeOnce sync.Once
	closeErr  error
}

// Start starts a sandbox that serves until Close, Shutdown or the end of ctx. It returns an
// error if an option or the fixture is invalid, or if an address, the database or the referee
// is unusable.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := New(o)
	if err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return s, nil
}

// New returns a sandbox without listeners. The caller serves its Handler, for example in a
// simulation without sockets, and must call Close.
func New(o Options) (*Server, error) {
	o.fillDefaults()
	if err := o.Fixture.Validate(); err != nil {
		return nil, fmt.Errorf("fixture: %w", err)
	}
	if err := loopbackOnly(o.Control); err != nil {
		return nil, err
	}
	w := &world{opts: o, log: o.Log, clock: o.Clock, closing: make(chan struct{}), tracePrefix: "trc_" + strings.ToLower(rand.Text()[:8]) + "_"}
	reads := &reads{w}
	writes := &writes{w, reads}
	s := &Server{world: w, front: &front{w, &quirks{w}, reads, writes}, controls: &controls{w, writes}}
	s.durable.flush = s.flush
	s.rates.keys, s.counts.counts = map[string]*rate.Limiter{}, map[string]map[string]int64{}
	s.refuseScripts.Store(o.RefuseScriptAgents)
	if o.RequestsPerSecond != 0 {
		if err := s.setRate(&rateSetting{RequestsPerSecond: o.RequestsPerSecond}); err != nil {
			return nil, err
		}
	}
	if err := s.setMoods(&moodSetting{o.Moods, o.MoodSeed}); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.closeFiles())
	}
	return s, nil
}

// Handler serves the sandbox environment. A fault may have to reset the connection. If the
// ResponseWriter has no connection, the handler then panics with http.ErrAbortHandler.
func (s *Server) Handler() http.Handler { return s.handler(envSandbox) }

func loopbackOnly(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("control address: %w", err)
	}
	if host != "localhost" && !isLoopback(host) {
		return fmt.Errorf("control address %s: only loopback may control a sandbox", address)
	}
	return nil
}

func (s *Server) open() error {
	var err error
	if s.referee, err = openReferee(s.opts.Charges, s.opts.ChargesNoSync); err != nil {
		return err
	}
	if s.opts.DB != "" {
		if s.db, err = openStore(s.opts.DB); err != nil {
			return err
		}
	}
	return s.load(s.opts.Fixture)
}

func (s *Server) listen() error {
	handlers := []struct {
		address string
		handler http.Handler
	}{{s.opts.Listen, s.handler(envSandbox)}, {s.opts.ListenProduction, s.handler(envProduction)}, {s.opts.Control, s.Control()}}
	for _, h := range handlers {
		l, err := net.Listen("tcp", h.address)
		if err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
		s.listeners = append(s.listeners, l)
		if len(s.listeners) == 3 {
			if err := loopbackOnly(l.Addr().String()); err != nil { // "localhost" may resolve to another address
				return err
			}
		}
		limiter := connlimit.New(s.opts.MaxConnections)
		srv := &http.Server{Handler: h.handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
			IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ConnContext: limiter.Connect, ConnState: limiter.Change,
			DisableGeneralOptionsHandler: true, ErrorLog: log.New(panicLog{s.log}, "", 0)}
		s.servers = append(s.servers, srv)
		s.running.Go(func() {
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.log.WithError(err).Error("sandbox stopped serving")
			}
		})
	}
	return nil
}

// defaultMaxConnections is below the usual limit of file descriptors.
const defaultMaxConnections = 4096

// Timeouts for slow clients. A hanging reply has no write timeout (see front.hang).
const (
	headerTimeout  = 10 * time.Second
	readTimeout    = 30 * time.Second
	writeTimeout   = 120 * time.Second
	idleTimeout    = 120 * time.Second
	maxHeaderBytes = 64 << 10
)

// panicLog logs panics only, because broken connections are often intended.
type panicLog struct{ log *logrus.Logger }

func (p panicLog) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("panic")) {
		p.log.Error(string(text))
	}
	return len(text), nil
}

func (s *world) now() time.Time {
	return s.clock().Add(time.Duration(s.offset.Load()) * time.Second).UTC()
}

func (s *Server) url(i int) string { return "http://" + s.listeners[i].Addr().String() }

// SandboxURL returns the base URL of the sandbox environment.
func (s *Server) SandboxURL() string { return s.url(0) }

// ProductionURL returns the base URL of the production environment.
func (s *Server) ProductionURL() string { return s.url(1) }

// ControlURL returns the base URL of the control interface.
func (s *Server) ControlURL() string { return s.url(2) }

// Charges returns all lines of the referee.
func (s *world) Charges() ([]Charge, error) {
	if err := s.durable.wait(s.durable.last()); err != nil && !errors.Is(err, errClosed) {
		return nil, err
	}
	return s.referee.all()
}

// Close stops immediately and aborts running requests. The changes of every request with a
// reply are durable. Later calls return the same error.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return s.Shutdown(ctx)
}

// Shutdown waits until running requests have finished or ctx has ended, and then stops.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closeOnce.Do(func() {
		close(s.closing)
		for _, srv := range s.servers {
			if srv.Shutdown(ctx) != nil {
				_ = srv.Close()
			}
		}
		s.running.Wait()
		s.closeErr = errors.Join(s.durable.close(), s.closeFiles())
	})
	return s.closeErr
}

func (s *Server) closeFiles() error {
	var errs []error
	if s.db != nil {
		errs = append(errs, s.db.db.Close())
	}
	if s.referee != nil {
		errs = append(errs, s.referee.close())
	}
	return errors.Join(errs...)
}

const (
	routeOrders = "POST /api/v1/orders"
	routeRenew  = "POST /api/v1/proxies/renew"
)

type route struct {
	name, scope string
	read        func(*reads, *request) ([]byte, *refusal) // set for a GET endpoint
	pattern, id string                                    // set by findRoute
}

var routes = []route{
	{name: "GET /api/v1/account", scope: "account:read", read: (*reads).account},
	{name: "GET /api/v1/wallet", scope: "wallet:read", read: (*reads).wallet},
	{name: "GET /api/v1/offers", scope: "offers:read", read: (*reads).listOffers},
	{name: "GET /api/v1/orders", scope: "orders:read", read: (*reads).listOrders},
	{name: "GET /api/v1/orders/{order_no}", scope: "orders:read", read: (*reads).order},
	{name: "GET /api/v1/proxies", scope: "proxies:read", read: (*reads).listProxies},
	{name: "GET /api/v1/proxies/{proxy_id}", scope: "proxies:read", read: (*reads).proxy},
	{name: routeOrders, scope: "orders:write"},
	{name: routeRenew, scope: "proxies:write"},
}

func findRoute(method, path string) route {
	for _, rt := range routes {
		name, _, isItem := strings.Cut(rt.name, "{")
		id, ok := strings.CutPrefix(method+" "+path, name)
		if !ok || isItem != (id != "") || strings.Contains(id, "/") {
			continue
		}
		var err error
		if rt.id, err = url.PathUnescape(id); err == nil {
			_, rt.pattern, _ = strings.Cut(rt.name, " ")
			return rt
		}
	}
	return route{}
}

// pathOf returns the path as sent and signed, even if the request line has an absolute URL.
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

// maxDrained limits how many bytes of a refused body are read and discarded. Otherwise a client
// that is still sending would not see the reply.
const maxDrained = 64 << 20

// readBody refuses a body that is too long or unreadable. It allocates memory for the bytes that
// it receives, not for the announced length.
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
	no := invalid("body", "exceeds 1 MiB")
	no.status = http.StatusRequestEntityTooLarge
	return no
}

// claimedAccount returns the account of the request's App ID. The filters of faults use it
// before the request is verified.
func (s *front) claimedAccount(r *http.Request) string {
	if key := s.st.keys[single(r.Header, headerAppID)]; key != nil {
		return key.space.accountID
	}
	return ""
}

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

func printable(text string, limit int) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && len(text) <= limit
}

// write looks for the record of the key before it checks balance, stock and limits (assumed). A
// refused request leaves no record, so its key can be used again (assumed).
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

// send sends a reply. A non-empty retryAfter from a fault replaces the reply's own value, unless
// the quirk of wild Retry-After values is active. From the call of Leave on, a new client may
// take the place of this connection. A client that does not read its reply must not occupy a
// place.
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
