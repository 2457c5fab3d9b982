package crashtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
)

// TestALedgerFileThatIsGoneIsNotReady: nothing is sent while the name belongs to no
// file or to another one, and every fact can be had again from the events.
func TestALedgerFileThatIsGoneIsNotReady(t *testing.T) {
	t.Parallel()
	for what, take := range map[string]func(w *world, file string){
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
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, run, line := ledgerWorld(t)
			file := filepath.Join(w.dir, "data", "main.ledger.db")
			take(w, file)
			w.mustSubmit("second", "px_2") // before the next look: taken in, and not sent
			w.readySays(line, "restore --from-events --replace")
			w.onlyFirstIsCharged()
			if what == "removed" {
				if out, _, code := w.cli("doctor"); code != cli.ExitFailed || !strings.Contains(out, "restore --from-events") {
					t.Errorf("doctor: exit %d\n%s", code, out)
				}
			}
			w.restoresFromEvents(run)
		})
	}
}

// TestADamagedLedgerIsNotReady: SQLite goes on with the pages that are left.
func TestADamagedLedgerIsNotReady(t *testing.T) {
	t.Parallel()
	w, run, line := ledgerWorld(t)
	if err := os.Truncate(filepath.Join(w.dir, "data", "main.ledger.db"), 8192); err != nil {
		t.Fatal(err)
	}
	w.readySays(line, "is damaged")
	w.mustSubmit("second", "px_2")
	w.onlyFirstIsCharged()
	w.restoresFromEvents(run)
}

// ledgerWorld is a runner beside a NATS process that has renewed px_1.
func ledgerWorld(t *testing.T) (*world, *process, daemon.ReadyLine) {
	t.Helper()
	w := newWorld(t, 3)
	n := newNATSProcess(t, w)
	n.start("pw")
	w.configure(n.url(), "")
	run, line := w.run()
	w.readySays(line, ready)
	w.mustCLI("ledger", "backup", filepath.Join(w.dir, "yesterday.db"))
	w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	return w, run, line
}

func removeLedger(t *testing.T, file string) {
	t.Helper()
	for _, ending := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(file + ending); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) mustSubmit(id, proxy string) {
	w.t.Helper()
	w.mustCLI("renew", proxy, "--id", id)
}

// onlyFirstIsCharged looks at the referee.
func (w *world) onlyFirstIsCharged() {
	w.t.Helper()
	text, err := os.ReadFile(w.charges)
	if err != nil {
		w.t.Fatal(err)
	}
	if n := strings.Count(string(text), `"kind":"charge"`); n != 1 {
		w.t.Errorf("%d charges:\n%s", n, text)
	}
}

// restoresFromEvents does what the error says; then what was taken in is done.
func (w *world) restoresFromEvents(run *process) {
	w.t.Helper()
	run.terminate()
	w.mustCLI("ledger", "restore", "--from-events", "--replace")
	run, line := w.run()
	w.readySays(line, ready)
	w.mustCLI("renew", "px_2", "--id", "second", "--wait")
	w.settled(run, "first", "second")
}
