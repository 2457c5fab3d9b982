// This file has the trace context that commands pass on to their events.

package fact

import (
	"regexp"
	"strings"
)

// Trace is the W3C trace context of a command's message.
type Trace struct {
	Traceparent string `json:"traceparent,omitempty" doc:"The W3C trace context of the command's message."`
	Tracestate  string `json:"tracestate,omitempty" doc:"The vendor-specific part of the trace context."`
}

var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// Ids that a trace context must not have (W3C Trace Context, sections 3.2.2.3 and 3.2.2.4).
const (
	noTrace = "-00000000000000000000000000000000-"
	noSpan  = "-0000000000000000-"
)

// maxTracestate limits a tracestate, in bytes (W3C Trace Context, section 3.3.1.5).
const maxTracestate = 512

// TraceOf returns the trace context in two headers. It is zero if parent is not valid. It
// has no Tracestate if state is too long or Unprintable refuses it.
func TraceOf(parent, state string) (t Trace) {
	if !traceparent.MatchString(parent) || strings.HasPrefix(parent, "ff") || strings.Contains(parent, noTrace) || strings.Contains(parent, noSpan) {
		return t
	}
	if t.Traceparent = parent; len(state) <= maxTracestate && Unprintable(state) == "" {
		t.Tracestate = state
	}
	return t
}
