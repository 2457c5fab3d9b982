// `perennial schedules forecast`, which shows what becomes due and its cost, by day.

package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger/fact"
	"perennial/schedules"
)

func (a scheduleCommands) sweepForecast() *cobra.Command {
	q := verbs.ForecastRequest{}
	c := &cobra.Command{
		Use: "forecast [SCHEDULE]", Short: "Forecast renewal costs and the day the wallet runs out", Args: cobra.MaximumNArgs(1),
		Long: "Assumes that each listed proxy is renewed when it is due, at the last price paid, or else at the list price. For a schedule with the key 'keep', it assumes only the renewals that are needed to keep the number of proxies that 'keep' gives. It ignores budgets, approvals and pauses, and shows how much of the cost belongs to paused schedules. Without a name it covers all schedules of the account. It changes nothing.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if q.Days < 1 || q.Days > schedules.MaxForecastDays {
				return usage("--days is %d: %w", q.Days, schedules.ErrForecastDays)
			}
			if len(args) == 1 {
				q.Schedule = args[0]
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Minute)
			defer cancel()
			f, err := askOnce(ctx, a.app, verbs.Forecast, q)
			if err != nil {
				return err
			}
			return a.printForecast(f)
		},
	}
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
			note = strings.TrimPrefix(note+"; ", "; ") + p.Charge().Text(f.Currency) + " of the paused schedule " + p.Schedule
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
