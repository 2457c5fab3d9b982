// Sessions and one-time links, signed with a key that only the runner's user can read.

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

// MayChange reports whether the person may change an account.
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

// closed returns a check of the key's file. If the runner reads it, the check removes the
// permissions of others, which a copied data directory may have.
func closed(runner bool) func(path string, info fs.FileInfo) error {
	return func(path string, info fs.FileInfo) error {
		if !runner || info.Mode().Perm()&0o077 == 0 {
			return nil
		}
		return os.Chmod(path, 0o600)
	}
}

// session is the content of a session cookie.
type session struct {
	Person

	ID      string    `json:"id"`
	Expires time.Time `json:"expires"`
	Token   string    `json:"token,omitempty"` // hash of the token with which the session began

	before   string // id in the previous period; "" unless a header began the session
	byHeader bool
	edition  string // edition from before the request was handled
}

// link is the content of a one-time link.
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

// begin returns the cookie of a new session. token is the hash of a token, or "" for a link.
func (s *sessions) begin(p Person, token string) string {
	return sign(s.key, forSession, session{Person: p, ID: rand.Text(), Expires: s.clock().Add(sessionLife).UTC(), Token: token})
}

// read returns the session of a cookie. ok is false if the cookie is invalid or the session has
// ended.
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

// redeem returns the person for whom a one-time code was made, and marks the code as used.
func (s *sessions) redeem(code string) (p Person, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.valid(code)
	if ok {
		s.spend(x.ID, x.Issued.Add(LinkLife))
	}
	return x.Person, ok
}

// named returns the person for whom a one-time code was made. The code stays unused.
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

// spend records an id until a time, and forgets ids whose time has passed.
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
