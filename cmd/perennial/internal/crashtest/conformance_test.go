package crashtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/upstream/conformance"
)

func (w *world) conform(args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	return w.cli(append([]string{"conformance", "--base-url", w.sandbox.Sandbox, "--app-id", worldAppID, "--secret-file", "main.secret"}, args...)...)
}

func TestConformanceOfTheSandbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	out, errs, code := w.conform("--section", "order.plain, order.refused, control.poor", "--control", w.sandbox.Control, "--junit", "report.xml", "-o", "json")
	if code != cli.ExitDone || !strings.Contains(errs, "spends at most ") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	var report conformance.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Count(conformance.OK) < 35 || report.SpentCents <= 0 || report.SpentCents > report.MaxCents {
		t.Errorf("%d ok, %d of %d cents spent", report.Count(conformance.OK), report.SpentCents, report.MaxCents)
	}
	junit, err := os.ReadFile(filepath.Join(w.dir, "report.xml"))
	if err != nil || !strings.Contains(string(junit), `name="order.plain.debited"`) {
		t.Errorf("%v\n%.300s", err, junit)
	}
	out, errs, code = w.conform("--max-cents", "0")
	if !strings.Contains(out, "spends at most 0.00 USD") || !strings.Contains(out, "spent 0.00 USD of at most 0.00 USD") {
		t.Errorf("exit %d\n%.300s%s", code, out, errs)
	}
	w.write("keys.json", `[{"role":"revoked","app_id":"sbx_app_nobody","secret":"x"}]`, 0o600)
	if keyed, _, code := w.conform("--keys", "keys.json", "--section", "auth.revoked.account, wallet.balance", "-v"); code != cli.ExitFailed || !strings.Contains(keyed, "3 ok, 1 differ") {
		t.Errorf("exit %d\n%s", code, keyed)
	}
	if strings.Contains(out+errs+string(junit), worldSecret) {
		t.Error("the secret was printed")
	}
}

// A server that differs gives exit code 1 and a list of the differences. An unreachable server
// gives 5.
func TestConformanceExitCodes(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	w.write("main.secret", "x", 0o600)
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(out, `{"success":true,"code":"ok","data":{"account_id":"acc_1"}}`)
	}))
	t.Cleanup(server.Close)
	w.sandbox.Sandbox = server.URL
	out, errs, code := w.conform("--section", "account")
	if code != cli.ExitFailed || !strings.Contains(out, "DIFFERS IN") || !strings.Contains(out, "account.email ") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for name, c := range map[string]struct {
		args []string
		want int
	}{
		"no server":       {[]string{"--base-url", "http://127.0.0.1:1"}, cli.ExitUnreachable},
		"live key":        {[]string{"--app-id", "live_app_x"}, cli.ExitUsage},
		"no such section": {[]string{"--section", "nothing"}, cli.ExitUsage},
		"no such file":    {[]string{"--secret-file", "none"}, cli.ExitUsage},
		"no address":      {[]string{"--base-url", ""}, cli.ExitUsage},
		"plain http":      {[]string{"--base-url", "http://api.example.com"}, cli.ExitUsage},
		"bad keys":        {[]string{"--keys", "main.secret"}, cli.ExitUsage},
		"negative sum":    {[]string{"--max-cents", "-1"}, cli.ExitUsage},
	} {
		if out, errs, code := w.conform(c.args...); code != c.want || errs == "" {
			t.Errorf("%s: exit %d, want %d\n%s%s", name, code, c.want, out, errs)
		}
	}
}

// Ctrl-C ends a run immediately, whatever the server does.
func TestConformanceIsInterrupted(t *testing.T) {
	t.Parallel()
	asked, stop := make(chan struct{}, 100), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	}))
	t.Cleanup(func() { close(stop); server.Close() })
	dir := t.TempDir()
	(&world{t: t, dir: dir}).write("main.secret", "x", 0o600)
	p := start(t, dir, "conformance", "--base-url", server.URL, "--app-id", worldAppID, "--secret-file", "main.secret")
	<-asked
	if code := p.terminate(); code != cli.ExitInterrupted {
		t.Errorf("exit %d\n%s", code, p.stderr)
	}
}

func TestConformanceListsItsChecks(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	out, errs, code := w.cli("conformance", "--list", "-o", "json")
	if n := strings.Count(out, "\n"); code != cli.ExitDone || n < 250 {
		t.Errorf("exit %d, %d checks\n%s", code, n, errs)
	}
}
