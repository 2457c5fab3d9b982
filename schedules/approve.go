package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// approvals are what an operator decides about plans that need approval.
type approvals struct {
	*Config

	runners   []*scheduleRunner
	reads     *reader
	remains   *remainders
	counting  sleep.Lock // the Sweeper's
	answering sync.Mutex
}

// Approve publishes the plan with this hash, which needs approval, and finishes its slots. It
// returns ErrNoPlan if no plan that needs approval has the hash, and ErrOverBudget if the plan
// exceeds the rest of today's or this month's budget. After a crash, the plan can be approved
// again without harm. The sweep.finished fact records the operator's name and the reason.
func (s *approvals) Approve(ctx context.Context, plan, by, reason string) error {
	s.answering.Lock()
	defer s.answering.Unlock()
	slots, err := s.Ledger.Sweeps.HeldSlots(ctx, plan)
	if err != nil {
		return fmt.Errorf("approve plan %s: %w", plan, err)
	}
	if len(slots) == 0 {
		return fmt.Errorf("approve plan %.64q: %w", plan, s.noPlan(ctx, plan))
	}
	planned, err := s.heldPlan(ctx, plan, slots)
	if err != nil {
		return fmt.Errorf("approve plan %s: %w", plan, err)
	}
	if err := s.carryOut(ctx, slots[0].Schedule, planned, plan, by, reason); err != nil {
		return fmt.Errorf("approve plan %s: %w", plan, err)
	}
	return nil
}

// Decline finishes the slots of the plan with this hash, which needs approval, without publishing
// it. It returns ErrNoPlan if no plan that needs approval has the hash, and ErrBegun if an
// interrupted approval has published a part of the plan. The next run plans the due proxies
// again. The sweep.finished fact records the operator's name and the reason.
func (s *approvals) Decline(ctx context.Context, plan, by, reason string) error {
	s.answering.Lock()
	defer s.answering.Unlock()
	slots, err := s.Ledger.Sweeps.HeldSlots(ctx, plan)
	if err != nil {
		return fmt.Errorf("decline plan %s: %w", plan, err)
	}
	if len(slots) == 0 {
		return fmt.Errorf("decline plan %.64q: %w", plan, s.noPlan(ctx, plan))
	}
	if planned, err := s.heldPlan(ctx, plan, slots); err == nil { // a plan that cannot be read can still be declined
		left, err := s.notAskedFor(ctx, planned)
		if err != nil {
			return fmt.Errorf("decline plan %s: %w", plan, err)
		}
		if left.Commands < len(planned.Planned) {
			return fmt.Errorf("decline plan %s: %w", plan, ErrBegun)
		}
	}
	err = s.finishHeld(ctx, plan, fact.SweepFinished{By: by, Reason: reason, Abandoned: true})
	if err != nil {
		return fmt.Errorf("decline plan %s: %w", plan, err)
	}
	return nil
}

// noPlan returns ErrNoPlan. If an operator gave a schedule's name instead of a hash, the error
// also names the schedule's plan. If the plan was approved or declined, the error says so.
func (s *approvals) noPlan(ctx context.Context, name string) error {
	for _, r := range s.Schedules {
		slots, err := s.Ledger.Sweeps.SlotsOf(ctx, r.Name, partsRead)
		if err != nil {
			return err
		}
		if r.Name == name && len(slots) > 0 && slots[0].State == StateHeld {
			return fmt.Errorf("%w; the plan of schedule %s is %s", ErrNoPlan, name, slots[0].Plan)
		}
		i := slices.IndexFunc(slots, func(x tables.Slot) bool { return x.Plan == name })
		if i < 0 {
			continue
		}
		declined, err := s.Ledger.Sweeps.Declined(ctx, slots[i])
		switch {
		case err != nil:
			return err
		case declined != nil:
			return fmt.Errorf("%w; this one was declined by %s: %s", ErrNoPlan, fact.Signed(declined.By, declined.User), declined.Reason)
		}
		return fmt.Errorf("%w; this one was approved, or needed no approval", ErrNoPlan)
	}
	return ErrNoPlan
}

// HeldPlan returns the plan with this hash as an approval would publish it. It returns ErrNoPlan
// if no plan that needs approval has the hash.
func (s *approvals) HeldPlan(ctx context.Context, plan string) (plans.Plan, error) {
	slots, err := s.Ledger.Sweeps.HeldSlots(ctx, plan)
	if err == nil && len(slots) == 0 {
		err = ErrNoPlan
	}
	if err != nil {
		return plans.Plan{}, fmt.Errorf("show plan %.64q: %w", plan, err)
	}
	planned, err := s.heldPlan(ctx, plan, slots)
	if err != nil {
		return plans.Plan{}, fmt.Errorf("show plan %s: %w", plan, err)
	}
	currency, err := s.Ledger.Currency(ctx)
	p := plans.Plan{
		Schedule: slots[0].Schedule, At: slots[0].At, Until: slots[0].At, Slot: &slots[0].At, State: StateHeld, Hash: plan, Due: planned.Due, Currency: currency,
		Included: plans.PlannedProxies(planned), LeftOut: []plans.LeftOut{}, LeftOutCounts: map[string]int{}, Shortfalls: []plans.Shortfall{}, Commands: planned.Commands, NeedsApproval: true,
	}
	sum := plans.SumOf(p.Included)
	p.EstimateCents, p.Unpriced = sum.Total(), sum.Lacks
	p.ListPriceCents, p.Listed = plans.SumListed(p.Included)
	if r, unknown := runnerOf(s.runners, p.Schedule); unknown == nil && err == nil {
		p.ApproveOverCents, p.Until = r.ApproveOverCents, p.At.Add(r.RenewBefore)
		in := read{Inputs: plans.Inputs{Schedule: r.Schedule, Now: s.providerNow()}}
		err = s.reads.readSpent(ctx, r, &in)
		p.SpentTodayCents, p.SpentMonthCents = in.SpentTodayCents, in.SpentMonthCents
	}
	return p, err
}

// heldPlan tries the plan's later slots if the row of the first slot was archived or has another
// hash.
func (s *approvals) heldPlan(ctx context.Context, plan string, slots []tables.Slot) (fact.SweepPlanned, error) {
	wrong := fmt.Errorf("its commands in journal row %d have another hash: run `perennial ledger verify`", slots[0].Seq)
	for _, slot := range slots {
		planned, err := s.Ledger.Sweeps.Plan(ctx, slot)
		if gone, ok := errors.AsType[*ledger.ArchivedError](err); ok {
			wrong = gone
			continue
		}
		if err != nil || plans.HashOf(planned.Schedule, planned.Commands) == plan {
			return planned, err
		}
	}
	return fact.SweepPlanned{}, wrong
}

// approvePatience limits how long an approval may publish, because the operator and all runs of
// the account wait for it.
const approvePatience = 30 * time.Second

func (s *approvals) carryOut(ctx context.Context, schedule string, planned fact.SweepPlanned, plan, by, reason string) error {
	r, unknown := runnerOf(s.runners, schedule)
	if unknown != nil { // a schedule that is no longer configured has no budget
		r = &scheduleRunner{Schedule: plans.Schedule{Name: schedule}}
	} else {
		if err := s.counting.Take(ctx); err != nil {
			return err
		}
		defer s.counting.Give()
		if err := s.affords(ctx, r, planned); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, approvePatience)
	defer cancel()
	if err := s.publish(limited, r, planned.Commands); err != nil {
		return fmt.Errorf("its commands are not published, and it stays held: approve it again: %w", err)
	}
	if err := s.finishHeld(ctx, plan, fact.SweepFinished{Published: len(planned.Commands), By: by, Reason: reason}); err != nil {
		return err
	}
	if unknown != nil {
		return nil
	}
	return s.remains.recall(ctx, r) // the approved plan may leave a remainder
}

func (s *approvals) finishHeld(ctx context.Context, plan string, finished fact.SweepFinished) error {
	finished.Plan, finished.User = plan, fact.UserOf(ctx)
	err := s.Ledger.Write(context.WithoutCancel(ctx), func(tx *ledger.Tx) error {
		slots, err := tx.HeldSlots(plan) // a slot may have been added in the meantime
		if err != nil {
			return err
		}
		for _, slot := range slots {
			finished.Schedule, finished.Slot = slot.Schedule, slot.At
			if err := tx.Append(finished); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("finish its slots: %w", err)
	}
	return nil
}

// affords returns ErrOverBudget if the plan exceeds what is left of today's or this month's
// budget. Other plans may have used these budgets since the plan was made.
func (s *approvals) affords(ctx context.Context, r *scheduleRunner, planned fact.SweepPlanned) error {
	left, err := s.notAskedFor(ctx, planned)
	if err != nil {
		return err
	}
	sum := left.Sum
	currency, err := s.Ledger.Currency(ctx)
	if err != nil {
		return err
	}
	in := read{Inputs: plans.Inputs{Schedule: r.Schedule, Now: s.providerNow()}}
	in.Schedule.BudgetCents = 0 // the plan was made within the budget of its run
	if err := s.reads.readSpent(ctx, r, &in); err != nil {
		return err
	}
	for _, l := range in.Limits() {
		if sum.Cents > l.Room || sum.Lacks > 0 && sum.Cents == l.Room {
			return fmt.Errorf("%s is %s, %s of it is spent or on its way, and the plan would add %s: %w",
				plans.LimitNames[l.Reason], fact.Amount(l.Cents, currency), fact.Amount(l.Cents-l.Room, currency), sum.Text(currency), ErrOverBudget)
		}
	}
	return nil
}

type notTaken struct {
	Commands int
	fact.Sum // estimated cost of these commands
}

// notAskedFor counts the plan's commands that the runner has not accepted yet. An interrupted
// approval may have published some of them.
func (s *approvals) notAskedFor(ctx context.Context, planned fact.SweepPlanned) (left notTaken, err error) {
	for _, c := range planned.Planned {
		_, err := s.Ledger.Operations.Command(ctx, c.CommandID)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			left.Commands++
			left.Sum = left.Join(fact.Sum{Cents: c.EstimateCents, Lacks: c.UnknownPrice})
		case err != nil:
			return left, err
		}
	}
	return left, nil
}

// heldPlanServes limits how long a plan that needs approval also serves later slots. If plans
// served only one slot, each newly due proxy would cause another stored plan, and a plan may be
// as large as a fact allows.
const heldPlanServes = 6 * time.Hour

// holdOnce removes the commands from a plan that needs approval if this slot needs no plan of its
// own. That is the case if an earlier slot has the same plan, or if a recent plan that needs
// approval serves this slot too. Proxies that come due later are planned after the approval. A
// run that an operator requested and a slot that continues a run always get a plan of their own.
func (s *approvals) holdOnce(tx *ledger.Tx, r *scheduleRunner, f firing, plan *sweep, planned *fact.SweepPlanned) error {
	held, err := tx.HeldSlots(plan.Hash)
	if err != nil {
		return err
	}
	if len(held) == 0 && !f.byHand && f.rest == nil {
		if held, err = s.recentlyHeld(tx, r, f.slot); err != nil {
			return err
		}
	}
	if len(held) > 0 && !s.archived(held[0]) {
		plan.servedByEarlier = plan.Hash != held[0].Plan
		plan.Hash, planned.Plan = held[0].Plan, held[0].Plan
		planned.Commands, planned.Planned = []json.RawMessage{}, nil // the first slot with this plan has its commands
	}
	return nil
}

// recentlyHeld returns the slots of the schedule's newest plan that needs approval. It returns
// none if the first of these slots is too old for the plan to serve slot.
func (s *approvals) recentlyHeld(tx *ledger.Tx, r *scheduleRunner, slot time.Time) ([]tables.Slot, error) {
	since := slot.Add(-min(heldPlanServes, r.RenewBefore/4))
	all, err := tx.HeldNow(r.Name, since)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	held, err := tx.HeldSlots(all[0].Plan)
	if err != nil || len(held) == 0 || held[0].At.Before(since) || held[0].At.After(slot) {
		return nil, err
	}
	return held, nil
}

// archived reports whether the slot's row is in an archive, which may be on another machine.
func (s *approvals) archived(slot tables.Slot) bool {
	begins, _ := s.Ledger.Begins()
	return begins != nil && slot.Seq <= begins.Seq
}
