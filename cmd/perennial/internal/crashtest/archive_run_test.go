//go:build check

package crashtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// Archived commands are not executed again, and the stream continues. A lost stream is refilled
// from the ledger and the archive.
func TestARunGoesOnFromAnArchivedLedger(t *testing.T) {
	t.Parallel()
	w, commands := lostTime(t, "")
	archived := w.archiveAll()
	run, line := w.run()
	if _, errs, code := w.cli("ledger", "archive", "--before", "2020-01-01"); code != cli.ExitFailed || !strings.Contains(errs, "in use") {
		t.Errorf("beside a run: exit %d %s", code, errs)
	}
	awaitReady(t, line)
	w.republish(commands)
	w.mustCLI("renew", "px_7", "--id", "fourth", "--wait")
	w.settled(run, "first", "second", "third", "fourth")
	v := decode[againstLine](t, w.mustCLI("ledger", "verify", "--archive", archived.File, "--against-events", "-o", "json"))
	if !v.OK || v.Published != v.Head.Seq || v.Rows != v.Head.Seq {
		t.Errorf("%+v", v)
	}

	if err := os.RemoveAll(filepath.Join(w.dir, "data", "nats")); err != nil {
		t.Fatal(err)
	}
	away := filepath.Join(w.dir, filepath.Base(archived.File))
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	rename(archived.File, away)
	run, line = w.run("--refill-events")
	w.readySays(line, "were archived to "+filepath.Base(away))
	rename(away, archived.File)
	awaitReady(t, line)
	w.settled(run, "first", "second", "third", "fourth")

	rename(archived.File, away)
	if out := w.mustCLI("status", "first"); !strings.Contains(out, "delivered") || !strings.Contains(out, filepath.Base(away)) {
		t.Errorf("without the archive:\n%s", out)
	}
	if out := w.mustCLI("ledger", "verify", "--against-events"); !strings.Contains(out, "--archive FILE") {
		t.Errorf("without the archive:\n%s", out)
	}
	run, line = w.run()
	awaitReady(t, line)
	w.republish(commands)
	rename(away, archived.File) // verify reads every row
	w.settled(run, "first", "second", "third", "fourth")
}

// The answer's row is in the archive. Its operation is still in the ledger.
func TestAnArchivedAnswerIsCorrectedByARecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.configure("", "")
	run, line := w.run()
	awaitReady(t, line)
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "code", "code": "proxy_endpoint_unavailable"})
	w.cli("renew", "px_1", "--id", "r-1", "--wait")
	w.mustCLI("reviews", "resolve", "r-1", "--not-charged", "--by", "ada", "--reason", "a slip")
	w.stopped(run)
	w.archiveAll()
	_, line = w.run()
	awaitReady(t, line)
	if _, errs, code := w.cli("reviews", "correct", "r-1", "--charge", "3.00", "--confirm-amount", "3.00", "--by", "ada", "--reason", "the invoice"); code != cli.ExitFailed || !strings.Contains(errs, "is archived: record what differs") {
		t.Errorf("exit %d: %s", code, errs)
	}
	w.mustCLI("ledger", "record", "--kind", "charge", "--operation", "r-1/0001", "--line", "px_1", "--cents", "3.00", "--by", "ada", "--reason", "the invoice")
	if out := w.mustCLI("operations", "show", "r-1/0001"); !strings.Contains(out, "3.00 USD") {
		t.Errorf("%s", out)
	}
}
