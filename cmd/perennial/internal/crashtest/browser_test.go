//go:build check

package crashtest

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"perennial/cmd/perennial/internal/browsertest"
	"perennial/cmd/perennial/internal/daemon"
)

// action is one step of a person in a browser.
type action = browsertest.Action

var (
	chromium    = browsertest.Chromium
	does        = browsertest.Does
	shows       = browsertest.Shows
	holds       = browsertest.Holds
	looksLike   = browsertest.LooksLike
	noteFailure = browsertest.NoteFailure
)

// signIn opens the overview through a one-time link.
func (w *world) signIn(ctx context.Context) {
	w.t.Helper()
	does(ctx, w.t, chromedp.Navigate(strings.TrimSpace(w.mustCLI("web", "login", "--by", "ada"))), browsertest.Click(`//button[text()="Sign in as ada"]`), shows("Overview"))
}

// lostReply has a renewal that needs review, because its reply was lost for good.
func lostReply(t testing.TB) (*world, *process, daemon.ReadyLine) {
	w := newWorld(t, 6)
	w.configure("", "schedules:\n  - {name: keep, cron: \"0 0 1 1 *\", renew_before: 300h, duration_days: 30, approve_over_cents: 1, match: {proxy_ids: [px_3, px_4]}}\n")
	run, line := w.run()
	awaitReady(t, line)
	w.mustCLI("renew", "px_2", "--id", "paid", "--wait")
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "code", "code": "proxy_endpoint_unavailable", "http_status": 503, "executed": true})
	w.cli("renew", "px_1", "--id", "lost", "--wait")
	w.cli("sweep", "run", "keep")
	return w, run, line
}

// An operator resolves a lost reply, approves a plan, and checks the money. An open page follows
// the changes, and also a restart of the runner.
func TestBrowserJourneys(t *testing.T) {
	t.Parallel()
	w, run, line := lostReply(t)
	ctx := chromium(t)
	w.signIn(ctx)
	does(ctx, t,
		shows("Needs you"), browsertest.Click(`section[aria-labelledby="card-needs"] a`), shows("Dead letters"), shows("lost/0001"),
		browsertest.Click(`a[href*="operation?id=lost"]`), shows("Likely charged: its expiry moved by 30 days; expected 3.00 USD."),
		browsertest.Click(`//summary[text()="Another amount, another order, or one proxy only"]`),
		browsertest.Click(`input[value="charged"]`), browsertest.Fill(`#review details input[name="amount"]`, "30.00"), browsertest.Fill(`#review details input[name="reason"]`, "the provider's site shows it"),
		// An unlikely amount needs a second step, which shows what would be booked.
		browsertest.Click(`//button[text()="Resolve"]`), shows("3.00 USD is expected"), browsertest.Click(`//button[text()="Change the answer"]`),
		shows("Another amount"), browsertest.Fill(`#review details input[name="amount"]`, "3.00"), browsertest.Click(`//button[text()="Resolve"]`),
		shows("Done: the review was answered"), shows("perennial reviews resolve lost/0001 --charged 3.00"),
		browsertest.Click(`//a[text()="Schedules"]`), shows("keep"), browsertest.Click(`//td/a[text()="keep"]`), shows("Plan needs approval"),
		browsertest.Fill(`form[action$="change/approve"] input[name="reason"]`, "it is meant to be"), browsertest.Click(`//button[starts-with(text(), "Approve")]`), shows("Done: the plan was approved"),
	)
	for _, id := range []string{"px_3", "px_4"} {
		await(t, id+" is renewed", func() bool { return w.renewals()[id] == 1 })
	}
	w.mustCLI("ledger", "reconcile")
	does(ctx, t, browsertest.Click(`//nav/a[text()="Money"]`), shows("Wallet"))

	// An open page shows changes as they happen.
	does(ctx, t, chromedp.Navigate(line.HTTP+"/a/main/operations"), shows("lost/0001"))
	w.mustCLI("renew", "px_5", "--id", "meanwhile", "--wait")
	does(ctx, t, shows("meanwhile/0001"))
	run.kill()
	_, line = w.run("--http", strings.TrimPrefix(line.HTTP, "http://"))
	awaitReady(t, line)
	w.mustCLI("renew", "px_6", "--id", "afterwards", "--wait")
	does(ctx, t, shows("afterwards/0001"))
	does(ctx, t, browsertest.Click(`//button[text()="Sign out"]`), shows("Sign in"), chromedp.Navigate(line.HTTP+"/a/main/money"), shows("Sign in"))
}

// More pages are open than a browser has connections to one server. Each loads and follows the
// changes, also after the page that receives them for the others is closed.
func TestBrowserManyPagesAreOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.configure("", "")
	_, line := w.run()
	awaitReady(t, line)
	first := chromium(t)
	w.signIn(first)
	pages, closes := []context.Context{first}, []context.CancelFunc{func() {}}
	for range 7 {
		ctx, cancel := chromedp.NewContext(first)
		t.Cleanup(cancel)
		if err := chromedp.Do(ctx); err != nil { // a page lives as long as the context of its first call
			t.Fatal(err)
		}
		pages, closes = append(pages, ctx), append(closes, cancel)
	}
	for _, ctx := range pages {
		does(ctx, t, chromedp.Navigate(line.HTTP+"/a/main/operations"), shows("Operations"))
	}
	w.mustCLI("renew", "px_1", "--id", "meanwhile", "--wait")
	for _, ctx := range pages {
		does(ctx, t, shows("meanwhile/0001"))
	}
	does(first, t, chromedp.Navigate("about:blank"))
	for _, end := range closes[1:4] {
		end()
	}
	w.mustCLI("renew", "px_2", "--id", "afterwards", "--wait")
	for _, ctx := range pages[4:] {
		does(ctx, t, shows("afterwards/0001"))
	}
}

// axe finds no problem on any page, light or dark. No page is wider than a phone or cuts off a
// table there, fails, or contacts another server. A proxy takes one line of its list at 1280 px.
func TestBrowserPagesAreForEveryone(t *testing.T) {
	t.Parallel()
	w, _, line := lostReply(t)
	ctx := chromium(t)
	var failures []string
	if err := chromedp.Listen(ctx, func(ev any) { noteFailure(&failures, line.HTTP, ev) }); err != nil {
		t.Fatal(err)
	}
	w.signIn(ctx)
	w.deadLetters(line, "no command")
	for _, path := range []string{
		"/", "/a/main/attention", "/a/main/operations", "/a/main/operation?id=lost", "/a/main/operation?id=paid", "/a/main/reviews", "/a/main/schedules", "/a/main/schedule?id=keep&plan=1",
		"/a/main/proxies", "/a/main/proxies?within=240h", "/a/main/proxy?id=px_1", "/a/main/dead", "/a/main/dead?seq=1", "/runners",
		"/a/main/proxy?id=px_4", "/a/main/proxies?uncovered=1", "/a/main/calendar", "/a/main/money", "/a/main/statement", "/a/main/log", "/a/main/operation?id=none", "/login",
	} {
		for _, look := range []struct {
			width  int64
			scheme string
		}{{360, "light"}, {1280, "dark"}, {2560, "light"}} {
			does(ctx, t, looksLike(look.width, look.scheme), chromedp.Navigate(line.HTTP+path), chromedp.WaitReady("footer"))
			if found := browsertest.Axe(ctx, t); len(found) > 0 {
				t.Errorf("%s at %d px, %s: %q", path, look.width, look.scheme, found)
			}
			if look.width == 1280 && strings.HasPrefix(path, "/a/main/proxies") {
				does(ctx, t, holds(`[...document.querySelectorAll("main tbody tr")].every((r) => r.offsetHeight < 45)`)) // one line
			}
		}
	}
	if len(failures) > 0 {
		t.Errorf("%q", failures)
	}
}
