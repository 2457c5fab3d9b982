// What needs an operator, counted once for a request: the badge of the navigation, the
// card of the overview and the list have the same figures.

package web

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules"
	"perennial/schedules/plans"
)

// lettersWithin limits a page's wait for the number of dead letters.
const lettersWithin = 250 * time.Millisecond

// needsNow is what needs an operator of one account. The ledger and the dead letters are
// read for the request. What only the runner knows is from its last answer.
type needsNow struct {
	verbs.Needs

	Known     bool // the runner has answered: without its figures the total is not known
	Asked     bool // it has not answered yet
	Pauses    []tables.Pause
	Schedules []schedules.Status
	NoRunner  string // why the status of the schedules is not known

	reviews []tables.Review    // the first of them
	refused []tables.Rejection // the latest of them
}

// needsOnce holds the needs that a request has counted, by account.
type needsOnce struct {
	mu  sync.Mutex
	all map[string]needsNow
}

type needsKey struct{}

// withNeeds returns the context of a request, for which needs are counted once.
func withNeeds(ctx context.Context) context.Context {
	return context.WithValue(ctx, needsKey{}, &needsOnce{all: map[string]needsNow{}})
}

// needs returns what needs an operator of an account.
func (s *insight) needs(ctx context.Context, a Account) (needsNow, error) {
	once, ok := ctx.Value(needsKey{}).(*needsOnce)
	if !ok {
		return s.countNeeds(ctx, a)
	}
	once.mu.Lock()
	defer once.mu.Unlock()
	if n, counted := once.all[a.AccountName()]; counted {
		return n, nil
	}
	n, err := s.countNeeds(ctx, a)
	if err == nil {
		once.all[a.AccountName()] = n
	}
	return n, err
}

func (s *insight) countNeeds(ctx context.Context, a Account) (n needsNow, err error) {
	glance, shown := s.glance(ctx, a), askNow(ctx, s.figures, a, verbs.Show, struct{}{})
	n.Known, n.Asked = glance.problem() == "", glance.Pending()
	if n.Known {
		n.Uncovered = glance.Value.Needs.Uncovered
		n.Findings = findings(glance.Value, s.compared(a, shown))
	}
	if err := n.read(ctx, a.Ledger(), s.Clock()); err != nil {
		return n, err
	}
	if n.Schedules, n.NoRunner, err = s.sweeps(ctx, a); err != nil {
		return n, err
	}
	n.countSchedules()
	limited, cancel := context.WithTimeout(ctx, lettersWithin)
	defer cancel()
	if letters, err := a.CountLetters(limited); err == nil {
		n.DeadLetters = &letters
	}
	n.Total = n.Sum()
	return n, nil
}

// read reads what the ledger knows.
func (n *needsNow) read(ctx context.Context, l *ledger.Ledger, now time.Time) (err error) {
	if n.Pauses, err = l.Operations.Pauses(ctx); err != nil {
		return err
	}
	for _, p := range n.Pauses {
		if p.Until == nil {
			n.Paused++
		}
	}
	counts, err := l.Operations.StateCounts(ctx)
	if err != nil {
		return err
	}
	n.Held = counts[fact.StateHeld]
	if n.reviews, err = l.Operations.FirstReviews(ctx, needsListed); err != nil {
		return err
	}
	if n.Reviews = int64(len(n.reviews)); n.Reviews == needsListed {
		if n.Reviews, err = l.Operations.CountReviews(ctx); err != nil {
			return err
		}
	}
	since := now.Add(-verbs.RefusedFor)
	if n.refused, err = l.Operations.Rejections(ctx, since, needsListed); err != nil {
		return err
	}
	if n.Refused = int64(len(n.refused)); n.Refused == needsListed {
		n.Refused, err = l.Operations.CountRefused(ctx, since)
	}
	return err
}

// countSchedules counts what schedules need. The ledger has plans and pauses. Only the
// runner knows the rest.
func (n *needsNow) countSchedules() {
	failing, skipped := n.Failing, n.OverLimit
	n.Needs = n.WithSchedules(n.Schedules)
	if n.NoRunner != "" {
		n.Failing, n.OverLimit = failing, skipped
	}
}

// findings returns how many differences from the provider the newest comparison found; nil
// if none was made.
func findings(v verbs.Summary, newest *comparison) *int64 {
	n := v.Needs.Findings
	if newest == nil || newest.At.IsZero() || v.Books.ComparedAt != nil && !newest.At.After(*v.Books.ComparedAt) {
		return n
	}
	if found := int64(newest.Findings); newest.OK != nil || found > 0 {
		return &found
	}
	return n // it could not compare the wallet, so it refutes no earlier finding
}

// refresh brings the runner's answer about the account's schedules up to the ledger: plans,
// runs and pauses of the ledger are newer. What the answer does not know of a newer run is
// left out, and the answer is outdated. Without an answer the rows have what the ledger
// knows.
func refresh(ctx context.Context, a Account, now time.Time, answer []schedules.Status, answered bool) (rows []schedules.Status, outdated bool, err error) {
	rows = slices.Clone(answer) // it is shared by all requests
	for _, configured := range a.Schedules() {
		i := slices.IndexFunc(rows, func(one schedules.Status) bool { return one.Schedule == configured.Name })
		if i < 0 && answered {
			continue // the runner does not have it
		}
		if i < 0 {
			i, rows = len(rows), append(rows, unanswered(configured))
		}
		newer, err := refreshOne(ctx, a.Ledger(), now, &rows[i])
		if err != nil {
			return nil, false, err
		}
		outdated = outdated || newer
	}
	return rows, outdated, nil
}

// unanswered is the status of a schedule of which the runner says nothing.
func unanswered(s plans.Schedule) schedules.Status {
	return schedules.Status{Schedule: s.Name, Account: s.Account, Cron: s.Cron, Timezone: s.Timezone}
}

// slotOrder orders the states that a slot passes through.
var slotOrder = []string{"", "planned", schedules.StateHeld, "finished", "missed"}

// refreshOne brings one schedule up to the ledger. newer reports whether the ledger has a
// newer run.
func refreshOne(ctx context.Context, l *ledger.Ledger, now time.Time, one *schedules.Status) (newer bool, err error) {
	last, err := l.Sweeps.LastSlot(ctx, one.Schedule)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return false, err
	}
	if known := one.LastSlot; err == nil {
		newer = known == nil || last.At.After(*known) || last.At.Equal(*known) && slices.Index(slotOrder, last.State) > slices.Index(slotOrder, one.State)
	}
	if newer {
		one.LastSlot, one.State, one.Plan, one.Result, one.Why = &last.At, last.State, "", nil, ""
		if last.State == schedules.StateHeld {
			one.Plan = last.Plan
		}
	}
	paused, err := l.Sweeps.SchedulePaused(ctx, one.Schedule)
	switch {
	case errors.Is(err, ledger.ErrNotFound), err == nil && paused.Until != nil && !paused.Until.After(now):
		one.Paused = nil
	case err != nil:
		return newer, err
	default:
		if one.Paused = &paused; paused.Until == nil {
			one.NextSlot = nil
		}
	}
	return newer, nil
}
