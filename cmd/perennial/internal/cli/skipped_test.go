package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue/events"
)

// TestWatchSaysWhichProxiesWereLeftOutAndWhy: one, as facts have said since the
// first version, or several.
func TestWatchSaysWhichProxiesWereLeftOutAndWhy(t *testing.T) {
	t.Parallel()
	left := []fact.SkippedProxy{{ProxyID: "px_1", Reason: "it was retired"}, {ProxyID: "px_2", Reason: "operation a/0001 holds it"}, {ProxyID: "px_3", Reason: "it was retired"}}
	for want, n := range map[string]int{"px_1  it was retired": 1, "px_1 px_3 px_2  it was retired, and 1 more": 3} {
		data, err := json.Marshal(fact.Skipped(fact.Ref{CommandID: "c"}, left[:n], "")[0])
		if err != nil {
			t.Fatal(err)
		}
		event, err := json.Marshal(ledger.CloudEvent{Type: "proxy.skipped", Subject: "c", Data: data})
		if err != nil {
			t.Fatal(err)
		}
		line := eventLine(events.Event{Seq: 1, Type: "proxy.skipped", Data: event}, "USD")
		if !strings.HasSuffix(line, want) {
			t.Errorf("%q does not end with %q", line, want)
		}
	}
}
