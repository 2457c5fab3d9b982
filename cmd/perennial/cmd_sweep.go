package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"perennial/schedules"
)

func (a *app) sweepCommand() *cobra.Command {
	c := &cobra.Command{Use: "sweep", Short: "Schedules: list, plan, run, approve"}
	c.AddCommand(
		a.sweepList(),
		a.sweepOne("plan SCHEDULE", "Show what a sweep would renew and cost; changes nothing", verbPlan),
		a.sweepOne("run SCHEDULE", "Fire a slot now", verbSweep),
		&cobra.Command{
			Use: "approve PLAN", Short: "Carry out exactly the held plan with this hash", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.changeByHand(cmd.Context(), verbApprove, sweepRequest{Plan: args[0]})
			},
		})
	return c
}

func (a *app) sweepList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Where every schedule stands", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.connect()
			if err != nil {
				return err
			}
			defer r.Close()
			list, err := ask[[]schedules.Status](cmd.Context(), r, verbSweeps, struct{}{})
			if err != nil {
				return err
			}
			return a.printSweeps(list)
		},
	}
}

func (a *app) printSweeps(list []schedules.Status) error {
	rows := make([][]string, 0, len(list))
	for _, s := range list {
		if a.output == "json" {
			if err := printJSON(a.stdout, s); err != nil {
				return err
			}
		}
		rows = append(rows, []string{s.Schedule, s.Cron + " " + s.Timezone, ago(s.LastSlot), s.State, instantText(s.NextSlot), s.Plan})
	}
	if a.output == "json" {
		return nil
	}
	return a.table([]string{"SCHEDULE", "CRON", "LAST", "STATE", "NEXT", "HELD PLAN"}, rows)
}

// sweepOne asks for a plan of one schedule: looked at, or carried out.
func (a *app) sweepOne(use, short, verb string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.connect()
			if err != nil {
				return err
			}
			defer r.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Minute)
			defer cancel()
			plan, err := ask[schedules.Plan](ctx, r, verb, sweepRequest{Schedule: args[0]})
			if err != nil {
				return err
			}
			return a.printPlan(plan)
		},
	}
}

func (a *app) printPlan(p schedules.Plan) error {
	if a.output == "json" {
		return printJSON(a.stdout, p)
	}
	fmt.Fprintf(a.stdout, "plan %s of %s: %d due, %d to renew in %d command(s), about %s", p.Hash, p.Schedule, p.Due, len(p.Included), len(p.Commands), money(p.EstimateCents))
	if p.State != "" {
		fmt.Fprintf(a.stdout, "; %s", p.State)
	}
	fmt.Fprintln(a.stdout)
	rows := make([][]string, 0, len(p.Included)+len(p.LeftOut))
	for _, x := range p.Included {
		price := money(x.EstimateCents)
		if x.Canary {
			price = "not known yet"
		}
		rows = append(rows, []string{x.ProxyID, x.ExpiresAt.Format(time.RFC3339), "renew", price})
	}
	for _, x := range p.LeftOut {
		rows = append(rows, []string{x.ProxyID, "", "left out", x.Reason})
	}
	if len(rows) == 0 {
		return nil
	}
	if more := leftOut(p) - len(p.LeftOut); more > 0 {
		rows = append(rows, []string{"and " + strconv.Itoa(more) + " more", "", "left out", ""})
	}
	return a.table([]string{"PROXY", "EXPIRES", "WHAT", "PRICE OR REASON"}, rows)
}

func leftOut(p schedules.Plan) int {
	n := 0
	for _, c := range p.LeftOutCounts {
		n += c
	}
	return n
}
