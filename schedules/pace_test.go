package schedules

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A queue that is longer than its rate: some of it expires before its turn.
func TestAQueueThatCannotBeMadeInTimeIsSaid(t *testing.T) {
	t.Parallel()
	fleet := map[string]string{}
	for n := range 120 {
		fleet[fmt.Sprintf("px_%03d", n)] = fmt.Sprintf("%ds", 15*60+30*n)
	}
	fleet["px_far"] = "900h"
	h := newRig(t, fleet, keepalive())
	check(t, h.lister.WaitPass(t.Context()))
	for n := range 120 {
		renewal(t, h.Ledger, 1, fmt.Sprintf("px_%03d", n), "claimed", 0, noon)
	}
	check(t, h.keepPace(t.Context())) // the queue begins
	want(t, "at its begin", h.NotReady(), "")
	for n := range 10 { // at another schedule's, or a person's, wish
		renewal(t, h.Ledger, 2, fmt.Sprintf("px_other_%d", n), "succeeded", 300, noon)
	}
	h.watch.add(10 * time.Minute) // ten turns in ten minutes: the last is in two hours, and expires in one
	check(t, h.keepPace(t.Context()))
	for _, says := range []string{"120 renewals are queued and 1.0 are made a minute", "111 proxies expire before their turn, the first at 2026-11-21T12:19:30Z", "rate_per_second"} {
		if !strings.Contains(h.NotReady(), says) {
			t.Errorf("%q does not say %q", h.NotReady(), says)
		}
	}
	for n := range 500 {
		renewal(t, h.Ledger, 3, fmt.Sprintf("px_more_%d", n), "succeeded", 300, noon)
	}
	check(t, h.keepPace(t.Context()))
	want(t, "at a pace that reaches", h.NotReady(), "")
}
