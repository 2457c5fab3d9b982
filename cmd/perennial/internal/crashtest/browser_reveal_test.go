//go:build check

package crashtest

import (
	"testing"

	"github.com/chromedp/chromedp"

	"perennial/cmd/perennial/internal/browsertest"
)

// The page with the credentials follows no changes, so that it never reloads itself. The
// credentials disappear with the page.
func TestBrowserRevealIsShownOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.configure("", "schedules: [{name: yearly, cron: '0 0 1 1 *', renew_before: 1h, duration_days: 30}]\n") // an account with a schedule lists its proxies
	_, line := w.run()
	awaitReady(t, line)
	ctx := chromium(t)
	w.signIn(ctx)
	w.mustCLI("renew", "px_1", "--id", "known", "--wait")
	const secret, follows = "pass-px_1-secret", `performance.getEntriesByType("resource").some((x) => x.name.endsWith("/changes"))`
	does(ctx, t, chromedp.Navigate(line.HTTP+"/a/main/proxy?id=px_1"), shows("Show credentials"),
		browsertest.Fill(`form[action$="/reveal"] input[name="reason"]`, "a customer cannot connect"),
		browsertest.Click(`//button[text()="Show credentials"]`), shows(secret), shows("perennial proxies get px_1 --reveal"),
		holds(`document.readyState === "complete"`)) // its script has run
	evaluate := func(script string) (is bool) {
		t.Helper()
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script))
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if evaluate(follows) {
		t.Error("the page follows changes, and would be loaded again")
	}
	if evaluate(`dispatchEvent(new Event("pagehide")) && document.body.textContent.includes("` + secret + `")`) {
		t.Error("the credentials stay behind the page")
	}
	does(ctx, t, browsertest.Click(`//a[text()="Back to the proxy"]`), shows("Show credentials"))
	if evaluate(`document.documentElement.outerHTML.includes("` + secret + `")`) {
		t.Error("the page of the proxy shows them")
	}
	does(ctx, t, chromedp.Navigate(line.HTTP+"/a/main/reveal"), chromedp.WaitReady("body"))
	if evaluate(`document.documentElement.outerHTML.includes("` + secret + `")`) {
		t.Error("the address shows them again")
	}
	does(ctx, t, chromedp.Navigate(line.HTTP+"/a/main/log"), shows("revealed the credentials"), shows("a customer cannot connect"))
}
