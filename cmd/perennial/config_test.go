package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTrap25AConfigurationThatWouldBeReadAsSomethingElseIsRefused: a limit of
// 0.99 is not "no limit", and 72 without a unit is not 72 nanoseconds.
func TestTrap25AConfigurationThatWouldBeReadAsSomethingElseIsRefused(t *testing.T) {
	for _, c := range []struct{ account, schedule, says string }{
		{"daily_limit_cents: 0.99", "renew_before: 72h", "0.99 is not a whole number"},
		{"daily_limit_cents: 5", "renew_before: 72h, budget_cents: 12.5", "12.5 is not a whole number"},
		{"daily_limit_cents: 5", "renew_before: 72h, budget_cents: 99999999999999999999", "is not a whole number"},
		{"daily_limit_cents: 5", "renew_before: 72h, replace: {enabled: true, max_cents: 4.5}", "4.5 is not a whole number"},
		{"daily_limit_cents: 5", "renew_before: 72", "72 has no unit: write it as 72h or 72s"},
		{"daily_limit_cents: 5", "renew_before: 3d", `"3d" is not a time: write it as 72h, 15m or 30s`},
		{"daily_limit_cents: 5", "renew_before: 30s", "renew_before is 30s"},
		{"reconcile_every: 1", "renew_before: 72h", "1 has no unit"},
		{"warn_before: [24]", "renew_before: 72h", "24 has no unit"},
		{"daily_limit_cents: 5", "renew_before: 72h, budget_cent: 5", `line 4: "budget_cent" is no key of the configuration, did you mean "budget_cents"?`},
	} {
		_, err := loadConfig(configOf(t, c.account, c.schedule))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %s: %v", c.account, c.schedule, err)
		}
	}
	good, err := loadConfig(configOf(t, "rate_per_second: 0.5", "renew_before: 72h, budget_cents: 1e3"))
	if err != nil || good.Schedules[0].BudgetCents != 1000 || good.Accounts["main"].RatePerSecond != 0.5 {
		t.Errorf("%+v %v", good, err)
	}
}

func configOf(t *testing.T, account, schedule string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "perennial.yaml")
	text := "accounts:\n  main: {base_url: http://127.0.0.1:1, app_id: sbx_app_a, " + account + "}\n" +
		"schedules:\n  - {name: keep, cron: '@daily', duration_days: 30, " + schedule + "}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
