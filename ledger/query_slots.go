// The slots of schedules, and their plans.

package ledger

import (
	"context"
	"time"

	"perennial/ledger/fact"
)

// Slot is one planned firing of a schedule.
type Slot struct {
	Schedule string    `json:"schedule"`
	At       time.Time `json:"slot"`
	State    string    `json:"state"` // planned | held | finished | missed
	Plan     string    `json:"plan"`
	Seq      int64     `json:"seq"`
}

func scanSlot(s scanner) (Slot, error) {
	var x Slot
	var at int64
	err := s.Scan(&x.Schedule, &at, &x.State, &x.Plan, &x.Seq)
	x.At = fromMicros(at)
	return x, err
}

// LastSlot is the latest slot of a schedule; ErrNotFound before its first.
func (l *Ledger) LastSlot(ctx context.Context, schedule string) (Slot, error) {
	s, err := scanSlot(l.read.QueryRowContext(ctx, `SELECT schedule, slot_at, state, plan, seq FROM slots
		WHERE schedule = ? ORDER BY slot_at DESC LIMIT 1`, schedule))
	return s, notFound(err)
}

// UnfinishedSlots lists slots that were planned and whose commands may not all
// be published.
func (l *Ledger) UnfinishedSlots(ctx context.Context, schedule string) ([]Slot, error) {
	rows, err := l.read.QueryContext(ctx, `SELECT schedule, slot_at, state, plan, seq FROM slots
		WHERE schedule = ? AND state = 'planned' ORDER BY slot_at`, schedule)
	if err != nil {
		return nil, err
	}
	return collect(rows, scanSlot)
}

// HasSlot reports whether the slot has fired or was counted as missed.
func (t *Tx) HasSlot(schedule string, at time.Time) (bool, error) {
	var n int
	err := t.queryRow(`SELECT count(*) FROM slots WHERE schedule = ? AND slot_at = ?`, schedule, micros(at)).Scan(&n)
	return n > 0, err
}

// Plan reads the fact that planned a slot, with its commands.
func (l *Ledger) Plan(ctx context.Context, slot Slot) (fact.SweepPlanned, error) {
	row, err := l.Row(ctx, slot.Seq)
	if err != nil {
		return fact.SweepPlanned{}, err
	}
	f, err := fact.Decode(row.Type, []byte(row.Data))
	if err != nil {
		return fact.SweepPlanned{}, err
	}
	plan, ok := f.(fact.SweepPlanned)
	if !ok {
		return fact.SweepPlanned{}, ErrNotFound
	}
	return plan, nil
}
