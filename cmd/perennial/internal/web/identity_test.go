package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const personHeader = "X-Auth-Request-Email"

// behindProxy returns a rig that trusts an identity header from a proxy at an address.
func behindProxy(t *testing.T, trusted string) *rig {
	t.Helper()
	h := newRig(t)
	var err error
	h.pages.Identity, err = NewIdentity(personHeader, []string{"192.0.2.0/24", trusted}, []Person{
		{Name: "ada@example.com", Role: Operator}, {Name: "bob@example.com", Role: Viewer, Accounts: []string{"main"}},
	})
	check(t, err)
	return h
}

// named sends a request with the identity header.
func (h *rig) named(client *http.Client, method, path, form string, names ...string) (code int, body string, header http.Header) {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), method, h.server.URL+path, strings.NewReader(form))
	check(h.t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header[personHeader] = names
	return h.do(client, request)
}

// A listed person is signed in with the configured role and accounts, and nobody else is.
func TestAProxyNamesThePerson(t *testing.T) {
	h := behindProxy(t, "127.0.0.0/8")
	if code, page, header := h.named(h.client, http.MethodGet, "/", "", "ada@example.com"); code != http.StatusOK || !strings.Contains(page, "ada@example.com") || strings.Contains(page, "Sign out") || header.Get("Set-Cookie") != "" {
		t.Errorf("ada: %d %s", code, page)
	}
	if code, _, _ := h.named(h.client, http.MethodGet, "/login?next=%2Fa%2Fmain%2Fmoney", "", "ada@example.com"); code != http.StatusSeeOther {
		t.Errorf("a login of who is in: %d", code)
	}
	if code, page, _ := h.named(h.client, http.MethodGet, "/a/other/money", "", "bob@example.com"); code != http.StatusNotFound || strings.Contains(page, " USD") {
		t.Errorf("an account that is not bob's: %d", code)
	}
	for what, names := range map[string][]string{"nobody": {}, "an empty name": {""}} {
		if code, _, header := h.named(h.client, http.MethodGet, "/a/main/money", "", names...); code != http.StatusSeeOther || !strings.HasPrefix(header.Get("Location"), "/login") {
			t.Errorf("%s: %d", what, code)
		}
	}
	for what, x := range map[string]struct {
		code  int
		names []string
	}{
		"who is not listed": {403, []string{"eve@example.com"}}, "another case": {403, []string{"Ada@example.com"}}, "two in one": {403, []string{"ada@example.com, eve@example.com"}},
		"spaces": {403, []string{"ada@example.com\teve"}}, "twice": {400, []string{"ada@example.com", "ada@example.com"}}, "twice, once empty": {400, []string{"", "ada@example.com"}},
	} {
		for _, path := range []string{"/", "/a/main/money", "/changes"} {
			if code, page, _ := h.named(h.client, http.MethodGet, path, "", x.names...); code != x.code || strings.Contains(page, " USD") {
				t.Errorf("%s, %s: %d %s", what, path, code, page)
			}
		}
	}
}

// The login cookie counts only if the proxy names nobody.
func TestTheProxysPersonWinsOverTheCookies(t *testing.T) {
	h := behindProxy(t, "127.0.0.0/8")
	h.signIn(h.client, Person{Name: "carol", Role: Operator})
	if _, page, _ := h.named(h.client, http.MethodGet, "/", "", "bob@example.com"); strings.Contains(page, "carol") || !strings.Contains(page, "bob@example.com") {
		t.Error("the cookie's person is shown")
	}
	if code, _, _ := h.named(h.client, http.MethodGet, "/", "", "eve@example.com"); code != http.StatusForbidden {
		t.Errorf("a cookie lets in whom the proxy names and who is not listed: %d", code)
	}
	if _, page, _ := h.named(h.client, http.MethodGet, "/", ""); !strings.Contains(page, "carol") {
		t.Error("the cookie counts for nothing")
	}
}

// Only the address of the connection's peer decides, whatever other headers claim.
func TestAHeaderFromElsewhereIsIgnored(t *testing.T) {
	h := behindProxy(t, "198.51.100.7/32")
	for _, forwarded := range []string{"", "192.0.2.1"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
		r.RemoteAddr = "127.0.0.1:4000"
		r.Header.Set(personHeader, "ada@example.com")
		for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded"} {
			r.Header.Set(name, forwarded)
		}
		w := httptest.NewRecorder()
		if h.pages.ServeHTTP(w, r); w.Code != http.StatusSeeOther {
			t.Errorf("forwarded for %q: %d", forwarded, w.Code)
		}
	}
	for peer, want := range map[string]int{
		"192.0.2.200:1": 200, "[::ffff:192.0.2.9]:1": 200, "198.51.100.7:1": 200, "198.51.100.8:1": 303, "192.0.3.1:1": 303, "[2001:db8::1]:1": 303, "@": 303, "": 303,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
		r.RemoteAddr = peer
		r.Header.Set(personHeader, "ada@example.com")
		w := httptest.NewRecorder()
		if h.pages.ServeHTTP(w, r); w.Code != want {
			t.Errorf("from %q: %d", peer, w.Code)
		}
	}
}

// Only the form token of the named person is accepted.
func TestFormsWorkBehindAProxy(t *testing.T) {
	h := behindProxy(t, "127.0.0.0/8")
	h.main.answer["pause"] = map[string]int{"changed": 1}
	_, page, _ := h.named(h.client, http.MethodGet, "/", "", "ada@example.com")
	ada := formOf(t, page)
	_, page, _ = h.named(h.client, http.MethodGet, "/", "", "bob@example.com")
	bob := formOf(t, page)
	post := func(form, name string) int {
		code, _, _ := h.named(h.client, http.MethodPost, "/a/main/change/pause", "reason=x&form="+form, name)
		return code
	}
	if code := post(bob, "ada@example.com"); code != http.StatusForbidden {
		t.Errorf("with another person's form token: %d", code)
	}
	if code := post("", "ada@example.com"); code != http.StatusForbidden {
		t.Errorf("without one: %d", code)
	}
	if code := post(bob, "bob@example.com"); code != http.StatusForbidden {
		t.Errorf("a viewer: %d", code)
	}
	h.wait(sessionLife) // an open page stays usable
	if code := post(ada, "ada@example.com"); code != http.StatusOK {
		t.Errorf("ada: %d", code)
	}
	h.wait(sessionLife)
	if code := post(ada, "ada@example.com"); code != http.StatusForbidden {
		t.Errorf("a form of a day ago: %d", code)
	}
	asked := 0
	for _, x := range h.main.requests() {
		if x.verb == "pause" {
			asked++
			if x.question["by"] != "ada@example.com" {
				t.Errorf("%v", x)
			}
		}
	}
	if asked != 1 {
		t.Errorf("%d pauses", asked)
	}
}

func TestAnIdentityThatLetsInAnybodyIsRefused(t *testing.T) {
	one := []Person{{Name: "ada", Role: Viewer}}
	local := []string{"127.0.0.1/32"}
	for what, x := range map[string]struct {
		header  string
		trusted []string
		people  []Person
		says    string
	}{
		"no header":       {"", local, one, "header is empty"},
		"a client's own":  {"X-Forwarded-For", local, one, "header is"},
		"no header name":  {"X Auth", local, one, "header is"},
		"no addresses":    {personHeader, nil, one, "trusted is empty"},
		"all addresses":   {personHeader, []string{"0.0.0.0/0"}, one, "trusted[0]"},
		"all of the new":  {personHeader, []string{"10.0.0.0/8", "::/0"}, one, "trusted[1]"},
		"no range":        {personHeader, []string{"proxy.internal"}, one, "trusted[0]"},
		"nobody":          {personHeader, local, nil, "people is empty"},
		"no name":         {personHeader, local, []Person{{Role: Viewer}}, "people[0].name"},
		"a role of none":  {personHeader, local, []Person{{Name: "ada", Role: "admin"}}, "people[0].role"},
		"no role":         {personHeader, local, []Person{{Name: "ada"}}, "people[0].role"},
		"the same person": {personHeader, local, append(one, one...), "people[1].name"},
	} {
		if _, err := NewIdentity(x.header, x.trusted, x.people); err == nil || !strings.HasPrefix(err.Error(), x.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if i, err := NewIdentity("", nil, nil); err != nil || i.trusts("127.0.0.1:1") {
		t.Errorf("none: %v", err)
	}
}
