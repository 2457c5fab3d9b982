//go:build check

package browsertest

import (
	"strings"

	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
)

// NoteFailure keeps what a page should not do: throw, or ask another server.
func NoteFailure(all *[]string, own string, ev any) {
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
