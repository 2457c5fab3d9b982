package crashtest

import (
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// The message stays as long as the file differs from the configuration that the runner loaded.
func TestStatusSaysThatTheConfigurationHasChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.configure("", "")
	run, _ := w.run()
	said := func() string {
		t.Helper()
		text := w.mustCLI("status")
		_, line, found := strings.Cut(text, "\nconfiguration ")
		if !found {
			return ""
		}
		line, _, _ = strings.Cut(line, "\n")
		return strings.TrimSpace(line)
	}
	if got := said(); got != "" {
		t.Fatalf("nothing has changed: %s", got)
	}
	const keep = `schedules:
  - {name: keep, cron: "0 0 1 1 *", renew_before: 300h, duration_days: 30}
`
	w.configure("", keep)
	if got := said(); !strings.Contains(got, "has changed since the runner read it: restart the runner to apply it") {
		t.Errorf("a schedule was added: %q", got)
	}
	if _, errs, code := w.cli("schedules", "plan", "keep"); code != cli.ExitFailed || !strings.Contains(errs, `schedule "keep" is in `) || !strings.Contains(errs, "restart `perennial run`") {
		t.Errorf("the schedule that the runner has not read: exit %d: %s", code, errs)
	}
	if page := w.mustCLI("status", "-o", "json"); !strings.Contains(page, `"config_changed":"the configuration file`) {
		t.Errorf("JSON: %s", page)
	}
	w.configure("", "")
	if got := said(); got != "" {
		t.Errorf("it is as it was: %s", got)
	}
	run.terminate()
	w.configure("", keep)
	_, line := w.run()
	awaitReady(t, line)
	if got := said(); got != "" {
		t.Errorf("after a restart: %s", got)
	}
}
