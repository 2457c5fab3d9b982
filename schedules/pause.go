package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
)

var errPaused = errors.New("the schedule is paused")

// pauses stop the runs of single schedules.
type pauses struct {
	*Config

	runners  []*scheduleRunner
	troubles *troubles
}

// Pause stops the runs of a schedule until an instant or, if until is nil, until Resume.
// Planned commands are still published. A second Pause replaces the first. It returns a
// *command.RefusedError if until has passed or is after the year 9999.
func (s *pauses) Pause(ctx context.Context, schedule string, until *time.Time, by, reason string) error {
	r, err := runnerOf(s.runners, schedule)
	if err != nil {
		return err
	}
	if until != nil {
		at := until.UTC()
		if !fact.WritableInstant(at) || !at.After(s.Clock()) {
			return command.Refuse("until %s is not between now and the year 9999: give an instant after now, or none", at.Format(time.RFC3339))
		}
		until = &at
	}
	f := fact.SchedulePaused{Schedule: r.Name, Until: until, By: by, Reason: reason, User: fact.UserOf(ctx)}
	if err := s.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Append(f) }); err != nil {
		return fmt.Errorf("pause schedule %s: %w", r.Name, err)
	}
	r.wake()
	return nil
}

// Resume ends the pause of a schedule. One run serves the slots that passed during the pause. The
// schedule need not be configured. It returns a *command.RefusedError if the schedule is not
// paused.
func (s *pauses) Resume(ctx context.Context, schedule, by, reason string) error {
	r, unknown := runnerOf(s.runners, schedule)
	err := s.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		if _, err := tx.SchedulePaused(schedule); errors.Is(err, ledger.ErrNotFound) {
			if unknown != nil {
				return unknown
			}
			return command.Refuse("schedule %.64q is not paused: see `perennial schedules list`", schedule)
		} else if err != nil {
			return err
		}
		return tx.Append(fact.ScheduleResumed{Schedule: schedule, By: by, Reason: reason, User: fact.UserOf(ctx)})
	})
	if err != nil {
		return fmt.Errorf("resume schedule %.64q: %w", schedule, err)
	}
	if r != nil {
		r.wake()
	}
	return nil
}

func (r *scheduleRunner) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// PauseOf returns the schedule's pause that is in force. It returns nil if there is none.
func (s *pauses) PauseOf(ctx context.Context, schedule string) (*tables.SchedulePause, error) {
	return s.inForce(s.Ledger.Sweeps.SchedulePaused(ctx, schedule))
}

func (s *pauses) inForce(p tables.SchedulePause, err error) (*tables.SchedulePause, error) {
	switch {
	case errors.Is(err, ledger.ErrNotFound), err == nil && p.Until != nil && !p.Until.After(s.Clock()):
		return nil, nil //nolint:nilnil // not paused, which is not an error
	case err != nil:
		return nil, fmt.Errorf("read whether the schedule is paused: %w", err)
	}
	return &p, nil
}

// unpaused waits until the schedule is not paused. A pause clears the reported failure of
// the schedule's run.
func (s *pauses) unpaused(ctx context.Context, r *scheduleRunner) error {
	retry := sleep.Doubling(time.Second, time.Minute)
	for {
		paused, err := s.PauseOf(ctx, r.Name)
		if err == nil && paused == nil {
			err = s.noteEnd(ctx, r)
			if err == nil {
				return nil
			}
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.troubles.failed(ctx, r, s.Clock().UTC().Truncate(time.Second), err)
			if err := retry.Wait(ctx); err != nil {
				return err
			}
			continue
		}
		r.trouble.clear()
		until := s.Clock().Add(fact.Day)
		if paused.Until != nil {
			until = *paused.Until
		}
		if _, err := sleep.UntilOr(ctx, s.Clock, until, r.woken); err != nil {
			return err
		}
	}
}

func (s *pauses) noteEnd(ctx context.Context, r *scheduleRunner) error {
	if _, err := s.Ledger.Sweeps.SchedulePaused(ctx, r.Name); errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	return s.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		paused, err := tx.SchedulePaused(r.Name)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil
		}
		if held, err := s.inForce(paused, err); err != nil || held != nil {
			return err // paused again in the meantime: record refuses the run
		}
		return tx.Append(fact.ScheduleResumed{Schedule: r.Name, Reason: "the time of its pause is over"})
	})
}

// mayFire returns errPaused if the schedule is paused and no operator requested the run.
func (s *pauses) mayFire(f firing, p tables.SchedulePause, err error) error {
	held, err := s.inForce(p, err)
	if err == nil && held != nil && !f.byHand {
		return errPaused
	}
	return err
}
