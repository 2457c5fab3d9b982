//go:build check

package crashtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These tests run the programs of docs/events/examples as a third party would. The programs know
// the subjects and a login, and nothing of this module. They need node, the packages of
// package-lock.json, and python3, which `.ci/run` installs: hence the build tag.

const examplesDir = "../../../../docs/events/examples"

// language runs the example programs in one language.
type language struct {
	name string
	argv func(program string) []string
}

// languages is those whose programs reach NATS on this machine.
func languages(t testing.TB) []language {
	t.Helper()
	dir, err := filepath.Abs(examplesDir)
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin, "./go/...")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return []language{
		{"javascript", func(program string) []string {
			return []string{"node", filepath.Join(dir, "javascript", program+".js")}
		}},
		{"go", func(program string) []string { return []string{filepath.Join(bin, program)} }},
	}
}

// python runs the programs that read files.
func python(t testing.TB) language {
	t.Helper()
	dir, err := filepath.Abs(examplesDir)
	if err != nil {
		t.Fatal(err)
	}
	return language{"python", func(program string) []string { return []string{"python3", filepath.Join(dir, "python", program+".py")} }}
}

// stranger is a running example program.
type stranger struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	out  lockedBuffer
	errs lockedBuffer
	done chan struct{}
}

// as starts an example as a NATS user.
func (l language) as(t testing.TB, url, user, program string, args ...string) *stranger {
	t.Helper()
	argv := append(l.argv(program), args...)
	s := &stranger{t: t, name: l.name + " " + program + " " + strings.Join(args, " "), cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), "NATS_URL="+url, "NATS_USER="+user, "NATS_PASSWORD="+natsPassword)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.errs
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(s.done); _ = s.cmd.Wait() }()
	t.Cleanup(s.kill)
	return s
}

func (s *stranger) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	<-s.done
}

func (s *stranger) signal(number syscall.Signal) { _ = s.cmd.Process.Signal(number) }

func (s *stranger) ended() (out string, code int) {
	s.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-s.done:
	case <-late.C:
		s.t.Fatalf("%s did not end\n%s%s", s.name, s.out.String(), s.errs.String())
	}
	return s.out.String(), s.cmd.ProcessState.ExitCode()
}

// prints returns the output of an example that must succeed.
func (s *stranger) prints() string {
	s.t.Helper()
	out, code := s.ended()
	if code != 0 {
		s.t.Errorf("%s: exit %d\n%s%s", s.name, code, out, s.errs.String())
	}
	return out
}

// refuses checks that an example fails and prints the reason.
func (s *stranger) refuses(why string) {
	s.t.Helper()
	if out, code := s.ended(); code == 0 || !strings.Contains(s.errs.String(), why) {
		s.t.Errorf("%s: exit %d, and does not say %q\n%s%s", s.name, code, why, out, s.errs.String())
	}
}

// mostStarts limits the starts of one program, restarts after a kill included.
const mostStarts = 20

// projection is an inventory program. The test restarts it whenever it ends, as a supervisor would.
type projection struct {
	lang      language
	url, file string
	starts    int
	*stranger
}

func (p *projection) start(t testing.TB) {
	p.starts++
	p.stranger = p.lang.as(t, p.url, "view", "inventory", p.file, "stock-"+p.lang.name)
}

// holds returns the last event and the proxies in the projection's file.
func (p *projection) holds() (state struct {
	Seq     int64
	Proxies map[string]struct {
		ExpiresAt *time.Time `json:"expires_at"`
	}
},
) {
	text, err := os.ReadFile(p.file)
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil && !os.IsNotExist(err) {
		p.t.Errorf("%s: %v", p.name, err)
	}
	return state
}

// comesTo waits until the file holds an event.
func (p *projection) comesTo(t testing.TB, seq int64) {
	t.Helper()
	await(t, fmt.Sprintf("%s holds event %d", p.name, seq), func() bool {
		select {
		case <-p.done: // it lost its server or its consumer
			if p.starts == mostStarts {
				t.Fatalf("%s does not stay: %s", p.name, p.errs.String())
			}
			p.start(t)
		default:
		}
		return p.holds().Seq >= seq
	})
}

// persistent is a producer. The test restarts it with the same command if it is killed or finds no
// server.
type persistent struct {
	again  func() *stranger
	starts int
	*stranger
}

// end returns the producer's final output.
func (p *persistent) end() (out string, code int) {
	p.t.Helper()
	for out, code = p.ended(); out == "" && p.starts < mostStarts; out, code = p.ended() {
		p.starts++
		p.stranger = p.again()
	}
	return out, code
}
