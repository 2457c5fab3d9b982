package crashtest

import (
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// A schedule that matches no proxy, and a fleet without a schedule, both lose proxies silently. The
// output warns of each.
func TestAScheduleThatFitsNothingSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.configure("", `schedules:
  - {name: typo, cron: "0 0 1 1 *", renew_before: 300h, duration_days: 30, match: {country_code: [UK]}}
  - {name: one, cron: "0 0 1 1 *", renew_before: 300h, duration_days: 30, match: {country_code: [us], proxy_ids: [px_1]}}
`)
	w.run()
	const note = "its match fits none of the 3 listed proxies: is country_code written right?"
	for _, args := range []string{"sweep plan typo", "sweep run typo", "sweep list"} {
		if out, errs, code := w.cli(strings.Fields(args)...); code != cli.ExitDone || strings.Count(out, note) != 1 {
			t.Errorf("%s: exit %d\n%s%s", args, code, out, errs)
		}
	}
	if p := w.plan("plan", "typo"); p.MatchesNone != note {
		t.Errorf("%+v", p)
	}
	if p := w.plan("plan", "one"); p.MatchesNone != "" {
		t.Errorf("%+v", p)
	}
	found := examined(t, w, cli.ExitFailed)
	if f := found["schedule typo"]; f.OK || f.Seen != note {
		t.Errorf("%+v", f)
	}
	if f := found["schedules"]; !f.OK || !strings.Contains(f.Seen, "2 living proxies are in no schedule and will not be renewed, such as px_2, px_3") {
		t.Errorf("%+v", f)
	}
	out := w.mustCLI("proxies", "list", "--uncovered")
	if strings.Contains(out, "px_1 ") || !strings.Contains(out, "px_2") || !strings.Contains(out, "2 proxies will not be renewed: they are in no schedule") {
		t.Error(out)
	}
	w.mustCLI("proxies", "retire", "px_2", "--by", "ada")
	if out := w.mustCLI("proxies", "list", "--uncovered", "-o", "json"); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"px_3"`) {
		t.Error(out)
	}
}

// An account without a schedule is listed with the proxies that it would lose, and not with none.
func TestAnAccountWithoutAScheduleIsListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	_, line := w.run()
	await(t, "its proxies are counted", func() bool {
		return metricOf(w.scrape(line).text, `perennial_proxies_uncovered{account="main"}`) == "3"
	})
	if got := metricOf(w.scrape(line).text, `perennial_proxies_expiring{account="main",within="any"}`); got != "3" {
		t.Errorf("%q expire", got)
	}
	if f := examined(t, w, cli.ExitDone)["schedules"]; !f.Warning || !strings.Contains(f.Seen, "none is configured: 3 living proxies will not be renewed") {
		t.Errorf("%+v", f)
	}
	for filter, want := range map[string]int{"--id=X_2": 1, "--country=us": 3, "--country=de": 0, "--label=a=b": 0, "--state=not scheduled": 3, "--state=due": 0, "--schedule=daily": 0} {
		if out := w.mustCLI("proxies", "list", "-o", "json", filter); strings.Count(out, "\n") != want {
			t.Errorf("%s lists\n%s", filter, out)
		}
	}
	for _, args := range [][]string{{"--label", "x"}, {"--state", "gone"}, {"--live", "--id", "px"}} {
		if _, errs, code := w.cli(append([]string{"proxies", "list"}, args...)...); code != cli.ExitUsage {
			t.Errorf("%q: %d %s", args, code, errs)
		}
	}
	const note = "no schedule renews them; Perennial reads the provider's list once an hour, --live reads it now"
	out, errs, _ := w.cli("proxies", "list")
	if !strings.HasSuffix(out, note+"\n") || !strings.Contains(out, "px_3") || errs != "" {
		t.Errorf("%s\n%s", out, errs)
	}
	if out, errs, _ := w.cli("proxies", "list", "-o", "json"); strings.Contains(out, "no schedule") || errs != `{"note":"`+note+"\"}\n" {
		t.Errorf("%s\n%s", out, errs)
	}
}
