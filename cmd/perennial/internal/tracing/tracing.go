package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger"
	"perennial/ledger/chain"
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
	sampler := sdktrace.ParentBased(sdktrace.TraceIDRatioBased(*c.Sample))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(&loggingExporter{SpanExporter: exporter, log: log}), sdktrace.WithSampler(sampler),
		sdktrace.WithIDGenerator(idGenerator{}), sdktrace.WithResource(named))
	return &Tracer{provider: provider, sampler: sampler, spans: provider.Tracer("perennial")}, nil
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

// idGenerator implements sdktrace.IDGenerator with the ids in a span's context.
type idGenerator struct{}

func (idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	n, _ := ctx.Value(spanIDsKey{}).(spanIDs)
	return n.trace, n.span
}

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

type step struct {
	chain.Row `json:"-"`

	Kind       fact.Kind  `json:"kind"`
	Attempt    int64      `json:"attempt"`
	SentAt     *time.Time `json:"sent_at"`
	Code       string     `json:"code"`
	HTTPStatus int        `json:"http_status"`
	Reason     string     `json:"reason"`
	Ambiguous  bool       `json:"ambiguous"`
	OrderNo    string     `json:"order_no"`
	TraceID    string     `json:"trace_id"` // trace id from the provider
}

// tracedCommand is a command, as read from its journal rows.
type tracedCommand struct {
	account    string
	id         string
	kind       fact.Kind
	finished   fact.CommandFinished
	row        chain.Row // the command.finished row
	published  time.Time
	accepted   time.Time // zero if the command was refused, or reopened by an operator
	operations map[string][]step
}

// Ended is a finished command with its command.finished row.
type Ended struct {
	Row       chain.Row
	Published time.Time // when the command's message was published; zero if unknown
}

// Send reads the journal rows of a finished command from the ledger and sends the command's
// trace. stored is the time when the command.finished event reached the events stream. It is
// zero if that time is unknown.
func (t *Tracer) Send(ctx context.Context, l *ledger.Ledger, account string, x Ended, stored time.Time) error {
	c, err := readTraced(ctx, l, account, x)
	if err == nil {
		c.send(t, stored)
	}
	return err
}

// readTraced reads a command's steps since its previous command.finished.
func readTraced(ctx context.Context, l *ledger.Ledger, account string, x Ended) (c tracedCommand, err error) {
	c = tracedCommand{account: account, id: x.Row.Operation, row: x.Row, published: x.Published, operations: map[string][]step{}}
	if err := json.Unmarshal([]byte(x.Row.Data), &c.finished); err != nil {
		return c, err
	}
	before := int64(0) // row of the command's previous command.finished, or 0
	steps, err := stepsOf(ctx, l, c.id)
	if err != nil {
		return c, err
	}
	for _, s := range steps {
		switch {
		case s.Type == "command.accepted":
			c.kind, c.accepted = s.Kind, s.Instant()
		case s.Type == "command.finished" && s.Seq < x.Row.Seq:
			before = s.Seq
		}
	}
	if before > 0 { // an operator reopened the command
		c.accepted, c.published = time.Time{}, time.Time{}
	}
	for _, o := range c.finished.Operations {
		steps, err := stepsOf(ctx, l, o.OperationID)
		if err != nil {
			return c, err
		}
		for _, s := range steps {
			if s.Seq > before {
				c.operations[o.OperationID] = append(c.operations[o.OperationID], s)
			}
		}
	}
	return c, nil
}

func stepsOf(ctx context.Context, l *ledger.Ledger, subject string) ([]step, error) {
	rows, err := l.RowsOf(ctx, subject)
	steps := make([]step, len(rows))
	for i, r := range rows {
		if err := json.Unmarshal([]byte(r.Data), &steps[i]); err != nil {
			return nil, err
		}
		steps[i].Row = r
	}
	return steps, err
}

type spanSender struct {
	tracer trace.Tracer
	trace  trace.TraceID // used only without a parent span
}

// tracedSpan is a span that has ended.
type tracedSpan struct {
	id         spanIDs
	name       string
	kind       trace.SpanKind
	begin, end time.Time
	attributes []attribute.KeyValue
	failed     string // why the work failed; "" if it succeeded
	steps      []step // journal rows that become events of the span
}

// add sends a span and returns the context for its child spans.
func (s spanSender) add(ctx context.Context, x tracedSpan) context.Context {
	ids := spanIDs{trace: s.trace, span: x.id.span}
	ctx, begun := s.tracer.Start(context.WithValue(ctx, spanIDsKey{}, ids), x.name, trace.WithTimestamp(x.begin), trace.WithSpanKind(x.kind), trace.WithAttributes(x.attributes...))
	for _, e := range x.steps {
		begun.AddEvent(e.Type, trace.WithTimestamp(e.Instant()))
	}
	if x.failed != "" {
		begun.SetStatus(codes.Error, x.failed)
	}
	begun.End(trace.WithTimestamp(later(x.end, x.begin)))
	return ctx
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// send sends the trace of the command. stored has the same meaning as in Send.
func (c tracedCommand) send(t *Tracer, stored time.Time) {
	s := spanSender{tracer: t.spans, trace: idsOf(c.account, c.id).trace}
	end, begin := c.row.Instant(), c.begin()
	root := tracedSpan{
		id: idsOf(c.account, c.id, c.finished.Revision), name: strings.TrimSpace("command " + string(c.kind)), kind: trace.SpanKindConsumer, begin: begin, end: later(stored, end),
		attributes: []attribute.KeyValue{
			attribute.String("messaging.system", "nats"), attribute.String("perennial.account", c.account), attribute.String("perennial.command_id", c.id),
			attribute.String("perennial.state", c.finished.State), attribute.Int64("perennial.charged_cents", c.finished.Totals.ChargedCents),
			attribute.Int64("perennial.refunded_cents", c.finished.Totals.RefundedCents), attribute.Int64("perennial.attempts", c.finished.Attempts),
		},
	}
	switch fact.State(c.finished.State) { //nolint:exhaustive // other states are not failures of the command
	case fact.StateRejected, fact.StateFailed:
		root.failed = strings.TrimSpace(c.finished.Code + " " + c.finished.Reason)
	}
	ctx := s.add(parentOf(context.Background(), c.finished.Trace), root)
	if !c.published.IsZero() && !c.accepted.IsZero() {
		s.add(ctx, tracedSpan{id: idsOf(c.account, c.id, "intake"), name: "take in", kind: trace.SpanKindInternal, begin: c.published, end: c.accepted})
	}
	for _, o := range c.finished.Operations {
		c.addOperation(ctx, s, o, begin)
	}
	if !stored.IsZero() {
		s.add(ctx, tracedSpan{id: idsOf(c.account, c.id, c.finished.Revision, "publish"), name: "publish command.finished", kind: trace.SpanKindProducer, begin: end, end: stored})
	}
}

// begin returns the time at which the command was published. If that is unknown, it returns the
// time at which the command was accepted. If both are unknown, it returns the earliest time of
// the rows that were read.
func (c tracedCommand) begin() time.Time {
	for _, at := range []time.Time{c.published, c.accepted} {
		if !at.IsZero() {
			return at
		}
	}
	first := c.row.Instant()
	for _, steps := range c.operations {
		if len(steps) > 0 && steps[0].Instant().Before(first) {
			first = steps[0].Instant()
		}
	}
	return first
}

func (c tracedCommand) addOperation(ctx context.Context, s spanSender, o fact.FinishedOperation, begin time.Time) {
	steps := c.operations[o.OperationID]
	if len(steps) == 0 {
		return
	}
	if !c.accepted.IsZero() {
		begin = c.accepted
	}
	x := tracedSpan{
		id: idsOf(c.account, o.OperationID, c.finished.Revision), name: strings.TrimSpace("operation " + string(c.kind)), kind: trace.SpanKindInternal,
		begin: begin, end: steps[len(steps)-1].Instant(), steps: steps,
		attributes: []attribute.KeyValue{attribute.String("perennial.operation_id", o.OperationID), attribute.String("perennial.state", string(o.State))},
	}
	if o.OrderNo != "" {
		x.attributes = append(x.attributes, attribute.String("perennial.order_no", o.OrderNo))
	}
	ctx = s.add(ctx, x)
	for i, sent := range steps {
		if sent.Type != "operation.sending" {
			continue
		}
		var came *step // nil if no result was recorded
		if i+1 < len(steps) {
			came = &steps[i+1]
		}
		s.add(ctx, c.attempt(o.OperationID, sent, came))
	}
}

// attempt returns the span of one attempt. came is the row with the attempt's result, or nil if
// there is no result.
func (c tracedCommand) attempt(operation string, sent step, came *step) tracedSpan {
	x := tracedSpan{
		id: idsOf(c.account, operation, "attempt", sent.Attempt), name: strings.TrimSpace("send " + string(c.kind)), kind: trace.SpanKindClient, begin: sent.Instant(), end: sent.Instant(),
		attributes: []attribute.KeyValue{attribute.String("http.request.method", "POST"), attribute.Int64("http.request.resend_count", sent.Attempt-1)},
	}
	if came == nil {
		return x
	}
	x.end = came.Instant()
	x.attributes = append(x.attributes, attribute.String("perennial.outcome", came.Type), attribute.Bool("perennial.ambiguous", came.Ambiguous))
	for name, value := range map[string]string{"perennial.provider.code": came.Code, "perennial.provider.trace_id": came.TraceID} {
		if value != "" {
			x.attributes = append(x.attributes, attribute.String(name, value))
		}
	}
	if came.HTTPStatus > 0 {
		x.attributes = append(x.attributes, attribute.Int("http.response.status_code", came.HTTPStatus))
	}
	switch came.Type {
	case "operation.waiting", "operation.unsent", "operation.review", "command.rejected":
		x.failed = strings.TrimSpace(came.Code + " " + came.Reason)
	}
	return x
}
