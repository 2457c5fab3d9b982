// The output of a schedule's plan.

package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

func (a scheduleCommands) printPlan(p plans.Plan) error {
	if a.output == "json" {
		return printJSON(a.stdout, p)
	}
	fmt.Fprintf(a.stdout, "plan %s of %s: %d due, %d to renew in %s, about %s", p.Hash, p.Schedule, p.Unpaid(), len(p.Included), english.Plural(len(p.Commands), "command", ""), p.EstimateText())
	switch {
	case p.Left != nil && p.State == "finished":
		fmt.Fprint(a.stdout, "; the run continues")
	case p.State != "":
		fmt.Fprintf(a.stdout, "; %s", p.State)
	}
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
	for _, x := range p.LeftOut {
		rows = append(rows, []string{x.ProxyID, x.ExpiresAt.Format(time.RFC3339), actionOf(p, x.Reason), "", x.Reason})
	}
	if len(rows) == 0 {
		return nil
	}
	if more := leftOut(p) - len(p.LeftOut); more > 0 {
		rows = append(rows, []string{"and " + strconv.Itoa(more) + " more", "", "skip", "", ""})
	}
	return a.table([]string{"PROXY", "EXPIRES", "ACTION", "PRICE", "REASON"}, rows)
}

// actionOf says what a plan does with a proxy that it does not renew.
func actionOf(p plans.Plan, reason string) string {
	switch {
	case plans.Paid(reason):
		return "none"
	case p.Left != nil && (reason == plans.ReasonUnpriced || reason == plans.ReasonOneByOne || reason == plans.ReasonBeyond):
		return "later"
	}
	return "skip"
}

func leftOut(p plans.Plan) int {
	n := 0
	for _, c := range p.LeftOutCounts {
		n += c
	}
	return n
}

// walletAfter formats the remaining wallet balance, as an upper bound if a price is unknown.
func walletAfter(cents int64, unpriced int, currency string) string {
	if unpriced > 0 {
		return "at most " + money(cents, currency)
	}
	return money(cents, currency)
}

// budgetText returns the configured budgets of the plan's schedule and what is left of them, or
// "".
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

// printPlanMoney prints what the plan costs the wallet, how much money is missing, and what
// else needs attention.
func (a scheduleCommands) printPlanMoney(p plans.Plan) {
	if p.WalletCents != nil && p.WalletAfterCents != nil {
		fmt.Fprintf(a.stdout, "the wallet holds %s, %s of it for what is on its way; %s afterwards\n", money(*p.WalletCents, p.Currency), money(p.ReservedCents, p.Currency), walletAfter(*p.WalletAfterCents, p.Unpriced-p.Listed, p.Currency))
	}
	if p.Left != nil {
		fmt.Fprintln(a.stdout, leftText(*p.Left))
	}
	if text := a.budgetText(p); text != "" {
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
		fmt.Fprintf(a.stdout, "it exceeds approve_over_cents (%s): approve it with `perennial schedules approve %s`, or decline it\n", money(p.ApproveOverCents, p.Currency), p.Hash)
	}
}
