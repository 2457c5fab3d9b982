package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// remainder is the part of a run that may still be planned before the next slot. After a
// restart, recall rebuilds it from the ledger.
type remainder struct {
	began    time.Time                   // first slot of the run
	taken    map[string]bool             // proxies that the run has published; nil if unknown
	spent    int64                       // estimated cost of the published proxies, in cents
	canaries []string                    // proxies published at an unknown price
	wants    map[plans.Kind]tables.Proxy // kinds that wait for the price of a canary
	more     bool                        // the plan had no room for all due proxies, and renewed some
	left     fact.SweepLeft              // for display
}

// remainder returns what the run may still plan before the next slot. It returns nil if nothing
// is left. A plan that needs approval has no remainder, because its commands are not published.
func (p sweep) remainder(before remainder) *remainder {
	if p.State != stateFinished || p.Left == nil {
		return nil
	}
	rest := remainder{
		began: before.began, taken: map[string]bool{}, spent: before.spent + p.EstimateCents.Or(0), canaries: before.canaries,
		wants: p.Awaited, more: p.LeftOutCounts[plans.ReasonBeyond] > 0 && len(p.Included) > 0, left: *p.Left,
	}
	if p.Slot != nil && rest.began.IsZero() {
		rest.began = *p.Slot
	}
	maps.Copy(rest.taken, before.taken)
	maps.Copy(rest.taken, p.onItsWay)
	for _, one := range p.Included {
		rest.taken[one.ProxyID] = true
		if one.Canary {
			rest.canaries = append(rest.canaries, one.ProxyID)
		}
	}
	return &rest
}

func (r *scheduleRunner) leave(rest *remainder) {
	r.rest.Store(rest)
	r.wake()
}

// remainders find in the ledger what is left of a run.
type remainders struct{ *Config }

func (s *remainders) recall(ctx context.Context, r *scheduleRunner) error {
	last, err := s.Ledger.Sweeps.LastSlot(ctx, r.Name)
	if errors.Is(err, ledger.ErrNotFound) || err == nil && last.State != stateFinished {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the last slot: %w", err)
	}
	planned, known, err := s.planOf(ctx, last)
	if err != nil || !known || planned.Left == nil {
		return err
	}
	if declined, err := s.Ledger.Sweeps.Declined(ctx, last); err != nil || declined != nil {
		return err
	}
	rest := &remainder{began: planned.Slot, more: true, left: *planned.Left}
	if planned.Of != nil {
		rest.began = *planned.Of
	}
	if err := s.recallSpent(ctx, r, rest); err != nil {
		return err
	}
	r.leave(rest)
	return nil
}

// planOf returns the plan of a slot. known is false if the slot has no plan, or if the plan
// is in a missing archive.
func (s *remainders) planOf(ctx context.Context, slot tables.Slot) (planned fact.SweepPlanned, known bool, err error) {
	planned, err = s.Ledger.Sweeps.Plan(ctx, slot)
	if _, gone := errors.AsType[*ledger.ArchivedError](err); gone || errors.Is(err, ledger.ErrNotFound) {
		return planned, false, nil
	}
	if err != nil {
		return planned, false, fmt.Errorf("read the plan of %s: %w", slot.At.Format(time.RFC3339), err)
	}
	return planned, true, nil
}

func (s *remainders) recallSpent(ctx context.Context, r *scheduleRunner, rest *remainder) error {
	slots, err := s.Ledger.Sweeps.SlotsOf(ctx, r.Name, slotsRead)
	for err == nil && len(slots) > 0 {
		for _, slot := range slots {
			if slot.At.Before(rest.began) {
				return nil
			}
			planned, known, err := s.planOf(ctx, slot)
			if err != nil {
				return err
			}
			if known && (slot.At.Equal(rest.began) || planned.Of != nil && planned.Of.Equal(rest.began)) {
				if err := rest.addPart(planned); err != nil {
					return err
				}
			}
		}
		slots, err = s.Ledger.Sweeps.SlotsBefore(ctx, r.Name, slots[len(slots)-1].At, slotsRead)
	}
	return err
}

func (rest *remainder) addPart(planned fact.SweepPlanned) error {
	rest.spent += planned.EstimateCents
	unpriced := map[string]bool{}
	for _, c := range planned.Planned {
		unpriced[c.CommandID] = c.UnknownPrice > 0
	}
	for _, raw := range planned.Commands {
		var c command.RenewalCommand
		if err := json.Unmarshal(raw, &c); err != nil {
			return fmt.Errorf("read a command of the plan of %s: %w", planned.Slot.Format(time.RFC3339), err)
		}
		if unpriced[c.ID] {
			rest.canaries = append(rest.canaries, c.ProxyIDs...)
		}
	}
	return nil
}

// If the remainder can be planned now, sweepRemainder makes a run for it. The run has a slot of
// its own.
func (s *Sweeper) sweepRemainder(ctx context.Context, r *scheduleRunner) error {
	rest := r.rest.Load()
	if rest == nil || !rest.more && !s.priced(ctx, rest.wants) {
		return nil
	}
	now := *rest
	s.count(ctx, r, &now)
	_, err := s.fire(ctx, r, firing{slot: s.Clock().UTC().Truncate(time.Second), rest: &now})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !errors.Is(err, errPaused) {
		s.failed(ctx, r, rest.began, fmt.Errorf("its rest: %w", err))
	}
	return nil
}

func (s *remainders) priced(ctx context.Context, wants map[plans.Kind]tables.Proxy) bool {
	for _, like := range wants {
		if paid, err := s.Ledger.Fleet.LastPaid(ctx, like); err == nil && paid.Days > 0 {
			return true
		}
	}
	return false
}

// Adds the cost of the canaries whose price is now known to the run's spending.
func (s *remainders) count(ctx context.Context, r *scheduleRunner, rest *remainder) {
	var unknown []string
	for _, id := range rest.canaries {
		paid, err := s.Ledger.Fleet.PaidPerDay(ctx, id)
		if err != nil || paid.Days == 0 {
			unknown = append(unknown, id)
			continue
		}
		rest.spent += paid.For(r.DurationDays).Or(0)
	}
	rest.canaries = unknown
}
