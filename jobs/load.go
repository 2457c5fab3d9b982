// How an operation's record becomes a job: its command, and the lines still to renew.

package jobs

import (
	"context"
	"fmt"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// codeReleased marks an operation that an operator released.
const codeReleased = "released"

// job makes the job of an operation.
func (r *Runner) job(record fact.Operation, c command.Command, ids []string) *job {
	c.ProxyIDs = nil // an operation has its own
	row := rowOf(record.Kind)
	j := &job{
		op:  decide.Operation{Operation: record, Labels: c.Labels, ProxyIDs: ids, DurationDays: c.DurationDays, Binding: r.binding, Trace: c.Trace},
		cmd: c, at: record.AcceptedAt, lane: row.lane, priority: row.priority,
		released: record.State == fact.StateAccepted && record.Code == codeReleased,
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
		j.at, j.expired = *c.DueBefore, !c.DueBefore.After(r.Clock())
	}
	return j
}

// load makes the job of a record: its command and, for a renewal, the lines still to
// renew.
func (r *Runner) load(ctx context.Context, record fact.Operation) (*job, error) {
	c, err := r.command(ctx, record.CommandID)
	if err != nil {
		return nil, fmt.Errorf("operation %s: %w", record.ID, err)
	}
	var ids []string
	if record.Kind.OfProxies() {
		lines, err := r.Ledger.Lines(ctx, record.ID)
		if err != nil {
			return nil, fmt.Errorf("operation %s: %w", record.ID, err)
		}
		for _, l := range lines {
			if l.State == fact.LinePending {
				ids = append(ids, l.ProxyID)
			}
		}
	}
	return r.job(record, c, ids), nil
}

// keptCommands bounds the cached commands; each has up to command.MaxCommandBytes.
const keptCommands = 256

// keep caches a command for its next operations.
func (r *Runner) keep(c command.Command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) >= keptCommands {
		clear(r.kept)
	}
	r.kept[c.ID] = c
}

// command returns an accepted command without its proxies, which each operation has. It
// comes from the cache or from the journal.
func (r *Runner) command(ctx context.Context, id string) (command.Command, error) {
	r.mu.Lock()
	c, kept := r.kept[id]
	r.mu.Unlock()
	if kept {
		return c, nil
	}
	accepted, err := r.Ledger.Acceptance(ctx, id)
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
	r.keep(c)
	return c, nil
}

// enqueue loads an operation and queues it, unless another operation of a careful
// command goes first.
func (r *Runner) enqueue(ctx context.Context, record fact.Operation) error {
	return r.enqueueTo(ctx, record, r.ready.push)
}

// enqueueRead does the same for an operation of a read.
func (r *Runner) enqueueRead(ctx context.Context, x *reading, s source, record fact.Operation) error {
	return r.enqueueTo(ctx, record, func(j *job) { x.push(s, j) })
}

func (r *Runner) enqueueTo(ctx context.Context, record fact.Operation, push func(*job)) error {
	if r.ready.isActive(record.ID) {
		return nil
	}
	j, err := r.load(ctx, record)
	if err != nil {
		return err
	}
	if r.careful(j.cmd) && record.State == fact.StateAccepted {
		next, err := nextOf(ctx, r.Ledger, record.CommandID)
		if err != nil || next != record.ID {
			return err
		}
	}
	push(j)
	return nil
}

// nextOf returns the operation of a careful command that may start, "" if none. It is
// the first accepted one, once the cost of the others is decided or counted. An
// operation that may have executed counts at its estimate and does not block the others.
func nextOf(ctx context.Context, l *ledger.Ledger, commandID string) (next string, err error) {
	all, err := l.OperationsOf(ctx, commandID)
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
