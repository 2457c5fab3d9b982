package crashtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// Each command that the alert's runbook names works without the list. Only a start is refused,
// because its schedules would differ from the file.
func TestASweepWhoseListIsGoneIsMendedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.write("keep-not.txt", "px_3\n", 0o600)
	w.configure("", `schedules:
  - {name: keep, cron: "@every 1s", renew_before: 1h, duration_days: 30, match: {except_proxy_ids_file: keep-not.txt}}
`)
	run, line := w.run()
	awaitReady(t, line)
	if err := os.Remove(filepath.Join(w.dir, "keep-not.txt")); err != nil {
		t.Fatal(err)
	}
	await(t, "the sweep that cannot be made", func() bool {
		out, _, _ := w.cli("sweep", "list")
		return strings.Contains(out, "keep-not.txt")
	})
	if f := examined(t, w, cli.ExitFailed)["lists"]; f.OK || !strings.Contains(f.Seen, "keep-not.txt") || f.Do == "" {
		t.Errorf("%+v", f)
	}
	w.mustCLI("renew", "px_1", "--due-before", "480h", "--wait")
	w.mustCLI("account", "show")
	w.mustCLI("proxies", "list", "--within", "24h")
	w.mustCLI("review", "list")
	w.mustCLI("schedules", "pause", "keep", "--reason", "its list is gone")
	w.mustCLI("schedules", "resume", "keep", "--reason", "its list is back")
	w.mustCLI("ledger", "backup", filepath.Join(w.dir, "backup.db"))
	w.stopped(run)
	if _, errs, code := w.cli("run"); code != cli.ExitUsage || !strings.Contains(errs, "keep-not.txt does not exist") || !strings.Contains(errs, "line ") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}
