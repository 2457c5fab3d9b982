// `perennial schedules history`: what became of a schedule's slots.

package cli

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// SlotHistory is one slot of a schedule.
type SlotHistory struct {
	ledger.Slot
	ledger.SlotResult
}

func (a *app) sweepHistory() *cobra.Command {
	var limit int64
	c := &cobra.Command{
		Use: "history SCHEDULE", Short: "List past runs of a schedule",
		Args: cobra.ExactArgs(1),
	}
	wholeVar(c.Flags(), &limit, "limit", 20, "how many slots")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withLedger(func(ctx context.Context, l *ledger.Ledger, _ string) error {
			return a.printSlots(ctx, l, args[0], int(limit))
		})(cmd, args)
	}
	return c
}

func (a *app) printSlots(ctx context.Context, l *ledger.Ledger, schedule string, limit int) error {
	slots, err := l.SlotsOf(ctx, schedule, limit)
	if err != nil {
		return err
	}
	if len(slots) == 0 {
		return &exitError{ExitFailed, errors.New("schedule " + schedule + " has no slot in the ledger: it has not fired yet, or it is called otherwise\nlook at `perennial schedules list`")}
	}
	currency, err := l.Currency(ctx)
	if err != nil {
		return err
	}
	list := a.listing("SLOT", "STATE", "DUE", "RENEWED", "SKIPPED", "CHARGED", "ESTIMATE", "PLAN", "REASON")
	for _, s := range slots {
		x, err := l.SlotResult(ctx, s)
		if err != nil {
			return err
		}
		estimate := ""
		if x.Due != nil {
			estimate = x.Cost().Text(currency)
		}
		cells := append(resultCells(&x, currency), estimate, s.Plan, x.Reason)
		if err := list.add("", SlotHistory{s, x}, append([]string{stamp(&s.At), x.Outcome}, cells...)...); err != nil {
			return err
		}
	}
	return list.end(nil)
}

// resultCells are how many proxies of a run were due, renewed and skipped, and what it
// charged; empty where that is not known.
func resultCells(x *ledger.SlotResult, currency string) []string {
	if x == nil || x.Due == nil {
		return []string{"", "", "", ""}
	}
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{whole(*x.Due), whole(x.Renewed), whole(x.Skipped), fact.Amount(x.ChargedCents, currency)}
}
