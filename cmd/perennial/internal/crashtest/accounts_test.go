package crashtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// twoAccounts configures the accounts main and other, each with a schedule and a runner.
func twoAccounts(t testing.TB) *world {
	t.Helper()
	w := newWorld(t, 4)
	w.write("other.secret", "second-canary-9dK4", 0o600)
	w.configure("", fmt.Sprintf(`  other: {base_url: %s, app_id: sbx_app_other, secret_file: other.secret}
schedules:
  - {name: keep, account: main, cron: "0 0 1 1 *", renew_before: 72h, duration_days: 30}
  - {name: hold, account: other, cron: "0 0 1 1 *", renew_before: 72h, duration_days: 30}
`, w.sandbox.Sandbox))
	return w
}

// accountsOf returns the account of each line of a JSON output.
func accountsOf(t testing.TB, out string) (names []string) {
	t.Helper()
	for line := range strings.Lines(out) {
		var row struct {
			Account string `json:"account"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		names = append(names, row.Account)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// `status ID` finds the account with and without a runner. If several accounts have the ID, the
// command asks for an account.
func TestStatusFindsAnIDInWhicheverAccountHasIt(t *testing.T) {
	t.Parallel()
	w := twoAccounts(t)
	run, _ := w.run()
	w.mustCLI("order", "--item", "off_us_1=1", "--id", "only", "--wait", "-a", "other")
	for _, account := range []string{"main", "other"} {
		w.mustCLI("order", "--item", "off_us_1=1", "--id", "both", "--wait", "-a", account)
	}
	check := func() {
		t.Helper()
		if out := w.mustCLI("status", "only"); !strings.Contains(out, "account  other") {
			t.Errorf("it does not say the account:\n%s", out)
		}
		if got := accountsOf(t, w.mustCLI("status", "only", "-o", "json")); got[0] != "other" {
			t.Errorf("account %q", got)
		}
		if out, errs, code := w.cli("status", "both"); code != cli.ExitUsage || !strings.Contains(errs, "main, other") || out != "" {
			t.Errorf("exit %d\n%s%s", code, out, errs)
		}
		if out := w.mustCLI("status", "both", "-a", "main"); strings.Contains(out, "account ") {
			t.Errorf("an account that was named is said again:\n%s", out)
		}
		if _, errs, code := w.cli("status", "nothing-of-the-kind"); code != cli.ExitFailed || strings.Count(errs, "\n") != 1 {
			t.Errorf("exit %d\n%s", code, errs)
		}
	}
	check()
	run.terminate()
	check()
}

// The output also names the account that does not answer.
func TestAnAccountThatDoesNotAnswerHidesNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.run() // serves main only
	w.mustCLI("renew", "px_1", "--id", "r1", "--wait")
	w.write("other.secret", "second-canary-9dK4", 0o600)
	w.configure("", fmt.Sprintf("  other: {base_url: %s, app_id: sbx_app_none, secret_file: other.secret}\n", w.sandbox.Sandbox))
	for _, command := range []string{"sweep list", "status", "status r1", "review list", "proxies list", "wallet", "ledger balance"} {
		args := strings.Fields(command)
		out, errs, code := w.cli(args...)
		if code != cli.ExitPartly || !strings.Contains(errs, "account other: ") || !strings.Contains(errs, "1 of 2 accounts") {
			t.Errorf("%s: exit %d\n%s%s", command, code, out, errs)
		}
		if command == "status" && !strings.Contains(out, "r1") {
			t.Errorf("main is not shown:\n%s", out)
		}
		_, errs, _ = w.cli(append(args, "-o", "json")...)
		for line := range strings.Lines(errs) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s -o json says on stderr %q", command, line)
			}
		}
	}
	if out, errs, code := w.cli("status", "-a", "other"); code != cli.ExitUnreachable || out != "" {
		t.Errorf("one account that does not answer: exit %d\n%s%s", code, out, errs)
	}
}

// The runner's other accounts work, and health names the file. If the runner has no other account,
// the start fails with the error.
func TestASecretThatCannotBeReadStopsItsAccountAlone(t *testing.T) {
	t.Parallel()
	w := twoAccounts(t)
	if err := os.Chmod(filepath.Join(w.dir, "other.secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	run, line := w.run()
	w.mustCLI("renew", "px_1", "--wait", "-a", "main")
	w.readySays(line, "other: ")
	w.readySays(line, "other.secret")
	w.stopped(run)
	if err := os.Chmod(filepath.Join(w.dir, "main.secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := w.cli("run"); code != cli.ExitUsage || !strings.Contains(errs, "main.secret") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}
