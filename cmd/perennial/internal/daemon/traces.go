// The traces of finished commands, which are sent after their command.finished is published.

package daemon

import (
	"context"
	"time"

	"perennial/cmd/perennial/internal/tracing"
	"perennial/ledger/chain"
	"perennial/ledger/sleep"
)

// tracedMost limits the number of finished commands whose traces wait to be sent. Further
// commands get no trace.
const tracedMost = 1 << 12

// trace passes a finished command to sendTraces, if the command is sampled.
func (f *factCounter) trace(r chain.Row, published time.Time) {
	if f.counts.tracer == nil {
		return
	}
	of, err := r.Trace()
	if err != nil || !f.counts.tracer.Sampled(f.counts.account, r.Operation, of) {
		return
	}
	select {
	case f.traces <- tracing.Ended{Row: r, Published: published}:
	default:
		f.counts.tracesDropped.WithLabelValues(f.counts.account).Inc()
	}
}

// sendTraces sends the trace of each command after its command.finished is published. When ctx
// ends, it sends the remaining traces without waiting for publication.
func (f *factCounter) sendTraces(ctx context.Context) {
	for {
		select {
		case x := <-f.traces:
			f.sendTrace(ctx, x)
		case <-ctx.Done():
			f.sendLastTraces(context.WithoutCancel(ctx))
			return
		}
	}
}

func (f *factCounter) sendLastTraces(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tracing.FlushTimeout)
	defer cancel()
	for len(f.traces) > 0 {
		f.sendTrace(ctx, <-f.traces)
	}
}

func (f *factCounter) sendTrace(ctx context.Context, x tracing.Ended) {
	var stored time.Time
	if seq := uint64(x.Row.Seq); f.outbox.Wait(ctx, seq) == nil || f.outbox.Published() >= seq {
		stored = time.Now()
	}
	read, cancel := context.WithTimeout(context.WithoutCancel(ctx), tracing.FlushTimeout)
	defer cancel()
	if err := f.counts.tracer.Send(read, f.ledger, f.counts.account, x, stored); err != nil {
		f.counts.tracesDropped.WithLabelValues(f.counts.account).Inc()
		_ = sleep.For(ctx, time.Second) // a pause, because the ledger cannot be read
	}
}
