// Commands of earlier sweeps that the runner has not taken in yet.

package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// readOnItsWay finds what earlier sweeps of the schedule have published and the
// runner has not taken in yet. It is not planned a second time: its money is
// reserved already, and an approval was given or not needed. It is published
// again as it is, should the stream have lost it.
func (s *reader) readOnItsWay(ctx context.Context, r *scheduleRunner, in *read) error {
	slots, planned, err := s.Ledger.NotTakenIn(ctx, r.Name, in.Now.Add(-reservedFor))
	if err != nil || len(slots) == 0 {
		return err
	}
	fits, until := r.Match.Filter(in.Lists), in.Now.Add(r.RenewBefore)
	due := func(id string, expected time.Time) (bool, error) {
		p, err := s.Ledger.Listed(ctx, id)
		if errors.Is(err, ledger.ErrNotFound) {
			return false, nil
		}
		return err == nil && p.ExpiresAt != nil && fact.SameExpiry(*p.ExpiresAt, expected) && !p.ExpiresAt.After(until) && fits.Fits(p) && !p.Retired, err
	}
	in.OnItsWay = map[string]bool{}
	for _, slot := range slots {
		plan, err := s.Ledger.Plan(ctx, slot)
		if _, gone := errors.AsType[*ledger.ArchivedError](err); gone { // it was held long, and approved
			continue
		}
		if err != nil {
			return fmt.Errorf("read the plan of %s: %w", slot.At.Format(time.RFC3339), err)
		}
		for _, raw := range plan.Commands {
			if err := s.addOnItsWay(ctx, in, raw, planned, due); err != nil {
				return fmt.Errorf("read a command of the plan of %s: %w", slot.At.Format(time.RFC3339), err)
			}
		}
	}
	return nil
}

// addOnItsWay adds a command, if the sweep would still ask for all of it. If not,
// its proxies are planned as though it were not there: whichever is taken in
// first keeps the other from renewing them.
func (s *reader) addOnItsWay(ctx context.Context, in *read, raw json.RawMessage, planned map[string]time.Time, due func(id string, expected time.Time) (bool, error)) error {
	var c command.RenewalCommand
	if err := json.Unmarshal(raw, &c); err != nil {
		return err
	}
	since, open := planned[c.ID]
	if !open || c.DurationDays != in.Schedule.DurationDays {
		return nil
	}
	for _, id := range c.ProxyIDs {
		if still, err := due(id, c.ExpectExpiresAt[id]); err != nil || !still {
			return err
		}
		tried, err := s.Ledger.SettledSince(ctx, id, since)
		if err != nil || tried { // by another command: what comes next is a new try
			return err
		}
	}
	in.again = append(in.again, raw)
	for _, id := range c.ProxyIDs {
		in.OnItsWay[id] = true
	}
	return nil
}
