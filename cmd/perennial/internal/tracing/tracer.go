// Sending of traces with OpenTelemetry, with span ids that do not differ between runs.

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

// FlushTimeout is the longest time that a stopping process waits for the receiver of traces.
const FlushTimeout = 5 * time.Second

// Tracer sends the traces of commands. A nil Tracer may only be closed.
type Tracer struct {
	provider *sdktrace.TracerProvider
	sampler  sdktrace.Sampler
	spans    trace.Tracer
}

// New returns a Tracer for a runner. An unreachable receiver is not an error.
func New(ctx context.Context, c config.Tracing, node string, log *logrus.Logger) (*Tracer, error) {
	var options []otlptracehttp.Option
	if c.Endpoint != "" {
		endpoint := c.Endpoint
		if strings.Count(strings.TrimRight(endpoint, "/"), "/") == 2 { // the address has no path
			endpoint = strings.TrimRight(endpoint, "/") + "/v1/traces"
		}
		options = append(options, otlptracehttp.WithEndpointURL(endpoint))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.WithError(err).Debug("OpenTelemetry") })) // loggingExporter already logs failed exports
	named := resource.NewSchemaless(attribute.String("service.name", "perennial"), attribute.String("service.version", config.Version),
		attribute.String("service.instance.id", node))
	if named, err = resource.Merge(named, resource.Environment()); err != nil {
		return nil, fmt.Errorf("send traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return tracerTo(&loggingExporter{SpanExporter: exporter, log: log}, *c.Sample, named), nil
}

func tracerTo(exporter sdktrace.SpanExporter, share float64, of *resource.Resource) *Tracer {
	sampler := sdktrace.ParentBased(sdktrace.TraceIDRatioBased(share))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithSampler(sampler),
		sdktrace.WithIDGenerator(idGenerator{}), sdktrace.WithResource(of))
	return &Tracer{provider: provider, sampler: sampler, spans: provider.Tracer("perennial")}
}

// Close sends the remaining traces, for up to FlushTimeout.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), FlushTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // loggingExporter has logged failed exports
}

// loggingExporter logs when the receiver of traces begins to fail and when it recovers.
type loggingExporter struct {
	sdktrace.SpanExporter

	log     *logrus.Logger
	failing atomic.Bool
	lost    atomic.Int64
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *loggingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
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

// spanIDs are the ids of a span. A command's spans have the same ids in every run. A run after
// a crash therefore adds to the trace that an earlier run sent.
type spanIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

type spanIDsKey struct{}

// idGenerator returns the ids in a span's context.
type idGenerator struct{}

// NewIDs implements sdktrace.IDGenerator.
func (idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	n, _ := ctx.Value(spanIDsKey{}).(spanIDs)
	return n.trace, n.span
}

// NewSpanID implements sdktrace.IDGenerator.
func (idGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	n, _ := ctx.Value(spanIDsKey{}).(spanIDs)
	return n.span
}

// idsOf derives ids from a name by hashing. An invalid zero id is as unlikely as a collision.
func idsOf(parts ...any) (n spanIDs) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	copy(n.trace[:], sum[:])
	copy(n.span[:], sum[len(n.trace):])
	return n
}

// parentOf returns a context with the publisher's span. It returns ctx if the message had no
// trace context.
func parentOf(ctx context.Context, t fact.Trace) context.Context {
	if t.Traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": t.Traceparent, "tracestate": t.Tracestate})
}

// Sampled reports whether to send the trace of a command. The publisher's trace context
// decides. Without a trace context, the command's id decides, so that every run decides alike.
func (t *Tracer) Sampled(account, command string, of fact.Trace) bool {
	result := t.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: parentOf(context.Background(), of), TraceID: idsOf(account, command).trace})
	return result.Decision == sdktrace.RecordAndSample
}
