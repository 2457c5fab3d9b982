//go:build browser

package crashtest

import (
	"context"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// looksLike has the browser be so wide, and prefer light or dark.
func looksLike(width int64, scheme string) action {
	return chromedp.Steps(chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

// noteFailure keeps what a page should not do: throw, or ask another server.
func noteFailure(all *[]string, own string, ev any) {
	switch ev := ev.(type) {
	case *cdpruntime.EventExceptionThrown:
		*all = append(*all, ev.ExceptionDetails.Text)
	case *cdplog.EventEntryAdded: // such as what the policy of the page refuses
		if ev.Entry.Source == cdplog.EntrySourceSecurity {
			*all = append(*all, ev.Entry.Text)
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(ev.Request.URL, own) && !strings.HasPrefix(ev.Request.URL, "data:") {
			*all = append(*all, "it asks "+ev.Request.URL)
		}
	}
}
