package crashtest

import (
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/upstream/sandbox"
)

// The commands show money, offers, orders and proxies. They show credentials only with --reveal.
func TestTheProviderCanBeLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	process, _ := w.run()
	if _, errs, code := w.cli("order", "--item", "off_us_1=1", "--id", "buy", "--wait"); code != 0 {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	for _, c := range []struct{ args, want string }{
		{"wallet -o json", `"cash_value":false`},
		{"offers -o json", `"offer_code":"off_us_1"`},
		{"orders -o json", `"order_no":"ord_`},
		{"proxies list --live -o json", `"proxy_id":"px_2"`},
		{"proxies get px_1 -o json", `"expires_at":"2`},
	} {
		out, errs, code := w.cli(strings.Fields(c.args)...)
		if code != 0 || !strings.Contains(out, c.want) || strings.Contains(out, "pass-") {
			t.Errorf("%s: exit %d\n%s%s", c.args, code, out, errs)
		}
	}
	out, errs, code := w.cli("proxies", "get", "px_1", "--reveal")
	if code != 0 || strings.Count(out, "pass-px_1-secret") != 3 || strings.Contains(errs, "pass-") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if _, errs, code = w.cli("proxies", "get", "absent"); code != cli.ExitFailed || !strings.Contains(errs, "proxy_not_found") {
		t.Errorf("exit %d: %s", code, errs)
	}
	process.terminate()
	if text := process.stderr.String(); strings.Contains(text, "pass-") || strings.Contains(text, sandbox.DemoSandboxSecret) {
		t.Errorf("something secret is in the log: %s", text)
	}
}
