// This file groups slots into runs.

package schedules

import (
	"context"
	"slices"
	"time"

	"perennial/ledger"
	"perennial/ledger/tables"
)

// Run is one run of a schedule: a slot, the slots that continued it, and the result. Due is
// from the first slot. Outcome, Skipped and Reason are from the last slot. The other results
// are sums over all slots.
type Run struct {
	tables.SlotResult

	Began time.Time
	Slots []tables.Slot // newest first
}

// Last returns the last slot of the run.
func (r *Run) Last() tables.Slot { return r.Slots[0] }

// Whole reports whether the run's first slot was read.
func (r *Run) Whole() bool { return r.Slots[len(r.Slots)-1].At.Equal(r.Began) }

// Runs returns the runs of a schedule's latest slots, newest first. limit is the number of
// slots. If the first slot of a run is not among them, up to partsRead earlier slots are
// read.
func Runs(ctx context.Context, l *ledger.Ledger, schedule string, limit int) (all []*Run, err error) {
	slots, err := l.Sweeps.SlotsOf(ctx, schedule, limit)
	for _, slot := range slots {
		if all, err = addSlot(ctx, l, all, slot); err != nil {
			return nil, err
		}
	}
	if err != nil || len(all) == 0 || !slices.ContainsFunc(all, func(r *Run) bool { return !r.Whole() }) {
		return all, err
	}
	shown := len(all)
	slots, err = l.Sweeps.SlotsBefore(ctx, schedule, slots[len(slots)-1].At, partsRead)
	for _, slot := range slots {
		if all, err = addSlot(ctx, l, all, slot); err != nil || all[shown-1].Whole() {
			break
		}
	}
	return all[:shown], err
}

// addSlot adds an earlier slot to its run, or starts a run with it.
func addSlot(ctx context.Context, l *ledger.Ledger, all []*Run, slot tables.Slot) ([]*Run, error) {
	x, err := l.Sweeps.SlotResult(ctx, slot)
	if err != nil {
		return all, err
	}
	began := slot.At
	if x.Continues != nil {
		began = *x.Continues
	}
	i := slices.IndexFunc(all, func(r *Run) bool { return r.Began.Equal(began) })
	if i < 0 {
		x.Continues = nil
		return append(all, &Run{SlotResult: x, Began: began, Slots: []tables.Slot{slot}}), nil
	}
	r := all[i]
	r.Slots = append(r.Slots, slot)
	if x.Due != nil {
		cost := r.Cost().Join(x.Cost())
		r.Due, r.EstimateCents, r.Unpriced = x.Due, new(cost.Total()), cost.Lacks
	}
	r.Renewed += x.Renewed
	r.ChargedCents += x.ChargedCents
	return all, nil
}
