// Processes of a measurement: started, told to go, killed, and asked what they used.

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a child of this program. It ends with it: the kernel sees to that.
type process struct {
	name  string
	log   string // file of its standard error
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string   // of its standard output; closed when that ends
	ended chan struct{} // closed when the process was waited for
}

// endWithin is how long a process may take to end when it is asked to.
const endWithin = 15 * time.Second

// spawn starts a program. What it says on standard error goes to a file in dir. owner is
// the user it runs as; nil is this one.
func spawn(dir, name string, owner *syscall.Credential, program string, args ...string) (*process, error) {
	file := filepath.Join(dir, name+".log")
	log, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p := &process{name: name, log: file, cmd: exec.Command(program, args...), lines: make(chan string, 64), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stderr = dir, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner, Pdeathsig: syscall.SIGKILL}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(stdout)
	return p, nil
}

// read passes lines on, and waits for the process. Lines that no one takes are dropped:
// a server that logs must not be held up.
func (p *process) read(stdout io.Reader) {
	for in := bufio.NewScanner(stdout); in.Scan(); {
		select {
		case p.lines <- in.Text():
		default:
		}
	}
	close(p.lines)
	_ = p.cmd.Wait()
	close(p.ended)
}

// line is the next line of the process's output.
func (p *process) line(within time.Duration) (string, error) {
	select {
	case text, ok := <-p.lines:
		if !ok {
			<-p.ended
			return "", cmp.Or(p.failed(), fmt.Errorf("%s has ended before it answered", p.name))
		}
		return text, nil
	case <-time.After(within):
		return "", fmt.Errorf("%s did not answer within %s", p.name, within)
	}
}

// answer reads the next line, JSON, into x.
func (p *process) answer(within time.Duration, x any) error {
	text, err := p.line(within)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), x); err != nil {
		return fmt.Errorf("%s said %q: %w", p.name, text, err)
	}
	return nil
}

// say writes a line to the process.
func (p *process) say(text string) error {
	_, err := io.WriteString(p.stdin, text+"\n")
	return err
}

// kill is kill -9, and waits until the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// failed is why a process that should run, or end well, has not.
func (p *process) failed() error {
	select {
	case <-p.ended:
	default:
		return nil
	}
	if p.cmd.ProcessState.Success() {
		return nil
	}
	said, err := os.ReadFile(p.log)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %s: …%s", p.name, p.cmd.ProcessState, said[max(0, len(said)-2000):])
}

// stop asks the process to end, and kills it if it does not.
func (p *process) stop(how os.Signal) error {
	if p == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(how)
	select {
	case <-p.ended:
		return nil
	case <-time.After(endWithin):
		p.kill()
		return fmt.Errorf("%s did not end within %s and was killed", p.name, endWithin)
	}
}

// userHz is the unit of times in /proc, which Linux fixes for programs.
const userHz = 100

// cpu is what a process, its living children and those that it has waited for used.
func (p *process) cpu() (time.Duration, error) {
	if p == nil {
		return 0, nil
	}
	own, err := ticksOf(p.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for _, text := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			return 0, err
		}
		ticks, err := ticksOf(pid)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			return 0, err
		}
		own += ticks
	}
	return time.Duration(own) * time.Second / userHz, nil
}

// ticksOf reads user and system time of /proc/PID/stat, with those of children that were
// waited for.
func ticksOf(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may have spaces
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var sum int64
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
