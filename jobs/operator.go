// Pauses that a person asks for.

package jobs

import (
	"context"
	"errors"
	"fmt"
	"perennial/jobs/decide"
	"perennial/jobs/desk"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// PauseByHand stops the account until ResumeByHand. The error is a RefusedError
// without a name or a reason, else the ledger's: the account is paused all the
// same, and it is recorded once that can be done.
func (r *Runner) PauseByHand(ctx context.Context, by, reason string) error {
	if err := desk.CheckSigned(by, reason); err != nil {
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
	if err := desk.CheckSigned(by, reason); err != nil {
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
