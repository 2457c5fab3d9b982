// Login by one-time link or token, and logout.

package web

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// loginView is the data of the login page.
type loginView struct {
	Next   string
	Wrong  string
	Tokens bool // the tokens file has entries, or cannot be read
	Code   string
	As     Person // the person whom the code signs in
	Now    Person // the person who is signed in, if it is not As
}

const linkUsed = "This link was used before, or is older than five minutes, or than the last start. `perennial web login` prints another one."

// loginPage asks for a token, or to confirm a one-time code. Opening a link does not use up
// its code, because mail programs preview links. It does not end the current session either.
func (s *auth) loginPage(w http.ResponseWriter, r *http.Request) {
	if _, named, err := s.Identity.of(r); named && err == nil {
		http.Redirect(w, r, localPath(r.URL.Query().Get("next")), http.StatusSeeOther) //nolint:gosec // localPath excludes other sites
		return
	}
	if code := r.URL.Query().Get("code"); code != "" {
		p, ok := s.sessions.named(code)
		if !ok && !s.mayTry(w) {
			return
		}
		if !ok {
			s.askAgain(w, r, linkUsed)
			return
		}
		data := loginView{Code: code, As: p}
		if x, in, err := s.current(r); in && err == nil && x.Name != p.Name {
			data.Now = x.Person
		}
		v := s.frame.view(session{}, "Sign in to Perennial", "")
		v.Data = data
		s.frame.page(w, r, "login", http.StatusOK, v)
		return
	}
	s.showLogin(w, r, http.StatusOK, "")
}

func (s *auth) askAgain(w http.ResponseWriter, r *http.Request, wrong string) {
	s.Log.WithField("remote", remoteOf(r)).Warn("a login failed")
	s.showLogin(w, r, http.StatusForbidden, wrong)
}

func (s *auth) showLogin(w http.ResponseWriter, r *http.Request, code int, wrong string) {
	tokens, err := s.Tokens()
	v := s.frame.view(session{}, "Sign in to Perennial", "")
	v.Data = loginView{Next: localPath(r.FormValue("next")), Wrong: wrong, Tokens: len(tokens) > 0 || err != nil}
	s.frame.page(w, r, "login", code, v)
}

// login accepts a one-time code or a token.
func (s *auth) login(w http.ResponseWriter, r *http.Request) {
	if code := r.FormValue("code"); code != "" {
		p, ok := s.sessions.redeem(code)
		if !ok && !s.mayTry(w) {
			return
		}
		if !ok {
			s.askAgain(w, r, linkUsed)
			return
		}
		s.enter(w, r, p, "", "/")
		return
	}
	tokens, err := s.Tokens()
	if err != nil {
		s.Log.WithError(err).Error("the tokens file cannot be read: no token signs in")
		s.showLogin(w, r, http.StatusInternalServerError, "The tokens file cannot be read; the log says why.")
		return
	}
	token := hashOf(r.PostFormValue("token"))
	p, ok := owner(tokens, token)
	if !ok && !s.mayTry(w) {
		return
	}
	if !ok {
		s.askAgain(w, r, "This token is not known.")
		return
	}
	s.enter(w, r, p, token, localPath(r.PostFormValue("next")))
}

// mayTry counts a failed login. If there were too many, it writes an error and returns
// false. A valid code or token is always accepted, even while others are guessing. This is
// safe because a token has 256 random bits and a code is signed.
func (s *auth) mayTry(w http.ResponseWriter) bool {
	if s.logins.Allow() {
		return true
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(loginEvery/time.Second)))
	http.Error(w, "too many logins: wait a few seconds", http.StatusTooManyRequests)
	return false
}

func (s *auth) enter(w http.ResponseWriter, r *http.Request, p Person, token, next string) {
	setCookie(w, r, s.sessions.begin(p, token))
	s.Log.WithField("by", p.Name).WithField("role", string(p.Role)).WithField("remote", remoteOf(r)).Info("signed in to the pages")
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // localPath excludes other sites
}

func (s *auth) logout(w http.ResponseWriter, r *http.Request, x session) {
	s.sessions.end(x)
	setCookie(w, r, "")
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// localPath returns next if it is a path on this server, otherwise "/". A login link must not
// lead to another site.
func localPath(next string) string {
	isOdd := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' } // browsers drop some of these characters, so that /<tab>/host becomes //host
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsFunc(next, isOdd) {
		return "/"
	}
	return next
}

func remoteOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// isLoopback reports whether a Host header is a loopback name or address.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip.IsLoopback() || strings.EqualFold(host, "localhost")
}
