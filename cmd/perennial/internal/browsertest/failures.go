//go:build check

package browsertest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// axe is the path of axe-core, the accessibility checker, as npm installs it for the tests.
const axe = "../../../../.ci/browser/node_modules/axe-core/axe.min.js"

// Axe returns what is wrong with the open page: violations that axe-core finds, and content
// wider than the screen. On a screen of at most 360 pixels, it also returns each table that is
// cut off.
func Axe(ctx context.Context, t testing.TB) []string {
	t.Helper()
	script, err := os.ReadFile(axe)
	if err != nil {
		t.Fatal(err)
	}
	Does(ctx, t, chromedp.Evaluate[chromedp.Void](string(script)))
	found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](`axe.run().then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html).join(" ")))`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	if wider := Says[int64](ctx, t, "document.documentElement.scrollWidth - innerWidth"); wider > 0 {
		found = append(found, fmt.Sprintf("it is %d px too wide", wider))
	}
	return append(found, Says[[]string](ctx, t, `(innerWidth > 360 ? [] : [...document.querySelectorAll("main details")]).forEach((d) => { d.open = true; });
		(innerWidth > 360 ? [] : [...document.querySelectorAll(".scroll")]).filter((e) => e.scrollWidth > e.clientWidth).map((e) => "cut: " + e.innerText.slice(0, 80))`)...)
}

// NoteFailure appends a description of a browser event to the list *all if the event is a
// failure. Failures are uncaught exceptions, violations of the content security policy, and
// requests to a server other than the test's own.
func NoteFailure(all *[]string, own string, ev any) {
	switch ev := ev.(type) {
	case *cdpruntime.EventExceptionThrown:
		*all = append(*all, ev.ExceptionDetails.Text)
	case *cdplog.EventEntryAdded: // such as a resource that the content security policy refused
		if ev.Entry.Source == cdplog.EntrySourceSecurity {
			*all = append(*all, ev.Entry.Text)
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(ev.Request.URL, own) && !strings.HasPrefix(ev.Request.URL, "data:") {
			*all = append(*all, "it asks "+ev.Request.URL)
		}
	}
}
