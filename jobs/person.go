package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"perennial/ledger"
)

// RefusedError is a person's request that cannot be done, and why.
type RefusedError struct{ Reason string }

// Error is the reason.
func (e *RefusedError) Error() string { return e.Reason }

func refuse(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// change makes the fact that changes one operation.
type change func(ledger.Operation, ledger.Ref) (ledger.Fact, error)

// each applies one change to every operation of the id (a command's or an
// operation's) that is in the given state and that no other operation has taken
// over, in one commit.
func (r *Runner) each(ctx context.Context, id string, state ledger.State, do change) (int, error) {
	records, labels, err := r.operationsOf(ctx, id)
	if err != nil {
		return 0, err
	}
	all, err := r.Ledger.OperationsOf(ctx, records[0].CommandID)
	if err != nil {
		return 0, err
	}
	changed, latest := 0, latestOf(all)
	err = r.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		changed = 0 // Write may run this twice
		for _, o := range records {
			if o.State != state || latest.superseded(o) {
				continue
			}
			f, err := do(o, ledger.Ref{CommandID: o.CommandID, OperationID: o.ID, Labels: labels, TraceID: o.TraceID})
			if err != nil {
				return err
			}
			if err := tx.AppendTo(o.ID, o.Version, f); err != nil {
				return err
			}
			changed++
		}
		return nil
	})
	if err == nil && changed == 0 {
		err = refuse("%s has no operation that is %s", id, state)
	}
	if errors.Is(err, ledger.ErrClaimed) {
		err = refuse("%v", err)
	}
	if err != nil {
		return 0, err
	}
	return changed, r.startRest(ctx, records[0].CommandID)
}

// operationsOf is the operation of the id, or every operation of the command.
func (r *Runner) operationsOf(ctx context.Context, id string) ([]ledger.Operation, map[string]string, error) {
	one, opErr := r.Ledger.Operation(ctx, id)
	accepted, err := r.Ledger.Acceptance(ctx, id)
	switch {
	case err == nil && opErr == nil:
		return nil, nil, refuse("%s names both a command and an operation of command %s: say %s/1 or another operation's id", id, one.CommandID, id)
	case opErr == nil:
		accepted, err := r.Ledger.Acceptance(ctx, one.CommandID)
		return []ledger.Operation{one}, accepted.Labels, err
	case errors.Is(err, ledger.ErrNotFound):
		return nil, nil, refuse("%s is not an accepted command or an operation: look with `perennial status`", id)
	}
	if err != nil {
		return nil, nil, err
	}
	records, err := r.Ledger.OperationsOf(ctx, id)
	return records, accepted.Labels, err
}

// Release lets go what was held.
func (r *Runner) Release(ctx context.Context, id, by, reason string) (int, error) {
	return r.each(ctx, id, ledger.StateHeld, func(_ ledger.Operation, ref ledger.Ref) (ledger.Fact, error) {
		return ledger.CommandReleased{Ref: ref, By: by, Reason: reason}, nil
	})
}

// Cancel withdraws what was never sent: what is held, or waits for its turn.
// What has been sent is the provider's: it cannot be taken back.
func (r *Runner) Cancel(ctx context.Context, id, by, reason string) (int, error) {
	var unsure error
	cancelled := func(o ledger.Operation, ref ledger.Ref) (ledger.Fact, error) {
		if o.Ambiguous > 0 {
			unsure = refuse("%s may have been sent before the ledger was restored: it cannot be withdrawn", o.ID)
			return nil, unsure
		}
		return ledger.CommandCancelled{Ref: ref, By: by, Reason: reason}, nil
	}
	n, err := r.each(ctx, id, ledger.StateHeld, cancelled)
	if refused := (*RefusedError)(nil); err != nil && !errors.As(err, &refused) {
		return n, err
	}
	more, err := r.each(ctx, id, ledger.StateAccepted, cancelled)
	if n+more > 0 {
		return n + more, nil
	}
	if unsure != nil {
		return 0, unsure
	}
	return 0, err
}

// Retry asks again for what ended with nothing charged: a new operation under a
// new generation of the key.
func (r *Runner) Retry(ctx context.Context, id, by, reason string) (int, error) {
	return r.each(ctx, id, ledger.StateRejected, func(o ledger.Operation, ref ledger.Ref) (ledger.Fact, error) {
		next, err := r.nextGeneration(ctx, o, "not_charged")
		if err != nil {
			return nil, err
		}
		return ledger.OperationResolved{
			Ref: ref, By: by, Reason: reason, Outcome: "not_charged", SendAgain: []ledger.Planned{next.planned}, DurationDays: next.days,
		}, nil
	})
}

type generation struct {
	planned ledger.Planned
	days    int64
}

// nextGeneration plans an operation again under a new key, for its lines in the
// given states: a line that somebody has answered already is not sent twice.
func (r *Runner) nextGeneration(ctx context.Context, o ledger.Operation, states ...string) (generation, error) {
	return nextGeneration(ctx, r.Ledger, r.binding, o, states...)
}

func nextGeneration(ctx context.Context, l *ledger.Ledger, b ledger.Binding, o ledger.Operation, states ...string) (generation, error) {
	accepted, err := l.Acceptance(ctx, o.CommandID)
	if err != nil {
		return generation{}, err
	}
	var ids []string
	if o.Kind == ledger.KindRenewal {
		lines, err := l.Lines(ctx, o.ID)
		if err != nil {
			return generation{}, err
		}
		for _, x := range lines {
			if slices.Contains(states, x.State) {
				ids = append(ids, x.ProxyID)
			}
		}
		if len(ids) == 0 {
			return generation{}, refuse("%s has no proxy left to renew", o.ID)
		}
	}
	return generation{
		planned: plan(b, o.Kind, o.CommandID, o.Chunk, o.Generation+1, ids), days: accepted.DurationDays,
	}, nil
}

// ofOneLine plans one line of an operation again, apart from the others.
func ofOneLine(b ledger.Binding, o ledger.Operation, proxyID string) ledger.Planned {
	return plan(b, o.Kind, o.CommandID, o.Chunk+"/"+proxyID, o.Generation+1, []string{proxyID})
}

// Resolution is a person's answer to a review.
type Resolution struct {
	ID           string `json:"id"` // of the operation
	ProxyID      string `json:"line,omitempty"`
	Charged      *bool  `json:"charged"` // required
	ChargedCents int64  `json:"charged_cents"`
	SendAgain    bool   `json:"send_again,omitempty"`
	By           string `json:"by"`
	Reason       string `json:"reason"`
}

func (x Resolution) check() error {
	switch {
	case x.By == "" || x.Reason == "":
		return refuse("a resolution needs a name and a reason")
	case x.Charged == nil:
		return refuse("a resolution says whether it was charged")
	case x.ChargedCents < 0 || x.ChargedCents > maxLineCents:
		return refuse("%d cents is not an amount that can be charged", x.ChargedCents)
	case !*x.Charged && x.ChargedCents != 0, *x.Charged && x.SendAgain:
		return refuse("charged and not charged exclude each other, and only what was not charged is sent again")
	}
	return nil
}

// Resolve books a person's answer: charged with an amount, or not charged, or
// not charged and sent again under a new generation of the key.
func (r *Runner) Resolve(ctx context.Context, x Resolution) error {
	if err := x.check(); err != nil {
		return err
	}
	o, err := r.Ledger.Operation(ctx, x.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		return refuse("%s is not an operation: look with `perennial review list`", x.ID)
	}
	if err != nil {
		return err
	}
	if ids, err := r.sweepReviews(ctx, o, x); err != nil || len(ids) > 0 {
		if err == nil {
			err = r.answerSweeps(ctx, x, ids)
		}
		return err
	}
	if err := r.waitsForPerson(ctx, o, x); err != nil {
		return err
	}
	accepted, err := r.Ledger.Acceptance(ctx, o.CommandID)
	if err != nil {
		return err
	}
	f := ledger.OperationResolved{
		Ref: ledger.Ref{CommandID: o.CommandID, OperationID: o.ID, Labels: accepted.Labels, TraceID: o.TraceID},
		By:  x.By, Reason: x.Reason, Outcome: "not_charged", ProxyID: x.ProxyID, ChargedCents: x.ChargedCents, DurationDays: accepted.DurationDays,
	}
	if *x.Charged {
		f.Outcome = "charged"
	}
	if x.SendAgain {
		next, err := r.nextGeneration(ctx, o, "pending", "unresolved")
		if err != nil {
			return err
		}
		if x.ProxyID != "" { // one line: its own operation, whatever becomes of the others
			next.planned = ofOneLine(r.binding, o, x.ProxyID)
		}
		f.SendAgain = []ledger.Planned{next.planned}
	}
	err = r.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.AppendTo(o.ID, o.Version, f) })
	if err != nil {
		return err
	}
	return r.startRest(ctx, o.CommandID)
}

// waitsForPerson refuses what does not wait for a person: resolving twice too.
func (r *Runner) waitsForPerson(ctx context.Context, o ledger.Operation, x Resolution) error {
	lines, err := r.Ledger.Lines(ctx, o.ID)
	if err != nil {
		return err
	}
	if most, known := inSuspense(lines, x.ProxyID); known && x.ChargedCents > most {
		return refuse("%d cents are more than the %d in suspense: what its other lines cost is booked already, so answer for what waits, best line by line", x.ChargedCents, most)
	}
	if o.State == ledger.StateReview && x.ProxyID == "" {
		return nil
	}
	for _, l := range lines {
		if l.ProxyID == x.ProxyID && (l.State == "unresolved" || (l.State == "pending" && o.State == ledger.StateReview)) {
			return nil
		}
	}
	if x.ProxyID != "" {
		return refuse("line %s of %s does not wait for a person", x.ProxyID, o.ID)
	}
	return refuse("%s is %s and does not wait for a person", o.ID, o.State)
}

// inSuspense is what the provider has charged for a line that it has not
// resolved, or for all of them; not known when it said no amount for one.
func inSuspense(lines []ledger.RenewalLine, proxyID string) (cents int64, known bool) {
	for _, l := range lines {
		if l.State != "unresolved" || (proxyID != "" && l.ProxyID != proxyID) {
			continue
		}
		if l.ChargedCents == 0 {
			return 0, false
		}
		cents, known = cents+l.ChargedCents-l.RefundedCents, true
	}
	return cents, known
}

// PauseByHand stops the account until ResumeByHand.
func (r *Runner) PauseByHand(ctx context.Context, by, reason string) {
	r.pause(ctx, Pause{Scope: scopeAccount, Cause: causePerson, Detail: "by " + by + ": " + reason})
}

// ResumeByHand ends every pause that has no time set, whatever its cause; what
// does not work will pause again.
func (r *Runner) ResumeByHand(ctx context.Context, by, reason string) int {
	n := 0
	for _, x := range r.pauses.list() {
		if x.Until == nil {
			f := ledger.AccountResumed{Scope: x.Scope, Cause: x.Cause, Detail: "by " + by + ": " + reason}
			if x.Cause == ledger.CauseRestored {
				f.PresumeSentBy = r.Provider.AppID() // nobody knows that it was not
			}
			r.resumeAs(ctx, f)
			n++
		}
	}
	return n
}
