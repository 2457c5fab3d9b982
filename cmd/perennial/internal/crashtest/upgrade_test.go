package crashtest

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"perennial/upstream/sandbox"
)

var older = flag.String("older", "", "path of the program in an older version, for TestGoingBackToAnOlderProgram; default: this version goes back to itself")

// The test follows docs/upgrade.md: the older program restores its backup, and later rows from the
// events stream. Nothing is charged twice, and the books agree with the provider.
func TestGoingBackToAnOlderProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	go1, back := func() { w.program = "" }, func() { w.program = *older }
	back()
	run, line := w.run()
	awaitReady(t, line)
	w.mustCLI("order", "--item", "off_us_1=2", "--id", "before", "--wait")
	w.mustCLI("ledger", "backup", "backup.db")
	if code := run.terminate(); code != 0 {
		t.Errorf("SIGTERM: exit %d", code)
	}
	go1()
	run, line = w.run()
	awaitReady(t, line)
	w.mustCLI("order", "--item", "off_us_1=1", "--id", "after", "--wait")
	w.mustCLI("renew", "px_1", "--id", "renewed", "--wait")
	// The restore takes from the stream what the backup lacks. If a charge is in neither, the
	// account stays paused.
	await(t, "every row is published", func() bool {
		page, err := w.get(line.HTTP + "/metrics")
		return err == nil && strings.Contains(page, "perennial_unpublished_rows{account=\"main\"} 0\n")
	})
	run.kill()
	back()
	if *older != "" {
		if _, errs, code := w.cli("run"); code == 0 || !strings.Contains(errs, "schema version") {
			t.Errorf("the older program opens the newer one's ledger: exit %d %s", code, errs)
		}
	}
	w.mustCLI("ledger", "restore", "--from", filepath.Join(w.dir, "backup.db"), "--replace")
	_, line = w.run()
	awaitReady(t, line)
	for _, id := range []string{"before", "after"} { // published again, and executed once
		w.mustCLI("order", "--item", map[string]string{"before": "off_us_1=2", "after": "off_us_1=1"}[id], "--id", id, "--wait")
	}
	w.mustCLI("renew", "px_1", "--id", "renewed", "--wait")
	w.mustCLI("renew", "px_2", "--id", "another", "--wait")
	w.mustCLI("ledger", "verify")
	w.mustCLI("ledger", "reconcile")
	charges, err := sandbox.ReadCharges(w.charges)
	if err != nil || len(charges) != 4 {
		t.Errorf("%d charges, %v: %+v", len(charges), err, charges)
	}
}
