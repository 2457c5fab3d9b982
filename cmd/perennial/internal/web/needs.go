// What needs an operator: the counts, computed once for each request, and the list. Each
// entry has one action. The overview and a separate page show the list.

package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/decide"
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
	Asked     bool // the runner has been asked and has not answered yet
	Pauses    []tables.Pause
	Schedules []schedules.Status
	NoRunner  string // why the status of the schedules is unknown; "" if it is known

	reviews []tables.Review    // the oldest reviews
	refused []tables.Rejection // the latest refused commands
}

// countedNeeds maps an account to its needs, as counted for one request. Only the goroutine that
// handles the request uses it.
type countedNeeds map[string]accountNeeds

type countedNeedsKey struct{}

// withNeeds returns a context in which needs counts each account only once.
func withNeeds(ctx context.Context) context.Context {
	return context.WithValue(ctx, countedNeedsKey{}, countedNeeds{})
}

func (s *insight) needs(ctx context.Context, a Account) (accountNeeds, error) {
	counted, ok := ctx.Value(countedNeedsKey{}).(countedNeeds)
	if n, known := counted[a.AccountName()]; known {
		return n, nil
	}
	n, err := s.countNeeds(ctx, a)
	if err == nil && ok {
		counted[a.AccountName()] = n
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

// needsListed limits how many reviews, and how many refused commands, have their own entry.
const needsListed = 10

// need is one thing that needs an operator, with the page where the operator can act.
type need struct {
	Level   string // color of its state: review or held
	Kind    string
	Subject string
	Text    string
	Action  string
	To      string // address of the page
}

type attentionView struct {
	Needs    []need
	Unknown  bool // the runner does not answer, so only the ledger's entries are listed
	Paused   []tables.Pause
	Currency string
}

// glance returns the runner's summary of the account without values that take long to compute,
// because a slow answer would be refreshed rarely.
func (s *insight) glance(ctx context.Context, a Account) Made[verbs.Summary] {
	return askNow(ctx, s.figures, a, verbs.AtAGlance, verbs.SummaryRequest{NeedsOnly: true})
}

// badge returns the number of things that need an operator. It returns "?" if the number is
// unknown, and "" if it is 0.
func (s *insight) badge(ctx context.Context, a Account) string {
	n, err := s.needs(ctx, a)
	switch {
	case err != nil || !n.Known:
		return "?"
	case n.Total == 0:
		return ""
	}
	return strconv.FormatInt(n.Total, 10)
}

func (s *overviewPages) attention(q accountRequest) (page, error) {
	v, err := s.insight.attentionList(q.Context(), q.account)
	return page{name: "attention", title: "Needs attention", data: v}, err
}

// attentionList returns the list of what needs an operator. The list has an entry for each
// plan and for each of the first needsListed reviews and refused commands, and a count for
// everything else.
func (s *insight) attentionList(ctx context.Context, a Account) (v attentionView, err error) {
	n, err := s.needs(ctx, a)
	if err != nil {
		return v, err
	}
	if v.Currency, err = currencyOf(ctx, a); err != nil {
		return v, err
	}
	name := a.AccountName()
	v.Unknown, v.Paused = !n.Known, n.Pauses
	v.addReviews(name, n)
	v.addRefused(name, n)
	for _, one := range n.Schedules {
		if one.Plan != "" {
			v.Needs = append(v.Needs, need{"held", "Approval", one.Schedule, planText(ctx, a, one.Plan), "Review plan", to(name, "schedule", "id", one.Schedule)})
		}
	}
	for _, p := range n.Parts() {
		if p.Page == "reviews" || p.Page == verbs.PageRefused || p.One == "plan to approve" { // not counted here, because the list shows each of them
			continue
		}
		v.Needs = append(v.Needs, need{"held", "Check", p.Text(), "", "Open", pageOf(name, p)})
	}
	return v, nil
}

// planText describes what a plan that needs approval renews, and its cost.
func planText(ctx context.Context, a Account, plan string) string {
	v, err := approvalOf(ctx, a.Ledger(), plan)
	if err != nil || v == nil {
		return "The plan needs approval."
	}
	return strings.Join(append([]string{"The plan needs approval: " + v.Text() + "."}, v.Notes...), " ")
}

// pageOf returns the address of the page for one kind of need.
func pageOf(account string, p verbs.Need) string {
	switch p.Page {
	case "proxies":
		return to(account, p.Page, "uncovered", "1")
	case "operations":
		if p.Command == "accounts show" {
			return to(account, "attention") + "#paused"
		}
		return to(account, p.Page, "state", string(fact.StateHeld))
	}
	return to(account, p.Page)
}

func (v *attentionView) addRefused(account string, n accountNeeds) {
	for _, r := range n.refused {
		v.Needs = append(v.Needs, need{"held", "Refused", r.CommandID, "The command was not accepted, and nothing was sent: " + r.Reason, "Open", to(account, "operation", "id", r.CommandID)})
	}
	if more := n.Refused - int64(len(n.refused)); more > 0 {
		v.Needs = append(v.Needs, need{"held", "Refused", fmt.Sprintf("%d more within 24 hours", more), "`perennial operations list --state rejected --since 1d` lists them.", "Audit", to(account, "log")})
	}
}

func (v *attentionView) addReviews(account string, n accountNeeds) {
	for _, r := range n.reviews {
		one := need{"review", "Review", r.OperationID, "", "Resolve", to(account, "operation", "id", r.OperationID) + "#review"}
		if r.ProxyID != "" {
			one.Subject = r.ProxyID
		}
		switch {
		case r.Ended:
			one.Text = "It was not renewed: decide whether its schedule tries again."
		case r.AtStakeCents.Or(0) > 0:
			one.Text = "Outcome unknown, up to " + fact.Amount(r.AtStakeCents.Or(0), v.Currency) + ": " + r.Reason
		default:
			one.Text = "Outcome unknown, at an unknown price: " + r.Reason
		}
		v.Needs = append(v.Needs, one)
	}
	if more := n.Reviews - int64(len(n.reviews)); more > 0 {
		v.Needs = append(v.Needs, need{"review", "Review", english.Plural(int(more), "further review", ""), "", "Open", to(account, "reviews")})
	}
}

// pauseText describes a pause: who paused, since when, until when, and why. The text says
// what is paused only if it is a single kind of operation. The page shows the account.
func pauseText(p tables.Pause, now time.Time) string {
	what := "paused"
	if p.Scope != decide.ScopeAccount {
		what = field(p.Scope) + "s are paused"
	}
	why := p.Detail
	if by, reason, signed := strings.Cut(strings.TrimPrefix(p.Detail, "by "), ": "); signed && p.Cause == decide.CausePerson && strings.HasPrefix(p.Detail, "by ") {
		what, why = what+" by "+by, reason
	}
	text := what + " since " + clockText(p.Since, now)
	if p.Until != nil {
		text += " until " + clockText(*p.Until, now)
	}
	if why != "" {
		text += ": " + why
	}
	return text
}

// clockText formats a time in UTC. It omits the date if the date is today.
func clockText(at, now time.Time) string {
	if at, now = at.UTC(), now.UTC(); at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format("15:04 UTC")
	}
	return at.Format("2006-01-02 15:04 UTC")
}

// pausesText describes all pauses. It returns "" if there are none.
func pausesText(all []tables.Pause, now time.Time) string {
	texts := make([]string, 0, len(all))
	for _, p := range all {
		texts = append(texts, pauseText(p, now))
	}
	return strings.Join(texts, "; ")
}

// sendsNoRenewals reports whether renewals are paused.
func sendsNoRenewals(all []tables.Pause) bool {
	for _, p := range all {
		if p.Scope == decide.ScopeAccount || p.Scope == string(fact.KindRenewal) {
			return true
		}
	}
	return false
}
