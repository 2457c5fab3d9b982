package daemon

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/tracing"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/queue/outbox"
)

// Label values of attempts_total.
const (
	attemptFirst = "first"
	attemptAgain = "again"
)

const factsAtOnce = 1000

// takenMost limits how many commands are remembered until they end.
const takenMost = 1 << 16

// factCounter counts the facts of an account while this runner leads it.
type factCounter struct {
	meter  *meter
	ledger *ledger.Ledger
	outbox *outbox.Outbox

	mu    sync.Mutex
	taken map[string]arrived // commands that arrived while this runner leads and that have not ended, by id
	ended []ended            // commands that have ended and whose last row is not yet published, in order
	more  chan struct{}      // signals that ended has grown

	traces chan tracing.Ended // commands whose traces must be sent

	log      *logrus.Entry
	accepted map[string]int64 // time of acceptance, by command id; only count uses it
	held     time.Time        // end of the last Retry-After; only count uses it
}

type arrived struct {
	kind      fact.Kind
	published time.Time
}

// ended is a finished command. seq is the sequence of its last row.
type ended struct {
	arrived

	seq int64
}

func (m *meter) newFactCounter(l *ledger.Ledger, log *logrus.Entry) *factCounter {
	m.turns.Inc()
	return &factCounter{meter: m, ledger: l, log: log, taken: map[string]arrived{}, more: make(chan struct{}, 1), traces: make(chan tracing.Ended, tracedMost), accepted: map[string]int64{}}
}

func (f *factCounter) take(id string, kind fact.Kind, published time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.taken) < takenMost && !published.IsZero() {
		f.taken[id] = arrived{kind, published}
	}
}

// start counts the rows whose sequence is greater than after, until stop is called.
func (f *factCounter) start(outbox *outbox.Outbox, after int64) (stop func()) {
	f.outbox = outbox
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f.run(ctx, after) })
	running.Go(func() { f.awaitPublished(ctx) })
	running.Go(func() { f.sendTraces(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

func (f *factCounter) run(ctx context.Context, after int64) {
	for {
		select {
		case <-f.ledger.Changed(after):
		case <-ctx.Done():
			return
		}
		rows, err := f.ledger.Rows(ctx, after, factsAtOnce)
		if err != nil && sleep.For(ctx, time.Second) != nil {
			return
		}
		for _, r := range rows {
			f.count(ctx, r)
			after = r.Seq
		}
	}
}

// awaitPublished measures the time from a command's publication until the events stream has
// its command.finished.
func (f *factCounter) awaitPublished(ctx context.Context) {
	for {
		f.mu.Lock()
		all := f.ended
		f.ended = nil
		f.mu.Unlock()
		for _, e := range all {
			if f.outbox.Wait(ctx, uint64(e.seq)) != nil {
				return
			}
			f.meter.eventSeconds.WithLabelValues(string(e.kind)).Observe(max(time.Since(e.published), 0).Seconds())
		}
		if len(all) > 0 {
			continue
		}
		select {
		case <-f.more:
		case <-ctx.Done():
			return
		}
	}
}

// count counts a row. It decodes the row's data only for rare types.
func (f *factCounter) count(ctx context.Context, r chain.Row) {
	m := f.meter
	m.facts.WithLabelValues(r.Type).Inc()
	switch r.Type {
	case "command.accepted":
		if len(f.accepted) < takenMost {
			f.accepted[r.Operation] = r.Time
		}
	case "command.finished":
		f.finished(ctx, r)
	case "operation.sending":
		attempt := attemptFirst
		if !strings.Contains(r.Data, `"attempt":1,`) {
			attempt = attemptAgain
		}
		m.attempts.WithLabelValues(attempt).Inc()
	case "operation.waiting", "operation.review", "operation.resolved", "account.paused", "sweep.held", "ledger.discrepancy", "runner.started":
		if x, err := fact.Decode(r.Type, []byte(r.Data)); err == nil {
			f.countRare(r, x)
			f.logFact(x)
		}
	}
}

func (f *factCounter) finished(ctx context.Context, r chain.Row) {
	id := r.Operation
	f.mu.Lock()
	came, known := f.taken[id]
	if known {
		delete(f.taken, id)
		f.ended = append(f.ended, ended{came, r.Seq})
	}
	f.mu.Unlock()
	f.trace(r, came.published)
	if known {
		select {
		case f.more <- struct{}{}:
		default:
		}
	}
	at, began := f.accepted[id]
	delete(f.accepted, id)
	if !known || !began { // the command was taken earlier, or was refused and therefore never accepted
		command, err := f.ledger.Operations.Command(ctx, id)
		if err != nil {
			return
		}
		came.kind, at = command.Kind, command.AcceptedAt.UnixMicro()
	}
	f.meter.settleSeconds.WithLabelValues(string(came.kind)).Observe(max(float64(r.Time-at)/1e6, 0))
}

func (f *factCounter) countRare(r chain.Row, x fact.Fact) {
	m := f.meter
	switch x := x.(type) {
	case fact.OperationWaiting:
		if x.Ambiguous {
			m.ambiguous.Inc()
		}
	case fact.OperationReview:
		if x.Ambiguous {
			m.ambiguous.Inc()
		}
		m.reviews.WithLabelValues(codeLabel(x.Code)).Inc()
	case fact.AccountPaused:
		if x.Cause == decide.CauseThrottled && x.Until != nil && x.Until.After(f.held) {
			from := r.Instant()
			if f.held.After(from) {
				from = f.held
			}
			f.held = *x.Until
			m.heldSeconds.Add(max(f.held.Sub(from), 0).Seconds())
		}
	case fact.SweepHeld:
		m.leftOut.WithLabelValues(x.Schedule, string(x.Code)).Add(float64(x.LeftOut))
	case fact.LedgerDiscrepancy:
		m.findings.WithLabelValues(x.Finding).Inc()
	}
}

// logFact logs facts for operators. Pauses, runs of schedules and findings are logged
// elsewhere.
func (f *factCounter) logFact(x fact.Fact) {
	switch x := x.(type) {
	case fact.RunnerStarted:
		if x.Recovered > 0 {
			f.log.WithField("recovered", x.Recovered).Infof("the account works, and continues %s of an earlier run", english.Plural(x.Recovered, "operation", ""))
			return
		}
		f.log.Info("the account works")
	case fact.OperationReview:
		f.about(x.Ref).WithField("code", x.Code).Warn("in review: " + x.Reason)
	case fact.OperationResolved:
		f.about(x.Ref).WithField("cents", x.ChargedCents).Info("answered: " + x.Said(fact.Signed(x.By, x.User)))
	}
}

func (f *factCounter) about(r fact.Ref) *logrus.Entry {
	return f.log.WithFields(logrus.Fields{"operation_id": r.OperationID, "command_id": r.CommandID, "trace_id": r.TraceID})
}

// tracedMost limits the number of finished commands whose traces wait to be sent. Further
// commands get no trace.
const tracedMost = 1 << 12

// trace passes a finished command to sendTraces, if the command is sampled.
func (f *factCounter) trace(r chain.Row, published time.Time) {
	if f.meter.tracer == nil {
		return
	}
	of, err := r.Trace()
	if err != nil || !f.meter.tracer.Sampled(f.meter.account, r.Operation, of) {
		return
	}
	select {
	case f.traces <- tracing.Ended{Row: r, Published: published}:
	default:
		f.meter.tracesDropped.Inc()
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
	if err := f.meter.tracer.Send(read, f.ledger, f.meter.account, x, stored); err != nil {
		f.meter.tracesDropped.Inc()
		_ = sleep.For(ctx, time.Second) // a pause, because the ledger cannot be read
	}
}
