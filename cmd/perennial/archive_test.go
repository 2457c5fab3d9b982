package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
)

// archiveAll archives everything that the world's stopped runner has published,
// as if a month had passed.
func (w *world) archiveAll() ledger.Archived {
	w.t.Helper()
	head := decode[fileLine](w.t, w.mustCLI("ledger", "verify", "-o", "json")).Head
	later := time.Now().Add(30 * 24 * time.Hour)
	out, err := ledger.Archive{
		Path: w.ledgerFile(), Before: later.Add(-10 * 24 * time.Hour), Clock: func() time.Time { return later }, Published: head, Keep: 1,
	}.Run(w.t.Context())
	if err != nil || out.File == "" {
		w.t.Fatalf("%+v %v", out, err)
	}
	return out
}

// TestARunGoesOnFromAnArchivedLedger: nothing that was done is done again, the
// stream goes on, and one that is lost is filled again from archive and ledger.
func TestARunGoesOnFromAnArchivedLedger(t *testing.T) {
	w, commands := lostTime(t, "")
	archived := w.archiveAll()
	run, line := w.run()
	if _, errs, code := w.cli("ledger", "archive", "--before", "2020-01-01"); code != exitFailed || !strings.Contains(errs, "in use") {
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
	run, line = w.run()
	awaitReady(t, line)
	w.settled(run, "first", "second", "third", "fourth")

	away := filepath.Join(w.dir, filepath.Base(archived.File))
	if err := os.Rename(archived.File, away); err != nil {
		t.Fatal(err)
	}
	if out := w.mustCLI("status", "first"); !strings.Contains(out, "delivered") || !strings.Contains(out, filepath.Base(away)) {
		t.Errorf("without the archive:\n%s", out)
	}
	if out := w.mustCLI("ledger", "verify", "--against-events"); !strings.Contains(out, "--archive FILE") {
		t.Errorf("without the archive:\n%s", out)
	}
	run, line = w.run()
	awaitReady(t, line)
	w.republish(commands)
	if err := os.Rename(away, archived.File); err != nil { // the check of the books reads every row
		t.Fatal(err)
	}
	w.settled(run, "first", "second", "third", "fourth")
}

func TestArchiveSaysWhatItDoesNotDo(t *testing.T) {
	w, _ := lostTime(t, "")
	for _, test := range []struct {
		args []string
		code int
		say  string
	}{
		{nil, exitUsage, "--before"},
		{[]string{"--before", "soon"}, exitUsage, "2026-11-01"},
		{[]string{"--before", time.Now().Format(time.DateOnly)}, exitFailed, "7 days"},
		{[]string{"--before", "2020-01-01"}, 0, "nothing to archive"},
	} {
		out, errs, code := w.cli(append([]string{"ledger", "archive"}, test.args...)...)
		if code != test.code || !strings.Contains(out+errs, test.say) {
			t.Errorf("%v: exit %d\n%s%s", test.args, code, out, errs)
		}
	}
	if err := os.RemoveAll(filepath.Join(w.dir, "data", "nats")); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := w.cli("ledger", "archive", "--before", "2020-01-01"); code != exitUnreachable || !strings.Contains(errs, "no events stream") {
		t.Errorf("without events: exit %d %s", code, errs)
	}
}
