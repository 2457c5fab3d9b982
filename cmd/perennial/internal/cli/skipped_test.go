package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/queue/events"
	"perennial/schedules"
)

func TestARunPromisesNoMoreThanItsBudgetsAllow(t *testing.T) {
	for want, left := range map[string]fact.SweepLeft{
		"1 more is due: it follows in this run if its budgets allow it, once the price is known":                     {Proxies: 1, Unpriced: 1},
		"2 more are due: they follow in this run as far as its budgets allow, once the price is known":               {Proxies: 2, Unpriced: 2},
		"120 more are due: they follow in this run as far as its budgets allow, 3 of them once their price is known": {Proxies: 120, Unpriced: 3},
		"120 more are due: they follow in this run as far as its budgets allow":                                      {Proxies: 120},
	} {
		if got := schedules.LeftText(left); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// A fact may name one skipped proxy, as in the first version, or several.
func TestWatchSaysWhichProxiesWereLeftOutAndWhy(t *testing.T) {
	t.Parallel()
	left := []fact.SkippedProxy{{ProxyID: "px_1", Reason: "it was retired"}, {ProxyID: "px_2", Reason: "operation a/0001 holds it"}, {ProxyID: "px_3", Reason: "it was retired"}}
	for want, n := range map[string]int{"px_1  it was retired": 1, "px_1 px_3 px_2  it was retired, and 1 more": 3} {
		data, err := json.Marshal(fact.Skipped(fact.Ref{CommandID: "c"}, left[:n], "")[0])
		if err != nil {
			t.Fatal(err)
		}
		event, err := json.Marshal(chain.CloudEvent{Type: "proxy.skipped", Subject: "c", Data: data})
		if err != nil {
			t.Fatal(err)
		}
		line := eventLine(events.Event{Seq: 1, Type: "proxy.skipped", Data: event}, "USD")
		if !strings.HasSuffix(line, want) {
			t.Errorf("%q does not end with %q", line, want)
		}
	}
}
