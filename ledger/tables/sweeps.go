// Planned runs and their commands.

package tables

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

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

// Listed reads a proxy that is not gone; sqlite.ErrNone otherwise.
func (l *Sweeps) Listed(ctx context.Context, id string) (Proxy, error) {
	return sqlite.One(scanProxy, l.read.QueryRowContext(ctx, `SELECT `+proxyColumns+` FROM proxies WHERE proxy_id = ? AND gone = 0`, id))
}

// HeldQuery selects the scheduled times whose plan, with this hash, needs approval.
const HeldQuery = `SELECT ` + SlotColumns + ` FROM slots WHERE state = 'held' AND plan = ? AND plan <> '' ORDER BY seq`

// HeldSlots lists the scheduled times whose plan, with this hash, needs approval, in the
// order of planning. The first has the plan's commands.
func (l *Sweeps) HeldSlots(ctx context.Context, plan string) ([]Slot, error) {
	return sqlite.Collect(l.query(ctx, HeldQuery, plan), ScanSlot)
}

// NotTakenIn lists a schedule's runs, planned at or after an instant, with commands that are
// neither accepted nor refused yet, but are on the stream, or soon will be. It also returns
// when each such command was planned. Plans that need approval are left out.
func (l *Sweeps) NotTakenIn(ctx context.Context, schedule string, since time.Time) (slots []Slot, planned map[string]time.Time, err error) {
	planned = map[string]time.Time{}
	err = sqlite.Each(l.query(ctx, `SELECT l.schedule, l.slot_at, l.state, l.plan, l.seq, s.command_id, s.planned_at
		FROM sweep_commands s JOIN slots l ON l.schedule = s.schedule AND l.slot_at = s.slot_at
		WHERE s.schedule = ? AND s.planned_at >= ? AND l.state <> 'held'
		AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = s.command_id)
		AND NOT EXISTS (SELECT 1 FROM rejections r WHERE r.id = s.command_id) ORDER BY l.seq, s.command_id`, schedule, sqlite.Micros(since)), func(s sqlite.Scanner) error {
		var id string
		var at int64
		slot, err := ScanSlot(extraColumns{s, []any{&id, &at}})
		if n := len(slots); n == 0 || slots[n-1].Seq != slot.Seq {
			slots = append(slots, slot)
		}
		planned[id] = sqlite.FromMicros(at)
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
	x, at := Refused{}, int64(0)
	err := l.read.QueryRowContext(ctx, `SELECT s.slot_at, count(*), sum(s.proxies), min(r.reason)
		FROM rejections r CROSS JOIN sweep_commands s ON s.command_id = r.id CROSS JOIN slots l ON l.schedule = s.schedule AND l.slot_at = s.slot_at
		WHERE r.id > ?3 AND r.id < ?3 || '~' AND r.code = ?1 AND s.schedule = ?2 AND NOT EXISTS (
			SELECT 1 FROM slots t WHERE t.schedule = ?2 AND t.seq > l.seq AND t.state = 'finished' AND NOT EXISTS (
				SELECT 1 FROM sweep_commands o WHERE o.schedule = t.schedule AND o.slot_at = t.slot_at
				AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = o.command_id) AND NOT EXISTS (SELECT 1 FROM rejections x WHERE x.id = o.command_id)))
		GROUP BY s.slot_at ORDER BY s.slot_at DESC LIMIT 1`, fact.RejectedInvalid, schedule, prefix).Scan(&at, &x.Commands, &x.Proxies, &x.Reason)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // none is no error
	}
	x.Slot = sqlite.FromMicros(at)
	return &x, err
}
