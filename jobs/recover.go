package jobs

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
)

// inheritWait is the age at which another runner's request has expired. The provider accepts
// timestamps up to five minutes old (customer-api.md, Authentication), and the clocks may
// differ.
const inheritWait = 10 * time.Minute

// recovery continues what earlier runs left unfinished, and decides when schedules may plan.
type recovery struct {
	*Config
	clock    *clock
	pauses   *pauses
	ready    *ready
	binding  func() fact.Binding
	holds    *holds
	link     *link
	loader   *loader
	attempts *attempts

	until    int64      // last journal row of earlier runs
	takingUp sleep.Lock // held while operations of earlier runs are taken up

	begun       atomic.Bool   // runner.started is in the ledger
	mayPlan     chan struct{} // closed when schedules may plan from the proxy table
	mayPlanOnce sync.Once
	answers     atomic.Int64 // number of reviews answered by operators
}

func (r *recovery) beginRun(ctx context.Context) error {
	until, _, err := r.Ledger.Head(ctx)
	if err != nil {
		return err
	}
	r.until = until
	counts, err := r.Ledger.Operations.StateCounts(ctx)
	if err != nil {
		return err
	}
	if err := r.begin(ctx, int(counts[fact.StateSending])); err != nil {
		return err
	}
	r.begun.Store(true)
	r.letPlan()
	failpoint.Reached(ctx, "recovery.begun")
	return nil
}

// takeUpMissed is takeUp including the operations that this run has accepted.
func (r *recovery) takeUpMissed(ctx context.Context) error {
	last, _, err := r.Ledger.Head(ctx)
	if err != nil {
		return err
	}
	return r.takeUp(ctx, last)
}

// takeUp queues what an earlier run left unfinished, and the operations of commands that
// were accepted up to a journal row, while this run is already working. No worker takes an
// operation that was being sent before recoverPart has recorded that it may have executed.
func (r *recovery) takeUp(ctx context.Context, accepted int64) error {
	if err := r.takingUp.Take(ctx); err != nil {
		return err
	}
	defer r.takingUp.Give()
	err := r.eachLeft(ctx, fact.StateSending, r.until, r.recoverPart)
	if err != nil {
		return err
	}
	return r.eachLeft(ctx, fact.StateAccepted, accepted, func(ctx context.Context, part []fact.Operation, x *reading) error {
		for _, record := range part {
			if err := r.loader.enqueueRead(ctx, x, fromStream, record); err != nil {
				r.loader.logNotQueued(record, err)
				r.loader.miss(err)
			}
		}
		return ctx.Err()
	})
}

const recoveredTogether = 100

// eachLeft calls do with the operations that an earlier run left in a state, in batches of
// recoveredTogether.
func (r *recovery) eachLeft(ctx context.Context, state fact.State, until int64, do func(context.Context, []fact.Operation, *reading) error) error {
	var last fact.Operation
	for {
		x := r.ready.beginReading()
		part, err := r.Ledger.Operations.Left(ctx, tables.Left{State: state, Until: until, After: last, Limit: recoveredTogether})
		if err == nil && len(part) > 0 {
			last = part[len(part)-1]
			err = do(ctx, part, x)
		}
		x.end()
		if err != nil || len(part) == 0 {
			return err
		}
	}
}

// begin appends runner.started. If another runner ran last, it also marks the known state
// of the proxies as out of date.
func (r *recovery) begin(ctx context.Context, recovered int) error {
	last, err := r.lastHolder(ctx)
	if err != nil {
		return err
	}
	return r.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		if last != r.Holder {
			if err := tx.ForgetSeen(); err != nil {
				return err
			}
		}
		return tx.Append(fact.RunnerStarted{Version: r.Version, Holder: r.Holder, Recovered: recovered})
	})
}

// lastHolder returns the name of the account's previous runner. If the ledger follows no stream,
// no other runner is possible, and it returns this runner's name.
func (r *recovery) lastHolder(ctx context.Context) (string, error) {
	if !r.Ledger.Follows() {
		return r.Holder, nil
	}
	return r.Ledger.Sweeps.LastHolder(ctx)
}

// recoverPart records that attempts may have executed, in one transaction. If that fails,
// it records each in its own transaction.
func (r *recovery) recoverPart(ctx context.Context, part []fact.Operation, _ *reading) error {
	all := make([]interrupted, 0, len(part))
	for _, record := range part {
		one, err := r.crashed(ctx, record)
		if err != nil {
			r.loader.logNotQueued(record, err) // the operation stays unchanged and is not sent
			r.loader.miss(err)
			continue
		}
		all = append(all, one)
	}
	err := r.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		for _, f := range all {
			if _, err := tx.AppendTo(f.job.op.ID, f.job.op.Version, f.decision.Facts...); err != nil {
				return err
			}
		}
		return nil
	})
	for _, f := range all {
		if err != nil {
			if _, err := r.attempts.record(ctx, f.job, f.decision); err != nil {
				return err
			}
		}
		failpoint.Reached(ctx, "recovery.one")
	}
	r.loader.wakeDueLoop()
	return nil
}

// interrupted is an attempt without a recorded reply, and the decision on it.
type interrupted struct {
	job      *job
	decision decide.Decision
}

func (r *recovery) crashed(ctx context.Context, record fact.Operation) (interrupted, error) {
	j, err := r.loader.load(ctx, record)
	if err != nil {
		return interrupted{}, err
	}
	since := record.FirstAmbiguousAt
	if since == nil {
		since = &record.UpdatedAt // time of the attempt
	}
	return interrupted{j, decide.Decide(j.op, decide.CrashedMidSend{Moment: r.link.moment(), Elapsed: r.clock.Elapsed(since)})}, nil
}

// notBefore returns the time at which another runner's last request for the operation expires.
// Before that time, a request under a new idempotency key could pay a second time. notBefore
// returns zero if this runner made the last attempt.
func (r *recovery) notBefore(ctx context.Context, operationID string) (time.Time, error) {
	if !r.Ledger.Follows() {
		return time.Time{}, nil
	}
	since, inherited, err := r.Ledger.Sweeps.Inherited(ctx, operationID, r.Holder)
	if err != nil || !inherited {
		return time.Time{}, err
	}
	if since.IsZero() {
		since = r.clock.Now()
	}
	until := since.Add(inheritWait)
	// since may come from the slow clock of a third runner. This runner's own start time is
	// reliable.
	start, latest := r.clock.start.Round(0).Add(inheritWait), until.Add(clocksApart)
	if start.After(latest) {
		start = latest
	}
	if start.After(until) {
		until = start
	}
	return until, nil
}

// refuseEarly returns a RefusedError while another runner's last request for the operation may
// still arrive. Before that request has expired, a retry under a new key could pay a second time.
func (r *recovery) refuseEarly(ctx context.Context, o fact.Operation) error {
	if o.Ambiguous == 0 {
		return nil
	}
	until, err := r.notBefore(ctx, o.ID)
	if err != nil || !r.clock.Now().Before(until) {
		return err
	}
	return command.Refuse("%s was sent by another runner whose request may still arrive: sent again now it could be paid for twice. Say the same again after %s", o.ID, until.UTC().Format(time.RFC3339))
}
