//go:build check

package crashtest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"perennial/cmd/perennial/internal/browsertest"
)

// reachable is every element that Tab reaches, in document order. A group of radio buttons is one
// stop.
const reachable = `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']")]
	.filter((e) => e.checkVisibility() && !e.disabled && !(e.type === "radio" && e !== e.form.querySelector("input[type=radio][name=" + e.name + "]")))`

// From the skip link on, Tab reaches every link, button and field in page order, with a visible
// focus. A review can be answered with the keyboard only.
func TestBrowserKeyboard(t *testing.T) {
	t.Parallel()
	w, _, line := lostReply(t)
	ctx := chromium(t)
	w.signIn(ctx)
	for _, path := range []string{"/", "/a/main/operations", "/a/main/reviews"} {
		does(ctx, t, chromedp.Navigate(line.HTTP+path), settledPage())
		want := browsertest.Says[int](ctx, t, reachable+`.length`)
		if want < 12 {
			t.Errorf("%s has %d stops", path, want)
		}
		stops, unseen := tabThrough(ctx, t, want)
		if len(stops) < want {
			t.Errorf("%s: Tab comes to %d stops of %d", path, len(stops), want)
		}
		for n, at := range stops {
			if at != n {
				t.Errorf("%s: Tab %d comes to stop %d of %d: %s", path, n+1, at, want, browsertest.Says[string](ctx, t, fmt.Sprintf("(%s)[%d]?.outerHTML ?? 'none'", reachable, n)))
				break
			}
		}
		if len(unseen) > 0 {
			t.Errorf("%s: the focus is not seen on %q", path, unseen)
		}
	}
	w.answerByKeyboard(ctx, line.HTTP)
	w.mustCLI("ledger", "reconcile")
}

// tabThrough presses Tab until the focus has had want stops. It returns the stops, and those where
// the focus is invisible. A date field takes several presses.
func tabThrough(ctx context.Context, t testing.TB, want int) (stops []int, unseen []string) {
	t.Helper()
	for pressed := 0; len(stops) < want && pressed < 3*want; pressed++ {
		does(ctx, t, chromedp.KeyEvent(kb.Tab))
		stops = slices.Compact(append(stops, browsertest.Says[int](ctx, t, reachable+`.indexOf(document.activeElement)`)))
		seen := browsertest.Says[string](ctx, t, `(() => { const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
			return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && r.right > 0 && r.bottom > 0 && r.top < innerHeight ? "" : e.outerHTML.slice(0, 80); })()`)
		if seen != "" {
			unseen = append(unseen, seen)
		}
	}
	return stops, slices.Compact(unseen)
}

// answerByKeyboard answers the review of lostReply.
func (w *world) answerByKeyboard(ctx context.Context, pages string) {
	w.t.Helper()
	to := browsertest.TabTo
	does(ctx, w.t, chromedp.Navigate(pages+"/a/main/reviews"), settledPage(),
		to(`document.activeElement.innerText === "lost/0001"`), chromedp.KeyEvent(kb.Enter), shows("Likely charged"),
		to(`document.activeElement.name === "reason"`), chromedp.KeyEvent("the provider's site shows it"),
		to(`document.activeElement.innerText === "It charged 3.00 USD"`), chromedp.KeyEvent(kb.Enter), shows("Done: the review was answered"))
}
