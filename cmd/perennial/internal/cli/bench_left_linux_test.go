//go:build check

// An interrupted `perennial bench`, or a killed process of it, leaves no process behind. Only kill
// -9 leaves its directory.

package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// eventually waits until a condition holds, for a minute at most.
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

// benchUnderWay starts a long benchmark and waits until it executes commands.
func benchUnderWay(t *testing.T) (cmd *exec.Cmd, dir string, stderr *bytes.Buffer) {
	t.Helper()
	dir, stderr = benchDir(t), &bytes.Buffer{}
	self, err := os.Executable()
	must(t, err)
	cmd = exec.CommandContext(t.Context(), self, "bench", "--commands", "2500", "--in-flight", "1", "--concurrency", "32")
	cmd.Stderr, cmd.WaitDelay = stderr, time.Minute
	must(t, cmd.Start())
	eventually(t, "commands are published", func() bool { return len(benchProcesses(t, dir, "load")) == 1 })
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
	for task, says := range map[string]string{"sandbox": "the sandbox process has ended", "load": "the load process has ended"} {
		cmd, dir, stderr := benchUnderWay(t)
		for _, pid := range benchProcesses(t, dir, task) {
			must(t, syscall.Kill(pid, syscall.SIGKILL))
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != ExitFailed || !strings.Contains(stderr.String(), says) {
			t.Errorf("%s killed: exit %d\n%s", task, code, stderr)
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

// benchProcesses returns the processes with that temporary directory that run that task of a
// benchmark (Linux only).
func benchProcesses(t *testing.T, dir, task string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	must(t, err)
	for _, file := range all {
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, environ...), []byte("\x00TMPDIR="+dir+"\x00")) {
			continue // it has ended, or belongs to another user
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		must(t, err)
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if fields := strings.Split(string(args), "\x00"); pid != os.Getpid() && len(fields) > 1 && (task == "" || len(fields) > 2 && fields[2] == task) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// nothingLeft fails the test if a process or a file of a benchmark is left.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	if pids := benchProcesses(t, dir, ""); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("files are left: %v %v", files, err)
	}
}
