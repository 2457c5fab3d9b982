// Traces as an OTLP receiver gets them.

package crashtest

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracing "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"perennial/cmd/perennial/internal/daemon"
)

type receiver struct {
	url string

	mu    sync.Mutex
	spans []*tracing.Span
	all   strings.Builder // everything received, as text
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		var export collector.ExportTraceServiceRequest
		body, err := io.ReadAll(request.Body)
		if err == nil {
			err = proto.Unmarshal(body, &export)
		}
		if err != nil || request.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", request.URL.Path, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		fmt.Fprintln(&r.all, export.String())
		for _, of := range export.GetResourceSpans() {
			for _, s := range of.GetScopeSpans() {
				r.spans = append(r.spans, s.GetSpans()...)
			}
		}
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// of returns the spans of one trace.
func (r *receiver) of(trace string) (spans []*tracing.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if hex.EncodeToString(s.GetTraceId()) == trace {
			spans = append(spans, s)
		}
	}
	return spans
}

func named(spans []*tracing.Span, name string) (found []*tracing.Span) {
	for _, s := range spans {
		if s.GetName() == name {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *tracing.Span) int {
		return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
	})
	return found
}

func attribute(s *tracing.Span, name string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == name {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// The reply to a renewal's first attempt is not recorded, and the reply to the second is lost. All
// attempts are in one trace under the publisher's span.
func TestATraceIsConnectedOverACrashAndARetry(t *testing.T) {
	t.Parallel()
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	w, r := newWorld(t, 4), newReceiver(t)
	w.configure("", fmt.Sprintf("tracing: {endpoint: %q}\n", r.url))
	publish := func(line daemon.ReadyLine, id, proxy, header string) {
		nc, js := connectTo(t, line.NATS)
		defer nc.Close()
		msg := &nats.Msg{Subject: "perennial.commands.main.proxy.renew", Data: fmt.Appendf(nil, `{"id":%q,"proxy_ids":[%q],"duration_days":30}`, id, proxy), Header: nats.Header{}}
		if header != "" {
			msg.Header.Set("traceparent", header)
		}
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	run := w.runUntil("send.received kill")
	var line daemon.ReadyLine
	run.ready(&line)
	publish(line, "traced", "px_1", "00-"+trace+"-"+parent+"-01")
	run.awaitKilled()
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "drop_before"})
	run, line = w.run()
	publish(line, "of-its-own", "px_2", "")
	publish(line, "left-out", "px_3", "00-"+strings.Repeat("c", 32)+"-"+parent+"-00") // its publisher does not sample it
	w.ends(line.NATS, "traced", "of-its-own", "left-out")
	if code := run.terminate(); code != 0 {
		t.Fatalf("run ended with %d\n%s", code, run.stderr)
	}

	spans := r.of(trace)
	ids := map[string]bool{parent: true}
	for _, s := range spans {
		ids[hex.EncodeToString(s.GetSpanId())] = true
	}
	for _, s := range spans {
		if !ids[hex.EncodeToString(s.GetParentSpanId())] || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
			t.Errorf("%s is under %x, which is not in the trace, or ends before it begins", s.GetName(), s.GetParentSpanId())
		}
	}
	root, sends := named(spans, "command renewal"), named(spans, "send renewal")
	if len(root) != 1 || hex.EncodeToString(root[0].GetParentSpanId()) != parent || attribute(root[0], "perennial.state") != "completed" || attribute(root[0], "perennial.command_id") != "traced" {
		t.Errorf("%v", root)
	}
	if len(sends) < 2 || len(sends) > 3 {
		t.Fatalf("%d attempts: %v", len(sends), sends)
	}
	for i, s := range sends {
		last := i == len(sends)-1
		if failed := s.GetStatus().GetCode() == tracing.Status_STATUS_CODE_ERROR; failed == last || last && attribute(s, "perennial.outcome") != "renewal.completed" {
			t.Errorf("attempt %d: %v", i+1, s)
		}
	}
	if attribute(sends[len(sends)-1], "perennial.provider.trace_id") == "" {
		t.Error("the provider's trace_id is not there")
	}
	for _, name := range []string{"operation renewal", "publish command.finished"} {
		if len(named(spans, name)) != 1 {
			t.Errorf("%d spans are named %s", len(named(spans, name)), name)
		}
	}
	if len(r.of(strings.Repeat("c", 32))) > 0 {
		t.Error("a trace came that its publisher does not sample")
	}
	if !strings.Contains(r.all.String(), "of-its-own") || len(named(r.spans, "take in")) != 1 {
		t.Error("a command without a trace context has no trace of its own")
	}
	if strings.Contains(r.all.String(), worldSecret) {
		t.Error("the traces hold the secret")
	}
}

// The log reports it once.
func TestTracesThatNobodyTakesHoldNothingUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.configure("", "tracing: {endpoint: \"http://127.0.0.1:1\"}\n")
	run, _ := w.run()
	w.mustCLI("renew", "px_1", "--id", "r-1", "--wait")
	w.mustCLI("renew", "px_2", "--id", "r-2", "--wait")
	if code := run.terminate(); code != 0 {
		t.Fatalf("run ended with %d\n%s", code, run.stderr)
	}
	if n := strings.Count(run.stderr.String(), "traces cannot be sent"); n != 1 {
		t.Errorf("the log says %d times that traces cannot be sent:\n%s", n, run.stderr)
	}
}
