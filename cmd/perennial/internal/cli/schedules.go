package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules"
	"perennial/schedules/plans"
)

func (a scheduleCommands) schedulesCommand() *cobra.Command {
	return noun(&cobra.Command{Use: "schedules", Aliases: []string{"schedule", "sweep"}, Short: "List, plan, run, approve, decline, pause and resume schedules"},
		a.sweepList(),
		a.sweepShow(),
		a.sweepOne("plan SCHEDULE", "Preview a run made now (changes nothing)", verbs.Plan),
		a.sweepOne("run SCHEDULE", "Run a schedule now", verbs.Sweep),
		a.sweepApprove(),
		a.sweepDecline(),
		a.sweepForecast(),
		a.sweepHistory(),
		a.schedulesPause(),
		a.schedulesResume())
}

func (a scheduleCommands) sweepApprove() *cobra.Command {
	var q verbs.SweepRequest
	c := newCommand("approve PLAN", "Approve a plan that needs approval", func(ctx context.Context, args []string) error {
		q.Plan = args[0]
		done := "approved plan " + q.Plan
		if plan, err := askOnce(ctx, a.app, verbs.Plan, verbs.SweepRequest{Plan: q.Plan}); err == nil {
			done += fmt.Sprintf(" of %s: %s published, about %s", plan.Schedule, english.Plural(len(plan.Included), "renewal", ""), plan.EstimateText())
		}
		a.notePauses(ctx, "")
		return sendChange(ctx, a.app, verbs.Approve, q, done+"; `perennial operations list` follows them")
	})
	return signed(c, &q.By, &q.Reason, "approved on the command line")
}

func (a scheduleCommands) sweepDecline() *cobra.Command {
	var q verbs.SweepRequest
	c := newCommand("decline PLAN", "Decline a plan that needs approval", func(ctx context.Context, args []string) error {
		if q.Plan = args[0]; q.Reason == "" {
			return usage("say why: --reason TEXT is kept with your name")
		}
		return sendChange(ctx, a.app, verbs.Decline, q, "declined plan "+q.Plan+": nothing in it is renewed; the next run plans again what is due then, unless `perennial schedules pause` stops it")
	})
	c.Long = "Ends the plan: no proxy in it is renewed. The next run makes a new plan, which may need approval again.\n" +
		"`perennial proxies retire` takes proxies out of all plans; `perennial schedules pause` stops the runs."
	return signed(c, &q.By, &q.Reason, "")
}

func (a scheduleCommands) sweepList() *cobra.Command {
	return newCommand("list", "List schedules with their last and next run", func(ctx context.Context, _ []string) error {
		list := a.listing(a.noSchedules(), "SCHEDULE", "CRON", "LAST", "STATE", "DUE", "RENEWED", "SKIPPED", "CHARGED", "NEXT", "PENDING PLAN", "REASON")
		err := a.eachAccount(ctx, func(one *app, account string) error {
			all, paused, err := one.sweeps(ctx)
			if err != nil {
				return err
			}
			addSweeps(list, account, all, paused)
			return nil
		})
		return list.end(err)
	})
}

// noSchedules says why the runner has no schedules.
func (a scheduleCommands) noSchedules() string {
	if c, err := config.Load(a.configFile); err == nil && len(c.Schedules) > 0 {
		return "the runner has no schedules, and the configuration has: restart the runner"
	}
	return "no schedules are configured: add one to the configuration (docs/schedules.md)"
}

func (a scheduleCommands) sweepShow() *cobra.Command {
	return newCommand("show SCHEDULE", "Show a schedule with its last and next run, and the plan that needs approval", func(ctx context.Context, args []string) error {
		all, paused, err := a.sweeps(ctx)
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
		last := resultOf(s)
		err = a.table([]string{"SCHEDULE", s.Schedule}, [][]string{
			{"account", s.Account}, {"cron", s.Cron + " " + s.Timezone}, {"last run", ago(s.LastSlot)}, {"state", stateOf(s, paused)}, {"due", last[0]}, {"renewed", last[1]}, {"skipped", last[2]}, {"charged", last[3]}, {"next run", stamp(s.NextSlot)},
			{"pending plan", s.Plan}, {"reason", whyOf(s, paused)}, {"skipped proxies", skippedHint(s)},
		})
		if err != nil || s.Plan == "" {
			return err
		}
		plan, err := askOnce(ctx, a.app, verbs.Plan, verbs.SweepRequest{Plan: s.Plan})
		if err != nil {
			return err
		}
		fmt.Fprintln(a.stdout)
		return a.printPlan(plan)
	})
}

// resultOf returns the figures of the last run so far.
func resultOf(s schedules.Status) []string {
	return resultCells(s.Result, s.Currency, s.Left != nil)
}

func skippedHint(s schedules.Status) string {
	if s.Result == nil || s.Result.Skipped == 0 {
		return "none"
	}
	text := "`perennial schedules history " + s.Schedule + " --skipped` lists them"
	if s.Left != nil {
		text += ", and what the run renews later"
	}
	return text
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

func noSchedule(name string, all []schedules.Status) error {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Schedule
	}
	return usage("no schedule %q\nschedules: %s", name, cmp.Or(strings.Join(names, ", "), "none"))
}

// sweeps returns the account's schedules. paused describes the account's pauses that stop
// renewals, or is "" if there are none.
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
func addSweeps(list *listing, account string, all []schedules.Status, paused string) {
	for _, s := range all {
		if list.app.output == "json" {
			account = ""
		}
		why := whyOf(s, paused)
		if s.Problem == "" {
			why = beginning(why)
		}
		cells := []string{s.Schedule, s.Cron + " " + s.Timezone, ago(s.LastSlot), stateOf(s, paused)}
		list.add(account, s, slices.Concat(cells, resultOf(s), []string{stamp(s.NextSlot), s.Plan, why})...)
	}
}

// beginning returns the first words of a long text. `schedules show` prints the whole text.
func beginning(text string) string {
	const most = 100
	if len([]rune(text)) <= most {
		return text
	}
	first := string([]rune(text)[:most])
	return first[:max(strings.LastIndex(first, " "), 0)] + " …"
}

func stateOf(s schedules.Status, paused string) string {
	if s.Paused != nil || paused != "" {
		return "paused"
	}
	if s.Left != nil && s.State == "finished" {
		return "continues"
	}
	return outcomeText(s.Outcome())
}

// outcomeText returns the outcome of a run as people read it, like the web UI.
func outcomeText(outcome string) string {
	if outcome == schedules.StateHeld {
		return "needs approval"
	}
	return outcome
}

// whyOf returns the reasons for a schedule's state, including a pause of its account. It
// returns "" if there is no reason.
func whyOf(s schedules.Status, paused string) string {
	if s.Removed != "" {
		return s.Removed
	}
	problem, pause, left := "", "", ""
	if s.Problem != "" {
		problem = "NOT MADE: " + s.Problem
	}
	if s.Paused != nil {
		pause = pausedText(*s.Paused)
	}
	if s.Left != nil {
		left = schedules.LeftText(*s.Left)
	}
	return joined("; ", problem, pause, paused, s.MatchesNone, s.Reason(), left)
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

func pausedText(p tables.SchedulePause) string {
	return fmt.Sprintf("PAUSED since %s %s, by %s: %s", p.Since.UTC().Format(time.RFC3339), pausedUntil(p.Until), p.By, p.Reason)
}

func (a scheduleCommands) sweepOne(use, short string, v verbs.Verb[verbs.SweepRequest, plans.Plan]) *cobra.Command {
	var q verbs.SweepRequest
	c := newCommand(use, short, func(ctx context.Context, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		q.Schedule = args[0]
		plan, err := askOnce(ctx, a.app, v, q)
		if err != nil {
			return a.notReadYet(q.Schedule, err)
		}
		a.notePauses(ctx, "")
		if err := a.printPlan(plan); err != nil || v.Name == verbs.Plan.Name {
			return err
		}
		return sweepExit(plan)
	})
	if v.Name == verbs.Plan.Name { // a preview changes nothing
		return c
	}
	c.Long = "Publishes the commands of a run and returns before they are carried out.\n\n" +
		"The exit code is 4 if the plan needs approval or a proxy needs review, and 3 if due proxies were skipped for\n" +
		"lack of money. It is 0 if the run continues, because a price is not known yet or the run is large. Then\n" +
		"`perennial schedules show SCHEDULE` has the outcome."
	return signed(c, &q.By, &q.Reason, askedFor)
}

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
	c := newCommand("pause SCHEDULE", "Pause a schedule", func(ctx context.Context, args []string) error {
		q.Schedule = args[0]
		if until != "" {
			text, err := instantOrSpan("until", until)
			if err != nil {
				return err
			}
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				return err
			}
			q.Until = &at
		}
		return sendChange(ctx, a.app, verbs.SchedulePause, q, fmt.Sprintf("paused schedule %s %s: `perennial schedules resume %[1]s` resumes it", q.Schedule, pausedUntil(q.Until)))
	})
	c.Long = `Stops the runs of a schedule until the schedule is resumed, or until a given time.

Proxies that the schedule would have renewed may expire; proxy.expiring is still published.
Commands that the schedule has published continue (see cancel), and "schedules run" still works.
When the pause ends, a single run starts immediately in place of all missed runs.`
	c.Flags().StringVar(&until, "until", "", "end the pause automatically at this time, or after this duration, such as 8h (default: until it is resumed)")
	return signed(c, &q.By, &q.Reason, "paused on the command line")
}

func (a scheduleCommands) schedulesResume() *cobra.Command {
	var q verbs.SchedulePauseRequest
	c := newCommand("resume SCHEDULE", "Resume a schedule; if it missed runs, it runs once now", func(ctx context.Context, args []string) error {
		q.Schedule = args[0]
		return sendChange(ctx, a.app, verbs.ScheduleResume, q, "resumed schedule "+q.Schedule)
	})
	return signed(c, &q.By, &q.Reason, "resumed on the command line")
}

func pausedUntil(until *time.Time) string {
	if until == nil {
		return "until it is resumed"
	}
	return "until " + until.Format(time.RFC3339)
}

// stateOfPlan says what has become of a plan. It returns "" for a preview.
func stateOfPlan(p plans.Plan) string {
	switch {
	case p.Left != nil && p.State == "finished":
		return fmt.Sprintf("; the run continues: `perennial schedules show %s` follows it", p.Schedule)
	case p.State == schedules.StateHeld:
		return "; needs approval"
	case p.State == "finished" && len(p.Included) > 0:
		return fmt.Sprintf("; published: `perennial schedules show %s` has the outcome", p.Schedule)
	case p.State == "finished" && p.OverLimit() > 0:
		return "; nothing is renewed"
	case p.State != "":
		return "; " + p.State
	}
	return ""
}

func (a scheduleCommands) printPlan(p plans.Plan) error {
	if a.output == "json" {
		return printJSON(a.stdout, p)
	}
	fmt.Fprintf(a.stdout, "plan %s of %s: %d due, %d to renew in %s, about %s", p.Hash, p.Schedule, p.Unpaid(), len(p.Included), english.Plural(len(p.Commands), "command", ""), p.EstimateText())
	fmt.Fprint(a.stdout, stateOfPlan(p))
	fmt.Fprintln(a.stdout)
	a.printPlanMoney(p)
	rows := make([][]string, 0, len(p.Included)+len(p.LeftOut))
	for _, x := range p.Included {
		price := x.EstimateCents
		if x.ListPriceCents > 0 {
			price = fact.Known(x.ListPriceCents)
		}
		why := x.Reason
		if x.PriceFrom != "" {
			why = strings.TrimPrefix(why+"; price: "+x.PriceFrom, "; ") // a plan that needs approval stores no reason
		}
		rows = append(rows, []string{x.ProxyID, x.ExpiresAt.Format(time.RFC3339), "renew", centsOrUnknown(price, p.Currency), why})
	}
	reasons := p.ReasonsOf()
	for i, x := range p.LeftOut {
		price := ""
		if x.ListPriceCents > 0 {
			price = money(x.ListPriceCents, p.Currency)
		}
		rows = append(rows, []string{x.ProxyID, x.ExpiresAt.Format(time.RFC3339), p.ActionOf(x), price, reasons[i]})
	}
	if len(rows) == 0 {
		return nil
	}
	if more := leftOut(p) - len(p.LeftOut); more > 0 {
		rows = append(rows, []string{"and " + strconv.Itoa(more) + " more", "", "skip", "", ""})
	}
	return a.table([]string{"PROXY", "EXPIRES", "ACTION", "PRICE", "REASON"}, rows)
}

func leftOut(p plans.Plan) int {
	n := 0
	for _, c := range p.LeftOutCounts {
		n += c
	}
	return n
}

// walletAfter formats the remaining wallet balance. If a price is unknown, the balance is an
// upper bound.
func walletAfter(cents int64, unpriced int, currency string) string {
	if unpriced > 0 {
		return "at most " + money(cents, currency)
	}
	return money(cents, currency)
}

func (a scheduleCommands) budgetText(p plans.Plan) string {
	c, account, err := a.configured()
	if err != nil {
		return ""
	}
	var parts []string
	for _, s := range c.SchedulesOf(account) {
		if s.Name != p.Schedule {
			continue
		}
		if s.BudgetCents > 0 {
			parts = append(parts, money(s.BudgetCents, p.Currency)+" a run")
		}
		if s.DailyBudgetCents > 0 {
			parts = append(parts, fmt.Sprintf("%s a day, %s left today", money(s.DailyBudgetCents, p.Currency), money(max(s.DailyBudgetCents-p.SpentTodayCents, 0), p.Currency)))
		}
		if s.MonthlyBudgetCents > 0 {
			parts = append(parts, fmt.Sprintf("%s a month, %s left this month", money(s.MonthlyBudgetCents, p.Currency), money(max(s.MonthlyBudgetCents-p.SpentMonthCents, 0), p.Currency)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "budget: " + strings.Join(parts, "; ")
}

func (a scheduleCommands) printPlanMoney(p plans.Plan) {
	if p.WalletCents != nil && p.WalletAfterCents != nil {
		fmt.Fprintf(a.stdout, "the wallet holds %s, %s of it for what is on its way; %s afterwards\n", money(*p.WalletCents, p.Currency), money(p.ReservedCents, p.Currency), walletAfter(*p.WalletAfterCents, p.Unpriced-p.Listed, p.Currency))
	}
	if p.Left != nil {
		fmt.Fprintln(a.stdout, schedules.LeftText(*p.Left))
	}
	if text := p.WholeText(); text != "" {
		fmt.Fprintf(a.stdout, "if all of them are renewed: about %s\n", text)
	}
	if text := a.budgetText(p); text != "" {
		fmt.Fprintln(a.stdout, text)
	}
	if text := p.CoversText(); text != "" {
		fmt.Fprintln(a.stdout, text)
	}
	for _, x := range p.Shortfalls {
		fmt.Fprintf(a.stdout, "%s, %s: %s skipped, %s short%s, the first expires at %s\n", x.Reason, x.Limit(p.Currency), english.Plural(x.Proxies, "proxy", ""), x.Missing().Text(p.Currency), x.ListedText(), x.FirstLostAt.Format(time.RFC3339))
	}
	if text := p.LearnsText(); text != "" {
		fmt.Fprintln(a.stdout, text)
	}
	if p.MatchesNone != "" {
		fmt.Fprintln(a.stdout, p.MatchesNone)
	}
	if n := p.UnusableCount; n > 0 {
		first := ""
		if len(p.Unusable) > 0 {
			first = fmt.Sprintf(", such as %s (%s)", printable(p.Unusable[0].ProxyID), p.Unusable[0].Reason)
		}
		fmt.Fprintf(a.stdout, "%d entries of the provider's list cannot be read, and are not renewed%s\n", n, first)
	}
	if n := len(p.UnknownIDs); n > 0 {
		fmt.Fprintf(a.stdout, "its lists name proxies that no listing has shown, such as %s (%d): are they written right?\n", printable(p.UnknownIDs[0]), n)
	}
	if p.NeedsApproval && p.State != "held" {
		fmt.Fprintf(a.stdout, "it exceeds approve_over_cents (%s): when it runs it is on hold until it is approved (`perennial schedules run %s` runs it now)\n", money(p.ApproveOverCents, p.Currency), p.Schedule)
	} else if p.NeedsApproval {
		fmt.Fprintf(a.stdout, "it exceeds approve_over_cents (%s): approve it with `perennial schedules approve %s`, or decline it with `perennial schedules decline %[2]s --reason TEXT`\n", money(p.ApproveOverCents, p.Currency), p.Hash)
	}
}

func (a scheduleCommands) sweepForecast() *cobra.Command {
	q := verbs.ForecastRequest{}
	c := newCommand("forecast [SCHEDULE]", "Forecast renewal costs and the day the wallet runs out", func(ctx context.Context, args []string) error {
		if q.Days < 1 || q.Days > schedules.MaxForecastDays {
			return usage("--days is %d: %w", q.Days, schedules.ErrForecastDays)
		}
		if len(args) == 1 {
			q.Schedule = args[0]
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		f, err := askOnce(ctx, a.app, verbs.Forecast, q)
		if err != nil {
			return err
		}
		return a.printForecast(f)
	})
	c.Long = "Forecasts the renewals of one schedule, or of all schedules of the account. It changes nothing.\n\n" +
		"The forecast assumes that each listed proxy is renewed when it is due, at the last price paid or else at the\n" +
		"list price. If a schedule sets 'keep', only the renewals needed to keep that number of proxies are assumed.\n" +
		"Budgets, approvals and pauses do not reduce the forecast: the output shows what exceeds a daily budget or belongs\n" +
		"to a paused schedule. Proxies that the next run would skip are counted too; `perennial schedules plan` lists them."
	wholeVar(c.Flags(), &q.Days, "days", 30, fmt.Sprintf("how many days, today included; at most %d", schedules.MaxForecastDays))
	return c
}

// printForecast prints a forecast. It omits days on which nothing becomes due.
func (a scheduleCommands) printForecast(f schedules.Forecast) error {
	if a.output == "json" {
		return printJSON(a.stdout, f)
	}
	fmt.Fprintf(a.stdout, "%s, %d days: %s", cmp.Or(strings.Join(f.Schedules, ", "), "no schedule"), len(f.Days), f.Charge().ListedText(f.ListPriceCents, f.Currency))
	switch {
	case f.WalletCents == nil:
		fmt.Fprintln(a.stdout, "; the wallet could not be read")
	case f.RunsOutOn == "" && f.Unpriced > 0:
		fmt.Fprintf(a.stdout, "; the wallet holds %s and pays for what has a price\n", money(*f.WalletCents, f.Currency))
	case f.RunsOutOn == "":
		fmt.Fprintf(a.stdout, "; the wallet holds %s and pays for all of it\n", money(*f.WalletCents, f.Currency))
	default:
		fmt.Fprintf(a.stdout, "; the wallet holds %s and runs out on %s: %s is missing\n", money(*f.WalletCents, f.Currency), f.RunsOutOn, fact.Sum{Cents: f.MissingCents.Or(0), Lacks: f.Unpriced}.Text(f.Currency))
	}
	if x := f.FailsFirst; x != nil {
		fmt.Fprintf(a.stdout, "the first run that it does not pay for is %s at %s\n", x.Schedule, x.Slot.UTC().Format(time.RFC3339))
	}
	rows, unpriced := [][]string{}, 0
	for _, d := range f.Days {
		if d.Renewals == 0 {
			continue
		}
		wallet, note := "", ""
		if d.WalletCents != nil {
			unpriced += d.Unpriced
			wallet = walletAfter(*d.WalletCents, unpriced, f.Currency)
		}
		if d.ListPriceCents > 0 {
			note = "list price, no renewal paid yet"
		}
		if d.OverBudgetCents > 0 {
			note = money(d.OverBudgetCents, f.Currency) + " over the budget of the day"
		}
		for _, p := range d.Paused {
			note = joined("; ", note, p.Charge().Text(f.Currency)+" of the paused schedule "+p.Schedule)
		}
		rows = append(rows, []string{d.Day, strconv.Itoa(d.Renewals), d.Charge().Text(f.Currency), wallet, note})
	}
	if len(f.Schedules) == 0 {
		fmt.Fprintln(a.stdout, "no schedule is configured, so no renewal is planned: see `perennial proxies list --uncovered`")
	}
	if len(rows) == 0 {
		return nil
	}
	return a.table([]string{"DAY", "RENEWALS", "COST", "WALLET AFTER", "NOTE"}, rows)
}

// SlotHistory is one scheduled time of a schedule, with its result.
type SlotHistory struct {
	tables.Slot
	tables.SlotResult
}

func (a scheduleCommands) sweepHistory() *cobra.Command {
	var limit int64
	var skipped bool
	c := newCommand("history SCHEDULE", "List past runs of a schedule", func(ctx context.Context, args []string) error {
		return a.withLedger(func(ctx context.Context, l *ledger.Ledger, account string) error {
			if skipped {
				return a.printSkipped(ctx, l, account, args[0], int(limit))
			}
			return a.printSlots(ctx, l, args[0], int(limit))
		})(ctx, args)
	})
	wholeVar(c.Flags(), &limit, "limit", 20, "how many runs, or with --skipped how many proxies")
	c.Flags().BoolVar(&skipped, "skipped", false, "list the proxies that the last run skipped and that are still due, with the reason")
	return c
}

// SkippedByRun is a proxy that the last run of a schedule skipped.
type SkippedByRun struct {
	Schedule  string     `json:"schedule"`
	Slot      time.Time  `json:"slot"`
	ProxyID   string     `json:"proxy_id"`
	ExpiresAt *time.Time `json:"expires_at"`
	Reason    string     `json:"reason"`
}

// printSkipped lists the proxies that a schedule's last run skipped and that are still due,
// nearest expiry first.
func (a scheduleCommands) printSkipped(ctx context.Context, l *ledger.Ledger, account, schedule string, limit int) error {
	c, err := config.Load(a.configFile)
	if err != nil {
		return err
	}
	all := c.SchedulesOf(account)
	at := slices.IndexFunc(all, func(s plans.Schedule) bool { return s.Name == schedule })
	if at < 0 {
		return usage("the configuration has no schedule %q: whom its runs skipped follows from its rules", schedule)
	}
	run, err := schedules.ReadLastRun(ctx, l, all[at])
	if err != nil {
		return err
	}
	if run == nil {
		return &exitError{ExitFailed, errors.New("schedule " + schedule + " has no last run whose plan the ledger has\nlook at `perennial schedules history " + schedule + "`")}
	}
	rows, n, err := run.ListSkipped(ctx, l, all, c.ReadListFile, time.Now(), limit)
	if err != nil {
		return err
	}
	list := a.listing("", "PROXY", "EXPIRES", "REASON")
	for _, p := range rows {
		x := SkippedByRun{schedule, run.Slot.UTC(), p.ProxyID, p.LastsUntil(), cmp.Or(p.Barred, run.Why())}
		list.add("", x, x.ProxyID, stamp(x.ExpiresAt), cmp.Or(p.Barred, p.State))
	}
	if err = list.end(nil); err != nil || a.output == "json" {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, skippedNote(run, n, limit))
	return err
}

func skippedNote(run *schedules.LastRun, due, limit int) string {
	if run.Result.Skipped == 0 {
		return fmt.Sprintf("the run of %s skipped nothing that was due", stamp(&run.Began))
	}
	text := fmt.Sprintf("the run of %s skipped %s", stamp(&run.Began), english.Plural(int(run.Result.Skipped), "proxy", "proxies"))
	if run.Result.Left > 0 {
		text = english.Plural(due, "proxy is", "proxies are") + " due"
	}
	if why := run.Why(); why != "" {
		text += ": " + why
	}
	if run.Result.Left == 0 {
		text += fmt.Sprintf("\nstill due: %d of them", due)
	}
	if run.Result.Failed > 0 {
		text += "\nalso due: " + run.Result.FailedText()
	}
	if due > limit {
		text += fmt.Sprintf("; %d are shown, --limit shows more", limit)
	}
	return text
}

// printSlots lists runs as a table, or their scheduled times as JSON.
func (a scheduleCommands) printSlots(ctx context.Context, l *ledger.Ledger, schedule string, limit int) error {
	runs, err := schedules.Runs(ctx, l, schedule, limit)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return &exitError{ExitFailed, errors.New("schedule " + schedule + " has no run in the ledger: it has not run yet, or its name is another\nlook at `perennial schedules list`")}
	}
	if a.output == "json" {
		return a.printSlotsJSON(ctx, l, schedule, limit)
	}
	currency, err := l.Currency(ctx)
	if err != nil {
		return err
	}
	rows := make([][]string, 0, len(runs))
	for i, r := range runs {
		outcome, continues := outcomeText(r.Outcome), i == 0 && r.Left > 0 && r.Last().State == "finished"
		if continues {
			outcome = "continues"
		}
		rows = append(rows, slices.Concat([]string{stamp(&r.Began), outcome}, resultCells(&r.SlotResult, currency, continues), []string{r.Plan(), r.Why()}))
	}
	return a.table([]string{"RUN", "STATE", "DUE", "RENEWED", "SKIPPED", "CHARGED", "PLAN", "REASON"}, rows)
}

func (a scheduleCommands) printSlotsJSON(ctx context.Context, l *ledger.Ledger, schedule string, limit int) error {
	slots, err := l.Sweeps.SlotsOf(ctx, schedule, limit)
	list := a.listing("")
	for _, s := range slots {
		x, err := l.Sweeps.SlotResult(ctx, s)
		if err != nil {
			return err
		}
		list.add("", SlotHistory{s, x})
	}
	return list.end(err)
}

// resultCells returns how many proxies of a run were due, renewed and skipped, and the charge.
// Unknown values are empty.
func resultCells(x *tables.SlotResult, currency string, continues bool) []string {
	if x == nil || x.Due == nil {
		return []string{"", "", "", ""}
	}
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	skipped := x.Skipped
	if continues {
		skipped = x.SkippedSoFar()
	}
	return []string{whole(*x.Due), whole(x.Renewed), whole(skipped), fact.Amount(x.ChargedCents, currency)}
}
