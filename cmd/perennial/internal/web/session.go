package web

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"perennial/ledger/files"
)

// Role is what a person may do in the web UI.
type Role string

// The roles. An operator may do everything that a viewer may do.
const (
	Viewer   Role = "viewer"   // may read
	Operator Role = "operator" // may read and change
)

// Person is a signed-in person.
type Person struct {
	Name     string   `json:"name"`
	Role     Role     `json:"role"`
	Accounts []string `json:"accounts,omitempty"` // visible accounts; empty means all
}

// MaySee reports whether the person may see an account.
func (p Person) MaySee(account string) bool {
	return len(p.Accounts) == 0 || slices.Contains(p.Accounts, account)
}

// MayChange reports whether the person may make changes in an account.
func (p Person) MayChange(account string) bool { return p.Role == Operator && p.MaySee(account) }

const (
	// sessionLife is the duration of a login.
	sessionLife = 12 * time.Hour
	// LinkLife is how long a one-time link is valid.
	LinkLife = 5 * time.Minute
	// keyBytes is the length in bytes of the key that signs sessions and links.
	keyBytes = 32
)

// ErrKey means that a file has no valid key.
var ErrKey = errors.New("the key of the pages cannot be used: remove the file, and the next start of `perennial run` makes one; everybody signs in again")

// Key reads the key of the web UI. If makeIt is set, it creates a missing file with mode 0600.
func Key(path string, makeIt bool) ([]byte, error) {
	text, err := files.Read(path, 4<<10, closed(makeIt))
	if errors.Is(err, fs.ErrNotExist) && makeIt {
		key := make([]byte, keyBytes)
		_, _ = rand.Read(key) // never fails
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("make the key of the pages: %w", err)
		}
		_, err = f.WriteString(hex.EncodeToString(key) + "\n")
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return nil, fmt.Errorf("make the key of the pages: %w", err)
		}
		return key, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of the pages: %w", err)
	}
	key, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(key) != keyBytes {
		return nil, fmt.Errorf("%s: %w", path, ErrKey)
	}
	return key, nil
}

// closed returns a check of the key's file. In the runner, the check removes the permissions of
// other users, which a copied data directory may have.
func closed(runner bool) func(path string, info fs.FileInfo) error {
	return func(path string, info fs.FileInfo) error {
		if !runner || info.Mode().Perm()&0o077 == 0 {
			return nil
		}
		return os.Chmod(path, 0o600)
	}
}

type session struct {
	Person

	ID      string    `json:"id"`
	Expires time.Time `json:"expires"`
	Token   string    `json:"token,omitempty"` // hash of the token with which the session began

	before   string // the session's id in the previous period of sessionLife; "" unless a header names the person
	byHeader bool
	edition  string // edition from before the request was handled
}

type link struct {
	Person

	ID     string    `json:"id"`
	Issued time.Time `json:"issued"`
}

// Purposes of signed texts. A text signed for one purpose is invalid for another.
const (
	forSession = "perennial session"
	forLink    = "perennial link"
	forForm    = "perennial form"
)

func mac(key []byte, purpose string, data []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(purpose))
	h.Write([]byte{0})
	h.Write(data)
	return h.Sum(nil)
}

func sign(key []byte, purpose string, v any) string {
	data, _ := json.Marshal(v) //nolint:errchkjson // never fails for structs of strings and times
	return base64.RawURLEncoding.EncodeToString(data) + "." + base64.RawURLEncoding.EncodeToString(mac(key, purpose, data))
}

// maxSigned limits the text that is decoded, in bytes.
const maxSigned = 8 << 10

func verify(key []byte, purpose, text string, v any) bool {
	body, tag, ok := strings.Cut(text, ".")
	if !ok || len(text) > maxSigned {
		return false
	}
	data, err := base64.RawURLEncoding.DecodeString(body)
	given, errTag := base64.RawURLEncoding.DecodeString(tag)
	if err != nil || errTag != nil || !hmac.Equal(given, mac(key, purpose, data)) {
		return false
	}
	return json.Unmarshal(data, v) == nil
}

// Link returns a one-time code that signs a person in. It is valid for [LinkLife] from now.
func Link(key []byte, p Person, now time.Time) string {
	return sign(key, forLink, link{p, rand.Text(), now.UTC()})
}

// sessions signs and checks sessions and codes. It records used codes and ended sessions in
// memory only.
type sessions struct {
	key     []byte
	clock   func() time.Time
	started time.Time // earlier codes are refused, because this process does not know whether they were used

	mu    sync.Mutex
	spent map[string]time.Time // the ids of used links and ended sessions, with the time when they can be forgotten
}

func newSessions(key []byte, clock func() time.Time) *sessions {
	return &sessions{key: key, clock: clock, started: clock(), spent: map[string]time.Time{}}
}

// begin returns the cookie of a new session. If a token began the session, token is its hash. If
// a link began it, token is "".
func (s *sessions) begin(p Person, token string) string {
	return sign(s.key, forSession, session{Person: p, ID: rand.Text(), Expires: s.clock().Add(sessionLife).UTC(), Token: token})
}

// read returns the session to which a cookie belongs. ok is false if the cookie is invalid or
// the session has ended.
func (s *sessions) read(cookie string) (x session, ok bool) {
	if !verify(s.key, forSession, cookie, &x) || !x.Expires.After(s.clock()) {
		return session{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ended := s.spent[x.ID]
	return x, !ended
}

func (s *sessions) end(x session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spend(x.ID, x.Expires)
}

// redeem returns the person who may sign in with a one-time code. It marks the code as used.
func (s *sessions) redeem(code string) (p Person, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.valid(code)
	if ok {
		s.spend(x.ID, x.Issued.Add(LinkLife))
	}
	return x.Person, ok
}

// named is like redeem, but leaves the code unused.
func (s *sessions) named(code string) (p Person, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.valid(code)
	return x.Person, ok
}

// valid decodes an unused code. The caller must hold mu.
func (s *sessions) valid(code string) (x link, ok bool) {
	if !verify(s.key, forLink, code, &x) {
		return link{}, false
	}
	now := s.clock()
	if x.Issued.Before(s.started.Truncate(time.Second)) || !x.Issued.Add(LinkLife).After(now) || x.Issued.After(now.Add(LinkLife)) {
		return link{}, false
	}
	if _, used := s.spent[x.ID]; used {
		return link{}, false
	}
	return x, true
}

// spend makes an id invalid until the given time. It also forgets ids whose time has passed.
func (s *sessions) spend(id string, until time.Time) {
	now := s.clock()
	for id, until := range s.spent {
		if until.Before(now) {
			delete(s.spent, id)
		}
	}
	s.spent[id] = until
}

// formToken returns the token of a session's forms, which other sites cannot know.
func (s *sessions) formToken(x session) string {
	return base64.RawURLEncoding.EncodeToString(mac(s.key, forForm, []byte(x.ID)))
}

func (s *sessions) isFormToken(x session, text string) bool {
	given, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil && x.before != "" && hmac.Equal(given, mac(s.key, forForm, []byte(x.before))) {
		return true
	}
	return err == nil && hmac.Equal(given, mac(s.key, forForm, []byte(x.ID)))
}

// Token is an entry of the tokens file.
type Token struct {
	Name     string   `yaml:"name"`
	Role     Role     `yaml:"role"`
	Accounts []string `yaml:"accounts,omitempty"` // visible accounts; empty means all
	SHA256   string   `yaml:"sha256"`             // hash of the token, in hexadecimal
}

// tokenPrefix makes a token recognizable among other secrets.
const tokenPrefix = "pwt_"

const maxTokensFile = 1 << 20

// personName matches a person's name, often an email address.
var personName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$`)

func (t Token) check() error {
	switch {
	case !personName.MatchString(t.Name):
		return fmt.Errorf("name %.64q: use 1 to 64 letters, digits and . _ @ + -", t.Name)
	case t.Role != Viewer && t.Role != Operator:
		return fmt.Errorf("token of %s: role is %.32q and must be %s or %s", t.Name, string(t.Role), Viewer, Operator)
	case len(t.SHA256) != 2*sha256.Size:
		return fmt.Errorf("token of %s: sha256 must have %d hexadecimal digits", t.Name, 2*sha256.Size)
	}
	return nil
}

// ReadTokens reads the tokens file, which only its owner may read. It returns no tokens if the
// file does not exist.
func ReadTokens(path string) ([]Token, error) {
	text, err := files.Read(path, maxTokensFile, onlyOwner)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("tokens file: %w", err)
	}
	if text, err = files.Text(text); err != nil {
		return nil, fmt.Errorf("tokens file %s %w", path, err)
	}
	var all []Token
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&all); err != nil && len(bytes.TrimSpace(text)) > 0 {
		return nil, fmt.Errorf("tokens file %s: %w", path, err)
	}
	for _, t := range all {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("tokens file %s: %w", path, err)
		}
	}
	return all, nil
}

func onlyOwner(path string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s has mode %04o, and others can read it: chmod 600 %s", path, info.Mode().Perm(), path)
	}
	return nil
}

// AddToken creates a token, appends its hash to the file and returns the token, which is not
// stored.
func AddToken(path string, t Token) (token string, err error) {
	token = tokenPrefix + rand.Text() + rand.Text()
	t.SHA256 = hashOf(token)
	if err := t.check(); err != nil {
		return "", err
	}
	all, err := ReadTokens(path)
	if err != nil {
		return "", err
	}
	for _, have := range all {
		if have.Name == t.Name {
			return "", fmt.Errorf("tokens file %s: %s has a token: remove that entry first", path, t.Name)
		}
	}
	text, err := yaml.Marshal([]Token{t})
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	return token, errors.Join(err, f.Sync(), f.Close())
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return hex.EncodeToString(sum[:])
}

// owner returns the person whose token has the given hash. It compares every entry, even after
// a match, so that the time it takes reveals nothing.
func owner(all []Token, hash string) (p Person, ok bool) {
	have := []byte(hash)
	for _, t := range all {
		if subtle.ConstantTimeCompare(have, []byte(strings.ToLower(t.SHA256))) == 1 {
			p, ok = Person{Name: t.Name, Role: t.Role, Accounts: t.Accounts}, true
		}
	}
	return p, ok
}

// Identity configures which proxies may name a person in a header, and which people may sign in
// that way. The zero value trusts no proxy.
type Identity struct {
	header  string
	trusted []netip.Prefix
	people  map[string]Person
}

// Errors of a request whose identity header is not accepted.
var (
	errHeaderTwice = errors.New("the header with the person's name is there more than once: the proxy must replace what a client sends, not add to it")
	errNotListed   = errors.New("this person is not in http.identity.people")
)

var headerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`)

// otherHeaders lists headers that must not be configured as the identity header, because clients
// set them or they have another purpose.
var otherHeaders = []string{"Authorization", "Cookie", "Forwarded", "Host", "Origin", "Referer", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"}

// NewIdentity returns the identity that http.identity configures. If header is "", it returns
// the zero value. An error begins with the name of the invalid key.
func NewIdentity(header string, trusted []string, people []Person) (Identity, error) {
	if header == "" {
		if len(trusted)+len(people) > 0 {
			return Identity{}, errors.New("header is empty: name the header that the proxy sets, such as X-Auth-Request-Email, or leave http.identity out")
		}
		return Identity{}, nil
	}
	i := Identity{header: http.CanonicalHeaderKey(header), people: map[string]Person{}}
	if !headerName.MatchString(header) || slices.Contains(otherHeaders, i.header) {
		return Identity{}, fmt.Errorf("header is %.64q, which names no person: use the one that the proxy sets, such as X-Auth-Request-Email", header)
	}
	if len(trusted) == 0 {
		return Identity{}, errors.New("trusted is empty: list the addresses that the proxy connects from, such as 10.0.0.7/32")
	}
	for n, text := range trusted {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix.Bits() == 0 {
			return Identity{}, fmt.Errorf("trusted[%d] is %.64q: write the addresses that the proxy connects from, such as 10.0.0.7/32; not all addresses", n, text)
		}
		i.trusted = append(i.trusted, prefix.Masked())
	}
	if len(people) == 0 {
		return Identity{}, errors.New("people is empty: list who gets in; no one else does")
	}
	for n, p := range people {
		switch _, twice := i.people[p.Name]; {
		case !personName.MatchString(p.Name):
			return Identity{}, fmt.Errorf("people[%d].name is %.64q: use 1 to 64 letters, digits and . _ @ + -, as the header has it", n, p.Name)
		case p.Role != Viewer && p.Role != Operator:
			return Identity{}, fmt.Errorf("people[%d].role is %.32q and must be %s or %s", n, string(p.Role), Viewer, Operator)
		case twice:
			return Identity{}, fmt.Errorf("people[%d].name is %q, which is listed before: keep one entry", n, p.Name)
		}
		i.people[p.Name] = p
	}
	return i, nil
}

// of returns the person whom a trusted proxy names. If no trusted proxy names a person, named is
// false, and the request needs a login. Only the connection's peer address decides whether the
// proxy is trusted, never a header. The name must exactly match a configured name.
func (i Identity) of(r *http.Request) (p Person, named bool, err error) {
	if i.header == "" || !i.trusts(r.RemoteAddr) {
		return p, false, nil
	}
	names := r.Header.Values(i.header)
	switch {
	case len(names) > 1:
		return p, true, errHeaderTwice
	case len(names) == 0 || names[0] == "":
		return p, false, nil
	}
	p, listed := i.people[names[0]]
	if !listed {
		return p, true, errNotListed
	}
	return p, true, nil
}

func (i Identity) trusts(peer string) bool {
	at, err := netip.ParseAddrPort(peer)
	if err != nil {
		return false
	}
	address := at.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(i.trusted, func(p netip.Prefix) bool { return p.Contains(address) })
}

// forIdentity is the purpose of session ids for people named in a header.
const forIdentity = "perennial identity"

// identified returns the session of a person named in a header. The session has no cookie and
// lasts while the proxy names the person. Time is divided into periods of sessionLife. A form
// token stays valid until the end of the period that follows its own.
func (s *sessions) identified(p Person) session {
	now := s.clock()
	period := now.Unix() / int64(sessionLife/time.Second)
	id := func(period int64) string {
		return hex.EncodeToString(mac(s.key, forIdentity, []byte(strconv.FormatInt(period, 10)+" "+p.Name)))
	}
	return session{Person: p, ID: id(period), Expires: now.Add(sessionLife), before: id(period - 1), byHeader: true}
}

type loginView struct {
	Next   string
	Wrong  string
	Tokens bool // the tokens file has entries, or cannot be read
	Code   string
	As     Person // the person whom the code signs in
	Now    Person // the person who is signed in, if it is not As
}

const linkUsed = "This link was used before, or is older than five minutes, or than the last start. `perennial web login` prints another one."

// loginPage asks for a token, or to confirm a one-time code. Opening a link does not use up the
// link's code, because mail programs preview links. Opening a link does not end the current
// session either.
func (s *auth) loginPage(w http.ResponseWriter, r *http.Request) {
	if _, named, err := s.Identity.of(r); named && err == nil {
		http.Redirect(w, r, localPath(r.URL.Query().Get("next")), http.StatusSeeOther) //nolint:gosec // localPath excludes other sites
		return
	}
	if code := r.URL.Query().Get("code"); code != "" {
		p, ok := s.sessions.named(code)
		if !ok {
			s.refuseLogin(w, r, linkUsed)
			return
		}
		data := loginView{Code: code, As: p}
		if x, in, err := s.current(r); in && err == nil && x.Name != p.Name {
			data.Now = x.Person
		}
		s.showLogin(w, r, http.StatusOK, data)
		return
	}
	s.askToken(w, r, http.StatusOK, "")
}

func (s *auth) askToken(w http.ResponseWriter, r *http.Request, code int, wrong string) {
	tokens, err := s.Tokens()
	s.showLogin(w, r, code, loginView{Next: localPath(r.FormValue("next")), Wrong: wrong, Tokens: len(tokens) > 0 || err != nil})
}

func (s *auth) showLogin(w http.ResponseWriter, r *http.Request, code int, data loginView) {
	v := s.frame.view(session{}, "Sign in to Perennial", "")
	v.Data = data
	s.frame.page(w, r, "login", code, v)
}

func (s *auth) login(w http.ResponseWriter, r *http.Request) {
	if code := r.FormValue("code"); code != "" {
		p, ok := s.sessions.redeem(code)
		if !ok {
			s.refuseLogin(w, r, linkUsed)
			return
		}
		s.enter(w, r, p, "", "/")
		return
	}
	tokens, err := s.Tokens()
	if err != nil {
		s.Log.WithError(err).Error("the tokens file cannot be read: no token signs in")
		s.askToken(w, r, http.StatusInternalServerError, "The tokens file cannot be read; the log says why.")
		return
	}
	token := hashOf(r.PostFormValue("token"))
	p, ok := owner(tokens, token)
	if !ok {
		s.refuseLogin(w, r, "This token is not known.")
		return
	}
	s.enter(w, r, p, token, localPath(r.PostFormValue("next")))
}

// refuseLogin counts a failed login and asks again. After too many failed logins, it only writes
// an error. A valid code or token is always accepted, even while others are guessing. This is
// safe because a token has 256 random bits and a code is signed.
func (s *auth) refuseLogin(w http.ResponseWriter, r *http.Request, wrong string) {
	if !s.logins.Allow() {
		w.Header().Set("Retry-After", strconv.Itoa(int(loginEvery/time.Second)))
		http.Error(w, "too many logins: wait a few seconds", http.StatusTooManyRequests)
		return
	}
	s.Log.WithField("remote", remoteOf(r)).Warn("a login failed")
	s.askToken(w, r, http.StatusForbidden, wrong)
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
