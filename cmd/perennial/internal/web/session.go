// Sessions and one-time links: who is signed in, proven by a key that only the runner's
// user can read.

package web

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"perennial/ledger/files"
)

// Role is what a person may do on the pages.
type Role string

// The roles. An operator may do what a viewer may.
const (
	Viewer   Role = "viewer"   // look
	Operator Role = "operator" // look and change
)

// Person is who is signed in.
type Person struct {
	Name     string   `json:"name"`
	Role     Role     `json:"role"`
	Accounts []string `json:"accounts,omitempty"` // empty: all
}

// MaySee reports whether an account is the person's to look at.
func (p Person) MaySee(account string) bool {
	return len(p.Accounts) == 0 || slices.Contains(p.Accounts, account)
}

// MayChange reports whether the person may change something of an account.
func (p Person) MayChange(account string) bool { return p.Role == Operator && p.MaySee(account) }

const (
	// sessionLife is how long a login lasts.
	sessionLife = 12 * time.Hour
	// LinkLife is how long a one-time link can be used.
	LinkLife = 5 * time.Minute
	// keyBytes is the length of the key that signs sessions and links.
	keyBytes = 32
)

// ErrKey says that the key file does not hold a key.
var ErrKey = errors.New("the key of the pages cannot be used: remove the file, and the next start of `perennial run` makes one; everybody signs in again")

// Key reads the key of a data directory's pages, and with make makes it where there is
// none. The file has mode 0600.
func Key(path string, makeIt bool) ([]byte, error) {
	text, err := files.Read(path, 4<<10)
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

// session is what a cookie carries.
type session struct {
	Person

	ID      string    `json:"id"`
	Expires time.Time `json:"expires"`
	Token   string    `json:"token,omitempty"` // the hash of the one that began it

	before   string // the id of the period before, of a session that a header begins
	byHeader bool
	edition  string // from before this request was answered
}

// link is what a one-time link carries.
type link struct {
	Person

	ID     string    `json:"id"`
	Issued time.Time `json:"issued"`
}

// Texts are signed with what they are for, so that none serves as another.
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
	data, _ := json.Marshal(v) //nolint:errchkjson // structs of strings and instants
	return base64.RawURLEncoding.EncodeToString(data) + "." + base64.RawURLEncoding.EncodeToString(mac(key, purpose, data))
}

// maxSigned bounds what is decoded.
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

// Link is a one-time code that signs a person in, for [LinkLife] from now.
func Link(key []byte, p Person, now time.Time) string {
	return sign(key, forLink, link{p, rand.Text(), now.UTC()})
}

// sessions knows which codes were used and which sessions have ended.
type sessions struct {
	key     []byte
	clock   func() time.Time
	started time.Time // earlier codes are refused: this process does not know whether they were used

	mu    sync.Mutex
	spent map[string]time.Time // ids of links and ended sessions, until when they matter
}

func newSessions(key []byte, clock func() time.Time) *sessions {
	return &sessions{key: key, clock: clock, started: clock(), spent: map[string]time.Time{}}
}

// begin is the cookie of a new session, by the hash of a token or by a link ("").
func (s *sessions) begin(p Person, token string) string {
	return sign(s.key, forSession, session{Person: p, ID: rand.Text(), Expires: s.clock().Add(sessionLife).UTC(), Token: token})
}

// read is the session of a cookie; ok is false for none that lasts.
func (s *sessions) read(cookie string) (x session, ok bool) {
	if !verify(s.key, forSession, cookie, &x) || !x.Expires.After(s.clock()) {
		return session{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ended := s.spent[x.ID]
	return x, !ended
}

// end signs a session out.
func (s *sessions) end(x session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spend(x.ID, x.Expires)
}

// redeem is the person of a one-time code; the code is used up.
func (s *sessions) redeem(code string) (p Person, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.valid(code)
	if ok {
		s.spend(x.ID, x.Issued.Add(LinkLife))
	}
	return x.Person, ok
}

// named is the person of a one-time code, which stays as it is.
func (s *sessions) named(code string) (p Person, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.valid(code)
	return x.Person, ok
}

// valid reads a code that was not used; under mu.
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

// spend notes an id until it does not matter any more, and forgets those of which that is so.
func (s *sessions) spend(id string, until time.Time) {
	now := s.clock()
	for id, until := range s.spent {
		if until.Before(now) {
			delete(s.spent, id)
		}
	}
	s.spent[id] = until
}

// formToken is what a form of a session carries, so that no other site's form is taken.
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
