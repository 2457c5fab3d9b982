package crashtest

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"perennial/cmd/perennial/internal/daemon"
)

// reveals has an operator read credentials on a page. The page shows those of px_1. For px_4 the
// provider fails, with secrets in its reply. Both attempts are recorded as facts.
func (w *world) reveals(c canaries, line daemon.ReadyLine) {
	w.t.Helper()
	b := w.browser()
	reveal := func(id string) (page string, code int) {
		w.t.Helper()
		page, _, err := ask(b, line.HTTP+"/a/main/proxy?id="+id, nil)
		form := regexp.MustCompile(`action="/a/main/reveal"[^>]*><input type="hidden" name="form" value="([^"]+)"`).FindStringSubmatch(page)
		if err != nil || form == nil {
			w.t.Fatalf("%s has no form to reveal its credentials: %v\n%s", id, err, page)
		}
		c.seek(w.t, "the page of "+id, page)
		page, code, err = ask(b, line.HTTP+"/a/main/reveal", url.Values{"form": {form[1]}, "id": {id}, "reason": {"a customer cannot connect"}})
		if err != nil {
			w.t.Fatal(err)
		}
		return page, code
	}
	if page, code := reveal("px_1"); code != http.StatusOK || !strings.Contains(page, "pass-px_1-secret") || !strings.Contains(page, canaryConnection) {
		w.t.Errorf("px_1 is not revealed: %d %s", code, page)
	}
	page, code := reveal("px_4")
	if code != http.StatusBadGateway || !strings.Contains(page, "proxy_endpoint_unavailable") {
		w.t.Errorf("px_4: %d %s", code, page)
	}
	c.seek(w.t, "a reveal that fails", page)
	decided := w.mustCLI("review", "log", "-o", "json")
	for _, id := range []string{"px_1", "px_4"} {
		if !strings.Contains(decided, `"fact":"proxy.revealed","about":"`+id+`","by":"ada"`) {
			w.t.Errorf("the log of decisions does not say that %s was revealed:\n%s", id, decided)
		}
	}
	page, _, err := ask(b, line.HTTP+"/a/main/log", nil)
	if err != nil || strings.Count(page, "revealed the credentials") != 2 {
		w.t.Errorf("the page of decisions: %v\n%s", err, page)
	}
}
