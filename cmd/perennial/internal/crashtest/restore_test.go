package crashtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/tables"
	"perennial/queue/embedded"
)

func (w *world) ledgerFile() string { return filepath.Join(w.dir, "data", "main.ledger.db") }

// mustCLI runs a command that must succeed.
func (w *world) mustCLI(args ...string) string {
	w.t.Helper()
	out, errs, code := w.cli(args...)
	if code != 0 {
		w.t.Fatalf("%v: exit %d\n%s%s", args, code, out, errs)
	}
	return out
}

func decode[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

type fileLine struct {
	OK   bool       `json:"ok"`
	File string     `json:"file"`
	Rows int64      `json:"rows"`
	Head chain.Head `json:"head"`
}

type againstLine struct {
	fileLine
	ledger.Against
}

func TestRebuildBackupAndVerifyWorkWithAndWithoutARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10)
	run, _ := w.run()
	w.mustCLI("renew", "px_1", "px_2", "--id", "r1", "--wait")
	for i, when := range []string{"beside a run", "without one"} {
		backup := fmt.Sprintf("backup-%d.db", i)
		b := decode[fileLine](t, w.mustCLI("ledger", "backup", backup, "-o", "json"))
		r := decode[fileLine](t, w.mustCLI("ledger", "rebuild", "--out", fmt.Sprintf("rebuilt-%d.db", i), "-o", "json"))
		v := decode[againstLine](t, w.mustCLI("ledger", "verify", "--against-events", "-o", "json"))
		if !b.OK || !r.OK || !v.OK || b.Rows < 5 || r.Head != b.Head || v.Head != b.Head || v.Published+v.Unpublished != v.Rows || v.Published < 5 {
			t.Errorf("%s: backup %+v, rebuilt %+v, verified %+v", when, b, r, v)
		}
		if _, errs, code := w.cli("ledger", "backup", backup); code != cli.ExitFailed || !strings.Contains(errs, "--force") {
			t.Errorf("%s: over an existing backup: exit %d %s", when, code, errs)
		}
		w.mustCLI("ledger", "backup", backup, "--force")
		if i == 0 {
			if _, errs, code := w.cli("ledger", "restore", "--from", backup, "--replace"); code != cli.ExitFailed || !strings.Contains(errs, "in use") {
				t.Errorf("a restore beside a run: exit %d %s", code, errs)
			}
			if code := run.terminate(); code != 0 {
				t.Fatalf("run ended with %d\n%s", code, run.stderr)
			}
		}
	}
	w.mustCLI("ledger", "rebuild")
	if _, errs, code := w.cli("ledger", "rebuild"); code != cli.ExitFailed || !strings.Contains(errs, "--out") {
		t.Errorf("over an existing file: exit %d %s", code, errs)
	}
	for _, args := range [][]string{{}, {"--from", "x", "--from-events"}} {
		if _, _, code := w.cli(append([]string{"ledger", "restore"}, args...)...); code != cli.ExitUsage {
			t.Errorf("restore %v: exit %d", args, code)
		}
	}
	if _, errs, code := w.cli("ledger", "restore", "--from", "backup-0.db"); code != cli.ExitFailed || !strings.Contains(errs, "--replace") {
		t.Errorf("over a ledger: exit %d %s", code, errs)
	}
}

func awaitReady(t testing.TB, line daemon.ReadyLine) {
	t.Helper()
	waitForHTTP(t, line.HTTP+"/readyz?verbose", `{"account":"main","ready":true`)
}

// lostTime returns a world with orders and renewals from before and after its backup.
func lostTime(t testing.TB, nats string) (w *world, commands [][]string) {
	t.Helper()
	w = newWorld(t, 10)
	w.configure(nats, "")
	run, _ := w.run()
	commands = [][]string{
		{"order", "--item", "off_us_1=2", "--id", "first"},
		{"order", "--item", "off_us_1=1", "--id", "second"},
		{"renew", "px_1", "px_2", "--id", "third"},
	}
	w.mustCLI(append(commands[0], "--wait")...)
	w.mustCLI("ledger", "backup", "backup.db")
	w.mustCLI(append(commands[1], "--wait")...)
	w.mustCLI(append(commands[2], "--wait")...)
	if code := run.terminate(); code != 0 {
		t.Fatalf("run ended with %d\n%s", code, run.stderr)
	}
	return w, commands
}

// republish submits all commands again and waits until they have ended.
func (w *world) republish(commands [][]string) {
	w.t.Helper()
	for _, c := range commands {
		w.mustCLI(append(c, "--wait")...)
	}
}

func (w *world) settled(run *process, ids ...string) {
	w.t.Helper()
	if code := run.terminate(); code != 0 {
		w.t.Fatalf("run ended with %d\n%s", code, run.stderr)
	}
	checkBooks(w.t, w, ids)
	if v := decode[againstLine](w.t, w.mustCLI("ledger", "verify", "--against-events", "-o", "json")); v.Unpublished != 0 {
		w.t.Errorf("%+v", v)
	}
}

func TestTrap13AnOldLedgerIsRefusedAndRestoredFromTheStream(t *testing.T) {
	t.Parallel()
	w, commands := lostTime(t, "")
	backup, err := os.ReadFile(filepath.Join(w.dir, "backup.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.ledgerFile(), backup, 0o600); err != nil {
		t.Fatal(err)
	}
	w.mustCLI("ledger", "verify") // the old copy is consistent in itself
	behind := decode[fileLine](t, w.mustCLI("ledger", "verify", "-o", "json")).Rows + 1
	if out, _, code := w.cli("ledger", "verify", "--against-events", "-o", "json"); code != cli.ExitFailed || !strings.Contains(out, fmt.Sprintf(`"seq":%d`, behind)) {
		t.Errorf("verify --against-events: exit %d\n%s", code, out)
	}
	refused := start(t, w.dir, "run")
	if code := refused.wait(); code != cli.ExitFailed || !strings.Contains(refused.stderr.String(), "perennial backup restore") {
		t.Fatalf("run with an old ledger: exit %d\n%s", code, refused.stderr)
	}
	out := w.mustCLI("ledger", "restore", "--from", "data/main.ledger.db", "--replace", "-o", "json")
	restored := decode[ledger.Restored](t, out)
	if !restored.Proven || restored.Events == 0 || restored.Rows == 0 || restored.Replaced == "" {
		t.Errorf("%+v", restored)
	}
	run, line := w.run()
	awaitReady(t, line)
	w.republish(commands)
	w.settled(run, "first", "second", "third")
}

func TestTrap13ALostDiskIsRestoredFromExternalNATSEvents(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	w, commands := lostTime(t, server.URL())
	before := decode[fileLine](t, w.mustCLI("ledger", "verify", "-o", "json"))
	if err := os.RemoveAll(filepath.Join(w.dir, "data")); err != nil {
		t.Fatal(err)
	}
	restored := decode[ledger.Restored](t, w.mustCLI("ledger", "restore", "--from-events", "-o", "json"))
	if !restored.Proven || restored.Events != before.Rows || restored.Head.Seq != before.Rows+2 {
		t.Errorf("%+v, was %+v", restored, before)
	}
	run, line := w.run()
	awaitReady(t, line)
	w.republish(commands)
	w.settledOn(server, run)
	w.restoresOldWhileNATSIsAway()
	// The ledger is lost a second time: the stream now holds two epochs and the restore between
	// them.
	again := decode[ledger.Restored](t, w.mustCLI("ledger", "restore", "--from-events", "--replace", "-o", "json"))
	if !again.Proven || again.Epoch == restored.Epoch || again.Events <= restored.Events {
		t.Errorf("%+v after %+v", again, restored)
	}
	run, line = w.run()
	awaitReady(t, line)
	w.settledOn(server, run)
}

// restoresOldWhileNATSIsAway replaces a newer ledger by a backup while NATS is unreachable, which
// needs --without-events. The next run reports the gap.
func (w *world) restoresOldWhileNATSIsAway() {
	w.t.Helper()
	now := w.mustCLI("ledger", "balance", "-o", "json")
	old := []string{"ledger", "restore", "--from", "backup.db", "--replace", "--nats", "nats://127.0.0.1:1"}
	if _, errs, code := w.cli(old...); code != cli.ExitUnreachable || !strings.Contains(errs, "--without-events") {
		w.t.Errorf("exit %d %s", code, errs)
	}
	if kept := w.mustCLI("ledger", "balance", "-o", "json"); kept != now {
		w.t.Errorf("the ledger is another one: %s, was %s", kept, now)
	}
	w.mustCLI(append(old, "--without-events")...)
	run, _ := w.run()
	if code := run.wait(); code != cli.ExitFailed || !strings.Contains(run.stderr.String(), "restored from a backup at ") {
		w.t.Errorf("exit %d %s", code, run.stderr)
	}
}

// settledOn is settled for a NATS server outside of the data directory.
func (w *world) settledOn(server *embedded.Server, run *process) {
	w.t.Helper()
	if code := run.terminate(); code != 0 {
		w.t.Fatalf("run ended with %d\n%s", code, run.stderr)
	}
	v := decode[againstLine](w.t, w.mustCLI("ledger", "verify", "--against-events", "--nats", server.URL(), "-o", "json"))
	if v.Unpublished != 0 {
		w.t.Errorf("%+v", v)
	}
	charged, refunded := checkReferee(w.t, w.charges)
	b := decode[tables.Balance](w.t, w.mustCLI("ledger", "balance", "-o", "json"))
	if b.ChargedCents != charged || b.RefundedCents != refunded {
		w.t.Errorf("ledger %+v, referee %d and %d", b, charged, refunded)
	}
}

func TestARestoreWhileAnotherMachineRunsTheAccountIsRefused(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	w := newWorld(t, 2)
	w.configure(server.URL(), "")
	p := start(t, w.dir, "run", "--data", "elsewhere")
	var line daemon.ReadyLine
	p.ready(&line)
	_, errs, code := w.cli("ledger", "restore", "--from-events")
	if code != cli.ExitFailed || !strings.Contains(errs, "is held by") {
		t.Errorf("exit %d %s", code, errs)
	}
	if _, err := os.Stat(w.ledgerFile()); err == nil {
		t.Error("a ledger was made")
	}
}
