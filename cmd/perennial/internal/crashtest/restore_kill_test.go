//go:build check

package crashtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/ledger"
)

// The ledger is lost together with an attempt whose reply was never recorded.
func TestTrap13KilledInTheMiddleThenRestoredFromAnOldBackup(t *testing.T) {
	t.Parallel()
	w, commands := lostTime(t, "")
	run, line := w.run()
	w.fault(map[string]any{"environment": "sandbox", "method": "POST", "path": "/api/v1/*", "fault": "drop_after", "times": 1})
	w.mustCLI("renew", "px_5", "--id", "fourth")
	waitForEvent(t, line.NATS, "operation.sending", "fourth")
	run.kill()
	restored := decode[ledger.Restored](t, w.mustCLI("ledger", "restore", "--from", "backup.db", "--replace", "-o", "json"))
	if restored.Events == 0 {
		t.Errorf("%+v", restored)
	}
	run, line = w.run()
	w.mustCLI("account", "resume", "--by", "ada", "--reason", "looked")
	awaitReady(t, line)
	w.republish(append(commands, []string{"renew", "px_5", "--id", "fourth"}))
	w.settled(run, "first", "second", "third", "fourth")
}

// The disk and the stream are lost, and the producers publish every command again.
func TestTrap13ABackupAloneStartsPausedUntilResumed(t *testing.T) {
	t.Parallel()
	w, commands := lostTime(t, "")
	if err := os.RemoveAll(filepath.Join(w.dir, "data")); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := w.cli("ledger", "restore", "--from-events"); code == 0 {
		t.Errorf("from events that are lost: exit %d %s", code, errs)
	}
	restored := decode[ledger.Restored](t, w.mustCLI("ledger", "restore", "--from", "backup.db", "-o", "json"))
	if restored.Proven || restored.Events != 0 {
		t.Errorf("%+v", restored)
	}
	run, line := w.run()
	waitForHTTP(t, line.HTTP+"/readyz", "does not account for")
	if out := w.mustCLI("account", "show"); !strings.Contains(out, "restored") {
		t.Errorf("account show does not say why:\n%s", out)
	}
	for _, c := range commands {
		w.mustCLI(c...)
	}
	waitForEvent(t, line.NATS, "command.accepted", "third")
	w.mustCLI("account", "resume", "--by", "ada", "--reason", "the orders are ours")
	w.republish(commands)
	w.settled(run, "first", "second", "third")
}
