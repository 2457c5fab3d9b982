//go:build check

package web

import (
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"

	"perennial/cmd/perennial/internal/browsertest"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// After a change replaces the page, the focus stays on the same link, button or table.
func TestBrowserAReloadKeepsTheFocus(t *testing.T) {
	h := newRig(t)
	ctx := browsertest.Chromium(t)
	link := "/login?code=" + url.QueryEscape(Link(h.pages.Key, Person{Name: "ada", Role: Operator}, h.clock()))
	browsertest.Does(ctx, t, chromedp.Navigate(h.server.URL+link), browsertest.Click(`//button[text()="Sign in as ada"]`), browsertest.Shows("Overview"))
	for n, c := range []struct{ path, focused string }{
		{"/a/main/operations", `document.activeElement.innerText === "r1/0001"`},
		{"/a/main/operations", `document.activeElement.matches("main .scroll")`},
		{"/a/main/operation?id=r1/0001", `document.activeElement.matches("main button[type=submit], main form button:not([type])")`},
	} {
		browsertest.Does(ctx, t, chromedp.Navigate(h.server.URL+c.path), browsertest.Shows("r1/0001"), browsertest.TabTo(c.focused))
		was := browsertest.Says[string](ctx, t, `(document.getElementById("content").isOld = true, document.activeElement.innerText)`)
		check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Append(fact.LedgerRecorded{Movement: "top-up", AmountCents: int64(n + 1), By: "ada", Reason: "x"})
		}))
		browsertest.Does(ctx, t, browsertest.Holds(`!document.getElementById("content").isOld`))
		if is := browsertest.Says[string](ctx, t, `document.activeElement.innerText`); !browsertest.Says[bool](ctx, t, c.focused) || is != was {
			t.Errorf("%s: the focus was on %q, and is on %q", c.path, was, is)
		}
	}
}
