// What an operator changes: release, cancel, retry, pause and resume.

package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// signature is who asks for a change, and why: the fact carries both.
type signature struct{ by, reason string }

func (x signature) check() error { return CheckSigned(x.by, x.reason) }

// CheckSigned is a RefusedError for a change without a name or a reason, or with words
// that would fill the journal.
func CheckSigned(by, reason string) error {
	if strings.TrimSpace(by) == "" || strings.TrimSpace(reason) == "" {
		return command.Refuse("a change needs a name and a reason: say who asks for it, and why (--by, --reason)")
	}
	if fact.ClaimsUser(by) {
		return command.Refuse("%.40q says what the NATS server says: give the name alone, the NATS user is added", by)
	}
	return checkWords(by, reason)
}

// checkWords is a RefusedError for words of a person that would fill the journal, or
// that no terminal and no log could show on one line.
func checkWords(words ...string) error {
	for _, w := range words {
		if len(w) > maxWords {
			return command.Refuse("name, reason and order number may have %d bytes each", maxWords)
		}
		if why := fact.Unprintable(w); why != "" {
			return command.Refuse("%.40q %s: write name, reason and order number on one line", w, why)
		}
	}
	return nil
}

// Release ends the hold of a command's operations, so that they can be sent.
func (r *Runner) Release(ctx context.Context, id, by, reason string, as ...inspect.As) (int, error) {
	return r.each(ctx, targetOf(id, as), signature{by, reason}, func(_ fact.Operation, ref fact.Ref) (fact.Fact, error) {
		return fact.CommandReleased{Ref: ref, By: by, Reason: reason, User: fact.UserOf(ctx)}, nil
	}, fact.StateHeld)
}

// Cancel withdraws what is held, waits for its turn or waits to be sent again, and
// which the provider certainly has not executed. An attempt that may have executed
// cannot be taken back.
func (r *Runner) Cancel(ctx context.Context, id, by, reason string, as ...inspect.As) (int, error) {
	unsure := ""
	n, err := r.each(ctx, targetOf(id, as), signature{by, reason}, func(o fact.Operation, ref fact.Ref) (fact.Fact, error) {
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

// Retry asks again for what ended with nothing charged: a new operation under a
// new generation of the key.
func (r *Runner) Retry(ctx context.Context, id, by, reason string, as ...inspect.As) (int, error) {
	return r.retry(ctx, targetOf(id, as), signature{by, reason}, func(fact.Operation) error { return nil })
}

// RetryUnrepeated is Retry for what a filter chose and no person looked at one by one: it
// refuses what was cancelled, what was asked again before, and a renewal whose proxy a later
// command has renewed or may renew.
func (r *Runner) RetryUnrepeated(ctx context.Context, id, by, reason string, as ...inspect.As) (int, error) {
	return r.retry(ctx, targetOf(id, as), signature{by, reason}, func(o fact.Operation) error {
		switch {
		case o.Code == fact.CodeCancelled:
			return command.Refuse("%s was cancelled", o.ID)
		case o.Generation > 1:
			return command.Refuse("%s was asked again before, and refused again", o.ID)
		case !o.Kind.OfProxies():
			return nil
		}
		return r.unrenewed(ctx, o)
	})
}

// laterLooked bounds how many later operations of a proxy are looked at.
const laterLooked = 100

// unrenewed refuses an operation of which a later one has renewed a proxy, or may.
func (r *Runner) unrenewed(ctx context.Context, o fact.Operation) error {
	lines, err := r.Ledger.Lines(ctx, o.ID)
	if err != nil {
		return err
	}
	for _, x := range lines {
		later, err := r.Ledger.NamedAfter(ctx, x.ProxyID, o, laterLooked)
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

// retry asks again for the operations of which may returns no error.
func (r *Runner) retry(ctx context.Context, of target, by signature, may func(fact.Operation) error) (int, error) {
	return r.each(ctx, of, by, func(o fact.Operation, ref fact.Ref) (fact.Fact, error) {
		if err := may(o); err != nil {
			return nil, err
		}
		next, err := inspect.NextGeneration(ctx, r.Ledger, r.binding, o, fact.LineNotCharged)
		if err != nil {
			return nil, err
		}
		reason := by.reason
		if o.Reason != "" { // the first refusal stays readable
			reason = fact.Bounded(reason + "; it had been refused: " + o.Reason)
		}
		return fact.OperationResolved{
			Ref: ref, By: by.by, Reason: reason, User: fact.UserOf(ctx), Outcome: "not_charged", SendAgain: []fact.Planned{next.Planned}, DurationDays: next.Days,
		}, nil
	}, fact.StateRejected)
}

// PauseByHand stops the account until ResumeByHand. The error is a RefusedError
// without a name or a reason, else the ledger's: the account is paused all the
// same, and it is recorded once that can be done.
func (r *Runner) PauseByHand(ctx context.Context, by, reason string) error {
	if err := (signature{by, reason}).check(); err != nil {
		return err
	}
	err := r.pause(ctx, decide.Pause{Scope: decide.ScopeAccount, Cause: decide.CausePerson, Detail: "by " + fact.Signed(by, fact.UserOf(ctx)) + ": " + reason, User: fact.UserOf(ctx)})
	if err != nil {
		return fmt.Errorf("the account is paused, and that is not recorded yet: do not stop the runner before the ledger can be written: %w", err)
	}
	return nil
}

// PausedByHand is the pause of an earlier PauseByHand that is in force. Another one keeps its
// reason.
func (r *Runner) PausedByHand() (ledger.Pause, bool) { return r.pauses.byHand() }

// ResumeByHand ends every pause, whatever its cause and its end, and says how
// many; what does not work will pause again. A pause whose end could not be
// recorded stays in force and is part of the error.
func (r *Runner) ResumeByHand(ctx context.Context, by, reason string) (ended int, err error) {
	if err := (signature{by, reason}).check(); err != nil {
		return 0, err
	}
	for _, x := range r.pauses.list() {
		f := fact.AccountResumed{Scope: x.Scope, Cause: x.Cause, Detail: "by " + fact.Signed(by, fact.UserOf(ctx)) + ": " + reason, User: fact.UserOf(ctx)}
		if x.Cause == ledger.CauseRestored {
			f.PresumeSentBy = r.Provider.AppID() // whether it was sent is not known
		}
		if failed := r.resumeAs(ctx, x, f); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		ended++
	}
	return ended, err
}
