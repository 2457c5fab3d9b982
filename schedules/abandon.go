// This file handles schedules that were removed from the configuration. It ends their
// unfinished slots, and finds the schedules that still have an effect.

package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// FinishRemoved ends the planned slots of schedules that are no longer configured. Their
// unpublished commands are never published. An unfinished slot would prevent the journal
// from being archived. A plan that needs approval can still be approved.
func (s *Sweeper) FinishRemoved(ctx context.Context) error {
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

// removedFor is how long the plan of a removed schedule is shown as needing approval. After
// that time its proxies have expired or were renewed by other means.
const removedFor = 31 * fact.Day

// Removed is a schedule that is no longer configured but has a plan that needs approval,
// spending this month, or a pause.
type Removed struct {
	Schedule   string
	Plan       string // hash of its last plan if that needs approval; otherwise ""
	SpentCents int64  // this month, in UTC; 0 if no configured schedule has a budget
	Paused     *tables.SchedulePause
	Text       string // describes what still has an effect; "" if nothing does
	Advice     string // says what to do

	last *tables.Slot
}

// RemovedOf returns the schedules in the ledger that are not in own but still have an
// effect.
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
func (s *Sweeper) Removed(ctx context.Context) ([]Removed, error) {
	return RemovedOf(ctx, s.Ledger, s.Clock(), s.Schedules)
}

// warnOfRemoved logs the removed schedules that still have an effect.
func (s *Sweeper) warnOfRemoved(ctx context.Context) {
	all, err := s.Removed(ctx)
	if err != nil {
		s.Log.WithError(err).WithField("account", s.Account).Warn("what removed schedules have left could not be read")
	}
	for _, x := range all {
		s.Log.WithField("account", s.Account).WithField("schedule", x.Schedule).Warn(x.Text + "; " + x.Advice)
	}
}
