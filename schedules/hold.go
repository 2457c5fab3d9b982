// This file stores plans that need approval. A later slot with the same plan does not store
// the plan again.

package schedules

import (
	"encoding/json"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// heldPlanServes is how long a held plan also serves later slots. Otherwise each newly due
// proxy would cause another plan to be stored, which may be as large as a fact allows.
const heldPlanServes = 6 * time.Hour

// holdOnce removes the commands from a plan that needs approval if an earlier slot has the
// same plan, or if a recent held plan serves this slot too. Proxies that come due later are
// planned after the approval. A recent held plan serves neither a run that an operator
// requested nor a slot that continues a run.
func (s *Sweeper) holdOnce(tx *ledger.Tx, r *scheduleRunner, f firing, plan *sweep, planned *fact.SweepPlanned) error {
	held, err := tx.HeldSlots(plan.Hash)
	if err != nil {
		return err
	}
	if len(held) == 0 && !f.byHand && f.rest == nil {
		if held, err = s.recentlyHeld(tx, r, f.slot); err != nil {
			return err
		}
	}
	if len(held) > 0 && !s.archived(held[0]) {
		plan.servedByEarlier = plan.Hash != held[0].Plan
		plan.Hash, planned.Plan = held[0].Plan, held[0].Plan
		planned.Commands, planned.Planned = []json.RawMessage{}, nil // the first slot with this plan has its commands
	}
	return nil
}

// recentlyHeld returns the slots of the schedule's newest held plan, if the first of them is
// recent enough for the plan to serve slot.
func (s *Sweeper) recentlyHeld(tx *ledger.Tx, r *scheduleRunner, slot time.Time) ([]tables.Slot, error) {
	since := slot.Add(-min(heldPlanServes, r.RenewBefore/4))
	all, err := tx.HeldNow(r.Name, since)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	held, err := tx.HeldSlots(all[0].Plan)
	if err != nil || len(held) == 0 || held[0].At.Before(since) || held[0].At.After(slot) {
		return nil, err
	}
	return held, nil
}

// archived reports whether the slot's sweep.planned row is in an archive, which may be on
// another machine.
func (s *Sweeper) archived(slot tables.Slot) bool {
	begins, _ := s.Ledger.Begins()
	return begins != nil && slot.Seq <= begins.Seq
}
