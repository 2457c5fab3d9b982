// This file releases, cancels and retries operations.

package desk

import (
	"context"
	"errors"

	"perennial/jobs/command"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
)

// Release ends the hold of a command's operations, so that they can be sent. It returns the
// number of operations released. id is a command's or an operation's id. If it is both, as
// says which one is meant.
func (d *Desk) Release(ctx context.Context, id, by, reason string, as ...inspect.As) (int, error) {
	return d.each(ctx, targetOf(id, as), signature{by, reason}, func(_ fact.Operation, ref fact.Ref) (fact.Fact, error) {
		return fact.CommandReleased{Ref: ref, By: by, Reason: reason, User: fact.UserOf(ctx)}, nil
	}, fact.StateHeld)
}

// Cancel cancels operations that are on hold, queued or waiting for a retry. It cannot
// cancel an operation with an attempt that may have executed. It returns the number of
// operations cancelled.
func (d *Desk) Cancel(ctx context.Context, id, by, reason string, as ...inspect.As) (int, error) {
	unsure := ""
	n, err := d.each(ctx, targetOf(id, as), signature{by, reason}, func(o fact.Operation, ref fact.Ref) (fact.Fact, error) {
		if o.Ambiguous > 0 {
			unsure = o.ID
			return nil, errLeaveAlone
		}
		return fact.CommandCancelled{Ref: ref, By: by, Reason: reason, User: fact.UserOf(ctx)}, nil
	}, fact.StateHeld, fact.StateAccepted, fact.StateWaiting)
	if refused := (*command.RefusedError)(nil); unsure != "" && n == 0 && errors.As(err, &refused) {
		return 0, command.Refuse("%s may have been sent and executed: it cannot be withdrawn", unsure)
	}
	return n, err
}

// Retry repeats operations that ended without a charge. Each becomes a new operation under
// a new generation of the key. It returns the number of operations repeated.
func (d *Desk) Retry(ctx context.Context, id, by, reason string, as ...inspect.As) (int, error) {
	return d.retry(ctx, targetOf(id, as), signature{by, reason}, func(fact.Operation) error { return nil })
}

// RetryUnrepeated is Retry for operations that a filter selected and no operator checked
// individually. It refuses cancelled operations and those that were retried before. It also
// refuses a renewal if a later command has renewed, or may renew, one of its proxies.
func (d *Desk) RetryUnrepeated(ctx context.Context, id, by, reason string, as ...inspect.As) (int, error) {
	return d.retry(ctx, targetOf(id, as), signature{by, reason}, func(o fact.Operation) error {
		switch {
		case o.Code == fact.CodeCancelled:
			return command.Refuse("%s was cancelled", o.ID)
		case o.Generation > 1:
			return command.Refuse("%s was asked again before, and refused again", o.ID)
		case !o.Kind.OfProxies():
			return nil
		}
		return d.unrenewed(ctx, o)
	})
}

// maxLaterChecked limits how many later operations of a proxy are checked.
const maxLaterChecked = 100

// unrenewed returns a RefusedError if a later operation has renewed, or may renew, a proxy
// of this operation.
func (d *Desk) unrenewed(ctx context.Context, o fact.Operation) error {
	lines, err := d.c.Ledger.Operations.Lines(ctx, o.ID)
	if err != nil {
		return err
	}
	for _, x := range lines {
		later, err := d.c.Ledger.Operations.NamedAfter(ctx, x.ProxyID, o, maxLaterChecked)
		if err != nil {
			return err
		}
		for _, l := range later {
			if l.State != fact.StateRejected && l.State != fact.StateFailed {
				return command.Refuse("%s: a later command, %s, renews %s and is %s", o.ID, l.CommandID, x.ProxyID, l.State)
			}
		}
	}
	return nil
}

// retry repeats rejected operations. It stops if may returns an error.
func (d *Desk) retry(ctx context.Context, of target, by signature, may func(fact.Operation) error) (int, error) {
	return d.each(ctx, of, by, func(o fact.Operation, ref fact.Ref) (fact.Fact, error) {
		if err := may(o); err != nil {
			return nil, err
		}
		next, err := inspect.NextGeneration(ctx, d.c.Ledger, d.c.Binding(), o, fact.LineNotCharged)
		if err != nil {
			return nil, err
		}
		reason := by.reason
		if o.Reason != "" { // keep the reason of the first refusal
			reason = fact.Bounded(reason + "; it had been refused: " + o.Reason)
		}
		return fact.OperationResolved{
			Ref: ref, By: by.by, Reason: reason, User: fact.UserOf(ctx), Outcome: "not_charged", SendAgain: []fact.Planned{next.Planned}, DurationDays: next.Days,
		}, nil
	}, fact.StateRejected)
}
