//go:build check

// What `perennial bench` leaves behind when it, or a process of it, is ended: nothing runs,
// and only a kill -9 leaves its directory.

package cli

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// eventually waits until something is so, for a minute at most.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(time.Minute); !so(); <-ticker.C {
		if time.Now().After(end) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

// benchUnderWay is a long benchmark whose commands are being carried out.
func benchUnderWay(t *testing.T) (cmd *exec.Cmd, dir string, stderr *bytes.Buffer) {
	t.Helper()
	dir, stderr = benchDir(t), &bytes.Buffer{}
	self, err := os.Executable()
	must(t, err)
	cmd = exec.CommandContext(t.Context(), self, "bench", "--commands", "2500", "--in-flight", "1", "--concurrency", "32")
	cmd.Stderr, cmd.WaitDelay = stderr, time.Minute
	must(t, cmd.Start())
	eventually(t, "commands are published", func() bool { return len(benchProcesses(t, dir, loadName)) == 1 })
	return cmd, dir, stderr
}

func TestBenchLeavesNothingWhenItIsInterrupted(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd, dir, stderr := benchUnderWay(t)
		must(t, cmd.Process.Signal(signal))
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != ExitInterrupted {
			t.Errorf("%s: exit %d\n%s", signal, code, stderr)
		}
		nothingLeft(t, dir)
	}
}

func TestBenchEndsWithEachOfItsProcesses(t *testing.T) {
	for command, says := range map[string]string{"sandbox": "the sandbox has ended", loadName: "the producer and follower has ended"} {
		cmd, dir, stderr := benchUnderWay(t)
		for _, pid := range benchProcesses(t, dir, command) {
			must(t, syscall.Kill(pid, syscall.SIGKILL))
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != ExitFailed || !strings.Contains(stderr.String(), says) {
			t.Errorf("%s killed: exit %d\n%s", command, code, stderr)
		}
		nothingLeft(t, dir)
	}
}

func TestBenchHelpersEndWithAKilledBenchmark(t *testing.T) {
	cmd, dir, _ := benchUnderWay(t)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	eventually(t, "all of its processes have ended", func() bool { return len(benchProcesses(t, dir, "")) == 0 })
}
