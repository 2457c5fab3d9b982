package crashtest

import (
	"os"
	"strings"
	"testing"

	"perennial/ledger/disktest"
	"perennial/ledger/tables"
)

// The disk under a running `run` returns EIO. The runner sends nothing to the provider, still
// answers reads, and /readyz gives the reason. When the disk works again, so does the runner.
func TestNothingIsSentUntilTheFailingDiskWorksAgain(t *testing.T) {
	w := newWorld(t, 10)
	disk := disktest.New(t, "main.ledger.db")
	for _, line := range disk.Environment() {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	t.Setenv("DISK_TRACE", os.DevNull)
	run, line := w.run()
	awaitReady(t, line)
	w.mustCLI("renew", "px_1", "--id", "before", "--wait")
	charged, _ := checkReferee(t, w.charges)
	for i, calls := range []string{"sync=-wal", "write=-wal"} {
		if err := disk.Fail(calls); err != nil {
			t.Fatal(err)
		}
		id := []string{"during-1", "during-2"}[i]
		w.mustCLI("renew", []string{"px_2", "px_3"}[i], "--id", id)
		waitForHTTP(t, line.HTTP+"/readyz", "disk I/O error")
		if now, _ := checkReferee(t, w.charges); now != charged {
			t.Errorf("%s: %d cents were charged for what is not in the ledger", calls, now-charged)
		}
		if b := decode[tables.Balance](t, w.mustCLI("ledger", "balance", "-o", "json")); b.ChargedCents != charged {
			t.Errorf("%s: reads say %+v", calls, b)
		}
		if err := disk.Heal(); err != nil {
			t.Fatal(err)
		}
		w.mustCLI("renew", []string{"px_2", "px_3"}[i], "--id", id, "--wait")
		awaitReady(t, line)
		charged, _ = checkReferee(t, w.charges)
	}
	w.settled(run, "before", "during-1", "during-2")
}
