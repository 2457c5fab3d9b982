// This file starts and ends the pauses that operators request.

package jobs

import (
	"context"
	"errors"
	"fmt"

	"perennial/jobs/decide"
	"perennial/jobs/desk"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// PauseByHand pauses the account until ResumeByHand. It returns a RefusedError if the name
// or the reason is missing. It returns the ledger's error if the pause could not be
// recorded; the pause is then in force and is recorded as soon as possible.
func (h *holds) PauseByHand(ctx context.Context, by, reason string) error {
	if err := desk.CheckSigned(by, reason); err != nil {
		return err
	}
	err := h.pause(ctx, decide.Pause{Scope: decide.ScopeAccount, Cause: decide.CausePerson, Detail: "by " + fact.Signed(by, fact.UserOf(ctx)) + ": " + reason, User: fact.UserOf(ctx)})
	if err != nil {
		return fmt.Errorf("the account is paused, and that is not recorded yet: do not stop the runner before the ledger can be written: %w", err)
	}
	return nil
}

// PausedByHand returns the operator's pause, if one is in force and recorded. A second
// PauseByHand does not replace its reason.
func (h *holds) PausedByHand() (tables.Pause, bool) { return h.pauses.byHand() }

// ResumeByHand ends all pauses, whatever their cause or end, and returns how many it ended.
// If the cause persists, the next failure pauses the account again. If the end of a pause
// cannot be recorded, that pause stays in force and err includes the failure.
func (h *holds) ResumeByHand(ctx context.Context, by, reason string) (ended int, err error) {
	if err := desk.CheckSigned(by, reason); err != nil {
		return 0, err
	}
	for _, x := range h.pauses.list() {
		f := fact.AccountResumed{Scope: x.Scope, Cause: x.Cause, Detail: "by " + fact.Signed(by, fact.UserOf(ctx)) + ": " + reason, User: fact.UserOf(ctx)}
		if x.Cause == ledger.CauseRestored {
			f.PresumeSentBy = h.Provider.AppID() // an unsent operation may have been sent before the restore
		}
		if failed := h.resumeAs(ctx, x, f); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		ended++
	}
	return ended, err
}
