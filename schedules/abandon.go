// What becomes of slots whose schedule was removed from the configuration.

package schedules

import (
	"context"
	"fmt"
	"slices"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// FinishRemoved ends the planned slots of schedules that are not configured any more.
// Their unpublished commands are never published; without this the slots would keep the
// journal from being archived. What such a schedule holds for an approval can still be
// approved.
func (s *Sweeper) FinishRemoved(ctx context.Context) error {
	slots, err := s.Ledger.PlannedSlots(ctx)
	if err != nil {
		return fmt.Errorf("read the slots that are not finished: %w", err)
	}
	for _, slot := range slots {
		if slices.ContainsFunc(s.runners, func(r *scheduleRunner) bool { return r.Name == slot.Schedule }) {
			continue
		}
		err := s.Ledger.Write(ctx, func(tx *ledger.Tx) error {
			return tx.Append(fact.SweepFinished{
				Schedule: slot.Schedule, Slot: slot.At, Plan: slot.Plan, Abandoned: true,
				Reason: "the schedule is not configured any more: what was not published before is not",
			})
		})
		if err != nil {
			return fmt.Errorf("end the slot of schedule %s: %w", slot.Schedule, err)
		}
		s.Log.WithField("account", s.Account).WithField("schedule", slot.Schedule).WithField("slot", slot.At).
			Warn("a sweep of a schedule that is not configured any more was not finished: what it had not published is left out")
	}
	return nil
}
