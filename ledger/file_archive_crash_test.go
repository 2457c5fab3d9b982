package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
)

// crashEnv tells a process of this test's own program what to archive, and the step at
// which to kill it.
const crashEnv = "PERENNIAL_TEST_ARCHIVE_CRASH"

type crash struct {
	Path, Dir, Step string
	Before          time.Time
	Published       chain.Head
}

// archiveAndCrash runs in that process instead of the tests.
func archiveAndCrash(text string) {
	var c crash
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		x := Archive{Path: c.Path, Dir: c.Dir, Before: c.Before, Published: c.Published, Keep: 1, Clock: func() time.Time { return nthDay(5000) }}
		ctx := failpoint.With(context.Background(), func(step string) {
			if step == c.Step {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		})
		_, err = x.Run(ctx)
	}
	panic(errors.Join(errors.New("it was not killed"), err))
}

// Whenever archiving is killed, the ledger is either the one before or the one after it, and
// works. A second run completes the work and leaves no other files.
func TestAKilledArchivingLosesNothingAndIsEndedByAnother(t *testing.T) {
	source := filepath.Join(t.TempDir(), "main.ledger.db")
	b := oldBook(t, source, append(history(), over()...)...)
	want, head := money(t, b.Ledger), b.balance().Head
	check(t, b.Close())
	whole, err := os.ReadFile(source)
	check(t, err)
	for _, step := range []string{"archive.begun", "archive.folded", "archive.written", "archive.ledger_folded", "archive.ledger_verified", "archive.swapped"} {
		t.Run(step, func(t *testing.T) {
			path, dir := filepath.Join(t.TempDir(), "main.ledger.db"), t.TempDir()
			check(t, os.WriteFile(path, whole, 0o600))
			killed(t, crash{Path: path, Dir: dir, Step: step, Before: nthDay(60), Published: head})
			b := openBook(t, path)
			if _, err := b.Verify(t.Context()); err != nil {
				t.Fatal(err)
			}
			if money(t, b.Ledger) != want {
				t.Error("it says other things of money")
			}
			b.add(fact.RunnerStarted{Version: "1", Holder: "h"}) // the runner starts first
			check(t, b.Close())
			x := archiveOf(t, path, 60)
			x.Dir = dir
			out, err := x.Run(t.Context())
			check(t, err)
			if (out.File == "") != (step == "archive.swapped") {
				t.Errorf("run again: %+v", out)
			}
			holdsOnly(t, dir, "main.ledger.1-59.archive.db")
			holdsOnly(t, filepath.Dir(path), "main.ledger.db")
			b = openBook(t, path)
			v, err := b.VerifyWith(t.Context(), filepath.Join(dir, "main.ledger.1-59.archive.db"))
			if err != nil || v.Behind != nil || v.Rows != head.Seq+2 {
				t.Errorf("%+v %v", v, err)
			}
			if money(t, b.Ledger) != want {
				t.Error("it says other things of money")
			}
		})
	}
}

// killed runs an archiving in another process until it kills itself.
func killed(t *testing.T, c crash) {
	t.Helper()
	text, err := json.Marshal(c)
	check(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+string(text))
	killedByItself(t, cmd)
}

// killedByItself runs a process until it kills itself.
func killedByItself(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if failure, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := failure.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
			return
		}
	}
	t.Fatalf("it was not killed: %v\n%s", err, out)
}

// A different file under the archive's name is neither used nor overwritten.
func TestAnotherFileUnderTheArchivesNameIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	check(t, oldBook(t, path, append(history(), over()...)...).Close())
	name := filepath.Join(filepath.Dir(path), "main.ledger.1-59.archive.db")
	check(t, os.WriteFile(name, []byte("the only copy of something"), 0o600))
	if _, err := archiveOf(t, path, 60).Run(t.Context()); err == nil {
		t.Error("it was taken")
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "the only copy of something" {
		t.Errorf("%q %v", text, err)
	}
	b := openBook(t, path)
	if begins, _ := b.Begins(); begins != nil {
		t.Error("rows went without an archive")
	}
}
