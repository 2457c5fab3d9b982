// The instant from which a schedule counts its slots. It is a fact, so that a schedule
// that is new, or whose cron was moved, catches up as every other does.

package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// countsFrom is the slot, or the instant, after which the schedule's next slot comes.
// What the configuration has changed is a fact first.
func (s *Sweeper) countsFrom(ctx context.Context, r *scheduleRunner) (time.Time, error) {
	now, zone := s.Clock().UTC().Truncate(time.Microsecond), r.calendar.zone.String()
	known, err := s.Ledger.ScheduleCalendar(ctx, r.Name)
	isNew := errors.Is(err, ledger.ErrNotFound)
	if err != nil && !isNew {
		return time.Time{}, fmt.Errorf("read from when it counts: %w", err)
	}
	// An instant to come is of a clock that was ahead.
	if !isNew && known.Cron == r.Cron && known.Timezone == zone && !known.Since.After(now) {
		return s.lastSlot(ctx, r.Name, r.calendar, known.Since)
	}
	since, err := s.newlyCounts(ctx, r, known, now)
	if err == nil {
		err = s.Ledger.Write(ctx, func(tx *ledger.Tx) error {
			return tx.Append(fact.ScheduleConfigured{Schedule: r.Name, Cron: r.Cron, Timezone: zone, Since: since})
		})
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("record from when it counts: %w", err)
	}
	return s.lastSlot(ctx, r.Name, r.calendar, since)
}

// newlyCounts is now, unless slots of the calendar that the schedule had have passed and
// were not served: then it is the last that was. known is zero for a schedule that is new,
// or of a ledger that does not say from when it counts.
func (s *Sweeper) newlyCounts(ctx context.Context, r *scheduleRunner, known ledger.ScheduleCalendar, now time.Time) (time.Time, error) {
	had := r.Schedule
	if known.Cron != "" {
		had.Cron, had.Timezone = known.Cron, known.Timezone
	}
	calendar, err := had.calendar()
	if err != nil {
		return now, nil //nolint:nilerr // this version does not read what an earlier one did
	}
	last, err := s.lastSlot(ctx, r.Name, calendar, known.Since)
	if err != nil || last.IsZero() || last.After(now) || calendar.Next(last).After(now) {
		return now, err
	}
	return last, nil
}

// lastSlot is the latest slot of a schedule that is one of the calendar's, not before
// since; else since.
func (s *Sweeper) lastSlot(ctx context.Context, schedule string, c calendar, since time.Time) (time.Time, error) {
	slots, err := s.Ledger.SlotsOf(ctx, schedule, slotsRead)
	for err == nil && len(slots) > 0 {
		for _, slot := range slots {
			if slot.At.Before(since) {
				return since, nil
			}
			if c.Is(slot.At) {
				return slot.At, nil
			}
		}
		// The parts of a large sweep, and what a person fired, are slots too.
		slots, err = s.Ledger.SlotsBefore(ctx, schedule, slots[len(slots)-1].At, slotsRead)
	}
	return since, err
}
