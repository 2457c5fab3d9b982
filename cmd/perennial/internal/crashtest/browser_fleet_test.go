//go:build check

package crashtest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"perennial/cmd/perennial/internal/browsertest"
)

// charted waits until the page has exactly one chart, and page.js keeps no chart of an earlier
// page.
func charted() action {
	return holds(`document.querySelectorAll(".chart canvas").length === 1 && document.documentElement.dataset.charts === "1"`)
}

// An operator finds what expires, what it will cost, and why an IP was not renewed. Charts survive
// a page refresh, and the content security policy blocks nothing.
func TestBrowserFleetJourneys(t *testing.T) {
	t.Parallel()
	w, _, line := lostReply(t)
	var known struct {
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal([]byte(w.mustCLI("proxies", "get", "px_5", "-o", "json")), &known); err != nil {
		t.Fatal(err)
	}
	ctx := chromium(t)
	var failures []string
	if err := chromedp.Listen(ctx, func(ev any) { noteFailure(&failures, line.HTTP, ev) }); err != nil {
		t.Fatal(err)
	}
	w.signIn(ctx)
	does(ctx, t, shows("Wallet lasts over 30 days"), charted())
	does(ctx, t, chromedp.Evaluate[chromedp.Void](`document.getElementById("content").dataset.before = "1"; undefined`))
	w.mustCLI("renew", "px_6", "--id", "meanwhile", "--wait")
	does(ctx, t, holds(`document.getElementById("content").dataset.before === undefined`), charted())

	day := known.ExpiresAt.UTC().Format(time.DateOnly)
	does(ctx, t, browsertest.Click(`//nav/a[text()="Calendar"]`), shows("Expiries in"),
		chromedp.Navigate(line.HTTP+"/a/main/calendar?month="+day[:7]), shows("is expected to cost"),
		browsertest.Click(`a[href*="from=`+day+`"]`), shows("What expires from "+day), shows("px_5"))

	does(ctx, t, browsertest.Click(`//td/a[text()="px_5"]`), shows("It is not renewed: no schedule of this account matches it."),
		chromedp.Navigate(line.HTTP+"/a/main/proxy?id=px_1"), shows("in review"), browsertest.Click(`.verdict a`), shows("Resolve the review"))
	if len(failures) > 0 {
		t.Errorf("%q", failures)
	}
}
