// Checks before every page: host name, headers, cross-site requests, and login.

package web

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

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

// guarded wraps a handler. It refuses requests for unknown host names and changes requested
// by other sites. Without the check of the name, a site could point its own name at this
// server and read the pages with scripts. Headers forbid caching, frames, and content from
// other servers.
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

// current returns the session of a request. ok is false if there is none. A person named by
// a trusted proxy takes precedence over the cookie. A session that began with a token ends
// when the token is removed from the tokens file, and has the role that the file currently
// gives. If current returns an error, the request must be refused.
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

// signedIn wraps a handler for signed-in people. It redirects other requests for pages to
// the login, and refuses the rest. A POST also needs the session's form token.
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

// MayRead reports whether a program may read data about every account. The request needs the
// session of a person who may see every account, or the code of such a person's one-time
// link as bearer token. MayRead uses up the code.
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
		Secure: secure(r),
	}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// secure reports whether the cookie must be Secure: always, except over HTTP on loopback.
func secure(r *http.Request) bool { return r.TLS != nil || !isLoopback(r.Host) }
