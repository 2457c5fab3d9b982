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

// SlotHistory is one slot of a schedule. Due and EstimateCents are nil where the slot was
// not planned, or its row was archived.
type SlotHistory struct {
	ledger.Slot

	Due           *int64      `json:"due,omitempty"`
	EstimateCents *fact.Cents `json:"estimate_cents,omitempty"`
	Unpriced      int         `json:"unpriced,omitempty"` // of its proxies: they are not in EstimateCents
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
	list := a.listing("SLOT", "STATE", "DUE", "ESTIMATE", "PLAN")
	for _, s := range slots {
		one := SlotHistory{Slot: s}
		due, cost, err := l.PlannedSums(ctx, s)
		dueText, estimate := "", ""
		switch {
		case err == nil:
			one.Due, one.EstimateCents, one.Unpriced = &due, new(cost.Total()), cost.Lacks
			dueText, estimate = strconv.FormatInt(due, 10), cost.Text(currency)
		case !errors.Is(err, ledger.ErrNotFound):
			return err
		}
		if err := list.add("", one, stamp(&s.At), s.State, dueText, estimate, s.Plan); err != nil {
			return err
		}
	}
	return list.end(nil)
}
