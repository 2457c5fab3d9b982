// The ledger does not record which proxies a run skipped, only how many and by which limits. The
// skipped proxies are therefore derived from the current expiries.

package schedules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// Run is one run of a schedule: a slot, the slots that continued it, and the result. Due is from
// the first slot. Outcome, Skipped and Reason are from the last slot. The other results are sums
// over all slots.
type Run struct {
	tables.SlotResult

	Began time.Time
	Slots []tables.Slot // newest first
}

// Last returns the run's last slot.
func (r *Run) Last() tables.Slot { return r.Slots[0] }

// Plan returns the hash of the plan on hold, or of the run's first plan.
func (r *Run) Plan() string {
	if last := r.Last(); last.State == StateHeld {
		return last.Plan
	}
	return r.Slots[len(r.Slots)-1].Plan
}

// replacedBy changes the result of a run that had proxies left when the next run began: the next run
// plans them again, so the run did not skip them.
func (r *Run) replacedBy(next *Run) {
	if r.Left == 0 || r.Last().State != stateFinished {
		return
	}
	r.Skipped = r.SkippedSoFar()
	r.Reason = strings.TrimSuffix(fmt.Sprintf("the run of %s replaced it before it renewed %d more; %s", next.Began.UTC().Format(time.RFC3339), r.Left, r.Reason), "; ")
	if r.Left = 0; r.OverLimit == 0 {
		r.Outcome = tables.OutcomeReplaced
	}
}

// Whole reports whether the run's first slot was read.
func (r *Run) Whole() bool { return r.Slots[len(r.Slots)-1].At.Equal(r.Began) }

// Runs returns the runs of a schedule's latest slots, newest first. limit is the number of
// slots. To find the first slot of the oldest run, it reads up to partsRead earlier slots.
func Runs(ctx context.Context, l *ledger.Ledger, schedule string, limit int) (all []*Run, err error) {
	slots, err := l.Sweeps.SlotsOf(ctx, schedule, limit)
	for _, slot := range slots {
		if all, err = addSlot(ctx, l, all, slot); err != nil {
			return nil, err
		}
	}
	for i := 1; i < len(all); i++ {
		all[i].replacedBy(all[i-1])
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
	r.Failed += x.Failed
	r.InReview += x.InReview
	r.FailedFirst, r.ReviewFirst = cmp.Or(r.FailedFirst, x.FailedFirst), cmp.Or(r.ReviewFirst, x.ReviewFirst)
	r.ChargedCents += x.ChargedCents
	return all, nil
}

const partsRead = 50

// LastRun is the last run of a schedule, including the slots that continued it.
type LastRun struct {
	Began  time.Time // the first slot
	Slot   time.Time // the last slot
	Result tables.SlotResult

	of    plans.Schedule
	taken map[string]bool // proxies of the run's commands
	paid  func(context.Context, tables.Proxy) (tables.Paid, error)
}

// ReadLastRun returns the last run of a schedule. It returns nil if there is no run, or if not
// all plans of the run can be read.
func ReadLastRun(ctx context.Context, l *ledger.Ledger, of plans.Schedule) (*LastRun, error) {
	slots, err := l.Sweeps.SlotsOf(ctx, of.Name, partsRead)
	if err != nil || len(slots) == 0 {
		return nil, err
	}
	run := &LastRun{Slot: slots[0].At, of: of, taken: map[string]bool{}, paid: l.Fleet.LastPaid}
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

func beganAt(f fact.SweepPlanned) time.Time {
	if f.Of != nil {
		return *f.Of
	}
	return f.Slot
}

// takePublished adds the proxies that a plan published. part is 0 for the latest plan. A
// declined plan published nothing.
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

// Skipped reports whether the run skipped a proxy of its schedule: the proxy was due by its
// current expiry, and no command of the run contains it. It returns false for a proxy that was
// renewed or bought since the run.
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

// LaterInThisRun is what a run does with a proxy that it has not renewed yet, while it continues.
const LaterInThisRun = "later in this run"

// What a run does with a skipped proxy: LaterInThisRun, the limit of the run's money if it skipped the
// proxy for lack of it, or both if the ledger does not tell. It returns "" if the run has no reason
// for the proxy. The proxy is not barred.
func (x *LastRun) stateOf(ctx context.Context, p tables.Proxy) (string, error) {
	switch {
	case x.Result.Left == 0:
		return "", nil
	case x.Result.OverLimit == 0:
		return LaterInThisRun, nil
	}
	paid, err := x.paid(ctx, p)
	switch {
	case err != nil:
		return "", err
	case paid.Days == 0 || paid.At.After(x.Slot):
		return LaterInThisRun, nil // the plan left it because its price was not known
	case x.Result.Left == x.Result.LeftUnpriced:
		return x.Result.Limit, nil
	}
	return LaterInThisRun + ", or " + x.Result.Limit, nil
}

// Text says that the run skipped a proxy, and why, if the ledger has a reason. The proxy is not
// barred.
func (x *LastRun) Text(ctx context.Context, p tables.Proxy) (string, error) {
	state, err := x.stateOf(ctx, p)
	text := "skipped it"
	switch why := x.Why(); {
	case state == LaterInThisRun:
		text = "continues, and renews it later as far as its budgets allow"
	case state != "" && state == x.Result.Limit:
		text += ": " + x.Result.Reason
	case state != "":
		text = "has not renewed it yet: " + why
	case why != "":
		text += ": " + why
	}
	return fmt.Sprintf("The run of %s %s.", x.Began.UTC().Format(time.RFC3339), text), err
}

// Why says why the run skipped proxies, as far as the ledger has reasons. It has none for single
// proxies.
func (x *LastRun) Why() string {
	var why string
	skipped := x.Result.SkippedSoFar()
	switch forMoney := int64(x.Result.OverLimit); {
	case x.Result.Outcome == tables.OutcomeDeclined:
		return "its plan was declined " + x.Result.Reason
	case x.Result.Left > 0 && skipped == 0:
		return "the run continues and renews them as far as its budgets allow"
	case forMoney >= skipped:
		why = x.Result.Reason
	case forMoney > 0:
		why = fmt.Sprintf("%d of %d for this reason: %s", forMoney, skipped, x.Result.Reason)
	}
	if x.Result.Left > 0 {
		why = strings.TrimSuffix(fmt.Sprintf("the run continues with %d more as far as its budgets allow, and skipped %d: %s", x.Result.Left, skipped, why), ": ")
	}
	return why
}

// EachSkipped calls yield for every listed proxy that the run skipped and that is still
// due, by nearest expiry. read returns the content of a file of proxy ids that the
// schedule's match names.
func (x *LastRun) EachSkipped(ctx context.Context, l *ledger.Ledger, read func(name string) ([]byte, error), yield func(tables.Proxy) error) error {
	if x.Result.Skipped == 0 {
		return nil
	}
	lists, err := x.of.Match.ReadLists(read)
	if err != nil {
		return err
	}
	filter := x.of.Match.Filter(lists)
	return l.Fleet.EachExpiring(ctx, time.Unix(0, 0), x.Slot.Add(x.of.RenewBefore).Add(time.Microsecond), func(p tables.Proxy) error {
		if !filter.Fits(p) || !x.Skipped(p) {
			return nil
		}
		return yield(p)
	})
}

// SkippedProxy is a proxy that a run skipped. Barred is what else than money keeps it from being
// renewed now, or "". State is otherwise what the run does with it: LaterInThisRun, the limit of its
// money or OutcomeDeclined if it skipped the proxy for that, both if the ledger does not tell, or "".
type SkippedProxy struct {
	tables.Proxy

	Barred, State string
}

// ListSkipped returns the first proxies that EachSkipped finds, and how many it finds. all has the
// account's schedules.
func (x *LastRun) ListSkipped(ctx context.Context, l *ledger.Ledger, all []plans.Schedule, read func(name string) ([]byte, error), now time.Time, limit int) (rows []SkippedProxy, n int, err error) {
	coverage, err := plans.NewCoverage(all, plans.HistoryOf(l.Queries), read)
	if err != nil {
		return nil, 0, err
	}
	free := 0
	err = x.EachSkipped(ctx, l, read, func(p tables.Proxy) (err error) {
		if n++; n > limit {
			return nil
		}
		row := SkippedProxy{Proxy: p}
		if row.Barred, _, err = coverage.Barred(ctx, p, now); err == nil && row.Barred == "" {
			free++
			row.State, err = x.stateOf(ctx, p)
		}
		rows = append(rows, row)
		return err
	})
	state := "" // the run has no reasons for single proxies
	switch {
	case x.Result.Outcome == tables.OutcomeDeclined:
		state = tables.OutcomeDeclined
	case x.Result.Left == 0 && n <= limit && free <= x.Result.OverLimit:
		state = x.Result.Limit
	}
	for i := range rows {
		if state != "" && rows[i].Barred == "" {
			rows[i].State = state
		}
	}
	return rows, n, err
}

// overLimit counts the proxies that a run skipped for lack of money and that are still due.
type overLimit struct {
	revision int64 // the ledger's revision before the count
	n        int
	keep     time.Time // until then the count applies to later revisions too: it is slow in a large fleet
}

var errCounted = errors.New("as many as were skipped for lack of money")

// stillOverLimit returns how many of the proxies that the last run skipped for lack of money are
// still due: another schedule or an operator may have renewed them. If that cannot be told, it
// returns the run's own count.
func (s *statuses) stillOverLimit(ctx context.Context, r *scheduleRunner, most int) (n int, err error) {
	if most == 0 {
		return 0, nil
	}
	revision, known := s.Ledger.Revision()
	began := s.Clock()
	if kept := r.overLimit.Load(); kept != nil && (known && kept.revision == revision || began.Before(kept.keep)) {
		return min(kept.n, most), nil
	}
	run, err := ReadLastRun(ctx, s.Ledger, r.Schedule)
	if err != nil || run == nil {
		return most, err
	}
	err = run.EachSkipped(ctx, s.Ledger, s.ReadFile, func(tables.Proxy) error {
		if n++; n >= most {
			return errCounted
		}
		return nil
	})
	if err != nil && !errors.Is(err, errCounted) {
		return most, ctx.Err() // an unreadable list is reported by the run
	}
	r.overLimit.Store(&overLimit{revision, n, began.Add(20 * s.Clock().Sub(began))})
	return n, nil
}
