// The HTTP server of the web UI: its dependencies and routes.

package web

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"io/fs"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"perennial/ledger"
	"perennial/schedules/plans"
)

// Account is an account for the web UI.
type Account interface {
	// AccountName returns the name in the configuration.
	AccountName() string
	// Ledger returns this process's ledger, also on a standby.
	Ledger() *ledger.Ledger
	// Role returns active or standby.
	Role() string
	// Health returns the account's health checks.
	Health() []Check
	// Schedules returns the configured schedules. ReadList reads the proxy lists that they
	// name.
	Schedules() []plans.Schedule
	ReadList(name string) ([]byte, error)
	// Ask calls a verb of the account's service on any runner. The request's fields by and
	// reason are the person's.
	Ask(ctx context.Context, verb string, question, answer any) error
	Letters
	// Webhooks returns the account's webhooks.
	Webhooks() Webhooks
	// Reveal reads a proxy's credentials from the provider in this process.
	Reveal(ctx context.Context, proxyID string) ([]Credential, error)
}

// Letters reads and requeues an account's dead letters.
type Letters interface {
	// Letters yields the dead letters after a sequence.
	Letters(ctx context.Context, after uint64) iter.Seq2[Letter, error]
	// CountLetters returns how many dead letters there are.
	CountLetters(ctx context.Context) (int64, error)
	// Letter returns one dead letter, or ErrNoLetter.
	Letter(ctx context.Context, seq uint64) (Letter, error)
	// Requeue publishes a corrected command in place of a dead letter, in a person's name.
	// It refuses a command that the intake would refuse.
	Requeue(ctx context.Context, seq uint64, content []byte, by, reason string) error
}

// Check is the health of one of an account's dependencies.
type Check struct {
	Name   string
	OK     bool
	Since  time.Time
	Detail string
}

// Config configures a [Server].
type Config struct {
	Accounts []Account
	Key      []byte // of [Key]
	// Tokens returns the entries of the tokens file. It is called at each login, and at
	// each request of a session begun with a token.
	Tokens   func() ([]Token, error)
	Identity Identity // people named by a proxy
	Runners  func(ctx context.Context) ([]Runner, error)
	// ServesHost reports whether a host name is served.
	ServesHost func(host string) bool
	Clock      func() time.Time
	Log        *logrus.Entry
	Version    string
}

// Server serves the pages. It implements http.Handler.
type Server struct {
	Config
	sessions *sessions
	logins   *rate.Limiter
	reveals  *rate.Limiter
	patterns []string // all routes
	handler  http.Handler
	figures  *figures
	live     openPages
}

// The rate limit of failed logins, shared by everybody. A token has 256 random bits, and a
// link more.
const (
	loginsInARow = 10
	loginEvery   = 2 * time.Second
)

//go:embed templates/*.html static/*
var embedded embed.FS

// New returns a Server.
func New(c Config) *Server {
	s := &Server{Config: c, sessions: newSessions(c.Key, c.Clock), figures: newFigures(c.Clock), logins: rate.NewLimiter(rate.Every(loginEvery), loginsInARow)}
	s.reveals = rate.NewLimiter(rate.Every(revealEvery), revealsInARow)
	mux := http.NewServeMux()
	handle := func(pattern string, h http.HandlerFunc) {
		s.patterns = append(s.patterns, pattern)
		mux.HandleFunc(pattern, h)
	}
	static, _ := fs.Sub(embedded, "static") // cannot fail: it is compiled in
	handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(static)).ServeHTTP)
	handle("GET /static/vendor/{file}", serveVendored)
	handle("GET /login", s.loginPage)
	handle("POST /login", s.login)
	handle("GET /{$}", s.signedIn(s.overview))
	handle("GET /runners", s.signedIn(s.runners))
	handle("POST /logout", s.signedIn(s.logout))
	handle("GET /changes", s.signedIn(s.changes))
	for path, page := range map[string]func(accountRequest){
		"GET /a/{account}/overview":       s.accountOverview,
		"GET /a/{account}/attention":      s.attention,
		"GET /a/{account}/operations":     s.operations,
		"GET /a/{account}/operation":      s.operation,
		"GET /a/{account}/reviews":        s.reviews,
		"POST /a/{account}/resolve":       s.resolveSeveral,
		"GET /a/{account}/schedules":      s.schedules,
		"GET /a/{account}/schedule":       s.schedule,
		"GET /a/{account}/proxies":        s.proxies,
		"GET /a/{account}/proxy":          s.proxy,
		"GET /a/{account}/calendar":       s.calendar,
		"GET /a/{account}/money":          s.money,
		"GET /a/{account}/statement":      s.statement,
		"GET /a/{account}/export":         s.export,
		"POST /a/{account}/check/{what}":  s.prove,
		"POST /a/{account}/change/{what}": s.change,
		"GET /a/{account}/dead":           s.dead,
		"GET /a/{account}/webhooks":       s.webhooks,
		"POST /a/{account}/reveal":        s.reveal,
		"GET /a/{account}/log":            s.decisions,
	} {
		handle(path, s.ofAccount(page))
	}
	s.handler = s.guarded(mux)
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

// account returns an account that a person may see, or nil.
func (s *Server) account(p Person, name string) Account {
	for _, a := range s.Accounts {
		if a.AccountName() == name && p.MaySee(name) {
			return a
		}
	}
	return nil
}

// ofAccount wraps a handler for requests about one account.
func (s *Server) ofAccount(page func(accountRequest)) http.HandlerFunc {
	return s.signedIn(func(w http.ResponseWriter, r *http.Request, x session) {
		a := s.account(x.Person, r.PathValue("account"))
		if a == nil {
			s.fail(w, r, x, http.StatusNotFound, "There is no such account, or it is not yours to see.", nil)
			return
		}
		page(accountRequest{r, w, x, a})
	})
}

// view is the data of the frame around every page.
type view struct {
	Title    string
	Section  string // of the navigation
	Person   Person
	Form     string // the form token
	ByHeader bool   // a proxy signed the person in, and signs out
	Accounts []string
	Account  string // the page's account, "" for all
	Pages    []pageLink
	Standby  bool
	Alone    string // why other runners are unknown; "" if they are known
	Paused   string // what is paused and why; "" for nothing
	CanAct   bool
	Command  string // the equivalent command of a change
	Now      time.Time
	Version  string
	Edition  string // the state shown, compared with that of /changes
	Pending  bool   // a figure is not ready: reload the page
	Data     any
}

// pageLink is one link of the navigation.
type pageLink struct {
	Name, Section, To string
	Badge             string
}

// navigation returns the links for every page of an account.
func (s *Server) navigation(ctx context.Context, p Person, account string) []pageLink {
	a := s.account(p, account)
	if a == nil {
		return nil
	}
	all := []pageLink{
		{Name: "Overview", Section: "overview"}, {Name: "Operations", Section: "operations"}, {Name: "Attention", Section: "attention", Badge: s.badge(ctx, a)}, {Name: "Schedules", Section: "schedules"},
		{Name: "Proxies", Section: "proxies"}, {Name: "Calendar", Section: "calendar"}, {Name: "Money", Section: "money"}, {Name: "Activity", Section: "log"},
		{Name: "Webhooks", Section: "webhooks"},
	}
	for i := range all {
		all[i].To = to(account, all[i].Section)
	}
	return all
}

// sectionOf maps pages without a link to their section of the navigation.
var sectionOf = map[string]string{
	"reviews": "attention", "answered": "attention", "dead": "attention", "letter": "attention", "operation": "operations", "schedule": "schedules", "proxy": "proxies", "revealed": "proxies", "statement": "money",
}

// page writes a complete page, or an error. A template that fails shows nothing.
func (s *Server) page(w http.ResponseWriter, r *http.Request, name string, code int, v view) {
	v.Pages = s.navigation(r.Context(), v.Person, v.Account)
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

// view returns the frame of a page for a session.
func (s *Server) view(x session, title, section string) view {
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

// show writes a page of an account.
func (s *Server) show(q accountRequest, name, title string, data any) {
	s.showAs(q, name, title, http.StatusOK, data)
}

func (s *Server) showAs(q accountRequest, name, title string, code int, data any) {
	v := s.view(q.session, title, cmp.Or(sectionOf[name], name))
	v.Account, v.Standby = q.account.AccountName(), q.account.Role() == roleStandby
	v.CanAct = q.session.MayChange(v.Account)
	v.Data = data
	for _, c := range q.account.Health() {
		if v.Standby && !c.OK && strings.HasPrefix(c.Name, "nats") {
			v.Alone = c.Detail
		}
	}
	if n, err := s.needs(q.Context(), q.account); err == nil && name != "attention" { // that page lists the pauses
		v.Paused = pausesText(n.Pauses, v.Now)
	}
	if waits, ok := data.(interface{ Pending() bool }); ok {
		v.Pending = waits.Pending()
	}
	s.page(q.to, q.Request, name, code, v)
}

const roleStandby = "standby"

// fail writes a page with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, x session, code int, text string, err error) {
	if err != nil {
		s.Log.WithError(err).WithField("page", r.URL.Path).Debug("a page failed")
	}
	v := s.view(x, http.StatusText(code), "")
	v.Data = text
	s.page(w, r, "failed", code, v)
}

// broken writes an error page for a ledger that cannot be read.
func (s *Server) broken(q accountRequest, err error) {
	s.fail(q.to, q.Request, q.session, http.StatusInternalServerError, "This cannot be read now: "+err.Error(), err)
}
