// Runs of a schedule: a slot, and the slots in which its sweep continued.

package schedules

import (
	"context"
	"slices"
	"time"

	"perennial/ledger"
)

// Run is one run of a schedule, and its result: Due is that of its first slot, Outcome,
// Skipped and Reason are those of its last one, the others are sums.
type Run struct {
	ledger.SlotResult

	Began time.Time
	Slots []ledger.Slot // the newest first
}

// Last is the slot in which the run continued last, or began.
func (r *Run) Last() ledger.Slot { return r.Slots[0] }

// Whole reports whether the slot at which the run began was read.
func (r *Run) Whole() bool { return r.Slots[len(r.Slots)-1].At.Equal(r.Began) }

// Runs lists the runs of a schedule's last slots, the newest first. limit bounds those slots;
// for a run that began before them, up to partsRead more are read.
func Runs(ctx context.Context, l *ledger.Ledger, schedule string, limit int) (all []*Run, err error) {
	slots, err := l.SlotsOf(ctx, schedule, limit)
	for _, slot := range slots {
		if all, err = addSlot(ctx, l, all, slot); err != nil {
			return nil, err
		}
	}
	if err != nil || len(all) == 0 || !slices.ContainsFunc(all, func(r *Run) bool { return !r.Whole() }) {
		return all, err
	}
	shown := len(all)
	slots, err = l.SlotsBefore(ctx, schedule, slots[len(slots)-1].At, partsRead)
	for _, slot := range slots {
		if all, err = addSlot(ctx, l, all, slot); err != nil || all[shown-1].Whole() {
			break
		}
	}
	return all[:shown], err
}

// addSlot adds an earlier slot to its run.
func addSlot(ctx context.Context, l *ledger.Ledger, all []*Run, slot ledger.Slot) ([]*Run, error) {
	x, err := l.SlotResult(ctx, slot)
	if err != nil {
		return nil, err
	}
	began := slot.At
	if x.Continues != nil {
		began = *x.Continues
	}
	i := slices.IndexFunc(all, func(r *Run) bool { return r.Began.Equal(began) })
	if i < 0 {
		x.Continues = nil
		return append(all, &Run{SlotResult: x, Began: began, Slots: []ledger.Slot{slot}}), nil
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
