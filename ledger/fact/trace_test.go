package fact

import (
	"strings"
	"testing"
)

func TestOnlyATraceContextIsKept(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for parent, want := range map[string]bool{
		good: true, "": false, "00-x": false, strings.ToUpper(good): false, good + "-extra": false,
		"ff" + good[2:]: false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": false,
	} {
		if got := TraceOf(parent, "a=b"); (got.Traceparent != "") != want || (got.Tracestate != "") != want {
			t.Errorf("%s: %+v", parent, got)
		}
	}
	for _, state := range []string{strings.Repeat("a", 513), "a\nb"} {
		if got := TraceOf(good, state); got.Traceparent != good || got.Tracestate != "" {
			t.Errorf("%q: %+v", state, got)
		}
	}
}
