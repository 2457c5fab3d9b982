// Sending traces with OpenTelemetry, under ids that a second run repeats.

package tracing

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger/fact"
)

// FlushTimeout is how long a stopping process waits for the receiver of traces.
const FlushTimeout = 5 * time.Second

// Tracer sends the traces of commands. A nil Tracer sends none.
type Tracer struct {
	provider *sdktrace.TracerProvider
	sampler  sdktrace.Sampler
	spans    trace.Tracer
}

// New makes a Tracer for a runner. An unreachable receiver is no error.
func New(ctx context.Context, c config.Tracing, node string, log *logrus.Logger) (*Tracer, error) {
	var options []otlptracehttp.Option
	if c.Endpoint != "" {
		endpoint := c.Endpoint
		if strings.Count(strings.TrimRight(endpoint, "/"), "/") == 2 { // no path
			endpoint = strings.TrimRight(endpoint, "/") + "/v1/traces"
		}
		options = append(options, otlptracehttp.WithEndpointURL(endpoint))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.WithError(err).Debug("OpenTelemetry") })) // told logs failed exports
	named := resource.NewSchemaless(attribute.String("service.name", "perennial"), attribute.String("service.version", config.Version),
		attribute.String("service.instance.id", node))
	if named, err = resource.Merge(named, resource.Environment()); err != nil {
		return nil, fmt.Errorf("send traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return tracerTo(&told{SpanExporter: exporter, log: log}, *c.Sample, named), nil
}

func tracerTo(exporter sdktrace.SpanExporter, share float64, of *resource.Resource) *Tracer {
	sampler := sdktrace.ParentBased(sdktrace.TraceIDRatioBased(share))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithSampler(sampler),
		sdktrace.WithIDGenerator(namedIDs{}), sdktrace.WithResource(of))
	return &Tracer{provider: provider, sampler: sampler, spans: provider.Tracer("perennial")}
}

// Close sends the remaining traces.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), FlushTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // told has logged failed exports
}

// told logs when the receiver of traces first fails and when it recovers.
type told struct {
	sdktrace.SpanExporter

	log     *logrus.Logger
	failing atomic.Bool
	lost    atomic.Int64
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *told) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil:
		e.lost.Add(int64(len(spans)))
		if !e.failing.Swap(true) {
			e.log.WithError(err).Warn("traces cannot be sent; what is not sent now is lost, and nothing else waits for it")
		}
	case e.failing.Swap(false):
		e.log.WithField("spans_lost", e.lost.Swap(0)).Info("traces are sent again")
	}
	return err
}

// named holds the ids of a span. A command's spans have the same ids in every run, which keeps
// the parts of a trace together after a crash.
type named struct {
	trace trace.TraceID
	span  trace.SpanID
}

type namedKey struct{}

// namedIDs gives each span the ids in its context.
type namedIDs struct{}

// NewIDs implements sdktrace.IDGenerator.
func (namedIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	n, _ := ctx.Value(namedKey{}).(named)
	return n.trace, n.span
}

// NewSpanID implements sdktrace.IDGenerator.
func (namedIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	n, _ := ctx.Value(namedKey{}).(named)
	return n.span
}

// idsOf derives ids from a name. A zero id is as unlikely as a collision.
func idsOf(parts ...any) (n named) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	copy(n.trace[:], sum[:])
	copy(n.span[:], sum[len(n.trace):])
	return n
}

// parentOf returns the context of the publisher's span, or ctx if the message had no trace
// context.
func parentOf(ctx context.Context, t fact.Trace) context.Context {
	if t.Traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": t.Traceparent, "tracestate": t.Tracestate})
}

// Sampled reports whether to send the trace of a command. The publisher decides, or else the
// command's id does, the same way in every run.
func (t *Tracer) Sampled(account, command string, of fact.Trace) bool {
	result := t.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: parentOf(context.Background(), of), TraceID: idsOf(account, command).trace})
	return result.Decision == sdktrace.RecordAndSample
}
