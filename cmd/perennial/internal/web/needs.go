// The counts of what needs an operator, computed once for each request. The navigation, the
// overview and the list therefore show the same numbers.

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

// accountNeeds is what needs an operator in one account. Data from the ledger and the number
// of dead letters are current. Data that only the runner has comes from the runner's last
// answer.
type accountNeeds struct {
	verbs.Needs

	Known     bool // the runner has answered; otherwise the total is unknown
	Asked     bool // the runner's first answer is not there yet
	Pauses    []tables.Pause
	Schedules []schedules.Status
	NoRunner  string // why the status of the schedules is unknown; "" if it is known

	reviews []tables.Review    // the oldest reviews
	refused []tables.Rejection // the latest refused commands
}

// needsCache maps an account to its needs, which were counted for one request.
type needsCache struct {
	mu  sync.Mutex
	all map[string]accountNeeds
}

type needsCacheKey struct{}

// withNeeds returns a context in which needs counts each account only once.
func withNeeds(ctx context.Context) context.Context {
	return context.WithValue(ctx, needsCacheKey{}, &needsCache{all: map[string]accountNeeds{}})
}

// needs returns what needs an operator in an account.
func (s *insight) needs(ctx context.Context, a Account) (accountNeeds, error) {
	once, ok := ctx.Value(needsCacheKey{}).(*needsCache)
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

func (s *insight) countNeeds(ctx context.Context, a Account) (n accountNeeds, err error) {
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

// read sets the needs that come from the ledger.
func (n *accountNeeds) read(ctx context.Context, l *ledger.Ledger, now time.Time) (err error) {
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

// countSchedules counts what schedules need. If the runner has not answered, it counts only
// plans and pauses, which the ledger knows.
func (n *accountNeeds) countSchedules() {
	failing, skipped := n.Failing, n.OverLimit
	n.Needs = n.WithSchedules(n.Schedules)
	if n.NoRunner != "" {
		n.Failing, n.OverLimit = failing, skipped
	}
}

// findings returns how many differences from the provider the newest reconciliation found,
// or nil if there was no reconciliation.
func findings(v verbs.Summary, newest *comparison) *int64 {
	n := v.Needs.Findings
	if newest == nil || newest.At.IsZero() || v.Books.ComparedAt != nil && !newest.At.After(*v.Books.ComparedAt) {
		return n
	}
	if found := int64(newest.Findings); newest.OK != nil || found > 0 {
		return &found
	}
	return n // the newest reconciliation could not compare the wallet, so it refutes no earlier finding
}

// refresh updates the runner's answer about the account's schedules with newer plans, runs and
// pauses from the ledger. If the ledger has a newer run, the values that only the runner knows
// are removed, and outdated is true. If the runner has not answered, the rows contain only what
// the ledger knows.
func refresh(ctx context.Context, a Account, now time.Time, answer []schedules.Status, answered bool) (rows []schedules.Status, outdated bool, err error) {
	rows = slices.Clone(answer) // all requests share the answer
	for _, configured := range a.Schedules() {
		i := slices.IndexFunc(rows, func(one schedules.Status) bool { return one.Schedule == configured.Name })
		if i < 0 && answered {
			continue // the runner does not have this schedule
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

// unanswered returns a schedule's status before the runner has answered: its configuration.
func unanswered(s plans.Schedule) schedules.Status {
	return schedules.Status{Schedule: s.Name, Account: s.Account, Cron: s.Cron, Timezone: s.Timezone}
}

// slotOrder lists the states of a run in the order in which it passes through them.
var slotOrder = []string{"", "planned", schedules.StateHeld, "finished", "missed"}

// refreshOne updates one schedule from the ledger. newer reports whether the ledger has a newer
// run.
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
