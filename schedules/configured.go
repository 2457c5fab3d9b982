// A fact records the instant from which a schedule's slots count. A changed or renamed schedule
// therefore still serves the slots that it missed.

package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// starts are the instants from which the slots of schedules count.
type starts struct {
	*Config

	runners []*scheduleRunner
}

// countsFrom returns the instant after which the schedule's next slot is computed. If the
// schedule's configuration changed, it first records the change as a fact.
func (s *starts) countsFrom(ctx context.Context, r *scheduleRunner) (time.Time, error) {
	now := s.Clock().UTC().Truncate(time.Microsecond)
	f := fact.ScheduleConfigured{Schedule: r.Name, Cron: r.Cron, Timezone: r.calendar.Zone.String()}
	names, err := s.Ledger.Sweeps.ScheduleNames(ctx)
	from := r.Name
	if slices.Contains(names, r.Was) { // the rename is not recorded yet
		f.Was, from = r.Was, r.Was
	}
	known := tables.ScheduleCalendar{}
	if err == nil {
		known, err = s.Ledger.Sweeps.ScheduleCalendar(ctx, from)
	}
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return time.Time{}, fmt.Errorf("read from when it counts: %w", err)
	}
	f.Since = known.Since
	// A clock that was ahead has recorded an instant in the future.
	same := known.Cron == f.Cron && known.Timezone == f.Timezone && !known.Since.After(now)
	if same && f.Was == "" {
		return s.lastSlot(ctx, r.Name, r.calendar, f.Since)
	}
	if !same {
		if f.Since, err = s.newlyCounts(ctx, r, from, known, now); err != nil {
			return time.Time{}, fmt.Errorf("read from when it counts: %w", err)
		}
	}
	if err := s.configured(ctx, f); err != nil {
		return time.Time{}, fmt.Errorf("record from when it counts: %w", err)
	}
	return s.lastSlot(ctx, r.Name, r.calendar, f.Since)
}

// For a renamed schedule, configured returns an error if both names have a slot at the same time.
func (s *starts) configured(ctx context.Context, f fact.ScheduleConfigured) error {
	return s.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		if f.Was != "" {
			at, err := tx.SharedSlot(f.Was, f.Schedule)
			if err == nil {
				return fmt.Errorf("schedule %s cannot be what schedule %s was, since both have a slot at %s: remove was", f.Schedule, f.Was, at.UTC().Format(time.RFC3339))
			}
			if !errors.Is(err, ledger.ErrNotFound) {
				return err
			}
		}
		return tx.Append(f)
	})
}

// newlyCounts returns the instant from which the slots of a new calendar count: now, or the last
// slot if slots of the previous calendar were missed. from is the name under which the schedule
// is recorded. known is zero for a new schedule, or if no start is recorded.
func (s *starts) newlyCounts(ctx context.Context, r *scheduleRunner, from string, known tables.ScheduleCalendar, now time.Time) (time.Time, error) {
	had := r.Schedule
	if known.Cron != "" {
		had.Cron, had.Timezone = known.Cron, known.Timezone
	}
	calendar, err := had.Calendar()
	if err != nil {
		return now, nil //nolint:nilerr // this version cannot parse the cron of an earlier version
	}
	last, err := s.lastSlot(ctx, from, calendar, known.Since)
	if err != nil || last.IsZero() || last.After(now) || calendar.Next(last).After(now) {
		return now, err
	}
	return last, nil
}

// silentFor is how long a run may take to write a row to the ledger, counted from its slot.
const silentFor = 5 * time.Minute

// Silent describes the slots of a schedule that passed without a row in the ledger. It
// returns "" if there are none, or if the schedule is paused.
func Silent(ctx context.Context, l *ledger.Ledger, now time.Time, s plans.Schedule) (string, error) {
	c, err := s.Calendar()
	if err != nil {
		return "", err
	}
	known, err := l.Sweeps.ScheduleCalendar(ctx, s.Name)
	if errors.Is(err, ledger.ErrNotFound) {
		return "", nil // the schedule has not started
	}
	since := known.Since
	last, slotErr := l.Sweeps.LastSlot(ctx, s.Name)
	if slotErr == nil && last.At.After(since) {
		since = last.At
	}
	pause, pauseErr := l.Sweeps.SchedulePaused(ctx, s.Name)
	for _, err := range []error{err, slotErr, pauseErr} {
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return "", fmt.Errorf("read its last slot: %w", err)
		}
	}
	paused := pauseErr == nil && (pause.Until == nil || pause.Until.After(now))
	if pauseErr == nil && !paused && pause.Until.After(since) {
		since = *pause.Until
	}
	passed, more := c.Between(since, now.Add(-silentFor))
	if paused || len(passed) == 0 {
		return "", nil
	}
	many := strconv.Itoa(len(passed))
	if more {
		many = "more than " + many
	}
	return fmt.Sprintf("no run was made since %s, and %s scheduled times have passed", since.UTC().Format(time.RFC3339), many), nil
}

// lastSlot returns the schedule's latest slot in the calendar. If since is later than the slot,
// it returns since.
func (s *starts) lastSlot(ctx context.Context, schedule string, c plans.Calendar, since time.Time) (time.Time, error) {
	slots, err := s.Ledger.Sweeps.SlotsOf(ctx, schedule, slotsRead)
	for err == nil && len(slots) > 0 {
		for _, slot := range slots {
			if slot.At.Before(since) {
				return since, nil
			}
			if c.Is(slot.At) {
				return slot.At, nil
			}
		}
		// Slots of manual runs and of continued runs are not in the calendar.
		slots, err = s.Ledger.Sweeps.SlotsBefore(ctx, schedule, slots[len(slots)-1].At, slotsRead)
	}
	return since, err
}

// FinishRemoved ends the planned slots of schedules that are no longer configured, because an
// unfinished slot would prevent the journal from being archived. Their unpublished commands are
// never published. A plan that needs approval can still be approved.
func (s *starts) FinishRemoved(ctx context.Context) error {
	slots, err := s.Ledger.Sweeps.PlannedSlots(ctx)
	if err != nil {
		return fmt.Errorf("read the slots that are not finished: %w", err)
	}
	for _, slot := range slots {
		if slices.ContainsFunc(s.runners, func(r *scheduleRunner) bool { return r.Name == slot.Schedule || r.Was == slot.Schedule }) {
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

// removedFor is how long the plan of a removed schedule is shown as needing approval. After that
// time, its proxies have expired or were renewed by other means.
const removedFor = 31 * fact.Day

// Removed is a schedule that is no longer configured but has a plan that needs approval,
// spending this month, or a pause.
type Removed struct {
	Schedule   string
	Plan       string // hash of its last plan if that needs approval; otherwise ""
	SpentCents int64  // this month, in UTC; 0 if no configured schedule has a budget
	Paused     *tables.SchedulePause
	Text       string // what still has an effect; "" if nothing does
	Advice     string // what to do

	last *tables.Slot
}

// RemovedOf returns the schedules in the ledger that still have an effect but are no longer
// configured. own has the configured schedules.
func RemovedOf(ctx context.Context, l *ledger.Ledger, now time.Time, own []plans.Schedule) (all []Removed, err error) {
	names, err := l.Sweeps.ScheduleNames(ctx)
	if err != nil {
		return nil, fmt.Errorf("read which schedules there were: %w", err)
	}
	budgets := slices.ContainsFunc(own, func(s plans.Schedule) bool { return max(s.DailyBudgetCents, s.MonthlyBudgetCents) > 0 })
	for _, name := range names {
		if slices.ContainsFunc(own, func(s plans.Schedule) bool { return s.Name == name || s.Was == name }) {
			continue
		}
		x, err := removedOne(ctx, l, now, name, budgets)
		if err != nil {
			return nil, fmt.Errorf("read what schedule %s has left: %w", name, err)
		}
		if x.Text != "" {
			all = append(all, x)
		}
	}
	return all, nil
}

func removedOne(ctx context.Context, l *ledger.Ledger, now time.Time, name string, budgets bool) (Removed, error) {
	x := Removed{Schedule: name, Advice: fmt.Sprintf("if it was renamed, add `was: %s` to the schedule in its place", name)}
	last, err := l.Sweeps.LastSlot(ctx, name)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return x, err
	}
	if err == nil {
		x.last = &last
	}
	if budgets {
		if x.SpentCents, err = l.Money.SweepSpending(ctx, name, fact.StartOfMonth(now, time.UTC)); err != nil {
			return x, err
		}
	}
	paused, err := l.Sweeps.SchedulePaused(ctx, name)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return x, err
	}
	if err == nil && (paused.Until == nil || paused.Until.After(now)) {
		x.Paused = &paused
	}
	currency, err := l.Currency(ctx)
	if err == nil {
		x.describe(now, currency)
	}
	return x, err
}

// describe sets Plan, Text and Advice. Text stays empty if the schedule no longer has an
// effect.
func (x *Removed) describe(now time.Time, currency string) {
	var left []string
	if x.last != nil && x.last.State == StateHeld && now.Sub(x.last.At) < removedFor {
		x.Plan = x.last.Plan
		left = append(left, fmt.Sprintf("it holds plan %s for an approval", x.Plan))
		x.Advice += fmt.Sprintf("; `perennial schedules approve %s` carries its plan out, `perennial schedules decline %[1]s` ends it", x.Plan)
	}
	if x.SpentCents > 0 {
		left = append(left, fmt.Sprintf("no budget counts the %s that it has spent this month", fact.Amount(x.SpentCents, currency)))
	}
	if x.Paused != nil {
		left = append(left, "its pause holds nothing")
		x.Advice += fmt.Sprintf("; `perennial schedules resume %s` ends its pause", x.Schedule)
	}
	if len(left) > 0 {
		x.Text = fmt.Sprintf("schedule %s is not configured any more: %s", x.Schedule, strings.Join(left, ", "))
	}
}

// Removed returns the account's removed schedules that still have an effect.
func (s *starts) Removed(ctx context.Context) ([]Removed, error) {
	return RemovedOf(ctx, s.Ledger, s.Clock(), s.Schedules)
}

func (s *starts) warnOfRemoved(ctx context.Context) {
	all, err := s.Removed(ctx)
	if err != nil {
		s.Log.WithError(err).WithField("account", s.Account).Warn("what removed schedules have left could not be read")
	}
	for _, x := range all {
		s.Log.WithField("account", s.Account).WithField("schedule", x.Schedule).Warn(x.Text + "; " + x.Advice)
	}
}
