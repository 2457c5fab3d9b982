package crashtest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/cli"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// archiveAll archives everything that the stopped runner has published, as if a month had passed.
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

// oldWorld has an account that was charged and refunded hundreds of times two months ago. Every row
// is published, and the runner has stopped.
func oldWorld(t testing.TB, nats string) *world {
	t.Helper()
	w := newWorld(t, 4)
	w.configure(nats, "")
	if err := os.Mkdir(filepath.Dir(w.ledgerFile()), 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-60 * 24 * time.Hour)
	l, err := ledger.Open(t.Context(), ledger.Config{Path: w.ledgerFile(), Clock: func() time.Time { return old }})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Write(t.Context(), func(tx *ledger.Tx) error {
		facts := []fact.Fact{fact.LedgerOpened{
			AccountID: "acc_alpha", Environment: "sandbox", BaseURL: w.sandbox.Sandbox, Currency: "USD", OpeningCents: 50_000_000, Epoch: "e1",
		}}
		for range (archiveKeep + 500) / 2 {
			facts = append(facts, fact.LedgerRecorded{Movement: "external", AmountCents: 7, By: "ada", Reason: "shop"}, fact.LedgerRecorded{Movement: "top-up", AmountCents: 7, By: "ada", Reason: "card"})
		}
		return tx.Append(facts...)
	})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	run, line := w.run()
	awaitReady(t, line)
	w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	w.stopped(run)
	return w
}

func (w *world) stopped(run *process) {
	w.t.Helper()
	if code := run.terminate(); code != 0 {
		w.t.Fatalf("run ended with %d\n%s", code, run.stderr)
	}
}

// archiveOld runs `backup archive` for all rows older than a month.
func (w *world) archiveOld(flags ...string) cli.ArchiveResult {
	w.t.Helper()
	return decode[cli.ArchiveResult](w.t, w.mustCLI(append(archiveArgs(), append(flags, "-o", "json")...)...))
}

func archiveArgs() []string {
	return []string{"ledger", "archive", "--before", time.Now().Add(-30 * 24 * time.Hour).Format(time.DateOnly)}
}

func TestArchiveSaysWhatItDoesNotDo(t *testing.T) {
	t.Parallel()
	w, _ := lostTime(t, "")
	for _, test := range []struct {
		args []string
		code int
		say  string
	}{
		{nil, cli.ExitUsage, "--before"},
		{[]string{"--before", "soon"}, cli.ExitUsage, "2026-11-01"},
		{[]string{"--before", time.Now().Format(time.DateOnly)}, cli.ExitFailed, "7 days"},
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
	if _, errs, code := w.cli("ledger", "archive", "--before", "2020-01-01"); code != cli.ExitUnreachable || !strings.Contains(errs, "no events stream") {
		t.Errorf("without events: exit %d %s", code, errs)
	}
}

// The command fails before it contacts NATS or a runner.
func TestAnArchivingOfTooYoungFactsAsksForNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.configure("nats://127.0.0.1:1", "")
	_, errs, code := w.cli("ledger", "archive", "--before", time.Now().Format(time.DateOnly))
	if code != cli.ExitFailed || !strings.Contains(errs, "facts stay for") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}
