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

// takeLedger are what becomes of a ledger file under a running program.
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

// TestALedgerFileThatIsGoneIsNotReady: nothing is sent while the name belongs to no
// file or to another one, or to a part of one, which SQLite still writes to. Every fact
// can be had again from the events.
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
			w.mustSubmit("second", "px_2") // before the next look: taken in, and not sent
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

// TestAHolderWhoseLedgerIsGoneHandsOver: another runner has all rows and takes the account. The
// file is moved aside and made again from the stream, by a runner that is alone too.
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
	takeLedger["damaged"](p.w, alone) // of a standby
	await(t, "the standby's file is moved aside and made again", func() bool {
		aside, _ := filepath.Glob(alone + ".replaced-*")
		return len(aside) >= 2*len(besideLedger) && p.role(0) == "standby"
	})
	p.runs[0].terminate()
	if err := os.Truncate(alone, 5000); err != nil {
		t.Fatal(err)
	}
	p.start(0, "") // a damaged file keeps no runner from starting
	p.awaitRole(0, "standby")
	p.w.mustCLI("renew", "px_4", "--id", "last", "--wait")
	p.sameBooks(append(ids, "alone", "taken-over", "last"))
}

// TestADamagedLedgerKeepsNoOtherAccountFromStarting: the account is not ready until its ledger
// is restored, and the others work.
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
	run.terminate()
	w.mustCLI("ledger", "restore", "--from-events", "--replace", "-a", "other")
	_, line = w.run()
	w.readySays(line, ready)
}

// ledgerWorld is a runner that has renewed px_1, and a copy of the ledger without it.
func (w *world) ledgerWorld() (*process, daemon.ReadyLine) {
	w.t.Helper()
	run, line := w.run()
	w.readySays(line, ready)
	w.mustCLI("ledger", "backup", filepath.Join(w.dir, "yesterday.db"))
	w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	return run, line
}

// besideLedger are the endings of a ledger's files.
var besideLedger = []string{"", "-wal", "-shm"}

func removeLedger(t testing.TB, file string) {
	t.Helper()
	for _, ending := range besideLedger {
		if err := os.Remove(file + ending); err != nil {
			t.Fatal(err)
		}
	}
}
