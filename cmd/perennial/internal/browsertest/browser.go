//go:build check

package browsertest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"perennial/ledger/sleep"
)

// patience limits every wait. A test that waits longer fails.
const patience = 2 * time.Minute

// Action is one step in the browser, such as a click or a key press.
type Action = chromedp.Action[chromedp.Void]

// Chromium starts a headless browser with its own empty profile. The browser ends with the
// test. The environment variable CHROMIUM may contain the path of the executable.
func Chromium(t testing.TB) context.Context {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{
		chromedp.Headless, chromedp.NoFirstRun, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(patience),
	}
	if path := os.Getenv("CHROMIUM"); path != "" {
		options = append(options, chromedp.ExecPath(path))
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // the browser lives as long as the context of the first call
		t.Fatal(err)
	}
	return ctx
}

// Does performs the actions in order. If one fails, the test fails and prints the page's
// text.
func Does(ctx context.Context, t testing.TB, actions ...Action) {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, action := range actions {
		err := chromedp.Do(limited, action)
		for err != nil && isReplaced(err) && limited.Err() == nil {
			err = chromedp.Do(limited, action)
		}
		if err != nil {
			page, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
			t.Fatalf("%v\n%s", err, page)
		}
	}
}

// isReplaced reports whether the page was reloaded after the script found an element and
// before it used the element. The step had no effect, so it can be repeated.
func isReplaced(err error) bool {
	return strings.Contains(err.Error(), "No node with given id") || strings.Contains(err.Error(), "Could not find node")
}

// Fill returns an Action that sets the value of a field. It waits until the field exists. One
// script finds and fills the field, so the page cannot reload between the two steps.
func Fill(selector, value string) Action {
	return Holds(fmt.Sprintf("((field) => field !== null && ((field.value = %q), true))(document.querySelector(%q))", value, selector))
}

// Click returns an Action that clicks the first element that matches a CSS selector, or an XPath
// expression that begins with a slash. It waits until this element exists and is visible. One
// script finds and clicks the element, because the page can reload or change its layout at any
// time.
func Click(selector string) Action {
	find := fmt.Sprintf("document.querySelector(%q)", selector)
	if strings.HasPrefix(selector, "/") {
		find = fmt.Sprintf("document.evaluate(%q, document, null, XPathResult.FIRST_ORDERED_NODE_TYPE).singleNodeValue", selector)
	}
	return Holds(fmt.Sprintf("((found) => found !== null && found.getClientRects().length > 0 && (found.click(), true))(%s)", find))
}

// Says returns the value of a script that it runs in the page.
func Says[T any](ctx context.Context, t testing.TB, script string) T {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	said, err := chromedp.Run(limited, chromedp.Evaluate[T](script))
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return said
}

// Holds returns an Action that waits until a JavaScript condition is true. It keeps waiting if
// the page navigates.
func Holds(condition string) Action {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		for {
			met, err := chromedp.Evaluate[bool](condition)(ctx, target)
			if err == nil && met {
				return nil
			}
			if err := sleep.For(ctx, 50*time.Millisecond); err != nil {
				return fmt.Errorf("%s does not hold: %w", condition, err)
			}
		}
	})
}

// Shows returns an Action that waits until the page contains a text. It keeps waiting if the
// page navigates.
func Shows(text string) Action {
	return Holds(fmt.Sprintf("document.body !== null && document.body.innerText.includes(%q)", text))
}

// TabTo returns an Action that presses Tab until a JavaScript condition is true, at most 1,000
// times.
func TabTo(condition string) Action {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		for range 1000 {
			if is, err := chromedp.Evaluate[bool](condition)(ctx, target); err != nil || is {
				return err
			}
			if _, err := chromedp.KeyEvent(kb.Tab)(ctx, target); err != nil {
				return err
			}
		}
		return fmt.Errorf("no Tab reaches where %s", condition)
	})
}

// LooksLike returns an Action that sets the width of the window in pixels, and the preferred
// color scheme: light or dark.
func LooksLike(width int64, scheme string) Action {
	return chromedp.Steps(chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}
