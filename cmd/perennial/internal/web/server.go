// Third-party files are served as published. vendor/SHA256SUMS lists their versions and checksums.

package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"perennial/ledger"
	"perennial/schedules/plans"
)

// Account is an account in the web UI.
type Account interface {
	// AccountName returns the name in the configuration.
	AccountName() string
	// Ledger returns this process's ledger. A standby also has one.
	Ledger() *ledger.Ledger
	// Role returns active or standby.
	Role() string
	// Health returns the account's health checks.
	Health() []Check
	// Schedules returns the configured schedules. ReadList reads the lists of proxies that they
	// refer to.
	Schedules() []plans.Schedule
	ReadList(name string) ([]byte, error)
	// Ask makes a service request to the account's leader, on whichever machine it runs. The
	// fields by and reason of the request must contain what the signed-in person gave.
	Ask(ctx context.Context, verb string, question, answer any) error
	Letters
	Webhooks() Webhooks
	// Reveal reads a proxy's credentials from the provider in this process.
	Reveal(ctx context.Context, proxyID string) ([]Credential, error)
}

// Letters reads and requeues an account's dead letters.
type Letters interface {
	// Letters yields the dead letters after a sequence.
	Letters(ctx context.Context, after uint64) iter.Seq2[Letter, error]
	CountLetters(ctx context.Context) (int64, error)
	// Letter returns one dead letter. It returns ErrNoLetter if there is none.
	Letter(ctx context.Context, seq uint64) (Letter, error)
	// Requeue publishes a corrected command instead of a dead letter. by is the person's name.
	// It refuses a command that the intake would refuse.
	Requeue(ctx context.Context, seq uint64, content []byte, by, reason string) error
}

// Check is the health of one of an account's dependencies.
type Check struct {
	Name   string    `json:"name"`
	OK     bool      `json:"ok"`
	Since  time.Time `json:"since"` // when OK last changed
	Detail string    `json:"detail,omitempty"`
}

// Config configures a [Server].
type Config struct {
	Accounts []Account
	Key      []byte // from the function [Key]
	// Tokens returns the entries of the tokens file. It is called for each login page, at each
	// login, and at each request of a session that began with a token.
	Tokens   func() ([]Token, error)
	Identity Identity // the proxies that may name a person in a header
	Runners  func(ctx context.Context) ([]Runner, error)
	// ServesHost reports whether a host name is served.
	ServesHost func(host string) bool
	Clock      func() time.Time
	Log        *logrus.Entry
	Version    string
}

// Server serves the pages. It implements http.Handler.
type Server struct {
	*auth

	patterns []string // all routes
	handler  http.Handler
	figures  *figures

	// EndLive ends the connections over which open pages follow changes. A server that shuts
	// down would otherwise wait for them.
	EndLive func()
}

// The rate limit of failed logins, shared by all people. It is an extra protection, because
// a token has 256 random bits and a link is signed.
const (
	loginsInARow = 10
	loginEvery   = 2 * time.Second
)

//go:embed templates/*.html static/*
var embedded embed.FS

// New returns a Server.
func New(c Config) *Server {
	sessions, figures := newSessions(c.Key, c.Clock), newFigures(c.Clock)
	insight := &insight{Config: &c, figures: figures}
	frame := &frame{Config: &c, sessions: sessions, insight: insight}
	auth := &auth{Config: &c, sessions: sessions, frame: frame, logins: rate.NewLimiter(rate.Every(loginEvery), loginsInARow)}
	running, end := context.WithCancel(context.Background())
	live := &livePages{Config: &c, insight: insight, auth: auth, server: running}
	overview, operations, money := &overviewPages{frame}, &operationPages{frame}, &moneyPages{frame}
	proxies := &proxyPages{frame: frame, reveals: rate.NewLimiter(rate.Every(revealEvery), revealsInARow)}
	s := &Server{auth: auth, figures: figures, EndLive: end}
	mux := http.NewServeMux()
	route := func(pattern string, h http.HandlerFunc) {
		s.patterns = append(s.patterns, pattern)
		mux.HandleFunc(pattern, h)
	}
	route("GET /static/{file}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, embedded, "static/"+r.PathValue("file"))
	})
	route("GET /static/vendor/{file}", serveVendored)
	route("GET /login", auth.loginPage)
	route("POST /login", auth.login)
	route("GET /{$}", auth.signedIn(overview.overview))
	route("GET /runners", auth.signedIn(overview.runners))
	route("POST /logout", auth.signedIn(auth.logout))
	route("GET /changes", auth.signedIn(live.changes))
	for path, handle := range map[string]func(accountRequest) (page, error){
		"GET /a/{account}/overview":       overview.accountOverview,
		"GET /a/{account}/attention":      overview.attention,
		"GET /a/{account}/operations":     operations.operations,
		"GET /a/{account}/operation":      operations.operation,
		"GET /a/{account}/reviews":        operations.reviews,
		"POST /a/{account}/resolve":       operations.resolveSeveral,
		"GET /a/{account}/schedules":      overview.schedules,
		"GET /a/{account}/schedule":       overview.schedule,
		"GET /a/{account}/proxies":        proxies.proxies,
		"GET /a/{account}/proxy":          proxies.proxy,
		"GET /a/{account}/calendar":       overview.calendar,
		"GET /a/{account}/money":          money.money,
		"GET /a/{account}/statement":      money.statement,
		"GET /a/{account}/export":         money.export,
		"POST /a/{account}/check/{what}":  money.prove,
		"POST /a/{account}/change/{what}": operations.change,
		"GET /a/{account}/dead":           operations.dead,
		"GET /a/{account}/webhooks":       overview.webhooks,
		"POST /a/{account}/reveal":        proxies.reveal,
		"GET /a/{account}/log":            overview.decisions,
	} {
		route(path, auth.ofAccount(handle))
	}
	s.handler = auth.guarded(mux)
	return s
}

// Close stops the background computations.
func (s *Server) Close() { s.figures.close() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// accountRequest is a request about an account that the person may see.
type accountRequest struct {
	*http.Request

	to      http.ResponseWriter
	session session
	account Account
}

// frame writes pages and errors with the navigation and the person's name.
type frame struct {
	*Config
	sessions *sessions
	insight  *insight
}

// account returns an account that a person may see. It returns nil if there is no such account.
func (s *frame) account(p Person, name string) Account {
	for _, a := range s.Accounts {
		if a.AccountName() == name && p.MaySee(name) {
			return a
		}
	}
	return nil
}

// page is a page about an account. Its zero value means that the handler has written the
// response itself.
type page struct {
	name, title string
	code        int // HTTP status; 0 means 200
	data        any
}

// pageError is an error with a text for the reader. Any other error means that the ledger
// cannot be read.
type pageError struct {
	code  int // HTTP status
	text  string
	cause error // logged, unless nil
}

func (e *pageError) Error() string { return e.text }

func (s *auth) ofAccount(handle func(accountRequest) (page, error)) http.HandlerFunc {
	return s.signedIn(func(w http.ResponseWriter, r *http.Request, x session) {
		q := accountRequest{r, w, x, s.frame.account(x.Person, r.PathValue("account"))}
		if q.account == nil {
			s.frame.fail(w, r, x, http.StatusNotFound, "There is no such account, or it is not yours to see.", nil)
			return
		}
		p, err := handle(q)
		switch failed, ok := errors.AsType[*pageError](err); {
		case ok:
			s.frame.fail(w, r, x, failed.code, failed.text, failed.cause)
		case err != nil:
			s.frame.fail(w, r, x, http.StatusInternalServerError, "This cannot be read now: "+err.Error(), err)
		case p.name != "":
			s.frame.show(q, p)
		}
	})
}

type view struct {
	Title    string
	Section  string // section of the navigation
	Person   Person
	Form     string // the form token
	ByHeader bool   // a trusted proxy has signed the person in, so only the proxy can sign the person out
	Accounts []string
	Account  string // account of the page; "" for all accounts
	Pages    []pageLink
	Standby  bool
	Alone    string // why other runners are unknown; "" if they are known
	Paused   string // what is paused and why; "" if nothing is paused
	CanAct   bool
	Command  string // CLI command that is equivalent to a change
	Now      time.Time
	Version  string
	Edition  string // the state that the page shows, for comparison with /changes
	Pending  bool   // a figure is not ready, so the page must be reloaded
	Data     any
}

type pageLink struct {
	Name, Section, To string
	Badge             string
}

func (s *frame) navigation(ctx context.Context, p Person, account string) []pageLink {
	a := s.account(p, account)
	if a == nil {
		return nil
	}
	all := []pageLink{
		{Name: "Overview", Section: "overview"}, {Name: "Operations", Section: "operations"}, {Name: "Attention", Section: "attention", Badge: s.insight.badge(ctx, a)}, {Name: "Schedules", Section: "schedules"},
		{Name: "Proxies", Section: "proxies"}, {Name: "Calendar", Section: "calendar"}, {Name: "Money", Section: "money"}, {Name: "Activity", Section: "log"},
		{Name: "Webhooks", Section: "webhooks"},
	}
	for i := range all {
		all[i].To = to(account, all[i].Section)
	}
	return all
}

// sectionOf maps a page that is not in the navigation to the section that is highlighted there.
var sectionOf = map[string]string{
	"reviews": "attention", "answered": "attention", "dead": "attention", "letter": "attention", "operation": "operations", "schedule": "schedules", "proxy": "proxies", "revealed": "proxies", "statement": "money",
}

// page writes a complete page. If the template fails, page writes only an error.
func (s *frame) page(w http.ResponseWriter, r *http.Request, name string, code int, v view) {
	v.Pages = s.navigation(r.Context(), v.Person, v.Account)
	if r.Method == http.MethodPost {
		v.Edition = "" // the page cannot be loaded again
	}
	var out bytes.Buffer
	if err := pages()[name].ExecuteTemplate(&out, "layout", v); err != nil {
		s.Log.WithError(err).WithField("page", name).Error("a page cannot be made")
		http.Error(w, "this page cannot be made; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		_, _ = out.WriteTo(w)
	}
}

func (s *frame) view(x session, title, section string) view {
	v := view{Title: title, Section: section, Person: x.Person, Now: s.Clock(), Version: s.Version, Edition: x.edition}
	if x.ID != "" {
		v.Form, v.ByHeader = s.sessions.formToken(x), x.byHeader
	}
	for _, a := range s.Accounts {
		if x.ID != "" && x.MaySee(a.AccountName()) {
			v.Accounts = append(v.Accounts, a.AccountName())
		}
	}
	if len(v.Accounts) == 1 {
		v.Account = v.Accounts[0]
	}
	return v
}

func (s *frame) show(q accountRequest, p page) {
	v := s.view(q.session, p.title, cmp.Or(sectionOf[p.name], p.name))
	v.Account, v.Standby = q.account.AccountName(), q.account.Role() == roleStandby
	v.CanAct = q.session.MayChange(v.Account)
	v.Data = p.data
	for _, c := range q.account.Health() {
		if v.Standby && !c.OK && strings.HasPrefix(c.Name, "nats") {
			v.Alone = c.Detail
		}
	}
	if n, err := s.insight.needs(q.Context(), q.account); err == nil && p.name != "attention" { // the attention page lists the pauses itself
		v.Paused = pausesText(n.Pauses, v.Now)
	}
	if waits, ok := p.data.(interface{ Pending() bool }); ok {
		v.Pending = waits.Pending()
	}
	s.page(q.to, q.Request, p.name, cmp.Or(p.code, http.StatusOK), v)
}

const roleStandby = "standby"

func (s *frame) fail(w http.ResponseWriter, r *http.Request, x session, code int, text string, err error) {
	if err != nil {
		s.Log.WithError(err).WithField("page", r.URL.Path).Debug("a page failed")
	}
	v := s.view(x, http.StatusText(code), "")
	v.Data = text
	s.page(w, r, "failed", code, v)
}

// cookieName returns the session cookie's name for a host. The name includes the port, because
// browsers share cookies between ports. Without the port, two runners on one machine would
// sign out each other's users.
func cookieName(host string) string {
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		return "perennial_session"
	}
	return "perennial_session_" + port
}

// auth handles logins and sessions, and checks every request.
type auth struct {
	*Config
	sessions *sessions
	frame    *frame
	logins   *rate.Limiter
}

// guarded refuses requests for unknown host names, because DNS rebinding uses such names. It
// also refuses changes that other sites request. Its headers forbid caching, frames, and content
// from other servers.
func (s *auth) guarded(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "another site asked for this: nothing was changed", http.StatusForbidden)
	}))
	next = crossOrigin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.ServesHost(r.Host) {
			http.Error(w, "this name is not served here: ask by address, or add it to http.hosts", http.StatusMisdirectedRequest)
			return
		}
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("Cache-Control", "no-store")
		if strings.HasPrefix(r.URL.Path, "/static/") {
			h.Set("Cache-Control", "no-cache")
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}

// maxForm limits the size of a form, in bytes.
const maxForm = 64 << 10

// current returns the session of a request. ok is false if there is none. A person named by a
// trusted proxy takes precedence over the cookie. A session that began with a token ends when
// the token is removed from the tokens file. It always has the role that the file gives now. If
// current returns an error, the request must be refused.
func (s *auth) current(r *http.Request) (x session, ok bool, err error) {
	if p, named, err := s.Identity.of(r); named {
		if err != nil {
			return session{}, false, err
		}
		return s.sessions.identified(p), true, nil
	}
	for _, cookie := range r.CookiesNamed(cookieName(r.Host)) { // another site in the domain may also have set a cookie with this name
		if x, ok = s.sessions.read(cookie.Value); ok {
			break
		}
	}
	if ok && x.Token != "" {
		tokens, err := s.Tokens()
		x.Person, ok = owner(tokens, x.Token)
		ok = ok && err == nil
	}
	return x, ok, nil
}

// signedIn wraps a handler for signed-in people. Without a login, it redirects a request for a
// page to the login page, and refuses any other request. A POST also needs the session's form
// token.
func (s *auth) signedIn(next func(http.ResponseWriter, *http.Request, session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x, ok, err := s.current(r)
		switch {
		case err != nil:
			s.notTaken(w, r, err)
		case !ok && r.Method == http.MethodGet && r.URL.Path != "/changes":
			http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		case !ok:
			http.Error(w, "sign in first: nothing was changed", http.StatusUnauthorized)
		case r.Method == http.MethodPost && !s.sessions.isFormToken(x, r.PostFormValue("form")):
			s.frame.fail(w, r, x, http.StatusForbidden, "This form is of another session: go back, load the page again, and send it again. Nothing was changed.", nil)
		default:
			x.edition = s.frame.insight.edition(r.Context(), x.Person)
			next(w, r.WithContext(withNeeds(r.Context())), x)
		}
	}
}

// MayRead reports whether a program may read data about every account. The person who sends the
// request must be allowed to see every account. The request contains the person's session, or
// the code of a one-time link as bearer token. MayRead uses up the code.
func (s *auth) MayRead(r *http.Request) bool {
	p := Person{Accounts: []string{""}}
	if code, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		if named, ok := s.sessions.redeem(code); ok {
			p = named
		}
	} else if x, ok, err := s.current(r); ok && err == nil {
		p = x.Person
	}
	return len(p.Accounts) == 0
}

// notTaken refuses a request whose identity header is repeated, or names a person who is not
// in http.identity.people.
func (s *auth) notTaken(w http.ResponseWriter, r *http.Request, err error) {
	s.Log.WithError(err).WithField("remote", remoteOf(r)).Warn("a person whom the proxy names does not get in")
	code := http.StatusForbidden
	if errors.Is(err, errHeaderTwice) {
		code = http.StatusBadRequest
	}
	s.frame.fail(w, r, session{}, code, "The proxy in front names who you are, and you do not get in: "+err.Error()+". Nothing was changed.", nil)
}

// setCookie sets the session cookie, or removes it if value is "".
func setCookie(w http.ResponseWriter, r *http.Request, value string) {
	c := &http.Cookie{ //nolint:gosec // Secure, unless the browser is on this machine
		Name: cookieName(r.Host), Value: value, Path: "/", MaxAge: int(sessionLife / time.Second), HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || !isLoopback(r.Host),
	}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

//go:embed vendor/*
var vendored embed.FS

// serveVendored serves a file of vendor/. Browsers cache the file and revalidate it.
func serveVendored(w http.ResponseWriter, r *http.Request) {
	name := "vendor/" + r.PathValue("file")
	text, err := vendored.ReadFile(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(text)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
	http.ServeFileFS(w, r, vendored, name)
}
