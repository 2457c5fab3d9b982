package plans

import (
	"strings"
	"testing"
	"time"
)

func TestAScheduleSaysItsRulesInWords(t *testing.T) {
	t.Parallel()
	for cron, words := range map[string]string{
		"@hourly": "every hour", "@every 15m": "every 15m", "30 5 * * *": "every day at 05:30", "0 30 5 * * *": "every day at 05:30", "0 9 * * 1": "every Monday at 09:00", "0 9 * * 7": "every Sunday at 09:00",
		"0 9 * * 1-5": "Monday to Friday at 09:00", "*/10 * * * *": "every 10 minutes", "5 * * * *": "every hour at minute 5", "0 9 1 * *": "cron 0 9 1 * *", "0 9,17 * * *": "cron 0 9,17 * * *", "30 0 9 * * *": "cron 30 0 9 * * *",
	} {
		if got := cronWords(cron); got != words {
			t.Errorf("%s: %q", cron, got)
		}
	}
	s := Schedule{Cron: "@hourly", RenewBefore: 72 * time.Hour, DurationDays: 30}
	said := func() string {
		text := ""
		for _, r := range s.Rules("USD") {
			text += r.Name + ": " + r.Text + "\n"
		}
		return text
	}
	const plain = "Renews: every proxy of the account\nDue: 3 days before a proxy expires\nFor: 30 days\nRuns: every hour, UTC\nBudget: no limit\nApproval: not needed\n"
	if got := said(); got != plain {
		t.Error(got)
	}
	s = Schedule{
		Cron: "30 5 * * *", Timezone: "Europe/London", RenewBefore: 36 * time.Hour, DurationDays: 60, BudgetCents: 1000, MonthlyBudgetCents: 20000, ApproveOverCents: 800,
		Match: Match{CountryCode: []string{"US", "DE"}, Labels: map[string]string{"team": "shop"}, ExceptProxyIDs: []string{"1", "2", "3", "4", "5", "6", "7"}, ExceptProxyIDsFile: "no.txt"},
		Keep:  Keep{AtLeast: 5, Per: []string{"region"}}, Replace: Replace{Enabled: true, MaxCents: 300},
	}
	got := said()
	for _, want := range []string{"country US or DE; label team=shop; except 1, 2, 3, 4, 5, 2 more and those in no.txt", "Due: 36h before", "every day at 05:30, Europe/London", "at most 10.00 USD a run and 200.00 USD a month", "needed over 8.00 USD a run", "5 of each region", "at most 3.00 USD"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
