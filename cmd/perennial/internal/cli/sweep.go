// `perennial schedules`: list, show, plan, run, approve, decline, pause and resume.

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules"
	"perennial/schedules/plans"
)

func (a scheduleCommands) schedulesCommand() *cobra.Command {
	return noun(&cobra.Command{Use: "schedules", Aliases: []string{"schedule", "sweep"}, Short: "List, plan, run, approve, decline, pause and resume schedules"},
		a.sweepList(),
		a.sweepShow(),
		a.sweepOne("plan SCHEDULE", "Preview the next run (changes nothing)", verbs.Plan, &verbs.SweepRequest{}),
		a.sweepRun(),
		a.sweepApprove(),
		a.sweepDecline(),
		a.sweepForecast(),
		a.sweepHistory(),
		a.schedulesPause(),
		a.schedulesResume())
}

func (a scheduleCommands) sweepApprove() *cobra.Command {
	var q verbs.SweepRequest
	c := &cobra.Command{
		Use: "approve PLAN", Short: "Approve a plan that is on hold", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Plan = args[0]
			done := "approved plan " + q.Plan
			if plan, err := askOnce(cmd.Context(), a.app, verbs.Plan, verbs.SweepRequest{Plan: q.Plan}); err == nil {
				done += fmt.Sprintf(" of %s: %s published, about %s", plan.Schedule, english.Plural(len(plan.Included), "renewal", ""), plan.EstimateText())
			}
			a.notePauses(cmd.Context(), "")
			return sendChange(cmd.Context(), a.app, verbs.Approve, q, done+"; `perennial operations list` follows them")
		},
	}
	signed(c, &q.By, &q.Reason, "who approves it", "approved on the command line")
	return c
}

func (a scheduleCommands) sweepDecline() *cobra.Command {
	var q verbs.SweepRequest
	c := &cobra.Command{
		Use: "decline PLAN", Short: "Decline a plan that is on hold", Args: cobra.ExactArgs(1),
		Long: "Ends the plan: nothing in it is renewed. The next run plans what is due then, and may need approval again.\n" +
			"To leave proxies out, see `perennial proxies retire`; to stop the runs, `perennial schedules pause`.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if q.Plan = args[0]; q.Reason == "" {
				return usage("say why: --reason TEXT is kept with your name")
			}
			return sendChange(cmd.Context(), a.app, verbs.Decline, q, "declined plan "+q.Plan+": nothing in it is renewed; the next run plans again what is due then, unless `perennial schedules pause` stops it")
		},
	}
	signed(c, &q.By, &q.Reason, "who declines it", "")
	return c
}

func (a scheduleCommands) sweepList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List schedules with their last and next run", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			list := a.listing("SCHEDULE", "CRON", "LAST", "STATE", "DUE", "RENEWED", "SKIPPED", "CHARGED", "NEXT", "PENDING PLAN", "REASON")
			err := a.eachAccount(ctx, func(one *app, account string) error {
				all, paused, err := one.sweeps(ctx)
				if err != nil {
					return err
				}
				return addSweeps(list, account, all, paused)
			})
			return list.end(err)
		},
	}
}

func (a scheduleCommands) sweepShow() *cobra.Command {
	return &cobra.Command{
		Use: "show SCHEDULE", Short: "Show a schedule with its last and next run, and the plan that is on hold", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, paused, err := a.sweeps(cmd.Context())
			if err != nil {
				return err
			}
			at := slices.IndexFunc(all, func(s schedules.Status) bool { return s.Schedule == args[0] || s.Plan == args[0] })
			if at < 0 {
				return noSchedule(args[0], all)
			}
			s := all[at]
			if a.output == "json" {
				return printJSON(a.stdout, s)
			}
			err = a.table([]string{"SCHEDULE", s.Schedule}, [][]string{
				{"account", s.Account}, {"cron", s.Cron + " " + s.Timezone}, {"last run", ago(s.LastSlot)}, {"state", stateOf(s, paused)}, {"due, renewed, skipped, charged", resultText(s)}, {"next run", stamp(s.NextSlot)},
				{"pending plan", s.Plan}, {"reason", whyOf(s, paused)}, {"skipped", skippedHint(s)},
			})
			if err != nil || s.Plan == "" {
				return err
			}
			plan, err := askOnce(cmd.Context(), a.app, verbs.Plan, verbs.SweepRequest{Plan: s.Plan})
			if err != nil {
				return err
			}
			fmt.Fprintln(a.stdout)
			return a.printPlan(plan)
		},
	}
}

// resultText returns the figures of the last run.
func resultText(s schedules.Status) string {
	if s.Result == nil || s.Result.Due == nil {
		return "not known before the first run"
	}
	return strings.Join(resultOf(s), ", ")
}

// resultOf returns the figures of the last run. During the run, the number of skipped proxies
// is empty, because it is not known yet.
func resultOf(s schedules.Status) []string {
	cells := resultCells(s.Result, s.Currency)
	if s.Left != nil {
		cells[2] = ""
	}
	return cells
}

// skippedHint returns the CLI command that lists the proxies skipped by the last run.
func skippedHint(s schedules.Status) string {
	if s.Result == nil || s.Result.Skipped == 0 {
		return "none"
	}
	return "`perennial schedules history " + s.Schedule + " --skipped` lists them"
}

// notReadYet replaces a not-found error if the configuration file has the schedule. In this
// case the runner has not read the file since its last change.
func (a scheduleCommands) notReadYet(name string, err error) error {
	c, account, failed := a.configured()
	_, unknown := errors.AsType[*notFoundError](err)
	if failed != nil || !unknown || !slices.ContainsFunc(c.SchedulesOf(account), func(s plans.Schedule) bool { return s.Name == name }) {
		return err
	}
	return &exitError{ExitFailed, fmt.Errorf("schedule %q is in %s, and the runner started before: restart `perennial run` to apply the file", name, c.File)}
}

// noSchedule returns the error for an unknown schedule. It lists the existing schedules.
func noSchedule(name string, all []schedules.Status) error {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Schedule
	}
	return usage("no schedule %q\nschedules: %s", name, cmp.Or(strings.Join(names, ", "), "none"))
}

// sweeps returns the account's schedules. paused describes the pauses that keep their renewals
// from being sent, or is "".
func (a *app) sweeps(ctx context.Context) (all []schedules.Status, paused string, err error) {
	if all, err = askOnce(ctx, a, verbs.Sweeps, struct{}{}); err != nil || len(all) == 0 {
		return all, "", err
	}
	v, err := askOnce(ctx, a, verbs.Show, struct{}{})
	var texts []string
	for _, p := range v.Paused {
		if p.Scope != string(fact.KindOrder) {
			texts = append(texts, inspect.PauseText(p))
		}
	}
	return all, strings.Join(texts, "; "), err
}

// addSweeps adds an account's schedules to a listing. It omits the account from JSON, because
// the records already contain it.
func addSweeps(list *listing, account string, all []schedules.Status, paused string) error {
	for _, s := range all {
		if list.app.output == "json" {
			account = ""
		}
		cells := []string{s.Schedule, s.Cron + " " + s.Timezone, ago(s.LastSlot), stateOf(s, paused)}
		if err := list.add(account, s, slices.Concat(cells, resultOf(s), []string{stamp(s.NextSlot), s.Plan, whyOf(s, paused)})...); err != nil {
			return err
		}
	}
	return nil
}

// stateOf returns the state of a schedule: paused, or the result of its last run.
func stateOf(s schedules.Status, paused string) string {
	if s.Paused != nil || paused != "" {
		return "paused"
	}
	if s.Left != nil && s.State == "finished" {
		return "continues"
	}
	return s.Outcome()
}

// whyOf returns the reasons for a schedule's state, including a pause of its account. It
// returns "" if there is no reason.
func whyOf(s schedules.Status, paused string) string {
	if s.Removed != "" {
		return s.Removed
	}
	said := []string{paused, s.MatchesNone, s.Reason()}
	if s.Left != nil {
		said = append(said, leftText(*s.Left))
	}
	if s.Paused != nil {
		said = slices.Insert(said, 0, pausedText(*s.Paused))
	}
	if s.Problem != "" {
		said = slices.Insert(said, 0, "NOT MADE: "+s.Problem)
	}
	return strings.Join(slices.DeleteFunc(said, func(text string) bool { return text == "" }), "; ")
}

// warnOfSweeps warns on stderr about schedules that renew nothing. account is "" if only one
// account is selected.
func (a *app) warnOfSweeps(ctx context.Context, account string) error {
	list, err := askOnce(ctx, a, verbs.Sweeps, struct{}{})
	if account != "" {
		account = " of account " + account
	}
	for _, s := range list {
		if s.Removed != "" {
			fmt.Fprintf(a.stderr, "%s%s\n", s.Removed, account)
			continue
		}
		if s.MatchesNone != "" {
			fmt.Fprintf(a.stderr, "schedule %s%s renews nothing: %s\n", s.Schedule, account, s.MatchesNone)
		}
		if s.Paused != nil {
			fmt.Fprintf(a.stderr, "schedule %s%s renews nothing: %s\n", s.Schedule, account, pausedText(*s.Paused))
		}
		if s.Problem != "" {
			fmt.Fprintf(a.stderr, "NOT MADE: schedule %s%s: %s\n", s.Schedule, account, s.Problem)
		}
	}
	return err
}

// pausedText says who paused a schedule, why, and until when.
func pausedText(p tables.SchedulePause) string {
	until := "until it is resumed"
	if p.Until != nil {
		until = "until " + p.Until.Format(time.RFC3339)
	}
	return fmt.Sprintf("PAUSED since %s %s, by %s: %s", p.Since.UTC().Truncate(time.Second).Format(time.RFC3339), until, p.By, p.Reason)
}

// leftText says what a run still has to renew, and when the first of these proxies expires.
func leftText(x fact.SweepLeft) string {
	text := fmt.Sprintf("%d more are due: they follow in this run as far as its budgets allow", x.Proxies)
	if x.Proxies == 1 {
		text = "1 more is due: it follows in this run if its budgets allow it"
	}
	switch {
	case x.Unpriced > 0 && x.Unpriced == x.Proxies:
		text += ", once the price is known"
	case x.Unpriced > 0:
		text += fmt.Sprintf(", %d of them once their price is known", x.Unpriced)
	}
	if x.FirstExpiresAt != nil {
		text += "; the first expires at " + x.FirstExpiresAt.Format(time.RFC3339)
	}
	return text
}

func (a scheduleCommands) sweepRun() *cobra.Command {
	var q verbs.SweepRequest
	c := a.sweepOne("run SCHEDULE", "Run a schedule now", verbs.Sweep, &q)
	signed(c, &q.By, &q.Reason, "who asks for it", askedFor)
	return c
}

// sweepOne returns a CLI command that plans one schedule, or plans and runs it.
func (a scheduleCommands) sweepOne(use, short string, v verbs.Verb[verbs.SweepRequest, plans.Plan], q *verbs.SweepRequest) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Minute)
			defer cancel()
			q.Schedule = args[0]
			plan, err := askOnce(ctx, a.app, v, *q)
			if err != nil {
				return a.notReadYet(q.Schedule, err)
			}
			a.notePauses(ctx, "")
			if err := a.printPlan(plan); err != nil || v.Name == verbs.Plan.Name {
				return err
			}
			return sweepExit(plan)
		},
	}
}

// sweepExit returns the exit code of a run, which tells a script that the run needs an operator
// or money.
func sweepExit(p plans.Plan) error {
	switch {
	case p.State == schedules.StateHeld || p.LeftOutCounts[plans.ReasonPerson] > 0:
		return &exitError{code: ExitPerson}
	case len(p.Shortfalls) > 0:
		return &exitError{code: ExitPartly}
	}
	return nil
}

func (a scheduleCommands) schedulesPause() *cobra.Command {
	var q verbs.SchedulePauseRequest
	var until string
	c := &cobra.Command{
		Use: "pause SCHEDULE", Short: "Pause a schedule", Args: cobra.ExactArgs(1),
		Long: `Stops a schedule's runs until it is resumed, or until a given time.

Proxies that it would have renewed may expire; proxy.expiring is still published.
Commands that it has published continue (see cancel), and "schedules run" still works.
When the pause ends, a single run starts at once in place of those that were missed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Schedule = args[0]
			if until != "" {
				text, err := instantOrSpan("until", until, time.Now())
				if err != nil {
					return err
				}
				at, err := time.Parse(time.RFC3339, text)
				if err != nil {
					return err
				}
				q.Until = &at
			}
			return sendChange(cmd.Context(), a.app, verbs.SchedulePause, q, fmt.Sprintf("paused schedule %s %s: `perennial schedules resume %[1]s` resumes it", q.Schedule, pausedUntil(q.Until)))
		},
	}
	c.Flags().StringVar(&until, "until", "", "end automatically: a time, or a duration from now such as 8h (default: until it is resumed)")
	signed(c, &q.By, &q.Reason, "who asks for it", "paused on the command line")
	return c
}

func (a scheduleCommands) schedulesResume() *cobra.Command {
	var q verbs.SchedulePauseRequest
	c := &cobra.Command{
		Use: "resume SCHEDULE", Short: "Resume a schedule; if runs were missed, it runs once now", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Schedule = args[0]
			return sendChange(cmd.Context(), a.app, verbs.ScheduleResume, q, "resumed schedule "+q.Schedule)
		},
	}
	signed(c, &q.By, &q.Reason, "who asks for it", "resumed on the command line")
	return c
}

func pausedUntil(until *time.Time) string {
	if until == nil {
		return "until it is resumed"
	}
	return "until " + until.Format(time.RFC3339)
}
