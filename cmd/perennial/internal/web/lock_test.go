package web

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// paths is the pages of an account, and those of all accounts.
var paths = []string{
	"/", "/a/main/overview", "/a/main/attention", "/a/main/operations", "/a/main/operations?state=review&label=team%3Dx", "/a/main/operation?id=r1", "/a/main/reviews", "/a/main/schedules",
	"/a/main/schedule?id=keep&plan=1", "/a/main/proxies", "/a/main/proxies?within=24h", "/a/main/proxy?id=px_1", "/a/main/calendar", "/a/main/calendar?month=2026-12", "/a/main/proxies?uncovered=1", "/a/main/proxies?due=2026-11-21",
	"/a/main/proxies?from=2026-11-21&until=2026-11-22", "/a/main/money", "/a/main/money?before=5", "/a/main/money?kind=charge", "/a/main/statement", "/a/main/log",
	"/a/main/operations?schedule=keep&from=2026-11-01&until=2026-11-30", "/a/main/dead", "/a/main/dead?seq=7", "/a/main/webhooks", "/runners",
}

func TestNothingIsShownWithoutALogin(t *testing.T) {
	h := newRig(t)
	for _, path := range append(paths, "/a/nobody/operations", "/nothing") {
		code, body, header := h.get(path)
		shown := code != http.StatusSeeOther && (strings.Contains(body, "px_1") || strings.Contains(body, "r1/0001")) || strings.Contains(body, "USD")
		if shown || code == http.StatusOK || code == http.StatusSeeOther && !strings.HasPrefix(header.Get("Location"), "/login?next=") {
			t.Errorf("%s: %d %s %s", path, code, header.Get("Location"), body)
		}
	}
	for what := range changes {
		if code, body := h.post(h.client, "/a/main/change/"+what, "", map[string]string{"id": "r1", "reason": "x"}); code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", what, code, body)
		}
	}
	if code, _, _ := h.get("/changes"); code != http.StatusUnauthorized {
		t.Errorf("/changes: %d", code)
	}
	if got := h.main.requests(); len(got) > 0 {
		t.Errorf("verbs were asked: %v", got)
	}
}

func TestALinkSignsInOnce(t *testing.T) {
	h := newRig(t)
	ada := Person{Name: "ada", Role: Operator}
	link := "/login?code=" + url.QueryEscape(Link(h.pages.Key, ada, h.clock()))
	for _, method := range []string{http.MethodGet, http.MethodHead} { // a program that previews the link does not use it up
		request, err := http.NewRequestWithContext(t.Context(), method, h.server.URL+link, nil)
		check(t, err)
		if code, _, header := h.do(h.client, request); code != http.StatusOK || header.Get("Set-Cookie") != "" {
			t.Fatalf("%s: %d %v", method, code, header)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.server.URL+link, nil)
	check(t, err)
	code, _, header := h.do(h.client, request)
	cookie := header.Get("Set-Cookie")
	if code != http.StatusSeeOther || header.Get("Location") != "/" || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") || strings.Contains(cookie, "Secure") {
		t.Fatalf("%d %s", code, cookie)
	}
	if code, body, _ := h.get("/"); code != http.StatusOK || !strings.Contains(body, "ada") {
		t.Errorf("signed in: %d", code)
	}
	// Another person's link asks first. A forged cookie does not hide the real session.
	if _, page, _ := h.get("/login?code=" + url.QueryEscape(Link(h.pages.Key, Person{Name: "bob", Role: Viewer}, h.clock()))); !strings.Contains(page, "ada is signed in here") || !strings.Contains(page, "Sign in as bob") {
		t.Errorf("it is not asked:\n%s", page)
	}
	name, _, _ := strings.Cut(cookie, "=")
	request, err = http.NewRequestWithContext(t.Context(), http.MethodGet, h.server.URL+"/", nil)
	check(t, err)
	request.AddCookie(&http.Cookie{Name: name, Value: "planted"})
	if code, _, _ := h.do(h.client, request); code != http.StatusOK || name != "perennial_session_"+request.URL.Port() {
		t.Errorf("with two cookies %s: %d", name, code)
	}
	stale := Link(h.pages.Key, ada, h.clock())
	old := Link(h.pages.Key, ada, h.clock().Add(-time.Minute)) // from before the process started
	other, err := Key(filepath.Join(t.TempDir(), "key"), true)
	check(t, err)
	refused := func(what, code string) {
		t.Helper()
		if got, _, header := h.getAs(h.browser(), "/login?code="+code); got != http.StatusForbidden || header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %s", what, got, header.Get("Set-Cookie"))
		}
	}
	refused("again", strings.TrimPrefix(link, "/login?code="))
	refused("issued before the start", url.QueryEscape(old))
	h.wait(LinkLife)
	for what, code := range map[string]string{
		"after five minutes": url.QueryEscape(stale), "of another key": url.QueryEscape(Link(other, ada, h.clock())), "nonsense": "x", "a session's text": url.QueryEscape(h.pages.sessions.begin(ada, "")),
		"in the future": url.QueryEscape(Link(h.pages.Key, ada, h.clock().Add(time.Hour))),
	} {
		refused(what, code)
	}
}

func TestASessionEnds(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	_, page, _ := h.get("/")
	if code, _ := h.post(h.client, "/logout", "", map[string]string{"form": formOf(t, page)}); code != http.StatusSeeOther {
		t.Fatalf("signing out: %d", code)
	}
	// A copy of the cookie is useless.
	ada := h.browser()
	h.signIn(ada, Person{Name: "ada", Role: Viewer})
	base, err := url.Parse(h.server.URL)
	check(t, err)
	copied := ada.Jar.Cookies(base)
	_, page, _ = h.getAs(ada, "/")
	h.post(ada, "/logout", "", map[string]string{"form": formOf(t, page)})
	thief := h.browser()
	thief.Jar.SetCookies(base, copied)
	if code, _, _ := h.getAs(thief, "/"); code != http.StatusSeeOther {
		t.Errorf("the copy of a session that was signed out: %d", code)
	}
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	h.wait(sessionLife)
	if code, _, _ := h.get("/"); code != http.StatusSeeOther {
		t.Errorf("after its time: %d", code)
	}
}

func TestTokensSignIn(t *testing.T) {
	h := newRig(t)
	viewer, err := AddToken(h.tokens, Token{Name: "bob", Role: Viewer, Accounts: []string{"main"}})
	check(t, err)
	operator, err := AddToken(h.tokens, Token{Name: "ada", Role: Operator})
	check(t, err)
	text, err := os.ReadFile(h.tokens)
	check(t, err)
	if strings.Contains(string(text), viewer) || strings.Contains(string(text), operator[4:20]) || mode(t, h.tokens) != 0o600 {
		t.Errorf("the file of mode %o holds a token:\n%s", mode(t, h.tokens), text)
	}
	if _, err := AddToken(h.tokens, Token{Name: "ada", Role: Viewer}); err == nil {
		t.Error("a second token of one name")
	}
	bob := h.browser()
	if code, _ := h.post(bob, "/login", "", map[string]string{"token": viewer, "next": "/a/main/money"}); code != http.StatusSeeOther {
		t.Fatalf("bob: %d", code)
	}
	if code, _, _ := h.getAs(bob, "/a/main/money"); code != http.StatusOK {
		t.Errorf("his account: %d", code)
	}
	if code, body, _ := h.getAs(bob, "/a/other/money"); code != http.StatusNotFound || strings.Contains(body, "USD") {
		t.Errorf("another account: %d", code)
	}
	_, page, _ := h.getAs(bob, "/")
	if strings.Contains(page, "other") {
		t.Error("the first page names an account that is not his")
	}
	if code, _ := h.post(bob, "/a/main/change/pause", "", map[string]string{"form": formOf(t, page), "reason": "x"}); code != http.StatusForbidden {
		t.Errorf("a viewer changes something: %d", code)
	}
	_, rest, _ := strings.Cut(string(text), "- name: ada")
	as := func(token, role, accounts string) {
		entry := ""
		if token != "" {
			entry = fmt.Sprintf("- {name: bob, role: %s, accounts: [%s], sha256: %s}\n", role, accounts, hashOf(token))
		}
		check(t, os.WriteFile(h.tokens, []byte(entry+"- name: ada"+rest), 0o600))
	}
	as(viewer, "operator", "other") // his session has the current rights
	if own, _, _ := h.getAs(bob, "/a/other/money"); own != http.StatusOK {
		t.Errorf("an account that he has got: %d", own)
	}
	if code, _ := h.post(bob, "/a/main/change/pause", "", map[string]string{"form": formOf(t, page), "reason": "x"}); code != http.StatusNotFound {
		t.Errorf("an account that he has lost: %d", code)
	}
	for _, another := range []string{"", "pwt_another"} { // no entry, and the entry of another token
		as(another, "viewer", "main")
		if code, body, _ := h.getAs(bob, "/a/main/money"); code != http.StatusSeeOther || strings.Contains(body, "USD") {
			t.Errorf("his session outlives his token: %d", code)
		}
	}
	as(viewer, "viewer", "main")
	for _, wrong := range []string{"", "pwt_x", viewer + "x", "admin"} {
		if code, _ := h.post(h.browser(), "/login", "", map[string]string{"token": wrong}); code != http.StatusForbidden {
			t.Errorf("%q: %d", wrong, code)
		}
	}
	check(t, os.Chmod(h.tokens, 0o644))
	if code, _ := h.post(h.browser(), "/login", "", map[string]string{"token": operator}); code != http.StatusInternalServerError {
		t.Errorf("a file that others can read: %d", code)
	}
	if log := h.log.String(); strings.Contains(log, operator) || strings.Contains(log, viewer) || !strings.Contains(log, "a login failed") {
		t.Errorf("the log: %s", log)
	}
}

func TestLoginsAreBounded(t *testing.T) {
	h := newRig(t)
	limited := 0
	for range loginsInARow + 5 {
		if code, _ := h.post(h.client, "/login", "", map[string]string{"token": "guess"}); code == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < 3 {
		t.Errorf("%d logins were refused for their number", limited)
	}
	h.signIn(h.browser(), Person{Name: "ada", Role: Viewer}) // guessers do not lock out a person with a link
}

func TestOnePersonDoesNotTakeAllOpenPages(t *testing.T) {
	var o openPages
	for n := range maxOwn + 5 {
		if o.open("eve") != (n < maxOwn) {
			t.Fatalf("page %d of one person", n+1)
		}
	}
	if !o.open("ada") {
		t.Error("another person has none left")
	}
	o.close("eve")
	if !o.open("eve") {
		t.Error("a page that was closed counts")
	}
}

func TestAnotherSiteChangesNothing(t *testing.T) {
	h := newRig(t)
	h.main.answer["pause"] = map[string]int{"changed": 1}
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	eve := h.browser()
	h.signIn(eve, Person{Name: "eve", Role: Operator})
	_, page, _ := h.get("/")
	form := formOf(t, page)
	_, others, _ := h.getAs(eve, "/")
	for what, x := range map[string]struct{ origin, form string }{
		"another site": {"https://evil.example", form}, "an opaque origin": {"null", form}, "no form token": {"", ""}, "another session's": {"", formOf(t, others)},
	} {
		if code, body := h.post(h.client, "/a/main/change/pause", x.origin, map[string]string{"form": x.form, "reason": "x"}); code != http.StatusForbidden {
			t.Errorf("%s: %d %s", what, code, body)
		}
	}
	for _, x := range h.main.requests() {
		if x.verb == "pause" {
			t.Errorf("%v", x)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.server.URL+"/", nil)
	check(t, err)
	request.Host = "evil.example"
	if code, body, _ := h.do(h.client, request); code != http.StatusMisdirectedRequest || strings.Contains(body, "USD") {
		t.Errorf("under another name: %d", code)
	}
	_, _, header := h.get("/")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"} {
		if !strings.Contains(header.Get("Content-Security-Policy"), part) {
			t.Errorf("no %s", part)
		}
	}
	if header.Get("Cache-Control") != "no-store" || header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v", header)
	}
	for _, next := range []string{"https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "/\n/evil.example", "/\x00/evil.example", "javascript:alert(1)"} {
		if got := localPath(next); got != "/" {
			t.Errorf("a login leads to %s", got)
		}
	}
}

// A person who can read the key could sign in as anybody.
func TestAKeyThatOthersCanReadIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.key")
	made, err := Key(path, true)
	check(t, err)
	check(t, os.Chmod(path, 0o644))
	if again, err := Key(path, true); err != nil || !bytes.Equal(again, made) {
		t.Errorf("the key is not kept: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// The test includes zero and negative durations.
func TestADurationReadsAsAPersonSaysIt(t *testing.T) {
	for d, want := range map[time.Duration]string{72 * time.Hour: "3 days", 47 * time.Hour: "47 hours", time.Hour: "1 hour", 1: "0 hours", -240 * time.Hour: "0 hours"} {
		if got := roughly(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
