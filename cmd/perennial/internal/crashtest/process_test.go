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

// execVariable makes the test binary act as the program, so that tests can start and kill real
// processes.
const execVariable = "PERENNIAL_TEST_EXEC"

// archiveKeep is how many rows `backup archive` keeps in the tests, instead of 4,096. It is more
// rows than the outbox compares with the stream at a start.
const archiveKeep = 1100

// plannedTogether is how many commands of a plan the tests publish in one batch, instead of 1,000.
const plannedTogether = 10

// execNATS is the value of execVariable that makes the test binary act as a nats-server.
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
	// A developer's environment must not change what the tests see.
	for _, v := range []string{"PERENNIAL_NATS", "PERENNIAL_MAIN_SECRET", "CREDENTIALS_DIRECTORY"} {
		_ = os.Unsetenv(v)
	}
	// A test mostly waits for its processes and timers.
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		_ = p.Value.Set(strconv.Itoa(6 * runtime.GOMAXPROCS(0)))
	}
	// The tests' processes share the processors. A process that uses only one of them costs a tenth
	// less. `make check` lets each process use all of them.
	if !testrun.Check && os.Getenv("GOMAXPROCS") == "" {
		_ = os.Setenv("GOMAXPROCS", "1")
	}
	remove := testrun.Prepare()
	code := m.Run()
	remove()
	os.Exit(code)
}

// patience limits every wait of a test. A test that reaches it fails.
const patience = 2 * time.Minute

type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr *lockedBuffer
	once   sync.Once
	late   bool // it did not end on its own
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

// start runs the program in dir, and kills it when the test ends.
func start(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	return startIn(t, dir, nil, args...)
}

func startIn(t testing.TB, dir string, env []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startProgram(t, self, dir, env, args...)
}

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

// ready reads the process's ready line into line.
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

func (p *process) kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, p.stdout)
		_ = p.cmd.Wait()
	})
}

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

// terminate sends SIGTERM and returns the exit code.
func (p *process) terminate() int {
	p.once.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, p.stdout)
		_ = p.cmd.Wait()
	})
	return p.cmd.ProcessState.ExitCode()
}

// world is a sandbox process, and a runner's directory and configuration.
type world struct {
	t       testing.TB
	dir     string
	sandbox cli.SandboxReadyLine
	charges string
	program string // another version that run and cli use; "": this version
}

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

// newWorldOf starts a sandbox with a fixture.
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

// configure writes perennial.yaml. With natsURL "" the run uses the embedded server.
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

// fault makes the next matching requests at the sandbox fail.
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

// cli runs a command in the world and returns its output and exit code.
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

// get reads a page, whatever its status code.
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
