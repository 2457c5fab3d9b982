// This file finds commands of runs that were refused by the runner's intake.

package schedules

import (
	"context"
	"fmt"

	"perennial/ledger/sleep"
	"perennial/schedules/plans"
)

// watchRefused finds commands of runs that were refused by the runner's intake. The slot of
// such a command is finished, but its proxies are not renewed. watchRefused reads the
// refusals from the ledger, so it also finds them after a restart.
func (s *troubles) watchRefused(ctx context.Context) error {
	for {
		for _, r := range s.runners {
			if err := s.checkRefused(ctx, r); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				s.log(r).WithError(err).Warn("refusals of sweep commands could not be read; the read is tried again")
			}
		}
		if err := sleep.For(ctx, remainderEvery); err != nil {
			return err
		}
	}
}

// checkRefused sets or clears r.refused.
func (s *troubles) checkRefused(ctx context.Context, r *scheduleRunner) error {
	x, err := s.Ledger.Sweeps.RefusedOf(ctx, r.Name, plans.IDPrefix(r.Name))
	if err != nil {
		return fmt.Errorf("read the refused commands of %s: %w", r.Name, err)
	}
	if x == nil {
		r.refused.clear()
		return nil
	}
	if was := r.refused.get(); was != nil && was.Slot.Equal(x.Slot) {
		return nil
	}
	why := fmt.Sprintf("the runner refused %d commands of it (%d proxies) as invalid, and nothing of them is renewed: %s", x.Commands, x.Proxies, x.Reason)
	s.log(r).WithField("slot", x.Slot).Warn(why)
	s.tellTrouble(ctx, r, &r.refused, x.Slot, why)
	return nil
}
