//go:build check

package web

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"perennial/cmd/perennial/internal/browsertest"
)

// browserPages is how many pages of a list the test visits.
const browserPages = 20

// The test goes through lists of -pages.operations and -pages.proxies page by page, with the
// keyboard only. No row is missing or repeated.
func TestBrowserPagesOfMany(t *testing.T) {
	h := newRig(t)
	fill(t, h)
	ctx := browsertest.Chromium(t)
	link := "/login?code=" + url.QueryEscape(Link(h.pages.Key, Person{Name: "ada", Role: Operator}, h.clock()))
	browsertest.Does(ctx, t, chromedp.Navigate(h.server.URL+link), browsertest.Click(`//button[text()="Sign in as ada"]`), browsertest.Shows("Overview"))

	// The latest operations come first. Operations of the same instant keep the journal's order.
	rows := h.through(ctx, t, "/a/main/operations", "Older", browserPages)
	for n := range browserPages * listed {
		if want := fmt.Sprintf("mass-%d/0001", *massOperations-1-n); n >= len(rows) || rows[n] != want {
			t.Fatalf("row %d of %d is %q, not %s", n, len(rows), rows[min(n, len(rows)-1)], want)
		}
	}
	rows = h.through(ctx, t, "/a/main/proxies?by=id", "More", 3)
	all, err := h.main.Fleet.Proxies(t.Context(), "", 3*proxiesShown)
	check(t, err)
	for n, p := range all {
		if n >= len(rows) || rows[n] != p.ProxyID {
			t.Fatalf("row %d of %d is not %s", n, len(rows), p.ProxyID)
		}
	}
	rows = h.through(ctx, t, "/a/main/proxies", "More", 3)
	rows = slices.DeleteFunc(rows, func(id string) bool { return id == "px_1" })
	for n := range rows {
		if want := fmt.Sprintf("px_mass_%d", n); rows[n] != want || len(rows) < 3*proxiesShown-1 {
			t.Fatalf("row %d of %d is %s, not %s", n, len(rows), rows[n], want)
		}
	}

	browsertest.Does(ctx, t, chromedp.Navigate(h.server.URL+"/a/main/operations"), browsertest.Click(`//p[@class="tabs"]/a[starts-with(., "completed")]`), browsertest.Holds(`location.search.includes("state=completed") && document.readyState === "complete"`), browsertest.Click(`//summary[text()="Filters"]`), chromedp.SendKeys(`input[name="label"]`, "team=red"+kb.Enter),
		browsertest.Holds(`location.search.includes("team%3Dred") && document.readyState === "complete"`))
	rows = h.through(ctx, t, browsertest.Says[string](ctx, t, "location.pathname + location.search"), "Older", 3)
	red := []string{} // of the same instant by id, the greatest first
	for n := 0; n < *massOperations; n += 2 {
		red = append(red, fmt.Sprintf("mass-%d/0001", n))
	}
	slices.Sort(red)
	slices.Reverse(red)
	if want := red[:3*listed]; !slices.Equal(rows, want) {
		t.Fatalf("filtered: %q, not %q", rows, want)
	}
	browsertest.Does(ctx, t, chromedp.Navigate(h.server.URL+"/a/main/operations"), browsertest.Click(`//p[@class="tabs"]/a[starts-with(., "review")]`), browsertest.Holds(`location.search.includes("state=review")`), browsertest.Shows("r1/0001"))
	if n := browsertest.Says[int](ctx, t, `document.querySelectorAll("main tbody tr").length`); n != 1 {
		t.Errorf("%d operations are in review", n)
	}
}

// through returns the first cell of every row on this many pages. It reaches each next page by Tab
// and Enter.
func (h *rig) through(ctx context.Context, t *testing.T, path, more string, pages int) (all []string) {
	t.Helper()
	browsertest.Does(ctx, t, chromedp.Navigate(h.server.URL+path), chromedp.WaitReady("footer"))
	for n := range pages {
		text := browsertest.Says[string](ctx, t, `[...document.querySelectorAll("main tbody tr")].map((r) => r.cells[0].innerText).join("\n")`)
		all = append(all, strings.Split(text, "\n")...)
		if n == pages-1 {
			break
		}
		at := browsertest.Says[string](ctx, t, "location.href")
		browsertest.Does(ctx, t, chromedp.Focus(`main .scroll`)) // the table of the list; TestBrowserKeyboard covers what is before it
		browsertest.Does(ctx, t, browsertest.TabTo(fmt.Sprintf("document.activeElement.innerText === %q", more)), chromedp.KeyEvent(kb.Enter),
			browsertest.Holds(fmt.Sprintf(`location.href !== %q && document.readyState === "complete" && document.querySelector("footer") !== null`, at)))
	}
	return all
}
