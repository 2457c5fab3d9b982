// This file finds commands of earlier runs that the runner has not accepted yet.

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

// readOnItsWay finds commands that earlier runs of the schedule published but that the
// runner has not accepted yet. Their proxies are not planned again: the money is reserved,
// and any necessary approval was given. The commands are published again unchanged, in case
// the stream lost them.
func (s *reader) readOnItsWay(ctx context.Context, r *scheduleRunner, in *read) error {
	slots, planned, err := s.Ledger.Sweeps.NotTakenIn(ctx, r.Name, in.Now.Add(-reservedFor))
	if err != nil || len(slots) == 0 {
		return err
	}
	fits, until := r.Match.Filter(in.Lists), in.Now.Add(r.RenewBefore)
	due := func(id string, expected time.Time) (bool, error) {
		p, err := s.Ledger.Sweeps.Listed(ctx, id)
		if errors.Is(err, ledger.ErrNotFound) {
			return false, nil
		}
		return err == nil && p.ExpiresAt != nil && fact.SameExpiry(*p.ExpiresAt, expected) && !p.ExpiresAt.After(until) && fits.Fits(p) && !p.Retired, err
	}
	in.OnItsWay = map[string]bool{}
	for _, slot := range slots {
		plan, err := s.Ledger.Sweeps.Plan(ctx, slot)
		if _, gone := errors.AsType[*ledger.ArchivedError](err); gone { // the plan was approved long after it was made
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

// addOnItsWay adds a command if all its proxies are still due as planned. Otherwise its
// proxies are planned again, and the command that is accepted first reserves them.
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
		tried, err := s.Ledger.Operations.SettledSince(ctx, id, since)
		if err != nil || tried { // another command was tried, so the next one is a new attempt
			return err
		}
	}
	in.again = append(in.again, raw)
	for _, id := range c.ProxyIDs {
		in.OnItsWay[id] = true
	}
	return nil
}
