// This file finds what the last run of a schedule skipped. The ledger has the run's proxies,
// the number of skipped proxies and the limits that skipped some of them. It does not have
// the ids of the skipped proxies, so these are derived from the current expiries.

package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// partsRead limits how many slots of one run are read. A large run continues in further
// slots.
const partsRead = 50

// LastRun is the last run of a schedule, including the slots that continued it.
type LastRun struct {
	Began  time.Time // the first slot
	Slot   time.Time // the last slot
	Result tables.SlotResult

	of    plans.Schedule
	taken map[string]bool // proxies of the run's commands
}

// ReadLastRun returns the last run of a schedule, or nil if there is none or not all of its
// plans can be read.
func ReadLastRun(ctx context.Context, l *ledger.Ledger, of plans.Schedule) (*LastRun, error) {
	slots, err := l.Sweeps.SlotsOf(ctx, of.Name, partsRead)
	if err != nil || len(slots) == 0 {
		return nil, err
	}
	run := &LastRun{Slot: slots[0].At, of: of, taken: map[string]bool{}}
	if run.Result, err = l.Sweeps.SlotResult(ctx, slots[0]); err != nil {
		return nil, err
	}
	for i, slot := range slots {
		planned, err := l.Sweeps.Plan(ctx, slot)
		if _, archived := errors.AsType[*ledger.ArchivedError](err); archived || errors.Is(err, ledger.ErrNotFound) {
			return nil, nil //nolint:nilnil // the plan is archived
		}
		if err != nil {
			return nil, err
		}
		if i == 0 {
			run.Began = beganAt(planned)
		}
		if !beganAt(planned).Equal(run.Began) {
			return run, nil
		}
		if slot.State == StateHeld && len(planned.Commands) == 0 {
			return nil, nil //nolint:nilnil // the plan of an earlier slot serves for this slot
		}
		if err := run.takePublished(planned, i); err != nil || slot.At.Equal(run.Began) {
			return run, err
		}
	}
	if len(slots) == partsRead {
		return nil, nil //nolint:nilnil // the run has more slots than are read
	}
	return run, nil
}

// beganAt returns the first slot of the run that a plan belongs to.
func beganAt(f fact.SweepPlanned) time.Time {
	if f.Of != nil {
		return *f.Of
	}
	return f.Slot
}

// takePublished adds what a plan published. part counts from the latest plan, of which
// nothing was published if it was declined.
func (x *LastRun) takePublished(planned fact.SweepPlanned, part int) error {
	if part == 0 && x.Result.Outcome == tables.OutcomeDeclined {
		return nil
	}
	return x.take(planned)
}

func (x *LastRun) take(planned fact.SweepPlanned) error {
	for _, raw := range planned.Commands {
		var c command.RenewalCommand
		if err := json.Unmarshal(raw, &c); err != nil {
			return fmt.Errorf("a command of the plan of %s: %w", planned.Slot.Format(time.RFC3339), err)
		}
		for _, id := range c.ProxyIDs {
			x.taken[id] = true
		}
	}
	return nil
}

// Skipped reports whether the run skipped a proxy of its schedule: by its current expiry
// the proxy was due, and no command of the run contains it. It returns false for a proxy
// that was renewed or bought since.
func (x *LastRun) Skipped(p tables.Proxy) bool {
	until := p.LastsUntil()
	switch {
	case x.Result.Skipped == 0, until == nil, until.After(x.Slot.Add(x.of.RenewBefore)):
		return false
	case p.StartsAt != nil && p.StartsAt.After(x.Slot):
		return false
	}
	return !x.taken[p.ProxyID]
}

// Text says that the run skipped a proxy, and why, if the ledger has the reason.
func (x *LastRun) Text() string {
	return fmt.Sprintf("The run of %s skipped it: %s.", x.Began.UTC().Format(time.RFC3339), x.Why())
}

// Why returns why the run skipped proxies, as far as the ledger has reasons.
func (x *LastRun) Why() string {
	const unknown = "the ledger keeps no reason for each proxy, only what holds now is known"
	switch forMoney := int64(x.Result.OverLimit); {
	case x.Result.Outcome == tables.OutcomeDeclined:
		return "its plan was declined " + x.Result.Reason
	case forMoney == 0:
		return unknown
	case forMoney >= x.Result.Skipped:
		return x.Result.Reason
	default:
		return fmt.Sprintf("%d of %d for this: %s; %s", forMoney, x.Result.Skipped, x.Result.Reason, unknown)
	}
}

// EachSkipped calls yield for every listed proxy that the run skipped and that is still
// due, by nearest expiry.
func (x *LastRun) EachSkipped(ctx context.Context, l *ledger.Ledger, c *plans.Coverage, yield func(tables.Proxy) error) error {
	if x.Result.Skipped == 0 {
		return nil
	}
	return l.Fleet.EachExpiring(ctx, time.Unix(0, 0), x.Slot.Add(x.of.RenewBefore).Add(time.Microsecond), func(p tables.Proxy) error {
		if s, covered := c.Of(p); !covered || s.Name != x.of.Name || !x.Skipped(p) {
			return nil
		}
		return yield(p)
	})
}
