package crashtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/config"
	"perennial/ledger/files"
)

// pipe replaces a file by a named pipe to which nothing is ever written.
func (w *world) pipe(name string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.RemoveAll(path); err != nil {
		w.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func TestANamedPipeInAFilesPlaceStopsNoCommand(t *testing.T) {
	t.Parallel()
	order := `{"id":"a","offer_code":"off_us","quantity":1,"duration_days":30}` + "\n"
	for name, c := range map[string]struct {
		pipe string
		args []string
	}{
		"configuration":        {"perennial.yaml", []string{"run"}},
		"lock":                 {"data/perennial.lock", []string{"run"}},
		"lock, ledger archive": {"data/perennial.lock", []string{"ledger", "archive", "--before", "2020-01-01"}},
		"ledger":               {"data/main.ledger.db", []string{"run"}},
		"ledger's log":         {"data/main.ledger.db-wal", []string{"run"}},
		"ledger, to read":      {"data/main.ledger.db", []string{"ledger", "export"}},
		"addresses":            {"data/run.json", []string{"status"}},
		"store of NATS":        {"data/nats", []string{"run"}},
		"secret":               {"main.secret", []string{"wallet"}},
		"rejects":              {"pipe", []string{"submit", "a.jsonl", "--rejects", "pipe"}},
		"ledger to verify":     {"pipe", []string{"ledger", "verify", "pipe"}},
		"backup to restore":    {"pipe", []string{"ledger", "restore", "--from", "pipe"}},
		"fixture":              {"pipe", []string{"sandbox", "--fixture", "pipe"}},
		"sandbox's database":   {"pipe", []string{"sandbox", "--db", "pipe"}},
		"sandbox's charges":    {"pipe", []string{"sandbox", "--charges", "pipe"}},
		"keys":                 {"pipe", []string{"conformance", "--base-url", "http://127.0.0.1:1", "--app-id", "sbx_app_a", "--secret-file", "main.secret", "--keys", "pipe"}},
		"schemas":              {"docs/asyncapi.json", []string{"schema", "--dir", "docs"}},
		"creds":                {"pipe", []string{"status", "--config", "creds.yaml"}},
		"context":              {"nats/context/x.json", []string{"status", "--config", "context.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, dir: t.TempDir(), sandbox: cli.SandboxReadyLine{Sandbox: "http://127.0.0.1:1"}}
			w.write("main.secret", worldSecret, 0o600)
			w.configure("", "")
			w.write("a.jsonl", order, 0o600)
			text, err := os.ReadFile(filepath.Join(w.dir, "perennial.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			for file, nats := range map[string]string{"creds.yaml": "{url: \"nats://127.0.0.1:1\", creds_file: pipe}", "context.yaml": "{context: x}"} {
				w.write(file, strings.Replace(string(text), `nats: {url: "", listen: 127.0.0.1:0}`, "nats: "+nats, 1), 0o600)
			}
			w.pipe(c.pipe)
			p := startIn(t, w.dir, []string{"XDG_CONFIG_HOME=" + w.dir}, c.args...)
			if code := p.wait(); code == cli.ExitDone || p.late || !strings.Contains(p.stderr.String(), "pipe") && !strings.Contains(p.stderr.String(), "not a") {
				t.Errorf("exit %d, by itself: %v, %s", code, !p.late, p.stderr)
			}
		})
	}
}

// If an older program takes over the lock, the runner reports it and writes nothing more.
func TestARemovedLockStopsNoRunnerAndLetsNoneIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	run, line := w.run()
	w.readySays(line, ready)
	lock := filepath.Join(w.dir, "data", "perennial.lock")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := w.cli("ledger", "restore", "--from-events", "--replace"); code != cli.ExitFailed || !strings.Contains(errs, "in use by another process") {
		t.Errorf("exit %d %s", code, errs)
	}
	w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	if _, err := os.Stat(lock); err != nil {
		t.Errorf("the lock was not made again: %v", err)
	}
	w.lockOut(lock)
	w.readySays(line, "stop both processes")
	w.mustSubmit("second", "px_2")
	run.terminate()
	w.onlyFirstIsCharged()
}

// lockOut takes the lock of a runner's data directory, as an older program can.
func (w *world) lockOut(lock string) {
	w.t.Helper()
	for got := false; !got; { // until it is faster than the runner
		_ = os.Remove(lock)
		older, now, err := files.TryLock(lock)
		if err != nil {
			w.t.Fatal(err)
		}
		if got = now; got {
			w.t.Cleanup(func() { _ = older.Unlock() }) // without a reference, the lock would be released
		}
	}
}

// With an external NATS server, the runner gives up the account. It does not treat the ledger file
// as damaged, because another process works on it.
func TestALockedOutRunnerLeavesTheLedgerWhereItIs(t *testing.T) {
	t.Parallel()
	p := newPair(t, 2)
	p.start(0, "")
	p.awaitRole(0, "active")
	p.start(1, "")
	p.awaitRole(1, "standby")
	p.w.lockOut(filepath.Join(p.w.dir, pairData[0], "perennial.lock"))
	p.w.readySays(p.at[0], "stop both processes")
	p.awaitRole(1, "active")
	p.w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	p.w.readySays(p.at[0], "waits to be started again")
	await(t, "another attempt has begun", func() bool {
		said := p.runs[0].stderr.String()
		return strings.Contains(said, "is not touched") || strings.Contains(said, "is moved aside")
	})
	p.runs[0].terminate()
	if aside, err := filepath.Glob(filepath.Join(p.w.dir, pairData[0], "*.replaced-*")); err != nil || len(aside) > 0 {
		t.Errorf("the ledger was moved aside: %v %v", aside, err)
	}
}

// The schedule reports the error, and the runner continues.
func TestAListThatIsANamedPipeStopsNoSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.pipe("list")
	c, err := config.Load(filepath.Join(w.dir, "perennial.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.ReadListFile("list")
	if err == nil || !strings.Contains(err.Error(), "named pipe") {
		t.Error(err)
	}
}

// The pipes are a shell's <(…), /dev/stdin and a named pipe.
func TestCommandsComeOutOfAPipe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.pipe("pipe")
	const command = `{"id":"a","proxy_ids":["px_1"],"duration_days":30}`
	waiting := start(t, w.dir, "submit", "pipe", "--dry-run")
	in, err := os.OpenFile(filepath.Join(w.dir, "pipe"), os.O_WRONLY, 0) // returns when submit has opened it
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, command)
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if code := waiting.wait(); code != cli.ExitDone {
		t.Errorf("exit %d %s", code, waiting.stderr)
	}
	shell := exec.Command("bash", "-c", `"$0" submit <(echo "$1") --dry-run && echo "$1" | "$0" submit /dev/stdin --dry-run && echo "$1" | "$0" submit - --dry-run`,
		waiting.cmd.Path, command)
	shell.Dir, shell.Env = w.dir, waiting.cmd.Env
	if out, err := shell.CombinedOutput(); err != nil || strings.Count(string(out), "px_1") < 3 && strings.Count(string(out), "1 command") < 3 {
		t.Errorf("%v %s", err, out)
	}
}

func TestWaitingForAPipeEndsWithASignal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.pipe("pipe")
	for _, args := range [][]string{{"submit", "pipe"}, {"account", "rotate", "--secret-file", "pipe"}} {
		p := start(t, w.dir, args...)
		in, err := os.OpenFile(filepath.Join(w.dir, "pipe"), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := p.wait(); code != cli.ExitInterrupted || p.late {
			t.Errorf("%v: exit %d, by itself: %v, %s", args, code, !p.late, p.stderr)
		}
		_ = in.Close()
	}
}

// The file that the link points to may belong to somebody else.
func TestRejectsReplaceALink(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.write("target", "keep", 0o666)
	if err := os.Symlink("target", filepath.Join(w.dir, "rejects")); err != nil {
		t.Fatal(err)
	}
	w.run()
	w.write("a.jsonl", `{"id":"a","proxy_ids":["px_none"],"duration_days":30}`+"\n", 0o600)
	if _, errs, code := w.cli("submit", "a.jsonl", "--rejects", "rejects"); code == cli.ExitDone || code == cli.ExitUsage {
		t.Errorf("exit %d %s", code, errs)
	}
	if text, err := os.ReadFile(filepath.Join(w.dir, "target")); err != nil || string(text) != "keep" {
		t.Errorf("%s %v", text, err)
	}
	info, err := os.Lstat(filepath.Join(w.dir, "rejects"))
	if err != nil || info.Mode() != 0o600 || info.Size() == 0 {
		t.Errorf("%v %v", info, err)
	}
}
