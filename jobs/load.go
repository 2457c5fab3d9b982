package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
)

const codeReleased = "released"

// loader queues operations from the ledger: accepted operations immediately, others when
// they come due.
type loader struct {
	*Config
	clock         *clock
	pauses        *pauses
	ready         *ready
	binding       func() fact.Binding
	deadLetterLog *deadLetterLog
	wake          chan struct{}
	backlog       atomic.Bool           // due operations stayed in the ledger because there was no room
	missed        atomic.Pointer[error] // why an operation that is not due could not be queued; nil if there is none
	takeUpMissed  func(ctx context.Context) error

	mu              sync.Mutex
	kept            map[string]command.Command // cache by id: commands of waiting operations and commands read recently
	notQueuedLogged map[string]time.Time       // when the failure to queue an operation was last logged, by operation id
}

func (q *loader) job(record fact.Operation, c command.Command, ids []string) *job {
	c.ProxyIDs = nil // an operation has its own proxies
	row := rowOf(record.Kind)
	j := &job{
		op:  decide.Operation{Operation: record, Labels: c.Labels, ProxyIDs: ids, DurationDays: c.DurationDays, Binding: q.binding(), Trace: c.Trace},
		cmd: c, at: record.AcceptedAt, lane: row.lane, priority: row.priority,
		released: record.State == fact.StateAccepted && record.Code == codeReleased,
		serial:   q.oneByOne(c),
	}
	j.urgency = urgencyOf(c.Priority)
	j.op.OfferCode, j.op.Ordered = c.OnlyOffer(), c.Ordered()
	if record.State == fact.StateOpen {
		j.lane, j.priority = lanePoll, priorityPoll
	}
	if record.Ambiguous > 0 && record.FirstAmbiguousAt != nil && j.lane != lanePoll {
		j.priority, j.at = priorityAmbiguous, *record.FirstAmbiguousAt
	}
	if c.DueBefore != nil && j.priority == priorityRenewal {
		j.at, j.expired = *c.DueBefore, !c.DueBefore.After(q.Clock())
	}
	return j
}

// Returns the job of a record, with its command and, for a renewal, the proxies that are still to
// be renewed.
func (q *loader) load(ctx context.Context, record fact.Operation) (*job, error) {
	c, err := q.command(ctx, record.CommandID)
	if err != nil {
		return nil, fmt.Errorf("operation %s: %w", record.ID, err)
	}
	var ids []string
	if record.Kind.OfProxies() {
		lines, err := q.Ledger.Operations.Lines(ctx, record.ID)
		if err != nil {
			return nil, fmt.Errorf("operation %s: %w", record.ID, err)
		}
		for _, l := range lines {
			if l.State == fact.LinePending {
				ids = append(ids, l.ProxyID)
			}
		}
	}
	j := q.job(record, c, ids)
	j.op.OnlyPresumed, err = q.onlyPresumed(ctx, record)
	return j, err
}

// onlyPresumed reports whether the operation has only one request that may have executed, and
// whether that request is presumed after a restore. A real attempt has the time of its intent. A
// presumed attempt has the time at which the lost time started.
func (q *loader) onlyPresumed(ctx context.Context, record fact.Operation) (bool, error) {
	if record.Ambiguous != 1 || record.BodySeq == 0 || record.FirstAmbiguousAt == nil || record.State == fact.StateOpen || record.State.Ended() {
		return false, nil
	}
	rows, err := q.Ledger.RowsOf(ctx, record.ID)
	if err != nil {
		return false, fmt.Errorf("operation %s: %w", record.ID, err)
	}
	sent := slices.ContainsFunc(rows, func(r chain.Row) bool {
		return r.Type == fact.OperationSending{}.FactType() && r.Instant().Equal(*record.FirstAmbiguousAt)
	})
	return !sent, nil
}

// keptCommands limits the number of cached commands; each has up to
// command.MaxCommandBytes.
const keptCommands = 256

func (q *loader) keep(c command.Command) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.kept) >= keptCommands {
		clear(q.kept)
	}
	q.kept[c.ID] = c
}

// Returns an accepted command, from the cache or the journal. Its ProxyIDs are empty, because
// each operation has its own.
func (q *loader) command(ctx context.Context, id string) (command.Command, error) {
	q.mu.Lock()
	c, kept := q.kept[id]
	q.mu.Unlock()
	if kept {
		return c, nil
	}
	accepted, err := q.Ledger.Operations.Acceptance(ctx, id)
	if err != nil {
		return c, err
	}
	if c, err = command.ReadContent(accepted.Content); err != nil {
		return c, err
	}
	c.ProxyIDs, c.Trace = nil, accepted.Trace
	if len(accepted.Operations) > bulkOperations && c.Priority == command.UrgencyNormal {
		c.Priority = command.UrgencyBulk
	}
	q.keep(c)
	return c, nil
}

// enqueue loads an operation and queues it, unless it belongs to a careful command and
// another operation of that command goes first.
func (q *loader) enqueue(ctx context.Context, record fact.Operation) error {
	return q.enqueueTo(ctx, record, q.ready.push)
}

// enqueueRead is like enqueue, for an operation that was read during x.
func (q *loader) enqueueRead(ctx context.Context, x *reading, s source, record fact.Operation) error {
	return q.enqueueTo(ctx, record, func(j *job) { x.push(s, j) })
}

func (q *loader) enqueueTo(ctx context.Context, record fact.Operation, push func(*job)) error {
	if q.ready.isActive(record.ID) {
		return nil
	}
	j, err := q.load(ctx, record)
	if err != nil {
		return err
	}
	if q.oneByOne(j.cmd) && record.State == fact.StateAccepted {
		next, err := nextOf(ctx, q.Ledger, record.CommandID)
		if err != nil || next != record.ID {
			return err
		}
	}
	push(j)
	return nil
}

// nextOf returns the first accepted operation of a careful command. It returns "" if none may
// start. None may start while the cost of another operation is undecided: while that operation is
// being sent, on hold, or waiting without an attempt that may have executed. An operation with
// such an attempt counts at its estimate and does not block the others.
func nextOf(ctx context.Context, l *ledger.Ledger, commandID string) (next string, err error) {
	all, err := l.Operations.OperationsOf(ctx, commandID)
	if err != nil {
		return "", err
	}
	for _, o := range all {
		switch {
		case o.State == fact.StateSending, o.State == fact.StateHeld, o.State == fact.StateWaiting && o.Ambiguous == 0:
			return "", nil
		case o.State == fact.StateAccepted && next == "":
			next = o.ID
		}
	}
	return next, nil
}

const idle = time.Minute

// runDueLoop queues the ledger's operations when they come due. Waiting operations occupy no
// worker.
func (q *loader) runDueLoop(ctx context.Context) error {
	delays := sleep.Growing(time.Second, idle)
	var again <-chan time.Time // when to queue the missed operations
	for {
		// Both queries use the same instant. Otherwise an operation that comes due between
		// the two queries would be missed.
		now := q.clock.Now()
		if err := q.queueDue(ctx, now); err != nil && ctx.Err() == nil {
			q.Log.WithError(err).Error("the operations that are due could not be read from the ledger; the read is tried again")
		}
		q.deadLetterLog.log(q.Log, q.Clock())
		wait := idle
		if next, err := q.Ledger.Operations.NextAfter(ctx, now); err == nil && next != nil {
			wait = min(idle, max(0, next.Sub(q.clock.Now())))
		}
		if again == nil && q.missed.Load() != nil {
			again = time.After(delays.Next())
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-q.wake:
			timer.Stop()
		case <-timer.C:
		case <-again:
			timer.Stop()
			if again = nil; q.queueMissed(ctx) {
				delays.Reset()
			}
		}
	}
}

// Makes runDueLoop queue all operations that are neither queued nor due. err is the reason why
// one of them could not be queued.
func (q *loader) miss(err error) {
	q.missed.Store(&err)
	q.wakeDueLoop()
}

// queueMissed queues the operations that are neither queued nor due. It returns false if some
// of them still cannot be queued.
func (q *loader) queueMissed(ctx context.Context) bool {
	was := q.missed.Load()
	err := q.takeUpMissed(ctx)
	if err != nil && ctx.Err() == nil {
		q.Log.WithError(err).Error("operations that could not be queued could not be read from the ledger; the read is tried again")
	}
	return err == nil && q.missed.CompareAndSwap(was, nil)
}

// Unqueued returns why operations that could be executed are not queued. It returns nil if there
// are none.
func (q *loader) Unqueued() error {
	if err := q.missed.Load(); err != nil {
		return *err
	}
	return nil
}

// due selects the due operations of one state and kind. lane is the lane of the queue in which
// they use capacity.
type due struct {
	state fact.State
	kind  fact.Kind
	lane  lane
}

// dueQueries lists the queries of the loop, one per state and kind, so that many operations
// of one kind do not hide the others.
var dueQueries = func() (all []due) {
	for _, state := range []fact.State{fact.StateHeld, fact.StateWaiting} {
		for _, k := range kindsByPriority() {
			all = append(all, due{state, k, kinds[k].lane})
		}
	}
	for _, k := range kindsByPriority() {
		if kinds[k].polled {
			all = append(all, due{fact.StateOpen, k, lanePoll})
		}
	}
	return all
}()

func (q *loader) queueDue(ctx context.Context, now time.Time) error {
	q.backlog.Store(false)
	if due, err := q.Ledger.Operations.AnyDue(ctx, now); err != nil || !due {
		return err
	}
	x := q.ready.beginReading()
	defer x.end()
	for _, due := range dueQueries {
		free := q.ready.freeBack(due.lane)
		if free <= 0 {
			q.backlog.Store(true) // the number of due operations is unknown: read again when there is room
			continue
		}
		// The first rows may be operations that are already active, so ask for extra rows.
		records, err := q.Ledger.Operations.Due(ctx, due.state, due.kind, now, free+3*q.ready.capacity)
		if err != nil {
			return err
		}
		for _, record := range records {
			if err := q.queueOne(ctx, x, due.lane, record); err != nil && ctx.Err() == nil {
				q.logNotQueued(record, err)
			}
		}
	}
	return nil
}

// logNotQueued logs that an operation could not be queued, at most once a minute per
// operation.
func (q *loader) logNotQueued(record fact.Operation, err error) {
	if errors.Is(err, ledger.ErrStale) { // changed after the read: the next read returns the new version
		return
	}
	q.mu.Lock()
	now := q.Clock()
	told := now.Sub(q.notQueuedLogged[record.ID]) < time.Minute
	if !told {
		if len(q.notQueuedLogged) >= keptCommands {
			clear(q.notQueuedLogged)
		}
		q.notQueuedLogged[record.ID] = now
	}
	q.mu.Unlock()
	if !told {
		q.Log.WithError(err).WithField("operation_id", record.ID).Error("an operation could not be queued; it is tried again, and the others continue")
	}
}

func (q *loader) queueOne(ctx context.Context, x *reading, l lane, record fact.Operation) error {
	if q.ready.freeBack(l) <= 0 {
		q.backlog.Store(true)
		return nil
	}
	if record.State == fact.StateHeld {
		return q.unhold(ctx, record)
	}
	return q.enqueueRead(ctx, x, fromLedger, record)
}

func (q *loader) unhold(ctx context.Context, record fact.Operation) error {
	c, err := q.command(ctx, record.CommandID)
	if err != nil {
		return err
	}
	released := record
	hold := decide.Decide(q.job(record, c, nil).op, decide.HoldEnded{})
	err = q.Ledger.Write(ctx, func(tx *ledger.Tx) (err error) {
		released, err = tx.AppendTo(record.ID, record.Version, hold.Facts...)
		return err
	})
	if err != nil {
		return err
	}
	return q.enqueueTo(ctx, released, q.ready.pushBack) // the version is current, and the operation is no longer due
}

func (q *loader) wakeDueLoop() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
