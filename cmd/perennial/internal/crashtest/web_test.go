package crashtest

import (
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/daemon"
)

// browser returns a client that `perennial web login` has signed in.
func (w *world) browser() *http.Client {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	b := &http.Client{Jar: jar, Timeout: patience}
	if _, code, err := ask(b, strings.TrimSpace(w.mustCLI("web", "login", "--by", "ada")), url.Values{}); err != nil || code != http.StatusOK {
		w.t.Fatalf("signing in: %d %v", code, err)
	}
	return b
}

// ask gets a page, or posts a form.
func ask(b *http.Client, address string, form url.Values) (text string, code int, err error) {
	var response *http.Response
	if form == nil {
		response, err = b.Get(address)
	} else {
		response, err = b.PostForm(address, form)
	}
	if err != nil {
		return "", 0, err
	}
	body, err := io.ReadAll(response.Body)
	return string(body), response.StatusCode, errors.Join(err, response.Body.Close())
}

// formOf returns the form token of a page.
func formOf(t *testing.T, b *http.Client, address string) string {
	t.Helper()
	page, _, err := ask(b, address, nil)
	form := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(page)
	if err != nil || form == nil {
		t.Fatalf("no form: %v\n%s", err, page)
	}
	return form[1]
}

// page gets a page as a signed-in user.
func (w *world) page(line daemon.ReadyLine, path string) (string, error) {
	w.t.Helper()
	text, _, err := ask(w.browser(), line.HTTP+path, nil)
	return text, err
}

// A reply was lost for good. An operator finds the operation on the pages and resolves it there,
// and the books are right. The command line accepts the command that the page shows.
func TestAReviewIsAnsweredOnAPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.configure("", "schedules:\n  - {name: keep, cron: \"0 0 1 1 *\", renew_before: 300h, duration_days: 30, match: {proxy_ids: [px_3]}}\n")
	run, line := w.run()
	awaitReady(t, line)
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "code", "code": "proxy_endpoint_unavailable", "http_status": 503, "executed": true})
	w.cli("renew", "px_1", "--id", "lost", "--wait")
	b := w.browser()
	get := func(path string) string {
		t.Helper()
		text, code, err := ask(b, line.HTTP+path, nil)
		if err != nil || code != http.StatusOK {
			t.Fatalf("%s: %d %v\n%s", path, code, err, text)
		}
		return text
	}
	if page := get("/"); !strings.Contains(page, `<li>1 review</li>`) {
		t.Errorf("the first page does not say that one waits:\n%s", page)
	}
	if page := get("/a/main/reviews"); !strings.Contains(page, "lost/0001") {
		t.Errorf("%s", page)
	}
	page := get("/a/main/operation?id=lost")
	form := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(page)
	if form == nil || !strings.Contains(page, "Resolve the review") {
		t.Fatalf("no form:\n%s", page)
	}
	send := func(what string, fields map[string]string) (string, int) {
		t.Helper()
		values := url.Values{"form": {form[1]}, "reason": {"it's on the provider's site"}}
		for k, v := range fields {
			values.Set(k, v)
		}
		text, code, err := ask(b, line.HTTP+"/a/main/change/"+what, values)
		if err != nil {
			t.Fatal(err)
		}
		return text, code
	}
	said, code := send("resolve", map[string]string{"id": "lost/0001", "answer": "charged", "amount": "3.00", "sure": "yes"})
	if code != http.StatusOK || !strings.Contains(said, "Done: the review was answered") {
		t.Fatalf("%d %s", code, said)
	}
	w.mustCLI("ledger", "reconcile")
	if out := w.mustCLI("review", "log", "-o", "json"); !strings.Contains(out, `"by":"ada"`) || !strings.Contains(out, "it's on the provider's site") {
		t.Errorf("%s", out)
	}
	for what, fields := range map[string]map[string]string{
		"schedule-pause": {"id": "keep", "hours": "8"}, "schedule-resume": {"id": "keep"}, "retire": {"id": "px_2"}, "reinstate": {"id": "px_2"}, "sweep": {"id": "keep"}, "pause": {}, "resume": {},
		"release": {"id": "lost"}, "cancel": {"id": "lost"}, "retry": {"id": "lost"}, "approve": {"id": "9f86"},
	} {
		said, _ := send(what, fields)
		command := regexp.MustCompile(`Equivalent: <code>(perennial [^<]+)</code>`).FindStringSubmatch(said)
		if command == nil {
			t.Errorf("%s shows no command:\n%s", what, said)
			continue
		}
		if _, errs, code := w.cli(words(html.UnescapeString(command[1]))[1:]...); code == 2 || code == 5 {
			t.Errorf("%s: exit %d %s", command[1], code, errs)
		}
	}
	w.cli("account", "resume", "--reason", "whatever came last")
	run.kill() // a session and an open page survive a restart
	_, again := w.run("--http", strings.TrimPrefix(line.HTTP, "http://"))
	awaitReady(t, again)
	if page := get("/a/main/operation?id=lost"); !strings.Contains(page, "resolved") {
		t.Errorf("behind a restart:\n%s", page)
	}
	w.mustCLI("ledger", "verify")
}

// words splits a command line that is quoted as web.shell does it.
func words(command string) (all []string) {
	word, quoted := "", false
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case c == '\'':
			quoted = !quoted
		case c == '\\' && !quoted:
			i++
			word += string(command[i])
		case c == ' ' && !quoted:
			all, word = append(all, word), ""
		default:
			word += string(c)
		}
	}
	return append(all, word)
}
