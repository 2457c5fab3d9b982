// Recovery: what an earlier run, here or on another machine, has left.

package jobs

import (
	"context"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// inheritWait is after how long a request of another runner is out of date: the provider
// takes timestamps of five minutes (customer-api.md, Authentication), and clocks differ.
const inheritWait = 10 * time.Minute

// recover queues what an earlier run left: a send without a recorded reply may have
// executed.
func (r *Runner) recover(ctx context.Context) error {
	const all = 1 << 20
	sending, err := r.Ledger.OperationsIn(ctx, fact.StateSending, all)
	if err != nil {
		return err
	}
	if err := r.begin(ctx, len(sending)); err != nil {
		return err
	}
	r.Reached("recovery.begun")
	for _, record := range sending {
		if err := r.recoverOne(ctx, record); err != nil {
			return err
		}
		r.Reached("recovery.one")
	}
	accepted, err := r.Ledger.OperationsIn(ctx, fact.StateAccepted, all)
	if err != nil {
		return err
	}
	for _, record := range accepted {
		if err := r.enqueue(ctx, record); err != nil {
			r.cannotGoOn(record, err)
		}
	}
	return nil
}

// begin appends runner.started. Where another runner was the last one, what was seen of
// the proxies before is out of date.
func (r *Runner) begin(ctx context.Context, recovered int) error {
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

// lastHolder is who ran the account before: this runner itself where no other can.
func (r *Runner) lastHolder(ctx context.Context) (string, error) {
	if !r.Ledger.Follows() {
		return r.Holder, nil
	}
	return r.Ledger.LastHolder(ctx)
}

// recoverOne records that an attempt may have executed.
func (r *Runner) recoverOne(ctx context.Context, record fact.Operation) error {
	j, err := r.load(ctx, record)
	if err != nil {
		r.cannotGoOn(record, err) // it stays as it is: nothing of it is sent
		return nil
	}
	since := record.FirstAmbiguousAt
	if since == nil {
		since = &record.UpdatedAt // the moment of the send
	}
	notBefore, err := r.notBefore(ctx, record.ID)
	if err != nil {
		return err
	}
	d := decide.Decide(j.op, decide.CrashedMidSend{Moment: r.moment(), Elapsed: r.clock.Elapsed(since), NotBefore: notBefore})
	_, err = r.record(ctx, j, d)
	return err
}

// notBefore is when a request of another runner for the operation is out of date; zero
// where its last attempt was this runner's.
func (r *Runner) notBefore(ctx context.Context, operationID string) (time.Time, error) {
	if !r.Ledger.Follows() {
		return time.Time{}, nil
	}
	since, inherited, err := r.Ledger.Inherited(ctx, operationID, r.Holder)
	if err != nil || !inherited {
		return time.Time{}, err
	}
	if since.IsZero() {
		since = r.clock.Now()
	}
	until := since.Add(inheritWait)
	// since may be by the slow clock of a third runner: this one's own start is not.
	start, latest := r.clock.start.Round(0).Add(inheritWait), until.Add(clocksApart)
	if start.After(latest) {
		start = latest
	}
	if start.After(until) {
		until = start
	}
	return until, nil
}

// refuseEarly refuses a new key for an operation whose last request is another runner's
// and may still arrive.
func (r *Runner) refuseEarly(ctx context.Context, o fact.Operation) error {
	if o.Ambiguous == 0 {
		return nil
	}
	until, err := r.notBefore(ctx, o.ID)
	if err != nil || !r.clock.Now().Before(until) {
		return err
	}
	return command.Refuse("%s was sent by another runner whose request may still arrive: sent again now it could be paid for twice. Say the same again after %s", o.ID, until.UTC().Format(time.RFC3339))
}
