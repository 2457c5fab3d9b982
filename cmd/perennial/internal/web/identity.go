// People whom a proxy has signed in and names in a header.

package web

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"time"
)

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

// otherHeaders cannot be the identity header, because clients set them or they have another
// purpose.
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

// of returns the person whom a trusted proxy names. named is false if no trusted proxy names a
// person, so the request needs a login. Only the connection's peer address decides whether the
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
// lasts while the proxy names the person. Its form tokens stay valid until the end of the next
// period of sessionLife.
func (s *sessions) identified(p Person) session {
	now := s.clock()
	period := now.Unix() / int64(sessionLife/time.Second)
	id := func(period int64) string {
		return hex.EncodeToString(mac(s.key, forIdentity, []byte(strconv.FormatInt(period, 10)+" "+p.Name)))
	}
	return session{Person: p, ID: id(period), Expires: now.Add(sessionLife), before: id(period - 1), byHeader: true}
}
