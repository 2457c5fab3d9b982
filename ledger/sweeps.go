package ledger

import (
	"context"
	"time"
)

// SlotsOf lists the latest slots of a schedule, the newest first, up to limit.
func (l *Ledger) SlotsOf(ctx context.Context, schedule string, limit int) ([]Slot, error) {
	rows, err := l.read.QueryContext(ctx, `SELECT schedule, slot_at, state, plan, seq FROM slots
		WHERE schedule = ? ORDER BY slot_at DESC LIMIT ?`, schedule, limit)
	if err != nil {
		return nil, err
	}
	return collect(rows, scanSlot)
}

const heldQuery = `SELECT schedule, slot_at, state, plan, seq FROM slots
	WHERE state = 'held' AND plan = ? AND plan <> '' ORDER BY seq`

// HeldSlots lists the slots that wait for an approval of the plan with this
// hash, in the order in which they were planned: the first holds its commands.
func (l *Ledger) HeldSlots(ctx context.Context, plan string) ([]Slot, error) {
	rows, err := l.read.QueryContext(ctx, heldQuery, plan)
	if err != nil {
		return nil, err
	}
	return collect(rows, scanSlot)
}

// HeldSlots is Ledger.HeldSlots inside the transaction.
func (t *Tx) HeldSlots(plan string) ([]Slot, error) {
	rows, err := t.query(heldQuery, plan)
	if err != nil {
		return nil, err
	}
	return collect(rows, scanSlot)
}

const settledQuery = `SELECT count(*) FROM lines WHERE proxy_id = ? AND settled_at >= ?`

// SettledSince reports whether a renewal of the proxy settled at or after an
// instant: what was asked of the provider before that may show the old expiry.
func (t *Tx) SettledSince(proxyID string, at time.Time) (bool, error) {
	var n int
	err := t.queryRow(settledQuery, proxyID, micros(at)).Scan(&n)
	return n > 0, err
}
