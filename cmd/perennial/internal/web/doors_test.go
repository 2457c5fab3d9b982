package web

import (
	"crypto/rand"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/verbs"
)

// open is the routes that need no login. All others are locked.
var open = []string{"GET /static/{file}", "GET /static/vendor/{file}", "GET /login", "POST /login"}

type door struct{ pattern, method, path string }

// allDoors returns all routes of the server's own table, with one door for each change.
func allDoors(s *Server) (all []door) {
	for _, pattern := range s.patterns {
		method, path, _ := strings.Cut(pattern, " ")
		path = strings.NewReplacer("/static/vendor/{file}", "/static/vendor/uPlot.esm.js", "{account}", "main", "{$}", "", "/static/{file}", "/static/page.css").Replace(path)
		if !strings.Contains(path, "{what}") {
			all = append(all, door{pattern, method, path})
			continue
		}
		whats := slices.Collect(maps.Keys(changes))
		if strings.Contains(path, "/check/") {
			whats = []string{"verify", "reconcile"}
		}
		for _, what := range whats {
			all = append(all, door{pattern, method, strings.Replace(path, "{what}", what, 1)})
		}
	}
	return all
}

type attempt struct {
	cookie, form string
	header       map[string]string // may include Host
}

func (h *rig) try(d door, a attempt) (code int, body string, header http.Header) {
	h.t.Helper()
	body = url.Values{"form": {a.form}, "id": {"px_1"}, "reason": {"x"}, "plan": {"9f"}, "answer": {"not_charged"}, "token": {"pwt_guess"}}.Encode()
	if d.method == http.MethodGet {
		body = ""
	}
	request, err := http.NewRequestWithContext(h.t.Context(), d.method, h.server.URL+d.path, strings.NewReader(body))
	check(h.t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if a.cookie != "" {
		request.AddCookie(&http.Cookie{Name: cookieName(request.URL.Host), Value: a.cookie})
	}
	for name, value := range a.header {
		request.Header.Set(name, value)
		if name == "Host" {
			request.Host = value
		}
	}
	return h.do(h.browser(), request)
}

// session returns a person's cookie and the token of the session's forms.
func (h *rig) session(p Person, expires time.Time) attempt {
	x := session{Person: p, ID: rand.Text(), Expires: expires}
	return attempt{cookie: sign(h.pages.Key, forSession, x), form: h.pages.sessions.formToken(x)}
}

func (a attempt) with(name, value string) attempt {
	a.header = map[string]string{name: value}
	return a
}

// The test tries each route of the server's table as everybody who may not pass. A new route is
// included automatically.
func TestEveryDoorIsLockedFromOutside(t *testing.T) {
	h := newRig(t)
	for _, v := range verbs.All() {
		if v.Changes() {
			h.main.answer[v.Name] = map[string]int{"changed": 1}
		}
	}
	var err error
	h.pages.Identity, err = NewIdentity(personHeader, []string{"192.0.2.0/24"}, []Person{{Name: "ada", Role: Operator}})
	check(t, err)
	all, later := allDoors(h.pages), h.clock().Add(time.Hour)
	if len(all) < 30 || !slices.ContainsFunc(all, func(d door) bool { return d.path == "/a/main/reveal" }) {
		t.Fatalf("%d doors", len(all))
	}
	ada := Person{Name: "ada", Role: Operator}
	good := h.session(ada, later)
	body, tag, _ := strings.Cut(good.cookie, ".")
	viewersBody, _, _ := strings.Cut(h.session(Person{Name: "ada", Role: Viewer}, later).cookie, ".")
	outside := map[string]attempt{
		"no cookie":                           {form: good.form},
		"an expired cookie":                   h.session(ada, h.clock()),
		"a cookie of another key":             {cookie: sign([]byte("another key"), forSession, session{Person: ada, ID: "x", Expires: later}), form: good.form},
		"a cookie without its signature":      {cookie: body, form: good.form},
		"a signature of another cookie":       {cookie: viewersBody + "." + tag, form: good.form},
		"a link as a cookie":                  {cookie: Link(h.pages.Key, ada, h.clock()), form: good.form},
		"a header from an untrusted address":  attempt{form: good.form}.with(personHeader, "ada"),
		"nonsense":                            {cookie: "a.b", form: good.form},
		"an expired cookie and such a header": h.session(ada, h.clock()).with(personHeader, "ada"),
	}
	for _, d := range all {
		locked := !slices.Contains(open, d.pattern)
		for what, a := range outside {
			code, page, header := h.try(d, a)
			login := d.method == http.MethodGet && d.path != "/changes"
			switch {
			case !locked:
			case login && (code != http.StatusSeeOther || !strings.HasPrefix(header.Get("Location"), "/login?next=")), !login && code != http.StatusUnauthorized:
				t.Errorf("%s %s, %s: %d", d.method, d.path, what, code)
			}
			h.showsNothing(d, what, page)
		}
		if code, page, _ := h.try(d, good.with("Host", "evil.example")); code != http.StatusMisdirectedRequest {
			t.Errorf("%s %s under another name: %d %s", d.method, d.path, code, page)
		}
		if locked && d.method == http.MethodGet {
			head := d
			head.method = http.MethodHead
			if code, _, _ := h.try(head, attempt{}); code != http.StatusUnauthorized {
				t.Errorf("HEAD %s: %d", d.path, code)
			}
		}
		if strings.Contains(d.pattern, "{account}") {
			if code, page, _ := h.try(d, h.session(Person{Name: "eve", Role: Operator, Accounts: []string{"other"}}, later)); code != http.StatusNotFound {
				t.Errorf("%s %s of an account that is not theirs: %d", d.method, d.path, code)
			} else {
				h.showsNothing(d, "an account that is not theirs", page)
			}
		}
		if d.method == http.MethodPost {
			h.tryForms(d, locked, ada, later)
		}
	}
	h.nothingWasChanged()
	for _, d := range all { // the doors do open for the right person
		if d.path == "/changes" || slices.Contains(open, d.pattern) {
			continue
		}
		if code, page, _ := h.try(d, h.session(ada, later)); slices.Contains([]int{401, 403, 421, 500}, code) || code == http.StatusNotFound && d.path != "/a/main/operation" && d.path != "/a/main/proxy" && d.path != "/a/main/schedule" {
			t.Errorf("%s %s with all that it takes: %d %s", d.method, d.path, code, page)
		}
	}
}

// tryForms sends a form from another site, with another session's token, and as a viewer.
func (h *rig) tryForms(d door, locked bool, ada Person, later time.Time) {
	h.t.Helper()
	good := h.session(ada, later)
	for what, a := range map[string]attempt{
		"another origin": good.with("Origin", "https://evil.example"), "an opaque origin": good.with("Origin", "null"), "another site": good.with("Sec-Fetch-Site", "cross-site"),
		"another site of this domain": good.with("Sec-Fetch-Site", "same-site"),
	} {
		if code, page, _ := h.try(d, a); code != http.StatusForbidden {
			h.t.Errorf("%s, %s: %d %s", d.path, what, code, page)
		}
	}
	if !locked {
		return
	}
	viewer := h.session(Person{Name: "bob", Role: Viewer}, later)
	for what, a := range map[string]attempt{
		"the form token of another session": {cookie: good.cookie, form: viewer.form}, "no form token": {cookie: good.cookie}, "nonsense as a form token": {cookie: good.cookie, form: "x"},
	} {
		if code, page, _ := h.try(d, a); code != http.StatusForbidden {
			h.t.Errorf("%s, %s: %d %s", d.path, what, code, page)
		}
	}
	if code, page, _ := h.try(d, viewer); d.path != "/logout" && code != http.StatusForbidden {
		h.t.Errorf("%s, a viewer: %d %s", d.path, code, page)
	}
}

func (h *rig) showsNothing(d door, what, page string) {
	h.t.Helper()
	for _, text := range []string{"r1/0001", " USD", "host-a", "9f86d081", "reason"} {
		if strings.Contains(page, text) && d.path != "/static/page.css" {
			h.t.Errorf("%s %s, %s: %q is shown:\n%s", d.method, d.path, what, text, page)
		}
	}
}

// nothingWasChanged checks that no changing verb was called, and no credential was read.
func (h *rig) nothingWasChanged() {
	h.t.Helper()
	for _, x := range h.main.requests() {
		if slices.ContainsFunc(verbs.All(), func(v verbs.Spec) bool { return v.Name == x.verb && v.Changes() }) {
			h.t.Errorf("%v was asked", x)
		}
	}
	if h.main.revealed > 0 {
		h.t.Errorf("the provider was asked for credentials %d times", h.main.revealed)
	}
}
