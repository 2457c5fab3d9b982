package crashtest

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/web"
)

// The leader records the fact, and the standby then asks the provider itself. Without NATS there is
// no fact, and the standby reveals nothing.
func TestAStandbyRevealsBehindTheHoldersFact(t *testing.T) {
	t.Parallel()
	p := newPair(t, 2)
	p.start(0, "")
	p.awaitRole(0, "active")
	p.start(1, "")
	p.awaitRole(1, "standby")
	p.w.mustCLI("renew", "px_1", "--id", "known", "--wait")
	key, err := web.Key(daemon.KeyFile(filepath.Join(p.w.dir, pairData[1])), false)
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &http.Client{Jar: jar, Timeout: patience}
	page, code, err := ask(b, p.at[1].HTTP+"/login?code="+url.QueryEscape(web.Link(key, web.Person{Name: "ada", Role: web.Operator}, time.Now())), url.Values{})
	form := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(page)
	if err != nil || form == nil {
		t.Fatalf("signing in: %d %v\n%s", code, err, page)
	}
	reveal := func() (string, int) {
		t.Helper()
		page, code, err := ask(b, p.at[1].HTTP+"/a/main/reveal", url.Values{"form": {form[1]}, "id": {"px_1"}, "reason": {"a customer cannot connect"}})
		if err != nil {
			t.Fatal(err)
		}
		return page, code
	}
	if page, code := reveal(); code != http.StatusOK || !strings.Contains(page, "pass-px_1-secret") {
		t.Errorf("on the standby: %d %s", code, page)
	}
	if decided := p.w.mustCLI("review", "log", "-o", "json"); !strings.Contains(decided, `"fact":"proxy.revealed","about":"px_1","by":"ada"`) {
		t.Errorf("no fact:\n%s", decided)
	}
	if page, _, err := ask(b, p.at[1].HTTP+"/runners", nil); err != nil || !strings.Contains(page, "active") || !strings.Contains(page, "standby") || strings.Count(page, "this one") != 1 {
		t.Errorf("the runners: %v %s", err, page)
	}
	p.nats.kill()
	if page, code := reveal(); code != http.StatusUnprocessableEntity || strings.Contains(page, "pass-px_1-secret") || !strings.Contains(page, "Nothing is revealed, because the reveal could not be recorded") {
		t.Errorf("without NATS: %d %s", code, page)
	}
}
