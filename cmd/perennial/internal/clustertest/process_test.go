//go:build check

// These helpers run, await, signal and kill the processes of the rig. With execVariable the test
// binary acts as the program.

package clustertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/cli"
	"perennial/queue/queuetest"
)

const execVariable = "PERENNIAL_CLUSTERTEST_EXEC"

// execNATS is the value of execVariable that makes the test binary act as a nats-server.
const execNATS = "nats-server"

var (
	rounds    = flag.Int("cluster.rounds", 20, "rounds of faults of all tests, a quarter of them with one runner")
	seed      = flag.Uint64("cluster.seed", 0, "seed of the faults; 0 draws one")
	faultText = flag.String("cluster.fault", "", "only faults whose name contains this text")
)

func TestMain(m *testing.M) {
	switch os.Getenv(execVariable) {
	case "":
	case execNATS:
		os.Exit(queuetest.ServeNATS(os.Args[1:], os.Stderr))
	default:
		if err := shiftClock(); err != nil {
			panic(err)
		}
		p := cli.Program{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
		os.Exit(p.Main(context.Background()))
	}
	for _, v := range []string{"PERENNIAL_NATS", "PERENNIAL_MAIN_SECRET", "CREDENTIALS_DIRECTORY"} {
		_ = os.Unsetenv(v)
	}
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	// A test mostly waits for processes and leases.
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		_ = p.Value.Set("4")
	}
	fmt.Printf("-cluster.seed %d\n", *seed)
	os.Exit(m.Run())
}

// patience limits every wait for a process.
const patience = 60 * time.Second

// process is a running process. Its stderr, and its stdout after the first line, are appended to
// its log file.
type process struct {
	cmd   *exec.Cmd
	first chan []byte   // the first line of stdout; closed at its end
	done  chan struct{} // closed when the process has ended
}

// spawn starts a command that logs to the file. The kernel kills the command when the starting
// thread ends, so that a panic of the tests leaves no process. spawn therefore keeps that thread
// until the command ends.
func spawn(cmd *exec.Cmd, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, first: make(chan []byte, 1), done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = out.Close() }()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		defer close(p.done)
		reader := bufio.NewReader(pipe)
		if line, err := reader.ReadBytes('\n'); err == nil {
			p.first <- line
		}
		close(p.first)
		_, _ = io.Copy(out, reader)
		_ = cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%v: %w", cmd.Args, err)
	}
	return p, nil
}

// program returns a command that runs the program in dir.
func program(ctx context.Context, dir string, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), execVariable+"=1")
	return cmd
}

func start(t *testing.T, dir, log string, args ...string) *process {
	t.Helper()
	return startWith(t, "", nil, dir, log, args...)
}

// startWith is start with another version, "" for this one, and extra environment variables.
func startWith(t *testing.T, version string, environment []string, dir, log string, args ...string) *process {
	t.Helper()
	cmd := program(context.Background(), dir, args...)
	if version != "" {
		cmd.Path = version
	}
	cmd.Env = append(cmd.Env, environment...)
	p, err := spawn(cmd, filepath.Join(dir, log))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// ready reads the process's ready line into line.
func (p *process) ready(t *testing.T, line any) {
	t.Helper()
	select {
	case text := <-p.first:
		if err := json.Unmarshal(text, line); err != nil {
			t.Fatalf("%v: ready line %q: %v; logs in %s", p.cmd.Args, text, err, p.cmd.Dir)
		}
	case <-time.After(patience):
		t.Fatalf("%v gave no ready line in %s; logs in %s", p.cmd.Args, patience, p.cmd.Dir)
	}
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ended waits for the end of the process, and reports whether it came in time.
func (p *process) ended(limit time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(limit):
		return false
	}
}

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// terminate sends SIGTERM. It returns the exit code, or -1 for a process that had to be killed.
func (p *process) terminate() int {
	p.signal(syscall.SIGTERM)
	if !p.ended(patience) {
		p.signal(syscall.SIGQUIT) // logs the goroutines
		if !p.ended(5 * time.Second) {
			p.kill()
		}
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

func command(ctx context.Context, dir string, args ...string) (stdout string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := program(ctx, dir, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%v: %w: %s%s", args, err, out.String(), errs.String())
	}
	return out.String(), nil
}

func await(ctx context.Context, limit time.Duration, condition func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if condition() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
}
