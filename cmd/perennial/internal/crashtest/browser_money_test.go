//go:build check

package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"perennial/cmd/perennial/internal/browsertest"
	"perennial/ledger/tables"
)

// unloaded waits for a condition on a page that was not reloaded since the test marked its
// document.
func unloaded(script string) action {
	return holds(`window.unloaded === true && (` + script + `)`)
}

// An operator checks on the pages that the money is right. The figures equal those of the command
// line, both proofs appear on the page, and a label of the statement links to its operations.
func TestBrowserMoneyJourney(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 6)
	_, line := w.run()
	awaitReady(t, line)
	w.mustCLI("order", "--item", "off_us_1=2", "--id", "bought", "--label", "team=ads", "--wait")
	w.mustCLI("renew", "px_1", "px_2", "--id", "renewed", "--label", "team=shop", "--wait")
	var b tables.Balance
	if err := json.Unmarshal([]byte(w.mustCLI("ledger", "balance", "-o", "json")), &b); err != nil {
		t.Fatal(err)
	}
	ctx := chromium(t)
	w.signIn(ctx)
	does(ctx, t, browsertest.Click(`section[aria-labelledby="card-books"] a`), shows("Verification"))
	for _, x := range []struct {
		name  string
		cents int64
	}{{"Opening balance and top-ups", b.FundingCents}, {"Charged, with what is in suspense", -b.ChargedCents}, {"Refunded", b.RefundedCents}, {"Wallet", b.WalletCents}, {"In suspense", b.SuspenseCents}} {
		if got, want := w.sumOf(ctx, x.name), fmt.Sprintf("%d.%02d", abs(x.cents)/100, abs(x.cents)%100); got != want || b.WalletCents == 0 || b.ChargedCents != 1200 {
			t.Errorf("%s is %s, not %s", x.name, got, want)
		}
	}
	// The answer must arrive by the page's own refresh: no other event happens here that would
	// reload it.
	does(ctx, t, browsertest.Click(`//button[text()="Verify"]`), shows("journal entries replay to the same tables and balances"))
	does(ctx, t, browsertest.Click(`//button[text()="Compare"]`), shows("Books and provider agree to the cent"))

	does(ctx, t, browsertest.Click(`//a[text()="Statements, by month and label"]`), shows("Statement of "+time.Now().UTC().Format("January 2006")), shows("team=shop"))
	if got, want := w.sumOf(ctx, "Balance carried forward"), fmt.Sprintf("%d.%02d", b.WalletCents/100, b.WalletCents%100); got != want {
		t.Errorf("the statement's wallet is %s, not %s", got, want)
	}
	does(ctx, t, browsertest.Click(`//td/a[text()="team=shop"]`), shows("renewed/0001"))
	if browsertest.Says[bool](ctx, t, `document.querySelector("main").innerText.includes("bought/1")`) {
		t.Error("an operation of another label is shown")
	}
}

func abs(n int64) int64 { return max(n, -n) }

// sumOf returns the amount in a row of the page's first table, without sign, commas and currency.
func (w *world) sumOf(ctx context.Context, row string) string {
	return browsertest.Says[string](ctx, w.t, fmt.Sprintf(`[...document.querySelectorAll("table.sum tr")].find((r) => r.cells[0].innerText.trim() === %q)?.cells[1].innerText.replace(/[^0-9.]/g, "") ?? document.querySelector("table.sum").innerText`, row))
}

// The open page shows each event before the next step, in the right order and without a manual
// reload.
func TestBrowserOpenPageFollows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	_, line := w.run()
	awaitReady(t, line)
	ctx := chromium(t)
	w.signIn(ctx)
	does(ctx, t, chromedp.Navigate(line.HTTP+"/a/main/operations"), shows("No operations yet."), chromedp.Evaluate[chromedp.Void](`window.unloaded = true; undefined`))
	first := `document.querySelector("main tbody a")?.innerText === `
	for n := 1; n <= 4; n++ {
		id := fmt.Sprintf("live-%d", n)
		w.mustCLI("renew", fmt.Sprintf("px_%d", n), "--id", id, "--wait")
		does(ctx, t, unloaded(first+fmt.Sprintf("%q", id+"/0001")), shows("completed"))
	}
	if got := browsertest.Says[string](ctx, t, `[...document.querySelectorAll("main tbody a")].map((a) => a.innerText).join(" ")`); got != "live-4/0001 live-3/0001 live-2/0001 live-1/0001" {
		t.Errorf("the page shows %s", got)
	}
	// The page does not refresh while a field has the focus. It refreshes afterwards.
	does(ctx, t, chromedp.Focus(`input[name="q"]`))
	w.mustCLI("renew", "px_1", "--id", "typed", "--wait")
	does(ctx, t, chromedp.Blur(`input[name="q"]`), unloaded(first+`"typed/0001"`))
	// Nor does it refresh between press and release: the click would be lost.
	link := browsertest.Says[[]float64](ctx, t, `(({ x, y, width, height }) => [x + width / 2, y + height / 2])(document.querySelector("main tbody a").getBoundingClientRect())`)
	does(ctx, t, chromedp.Evaluate[chromedp.Void](`new BroadcastChannel("perennial changes").onmessage = ({ data }) => { window.edition = data ?? undefined; }; undefined`),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, link[0], link[1], chromedp.ButtonLeft, chromedp.ClickCount(1)))
	w.mustCLI("renew", "px_2", "--id", "pressed", "--wait")
	does(ctx, t, holds(`window.edition !== undefined && window.edition !== document.getElementById("content").dataset.edition`), unloaded(first+`"typed/0001"`))
	does(ctx, t, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, link[0], link[1], chromedp.ButtonLeft, chromedp.ClickCount(1)), shows("Operation typed/0001"))
}
