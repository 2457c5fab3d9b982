package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

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
var ScanSlot = sqlite.Into(func(x *Slot) []any {
	return []any{&x.Schedule, sqlite.At(&x.At), &x.State, &x.Plan, &x.Seq}
})

// LastSlot returns the latest scheduled time of a schedule. It returns sqlite.ErrNone if there is
// none.
func (l *Sweeps) LastSlot(ctx context.Context, schedule string) (Slot, error) {
	return sqlite.One(ScanSlot, l.row(ctx, `SELECT `+SlotColumns+` FROM slots WHERE schedule = ? ORDER BY slot_at DESC LIMIT 1`, schedule))
}

// UnfinishedSlots lists the planned runs of a schedule whose commands may not all be
// published.
func (l *Sweeps) UnfinishedSlots(ctx context.Context, schedule string) ([]Slot, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+SlotColumns+` FROM slots WHERE schedule = ? AND state = 'planned' ORDER BY slot_at`, schedule), ScanSlot)
}

// Outcomes of a run besides the states of its slot. The first two say that a money limit cut
// the run short.
const (
	OutcomeOverBudget   = "over budget"
	OutcomeWalletTooLow = "wallet too low"
	// OutcomeDeclined is the outcome of a run whose plan an operator declined.
	OutcomeDeclined = "declined"
	// OutcomeReplaced is the outcome of a run that a newer one replaced before it was complete.
	OutcomeReplaced = "replaced"
)

// SlotResult is the result of a run so far. Due is nil if the run has no plan or its row
// was archived.
type SlotResult struct {
	Outcome       string      `json:"outcome" doc:"The state of the run, or \"over budget\" or \"wallet too low\" if due proxies were skipped for lack of money, or \"declined\" if a person declined its plan."`
	Due           *int64      `json:"due,omitempty" doc:"How many proxies were due; omitted if no longer known."`
	EstimateCents *fact.Cents `json:"estimate_cents,omitempty" doc:"The expected cost, without proxies of unknown price."`
	Unpriced      int         `json:"unpriced,omitempty" doc:"The number of its proxies of unknown price; 'estimate_cents' does not include them."`
	Renewed       int64       `json:"renewed" doc:"How many proxies were renewed so far."`
	Failed        int64       `json:"failed,omitempty" doc:"How many renewals of it failed or were not charged so far."`
	InReview      int64       `json:"in_review,omitempty" doc:"How many of its renewals are in review."`
	FailedFirst   string      `json:"failed_first,omitempty" doc:"One of the proxies whose renewal failed."`
	ReviewFirst   string      `json:"review_first,omitempty" doc:"One of the proxies whose renewal is in review."`
	Skipped       int64       `json:"skipped" doc:"How many due proxies are not in the plan."`
	ChargedCents  int64       `json:"charged_cents" doc:"What its renewals have cost so far, less refunds."`
	Reason        string      `json:"reason,omitempty" doc:"The reason, for people; the text may change."`
	Continues     *time.Time  `json:"continues,omitempty" doc:"The first scheduled time of the run that this one continues."`

	Left         int64 `json:"left,omitempty" doc:"How many of 'skipped' the run renews later, as far as its budgets allow."`
	LeftUnpriced int64 `json:"-"` // how many of Left wait for a price
	// Limit is OutcomeOverBudget or OutcomeWalletTooLow if OverLimit is not 0, also while the plan needs approval.
	Limit     string `json:"-"`
	OverLimit int    `json:"over_limit,omitempty" doc:"How many of 'skipped' were skipped because of a budget, the account's limit or the wallet."`
}

// SkippedSoFar returns how many proxies were skipped, without those that the run renews later.
func (x SlotResult) SkippedSoFar() int64 { return x.Skipped - x.Left }

// Cost returns the estimated cost. It returns 0 if the cost is no longer known.
func (x SlotResult) Cost() fact.Sum {
	if x.EstimateCents == nil {
		return fact.Sum{}
	}
	return fact.Sum{Cents: x.EstimateCents.Or(0), Lacks: x.Unpriced}
}

// Why returns the reason, with how many renewals failed or are in review. If this run continues another run, the text
// begins with the other run.
func (x SlotResult) Why() string {
	var parts []string
	if x.Continues != nil {
		parts = append(parts, "continues the run of "+x.Continues.UTC().Format(time.RFC3339))
	}
	if x.Failed > 0 {
		parts = append(parts, x.FailedText())
	}
	if x.InReview > 0 {
		parts = append(parts, english.Plural(int(x.InReview), "renewal is", "renewals are")+" in review"+named(x.InReview, x.ReviewFirst))
	}
	if x.Reason != "" {
		parts = append(parts, x.Reason)
	}
	return strings.Join(parts, "; ")
}

// FailedText says how many renewals failed, and names a proxy.
func (x SlotResult) FailedText() string {
	return english.Plural(int(x.Failed), "renewal", "") + " failed" + named(x.Failed, x.FailedFirst)
}

// named names one of n proxies, whose ids are the provider's.
func named(n int64, first string) string {
	switch {
	case first == "":
		return ""
	case n == 1:
		return fmt.Sprintf(" (%.80q)", first)
	}
	return fmt.Sprintf(" (such as %.80q)", first)
}

// heldOf joins a plan with the limits that cut it short. Their rows are directly before the
// plan's row.
const heldOf = `journal h ON h.seq BETWEEN p.seq - 8 AND p.seq AND h.type = 'sweep.held' AND h.data ->> '$.slot' = p.data ->> '$.slot' AND h.data ->> '$.schedule' = p.data ->> '$.schedule'`

const commandsOfSlot = `sweep_commands s CROSS JOIN operations o ON o.id > s.command_id || '/' AND o.id < s.command_id || '0' AND o.command_id = s.command_id`

// notRenewedOfSlot counts the proxies whose renewal failed, or is in review. Operations that completed
// have no such proxy. A renewal that is retried has a line in each of its operations.
const notRenewedOfSlot = `SELECT count(*) FILTER (WHERE failed), count(*) FILTER (WHERE reviewed),
	coalesce(min(proxy_id) FILTER (WHERE failed), ''), coalesce(min(proxy_id) FILTER (WHERE reviewed), '') FROM (
	SELECT x.proxy_id AS proxy_id, max(o.state = 'review' AND x.claim) AS reviewed, min(x.state IN ('failed', 'not_charged')) AND NOT EXISTS (
		SELECT 1 FROM operations p JOIN lines y ON y.operation = p.id AND y.proxy_id = x.proxy_id
		WHERE p.id > s.command_id || '/' AND p.id < s.command_id || '0' AND p.command_id = s.command_id AND p.state = 'completed') AS failed
	FROM ` + commandsOfSlot + ` JOIN lines x ON x.operation = o.id WHERE s.schedule = ? AND s.slot_at = ? AND o.state <> 'completed' GROUP BY s.command_id, x.proxy_id)`

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
	err = l.row(ctx, `SELECT coalesce(sum((SELECT count(*) FROM lines x WHERE x.operation = o.id AND x.state IN ('succeeded', 'charged'))), 0), coalesce(sum(o.charged_cents - o.refunded_cents), 0)
		FROM `+commandsOfSlot+` WHERE s.schedule = ? AND s.slot_at = ?`, slot.Schedule, sqlite.Micros(slot.At)).Scan(&x.Renewed, &x.ChargedCents)
	if err == nil {
		err = l.row(ctx, notRenewedOfSlot, slot.Schedule, sqlite.Micros(slot.At)).Scan(&x.Failed, &x.InReview, &x.FailedFirst, &x.ReviewFirst)
	}
	if err != nil {
		return x, err
	}
	var planned, budgets int64
	var of string
	err = l.row(ctx, `SELECT coalesce((SELECT sum(value ->> '$.proxy_count') FROM json_each(p.data, '$.planned')), 0), coalesce(p.data ->> '$.left.proxy_count', 0), coalesce(p.data ->> '$.left.unpriced', 0),
		coalesce(sum(h.data ->> '$.left_out'), 0), count(h.seq) FILTER (WHERE h.data ->> '$.code' <> 'wallet' AND h.data ->> '$.left_out' > 0), coalesce(group_concat(h.data ->> '$.reason', '; ' ORDER BY h.data ->> '$.code' <> 'approval', h.seq), ''), coalesce(p.data ->> '$.of', '')
		FROM journal p LEFT JOIN `+heldOf+` WHERE p.seq = ? GROUP BY p.seq`, slot.Seq).Scan(&planned, &x.Left, &x.LeftUnpriced, &x.OverLimit, &budgets, &x.Reason, &of)
	if at, wrong := time.Parse(time.RFC3339Nano, of); wrong == nil {
		x.Continues = &at
	}
	if err != nil {
		return x, sqlite.NotFound(err)
	}
	x.Skipped = due - planned
	if err := l.correctSkipped(ctx, slot, &x, planned); err != nil {
		return x, err
	}
	if x.OverLimit > 0 {
		if x.Limit = OutcomeWalletTooLow; budgets > 0 {
			x.Limit = OutcomeOverBudget
		}
	}
	declined, err := l.Declined(ctx, slot)
	switch {
	case declined != nil:
		x.Outcome, x.Skipped, x.Left, x.Reason = OutcomeDeclined, due, 0, "by "+fact.Signed(declined.By, declined.User)+": "+declined.Reason
	case x.Limit != "" && slot.State == "finished":
		x.Outcome = x.Limit
	}
	return x, err
}

// PlannedSums returns how many proxies a run found due and the estimated cost of its plan.
// It returns sqlite.ErrNone if the run has no plan or its row was archived.
func (l *Sweeps) PlannedSums(ctx context.Context, slot Slot) (due int64, cost fact.Sum, err error) {
	err = l.row(ctx, `SELECT coalesce(data ->> '$.due', 0), coalesce(data ->> '$.estimate_cents', 0),
		coalesce(data ->> '$.unknown_price', (SELECT sum(value ->> '$.unknown_price') FROM json_each(data, '$.planned')), 0)
		FROM journal WHERE seq = ? AND type = 'sweep.planned'`, slot.Seq).Scan(&due, &cost.Cents, &cost.Lacks)
	return due, cost, sqlite.NotFound(err)
}

// correctSkipped subtracts from x.Skipped the proxies that a plan on hold leaves to later parts
// of its run. A run may have no commands because another run found the same plan within the 24
// hours before. The proxies in the other run's commands are subtracted too.
func (l *Sweeps) correctSkipped(ctx context.Context, slot Slot, x *SlotResult, planned int64) error {
	held := slot.State == "held"
	if held {
		x.Skipped, x.Left = x.Skipped-x.Left, 0
	}
	if planned > 0 || *x.Due == 0 || !held && slot.State != "finished" {
		return nil
	}
	var first time.Time
	err := l.row(ctx, `SELECT s.slot_at, (SELECT sum(value ->> '$.proxy_count') FROM json_each(p.data, '$.planned')) FROM slots s JOIN journal p ON p.seq = s.seq
		WHERE s.schedule = ?1 AND s.slot_at < ?2 AND s.slot_at > ?2 - 86400000000 AND s.plan = ?3 AND json_array_length(p.data, '$.planned') > 0 ORDER BY s.slot_at LIMIT 1`,
		slot.Schedule, sqlite.Micros(slot.At), slot.Plan).Scan(sqlite.At(&first), &planned)
	switch {
	case err == nil:
		x.Skipped = max(x.Skipped-planned, 0)
		if !held {
			x.Reason = strings.TrimPrefix(x.Reason+"; its plan is that of the run of "+first.Format(time.RFC3339), "; ")
		}
	case held:
		x.Skipped = int64(x.OverLimit) // the row with the commands is gone
	}
	return sqlite.Optional(err)
}

// finishedWithin limits how many rows Declined searches for the sweep.finished of a run.
const finishedWithin = 1000

// Declined returns the sweep.finished fact by which an operator declined a run's plan. It returns
// nil if the plan was not declined.
func (l *Sweeps) Declined(ctx context.Context, slot Slot) (*fact.SweepFinished, error) {
	if slot.State != "finished" {
		return nil, nil //nolint:nilnil // it was not declined
	}
	// A plan that needs approval has its sweep.held in the next row.
	ended, err := sqlite.Value[int64](l.row(ctx, `SELECT s.updated_at FROM slots s JOIN journal h ON h.seq = s.seq + 1 AND h.type = 'sweep.held'
		WHERE s.schedule = ? AND s.slot_at = ?`, slot.Schedule, sqlite.Micros(slot.At)))
	if err != nil {
		return nil, sqlite.Optional(err) // without a row it did not need approval
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

// ScheduleCalendar returns the calendar of the last schedule.configured. It returns
// sqlite.ErrNone if there is none.
func (l *Sweeps) ScheduleCalendar(ctx context.Context, schedule string) (ScheduleCalendar, error) {
	return sqlite.One(sqlite.Into(func(x *ScheduleCalendar) []any {
		return []any{&x.Cron, &x.Timezone, sqlite.At(&x.Since)}
	}), l.row(ctx, `SELECT cron, timezone, since FROM schedule_calendars WHERE schedule = ?`, schedule))
}

// ScheduleNames lists every schedule that has runs, a pause or a recorded calendar, sorted
// by name.
func (l *Sweeps) ScheduleNames(ctx context.Context) ([]string, error) {
	// Each step of the recursion finds the next name by the primary key, because a schedule
	// may have a million runs.
	return sqlite.Collect(l.query(ctx, `WITH RECURSIVE fired (name) AS (SELECT min(schedule) FROM slots
		UNION ALL SELECT (SELECT min(schedule) FROM slots WHERE schedule > name) FROM fired WHERE name IS NOT NULL)
		SELECT name FROM fired WHERE name IS NOT NULL
		UNION SELECT schedule FROM schedule_pauses UNION SELECT schedule FROM schedule_calendars ORDER BY 1`), sqlite.Value[string])
}

// SchedulePause is the pause of a schedule by an operator.
type SchedulePause struct {
	Schedule string     `json:"schedule" doc:"The name of the schedule."`
	Since    time.Time  `json:"since" doc:"When the pause began."`
	Until    *time.Time `json:"until,omitempty" doc:"When the pause ends automatically; null: when it is resumed."`
	By       string     `json:"by" doc:"The name of the person who paused it, with the NATS user."`
	Reason   string     `json:"reason" doc:"The reason, for people; the text may change."`
}

// SchedulePaused returns the pause of a schedule. It returns sqlite.ErrNone if the schedule is
// not paused.
func (l *Sweeps) SchedulePaused(ctx context.Context, schedule string) (SchedulePause, error) {
	return PauseOf(l.from(ctx), schedule)
}

// PauseOf is Sweeps.SchedulePaused for any source.
func PauseOf(from sqlite.Source, schedule string) (SchedulePause, error) {
	return sqlite.One(sqlite.Into(func(x *SchedulePause) []any {
		return []any{&x.Schedule, sqlite.At(&x.Since), sqlite.NullAt(&x.Until), &x.By, &x.Reason}
	}), from.QueryRow(`SELECT schedule, since, until, by, reason FROM schedule_pauses WHERE schedule = ?`, schedule))
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

// SlotsOf lists up to limit scheduled times of a schedule, newest first.
func (l *Sweeps) SlotsOf(ctx context.Context, schedule string, limit int) ([]Slot, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+SlotColumns+` FROM slots WHERE schedule = ? ORDER BY slot_at DESC LIMIT +?`, schedule, limit), ScanSlot)
}

// PlannedSlots lists the planned runs of all schedules whose commands may not all be
// published.
func (l *Sweeps) PlannedSlots(ctx context.Context) ([]Slot, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+SlotColumns+` FROM slots WHERE state = 'planned' ORDER BY seq`), ScanSlot)
}

// SlotsBefore is SlotsOf for scheduled times before an instant.
func (l *Sweeps) SlotsBefore(ctx context.Context, schedule string, before time.Time, limit int) ([]Slot, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+SlotColumns+` FROM slots WHERE schedule = ? AND slot_at < ? ORDER BY slot_at DESC LIMIT +?`, schedule, sqlite.Micros(before), limit), ScanSlot)
}

// Listed reads a proxy that is not gone. For any other id it returns sqlite.ErrNone.
func (l *Sweeps) Listed(ctx context.Context, id string) (Proxy, error) {
	return sqlite.One(scanProxy, l.row(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE proxy_id = ? AND gone = 0`, id))
}

// HeldSlots lists the scheduled times that have the plan with this hash, if the plan needs
// approval. They are in the order of planning. The first one has the plan's commands.
func (l *Sweeps) HeldSlots(ctx context.Context, plan string) ([]Slot, error) {
	return HeldSlots(l.from(ctx), plan)
}

// HeldSlots is Sweeps.HeldSlots for any source.
func HeldSlots(from sqlite.Source, plan string) ([]Slot, error) {
	return sqlite.Collect(from.Query(`SELECT `+SlotColumns+` FROM slots WHERE state = 'held' AND plan = ? AND plan <> '' ORDER BY seq`, plan), ScanSlot)
}

// NotTakenIn lists the runs of a schedule that were planned at or after an instant and have
// commands in flight. A command is in flight while it is neither accepted nor refused, even if it
// is not published yet. NotTakenIn also returns when each such command was planned. Plans that
// need approval are left out.
func (l *Sweeps) NotTakenIn(ctx context.Context, schedule string, since time.Time) (slots []Slot, planned map[string]time.Time, err error) {
	planned = map[string]time.Time{}
	err = sqlite.Each(l.query(ctx, `SELECT l.schedule, l.slot_at, l.state, l.plan, l.seq, s.command_id, s.planned_at
		FROM sweep_commands s JOIN slots l ON l.schedule = s.schedule AND l.slot_at = s.slot_at
		WHERE s.schedule = ? AND s.planned_at >= ? AND l.state <> 'held'
		AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = s.command_id)
		AND NOT EXISTS (SELECT 1 FROM rejections r WHERE r.id = s.command_id) ORDER BY l.seq, s.command_id`, schedule, sqlite.Micros(since)), func(s sqlite.Scanner) error {
		var id string
		var at time.Time
		slot, err := ScanSlot(sqlite.With(s, &id, sqlite.At(&at)))
		if n := len(slots); n == 0 || slots[n-1].Seq != slot.Seq {
			slots = append(slots, slot)
		}
		planned[id] = at
		return err
	})
	return slots, planned, err
}

// Refused counts the commands of one run that the account's own intake refused as invalid.
type Refused struct {
	Slot     time.Time
	Commands int
	Proxies  int
	Reason   string // of one of them
}

// RefusedOf returns the newest run of a schedule with commands that the intake refused as
// invalid. It returns nil if there is none, or if a later run finished and all its commands
// were accepted or refused. The ids of the commands begin with prefix, followed by letters
// and digits.
func (l *Sweeps) RefusedOf(ctx context.Context, schedule, prefix string) (*Refused, error) {
	var x Refused
	err := l.row(ctx, `SELECT s.slot_at, count(*), sum(s.proxies), min(r.reason)
		FROM rejections r CROSS JOIN sweep_commands s ON s.command_id = r.id CROSS JOIN slots l ON l.schedule = s.schedule AND l.slot_at = s.slot_at
		WHERE r.id > ?3 AND r.id < ?3 || '~' AND r.code = ?1 AND s.schedule = ?2 AND NOT EXISTS (
			SELECT 1 FROM slots t WHERE t.schedule = ?2 AND t.seq > l.seq AND t.state = 'finished' AND NOT EXISTS (
				SELECT 1 FROM sweep_commands o WHERE o.schedule = t.schedule AND o.slot_at = t.slot_at
				AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = o.command_id) AND NOT EXISTS (SELECT 1 FROM rejections x WHERE x.id = o.command_id)))
		GROUP BY s.slot_at ORDER BY s.slot_at DESC LIMIT 1`, fact.RejectedInvalid, schedule, prefix).Scan(sqlite.At(&x.Slot), &x.Commands, &x.Proxies, &x.Reason)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // none is no error
	}
	return &x, err
}

// CountReviews counts the operations, lines and proxies that need review.
func (l *Operations) CountReviews(ctx context.Context) (int64, error) {
	return sqlite.Value[int64](l.row(ctx, `SELECT count(*) FROM v_reviews`))
}

// SweepReviews lists the proxies of an operation that schedules skip until they are
// reviewed.
func (l *Operations) SweepReviews(ctx context.Context, operationID string) ([]string, error) {
	return SweepReviewsOf(l.from(ctx), operationID)
}

// SweepReviewsOf is Operations.SweepReviews for any source.
func SweepReviewsOf(from sqlite.Source, operationID string) ([]string, error) {
	return sqlite.Collect(from.Query(`SELECT v.proxy_id FROM v_reviews v JOIN sweep_reviews s ON s.proxy_id = v.proxy_id AND s.operation = v.operation_id
		WHERE v.operation_id = ? AND s.answered_at IS NULL
		AND EXISTS (SELECT 1 FROM lines l WHERE l.operation = v.operation_id AND l.proxy_id = v.proxy_id AND l.claim = 0) ORDER BY v.proxy_id`, operationID), sqlite.Value[string])
}

// EndingsOf lists up to limit operations that ended without renewing the proxy, the newest
// first.
func (l *Operations) EndingsOf(ctx context.Context, proxyID string, limit int) ([]fact.Ref, error) {
	return Endings(l.from(ctx), proxyID, limit)
}

// Endings is Operations.EndingsOf for any source.
func Endings(from sqlite.Source, proxyID string, limit int) ([]fact.Ref, error) {
	return sqlite.Collect(from.Query(`SELECT l.operation, o.command_id, o.trace_id FROM lines l JOIN operations o ON o.id = l.operation
		WHERE l.proxy_id = ? AND l.state IN ('failed', 'not_charged', 'skipped') ORDER BY l.settled_at DESC, l.operation DESC LIMIT +?`, proxyID, limit), ScanRef)
}

// ScanRef reads the IDs of an operation and of its command, and the operation's trace ID.
var ScanRef = sqlite.Into(func(r *fact.Ref) []any { return []any{&r.OperationID, &r.CommandID, &r.TraceID} })

// Refused lists proxies that expire between two instants and that the provider does not renew,
// nearest expiry first. Either enough renewals failed, or the provider does not know the proxy.
// Retired proxies are left out. Reserved proxies are left out too, including proxies whose
// renewal is in review.
func (l *Operations) Refused(ctx context.Context, from, until time.Time, failures int) ([]Proxy, error) {
	lines := `FROM lines x JOIN operations o ON o.id = x.operation WHERE x.proxy_id = proxies.proxy_id AND ` + atExpiry(`proxies.expires_at`)
	refused := `AND NOT EXISTS (SELECT 1 FROM retired r WHERE r.proxy_id = proxies.proxy_id)
		AND NOT EXISTS (SELECT 1 FROM lines c WHERE c.proxy_id = proxies.proxy_id AND c.claim = 1)
		AND ((SELECT count(*) ` + lines + ` AND x.state = 'failed') >= ?3
			OR EXISTS (SELECT 1 ` + lines + ` AND x.state = 'not_charged' AND o.code = 'proxy_not_found'
				AND (SELECT count(*) FROM lines z WHERE z.operation = o.id) = 1)
			OR (gone = 1 AND EXISTS (SELECT 1 ` + lines + ` AND x.state = 'skipped')))`
	return sqlite.Collect(l.query(ctx, `SELECT `+shownColumns+` `+AsShown+` AND lasts_until > ?1 AND lasts_until <= ?2 `+refused+`
		UNION ALL SELECT `+proxyColumns+` `+AlreadyRenewed+` AND expires_at > ?1 AND expires_at <= ?2 `+refused+`
		UNION ALL SELECT `+proxyColumns+` FROM proxies WHERE gone = 1 AND expires_at > ?1 AND expires_at <= ?2 `+refused+`
		`+byShownExpiry, sqlite.Micros(from), sqlite.Micros(until), failures), scanProxy)
}

// ReplacedSince counts the replacements of a schedule since an instant.
func (l *Operations) ReplacedSince(ctx context.Context, schedule string, since time.Time) (int, error) {
	return sqlite.Value[int](l.row(ctx, `SELECT count(*) FROM replacements WHERE schedule = ? AND replaced_at >= ?`, schedule, sqlite.Micros(since)))
}

// UnsentReplacements lists the replacements of a schedule whose order has been neither
// accepted nor refused yet. The order may be missing from the commands stream.
func (l *Operations) UnsentReplacements(ctx context.Context, schedule string) ([]fact.ProxyReplaced, error) {
	return sqlite.Collect(l.query(ctx, `SELECT j.data FROM replacements x JOIN journal j ON j.seq = x.seq WHERE x.schedule = ?
		AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = x.command_id)
		AND NOT EXISTS (SELECT 1 FROM rejections r WHERE r.id = x.command_id) ORDER BY x.seq`, schedule), ScanFact[fact.ProxyReplaced])
}

// LastHolder returns the runner that last started to lead the account. It returns "" if the
// journal has no start.
func (l *Sweeps) LastHolder(ctx context.Context) (string, error) {
	return l.lastStart(ctx, `$.holder`)
}

// LastVersion returns the program's version at the last start of a runner. It returns "" if the
// journal has no start.
func (l *Sweeps) LastVersion(ctx context.Context) (string, error) {
	return l.lastStart(ctx, `$.version`)
}

func (l *Sweeps) lastStart(ctx context.Context, field string) (string, error) {
	text, err := sqlite.Value[string](l.row(ctx, `SELECT data ->> ? FROM journal INDEXED BY journal_starts
		WHERE type = 'runner.started' AND seq > 0 ORDER BY seq DESC LIMIT 1`, field))
	return text, sqlite.Optional(err)
}

// Inherited reports whether a runner other than holder made an operation's last attempt. since is
// when the first runner after that attempt started. It is zero if no runner has started since.
// Another runner is assumed if the journal lacks the attempt, or lacks a start of a runner before
// the attempt.
func (l *Sweeps) Inherited(ctx context.Context, operationID, holder string) (since time.Time, inherited bool, err error) {
	const sent = `(SELECT max(seq) FROM journal WHERE operation = ?1 AND operation <> '' AND type = 'operation.sending')`
	var by string
	var begun int64
	err = l.row(ctx, `SELECT
		coalesce((SELECT data ->> '$.holder' FROM journal INDEXED BY journal_starts WHERE type = 'runner.started' AND seq < `+sent+` ORDER BY seq DESC LIMIT 1), ''),
		coalesce((SELECT time FROM journal INDEXED BY journal_starts WHERE type = 'runner.started' AND seq > `+sent+` ORDER BY seq LIMIT 1), 0)`, operationID).
		Scan(&by, &begun)
	if err != nil || by == holder {
		return time.Time{}, false, err
	}
	if begun > 0 {
		since = sqlite.FromMicros(begun)
	}
	return since, true, nil
}
