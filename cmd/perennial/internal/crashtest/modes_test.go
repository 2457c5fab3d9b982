package crashtest

import (
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
)

// umaskVariable makes the program start with umask 0, so that each new file has exactly the mode
// that the program asks for.
const umaskVariable = "PERENNIAL_TEST_UMASK"

// The program runs under umask 0. Only files that are meant for others may have a wider mode.
func TestWhatCommandsMakeIsForThisUserAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	out := filepath.Join(w.dir, "out")
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	umask := []string{umaskVariable + "=1", "TMPDIR=" + out}
	do := func(args ...string) {
		t.Helper()
		if p := startIn(t, w.dir, umask, args...); p.wait() != cli.ExitDone {
			t.Errorf("%v: %s", args, p.stderr)
		}
	}
	box := startIn(t, w.dir, umask, "sandbox", "--fixture", "fixture.yaml", "--db", "out/sandbox.db", "--charges", "out/charges.jsonl")
	var line cli.SandboxReadyLine
	box.ready(&line)
	runner := startIn(t, w.dir, umask, "run", "--data", "out/data")
	var ready daemon.ReadyLine
	runner.ready(&ready)
	w.write("a.jsonl", `{"id":"a","proxy_ids":["px_1"],"duration_days":30}`+"\n", 0o600)
	do("submit", "a.jsonl", "--nats", natsOf(t, out), "--rejects", "out/rejects")
	do("init", "--base-url", line.Sandbox, "--app-id", "live_app_a", "--secret-file", "main.secret", "--out", "out/perennial.yaml", "--no-doctor")
	do("schema", "--dir", "out/schemas")
	do("conformance", "--base-url", line.Sandbox, "--app-id", worldAppID, "--secret-file", "main.secret", "--section", "wallet", "--junit", "out/junit.xml")
	do("bench", "--commands", "20", "--profile", "out/profiles")
	runner.terminate()
	w.configureData("out/data")
	do("ledger", "backup", "out/backup.db")
	do("ledger", "export", "--out", "out/book.csv")
	do("ledger", "statement", "--out", "out/statement.md")
	do("ledger", "rebuild", "--out", "out/rebuilt.db")
	do("ledger", "restore", "--from", "out/backup.db", "--replace")
	for _, name := range []string{"sandbox.db", "charges.jsonl", "data/main.ledger.db", "data/nats/jetstream", "rejects", "main.secret", "schemas/asyncapi.json", "junit.xml", "profiles/cpu.pprof", "backup.db", "book.csv", "statement.md", "rebuilt.db"} {
		if !isThere(filepath.Join(out, name)) {
			t.Errorf("%s was not made", name)
		}
	}
	forOthers := func(path string) bool { // as docs/install.md says
		return strings.HasPrefix(path, "schemas") || path == "junit.xml" || path == "perennial.yaml" ||
			path == "data/main.ledger.db.backup.json" // root may make backups, and the runner reads the time of the last one
	}
	checkModes(t, out, forOthers)
}

func checkModes(t testing.TB, dir string, forOthers func(path string) bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		most := fs.FileMode(0o600)
		if d.IsDir() {
			most = 0o700
		}
		name, _ := filepath.Rel(dir, path)
		if forOthers(name) {
			most |= most>>3&0o055 | most>>6&0o055
		}
		if info.Mode().Perm()&^most != 0 {
			t.Errorf("%s has mode %v, and may have %v", name, info.Mode(), most)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// natsOf returns the NATS address in a run's run.json, with its password.
func natsOf(t testing.TB, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "data", "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	var run struct{ NATS, User, Password string }
	if err := json.Unmarshal(text, &run); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(run.NATS)
	if err != nil {
		t.Fatal(err)
	}
	if run.User != "" {
		at.User = url.UserPassword(run.User, run.Password)
	}
	return at.String()
}

func (w *world) configureData(dir string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "perennial.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.write("perennial.yaml", strings.Replace(string(text), "./data", dir, 1), 0o600)
}

// A file that another user could have changed is refused. A file whose mode an older version left
// too wide is closed.
func TestLooseFilesOfARunAreClosedOrRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	run, _ := w.run()
	data := filepath.Join(w.dir, "data")
	run.kill() // leaves the -wal and -shm files
	set := func(path string, mode fs.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(words ...string) {
		t.Helper()
		p := start(t, w.dir, "run")
		if _, err := p.stdout.ReadByte(); err == nil {
			p.kill()
			t.Errorf("it runs, without %q", words)
			return
		}
		code, errs := p.wait(), p.stderr.String()
		for _, want := range words {
			if code == cli.ExitDone || !strings.Contains(errs, want) {
				t.Errorf("exit %d, not %q: %s", code, want, errs)
			}
		}
	}
	set(filepath.Join(data, "nats"), 0o777)
	refused("may be written by other users", "chmod go-w")
	set(filepath.Join(data, "nats"), 0o755)
	set(filepath.Join(w.dir, "perennial.yaml"), 0o666)
	refused("every user may write it", "chmod o-w")
	set(filepath.Join(w.dir, "perennial.yaml"), 0o664)
	set(w.dir, 0o777)
	refused("every user may rename and replace it", "chmod o-w "+w.dir)
	set(w.dir, 0o777|fs.ModeSticky)
	for _, ending := range []string{"-wal", "-shm"} {
		set(w.ledgerFile()+ending, 0o666)
	}
	w.run()
	for path, mode := range map[string]fs.FileMode{filepath.Join(data, "nats"): 0o700, w.ledgerFile() + "-wal": 0o600, w.ledgerFile() + "-shm": 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", path, info, err)
		}
	}
}
