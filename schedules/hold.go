// Plans that need approval: a later slot with the same plan does not store it again.

package schedules

import (
	"encoding/json"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// heldAnew is how long a held plan also serves later slots. A plan may be as large as a
// fact, and each further due proxy would store another.
const heldAnew = 6 * time.Hour

// holdOnce drops a held plan's commands if an earlier slot holds the same plan, or a
// recent plan serves for it. Proxies due since are planned after the approval. A plan
// that an operator requested is always stored.
func (s *Sweeper) holdOnce(tx *ledger.Tx, r *scheduleRunner, f firing, plan *sweep, planned *fact.SweepPlanned) error {
	held, err := tx.HeldSlots(plan.Hash)
	if err != nil {
		return err
	}
	if len(held) == 0 && !f.byHand && f.rest == nil {
		if held, err = s.heldLately(tx, r, f.slot); err != nil {
			return err
		}
	}
	if len(held) > 0 && !s.archived(held[0]) {
		plan.standsFor = plan.Hash != held[0].Plan
		plan.Hash, planned.Plan = held[0].Plan, held[0].Plan
		planned.Commands, planned.Planned = []json.RawMessage{}, nil // the first slot held with this plan has them
	}
	return nil
}

// heldLately returns the slots of the schedule's newest held plan, if its first slot is
// recent enough.
func (s *Sweeper) heldLately(tx *ledger.Tx, r *scheduleRunner, slot time.Time) ([]tables.Slot, error) {
	since := slot.Add(-min(heldAnew, r.RenewBefore/4))
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

// archived reports whether the row that planned the slot is in an archive, which may be
// on another machine.
func (s *Sweeper) archived(slot tables.Slot) bool {
	begins, _ := s.Ledger.Begins()
	return begins != nil && slot.Seq <= begins.Seq
}
