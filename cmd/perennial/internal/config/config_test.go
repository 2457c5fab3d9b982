package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A limit of 0.99 does not mean "no limit", and 72 without a unit does not mean 72 nanoseconds.
func TestTrap25AmbiguousNumbersAndTimesAreRefused(t *testing.T) {
	for _, c := range []struct{ account, schedule, says string }{
		{"daily_limit_cents: 0.99", "renew_before: 72h", "0.99 is not a whole number"},
		{"daily_limit_cents: 5", "renew_before: 72h, budget_cents: 12.5", "12.5 is not a whole number"},
		{"daily_limit_cents: 5", "renew_before: 72h, budget_cents: 99999999999999999999", "is not a whole number"},
		{"daily_limit_cents: 5", "renew_before: 72h, replace: {enabled: true, max_cents: 4.5}", "4.5 is not a whole number"},
		{"daily_limit_cents: 5", "renew_before: 72", "72 has no unit: write it as 72h or 72s"},
		{"daily_limit_cents: 5", "renew_before: 3 days", `"3 days" is not a time: write it as 3d, 72h, 15m or 30s`},
		{"daily_limit_cents: 5", "renew_before: 30s", "renew_before is 30s"},
		{"reconcile_every: 1", "renew_before: 72h", "1 has no unit"},
		{"warn_before: [24]", "renew_before: 72h", "24 has no unit"},
		{"daily_limit_cents: 5", "schedules: []", `line 4: "schedules" is a key of the configuration, and not one of this place in it`},
		{"daily_limit_cents: 5", "renew_before: 72h, budget_cent: 5", `line 4: "budget_cent" is no key of the configuration, did you mean "budget_cents"?`},
		{"daily_limit_cents: 5", "renew_before: 72h, match: {country: [US]}", `line 4: "country" is no key of the configuration, did you mean "country_code"?`},
		{"daily_limit_cents: 5", "renew_before: 72h, match: {chunk: 5}", `line 4: "chunk" is a key of the configuration, and not one of this place in it: the keys here are country_code, `},
		{"daily_limit_cents: 5", "renew_before: 72h, x: 5", `line 4: "x" is no key of the configuration: the keys here are name, `},
	} {
		_, err := Load(configOf(t, c.account, c.schedule))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %s: %v", c.account, c.schedule, err)
		}
	}
	good, err := Load(configOf(t, "rate_per_second: 0.5", "renew_before: 72h, budget_cents: 1000"))
	if err != nil || good.Schedules[0].BudgetCents != 1000 || good.Accounts["main"].RatePerSecond != 0.5 {
		t.Errorf("%+v %v", good, err)
	}
}

// The test writes every whole number of the configuration in forms that YAML reads as another
// number, or as none.
func TestTrap25OnlyPlainDigitsAreWholeNumbers(t *testing.T) {
	t.Parallel()
	read := func(text string) []fault {
		d := &decoder{lines: map[string]int{}}
		if err := d.document([]byte(text), &Config{}); err != nil {
			t.Fatal(err)
		}
		return d.faults
	}
	for path, field := range everyKey() {
		if !isInteger(field.Type) {
			continue
		}
		for _, value := range []string{"700.00", "0200000", "1e4", "", "null", "~", "1_000", "0x10", "0o17", "0b1", "+5", `"700"`, "'700'", "true", "[700]", ".inf", "7,00", "99999999999999999999"} {
			text, line := textOf(path, value)
			faults := read(text)
			if len(faults) != 1 || faults[0].line != line || !strings.HasPrefix(faults[0].says, strings.ReplaceAll(path, "[]", "[0]")+": ") {
				t.Errorf("%s: %q: %v", path, value, faults)
			}
		}
		text, _ := textOf(path, "30")
		if faults := read(text); len(faults) > 0 {
			t.Errorf("%s: %v", path, faults)
		}
	}
	if faults := read("schedules:\n  - name: keep\n    <<: {budget_cents: 1e4}\n"); len(faults) != 1 || faults[0].line != 3 || !strings.HasPrefix(faults[0].says, "schedules[0].budget_cents: 1e4") {
		t.Errorf("a merged key: %v", faults)
	}
}

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "perennial.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func configOf(t *testing.T, account, schedule string) string {
	t.Helper()
	text := "accounts:\n  main: {base_url: http://127.0.0.1:1, app_id: sbx_app_a, " + account + "}\n" +
		"schedules:\n  - {name: keep, cron: '@daily', duration_days: 30, " + schedule + "}\n"
	return written(t, text)
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// docs/decisions/0013 explains why.
func TestPathsOfAFileLieBesideIt(t *testing.T) {
	const account = "accounts:\n  main: {base_url: http://127.0.0.1:1, app_id: sbx_app_a}\n"
	for head, want := range map[string]string{"data_dir: books\n": "books", "data_dir: ./a/../books\n": "books", "": "perennial-data", "data_dir: /srv/books\n": "/srv/books"} {
		path := written(t, head+account)
		if !filepath.IsAbs(want) {
			want = filepath.Join(filepath.Dir(path), want)
		}
		if c, err := Load(path); err != nil || c.DataDir != want {
			t.Errorf("%q: %+v %v", head, c, err)
		}
		path = written(t, "nats: {url: 'nats://127.0.0.1:1', creds_file: run.creds}\n"+account)
		if c, err := Load(path); err != nil || c.NATS.CredsFile != filepath.Join(filepath.Dir(path), "run.creds") {
			t.Errorf("creds_file: %+v %v", c, err)
		}
	}
}

// No file can set these fields.
func TestWhatTheProgramKnowsIsNoKey(t *testing.T) {
	const account = "{base_url: http://127.0.0.1:1, app_id: sbx_app_a"
	for _, text := range []string{
		"accounts: {main: " + account + "}}\nfile: x\n", "accounts: {main: " + account + "}}\nembedded: true\n", "accounts: {main: " + account + "}}\nrefillevents: true\n",
		"accounts: {main: " + account + ", secret: s}}\n", "accounts: {main: " + account + ", location: UTC}}\n",
	} {
		if _, err := Load(written(t, text)); !isInvalid(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Load(written(t, "accounts: {main: "+account+"}}\n")); err != nil {
		t.Error(err)
	}
}

// The later of two equal keys would silently win, at any depth, in another case, and in a second
// document of the file.
func TestTrap63AKeyThatAppearsTwiceIsRefused(t *testing.T) {
	const head = "accounts:\n  main:\n    base_url: http://127.0.0.1:1\n    app_id: sbx_app_a\n"
	const schedule = "schedules:\n  - name: keep\n    cron: '@daily'\n    renew_before: 72h\n    duration_days: 30\n"
	if _, err := Load(written(t, head+"    daily_limit_cents: 1\n"+schedule+"    budget_cents: 1\n")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a limit":               head + "    daily_limit_cents: 1\n    daily_limit_cents: 999999\n",
		"in another case":       head + "    daily_limit_cents: 1\n    Daily_Limit_Cents: 999999\n",
		"neither as documented": head + "    DAILY_LIMIT_CENTS: 1\n    Daily_Limit_Cents: 999999\n",
		"quoted":                head + "    daily_limit_cents: 1\n    \"daily_limit_cents\": 999999\n",
		"with a blank":          head + "    daily_limit_cents: 1\n    \"daily_limit_cents \": 999999\n",
		"an account":            head + "  main:\n    base_url: http://127.0.0.1:2\n    app_id: sbx_app_b\n",
		"the accounts":          head + head,
		"a budget":              head + schedule + "    budget_cents: 1\n    budget_cents: 0\n",
		"a label":               head + schedule + "    match:\n      labels: {team: red, team: blue}\n",
		"a second document":     head + "    daily_limit_cents: 1\n---\n" + head + "    daily_limit_cents: 999999\n",
		"a second, broken one":  head + "---\n\tx\n",
		"only in another case":  head + "    Daily_Limit_Cents: 999999\n",
		"the first in capitals": strings.ToUpper(head[:8]) + head[8:],
	} {
		if c, err := Load(written(t, text)); err == nil || !isInvalid(err) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

func TestASpanMayBeInDays(t *testing.T) {
	for text, want := range map[string]time.Duration{"3d": 72 * time.Hour, "1d12h": 36 * time.Hour, "72h": 72 * time.Hour, "0d": 0} {
		if got, err := ParseSpan(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, wrong := range []string{"d", "-1d", "1.5d", "1d-2h", "3 days", "1d2", "99999d"} {
		if got, err := ParseSpan(wrong); err == nil {
			t.Errorf("%s is read as %s", wrong, got)
		}
	}
}

// The embedded sandbox needs no credentials, and has one account.
func TestTheEmbeddedSandboxCanBeConfigured(t *testing.T) {
	for text, says := range map[string]string{
		"accounts:\n  trial: {base_url: sandbox:embedded}\n":                                                                              "",
		"accounts:\n  trial: {base_url: sandbox:embedded, app_id: sbx_app_x}\n":                                                           "leave app_id, secret_file and ca_file out",
		"accounts:\n  trial: {base_url: sandbox:embedded}\n  main: {base_url: 'http://127.0.0.1:1', app_id: sbx_app_a, secret_file: s}\n": "the embedded sandbox has one account",
		"accounts:\n  trial: {base_url: sandbox}\n":                                                                                       "base_url",
	} {
		path := filepath.Join(t.TempDir(), "perennial.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(path)
		if says == "" && (err != nil || !c.Embedded || c.Accounts["trial"].Location == nil) {
			t.Errorf("%s: %+v %v", text, c, err)
		}
		if says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// All faults of a file are in one error: those of one schedule, beside an unknown key and a
// missing account.
func TestEveryFaultIsNamedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perennial.yaml")
	const text = `accounts:
  main: {base_url: "http://127.0.0.1:1", app_id: sbx_app_a, secret_file: s}
schedules:
  - {name: keep, account: main, cron: "0 0 1 *", renew_before: 72h, duration_days: 61, budget_cents: -5, colour: red}
  - {name: other, account: shop, cron: "@hourly", renew_before: 72h, duration_days: 30}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path)
	if err == nil {
		t.Fatal("it is taken")
	}
	for _, says := range []string{"has 5 faults", "cron", "duration_days is 61", "cannot be negative", `"colour"`, `"shop", which is not configured`} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("no %s in %v", says, err)
		}
	}
}
