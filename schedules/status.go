package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// Status is the status of a schedule.
type Status struct {
	Schedule string             `json:"schedule" doc:"The name of the schedule."`
	Account  string             `json:"account" doc:"The short name of the account."`
	Cron     string             `json:"cron" doc:"The cron expression."`
	Timezone string             `json:"timezone" doc:"The time zone of the days and scheduled times."`
	LastSlot *time.Time         `json:"last_slot,omitempty" doc:"The scheduled time of the last run."`
	State    string             `json:"state,omitempty" doc:"The state of the last run: planned, held, finished or missed."`
	Result   *tables.SlotResult `json:"result,omitempty" doc:"'result' is the result of the last run so far, including its further plans."`
	// StillOverLimit leaves out the proxies that were renewed since the run.
	StillOverLimit int                   `json:"still_over_limit,omitempty" doc:"How many of the proxies that the last run skipped for lack of money are still due."`
	Currency       string                `json:"currency,omitempty" doc:"The currency of the amounts."`
	NextSlot       *time.Time            `json:"next_slot,omitempty" doc:"The next scheduled time."`
	Plan           string                `json:"plan,omitempty" doc:"The hash of the plan that needs approval."`
	Why            string                `json:"why" doc:"How the last run ended."`
	Problem        string                `json:"problem,omitempty" doc:"Why a due run fails; the run is retried."`
	Left           *fact.SweepLeft       `json:"left,omitempty" doc:"'left' describes the proxies with which the last run continues."`
	Paused         *tables.SchedulePause `json:"paused,omitempty" doc:"'paused' is the pause of the schedule; until it ends, no run starts."`
	Removed        string                `json:"removed,omitempty" doc:"'removed' says that the schedule is no longer configured, what still counts, and what to do."`
	MatchesNone    string                `json:"matches_none,omitempty" doc:"'matches_none' is a warning if the match selects no listed proxy, else \"\"."`
}

// StatusOf returns the status of one of these schedules, or why it is unknown.
func StatusOf(all []Status, schedule string) (one Status, problem string) {
	i := slices.IndexFunc(all, func(one Status) bool { return one.Schedule == schedule })
	if i < 0 {
		return one, "its runner does not have this schedule"
	}
	return all[i], ""
}

// statuses describe schedules and their last runs.
type statuses struct {
	*Config

	runners []*scheduleRunner
	pauses  *pauses
	starts  *starts
}

// List returns the status of every schedule in configuration order, then of removed
// schedules that still have an effect.
func (s *statuses) List(ctx context.Context) ([]Status, error) {
	all := make([]Status, 0, len(s.runners))
	currency, err := s.Ledger.Currency(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range s.runners {
		one, err := s.statusOf(ctx, r, currency)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("list schedule %s: %w", r.Name, err)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	removed, err := s.starts.Removed(ctx)
	for _, x := range removed {
		one := Status{Schedule: x.Schedule, Account: s.Account, Plan: x.Plan, Paused: x.Paused, Removed: x.Text + "; " + x.Advice}
		if x.last != nil {
			one.LastSlot, one.State = &x.last.At, x.last.State
		}
		all = append(all, one)
	}
	return all, err
}

func (s *statuses) statusOf(ctx context.Context, r *scheduleRunner, currency string) (one Status, err error) {
	one = Status{Schedule: r.Name, Account: r.Account, Cron: r.Cron, Timezone: r.calendar.Zone.String()}
	if one.Paused, err = s.pauses.PauseOf(ctx, r.Name); err != nil {
		return one, err
	}
	last, err := s.Ledger.Sweeps.LastSlot(ctx, r.Name)
	ran := err == nil
	if errors.Is(err, ledger.ErrNotFound) {
		last.At, err = s.since(ctx, r.Name)
	}
	if err != nil {
		return one, err
	}
	if one.NextSlot, one.Why = r.nextSlot(s.Clock(), one.Paused, last.At), "it has not run yet"; one.NextSlot != nil && !one.NextSlot.After(s.Clock()) {
		one.Why = "its first run is due, and begins within 30 seconds"
	}
	if ran {
		one.LastSlot, one.State, one.Currency = &last.At, last.State, currency
		runs, err := Runs(ctx, s.Ledger, r.Name, 1)
		if err != nil {
			return one, err
		}
		one.Result = &runs[0].SlotResult
		if one.StillOverLimit, err = s.stillOverLimit(ctx, r, one.Result.OverLimit); err != nil {
			return one, err
		}
		if one.Why, err = s.why(ctx, last); err != nil {
			return one, err
		}
	}
	one.Problem = r.problem()
	if rest := r.rest.Load(); rest != nil {
		one.Left = &rest.left
	}
	if one.MatchesNone, err = MatchesNone(ctx, s.Ledger.Fleet, r.Schedule, s.ReadFile); err != nil && ctx.Err() != nil {
		return one, ctx.Err() // an unreadable list is reported by the run
	}
	if one.State == StateHeld {
		one.Plan = last.Plan
	}
	return one, nil
}

// The result is the instant from which the slots of a schedule without a run count. It is zero if
// none is recorded.
func (s *statuses) since(ctx context.Context, schedule string) (time.Time, error) {
	calendar, err := s.Ledger.Sweeps.ScheduleCalendar(ctx, schedule)
	if errors.Is(err, ledger.ErrNotFound) {
		err = nil
	}
	return calendar.Since, err
}

// Reason returns Why, but without the figures of the last run if that run finished.
func (s Status) Reason() string {
	if s.Result != nil && s.State == stateFinished {
		return s.Result.Why()
	}
	return s.Why
}

// Outcome returns how the last run ended: its state, or the limit that made it skip
// proxies.
func (s Status) Outcome() string {
	if s.Result != nil {
		return s.Result.Outcome
	}
	return s.State
}

// dueNow is how long after its start time a slot without a plan is still shown as the next slot.
const dueNow = 10 * time.Second

// nextSlot returns the slot that is due now and has no plan yet. If there is none, it returns the
// next slot. It returns nil if the schedule never runs again. last is the latest slot with a
// plan.
func (r *scheduleRunner) nextSlot(now time.Time, paused *tables.SchedulePause, last time.Time) *time.Time {
	next := r.fires(now, paused)
	if !last.IsZero() && paused == nil {
		if due := r.calendar.Next(last); !due.IsZero() && !due.After(now) && now.Before(r.calendar.Start(due).Add(dueNow)) {
			next = due
		}
	}
	if next.IsZero() {
		return nil
	}
	return &next
}

// Returns the time of the schedule's next run, which may be the end of its pause. It returns zero
// if the schedule never runs again, or if an operator must resume it.
func (r *scheduleRunner) fires(now time.Time, paused *tables.SchedulePause) time.Time {
	next := r.calendar.Next(now)
	switch {
	case paused == nil || next.IsZero():
	case paused.Until == nil:
		return time.Time{}
	case paused.Until.After(next):
		return *paused.Until
	}
	return next
}

// Next says when a schedule runs next. Its Next is zero if the schedule never runs again, or if
// an operator must resume it.
type Next struct {
	Schedule string
	Next     time.Time
	Paused   *tables.SchedulePause // nil if not paused
}

// Slots returns the time of each schedule's next run, in configuration order.
func (s *statuses) Slots(ctx context.Context) ([]Next, error) {
	all := make([]Next, 0, len(s.runners))
	for _, r := range s.runners {
		paused, err := s.pauses.PauseOf(ctx, r.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, Next{Schedule: r.Name, Next: r.fires(s.Clock(), paused), Paused: paused})
	}
	return all, nil
}

func runnerOf(runners []*scheduleRunner, name string) (*scheduleRunner, error) {
	names := []string{}
	for _, r := range runners {
		if r.Name == name {
			return r, nil
		}
		names = append(names, r.Name)
	}
	const shown = 10 // of the names
	return nil, fmt.Errorf("%w %.64q; it has %s", ErrNoSchedule, name, cmp.Or(strings.Join(names[:min(len(names), shown)], ", "), "none"))
}

func (s *statuses) why(ctx context.Context, slot tables.Slot) (string, error) {
	said, err := s.said(ctx, slot)
	if err == nil && slot.State == StateHeld {
		var before []string
		before, err = s.declinedBefore(ctx, slot)
		said = append(said, before...)
	}
	return strings.Join(said, "; "), err
}

// Returns how a slot's run ended, from its facts. The facts about a plan that needs approval are
// next to the plan's row, because one transaction appends them.
func (s *statuses) said(ctx context.Context, slot tables.Slot) (said []string, err error) {
	const around = 8
	rows, err := s.Ledger.Rows(ctx, max(slot.Seq-around, 0), 2*around)
	if gone, ok := errors.AsType[*ledger.ArchivedError](err); ok {
		return []string{"its facts are in " + gone.File + ", which is not here"}, nil
	}
	currency, errCurrency := s.Ledger.Currency(ctx)
	answer, errAnswer := s.answerTo(ctx, slot)
	if err := cmp.Or(err, errCurrency, errAnswer); err != nil {
		return nil, err
	}
	name := nameThen(rows, slot)
	for _, row := range rows {
		f, err := fact.Decode(row.Type, []byte(row.Data))
		if err != nil {
			return nil, err
		}
		switch f := f.(type) {
		case fact.SweepPlanned:
			if row.Seq == slot.Seq {
				said = append(said, planSaid(f, slot.State == StateHeld, currency))
			}
		case fact.SweepHeld:
			switch {
			case f.Schedule != name || !f.Slot.Equal(slot.At):
			case row.Seq > slot.Seq && slot.State == stateFinished:
				said = append(said, answer)
			default:
				said = append(said, f.Reason)
			}
		case fact.SweepMissed:
			if row.Seq == slot.Seq {
				said = append(said, "nothing ran then; the run of "+f.ServedBy.Format(time.RFC3339)+" served it")
			}
		}
	}
	return said, nil
}

const declinedWithin = 20

// declinedBefore says which operator declined the same plan before, and why. Plans with the
// same proxies at the same cost have the same hash.
func (s *statuses) declinedBefore(ctx context.Context, held tables.Slot) ([]string, error) {
	slots, err := s.Ledger.Sweeps.SlotsOf(ctx, held.Schedule, declinedWithin)
	for _, slot := range slots {
		if err != nil || slot.Plan != held.Plan {
			continue
		}
		var declined *fact.SweepFinished
		if declined, err = s.Ledger.Sweeps.Declined(ctx, slot); declined != nil {
			return []string{fmt.Sprintf("it is the plan that %s declined before: %s", fact.Signed(declined.By, declined.User), declined.Reason)}, err
		}
	}
	return nil, err
}

func (s *statuses) answerTo(ctx context.Context, slot tables.Slot) (string, error) {
	declined, err := s.Ledger.Sweeps.Declined(ctx, slot)
	if declined == nil {
		return "approved by a person", err
	}
	return fmt.Sprintf("declined by %s: %s; nothing of it was renewed", fact.Signed(declined.By, declined.User), declined.Reason), nil
}

// nameThen returns the schedule's name at the time when the slot's facts were written.
func nameThen(rows []chain.Row, slot tables.Slot) string {
	for _, row := range rows {
		if row.Seq != slot.Seq {
			continue
		}
		if f, err := fact.Decode(row.Type, []byte(row.Data)); err == nil {
			if planned, ok := f.(fact.SweepPlanned); ok {
				return planned.Schedule
			}
		}
	}
	return slot.Schedule
}

func estimateSaid(f fact.SweepPlanned, currency string) string {
	sum, listed := fact.Sum{Cents: f.EstimateCents}, int64(0)
	for _, c := range f.Planned {
		if listed += c.ListPriceCents; c.ListPriceCents == 0 {
			sum.Lacks += c.UnknownPrice
		}
	}
	sum.Cents += listed
	return sum.ListedText(listed, currency)
}

func planSaid(f fact.SweepPlanned, held bool, currency string) string {
	renewed := 0
	for _, c := range f.Planned {
		renewed += c.Proxies
	}
	text := fmt.Sprintf("%d due, %d to renew in %s, about %s", f.Due, renewed, english.Plural(len(f.Commands), "command", ""), estimateSaid(f, currency))
	switch {
	case f.Due == 0 && len(f.Commands) == 0:
		text = "nothing was due"
	case held && len(f.Commands) == 0:
		text = fmt.Sprintf("%d due, and the plan of an earlier run is still on hold", f.Due)
	}
	if f.Unusable > 0 {
		text += fmt.Sprintf(", %d skipped whose id or expiry no command can carry (`perennial schedules plan %s` names them)", f.Unusable, f.Schedule)
	}
	if f.By != "" {
		text += fmt.Sprintf(", asked for by %s: %s", fact.Signed(f.By, f.User), f.Reason)
	}
	if n := len(f.Missed); n > 0 {
		text += fmt.Sprintf(", in place of %d missed run(s)", n)
	}
	return text
}

// Continues describes the proxies with which the last run continues. It returns "" if there are
// none.
func (s Status) Continues() string {
	if s.Left == nil || s.State != stateFinished {
		return ""
	}
	return LeftText(*s.Left)
}

// LeftText describes the proxies with which a run continues.
func LeftText(x fact.SweepLeft) string {
	text := fmt.Sprintf("%d more are due: they follow in this run as far as its budgets allow", x.Proxies)
	if x.Proxies == 1 {
		text = "1 more is due: it follows in this run if its budgets allow it"
	}
	switch {
	case x.Unpriced > 0 && x.Unpriced == x.Proxies:
		text += ", once the price is known"
	case x.Unpriced > 0:
		text += fmt.Sprintf(", %d of them once their price is known", x.Unpriced)
	}
	if x.FirstExpiresAt != nil {
		text += "; the first expires at " + x.FirstExpiresAt.Format(time.RFC3339)
	}
	return text
}
