package crashtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger/failpoint"
	"perennial/ledger/testrun"
	"perennial/queue/queuetest"
)

// execVariable makes the test binary be the program: tests start real processes
// and kill them.
const execVariable = "PERENNIAL_TEST_EXEC"

// archiveKeep is how many rows `backup archive` leaves here, which otherwise are 4,096: more than the
// outbox compares with the stream at a start.
const archiveKeep = 1100

// plannedTogether is how many commands of a plan are published in one batch here, instead of 1,000.
const plannedTogether = 10

// execNATS is its value that makes the binary be a nats-server.
const execNATS = "nats-server"

func TestMain(m *testing.M) {
	switch os.Getenv(execVariable) {
	case "":
	case execNATS:
		os.Exit(queuetest.ServeNATS(os.Args[1:], os.Stderr))
	default:
		p := cli.Program{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
		ctx := failpoint.WithSize(context.Background(), "archive.keep", archiveKeep)
		ctx = failpoint.WithSize(ctx, "plan.together", plannedTogether)
		if spec := os.Getenv(crashVariable); spec != "" {
			ctx = failpoint.With(ctx, crashAt(spec))
		}
		if os.Getenv(umaskVariable) != "" {
			syscall.Umask(0)
		}
		os.Exit(p.Main(ctx))
	}
	// What a developer has set must not change what the tests see.
	for _, v := range []string{"PERENNIAL_NATS", "PERENNIAL_MAIN_SECRET", "CREDENTIALS_DIRECTORY"} {
		_ = os.Unsetenv(v)
	}
	// Most of a test is waiting for processes and timers of its own.
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		_ = p.Value.Set(strconv.Itoa(6 * runtime.GOMAXPROCS(0)))
	}
	// The processors are busy with the processes of other tests; one that uses a single
	// processor costs a tenth less. `make check` has processes that use them all.
	if !testrun.Check && os.Getenv("GOMAXPROCS") == "" {
		_ = os.Setenv("GOMAXPROCS", "1")
	}
	remove := testrun.Prepare()
	code := m.Run()
	remove()
	os.Exit(code)
}

// patience bounds every wait of a test; a test that meets it has failed.
const patience = 2 * time.Minute

// process is a running copy of the program.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr *lockedBuffer
	once   sync.Once
	late   bool // it did not end automatically
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs the program in dir. It is killed when the test ends.
func start(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	return startIn(t, dir, nil, args...)
}

// startIn is start with more in the environment.
func startIn(t testing.TB, dir string, env []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startProgram(t, self, dir, env, args...)
}

// startProgram is startIn of a program of another version.
func startProgram(t testing.TB, program, dir string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, args...), stderr: &lockedBuffer{}}
	p.cmd.Dir = dir
	p.cmd.Env = append(append(os.Environ(), execVariable+"=1"), env...)
	p.cmd.Stderr = p.stderr
	pipe, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(pipe)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// ready reads the ready line into line.
func (p *process) ready(line any) {
	p.t.Helper()
	text, err := p.stdout.ReadBytes('\n')
	if err != nil {
		p.kill()
		p.t.Fatalf("%v gave no ready line: %v\n%s", p.cmd.Args[1:], err, p.stderr)
	}
	if err := json.Unmarshal(text, line); err != nil {
		p.t.Fatalf("ready line %q: %v", text, err)
	}
}

// kill is kill -9.
func (p *process) kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, p.stdout)
		_ = p.cmd.Wait()
	})
}

// wait waits for the process to end on its own.
func (p *process) wait() int {
	p.once.Do(func() {
		timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
		defer func() { p.late = !timer.Stop() }()
		_, _ = io.Copy(io.Discard, p.stdout)
		_ = p.cmd.Wait()
	})
	if p.late {
		p.t.Errorf("%v did not end by itself\n%s", p.cmd.Args[1:], p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// terminate is SIGTERM; it returns the exit code.
func (p *process) terminate() int {
	p.once.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, p.stdout)
		_ = p.cmd.Wait()
	})
	return p.cmd.ProcessState.ExitCode()
}

// world is a sandbox process and the directory and configuration of a runner.
type world struct {
	t       testing.TB
	dir     string
	sandbox cli.SandboxReadyLine
	charges string
	program string // of another version, by which run and cli go; "": this one
}

// executable is the program by which run and cli go.
func (w *world) executable() string {
	w.t.Helper()
	if w.program != "" {
		return w.program
	}
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	return self
}

const (
	worldAppID  = "sbx_app_alpha"
	worldSecret = "canary-secret-7Qm2"
)

// newWorld starts a sandbox with n renewable proxies px_1 … px_n.
func newWorld(t testing.TB, proxies int) *world {
	t.Helper()
	return newWorldOf(t, fmt.Sprintf(`
accounts:
  - account_id: acc_alpha
    email: alpha@example.com
    wallet: {currency: USD, sandbox_cents: 50000000, production_cents: 50000000}
    keys:
      - {app_id: %s, secret: %q}
      - {app_id: sbx_app_alpha2, secret: second-canary-9dK4}
  - account_id: acc_other
    email: other@example.com
    wallet: {currency: USD, sandbox_cents: 1000}
    keys:
      - {app_id: sbx_app_other, secret: second-canary-9dK4}
offers:
  - {offer_code: off_us_1, name: US static, country_code: US, country_name: United States, region: Dallas, line_name: premium,
     ip_type: isp, protocol: socks5, unit_price_cents: 300, base_duration_days: 30, duration_days: [30, 60, 90],
     max_quantity: 500, cidrs: ["198.51.100.0/24"], stock: 100000}
proxies:
  - {count: %d, prefix: px_, account_id: acc_alpha, environment: sandbox, offer_code: off_us_1, expires_in: 24h..240h}
`, worldAppID, worldSecret, proxies))
}

// newWorldOf starts a sandbox that a fixture fills.
func newWorldOf(t testing.TB, fixture string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.charges = filepath.Join(w.dir, "charges.jsonl")
	w.write("fixture.yaml", fixture, 0o600)
	p := start(t, w.dir, "sandbox", "--db", "sandbox.db", "--fixture", "fixture.yaml", "--charges", w.charges)
	p.ready(&w.sandbox)
	w.write("main.secret", worldSecret, 0o600)
	w.configure("", "")
	return w
}

func (w *world) write(name, text string, mode os.FileMode) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), mode); err != nil {
		w.t.Fatal(err)
	}
}

// configure writes perennial.yaml; natsURL "" is the embedded server.
func (w *world) configure(natsURL, schedules string) {
	w.write("perennial.yaml", fmt.Sprintf(`
data_dir: ./data
nats: {url: %q, listen: 127.0.0.1:0}
http: {listen: 127.0.0.1:0}
accounts:
  main:
    base_url: %s
    app_id: %s
    secret_file: main.secret
    rate_per_second: 1000
    concurrency: 8
%s`, natsURL, w.sandbox.Sandbox, worldAppID, schedules), 0o600)
}

// run starts `perennial run` in the world and waits for its ready line.
func (w *world) run(flags ...string) (*process, daemon.ReadyLine) {
	w.t.Helper()
	p := startProgram(w.t, w.executable(), w.dir, nil, append([]string{"run"}, flags...)...)
	var line daemon.ReadyLine
	p.ready(&line)
	return p, line
}

// fault spoils the next requests at the sandbox.
func (w *world) fault(body map[string]any) {
	w.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.control(http.MethodPost, "/faults", text)
}

func (w *world) control(method, path string, body []byte) []byte {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.sandbox.Control+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode/100 != 2 {
		w.t.Fatalf("%s %s: HTTP %d %s %v", method, path, response.StatusCode, text, err)
	}
	return text
}

// cli runs a command to its end in the world and returns its output and exit
// code.
func (w *world) cli(args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.executable(), args...)
	cmd.Dir, cmd.Env = w.dir, append(os.Environ(), execVariable+"=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if ctx.Err() != nil {
		w.t.Fatalf("%v did not end: %s%s", args, out.String(), errs.String())
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// get reads a page, whatever its status.
func (w *world) get(url string) (string, error) {
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}
