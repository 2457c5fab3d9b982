// Server: what the pages are made of, and their addresses.

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

// Account is an account as the pages see it.
type Account interface {
	// AccountName is its name in the configuration.
	AccountName() string
	// Ledger is this process's, of a standby too.
	Ledger() *ledger.Ledger
	// Role is active or standby.
	Role() string
	// Health are the things that the account depends on.
	Health() []Check
	// Schedules are those of the account's configuration, and ReadList reads the lists of
	// proxies that they name.
	Schedules() []plans.Schedule
	ReadList(name string) ([]byte, error)
	// Ask asks a verb of the account's service, wherever its runner is; the request's
	// fields by and reason are the person's.
	Ask(ctx context.Context, verb string, question, answer any) error
	Letters
	// Webhooks are those of the account.
	Webhooks() Webhooks
	// Reveal reads a proxy's credentials from the provider, by this process.
	Reveal(ctx context.Context, proxyID string) ([]Credential, error)
}

// Letters are the commands of an account that could not be read.
type Letters interface {
	// Letters are those after a sequence.
	Letters(ctx context.Context, after uint64) iter.Seq2[Letter, error]
	// Letter is one of them; ErrNoLetter for none.
	Letter(ctx context.Context, seq uint64) (Letter, error)
	// Requeue publishes a corrected command in the place of a dead letter, in a person's name,
	// if an arriving one would be taken.
	Requeue(ctx context.Context, seq uint64, content []byte, by, reason string) error
}

// Check is one thing that an account depends on.
type Check struct {
	Name   string
	OK     bool
	Since  time.Time
	Detail string
}

// Config is what the pages are made of.
type Config struct {
	Accounts []Account
	Key      []byte // of [Key]
	// Tokens are those who may sign in with a token; called at each login, and for each request of a session that a token began.
	Tokens   func() ([]Token, error)
	Identity Identity // of people whom a proxy in front names
	Runners  func(ctx context.Context) ([]Runner, error)
	// ServesHost reports whether pages are served under a name.
	ServesHost func(host string) bool
	Clock      func() time.Time
	Log        *logrus.Entry
	Version    string
}

// Server serves the pages. It is an http.Handler.
type Server struct {
	Config
	sessions *sessions
	logins   *rate.Limiter
	reveals  *rate.Limiter
	patterns []string // of all that is served
	handler  http.Handler
	figures  *figures
	live     openPages
}

// Logins that fail are as many in a row, and then one every so often, for everybody together:
// a token has 256 random bits, and a link more.
const (
	loginsInARow = 10
	loginEvery   = 2 * time.Second
)

//go:embed templates/*.html static/*
var embedded embed.FS

// New makes the pages.
func New(c Config) *Server {
	s := &Server{Config: c, sessions: newSessions(c.Key, c.Clock), figures: newFigures(c.Clock), logins: rate.NewLimiter(rate.Every(loginEvery), loginsInARow)}
	s.reveals = rate.NewLimiter(rate.Every(revealEvery), revealsInARow)
	mux := http.NewServeMux()
	handle := func(pattern string, h http.HandlerFunc) {
		s.patterns = append(s.patterns, pattern)
		mux.HandleFunc(pattern, h)
	}
	static, _ := fs.Sub(embedded, "static") // it is there: it was compiled in
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

// Close ends what is made in the background.
func (s *Server) Close() { s.figures.close() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// accountRequest is a request about one account, of a person who may see it.
type accountRequest struct {
	*http.Request

	to      http.ResponseWriter
	session session
	account Account
}

// account is an account that a person may see, by name; nil for any other.
func (s *Server) account(p Person, name string) Account {
	for _, a := range s.Accounts {
		if a.AccountName() == name && p.MaySee(name) {
			return a
		}
	}
	return nil
}

// ofAccount is a handler of what is asked of one account.
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

// view is what every page shows around its own content.
type view struct {
	Title    string
	Section  string // of the navigation
	Person   Person
	Form     string // the form token
	ByHeader bool   // a proxy in front has signed the person in, and signs out
	Accounts []string
	Account  string // the page's, "" for all
	Pages    []pageLink
	Standby  bool
	Alone    string // why it is not known whether another runner has the account; "" where it is
	Paused   string // what is paused of the account, and why; "" for nothing
	CanAct   bool
	Command  string // the command that does the same as a change
	Now      time.Time
	Version  string
	Edition  string // what the page is made of: compared with that of /changes
	Pending  bool   // a figure is being made for the first time: the page has to be looked at again
	Data     any
}

// pageLink is one link of the navigation.
type pageLink struct {
	Name, Section, To string
	Badge             string
}

// navigation is the same on every page of an account.
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

// sectionOf is the part of the navigation that a page without a link of its own is in.
var sectionOf = map[string]string{
	"reviews": "attention", "answered": "attention", "dead": "attention", "letter": "attention", "operation": "operations", "schedule": "schedules", "proxy": "proxies", "revealed": "proxies", "statement": "money",
}

// page writes a page whole, or an error: a template that fails half way shows nothing.
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

// view is the frame of a page for a session.
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
		if c.Name == "paused" && !c.OK && v.Section != "overview" { // which shows every problem
			v.Paused = "The account is " + c.Detail
		}
	}
	if waits, ok := data.(interface{ Pending() bool }); ok {
		v.Pending = waits.Pending()
	}
	s.page(q.to, q.Request, name, code, v)
}

const roleStandby = "standby"

// fail writes a page that says what went wrong.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, x session, code int, text string, err error) {
	if err != nil {
		s.Log.WithError(err).WithField("page", r.URL.Path).Debug("a page failed")
	}
	v := s.view(x, http.StatusText(code), "")
	v.Data = text
	s.page(w, r, "failed", code, v)
}

// broken is fail for a ledger that cannot be read.
func (s *Server) broken(q accountRequest, err error) {
	s.fail(q.to, q.Request, q.session, http.StatusInternalServerError, "This cannot be read now: "+err.Error(), err)
}
