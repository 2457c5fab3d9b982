// The scheduled times of schedules, and their plans.

package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// Slot is one scheduled time of a schedule.
type Slot struct {
	Schedule string    `json:"schedule"`
	At       time.Time `json:"slot"`
	State    string    `json:"state"` // planned | held | finished | missed
	Plan     string    `json:"plan"`
	Seq      int64     `json:"seq"`
}

// SlotColumns are the columns that ScanSlot reads.
const SlotColumns = `schedule, slot_at, state, plan, seq`

// ScanSlot reads a row of SlotColumns.
func ScanSlot(s sqlite.Scanner) (Slot, error) {
	var x Slot
	var at int64
	err := s.Scan(&x.Schedule, &at, &x.State, &x.Plan, &x.Seq)
	x.At = sqlite.FromMicros(at)
	return x, err
}

// LastSlot returns the latest scheduled time of a schedule, or sqlite.ErrNone.
func (l *Sweeps) LastSlot(ctx context.Context, schedule string) (Slot, error) {
	return sqlite.One(ScanSlot, l.read.QueryRowContext(ctx, `SELECT `+SlotColumns+` FROM slots WHERE schedule = ? ORDER BY slot_at DESC LIMIT 1`, schedule))
}

// UnfinishedSlots lists the planned runs of a schedule whose commands may not all be
// published.
func (l *Sweeps) UnfinishedSlots(ctx context.Context, schedule string) ([]Slot, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+SlotColumns+` FROM slots WHERE schedule = ? AND state = 'planned' ORDER BY slot_at`, schedule), ScanSlot)
}

// Outcomes of a run that a money limit cut short. Except for OutcomeDeclined, any other
// outcome is the slot's state.
const (
	OutcomeOverBudget   = "over budget"
	OutcomeWalletTooLow = "wallet too low"
	// OutcomeDeclined is the outcome of a run whose plan an operator declined.
	OutcomeDeclined = "declined"
)

// SlotResult is the result of a run so far. Due is nil if the run has no plan or its row
// was archived.
type SlotResult struct {
	Outcome       string      `json:"outcome" doc:"The state of the run, or \"over budget\" or \"wallet too low\" if due proxies were skipped for lack of money, or \"declined\" if a person declined its plan."`
	Due           *int64      `json:"due,omitempty" doc:"How many proxies were due; omitted if no longer known."`
	EstimateCents *fact.Cents `json:"estimate_cents,omitempty" doc:"The expected cost, without proxies of unknown price."`
	Unpriced      int         `json:"unpriced,omitempty" doc:"The number of its proxies of unknown price; 'estimate_cents' does not include them."`
	Renewed       int64       `json:"renewed" doc:"How many proxies were renewed so far."`
	Skipped       int64       `json:"skipped" doc:"How many due proxies are not in the plan."`
	ChargedCents  int64       `json:"charged_cents" doc:"What its renewals have cost so far, less refunds."`
	Reason        string      `json:"reason,omitempty" doc:"The reason, for people; the text may change."`
	Continues     *time.Time  `json:"continues,omitempty" doc:"The first scheduled time of the run that this one continues."`

	OverLimit int `json:"over_limit,omitempty" doc:"How many of 'skipped' were skipped because of a budget, the account's limit or the wallet."`
}

// Cost returns the estimated cost; 0 if it is no longer known.
func (x SlotResult) Cost() fact.Sum {
	if x.EstimateCents == nil {
		return fact.Sum{}
	}
	return fact.Sum{Cents: x.EstimateCents.Or(0), Lacks: x.Unpriced}
}

// Why returns the reason. If this run continues another run, the text begins with that.
func (x SlotResult) Why() string {
	if x.Continues == nil {
		return x.Reason
	}
	return strings.TrimSuffix("continues the run of "+x.Continues.UTC().Format(time.RFC3339)+"; "+x.Reason, "; ")
}

// heldOf joins a plan with the limits that cut it short. Their rows are directly before the
// plan's row.
const heldOf = `journal h ON h.seq BETWEEN p.seq - 8 AND p.seq AND h.type = 'sweep.held' AND h.data ->> '$.slot' = p.data ->> '$.slot' AND h.data ->> '$.schedule' = p.data ->> '$.schedule'`

// SlotResult reads the result of a run so far.
func (l *Sweeps) SlotResult(ctx context.Context, slot Slot) (x SlotResult, err error) {
	x.Outcome = slot.State
	due, cost, err := l.PlannedSums(ctx, slot)
	if errors.Is(err, sqlite.ErrNone) {
		return x, nil
	}
	if err != nil {
		return x, err
	}
	x.Due, x.EstimateCents, x.Unpriced = &due, new(cost.Total()), cost.Lacks
	err = l.read.QueryRowContext(ctx, `SELECT coalesce(sum((SELECT count(*) FROM lines x WHERE x.operation = o.id AND x.state IN ('succeeded', 'charged'))), 0), coalesce(sum(o.charged_cents - o.refunded_cents), 0)
		FROM sweep_commands s CROSS JOIN operations o ON o.id > s.command_id || '/' AND o.id < s.command_id || '0' AND o.command_id = s.command_id WHERE s.schedule = ? AND s.slot_at = ?`, slot.Schedule, sqlite.Micros(slot.At)).Scan(&x.Renewed, &x.ChargedCents)
	if err != nil {
		return x, err
	}
	var planned, budgets int64
	var of string
	err = l.read.QueryRowContext(ctx, `SELECT coalesce((SELECT sum(value ->> '$.proxy_count') FROM json_each(p.data, '$.planned')), 0),
		coalesce(sum(h.data ->> '$.left_out'), 0), count(h.seq) FILTER (WHERE h.data ->> '$.code' <> 'wallet'), coalesce(group_concat(h.data ->> '$.reason', '; '), ''), coalesce(p.data ->> '$.of', '')
		FROM journal p LEFT JOIN `+heldOf+` WHERE p.seq = ? GROUP BY p.seq`, slot.Seq).Scan(&planned, &x.OverLimit, &budgets, &x.Reason, &of)
	if at, wrong := time.Parse(time.RFC3339Nano, of); wrong == nil {
		x.Continues = &at
	}
	if x.Skipped = due - planned; slot.State == "held" {
		x.Skipped = int64(x.OverLimit) // a later run with the same plan does not repeat its commands
	}
	if err != nil {
		return x, sqlite.NotFound(err)
	}
	if planned == 0 && due > 0 && slot.State == "finished" {
		if err := l.standsFor(ctx, slot, &x); err != nil {
			return x, err
		}
	}
	declined, err := l.Declined(ctx, slot)
	switch {
	case declined != nil:
		x.Outcome, x.Skipped, x.Reason = OutcomeDeclined, due, "by "+fact.Signed(declined.By, declined.User)+": "+declined.Reason
	case x.OverLimit == 0 || slot.State != "finished":
	case budgets > 0:
		x.Outcome = OutcomeOverBudget
	default:
		x.Outcome = OutcomeWalletTooLow
	}
	return x, err
}

// standsFor completes the result of a run that found the same plan as a run of the day
// before it, if there is one. The earlier run has the commands.
func (l *Sweeps) standsFor(ctx context.Context, slot Slot, x *SlotResult) error {
	var first int64
	err := l.read.QueryRowContext(ctx, `SELECT s.slot_at FROM slots s JOIN journal p ON p.seq = s.seq
		WHERE s.schedule = ?1 AND s.slot_at < ?2 AND s.slot_at > ?2 - 86400000000 AND s.plan = ?3 AND json_array_length(p.data, '$.planned') > 0 ORDER BY s.slot_at LIMIT 1`,
		slot.Schedule, sqlite.Micros(slot.At), slot.Plan).Scan(&first)
	if err == nil {
		x.Skipped, x.Reason = int64(x.OverLimit), strings.TrimPrefix(x.Reason+"; its plan is that of the run of "+sqlite.FromMicros(first).Format(time.RFC3339), "; ")
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return err
}

// finishedWithin limits how many rows Declined searches for the sweep.finished of a run.
const finishedWithin = 1000

// Declined returns the sweep.finished fact by which an operator declined a run's plan, or
// nil if the plan was not declined.
func (l *Sweeps) Declined(ctx context.Context, slot Slot) (*fact.SweepFinished, error) {
	if slot.State != "finished" {
		return nil, nil //nolint:nilnil // it was not declined
	}
	var ended int64 // a plan that needs approval has its sweep.held in the next row
	err := l.read.QueryRowContext(ctx, `SELECT s.updated_at FROM slots s JOIN journal h ON h.seq = s.seq + 1 AND h.type = 'sweep.held'
		WHERE s.schedule = ? AND s.slot_at = ?`, slot.Schedule, sqlite.Micros(slot.At)).Scan(&ended)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // it did not need approval
	}
	if err != nil {
		return nil, err
	}
	after, err := SeqAt(ctx, l.read, sqlite.FromMicros(ended))
	if err != nil {
		return nil, err
	}
	rows, err := sqlite.Collect(l.query(ctx, `SELECT `+chain.Columns+` FROM journal WHERE seq BETWEEN ?1 + 1 AND ?1 + ?2 AND time = ?3
		AND type = 'sweep.finished' AND data ->> '$.plan' = ?4 AND data ->> '$.abandoned' = 1`, after, finishedWithin, ended, slot.Plan), chain.Scan)
	for _, r := range rows {
		var f fact.SweepFinished
		if err := json.Unmarshal([]byte(r.Data), &f); err != nil {
			return nil, err
		}
		if f.Slot.Equal(slot.At) && f.By != "" {
			return &f, nil
		}
	}
	return nil, err
}

// ScheduleCalendar is the calendar of a schedule and the instant from which it applies.
type ScheduleCalendar struct {
	Cron, Timezone string
	Since          time.Time
}

// ScheduleCalendar returns the calendar of the last schedule.configured, or sqlite.ErrNone.
func (l *Sweeps) ScheduleCalendar(ctx context.Context, schedule string) (ScheduleCalendar, error) {
	return sqlite.One(func(s sqlite.Scanner) (ScheduleCalendar, error) {
		var x ScheduleCalendar
		var since int64
		if err := s.Scan(&x.Cron, &x.Timezone, &since); err != nil {
			return ScheduleCalendar{}, err
		}
		x.Since = sqlite.FromMicros(since)
		return x, nil
	}, l.read.QueryRowContext(ctx, `SELECT cron, timezone, since FROM schedule_calendars WHERE schedule = ?`, schedule))
}

// ScheduleNames lists every schedule that has runs, a pause or a recorded calendar, sorted
// by name.
func (l *Sweeps) ScheduleNames(ctx context.Context) ([]string, error) {
	// Each step of the recursion finds the next name by the primary key, because a schedule
	// may have a million runs.
	return sqlite.Collect(l.query(ctx, `WITH RECURSIVE fired (name) AS (SELECT min(schedule) FROM slots
		UNION ALL SELECT (SELECT min(schedule) FROM slots WHERE schedule > name) FROM fired WHERE name IS NOT NULL)
		SELECT name FROM fired WHERE name IS NOT NULL
		UNION SELECT schedule FROM schedule_pauses UNION SELECT schedule FROM schedule_calendars ORDER BY 1`), sqlite.Text)
}

// SchedulePause is the pause of a schedule by an operator.
type SchedulePause struct {
	Schedule string     `json:"schedule" doc:"The name of the schedule."`
	Since    time.Time  `json:"since" doc:"When the pause began."`
	Until    *time.Time `json:"until,omitempty" doc:"When the pause ends automatically; null: when it is resumed."`
	By       string     `json:"by" doc:"The name of the person who paused it, with the NATS user."`
	Reason   string     `json:"reason" doc:"The reason, for people; the text may change."`
}

// PausedSchedule selects the pause of one schedule; ScanSchedulePause reads it.
const PausedSchedule = `SELECT schedule, since, until, by, reason FROM schedule_pauses WHERE schedule = ?`

// ScanSchedulePause reads a row of the table schedule_pauses.
func ScanSchedulePause(s sqlite.Scanner) (SchedulePause, error) {
	var x SchedulePause
	var since int64
	var until sql.NullInt64
	err := s.Scan(&x.Schedule, &since, &until, &x.By, &x.Reason)
	x.Since, x.Until = sqlite.FromMicros(since), sqlite.Instant(until)
	return x, err
}

// SchedulePaused returns the pause of a schedule, or sqlite.ErrNone.
func (l *Sweeps) SchedulePaused(ctx context.Context, schedule string) (SchedulePause, error) {
	return sqlite.One(ScanSchedulePause, l.read.QueryRowContext(ctx, PausedSchedule, schedule))
}

// Plan reads the fact that planned a run, with its commands. It returns sqlite.ErrNone if
// the run has no plan.
func (l *Sweeps) Plan(ctx context.Context, slot Slot) (fact.SweepPlanned, error) {
	row, err := l.journal.Row(ctx, slot.Seq)
	if err != nil {
		return fact.SweepPlanned{}, err
	}
	f, err := fact.Decode(row.Type, []byte(row.Data))
	if err != nil {
		return fact.SweepPlanned{}, err
	}
	plan, ok := f.(fact.SweepPlanned)
	if !ok {
		return fact.SweepPlanned{}, sqlite.ErrNone
	}
	return plan, nil
}
