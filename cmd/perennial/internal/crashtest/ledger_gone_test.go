//go:build check

package crashtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
)

// takeLedger is what happens to a ledger file under a running program.
var takeLedger = map[string]func(w *world, file string){
	"removed": func(w *world, file string) { removeLedger(w.t, file) },
	"its log alone": func(w *world, file string) {
		if err := os.Remove(file + "-wal"); err != nil {
			w.t.Fatal(err)
		}
	},
	"replaced": func(w *world, file string) {
		if err := os.Rename(filepath.Join(w.dir, "yesterday.db"), file); err != nil {
			w.t.Fatal(err)
		}
	},
	"damaged": func(w *world, file string) {
		if err := os.Truncate(file, 8192); err != nil {
			w.t.Fatal(err)
		}
	},
}

// The runner sends nothing while its ledger file is removed, replaced or truncated, although SQLite
// can still write to the open file. Every fact can be restored from the events.
func TestALedgerFileThatIsGoneIsNotReady(t *testing.T) {
	t.Parallel()
	for what, take := range takeLedger {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			run, line := w.ledgerWorld()
			take(w, filepath.Join(w.dir, "data", "main.ledger.db"))
			if what == "damaged" { // SQLite keeps writing to the remaining pages until the next check
				w.readySays(line, "is damaged")
			}
			w.mustSubmit("second", "px_2") // before the next check: accepted, but not sent
			w.readySays(line, "restore --from-events --replace")
			w.onlyFirstIsCharged()
			if what == "removed" {
				if out, _, code := w.cli("doctor"); code != cli.ExitFailed || !strings.Contains(out, "restore --from-events") {
					t.Errorf("doctor: exit %d\n%s", code, out)
				}
			}
			run.terminate()
			w.mustCLI("ledger", "restore", "--from-events", "--replace")
			run, line = w.run()
			w.readySays(line, ready)
			w.mustCLI("renew", "px_2", "--id", "second", "--wait")
			w.settled(run, "first", "second")
		})
	}
}

// Another runner has all rows and takes the account. The runner moves the file aside and rebuilds
// it from the stream, also if it is the only runner.
func TestAHolderWhoseLedgerIsGoneHandsOver(t *testing.T) {
	t.Parallel()
	p := newPair(t, 4)
	p.start(0, "")
	p.awaitRole(0, "active")
	p.w.mustCLI("ledger", "backup", filepath.Join(p.w.dir, "yesterday.db"))
	p.w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	ids := []string{"first"}
	alone := filepath.Join(p.w.dir, pairData[0], "main.ledger.db")
	takeLedger["replaced"](p.w, alone)
	p.w.mustCLI("renew", "px_2", "--id", "alone", "--wait")
	p.awaitRole(0, "active")
	p.start(1, "")
	p.awaitRole(1, "standby")
	takeLedger["removed"](p.w, alone)
	p.awaitRole(1, "active")
	p.awaitRole(0, "standby")
	p.w.mustCLI("renew", "px_3", "--id", "taken-over", "--wait")
	takeLedger["damaged"](p.w, alone) // the standby's ledger
	await(t, "the standby's file is moved aside and made again", func() bool {
		aside, _ := filepath.Glob(alone + ".replaced-*")
		return len(aside) >= 2*len(besideLedger) && p.role(0) == "standby"
	})
	p.runs[0].terminate()
	if err := os.Truncate(alone, 5000); err != nil {
		t.Fatal(err)
	}
	p.start(0, "") // a damaged file does not keep a runner from starting
	p.awaitRole(0, "standby")
	p.w.mustCLI("renew", "px_4", "--id", "last", "--wait")
	p.sameBooks(append(ids, "alone", "taken-over", "last"))
}

// The account is not ready until its ledger is restored. The other accounts work.
func TestADamagedLedgerKeepsNoOtherAccountFromStarting(t *testing.T) {
	t.Parallel()
	w := twoAccounts(t)
	run, _ := w.run()
	w.mustCLI("order", "--item", "off_us_1=1", "--id", "other-buy", "--wait", "-a", "other")
	run.terminate()
	if err := os.Truncate(filepath.Join(w.dir, "data", "other.ledger.db"), 5000); err != nil {
		t.Fatal(err)
	}
	run, line := w.run()
	w.readySays(line, "other: the ledger file")
	if page, err := w.get(line.HTTP + "/metrics"); err != nil || !strings.Contains(page, `perennial_ready{account="other"} 0`) {
		t.Errorf("the metrics do not say that other is not ready: %v\n%s", err, page)
	}
	w.mustCLI("renew", "px_1", "--id", "main-works", "--wait", "-a", "main")
	if out, errs, code := w.cli("status"); code == cli.ExitDone || !strings.Contains(out, "ready, active") || !strings.Contains(errs, "account other: the ledger file") {
		t.Errorf("status: exit %d\n%s%s", code, out, errs)
	}
	run.terminate()
	if out, errs, code := w.cli("ledger", "verify"); code != cli.ExitPartly || !strings.Contains(out, "account main: ") || !strings.Contains(errs, "account other: the ledger file") {
		t.Errorf("verify of all accounts: exit %d\n%s%s", code, out, errs)
	}
	w.mustCLI("ledger", "restore", "--from-events", "--replace", "-a", "other")
	_, line = w.run()
	w.readySays(line, ready)
}

// ledgerWorld starts a runner that renews px_1, and keeps a copy of the ledger from before the
// renewal.
func (w *world) ledgerWorld() (*process, daemon.ReadyLine) {
	w.t.Helper()
	run, line := w.run()
	w.readySays(line, ready)
	w.mustCLI("ledger", "backup", filepath.Join(w.dir, "yesterday.db"))
	w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	return run, line
}

// besideLedger is the suffixes of a ledger's files.
var besideLedger = []string{"", "-wal", "-shm"}

func removeLedger(t testing.TB, file string) {
	t.Helper()
	for _, ending := range besideLedger {
		if err := os.Remove(file + ending); err != nil {
			t.Fatal(err)
		}
	}
}
