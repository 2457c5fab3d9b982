package crashtest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/config"
)

func TestHelpDoesNotPrintThePasswordOfTheEnvironment(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--help"}, {"order", "--help"}, {"status", "--nope"}, {"nope"}} {
		cmd := exec.Command(self, args...)
		cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), execVariable+"=1", "PERENNIAL_NATS=nats://ops:hunter2@127.0.0.1:1")
		if out, _ := cmd.CombinedOutput(); bytes.Contains(out, []byte("hunter2")) || len(out) == 0 {
			t.Errorf("%v: %s", args, out)
		}
	}
}

// The data directory and the ledger are refused if other users can write them. A secret file that
// is a named pipe ends the start with an error instead of blocking it.
func TestFilesThatOthersCouldChangeAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	data := filepath.Join(w.dir, "data")
	mode := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	mode(data, 0o777)
	if _, errs, code := w.cli("run"); code != cli.ExitFailed || !strings.Contains(errs, "may be written by other users") {
		t.Errorf("exit %d %s", code, errs)
	}
	mode(data, 0o755)
	run, _ := w.run()
	ledgerFile := w.ledgerFile()
	for _, path := range []string{ledgerFile, ledgerFile + "-wal"} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", path, info, err)
		}
	}
	run.terminate()
	mode(ledgerFile, 0o644)
	run, _ = w.run()
	if info, err := os.Stat(ledgerFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	run.terminate()
	mode(ledgerFile, 0o666)
	if _, errs, code := w.cli("run"); code != cli.ExitFailed || !strings.Contains(errs, "other users may write it") {
		t.Errorf("exit %d %s", code, errs)
	}
	mode(ledgerFile, 0o600)
	secret := filepath.Join(w.dir, "main.secret")
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(secret, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := w.cli("run"); code != cli.ExitUsage || !strings.Contains(errs, "is not a file") {
		t.Errorf("exit %d %s", code, errs)
	}
}

// getUnder requests a page under a host name.
func (w *world) getUnder(url, host string) (code int, header http.Header, body string) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	request.Host = host
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(text)
}

// A foreign host name that resolves to this machine reads nothing, as in a DNS rebinding attack.
func TestPagesAreForNamesOfThisMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	text, err := os.ReadFile(filepath.Join(w.dir, "perennial.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("perennial.yaml", strings.Replace(string(text), "http: {listen: 127.0.0.1:0}", "http: {listen: 127.0.0.1:0, hosts: [Perennial.example.com]}", 1), 0o600)
	_, line := w.run()
	get := func(path, host string) (code int, policy string) {
		t.Helper()
		code, header, _ := w.getUnder(line.HTTP+path, host)
		return code, header.Get("Content-Security-Policy")
	}
	for host, code := range map[string]int{
		"": 200, "127.0.0.1:8080": 200, "localhost": 200, "[::1]:8080": 200, "runner:8080": 200, "perennial.example.com": 200, "PERENNIAL.example.com:443": 200,
		"evil.example": 403, "127.0.0.1.evil.example:8080": 403, "perennial.example.com.evil.example": 403,
	} {
		for _, path := range []string{"/metrics", "/readyz?verbose"} {
			if got, _ := get(path, host); got != code {
				t.Errorf("%s under %q: HTTP %d", path, host, got)
			}
		}
		page := http.StatusOK
		if code == http.StatusForbidden {
			page = http.StatusMisdirectedRequest
		}
		if got, _ := get("/login", host); got != page {
			t.Errorf("/login under %q: HTTP %d", host, got)
		}
		if got, _ := get("/livez", host); got != http.StatusOK {
			t.Errorf("/livez under %q: HTTP %d", host, got)
		}
	}
	if _, policy := get("/", ""); !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "default-src 'none'") {
		t.Error(policy)
	}
}

// Load balancers use any host name, and need only the status code. The reason of a pause is for
// this machine only.
func TestReadinessHasNoReasonsUnderAForeignName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	_, line := w.run()
	get := func(path, host string) (code int, body string) {
		t.Helper()
		code, _, body = w.getUnder(line.HTTP+path, host)
		return code, body
	}
	if code, body := get("/readyz", "evil.example"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("HTTP %d %s", code, body)
	}
	if _, errs, code := w.cli("account", "pause", "--by", "ann", "--reason", "a-merger"); code != cli.ExitDone {
		t.Fatalf("exit %d %s", code, errs)
	}
	await(t, "the pause is on /readyz", func() bool {
		code, body := get("/readyz", "127.0.0.1")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "a-merger")
	})
	for path, says := range map[string]string{"/readyz": "not ready\n", "/livez": "ok\n"} {
		if code, body := get(path, "evil.example"); body != says || path == "/readyz" && code != http.StatusServiceUnavailable {
			t.Errorf("%s: HTTP %d %s", path, code, body)
		}
	}
	for _, path := range []string{"/readyz?verbose", "/readyz?x", "/readyz/", "//readyz"} {
		if _, body := get(path, "evil.example"); strings.Contains(body, "a-merger") {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// A secret file with other content is refused, and the content is not printed.
func TestASecretIsOneLineOfText(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir(), sandbox: cli.SandboxReadyLine{Sandbox: "http://127.0.0.1:1"}}
	w.configure("", "")
	for secret, says := range map[string]string{
		"hunter2\nhunter3": "one line", "hunter2\r\nuser: x\n": "one line", "hunter2\x00": "U+0000", "hunter\x1b[2J2": "U+001B", "hunter2\x7f3": "U+007F",
		"hunter2\u0085hunter3": "U+0085", "hunter2\xff": "not text in UTF-8",
	} {
		w.write("main.secret", secret, 0o600)
		for _, args := range [][]string{{"wallet"}, {"account", "rotate", "--secret-file", "main.secret"}} {
			out, errs, code := w.cli(args...)
			if code != cli.ExitUsage || !strings.Contains(errs, says) || strings.Contains(out+errs, "hunter") {
				t.Errorf("%q, %v: exit %d %s%s", secret, args, code, out, errs)
			}
		}
	}
	p := startIn(t, w.dir, []string{"PERENNIAL_MAIN_SECRET=hunter2\nhunter3"}, "wallet")
	if code := p.wait(); code != cli.ExitUsage || !strings.Contains(p.stderr.String(), "PERENNIAL_MAIN_SECRET has a line break") || strings.Contains(p.stderr.String(), "hunter") {
		t.Errorf("exit %d %s", code, p.stderr)
	}
	w.write("main.secret", " \t"+worldSecret+" \r\n", 0o600)
	if got, err := config.ReadSecret(filepath.Join(w.dir, "main.secret")); got != worldSecret || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

// Otherwise requests would silently bypass the configured proxy.
func TestAProxyThatCannotBeReadIsNotPassedBy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, proxy := range []string{"http://user:hunter2@[::1", "://hunter2", "ftp://hunter2:21", "http://", "x:hunter2@host:99999", "http://x:hunter2@host:0", "http://x:hunter2@host:65536", "bad%%hunter2"} {
		cmd := exec.Command(self, "wallet")
		cmd.Dir, cmd.Env = w.dir, append(os.Environ(), execVariable+"=1", "HTTPS_PROXY="+proxy)
		if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("HTTPS_PROXY")) || bytes.Contains(out, []byte("hunter2")) {
			t.Errorf("%s: %v %s", proxy, err, out)
		}
	}
}

// A larger event would never be published, and every later event would silently stay in the ledger.
func TestAServerThatTakesNoWholeEventIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	n := newNATSProcess(t, w)
	n.more = "max_payload: 65536"
	n.start("pw")
	w.configure(n.url(), "")
	_, line := w.run()
	w.readySays(line, "max_payload of the NATS server is 64 KiB")
}

func TestWordsThatMoveTheCursorAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.run()
	for _, args := range [][]string{
		{"account", "pause", "--by", "ann\x1b[2J", "--reason", "x"}, {"account", "pause", "--by", "ann", "--reason", "x\nperennial: done"},
		{"ledger", "record", "--kind", "top-up", "--cents", "5", "--by", "ann", "--reason", "x\x1b"}, {"proxies", "retire", "px_1", "--by", "a\tb", "--reason", "x"},
	} {
		if _, errs, code := w.cli(args...); code == 0 || !strings.Contains(errs, "cannot be printed") {
			t.Errorf("%q: exit %d %s", args, code, errs)
		}
	}
}
