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
	"perennial/ledger/failpoint"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/queue"
	"perennial/queue/publish"
	"perennial/schedules/plans"
	"perennial/upstream"
)

const (
	// StateHeld is the state of a slot whose plan needs approval.
	StateHeld     = "held"
	statePlanned  = "planned"
	stateFinished = "finished"
)

type sweep struct {
	plans.Made

	again           []json.RawMessage // published by earlier runs, not yet accepted by the runner
	onItsWay        map[string]bool   // proxies of the commands in again
	servedByEarlier bool              // an earlier slot's plan has the same hash and also serves this slot
}

type firing struct {
	slot   time.Time
	missed []time.Time // missed slots that this run also serves
	rest   *remainder  // the run that this slot continues; nil for a new run
	byHand bool        // requested by an operator
	by     string
	reason string
	after  *time.Time // slot of the last run that the operator knows; zero for none, nil if that is not checked
}

func (f firing) before() remainder {
	if f.rest == nil {
		return remainder{}
	}
	return *f.rest
}

// Makes the run of one slot. It returns ErrFired if the slot already had a run, errPaused if the
// schedule is paused, and errSkew if the clock is wrong. The caller may retry after any error
// except ErrFired.
func (s *Sweeper) fire(ctx context.Context, r *scheduleRunner, f firing) (sweep, error) {
	if err := r.turn.Take(ctx); err != nil {
		return sweep{}, err
	}
	defer r.turn.Give()
	if err := s.finishPlanned(ctx, r); err != nil {
		return sweep{}, err
	}
	if err := s.checkAfter(ctx, r, f); err != nil {
		return sweep{}, err
	}
	paused, err := s.Ledger.Sweeps.SchedulePaused(ctx, r.Name)
	if err := s.mayFire(f, paused, err); err != nil {
		return sweep{}, err
	}
	if err := s.checkClock(); err != nil {
		return sweep{}, err
	}
	if err := s.replaces.replace(ctx, r); err != nil {
		if ctx.Err() != nil {
			return sweep{}, ctx.Err()
		}
		s.log(r).WithError(err).Warn("proxies that the provider will not renew could not all be replaced; the next run tries again")
	}
	plan, err := s.decide(ctx, r, f)
	if err != nil {
		return sweep{}, err
	}
	s.logPlan(r, plan)
	if err := s.publishAs(ctx, r, queue.KindProxyRenew, plan.again); err != nil {
		return plan, err
	}
	if plan.State == statePlanned {
		failpoint.Reached(ctx, "slot.claimed")
		if err := s.publish(ctx, r, plan.Commands); err != nil {
			return plan, err // the slot stays planned, and the next run or a restart publishes the commands
		}
		plan.State = stateFinished
		finished := fact.SweepFinished{Schedule: r.Name, Slot: f.slot, Plan: plan.Hash, Published: len(plan.Commands), OverLimit: plan.OverLimit()}
		if err := s.finishSlot(ctx, finished); err != nil {
			return plan, err
		}
	}
	r.leave(plan.remainder(f.before()))
	r.trouble.clear()
	return plan, nil
}

// PlanNow returns what the schedule's run would do now. The plan's State is StateHeld if the
// same plan already needs approval. PlanNow appends and publishes nothing. If the table of
// proxies is not fresh, it lists the proxies first.
func (s *Sweeper) PlanNow(ctx context.Context, schedule string) (plans.Plan, error) {
	r, err := runnerOf(s.runners, schedule)
	if err != nil {
		return plans.Plan{}, err
	}
	if err := s.ensureFresh(ctx); err != nil {
		return plans.Plan{}, err
	}
	if err := s.reads.readUnread(ctx, r); err != nil {
		return plans.Plan{}, err
	}
	plan, err := s.plan(ctx, r, firing{})
	if err == nil {
		err = s.offers.addListPrices(ctx, r, &plan.Plan)
	}
	if err == nil && plan.NeedsApproval {
		held, errHeld := s.Ledger.Sweeps.HeldSlots(ctx, plan.Hash)
		if err = errHeld; len(held) > 0 {
			plan.State = StateHeld
		}
	}
	return plan.Plan, err
}

// maxAhead is how far after the current time the slot of a manual run may be.
const maxAhead = time.Minute

// RunNow makes a run in the slot of the current second in UTC, or in the next free slot. The
// plan's State is StateHeld or finished. It returns ErrFired if every second of the next minute
// has a slot, and a *command.RefusedError if the schedule's last run is not in the slot after. A zero
// after means that the schedule has never run, and nil that this is not checked.
func (s *Sweeper) RunNow(ctx context.Context, schedule, by, reason string, after *time.Time) (plans.Plan, error) {
	r, err := runnerOf(s.runners, schedule)
	if err != nil {
		return plans.Plan{}, err
	}
	now := s.Clock().UTC().Truncate(time.Second)
	for slot := now; ; slot = slot.Add(time.Second) {
		plan, err := s.fire(ctx, r, firing{slot: slot, byHand: true, by: by, reason: reason, after: after})
		if err == nil {
			err = s.offers.addListPrices(ctx, r, &plan.Plan)
		}
		if !errors.Is(err, ErrFired) || slot.Sub(now) >= maxAhead {
			return plan.Plan, err
		}
	}
}

// checkAfter returns a *command.RefusedError if the schedule has run since the last run that the
// operator knows. Otherwise a request that is sent twice would spend a budget twice. The caller must
// hold the schedule's lock turn.
func (s *Sweeper) checkAfter(ctx context.Context, r *scheduleRunner, f firing) error {
	if f.after == nil {
		return nil
	}
	last, err := s.Ledger.Sweeps.LastSlot(ctx, r.Name)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	if !last.At.Equal(*f.after) {
		return command.Refuse("schedule %s has run at %s since: look at that run first", r.Name, last.At.UTC().Format(time.RFC3339))
	}
	return nil
}

// A run is planned and recorded under the lock counting. Otherwise another run or an approval
// could plan to spend the same money.
func (s *Sweeper) decide(ctx context.Context, r *scheduleRunner, f firing) (sweep, error) {
	r.listing.Store(true)
	err := s.ensureFresh(ctx)
	if err == nil && f.byHand {
		err = s.reads.readUnread(ctx, r)
	}
	if r.listing.Store(false); err != nil {
		return sweep{}, err
	}
	if err := s.awaitListed(ctx, r, f); err != nil {
		return sweep{}, err
	}
	if err := s.counting.Take(ctx); err != nil {
		return sweep{}, err
	}
	defer s.counting.Give()
	plan, err := s.plan(ctx, r, f)
	if err != nil {
		return sweep{}, err
	}
	err = s.record(ctx, r, f, &plan)
	return plan, err
}

// ensureFresh waits until the table of proxies is fresh. It returns errSkew if the clock is
// wrong.
func (s *Sweeper) ensureFresh(ctx context.Context) error {
	if err := s.checkClock(); err != nil {
		return err
	}
	fresh, err := s.lister.Fresh(ctx, tables.FreshFor)
	if err == nil && !fresh {
		err = s.lister.WaitPass(ctx)
	}
	if err != nil {
		return err
	}
	return s.checkClock() // the listing may have shown the provider's time
}

func (s *Sweeper) plan(ctx context.Context, r *scheduleRunner, f firing) (sweep, error) {
	taken := f.before().taken
	in, err := s.reads.inputs(ctx, r, taken, f.before().spent)
	if err != nil {
		return sweep{}, err
	}
	in.ByHand = f.byHand
	in.ListPrice = func(ctx context.Context, p tables.Proxy) fact.Cents {
		return s.offers.listPrice(ctx, p, r.DurationDays)
	}
	made, err := plans.Make(ctx, in.Inputs, plans.HistoryOf(s.Ledger.Queries))
	if err != nil {
		return sweep{}, err
	}
	plan := sweep{Made: made, again: in.again, onItsWay: in.OnItsWay}
	plan.UnknownIDs = in.unknownIDs
	plan.Currency, err = s.Ledger.Currency(ctx)
	if err == nil && plan.Due == 0 && taken == nil {
		plan.MatchesNone, err = MatchesNone(ctx, s.Ledger.Fleet, r.Schedule, s.ReadFile)
	}
	if err == nil {
		err = s.noteUnusable(ctx, &plan.Plan)
	}
	return plan, err
}

func (c *Config) providerNow() time.Time {
	if at := c.ProviderTime(); !at.IsZero() {
		return at
	}
	return c.Clock()
}

func (c *Config) checkClock() error {
	// Round removes the monotonic readings, so that wall clocks are compared.
	skew := c.Clock().Round(0).Sub(c.providerNow().Round(0))
	if skew > upstream.MaxSkew || skew < -upstream.MaxSkew {
		way := "ahead"
		if skew < 0 {
			way = "behind"
		}
		return fmt.Errorf("%w (it is %s %s)", errSkew, skew.Round(time.Second).Abs(), way)
	}
	return nil
}

// Appends the slot's facts in one transaction. The facts about shortfalls come before
// sweep.planned, and the fact that the plan needs approval comes after it. The method said relies
// on this order.
func (s *Sweeper) record(ctx context.Context, r *scheduleRunner, f firing, plan *sweep) error {
	planned := fact.SweepPlanned{
		Schedule: r.Name, Slot: f.slot, Plan: plan.Hash, Due: plan.Unpaid(), EstimateCents: plan.Estimate().Cents, UnknownPrice: plan.Unpriced, Commands: plan.Commands,
		Planned: plan.Planned, Left: plan.Left, By: f.by, Reason: f.reason, User: fact.UserOf(ctx), Unusable: plan.LeftOutCounts[plans.ReasonBadID] + plan.LeftOutCounts[plans.ReasonBadExpiry] + plan.UnusableCount,
	}
	if f.rest != nil {
		planned.Of = &f.rest.began
	}
	slot := f.slot
	plan.Slot = &slot
	err := s.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		paused, err := tx.SchedulePaused(r.Name)
		if err := s.mayFire(f, paused, err); err != nil {
			return err // paused since the run began
		}
		fired, err := tx.HasSlot(r.Name, f.slot)
		if err != nil {
			return err
		}
		if fired {
			return fmt.Errorf("schedule %s, slot %s: %w", r.Name, f.slot.Format(time.RFC3339), ErrFired)
		}
		if planned.Missed, err = unfired(tx, r.Name, f.missed); err != nil {
			return err
		}
		if len(planned.Missed) > 0 {
			if err := tx.Append(fact.SweepMissed{Schedule: r.Name, Slots: planned.Missed, ServedBy: f.slot}); err != nil {
				return err
			}
		}
		if plan.NeedsApproval {
			if err := s.holdOnce(tx, r, f, plan, &planned); err != nil {
				return err
			}
		}
		facts, state := sweepFacts(planned, *plan)
		plan.State = state
		if err := tx.Append(facts...); err != nil {
			return err
		}
		return askPerson(tx, plan.ForPerson)
	})
	if err != nil {
		return fmt.Errorf("record the sweep: %w", err)
	}
	return nil
}

// maxAsked limits how many reviews one run opens. The next run opens the remaining reviews.
const maxAsked = 1000

// askPerson opens a review for each proxy that schedules stop renewing, unless a review for the
// same expiry is still open.
func askPerson(tx *ledger.Tx, all []fact.ProxyReview) error {
	asked := 0
	for _, f := range all {
		waits, err := tx.InSweepReview(f.ProxyID, f.ExpiresAt)
		if err != nil {
			return err
		}
		if waits {
			continue
		}
		if asked++; asked > maxAsked {
			return nil
		}
		last := tx.LastEnding
		if f.Endings == 0 {
			last = tx.LastPaidBy
		}
		if f.Ref, err = last(f.ProxyID); err != nil {
			return fmt.Errorf("proxy %s: its last renewal: %w", f.ProxyID, err)
		}
		if err := tx.Append(f); err != nil {
			return err
		}
	}
	return nil
}

func unfired(tx *ledger.Tx, schedule string, slots []time.Time) (left []time.Time, err error) {
	for _, slot := range slots {
		fired, err := tx.HasSlot(schedule, slot)
		if err != nil {
			return nil, err
		}
		if !fired {
			left = append(left, slot)
		}
	}
	return left, nil
}

// sweepFacts returns the slot's facts and state. A run without commands is finished.
func sweepFacts(planned fact.SweepPlanned, plan sweep) (facts []fact.Fact, state string) {
	for _, x := range plan.Shortfalls {
		held := fact.SweepHeld{
			Schedule: planned.Schedule, Slot: planned.Slot, Plan: planned.Plan, Code: plans.HeldCodes[x.Reason], Reason: x.Text(plan.Currency),
			LeftOut: x.Proxies, ShortfallCents: x.Cents.Or(0), UnknownPrice: x.Unpriced, FirstLostAt: &x.FirstLostAt,
		}
		if x.Reason == plans.ReasonWallet {
			held.ProviderCents = plan.WalletCents
		}
		facts = append(facts, held)
	}
	facts = append(facts, planned)
	switch {
	case plan.servedByEarlier:
		return append(facts, fact.SweepHeld{
			Schedule: planned.Schedule, Slot: planned.Slot, Plan: planned.Plan, Code: fact.SweepHeldEarlierPlan,
			Reason: fmt.Sprintf("a plan of an earlier run needs an approval: `perennial schedules approve %s` carries it out, and what has come due since is planned then", plan.Hash),
		}), StateHeld
	case plan.NeedsApproval:
		estimate := plan.WithListed().Text(plan.Currency)
		if plan.ListPriceCents > 0 {
			estimate += fmt.Sprintf(" (%s of it list price, no renewal paid yet)", fact.Amount(plan.ListPriceCents, plan.Currency))
		}
		if plan.SpentBefore > 0 {
			estimate += ", plus " + fact.Amount(plan.SpentBefore, plan.Currency) + " already published in this run,"
		}
		return append(facts, fact.SweepHeld{
			Schedule: planned.Schedule, Slot: planned.Slot, Plan: planned.Plan, Code: fact.SweepHeldApproval, UnknownPrice: plan.Unpriced,
			Reason: fmt.Sprintf("its estimate of %s exceeds approve_over_cents (%s): `perennial schedules approve %s` carries it out",
				estimate, fact.Amount(plan.ApproveOverCents, plan.Currency), plan.Hash),
		}), StateHeld
	case len(planned.Commands) > 0:
		return facts, statePlanned
	}
	return append(facts, fact.SweepFinished{Schedule: planned.Schedule, Slot: planned.Slot, Plan: planned.Plan, OverLimit: plan.OverLimit()}), stateFinished
}

func (s *Sweeper) logPlan(r *scheduleRunner, plan sweep) {
	log := s.log(r).WithField("slot", plan.Slot).WithField("plan", plan.Hash)
	log.WithField("due", plan.Unpaid()).WithField("proxies", len(plan.Included)).WithField("estimate_cents", plan.Estimate().Cents).
		WithField("unpriced", plan.Unpriced).Infof("sweep %s", plan.State)
	for _, x := range plan.Shortfalls {
		log.Warn(x.Text(plan.Currency))
	}
	if n := len(plan.UnknownIDs); n > 0 {
		log.Warnf("its lists name proxies that no listing has shown, such as %.80q (%d in the plan): check their spelling", plan.UnknownIDs[0], n)
	}
	if plan.MatchesNone != "" {
		log.Warn(plan.MatchesNone)
	}
	for _, why := range []string{plans.ReasonPerson, plans.ReasonBeyond, plans.ReasonBadID, plans.ReasonBadExpiry, plans.ReasonNotText} {
		if n := plan.LeftOutCounts[why]; n > 0 {
			log.Warnf("%d due proxies are skipped, each for this reason: %s", n, why)
		}
	}
}

// publishedTogether is the stream's limit for an atomic batch. A larger plan needs several
// batches. After a failure, only the remaining batches are retried.
const publishedTogether = 1000

// Returns when all commands are on the stream. If ctx ends first, it returns the context's error.
// Publishing a command twice is harmless: the ledger detects duplicates by their ids.
func (c *Config) publish(ctx context.Context, r *scheduleRunner, commands []json.RawMessage) error {
	err := c.publishAs(ctx, r, queue.KindProxyRenew, commands)
	if err == nil {
		failpoint.Reached(ctx, "plan.published")
	}
	return err
}

func (c *Config) publishAs(ctx context.Context, r *scheduleRunner, kind queue.Kind, commands []json.RawMessage) error {
	out := make([]publish.Outgoing, len(commands))
	for i, data := range commands {
		out[i] = publish.Outgoing{Kind: kind, Data: data, Priority: queue.PriorityBulk}
	}
	together := int(failpoint.Size(ctx, "plan.together", publishedTogether))
	for first := 0; first < len(out); first += together {
		if first > 0 {
			failpoint.Reached(ctx, "plan.half")
		}
		if err := c.publishSome(ctx, r, out[first:min(first+together, len(out))]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) publishSome(ctx context.Context, r *scheduleRunner, out []publish.Outgoing) error {
	retry := sleep.Doubling(time.Second, time.Minute)
	defer r.unstored.Store(nil)
	for {
		err := c.Publisher.PublishCommands(ctx, c.Account, out)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.unstored.Store(&err)
		c.log(r).WithError(err).Warn("the sweep's commands could not be published; they are published again")
		if ended := retry.Wait(ctx); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// finishSlot ignores the end of ctx, because the slot's commands are published.
func (s *Sweeper) finishSlot(ctx context.Context, f fact.SweepFinished) error {
	err := s.Ledger.Write(context.WithoutCancel(ctx), func(tx *ledger.Tx) error { return tx.Append(f) })
	if err != nil {
		return fmt.Errorf("finish the sweep of %s at %s: %w", f.Schedule, f.Slot.Format(time.RFC3339), err)
	}
	return nil
}

// finishPlanned publishes the commands of planned slots, which may already be on the stream, and
// finishes the slots. The caller must hold the schedule's lock turn.
func (s *Sweeper) finishPlanned(ctx context.Context, r *scheduleRunner) error {
	slots, err := s.Ledger.Sweeps.UnfinishedSlots(ctx, r.Name)
	if err != nil {
		return err
	}
	for _, slot := range slots {
		planned, err := s.Ledger.Sweeps.Plan(ctx, slot)
		if err != nil {
			return fmt.Errorf("read the plan of %s at %s: %w", r.Name, slot.At.Format(time.RFC3339), err)
		}
		if err := s.publish(ctx, r, planned.Commands); err != nil {
			return err
		}
		result, err := s.Ledger.Sweeps.SlotResult(ctx, slot)
		if err != nil {
			return err
		}
		finished := fact.SweepFinished{Schedule: r.Name, Slot: slot.At, Plan: slot.Plan, Published: len(planned.Commands), OverLimit: result.OverLimit}
		if err := s.finishSlot(ctx, finished); err != nil {
			return err
		}
	}
	return nil
}
