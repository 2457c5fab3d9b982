// `perennial schedules history`, which shows the results of a schedule's runs and the proxies
// that the last run skipped.

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules"
	"perennial/schedules/plans"
)

// SlotHistory is one scheduled time of a schedule, with its result.
type SlotHistory struct {
	tables.Slot
	tables.SlotResult
}

func (a scheduleCommands) sweepHistory() *cobra.Command {
	var limit int64
	var skipped bool
	c := &cobra.Command{
		Use: "history SCHEDULE", Short: "List past runs of a schedule",
		Args: cobra.ExactArgs(1),
	}
	wholeVar(c.Flags(), &limit, "limit", 20, "how many runs, or with --skipped how many proxies")
	c.Flags().BoolVar(&skipped, "skipped", false, "list the proxies that the last run skipped and that are still due")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withLedger(func(ctx context.Context, l *ledger.Ledger, account string) error {
			if skipped {
				return a.printSkipped(ctx, l, account, args[0], int(limit))
			}
			return a.printSlots(ctx, l, args[0], int(limit))
		})(cmd, args)
	}
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
	coverage, err := plans.NewCoverage(all, plans.HistoryOf(l.Queries), c.ReadListFile)
	if err != nil {
		return err
	}
	run, err := schedules.ReadLastRun(ctx, l, all[at])
	if err != nil {
		return err
	}
	if run == nil {
		return &exitError{ExitFailed, errors.New("schedule " + schedule + " has no last run whose plan the ledger has\nlook at `perennial schedules history " + schedule + "`")}
	}
	list, n := a.listing("PROXY", "EXPIRES"), 0
	err = run.EachSkipped(ctx, l, coverage, func(p tables.Proxy) error {
		if n++; n > limit {
			return nil
		}
		x := SkippedByRun{schedule, run.Slot.UTC(), p.ProxyID, p.LastsUntil(), run.Why()}
		return list.add("", x, p.ProxyID, stamp(x.ExpiresAt))
	})
	if err = list.end(err); err != nil || a.output == "json" {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, skippedNote(run, n, limit))
	return err
}

// skippedNote says how many proxies a run skipped and why, and how many of them are still due.
func skippedNote(run *schedules.LastRun, due, limit int) string {
	if run.Result.Skipped == 0 {
		return fmt.Sprintf("the run of %s skipped nothing that was due", stamp(&run.Began))
	}
	text := fmt.Sprintf("the run of %s skipped %s: %s\nstill due: %d of them", stamp(&run.Began), english.Plural(int(run.Result.Skipped), "proxy", "proxies"), run.Why(), due)
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
		cells := resultCells(&r.SlotResult, currency)
		if planned, err := l.Sweeps.Plan(ctx, r.Last()); i == 0 && err == nil && planned.Left != nil && r.Outcome == "finished" {
			r.Outcome, cells[2] = "continues", ""
		}
		rows = append(rows, slices.Concat([]string{stamp(&r.Began), r.Outcome}, cells, []string{r.Last().Plan, r.Reason}))
	}
	return a.table([]string{"RUN", "STATE", "DUE", "RENEWED", "SKIPPED", "CHARGED", "PLAN", "REASON"}, rows)
}

func (a scheduleCommands) printSlotsJSON(ctx context.Context, l *ledger.Ledger, schedule string, limit int) error {
	slots, err := l.Sweeps.SlotsOf(ctx, schedule, limit)
	list := a.listing()
	for _, s := range slots {
		x, err := l.Sweeps.SlotResult(ctx, s)
		if err == nil {
			err = list.add("", SlotHistory{s, x})
		}
		if err != nil {
			return err
		}
	}
	return list.end(err)
}

// resultCells returns how many proxies of a run were due, renewed and skipped, and the charge.
// Unknown values are empty.
func resultCells(x *tables.SlotResult, currency string) []string {
	if x == nil || x.Due == nil {
		return []string{"", "", "", ""}
	}
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{whole(*x.Due), whole(x.Renewed), whole(x.Skipped), fact.Amount(x.ChargedCents, currency)}
}
