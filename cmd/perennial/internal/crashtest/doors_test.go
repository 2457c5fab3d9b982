package crashtest

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/web"
)

// Only health needs no login, and the metrics need their token. A user name in a header counts only
// if it comes from a trusted address.
func TestARunLocksItsPort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	text, err := os.ReadFile(filepath.Join(w.dir, "perennial.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	trusting := func(addresses string) {
		t.Helper()
		w.write("perennial.yaml", strings.Replace(string(text), "http: {listen: 127.0.0.1:0}",
			"http: {listen: 127.0.0.1:0, identity: {header: X-Person, trusted: ["+addresses+"], people: [{name: ada, role: operator}]}}", 1), 0o600)
	}
	trusting("192.0.2.0/24")
	w.write("metrics.token", "a-token\n", 0o644)
	if _, errs, code := w.cli("run", "--metrics-token-file", "metrics.token"); code != cli.ExitUsage || !strings.Contains(errs, "may be read by others") {
		t.Errorf("a token that others may read: exit %d\n%s", code, errs)
	}
	w.write("metrics.token", "a-token\n", 0o600)
	if err := os.Chmod(filepath.Join(w.dir, "metrics.token"), 0o600); err != nil {
		t.Fatal(err)
	}
	run, line := w.run("--metrics-token-file", "metrics.token")
	w.readySays(line, ready) // /metrics would need the token
	ask := func(path string, header ...string) (code int, text string) {
		t.Helper()
		return w.asking(line.HTTP+path, header...)
	}
	for path, want := range map[string]int{
		"/livez": 200, "/readyz": 200, "/nodes": 401, "/metrics": 401, "/login": 200, "/": 303, "/runners": 303, "/a/main/dead": 303, "/changes": 401, "/debug/pprof/": 404,
	} {
		for _, forwarded := range []string{"127.0.0.1", "192.0.2.1"} {
			if code, text := ask(path, "X-Person", "ada", "X-Forwarded-For", forwarded); code != want || strings.Contains(text, "px_1") {
				t.Errorf("%s: %d %s", path, code, text)
			}
		}
	}
	if code, text := ask("/metrics", "Authorization", "Bearer a-token"); code != http.StatusOK || !strings.Contains(text, "perennial_ready") {
		t.Errorf("with the token: %d", code)
	}
	if code, _ := ask("/metrics", "Authorization", "Bearer another"); code != http.StatusUnauthorized {
		t.Errorf("with another: %d", code)
	}
	run.terminate()
	if strings.Contains(run.stderr.String(), "a-token") {
		t.Error("the log has the token")
	}

	trusting("127.0.0.1/32")
	_, line = w.run()
	awaitReady(t, line)
	if code, text := ask("/a/main/proxies", "X-Person", "ada"); code != http.StatusOK || !strings.Contains(text, "ada") {
		t.Errorf("from the proxy: %d %s", code, text)
	}
	for name, want := range map[string]int{"": 303, "eve": 403} {
		if code, text := ask("/a/main/proxies", "X-Person", name); code != want || strings.Contains(text, "px_1") {
			t.Errorf("%q from the proxy: %d %s", name, code, text)
		}
	}
}

// nodesOf reads /nodes of a run with the key from its data directory.
func (w *world) nodesOf(line daemon.ReadyLine) string {
	w.t.Helper()
	data := line.Data
	if !filepath.IsAbs(data) {
		data = filepath.Join(w.dir, data)
	}
	key, err := web.Key(daemon.KeyFile(data), false)
	if err != nil {
		w.t.Fatal(err)
	}
	code, text := w.asking(line.HTTP+"/nodes", "Authorization", "Bearer "+web.Link(key, web.Person{Name: "ada", Role: web.Viewer}, time.Now()))
	if code != http.StatusOK {
		w.t.Fatalf("/nodes: %d %s", code, text)
	}
	return text
}

// asking gets a page with headers, given as names and values, and follows no redirect.
func (w *world) asking(address string, header ...string) (code int, text string) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	client := http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
