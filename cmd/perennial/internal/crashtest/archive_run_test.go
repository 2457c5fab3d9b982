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
